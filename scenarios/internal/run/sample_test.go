package run

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/ister-mq/ister/scenarios/internal/history"
	"github.com/ister-mq/ister/scenarios/internal/report"
	"github.com/ister-mq/ister/setups"
)

// What cannot be read is null with a reason, and a broker that hangs neither
// stops the sampling nor the end of it.
func TestSamplerTellsWhatItCouldNotRead(t *testing.T) {
	hang := make(chan struct{})
	stuck := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-hang:
		case <-r.Context().Done():
		}
	}))
	defer stuck.Close()
	defer close(hang)
	recorder := history.NewRecorder()
	events := make(chan report.Event, 100)
	s := startSampler(context.Background(), &sampler{
		nameOf: func(int64) (string, bool) { return "", false }, progress: recorder.Progress, add: func(e report.Event) { events <- e }, actor: "test",
	})
	first := (<-events).Sample
	s.see([]setups.Broker{{Name: "b1", Admin: strings.TrimPrefix(stuck.URL, "http://"), Running: true}})
	recorder.EndSend(recorder.BeginSend(history.Send{Load: "l"}), history.OK, 0, 0, -1, 1, nil)
	var hung *report.Sample
	for hung == nil || hung.Unread["brokers"] == first.Unread["brokers"] {
		hung = (<-events).Sample
	}
	s.stop()
	if first.Brokers != nil || first.GapMS != nil || first.Voters != nil || first.Unread["brokers"] != "the cluster has not been started" || first.Unread["gap_ms"] != "no load has begun" {
		t.Errorf("before anything: %+v", first)
	}
	if hung.Brokers != nil || hung.Moves != nil || hung.GapMS == nil || !strings.Contains(hung.Unread["voters"], "no answer within") {
		t.Errorf("with a broker that hangs: %+v", hung)
	}
}

func TestClientsTellsRatesBetweenTwoLooks(t *testing.T) {
	out := report.Sample{Unread: map[string]string{}}
	clients(history.Progress{At: 1e9, Sent: 10, Acked: 5, Delivered: 1, AckNS: 5e6}, history.Progress{At: 3e9, Sent: 30, Acked: 25, Delivered: 2, AckNS: 45e6, GapNS: 7e6}, &out)
	if *out.ProduceRate != 10 || *out.ConsumeRate != 0.5 || *out.AckMS != 2 || *out.GapMS != 7 || len(out.Unread) != 0 {
		t.Errorf("%+v", out)
	}
	stalled := report.Sample{Unread: map[string]string{}}
	clients(history.Progress{At: 1e9, Sent: 10, Acked: 5}, history.Progress{At: 2e9, Sent: 10, Acked: 5, GapNS: 1e9}, &stalled)
	if *stalled.ProduceRate != 0 || stalled.AckMS != nil || stalled.Unread["ack_ms"] == "" || *stalled.GapMS != 1000 {
		t.Errorf("stalled: %+v", stalled)
	}
}

// A day leaves so many samples that its events stay some megabytes.
func TestSamplesThinOut(t *testing.T) {
	n := 0
	for age := time.Duration(0); age < 24*time.Hour; age += samplePace(age) {
		n++
	}
	if n < 10_000 || n > 20_000 {
		t.Errorf("%d samples in a day", n)
	}
	if samplePace(0) != 500*time.Millisecond {
		t.Errorf("a run begins at %s", samplePace(0))
	}
}
