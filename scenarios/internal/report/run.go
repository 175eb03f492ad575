package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// SchemaVersion of run.json; readers refuse newer ones.
const SchemaVersion = 1

// Verdict is what a run amounts to.
type Verdict string

// The verdicts. Inconclusive: nothing failed, but the run did not test what it
// was meant to test, so it cannot pass.
const (
	Running      Verdict = "running"
	Pass         Verdict = "pass"
	Fail         Verdict = "fail"
	Inconclusive Verdict = "inconclusive"
	Environment  Verdict = "environment"
	StepError    Verdict = "step error"
	Interrupted  Verdict = "interrupted"
)

// The exit codes of the scenario command.
const (
	ExitPass         = 0
	ExitFail         = 1
	ExitUsage        = 2
	ExitInconclusive = 3
	ExitEnvironment  = 4
	ExitLeftovers    = 5
	ExitStep         = 6
	ExitInterrupted  = 130
)

// CheckStatus says how a guard or criterion came out.
type CheckStatus string

// The statuses. NotEvaluated: a value it needs was never computed.
const (
	CheckPass    CheckStatus = "pass"
	CheckFail    CheckStatus = "fail"
	NotEvaluated CheckStatus = "not evaluated"
)

// Check is one guard or criterion as judged.
type Check struct {
	Aspect   string      `json:"aspect"`
	ID       string      `json:"id"`
	Title    string      `json:"title"`
	Guard    bool        `json:"guard,omitempty"`
	Metric   string      `json:"metric"`
	Op       string      `json:"op"`
	Expected string      `json:"expected"`
	Observed string      `json:"observed"`
	Detail   string      `json:"detail,omitempty"`
	Status   CheckStatus `json:"status"`
	// Value is the observed value as data.
	Value    any    `json:"value"`
	Evidence string `json:"evidence"` // file in the run's directory
	AtMS     int64  `json:"at_ms"`    // since the start of the run
}

// StepStatus says how a step came out.
type StepStatus string

// The statuses of steps.
const (
	StepOK      StepStatus = "ok"
	StepFailed  StepStatus = "failed"
	StepSkipped StepStatus = "skipped"
)

// Step is one step as it ran.
type Step struct {
	ID       string         `json:"id"`
	Stage    string         `json:"stage"` // setup, an aspect, on_failure or always
	Use      string         `json:"use"`
	Title    string         `json:"title"`
	Command  string         `json:"command"`
	Status   StepStatus     `json:"status"`
	StartMS  int64          `json:"start_ms"`
	TookMS   int64          `json:"took_ms"`
	Attempts int            `json:"attempts"`
	Note     string         `json:"note,omitempty"` // what it did, in a few words
	Error    string         `json:"error,omitempty"`
	Inputs   map[string]any `json:"inputs,omitempty"`
	Outputs  map[string]any `json:"outputs,omitempty"`
}

// Process identifies the runner itself: a process id means nothing without its
// start time.
type Process struct {
	PID     int    `json:"pid"`
	Started string `json:"started"`
}

// Failure is why a run did not pass, in the words of its last line.
type Failure struct {
	Message  string   `json:"message"`
	Expected string   `json:"expected,omitempty"`
	Observed string   `json:"observed,omitempty"`
	Evidence []string `json:"evidence"` // files and directories
	Repro    string   `json:"repro"`
}

