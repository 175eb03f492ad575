package mcp

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ister-mq/ister/scenarios"
)

// failingMax bounds the checks in the result of a step; scenario_report has all.
const failingMax = 5

// stepped is the result of a step: what it gave, what has been judged, and what
// comes next.
type stepped struct {
	RunID    string         `json:"run_id"`
	Scenario string         `json:"scenario"`
	Stage    string         `json:"stage"`
	Step     string         `json:"step"`
	Title    string         `json:"title"`
	Status   string         `json:"step_status" doc:"ok, or running: it goes on, and the same call tells more"`
	Command  string         `json:"command" doc:"what a person would type"`
	TookMS   int64          `json:"took_ms"`
	Attempts int            `json:"attempts"`
	Outputs  map[string]any `json:"outputs"`
	Recorded bool           `json:"recorded" doc:"it was done before: this is its recorded result, and nothing was done"`
	Judged   judgedSoFar    `json:"judged" doc:"criteria and guards of the stages that are done"`
	Next     *nextStep      `json:"next_step,omitempty" doc:"where the run is paused"`
	Ended    bool           `json:"ended"`
	Verdict  string         `json:"verdict"`
}

// judgedSoFar are the checks of a run up to now.
type judgedSoFar struct {
	Passed  int        `json:"criteria_passed"`
	Failed  int        `json:"criteria_failed"`
	Unmet   int        `json:"guards_unmet"`
	Failing []runCheck `json:"failing" doc:"the first of those that did not hold"`
}

// nextStep is the step that a paused run does next.
type nextStep struct {
	Step    string `json:"step"`
	Tool    string `json:"tool" doc:"its own tool, offered when its toolset is on"`
	Stage   string `json:"stage"`
	Title   string `json:"title"`
	Risk    string `json:"risk"`
	Command string `json:"command"`
	Again   bool   `json:"again" doc:"it failed: the call with again does it once more"`
}

// pausedAt says where a run waits and how its cluster is reached.
type pausedAt struct {
	Failed    bool      `json:"failed" doc:"something failed; else the pause was asked for"`
	Message   string    `json:"message"`
	Next      *nextStep `json:"next_step,omitempty"`
	Left      int       `json:"steps_left"`
	Bootstrap []string  `json:"bootstrap"`
	Admin     []string  `json:"admin"`
}

var (
	againArgument  = argument{name: "again", kind: kindBoolean, doc: "do a step that failed once more; the run is inconclusive at best then", fallback: false}
	waitArgument   = argument{name: "max_wait_s", kind: kindInteger, doc: "seconds to wait for its end; it goes on by itself", max: waitMax, fallback: waitMax}
	planIDArgument = argument{name: "plan_id", kind: kindString, doc: "of a destructive step: the call without it is refused, shows what would be done, and gives one"}
)

// stepTools is one row for each step of each scenario. Nothing of a step is
// written here: all of it follows from the scenario's file.
func stepTools() ([]tool, error) {
	all, err := scenarios.StepTools()
	if err != nil {
		return nil, err
	}
	rows, before, number := []tool{}, map[string]string{}, map[string]int{}
	for _, one := range all {
		number[one.Scenario]++
		row := tool{
			name: one.Name, title: one.Title, toolset: one.Scenario, risk: Risk(one.Risk), repeatable: true, doc: stepWords(one, number[one.Scenario], before[one.Scenario]),
			arguments: []argument{
				{name: "run_id", kind: kindString, doc: "the run; left out: the only live one of " + one.Scenario, pattern: patternRun}, againArgument, waitArgument,
			},
			result: stepResult(one.Outputs),
			run: func(ctx context.Context, s *Server, in input) (*answer, error) {
				return s.doStep(ctx, in, one.Scenario, one.Step)
			},
		}
		if row.risk == Destructive {
			row.arguments = append(row.arguments, planIDArgument)
		}
		rows, before[one.Scenario] = append(rows, row), one.Step
	}
	return rows, nil
}

