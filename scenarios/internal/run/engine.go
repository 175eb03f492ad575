package run

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/ister-mq/ister/scenarios/internal/history"
	"github.com/ister-mq/ister/scenarios/internal/report"
	"github.com/ister-mq/ister/scenarios/internal/spec"
	"github.com/ister-mq/ister/scenarios/internal/verb"
	"github.com/ister-mq/ister/setups"
	"github.com/ister-mq/ister/setups/process"
)

// Keep says when the cluster is left running after a run.
type Keep string

// The choices.
const (
	KeepNever     Keep = "never"
	KeepOnFailure Keep = "failure"
	KeepAlways    Keep = "always"
)

// Options of a run.
type Options struct {
	Scenario *spec.Scenario
	Named    string   // by which the scenario is found again; "": its id
	Aspects  []string // none: all
	Params   map[string]string
	Seed     int64
	Setup    setups.Setup
	Binary   string
	// UpgradeBinary is the build to upgrade to; "" has the setup find one.
	UpgradeBinary string
	RunsDir       string
	RunID         string // the caller's choice, see CheckID; "": one is made
	Keep          Keep
	Deadline      time.Duration // 0: the scenario's
	Show          report.Sink   // progress; nil: none
	Pause         Pause
	PauseMax      time.Duration // 0: the constant
	From          string        // a step: the run pauses before it and each after; "": none
	Until         string        // a step: the run ends after it; "": none
	Reports       []string      // of Formats; nil: all
	// Begun is called once the run has its id and directory, and can be followed.
	Begun func(id, dir string)
	// Hurry, when it is closed, ends the cleanup's waiting: what is left of always
	// is given up, and brokers are killed. nil: never.
	Hurry <-chan struct{}
}

// The bounds of what happens after the steps.
const (
	aftermathMax = time.Minute // on_failure and always, each
	closeMax     = 30 * time.Second
	returnMax    = 90 * time.Second // of a borrowed cluster: brokers that joined are drained
)

// engine is one run under way.
type engine struct {
	options Options
	record  *report.Run
	dir     string
	start   time.Time
	log     *report.EventLog
	env     *verb.Env
	journal *history.Journal
	sampler *sampler // nil until the cluster is prepared
	values  spec.Values
	failed  bool // a step failed
	envErr  bool // it was the environment

	mode    Pause
	clock   *clock
	pauses  int
	goTo    string   // no pause before this step has been done; "": none
	left    []string // steps that have not begun
	retried bool     // a step that failed was done again
	cut     bool     // ended after options.Until
	ended   error    // why a pause ended the run

	unwritten error // why the history is not whole
}

// Execute runs a scenario. The error is for runs that could not even begin; from
// then on everything is told by the record.
func Execute(ctx context.Context, options Options) (*report.Run, error) {
	e, closeLog, err := begin(options)
	if err != nil {
		return nil, err
	}
	defer closeLog()
	if e.prepare(ctx) { // may build the broker, which is no part of the run
		deadline := options.Deadline
		if deadline == 0 {
			deadline = options.Scenario.Deadline
		}
		bounded, clock, cancel := startClock(ctx, deadline)
		e.clock = clock
		e.steps(bounded)
		cancel()
	}
	judged := e.record.Judge(e.failed)
	switch {
	case ctx.Err() != nil || e.ended != nil:
		judged = report.Interrupted
	case e.envErr && judged == report.StepError:
		judged = report.Environment
	case judged == report.Pass && (e.retried || e.cut):
		judged = report.Inconclusive
	}
	e.aftermath(ctx, judged)
	e.finish(ctx, judged)
	return e.record, nil
}