// Run is the record of a run.
type Run struct {
	SchemaVersion int               `json:"schema_version"`
	ID            string            `json:"run_id"`
	Scenario      string            `json:"scenario"`
	Title         string            `json:"title"`
	Aspects       []string          `json:"aspects"`
	Setup         string            `json:"setup"`
	Verdict       Verdict           `json:"verdict"`
	ExitCode      int               `json:"exit_code"`
	Seed          int64             `json:"seed"`
	Params        map[string]string `json:"params"`
	StartedAt     time.Time         `json:"started_at"`
	EndedAt       time.Time         `json:"ended_at,omitzero"`
	TookMS        int64             `json:"took_ms"`
	// PreparedMS is the part before the first step, in which the broker may have
	// been built.
	PreparedMS int64             `json:"prepared_ms"`
	Criteria   []Check           `json:"criteria"`
	Guards     []Check           `json:"guards"`
	Steps      []Step            `json:"steps"`
	Failures   []Failure         `json:"failures,omitempty"`
	Leftovers  []string          `json:"leftovers,omitempty"`
	Kept       bool              `json:"kept,omitempty"` // the cluster was left running
	Versions   map[string]string `json:"versions"`
	Runner     Process           `json:"runner"`
	Repro      string            `json:"repro"`
	Directory  string            `json:"directory"`
}

// exitOf maps a verdict to its exit code.
var exitOf = map[Verdict]int{
	Pass: ExitPass, Fail: ExitFail, Inconclusive: ExitInconclusive, Environment: ExitEnvironment, StepError: ExitStep, Interrupted: ExitInterrupted,
}

// Exit is the exit code of a run: that of the verdict, or ExitLeftovers when the
// cleanup left something and nobody interrupted the run.
func (r *Run) Exit() int {
	if len(r.Leftovers) > 0 && r.Verdict != Interrupted {
		return ExitLeftovers
	}
	if code, ok := exitOf[r.Verdict]; ok {
		return code
	}
	return ExitStep
}

// Passed counts the criteria that passed, and those that were judged.
func (r *Run) Passed() (passed, judged int) {
	for _, c := range r.Criteria {
		if c.Status == CheckPass {
			passed++
		}
	}
	return passed, len(r.Criteria)
}

// Judge derives the verdict of what ran to its end, from the checks and from
// whether a step failed. A criterion that failed outranks all: a violation that
// was seen is one whatever else went wrong.
func (r *Run) Judge(stepFailed bool) Verdict {
	for _, c := range r.Criteria {
		if c.Status == CheckFail {
			return Fail
		}
	}
	if stepFailed {
		return StepError
	}
	for _, g := range append(append([]Check(nil), r.Guards...), r.Criteria...) {
		if g.Status != CheckPass {
			return Inconclusive
		}
	}
	if len(r.Criteria) == 0 {
		return Inconclusive
	}
	return Pass
}

// RunFile is the name of the record in a run's directory.
const RunFile = "run.json"

// Save writes the record in one step.
func (r *Run) Save(dir string) error {
	data, err := json.MarshalIndent(r, "", "  ")
	path := filepath.Join(dir, RunFile)
	if err == nil {
		err = os.WriteFile(path+".new", append(data, '\n'), 0o644)
	}
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		_ = os.Remove(path + ".new") // half of it
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// LoadRun reads the record in a run's directory.
func LoadRun(dir string) (*Run, error) {
	data, err := os.ReadFile(filepath.Join(dir, RunFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%s is no run: it has no %s", dir, RunFile)
	}
	if err != nil {
		return nil, fmt.Errorf("read run: %w", err)
	}
	var r Run
	if err := json.Unmarshal(data, &r); err != nil {
		return nil, fmt.Errorf("read %s: %w", filepath.Join(dir, RunFile), err)
	}
	if r.SchemaVersion > SchemaVersion || r.SchemaVersion < 1 {
		return nil, fmt.Errorf("%s has schema version %d: this build reads %d", filepath.Join(dir, RunFile), r.SchemaVersion, SchemaVersion)
	}
	return &r, nil
}

// DefaultRunsDir is where runs go when nothing else is said.
const DefaultRunsDir = "runs"

// Name is what commands find the run by from where it was started: its id, or its
// directory where that is not in the default one.
func (r *Run) Name() string {
	if r.Directory == "" || filepath.Dir(filepath.Clean(r.Directory)) == DefaultRunsDir {
		return r.ID
	}
	return r.Directory
}
