package mcp

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/ister-mq/ister/admin/adminv1"
	"github.com/ister-mq/ister/admin/client"
)

// standing is where a run stands at one moment.
type standing struct {
	state   *runState
	record  *runRecord
	events  []runEvent // since the look before
	doing   string     // the step under way; "": none
	ordered bool       // the pause has been told how to go on
}

func (at *standing) ended() bool { return at.record.Verdict != verdictRunning }

// paused reports that the run waits for an order and has not been given one.
func (at *standing) paused() bool {
	return !at.ended() && at.state.State == statePaused && at.state.Pause != nil && !at.ordered
}

// stepsOf are the records of a step, of which there are several when it was done
// again. Steps after the verdict are not meant.
func (at *standing) stepsOf(name string) []runStep {
	var found []runStep
	for _, one := range at.record.Steps {
		if one.ID == name && one.Stage != stageOnFailure && one.Stage != stageAlways {
			found = append(found, one)
		}
	}
	return found
}

func lastOf(steps []runStep) *runStep {
	if len(steps) == 0 {
		return nil
	}
	return &steps[len(steps)-1]
}

// watcher looks at a run again and again.
type watcher struct {
	dir    string
	offset int64 // of the events
	doing  string
}

// look reads the state before the record, and that before the events: the runner
// writes them in the opposite order, so that what is called paused or ended has
// all that led to it.
func (w *watcher) look() (*standing, error) {
	state, err := loadState(w.dir)
	if err != nil {
		return nil, err
	}
	record, err := loadRun(w.dir)
	if err != nil {
		return nil, err
	}
	news, next, err := events(w.dir, w.offset)
	if err != nil {
		return nil, err
	}
	w.offset = next
	for _, e := range news {
		switch {
		case e.Event == "step_started" && e.Step != nil:
			w.doing = e.Step.ID
		case e.Event == "step_ended":
			w.doing = ""
		}
	}
	at := &standing{state: state, record: record, events: news, doing: w.doing}
	if state.Pause != nil {
		_, err := os.Stat(filepath.Join(w.dir, "orders", strconv.Itoa(state.Pause.Number)+".json"))
		at.ordered = !errors.Is(err, fs.ErrNotExist)
	}
	return at, nil
}

// nextStep describes a step of a scenario. One of a file that does not ship has
// no words but its name, and counts as destructive.
func (s *Server) nextStep(scenario, name string) *nextStep {
	t, ok := s.stepTable[scenario][name]
	if !ok {
		return &nextStep{Step: name, Title: name, Risk: string(Destructive)}
	}
	return &nextStep{Step: name, Tool: t.Name, Stage: t.Stage, Title: t.Title, Risk: t.Risk, Command: t.Command}
}

// nextOf is the step that a paused run comes to, or nil.
func (s *Server) nextOf(at *standing) *nextStep {
	if !at.paused() {
		return nil
	}
	p := at.state.Pause
	if p.Step == "" { // a check failed; the steps go on
		if len(at.state.StepsLeft) == 0 {
			return nil
		}
		return s.nextStep(at.record.Scenario, at.state.StepsLeft[0])
	}
	next := s.nextStep(at.record.Scenario, p.Step)
	next.Stage, next.Again = p.Stage, p.Failed
	if p.Risk != "" {
		next.Risk = p.Risk
	}
	if p.Command != "" {
		next.Command = p.Command // with what the run knows now
	}
	return next
}

func (s *Server) pausedAt(at *standing) *pausedAt {
	p := at.state.Pause
	return &pausedAt{Failed: p.Failed, Message: abridgeTo(p.Message, 600), Next: s.nextOf(at), Left: len(at.state.StepsLeft), Bootstrap: listOf(p.Bootstrap), Admin: listOf(p.Admin)}
}

// callsOf are the calls that do a step: by its own tool where that is offered, and
// by name.
func (s *Server) callsOf(run string, next *nextStep) []step {
	why := next.Title
	if next.Risk == string(Destructive) {
		why += "; destructive: without a plan_id it shows its plan"
	}
	byTool, byName := map[string]any{"run_id": run}, map[string]any{"run_id": run, "step": next.Step}
	if next.Again {
		byTool["again"], byName["again"] = true, true
	}
	calls := []step{}
	if s.offers(next.Tool) {
		calls = append(calls, step{next.Tool, byTool, why})
	}
	return append(calls, step{"scenario_step", byName, why})
}

func (s *Server) nextOfPause(run string, p *pausedAt) []step {
	calls := []step{}
	if p.Next != nil {
		calls = s.callsOf(run, p.Next)
	}
	return append(calls, step{"scenario_resume", map[string]any{"run_id": run}, "let it go on"}, step{"scenario_stop", map[string]any{"run_id": run}, "end it"})
}

func fixOf(call step) *fix { return &fix{call.Tool, call.Args, call.Why} }

// revisionMax bounds the question for the placement revision of a run's cluster.
const revisionMax = 3 * time.Second

// stepEffect is what a step would do now, on the run's own cluster.
func (s *Server) stepEffect(ctx context.Context, at *standing, next *nextStep) *effect {
	does := next.Command
	if does == "" {
		does = next.Title
	}
	return &effect{
		what:     map[string]any{"run_id": at.record.ID, "step": next.Step, "does": does, "pause": at.state.Pause.Number},
		revision: placementOf(ctx, at.state.Pause.Admin), summary: does,
	}
}

// placementOf is the placement revision of the cluster at these admin endpoints; 0
// when no broker says, such as before there is one.
func placementOf(ctx context.Context, endpoints []string) uint64 {
	if len(endpoints) == 0 {
		return 0
	}
	ctx, cancel := context.WithTimeout(ctx, revisionMax)
	defer cancel()
	admin, err := client.New(client.Options{Endpoints: endpoints, Actor: actorName, RetryFor: revisionMax})
	if err != nil {
		return 0
	}
	defer admin.Close()
	status, err := admin.Cluster.GetStatus(ctx, &adminv1.GetStatusRequest{})
	if err != nil {
		return 0
	}
	return status.GetPlacementRevision()
}
