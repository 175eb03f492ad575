package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/ister-mq/ister/scenarios/internal/report"
	"github.com/ister-mq/ister/scenarios/internal/spec"
	"github.com/ister-mq/ister/scenarios/internal/verb"
)

// Pause says when a run stops between its steps and waits for an Order. The
// runner stays, as the owner of the brokers and the load.
type Pause string

// The choices.
const (
	PauseNever     Pause = "never"
	PauseOnFailure Pause = "on-failure" // of a step, a criterion or a guard
	PauseEach      Pause = "each"       // before every step, and on failure
)

// PauseMax is how long a pause lasts by default before the run is ended: brokers
// and load must not stay for ever.
const PauseMax = time.Hour

// StateFile is the name of the state in a run's directory.
const StateFile = "state.json"

// State is where a run stands, for those who want to go on with it.
type State struct {
	SchemaVersion int           `json:"schema_version"`
	RunID         string        `json:"run_id"`
	State         string        `json:"state"` // running, paused or ended
	Since         time.Time     `json:"since"`
	Pause         *report.Pause `json:"pause,omitempty"` // the present one
	StepsLeft     []string      `json:"steps_left"`      // in their order
}

// The states of a run.
const (
	stateRunning = "running"
	statePaused  = "paused"
	stateEnded   = "ended"
)

// Paused reports that the run waits for an order.
func (s *State) Paused() bool { return s.State == statePaused && s.Pause != nil }

// LoadState reads the state of the run in dir.
func LoadState(dir string) (*State, error) {
	var s State
	data, err := os.ReadFile(filepath.Join(dir, StateFile))
	if err == nil {
		err = json.Unmarshal(data, &s)
	}
	if err != nil {
		return nil, fmt.Errorf("read the state of the run: %w", err)
	}
	if s.SchemaVersion != 1 {
		return nil, fmt.Errorf("%s has schema version %d: this build reads 1", filepath.Join(dir, StateFile), s.SchemaVersion)
	}
	return &s, nil
}

func (e *engine) saveState(state string, pause *report.Pause) error {
	s := State{SchemaVersion: 1, RunID: e.record.ID, State: state, Since: time.Now().UTC(), Pause: pause, StepsLeft: append([]string{}, e.left...)}
	data, err := json.MarshalIndent(s, "", "  ")
	path := filepath.Join(e.dir, StateFile)
	if err == nil {
		err = os.WriteFile(path+".new", append(data, '\n'), 0o644)
	}
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		_ = os.Remove(path + ".new") // half of it
		return fmt.Errorf("write the state of the run: %w", err)
	}
	return nil
}

// Order is what a paused run is told.
type Order struct {
	// Do is "step": do the next step, or the failed one again; or "resume": go on,
	// and pause on failure only.
	Do string `json:"do"`
	// Until, with "step", is the last step before the next pause; "" the next one.
	Until string `json:"until,omitempty"`
}

// The orders.
const (
	doStep   = "step"
	doResume = "resume"
)

// StepOrder asks for the next step, or for all up to a step.
func StepOrder(until string) Order { return Order{Do: doStep, Until: until} }

// ResumeOrder asks to go on.
func ResumeOrder() Order { return Order{Do: doResume} }

func orderFile(dir string, pause int) string {
	return filepath.Join(dir, "orders", fmt.Sprintf("%d.json", pause))
}

// Give gives a paused run its order, for the pause of the given number. Each
// pause takes one order: a second is refused, whoever gives it.
func Give(dir string, pause int, order Order) error {
	path := orderFile(dir, pause)
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err != nil {
		return fmt.Errorf("give an order: %w", err)
	}
	draft, err := os.CreateTemp(filepath.Dir(path), "draft-*")
	if err != nil {
		return fmt.Errorf("give an order: %w", err)
	}
	defer os.Remove(draft.Name())
	err = json.NewEncoder(draft).Encode(order)
	if closeErr := draft.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Link(draft.Name(), path) // whole, and only if there is none
	}
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("pause %d has been told already how to go on", pause)
	}
	if err != nil {
		return fmt.Errorf("give an order: %w", err)
	}
	return nil
}

// errExpired: nobody gave an order in time.
var errExpired = errors.New("nobody went on with a pause")

// pauseAt pauses at a step, and says what the step would do.
func (e *engine) pauseAt(ctx context.Context, s *spec.Step, p report.Pause) (Order, error) {
	p.Step, p.Use, p.Risk = s.ID, s.Use, string(s.Verb.Risk)
	if v, ok := verb.Lookup(s.Use); ok {
		if with, err := e.inputs(s); err == nil { // else the step itself says what is wrong
			p.Command = commandOf(s, v, with)
		}
	}
	return e.pause(ctx, p)
}