// stepWords describe a step: where it stands, what it does and waits for, and what
// its inputs are.
func stepWords(t scenarios.StepTool, number int, before string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Step %d of %s, stage %s", number, t.Scenario, t.Stage)
	if before != "" {
		b.WriteString(", after " + before)
	}
	fmt.Fprintf(&b, ". %s (%s)", strings.TrimSuffix(t.Doc, "."), t.Use)
	if t.Command != "" {
		b.WriteString(": " + t.Command)
	}
	b.WriteString(".")
	if len(t.Inputs) > 0 {
		pairs := []string{}
		for _, name := range slices.Sorted(maps.Keys(t.Inputs)) {
			pairs = append(pairs, name+" = "+t.Inputs[name])
		}
		b.WriteString(" Inputs, from the scenario: " + strings.Join(pairs, ", ") + ".")
	}
	if t.Until != "" {
		b.WriteString(" Waits until " + t.Until + ".")
	}
	if t.Otherwise != "" {
		b.WriteString(" Otherwise: " + strings.TrimSuffix(t.Otherwise, ".") + ".")
	}
	if Risk(t.Risk) == Destructive {
		b.WriteString(" Destructive: needs the plan_id of a plan that still holds.")
	}
	return b.String()
}

// stepResult is the schema of a step's result, with the outputs of its verb. There
// are many step tools, so that what all of them share is in few words;
// scenario_step has the whole.
func stepResult(outputs map[string]any) schema {
	text, object := map[string]any{"type": "string"}, map[string]any{"type": "object"}
	return schema{"type": "object", "properties": map[string]any{
		"run_id": text, "step": text, "step_status": text, "verdict": text, "ended": map[string]any{"type": "boolean"}, "recorded": map[string]any{"type": "boolean"},
		"outputs": outputs, "judged": object, "next_step": object,
	}}
}

// stepByNameTools do what the step tools do, by the name of the step.
func stepByNameTools() []tool {
	return []tool{
		{
			name: "scenario_step", title: "Do a step of a paused run", toolset: toolsetScenario, risk: Contained, repeatable: true,
			doc: "Do exactly the step that a paused run comes to next, and pause again; the run was started by scenario_start with pause each. Steps go in their order. A step that is done answers with its recorded result. A destructive one needs a plan_id.",
			arguments: []argument{
				runArgument, {name: "step", kind: kindString, doc: "id of the step, from next_step or scenario_plan", required: true, pattern: patternStep}, againArgument, waitArgument, planIDArgument,
			},
			result: typeSchema[stepped](),
			run: func(ctx context.Context, s *Server, in input) (*answer, error) {
				return s.doStep(ctx, in, "", in.text("step"))
			},
		},
		{
			name: "scenario_resume", title: "Let a paused run go on", toolset: toolsetScenario, risk: Contained, repeatable: true,
			doc: "Let a paused run go on without pauses to its end or a failure, or up to and including a step. After a step that failed the run is finished: cleanup and verdict. Returns at once; scenario_wait follows it.",
			arguments: []argument{
				runArgument, {name: "until", kind: kindString, doc: "pause again after this step; left out: go on to the end", pattern: patternStep},
			},
			result: typeSchema[resumed](), run: resumeScenario,
		},
	}
}

// orderedStep is one call that wants a step done.
type orderedStep struct {
	server   *Server
	in       input
	watch    *watcher
	run      string
	step     string
	deadline time.Time
	asked    time.Time // when the runner was last looked for
	ordered  int       // number of the pause that this call gave an order for; 0: none
	before   int       // how often the step had been recorded then
}

