package report

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
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
	RunPaused    EventKind = "run_paused"
	RunResumed   EventKind = "run_resumed"
	RunEnded     EventKind = "run_ended"
	Sampled      EventKind = "sampled" // a look at the cluster and its clients
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
	Pause  *Pause    `json:"pause,omitempty"`
	Sample *Sample   `json:"sample,omitempty"`
	Text   string    `json:"text,omitempty"`
	Judged bool      `json:"judged,omitempty"` // of a stage: its checks count
}

// Pause is a stop between two steps, in which the cluster and its load go on.
type Pause struct {
	Number  int    `json:"number"` // from 1
	Failed  bool   `json:"failed"` // something failed; else it was asked for
	Stage   string `json:"stage"`
	Step    string `json:"step,omitempty"` // that comes next, or that failed; none: a check failed
	Message string `json:"message"`
	// What the step does, with what the run knows now; "" where no step comes.
	Use       string   `json:"use,omitempty"`
	Risk      string   `json:"risk,omitempty"`
	Command   string   `json:"command,omitempty"`
	Bootstrap []string `json:"bootstrap,omitempty"` // Kafka addresses of the brokers that run
	Admin     []string `json:"admin,omitempty"`     // their admin endpoints
	Evidence  []string `json:"evidence,omitempty"`  // where to look after a failure
	Repro     string   `json:"repro,omitempty"`     // the run again, after a failure
	Next      []Way    `json:"next"`
}

// Way is a way to go on.
type Way struct {
	Command string `json:"command"`
	Why     string `json:"why"`
}

// Lines is the pause as text: what happened, how to reach the cluster, how to go
// on.
func (p Pause) Lines() []string {
	lines := wrap("PAUSED "+p.Message, Width)
	if p.Command != "" {
		lines = append(lines, "       does      "+p.Command)
	}
	if len(p.Bootstrap) > 0 {
		lines = append(lines, "       bootstrap "+strings.Join(p.Bootstrap, ","), "       admin     "+strings.Join(p.Admin, ","))
	}
	for _, file := range p.Evidence {
		lines = append(lines, "       evidence  "+file)
	}
	if p.Repro != "" {
		lines = append(lines, "       repro     "+p.Repro)
	}
	for _, way := range p.Next {
		lines = append(lines, fmt.Sprintf("       %s  # %s", way.Command, way.Why))
	}
	return lines
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