// pause stops the run until it is told how to go on. An error ends the run.
func (e *engine) pause(ctx context.Context, p report.Pause) (Order, error) {
	e.clock.hold()
	defer e.clock.release()
	e.pauses++
	p.Number = e.pauses
	if e.env != nil {
		for _, b := range e.env.Cluster.Brokers() {
			if b.Running {
				p.Bootstrap, p.Admin = append(p.Bootstrap, b.Kafka), append(p.Admin, "http://"+b.Admin)
			}
		}
	}
	if p.Failed {
		p.Evidence, p.Repro = e.evidence(), e.record.Repro
	}
	id := e.record.Name()
	again := "do the next step"
	if p.Failed && p.Step != "" {
		again = "do the failed step again"
	}
	p.Next = []report.Way{
		{Command: "scenario step " + id, Why: again}, {Command: "scenario resume " + id, Why: "go on to the end"},
		{Command: "scenario stop " + id, Why: "end the run and its cluster"},
	}
	if p.Failed && p.Step != "" {
		p.Next[1].Why = "finish the run: cleanup and verdict"
	}
	// The record has what was judged since the last step.
	if err := e.record.Save(e.dir); err != nil {
		return Order{}, err
	}
	// The state comes before the event: who sees the event may give an order at once.
	if err := e.saveState(statePaused, &p); err != nil {
		return Order{}, err
	}
	e.log.Add(report.Event{Kind: report.RunPaused, Stage: p.Stage, Text: p.Message, Pause: &p})
	order, err := e.awaitOrder(ctx, p.Number)
	if err != nil {
		return Order{}, err
	}
	if err := e.saveState(stateRunning, nil); err != nil {
		return Order{}, err
	}
	e.log.Add(report.Event{Kind: report.RunResumed, Text: "going on: " + order.Do})
	switch order.Do {
	case doStep:
		e.mode, e.goTo = PauseEach, order.Until
	default:
		e.mode, e.goTo = PauseOnFailure, ""
	}
	return order, nil
}

const orderEvery = 50 * time.Millisecond

func (e *engine) awaitOrder(ctx context.Context, pause int) (Order, error) {
	limit := e.options.PauseMax
	if limit == 0 {
		limit = PauseMax
	}
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	ticker := time.NewTicker(orderEvery)
	defer ticker.Stop()
	for {
		data, err := os.ReadFile(orderFile(e.dir, pause))
		if err == nil {
			var order Order
			if err := json.Unmarshal(data, &order); err != nil {
				return Order{}, fmt.Errorf("order for pause %d: %w", pause, err)
			}
			return order, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return Order{}, fmt.Errorf("look for an order: %w", err)
		}
		select {
		case <-ticker.C:
		case <-deadline.C:
			return Order{}, fmt.Errorf("%w for %s", errExpired, limit)
		case <-ctx.Done():
			return Order{}, ctx.Err()
		}
	}
}

// pausesBefore decides whether the run stops before a step.
func (e *engine) pausesBefore(step *spec.Step) bool {
	if e.options.From == step.ID {
		e.mode, e.goTo = PauseEach, ""
	}
	return e.mode == PauseEach && e.goTo == ""
}

// StepIDs lists the steps of a run in their order, those of on_failure and always
// left out: a run does not pause in them.
func StepIDs(s *spec.Scenario, aspects []string) []string {
	var ids []string
	for _, step := range s.Setup {
		ids = append(ids, step.ID)
	}
	for _, stage := range s.Stages(aspects) {
		for _, step := range stage.Aspect.Steps {
			ids = append(ids, step.ID)
		}
	}
	return ids
}

// clock ends a run at its deadline, which a pause puts off.
type clock struct {
	timer *time.Timer
	left  time.Duration
	since time.Time
}

// pastDeadline is why a run's time is up.
type pastDeadline struct{ limit time.Duration }

// Error implements error.
func (p *pastDeadline) Error() string {
	return fmt.Sprintf("the run's deadline of %s has passed", p.limit)
}

// startClock bounds a run. The context's cause says so when the time is up.
func startClock(ctx context.Context, limit time.Duration) (context.Context, *clock, context.CancelFunc) {
	bounded, cancel := context.WithCancelCause(ctx)
	c := &clock{left: limit, since: time.Now()}
	c.timer = time.AfterFunc(limit, func() { cancel(&pastDeadline{limit}) })
	return bounded, c, func() {
		c.timer.Stop()
		cancel(nil)
	}
}

func (c *clock) hold() {
	c.timer.Stop()
	c.left -= time.Since(c.since)
}

func (c *clock) release() {
	c.since = time.Now()
	c.timer.Reset(c.left)
}