// doStep does a step of a run, when it is its turn. The run may be named by its
// scenario alone, when only one is live.
func (s *Server) doStep(ctx context.Context, in input, scenario, name string) (*answer, error) {
	id := in.text("run_id")
	if id == "" {
		var err error
		if id, err = s.onlyRunOf(ctx, scenario); err != nil {
			return nil, err
		}
	}
	dir, record, err := s.findRun(id)
	if err != nil {
		return nil, err
	}
	if scenario != "" && record.Scenario != scenario {
		return nil, &failure{Code: codeStepUnknown, Message: fmt.Sprintf("run %s is of the scenario %s", record.ID, record.Scenario), Got: record.ID, Expected: "a run of " + scenario, Fix: &fix{Tool: "scenario_status", Args: map[string]any{}, Why: "lists the runs"}}
	}
	if err := s.contained(ctx, record); err != nil {
		return nil, err
	}
	o := &orderedStep{server: s, in: in, watch: &watcher{dir: dir}, run: record.ID, step: name, deadline: time.Now().Add(time.Duration(in.number("max_wait_s")) * time.Second)}
	ticker := time.NewTicker(waitPoll)
	defer ticker.Stop()
	for {
		at, err := o.watch.look()
		if err != nil {
			return nil, err
		}
		if a, err := o.look(ctx, at); a != nil || err != nil {
			return a, err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// look decides what there is to do now. Neither an answer nor an error: look again.
func (o *orderedStep) look(ctx context.Context, at *standing) (*answer, error) {
	done := at.stepsOf(o.step)
	over := time.Now().After(o.deadline)
	settled := at.ended() || at.paused() && at.state.Pause.Number > o.ordered
	switch last := lastOf(done); {
	case last != nil && len(done) > o.before && last.Status == stepOK && (settled || over):
		return o.answer(at, last), nil
	case last != nil && len(done) > o.before && last.Status != stepOK && settled && !o.again(at):
		return nil, o.failed(at, last)
	case at.ended():
		return nil, &failure{Code: codeRunEnded, Message: fmt.Sprintf("run %s has ended without the step %s", o.run, o.step), Got: at.record.Verdict, Expected: "a paused run", Fix: &fix{Tool: "scenario_report", Args: map[string]any{"run_id": o.run}, Why: "see how it ended"}}
	case at.paused() && o.ordered == 0:
		return nil, o.order(ctx, at)
	case !o.known(at):
		return nil, o.unknown(at)
	case !at.paused() && at.doing != "" && at.doing != o.step && o.ordered == 0 && last == nil:
		return nil, &failure{Code: codeRunNotPaused, Message: fmt.Sprintf("run %s is not paused: it does the step %s", o.run, at.doing), Got: o.step, Expected: "a run that is paused before " + o.step, Retry: true, Fix: &fix{Tool: "scenario_wait", Args: map[string]any{"run_id": o.run}, Why: "wait until it pauses or ends"}}
	case over:
		return o.answer(at, nil), nil
	}
	return nil, o.alive(ctx)
}

// again reports that the call asks for a failed step once more, at its pause.
func (o *orderedStep) again(at *standing) bool {
	return o.in.yes("again") && o.ordered == 0 && at.paused() && at.state.Pause.Failed && at.state.Pause.Step == o.step
}

// alive finds out, now and then, that the runner is gone.
func (o *orderedStep) alive(ctx context.Context) error {
	if time.Since(o.asked) < liveEvery {
		return nil
	}
	o.asked = time.Now()
	info, err := o.server.runInfoOf(ctx, o.run)
	if err != nil {
		return err
	}
	if seen := summaryOf(info); seen.Ended && seen.Verdict == verdictAbandoned {
		return &failure{Code: codeRunAbandoned, Message: "the runner of " + o.run + " is gone", Got: seen.Verdict, Expected: "a live run", Fix: &fix{Tool: "scenario_stop", Args: map[string]any{"run_id": o.run}, Why: "ends what it left; then start a new run"}}
	}
	return nil
}

func (o *orderedStep) known(at *standing) bool {
	return len(at.stepsOf(o.step)) > 0 || at.doing == o.step || slices.Contains(at.state.StepsLeft, o.step)
}

func (o *orderedStep) unknown(at *standing) error {
	left := at.state.StepsLeft
	f := &failure{Code: codeStepUnknown, Message: fmt.Sprintf("run %s has no step %s%s", o.run, o.step, didYouMean(o.step, left)), Got: o.step, Expected: "one of: " + strings.Join(left[:min(len(left), 12)], ", ")}
	if len(left) > 12 {
		f.Expected += fmt.Sprintf(" and %d more", len(left)-12)
	}
	if next := o.server.nextOf(at); next != nil {
		f.Fix = fixOf(o.server.callsOf(o.run, next)[0])
	}
	return f
}

// order gives a paused run the order to do the step, when it is its turn and, for
// a destructive one, when its plan holds.
func (o *orderedStep) order(ctx context.Context, at *standing) error {
	if err := o.alive(ctx); err != nil {
		return err
	}
	next := o.server.nextOf(at)
	switch {
	case !o.known(at):
		return o.unknown(at)
	case next == nil:
		return &failure{Code: codeStepNotNext, Message: "all steps are done: " + at.state.Pause.Message, Got: o.step, Expected: "the end of the run", Fix: &fix{Tool: "scenario_resume", Args: map[string]any{"run_id": o.run}, Why: "finish the run"}}
	case next.Step != o.step:
		return &failure{Code: codeStepNotNext, Message: fmt.Sprintf("it is not the turn of %s: steps go in their order", o.step), Got: o.step, Expected: next.Step + ": " + next.Title, Fix: fixOf(o.server.callsOf(o.run, next)[0])}
	case next.Risk == string(Destructive):
		if err := o.planHolds(ctx, at, next); err != nil {
			return err
		}
	}
	o.ordered, o.before = at.state.Pause.Number, len(at.stepsOf(o.step))
	waiting, cancel := context.WithDeadline(ctx, o.deadline)
	defer cancel()
	err := o.server.command(waiting, nil, "step", o.run, o.step)
	if err == nil || ctx.Err() != nil || waiting.Err() != nil {
		return ctx.Err()
	}
	// The command also fails as the step does. It has given no order when the run
	// still waits at the same pause.
	now, lookErr := o.watch.look()
	if lookErr != nil {
		return lookErr
	}
	if now.paused() && now.state.Pause.Number == o.ordered {
		return err
	}
	return nil
}

// planHolds refuses a destructive step without a plan_id, or with one whose plan
// does not hold any more.
func (o *orderedStep) planHolds(ctx context.Context, at *standing, next *nextStep) error {
	subject := input{tool: &tool{name: "scenario_step"}, values: map[string]any{"run_id": o.run, "step": o.step}}
	return o.server.plans.held(o.in, subject, o.server.stepEffect(ctx, at, next), "this step is destructive and needs the plan_id of its plan; nothing was done")
}

// failed is the refusal that a failed step answers with.
func (o *orderedStep) failed(at *standing, last *runStep) error {
	f := &failure{Code: codeStepFailed, Message: fmt.Sprintf("step %s failed: %s", o.step, abridgeTo(last.Error, 600)), Got: abridgeTo(last.Error, 300), Expected: "the step to succeed"}
	if t, ok := o.server.stepTable[at.record.Scenario][o.step]; ok {
		f.Advice = t.Otherwise
		if t.Until != "" {
			f.Expected = t.Until
		}
	}
	if at.paused() && at.state.Pause.Step == o.step {
		args := o.in.given()
		args["again"] = true
		f.Fix = &fix{Tool: o.in.tool.name, Args: args, Why: "once more, when its cause is gone; or scenario_resume, for cleanup and verdict"}
		return f
	}
	f.Fix = &fix{Tool: "scenario_report", Args: map[string]any{"run_id": o.run}, Why: "see how the run ended"}
	return f
}

// answer is the result of the step, which last is the record of; nil: it is not
// over yet.
func (o *orderedStep) answer(at *standing, last *runStep) *answer {
	r := at.record
	out := stepped{RunID: r.ID, Scenario: r.Scenario, Step: o.step, Status: "running", Outputs: map[string]any{}, Judged: judgedOf(r), Ended: at.ended(), Verdict: r.Verdict}
	if t, ok := o.server.stepTable[r.Scenario][o.step]; ok {
		out.Stage, out.Title = t.Stage, t.Title
	}
	a := &answer{}
	if last == nil {
		a.summary = "The run goes on with " + o.step
		a.next = []step{{o.in.tool.name, o.in.given(), "wait for its end"}, {"scenario_wait", map[string]any{"run_id": r.ID}, "see what happens"}}
		a.body = out
		return a
	}
	out.Stage, out.Title, out.Status, out.Command, out.TookMS, out.Attempts, out.Recorded = last.Stage, last.Title, last.Status, last.Command, last.TookMS, last.Attempts, o.ordered == 0
	if last.Outputs != nil {
		out.Outputs = last.Outputs
	}
	a.summary = fmt.Sprintf("%s/%s is done: %s", out.Stage, o.step, out.Title)
	switch next := o.server.nextOf(at); {
	case out.Ended:
		a.summary += ". The run has ended: " + r.Verdict
		a.next = []step{{"scenario_report", map[string]any{"run_id": r.ID}, "see the verdict"}}
	case next != nil:
		out.Next = next
		a.summary += ". Next: " + next.Step
		a.next = append(o.server.callsOf(r.ID, next), step{"scenario_resume", map[string]any{"run_id": r.ID}, "or let it go on to its end"})
	case at.paused():
		a.next = []step{{"scenario_resume", map[string]any{"run_id": r.ID}, "finish the run"}}
	default:
		a.next = []step{{"scenario_wait", map[string]any{"run_id": r.ID}, "the run goes on"}}
	}
	a.body = out
	return a
}

func judgedOf(r *runRecord) judgedSoFar {
	out := judgedSoFar{Failing: []runCheck{}}
	for _, c := range slices.Concat(r.Criteria, r.Guards) {
		switch {
		case c.Status == "pass" && !c.Guard:
			out.Passed++
		case c.Status == "pass":
		case c.Guard:
			out.Unmet++
		default:
			out.Failed++
		}
		if c.Status != "pass" && len(out.Failing) < failingMax {
			out.Failing = append(out.Failing, c)
		}
	}
	return out
}

// onlyRunOf finds the run that a call means which names none.
func (s *Server) onlyRunOf(ctx context.Context, scenario string) (string, error) {
	infos, err := s.runs(ctx)
	if err != nil {
		return "", err
	}
	live := []string{}
	for _, info := range infos {
		if info.Live && info.Run.Scenario == scenario {
			live = append(live, info.Run.ID)
		}
	}
	switch len(live) {
	case 1:
		return live[0], nil
	case 0:
		return "", &failure{Code: codeRunUnknown, Message: "there is no live run of " + scenario, Got: "no run_id", Expected: "a run that was started with pause each", Fix: &fix{Tool: "scenario_start", Args: map[string]any{"scenario": scenario, "pause": "each"}, Why: "starts one"}}
	}
	return "", &failure{Code: codeRunAmbiguous, Message: fmt.Sprintf("there are %d live runs of %s", len(live), scenario), Got: "no run_id", Expected: "run_id, one of: " + strings.Join(live, ", "), Fix: &fix{Tool: "scenario_status", Args: map[string]any{}, Why: "says how each is"}}
}

type resumed struct {
	RunID   string `json:"run_id"`
	Already bool   `json:"already" doc:"it was not paused"`
	Verdict string `json:"verdict"`
	Ended   bool   `json:"ended"`
}

// resumeMax is how long a resume is followed: an order is given at once.
const resumeMax = 2 * time.Second

func resumeScenario(ctx context.Context, s *Server, in input) (*answer, error) {
	dir, record, err := s.findRun(in.text("run_id"))
	if err != nil {
		return nil, err
	}
	if err := s.contained(ctx, record); err != nil {
		return nil, err
	}
	watch := &watcher{dir: dir}
	at, err := watch.look()
	if err != nil {
		return nil, err
	}
	out := resumed{RunID: record.ID, Already: !at.paused()}
	if at.paused() {
		words := []string{"resume", record.ID}
		if until := in.text("until"); until != "" {
			if err := oneOf("until", until, at.state.StepsLeft); err != nil {
				return nil, err
			}
			words = []string{"step", record.ID, until}
		}
		number := at.state.Pause.Number
		following, cancel := context.WithTimeout(ctx, resumeMax)
		defer cancel()
		err := s.command(following, nil, words...)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		now, lookErr := watch.look()
		if lookErr != nil {
			return nil, lookErr
		}
		if err != nil && following.Err() == nil && now.paused() && now.state.Pause.Number == number {
			return nil, err
		}
		at = now
	}
	out.Verdict, out.Ended = at.record.Verdict, at.ended()
	a := &answer{body: out, summary: "The run goes on", next: []step{{"scenario_wait", map[string]any{"run_id": record.ID}, "follow it"}}}
	if out.Ended {
		a.summary, a.next = "The run has ended: "+out.Verdict, []step{{"scenario_report", map[string]any{"run_id": record.ID}, "see the verdict"}}
	}
	return a, nil
}