// begin makes the directory and the record.
func begin(options Options) (*engine, func(), error) {
	params, problems := options.Scenario.ResolveParams(options.Params)
	if len(problems) > 0 {
		return nil, nil, problems
	}
	for _, id := range options.Aspects {
		if _, ok := options.Scenario.Aspect(id); !ok {
			return nil, nil, spec.Problems{{File: "--aspect", Message: "no aspect is called " + spec.Named(id), Hint: spec.Suggest(id, options.Scenario.AspectIDs())}}
		}
	}
	left := StepIDs(options.Scenario, options.Aspects)
	for flag, step := range map[string]string{"--from": options.From, "--until": options.Until} {
		if step != "" && !slices.Contains(left, step) {
			return nil, nil, spec.Problems{{File: flag, Message: "this run has no step called " + spec.Named(step), Hint: spec.Suggest(step, left)}}
		}
	}
	if from, until := slices.Index(left, options.From), slices.Index(left, options.Until); options.Until != "" && from > until {
		return nil, nil, spec.Problems{{File: "--from", Message: fmt.Sprintf("step %s comes after %s, at which --until ends the run", options.From, options.Until), Hint: "scenario plan " + options.Scenario.ID + " has their order"}}
	}
	if err := CheckAbilities(options.Scenario, options.Aspects, options.Until, options.Setup); err != nil {
		return nil, nil, err
	}
	if err := keepable(options); err != nil {
		return nil, nil, err
	}
	now := time.Now()
	id, dir, err := newDir(options.RunsDir, options.RunID, options.Scenario.ID, now)
	if err != nil {
		return nil, nil, err
	}
	file, err := os.Create(filepath.Join(dir, EventsFile))
	if err != nil {
		return nil, nil, fmt.Errorf("make the list of events: %w", err)
	}
	e := &engine{options: options, dir: dir, start: now, log: report.NewEventLog(file, now, options.Show), mode: options.Pause, left: left}
	if e.mode == "" {
		e.mode = PauseNever
	}
	if options.From != "" && e.mode != PauseEach {
		e.mode = PauseOnFailure
	}
	e.values = spec.Values{"params": params, "run": map[string]any{"id": id, "seed": options.Seed}}
	e.record = &report.Run{
		SchemaVersion: report.SchemaVersion, ID: id, Scenario: options.Scenario.ID, Title: options.Scenario.Title, Aspects: judgedAspects(options),
		Setup: options.Setup.Name(), Verdict: report.Running, Seed: options.Seed, Params: texts(params), StartedAt: now.UTC(), Directory: dir,
		Versions: versions(), Runner: report.Process{PID: os.Getpid(), Started: process.StartTime(os.Getpid())}, Criteria: []report.Check{}, Guards: []report.Check{}, Steps: []report.Step{},
	}
	e.record.Repro = repro(options)
	err = e.record.Save(dir)
	if err == nil {
		err = e.saveState(stateRunning, nil)
	}
	if err != nil {
		file.Close()
		return nil, nil, err
	}
	if options.Begun != nil {
		options.Begun(id, dir)
	}
	return e, func() { file.Close() }, nil
}

func judgedAspects(o Options) []string {
	var ids []string
	for _, stage := range o.Scenario.Stages(o.Aspects) {
		if stage.Judged {
			ids = append(ids, stage.Aspect.ID)
		}
	}
	return ids
}

func texts(params map[string]any) map[string]string {
	out := map[string]string{}
	for name, value := range params {
		out[name] = spec.Format(value)
	}
	return out
}

// versions says what ran: the runner's build; the setup adds the brokers'.
func versions() map[string]string {
	v := map[string]string{"go": runtime.Version(), "os": runtime.GOOS + "/" + runtime.GOARCH, "scenario_format": spec.APIVersion}
	if info, ok := debug.ReadBuildInfo(); ok {
		v["module"] = info.Main.Path + " " + info.Main.Version
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" || s.Key == "vcs.modified" {
				v[s.Key] = s.Value
			}
		}
	}
	return v
}

// repro is the command that runs the same again.
func repro(o Options) string {
	name := o.Named
	if name == "" {
		name = o.Scenario.ID
	}
	words := []string{"scenario", "run", name, "--seed", fmt.Sprint(o.Seed)}
	if o.Setup.Name() != o.Scenario.Setups[0] {
		words = append(words, "--setup", o.Setup.Name())
	}
	if configured, ok := o.Setup.(setups.Configured); ok {
		words = append(words, configured.Flags()...)
	}
	if o.UpgradeBinary != "" {
		words = append(words, "--upgrade-bin", o.UpgradeBinary)
	}
	for _, a := range o.Aspects {
		words = append(words, "--aspect", a)
	}
	names := make([]string, 0, len(o.Params))
	for name := range o.Params {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		words = append(words, "--param", name+"="+o.Params[name])
	}
	for i, word := range words {
		words[i] = shellWord(word)
	}
	return strings.Join(words, " ")
}

