package controlplane

import (
	"errors"
	"testing"

	"github.com/ister-mq/ister/broker/internal/peer"
	"github.com/ister-mq/ister/broker/internal/refusal"
)

// A request that may have been carried out stays so, whatever later attempts met:
// NO_CONTROLLER would say that nothing happened.
func TestAttemptsKeepTheirDoubt(t *testing.T) {
	cut := &peer.CallError{Sent: true, Err: errors.New("connection reset")}
	refusedDial := &peer.CallError{Err: errors.New("connection refused")}
	for _, c := range []struct {
		name     string
		failures []error
		want     refusal.Reason
	}{
		{"never sent", []error{errNoController, refusedDial}, refusal.NoController},
		{"sent last", []error{refusedDial, cut}, refusal.OutcomeUnknown},
		{"sent, then nobody there", []error{cut, errNoController, refusedDial}, refusal.OutcomeUnknown},
		{"left office, then no controller", []error{refusal.New(refusal.OutcomeUnknown, "", "lost the office", ""), errNoController}, refusal.OutcomeUnknown},
	} {
		var tried attempts
		for _, err := range c.failures {
			if final := tried.failed(err, "remove", func() bool { return true }); final != nil {
				t.Fatalf("%s: %v ended the attempts with %v", c.name, err, final)
			}
		}
		if got := tried.gaveUp(c.failures[len(c.failures)-1]); !refusal.Is(got, c.want) {
			t.Errorf("%s: got %v, want %s", c.name, got, c.want)
		}
	}
}

func TestAttemptsEnd(t *testing.T) {
	cut := &peer.CallError{Sent: true, Err: errors.New("connection reset")}
	for _, c := range []struct {
		name       string
		err        error
		repeatable bool
		want       refusal.Reason
	}{
		{"a refusal is the answer", refusal.New(refusal.NodeNotFound, "node 9", "there is none", "look"), true, refusal.NodeNotFound},
		{"what must not be sent twice", cut, false, refusal.OutcomeUnknown},
	} {
		var tried attempts
		if got := tried.failed(c.err, "add-node", func() bool { return c.repeatable }); !refusal.Is(got, c.want) {
			t.Errorf("%s: got %v, want %s", c.name, got, c.want)
		}
	}
}
