package report

import (
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"time"
)

// EventKind names an event of a run.
type EventKind string

// The events.
const (
	RunStarted   EventKind = "run_started"
	StageStarted EventKind = "stage_started"
	StepStarted  EventKind = "step_started"
	StepSays     EventKind = "step_says"
	StepEnded    EventKind = "step_ended"
	CheckJudged  EventKind = "check_judged"
	CleanupBegun EventKind = "cleanup_begun"
	RunEnded     EventKind = "run_ended"
)

// Event is one line of events.ndjson, and one thing to show.
type Event struct {
	Seq    int64     `json:"seq"`
	At     time.Time `json:"at"`
	MS     int64     `json:"ms"` // since the start of the run
	Kind   EventKind `json:"event"`
	Stage  string    `json:"stage,omitempty"`
	Step   *Step     `json:"step,omitempty"`
	Check  *Check    `json:"check,omitempty"`
	Text   string    `json:"text,omitempty"`
	Judged bool      `json:"judged,omitempty"` // of a stage: its checks count
}

// Sink takes events, in order, from one goroutine at a time.
type Sink interface{ Event(Event) }

// EventLog numbers events, writes them to a file and passes them on.
type EventLog struct {
	mu    sync.Mutex
	out   io.Writer // guarded by mu
	next  Sink
	start time.Time
	seq   int64 // guarded by mu
	err   error // guarded by mu: the first failure to write
}

// NewEventLog begins a log; next may be nil.
func NewEventLog(out io.Writer, start time.Time, next Sink) *EventLog {
	return &EventLog{out: out, next: next, start: start}
}

// Add writes an event and passes it on.
func (l *EventLog) Add(e Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	l.seq++
	e.Seq, e.At, e.MS = l.seq, now.UTC(), now.Sub(l.start).Milliseconds()
	data, err := json.Marshal(e)
	if err == nil {
		_, err = l.out.Write(append(data, '\n'))
	}
	if err != nil && l.err == nil {
		l.err = fmt.Errorf("write event: %w", err)
	}
	if l.next != nil {
		l.next.Event(e)
	}
}

// Err is the first failure to write.
func (l *EventLog) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}