// shellWord quotes a word that a shell would not take as it is.
func shellWord(word string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_=,./:@%+", r)
	}
	if word != "" && strings.IndexFunc(word, func(r rune) bool { return !plain(r) }) < 0 {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// plannedTopics are the topics that the steps of a run create, as Kafka clients
// name them, as far as their names are known before.
func (e *engine) plannedTopics() []string {
	var names []string
	look := func(steps []*spec.Step) {
		for _, step := range steps {
			if with, err := e.inputs(step); err == nil {
				names = append(names, verb.TopicsOf(step.Use, with)...)
			}
		}
	}
	look(e.options.Scenario.Setup)
	for _, stage := range e.options.Scenario.Stages(e.options.Aspects) {
		look(stage.Aspect.Steps)
	}
	return names
}

// prepare makes the cluster ready to be started.
func (e *engine) prepare(ctx context.Context) bool {
	s := e.options.Scenario
	e.log.Add(report.Event{Kind: report.RunStarted, Text: fmt.Sprintf("%s: run %s, seed %d, setup %s", s.ID, e.record.ID, e.options.Seed, e.options.Setup.Name())})
	cluster, err := e.options.Setup.New(ctx, setups.Options{
		Dir: e.dir, CacheDir: filepath.Join(e.options.RunsDir, cacheName), Binary: e.options.Binary,
		Say: func(text string) { e.log.Add(report.Event{Kind: report.StepSays, Text: text}) },
	})
	if err != nil {
		return e.unfit(fmt.Errorf("setup %s: %w", e.options.Setup.Name(), err))
	}
	if err := e.limit(cluster); err != nil {
		e.record.Leftovers = append(e.record.Leftovers, cluster.Close(context.WithoutCancel(ctx))...)
		return e.unfit(err)
	}
	e.record.Versions["broker"], e.record.Versions["broker_sha256"] = cluster.Binary()
	recorder := history.NewRecorder()
	if e.journal, err = recorder.Journal(filepath.Join(e.dir, HistoryFile)); err != nil {
		return e.unfit(err)
	}
	e.env = &verb.Env{
		RunID: e.record.ID, Seed: e.options.Seed, Dir: e.dir, Brokers: s.Brokers, Topics: e.plannedTopics(), Cluster: cluster, Recorder: recorder,
		UpgradeBinary: e.options.UpgradeBinary, Versions: e.record.Versions,
		Say: func(text string) { e.log.Add(report.Event{Kind: report.StepSays, Text: text}) },
	}
	e.sampler = startSampler(context.WithoutCancel(ctx), &sampler{nameOf: e.env.NameOf, progress: e.env.Recorder.Progress, add: e.log.Add, actor: "scenario:" + e.record.ID + "/sampler"})
	e.sampler.see(cluster.Brokers())
	return true
}

// unfit notes that the environment cannot run this.
func (e *engine) unfit(err error) bool {
	e.failed, e.envErr = true, true
	e.record.Failures = append(e.record.Failures, report.Failure{
		Message: err.Error(), Expected: "a machine on which setup " + e.options.Setup.Name() + " works: see scenario doctor --setup " + e.options.Setup.Name(), Observed: err.Error(),
		Evidence: []string{filepath.Join(e.dir, EventsFile)}, Repro: e.record.Repro,
	})
	return false
}

// steps runs setup and stages, and judges each aspect when its steps are done.
func (e *engine) steps(ctx context.Context) {
	s := e.options.Scenario
	e.record.PreparedMS = time.Since(e.start).Milliseconds()
	e.log.Add(report.Event{Kind: report.StageStarted, Stage: "setup", Judged: true})
	if !e.stepList(ctx, "setup", s.Setup) {
		return
	}
	for _, stage := range s.Stages(e.options.Aspects) {
		e.log.Add(report.Event{Kind: report.StageStarted, Stage: stage.Aspect.ID, Judged: stage.Judged})
		ok := e.stepList(ctx, stage.Aspect.ID, stage.Aspect.Steps)
		failures := len(e.record.Failures)
		if stage.Judged {
			e.judge(stage.Aspect)
		}
		if !ok {
			return
		}
		if told := e.record.Failures[failures:]; len(told) > 0 && e.mode != PauseNever && ctx.Err() == nil {
			message := fmt.Sprintf("%s: expected %s, observed %s", told[0].Message, told[0].Expected, told[0].Observed)
			if _, e.ended = e.pause(ctx, report.Pause{Failed: true, Stage: stage.Aspect.ID, Message: message}); e.ended != nil {
				return
			}
		}
	}
}

// stepList runs steps until one fails, or the run is to end.
func (e *engine) stepList(ctx context.Context, stage string, steps []*spec.Step) bool {
	for _, step := range steps {
		if e.pausesBefore(step) {
			if _, e.ended = e.pauseAt(ctx, step, report.Pause{Stage: stage, Message: "paused before step " + step.ID + ": " + titleOf(step)}); e.ended != nil {
				return false
			}
		}
		e.left = e.left[1:]
		for again := true; again; {
			var ok bool
			if ok, again = e.attempt(ctx, stage, step); !ok && !again {
				return false
			}
		}
		if e.goTo == step.ID {
			e.goTo = ""
		}
		if e.options.Until == step.ID {
			e.cut = true
			e.record.Failures = append(e.record.Failures, report.Failure{
				Message: "the run ended after step " + step.ID + ", as --until asked", Expected: "every step of the run", Observed: fmt.Sprintf("%d steps left", len(e.left)),
				Evidence: e.evidence(), Repro: e.record.Repro,
			})
			return false
		}
	}
	return true
}

// attempt does a step. Where it fails the run may pause, and be told to do it
// again.
func (e *engine) attempt(ctx context.Context, stage string, step *spec.Step) (ok, again bool) {
	err := e.step(ctx, stage, step)
	if err == nil {
		return true, false
	}
	var unwritten *evidenceError
	if errors.As(err, &unwritten) {
		e.record.Failures = append(e.record.Failures, e.unwritable(err))
	} else {
		e.record.Failures = append(e.record.Failures, e.failureOf(step, err))
	}
	if e.mode != PauseNever && ctx.Err() == nil {
		order, pauseErr := e.pauseAt(ctx, step, report.Pause{Failed: true, Stage: stage, Message: fmt.Sprintf("step %s failed: %v", step.ID, err)})
		if pauseErr == nil && order.Do == doStep {
			e.retried = true
			return false, true
		}
		e.ended = pauseErr
	}
	var environment *verb.EnvironmentError
	e.failed, e.envErr = true, errors.As(err, &environment) || unwritten != nil
	return false, false
}

// evidence is where to look after a failed step.
func (e *engine) evidence() []string {
	files := []string{filepath.Join(e.dir, EventsFile)}
	// What brokers wrote, and what commands did that a run called, where there are.
	for _, name := range []string{"brokers", "broker-command", "hand"} {
		path := filepath.Join(e.dir, name)
		if _, err := os.Stat(path); err == nil {
			files = append(files, path)
		}
	}
	return files
}

// aftermath runs on_failure and always, saves the history, and ends the cluster.
// The run's context may be over; this has bounds of its own.
func (e *engine) aftermath(ctx context.Context, judged report.Verdict) {
	s := e.options.Scenario
	if e.env == nil {
		return
	}
	detached, enough := context.WithCancel(context.WithoutCancel(ctx))
	defer enough()
	if e.options.Hurry != nil {
		stop := onClosed(e.options.Hurry, enough)
		defer stop()
	}
	if judged != report.Pass && judged != report.Interrupted && len(s.OnFailure) > 0 {
		e.after(detached, "on_failure", s.OnFailure)
	}
	if len(s.Always) > 0 {
		e.after(detached, "always", s.Always)
	}
	e.sampler.stop() // before the cleanup, which would look like an outage
	e.env.Close()
	e.unwritten = e.journal.Close()
	keep := e.options.Keep == KeepAlways || e.options.Keep == KeepOnFailure && judged != report.Pass
	if keep && judged != report.Interrupted {
		e.record.Kept = true
		return
	}
	bound, doing := closeMax, "ending the brokers"
	if _, ok := e.env.Cluster.(setups.Borrowed); ok {
		bound, doing = returnMax, "taking back what the run made on the cluster"
	}
	e.log.Add(report.Event{Kind: report.CleanupBegun, Text: doing})
	closing, cancel := context.WithTimeout(detached, bound)
	defer cancel()
	e.record.Leftovers = append(e.record.Leftovers, e.env.Cluster.Close(closing)...)
	if judged == report.Pass || judged == report.Interrupted {
		if err := removeData(e.dir); err != nil {
			e.record.Leftovers = append(e.record.Leftovers, err.Error())
		}
	}
}

// onClosed calls f once done is closed, unless stop was called before.
func onClosed(done <-chan struct{}, f func()) (stop func()) {
	over := make(chan struct{})
	go func() {
		select {
		case <-done:
			f()
		case <-over:
		}
	}()
	return func() { close(over) }
}

// after runs steps that must not change the verdict; each is tried whatever
// became of the one before.
func (e *engine) after(ctx context.Context, stage string, steps []*spec.Step) {
	ctx, cancel := context.WithTimeout(ctx, aftermathMax)
	defer cancel()
	e.log.Add(report.Event{Kind: report.StageStarted, Stage: stage, Judged: true})
	for _, step := range steps {
		_ = e.step(ctx, stage, step) // recorded with the step
	}
}

// finish writes what is left of the evidence. A run whose evidence is not whole is
// a fault of the environment, unless a violation was seen: it is no pass.
func (e *engine) finish(ctx context.Context, judged report.Verdict) {
	r := e.record
	r.Verdict, r.EndedAt, r.TookMS = judged, time.Now().UTC(), time.Since(e.start).Milliseconds()
	if judged == report.Interrupted {
		message := "interrupted"
		switch cause := context.Cause(ctx); {
		case errors.Is(e.ended, errExpired):
			message = e.ended.Error()
		case cause != nil && !errors.Is(cause, context.Canceled):
			message = cause.Error()
		}
		r.Failures = []report.Failure{{Message: message, Expected: "the run at its end", Observed: fmt.Sprintf("ended with %d steps left", len(e.left)), Evidence: e.evidence(), Repro: r.Repro}}
	}
	e.evidenceLost(e.unwritten)
	r.ExitCode = r.Exit()
	e.log.Add(report.Event{Kind: report.RunEnded, Text: string(r.Verdict)})
	var err error
	var seen *history.History
	if e.env != nil {
		seen = e.env.Recorder.Snapshot()
	}
	if reportsErr := writeReports(e.dir, r, seen, e.options.Reports); err == nil {
		err = reportsErr
	}
	if err == nil {
		err = e.log.Err()
	}
	if stateErr := e.saveState(stateEnded, nil); err == nil {
		err = stateErr
	}
	if err != nil {
		e.evidenceLost(err)
		_ = writeReports(e.dir, r, seen, e.options.Reports) // those that can be written say so
	}
	if err := r.Save(e.dir); err != nil {
		e.evidenceLost(err)
		return // without checksums, by which a run counts as ended
	}
	if err := writeSums(e.dir); err != nil {
		e.evidenceLost(err)
		_ = r.Save(e.dir) // what there is says so
	}
}

// evidenceLost notes that a part of the evidence could not be written; nil is none.
func (e *engine) evidenceLost(err error) {
	r := e.record
	if err == nil {
		return
	}
	if r.Verdict != report.Fail && r.Verdict != report.Interrupted {
		r.Verdict = report.Environment
	}
	r.ExitCode = r.Exit()
	r.Failures = append(r.Failures, e.unwritable(err))
}

// unwritable is the failure of what could not be written.
func (e *engine) unwritable(err error) report.Failure {
	return report.Failure{
		Message: "write the evidence: " + short(err.Error()), Expected: "room and leave to write in " + e.options.RunsDir + ", or another directory with --runs-dir", Observed: short(err.Error()),
		Evidence: e.evidence(), Repro: e.record.Repro,
	}
}
