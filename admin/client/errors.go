package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"connectrpc.com/connect"

	"github.com/ister-mq/ister/admin/adminv1"
)

// Refusal is an expected "no" of the cluster.
type Refusal struct {
	Kind    adminv1.Refusal_Kind
	Reason  string // stable UPPER_SNAKE code, listed in adminv1.Reason_Code
	Subject string
	Message string
	Advice  string
	// Blockers are all findings that stand in the way, where there are several.
	Blockers []*adminv1.Finding
	// Controller is the node to ask instead, where known; 0 otherwise.
	Controller int32
}

// Error implements error: "REASON: message; advice".
func (r *Refusal) Error() string {
	s := r.Reason + ": " + r.Message
	if r.Advice != "" {
		s += "; " + r.Advice
	}
	return s
}

// AsRefusal returns the refusal in err's chain, or nil.
func AsRefusal(err error) *Refusal {
	var r *Refusal
	if errors.As(err, &r) {
		return r
	}
	return nil
}

// IsReason reports whether err is a refusal with this reason code.
func IsReason(err error, reason string) bool {
	r := AsRefusal(err)
	return r != nil && r.Reason == reason
}

// The reasons that the client itself gives.
const (
	// ReasonOutcomeUnknown: a call that is not safe to repeat was sent and its
	// answer was lost.
	ReasonOutcomeUnknown = "OUTCOME_UNKNOWN"
	reasonNoController   = "NO_CONTROLLER"
	reasonNodeNotReady   = "NODE_NOT_READY"
	reasonInvalid        = "INVALID_ARGUMENT"
	reasonInternal       = "INTERNAL"
)

// Unreachable: no endpoint answered; nothing was sent.
type Unreachable struct {
	Endpoints []string
	Err       error // of the last one tried
}

// Error implements error.
func (u *Unreachable) Error() string {
	return fmt.Sprintf("no answer from %s: %s", strings.Join(u.Endpoints, ", "), plainCause(u.Err))
}

// Unwrap gives the fault.
func (u *Unreachable) Unwrap() error { return u.Err }

// Advice says what to do.
func (u *Unreachable) Advice() string {
	return "check that a broker runs there (its --admin-addr, by default port 50051), or name another with --endpoint or " + EndpointVariable
}

// NotAdmin: something answered that is not the admin API.
type NotAdmin struct {
	Endpoint string
	Status   int // of HTTP; 0 when the answer was not even HTTP
	Err      error
}

// Error implements error.
func (n *NotAdmin) Error() string {
	if n.Status != 0 {
		return fmt.Sprintf("%s answered with HTTP status %d, which is not the admin API of this version", n.Endpoint, n.Status)
	}
	return fmt.Sprintf("%s answered with something that is not the admin API: %v", n.Endpoint, n.Err)
}

// Unwrap gives the fault.
func (n *NotAdmin) Unwrap() error { return n.Err }

// Advice says what to do.
func (n *NotAdmin) Advice() string {
	return "use the broker's --admin-addr (by default port 50051), not its Kafka, raft or metrics port"
}

// refusalOf turns an answer of the API into a refusal, or nil if err is not one.
func refusalOf(err *connect.Error) *Refusal {
	for _, detail := range err.Details() {
		value, valueErr := detail.Value()
		if valueErr != nil {
			continue
		}
		if r, ok := value.(*adminv1.Refusal); ok {
			return &Refusal{Kind: r.GetKind(), Reason: r.GetReason(), Subject: r.GetSubject(), Message: r.GetMessage(), Advice: r.GetAdvice(), Blockers: r.GetBlockers(), Controller: r.GetController()}
		}
	}
	return nil
}

// plainCause shortens a network error to what a person needs.
func plainCause(err error) string {
	var op *net.OpError
	if errors.As(err, &op) && op.Err != nil {
		switch {
		case op.Op == "dial" && op.Addr == nil: // a name that has no address
			return op.Err.Error()
		case op.Op == "dial":
			return "connect " + op.Addr.String() + ": " + strings.TrimPrefix(op.Err.Error(), "connect: ")
		}
		return op.Op + ": " + op.Err.Error()
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return "the time ran out"
	}
	return err.Error()
}

// neverSent reports a failure before any byte of the call left.
func neverSent(err error) bool {
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Op == "dial"
	}
	var dns *net.DNSError
	return errors.As(err, &dns)
}
