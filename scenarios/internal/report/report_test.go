package report

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the golden files")

// sample is a run in which one of everything happened.
func sample() *Run {
	r := &Run{
		SchemaVersion: SchemaVersion, ID: "20261202-000000-sample", Scenario: "sample", Title: "A sample", Aspects: []string{"one", "two"}, Setup: "process",
		Seed: 7, StartedAt: time.Date(2026, 12, 2, 0, 0, 0, 0, time.UTC), TookMS: 12345, PreparedMS: 2000, Repro: "scenario run sample --seed 7", Directory: "runs/20261202-000000-sample",
		Criteria: []Check{
			{Aspect: "one", ID: "cv", Title: "coefficient of variation of leaders", Metric: "balance.cv", Op: "<", Expected: "0.25", Observed: "0.2357", Detail: "leaders: b1 4, b2 3, b3 3, b4 2", Status: CheckPass, Evidence: "runs/x/events.ndjson"},
			{Aspect: "two", ID: "gap", Title: "longest produce gap, ms, in the whole of the very long second aspect", Metric: "during.gap", Op: "<", Expected: "2000", Observed: "3120.4", Status: CheckFail, Evidence: "runs/x/events.ndjson"},
			{Aspect: "two", ID: "lost", Title: "acknowledged records | lost", Metric: "verify.acked_missing", Op: "==", Expected: "0", Observed: "no value", Status: NotEvaluated, Evidence: "runs/x/events.ndjson", Detail: "verify has no value: its step did not run"},
		},
		Guards: []Check{
			{Aspect: "one", ID: "seen", Title: "a baseline was seen", Guard: true, Metric: "verify.baseline", Op: ">=", Expected: "1", Observed: "9", Status: CheckPass},
			{Aspect: "one", ID: "in_flight", Title: "sends were in flight", Guard: true, Metric: "during.in_flight", Op: ">=", Expected: "1", Observed: "0", Status: CheckFail},
		},
		Steps: []Step{
			{ID: "start", Stage: "setup", Use: "cluster.start", Title: "Start 3 brokers", Status: StepOK, TookMS: 1234, Attempts: 1, Note: "b1 b2 b3", Outputs: map[string]any{"names": []any{"b1", "b2", "b3"}}},
			{ID: "balance", Stage: "one", Use: "brokers.balance", Title: "Read the balance", Status: StepOK, TookMS: 40, Attempts: 3, Note: "b1 4, b2 3, b3 3, b4 2", Outputs: map[string]any{"vector": "b1 4, b2 3, b3 3, b4 2"}},
			{ID: "verify", Stage: "two", Use: "load.verify", Title: "Read everything", Status: StepFailed, TookMS: 60000, Attempts: 1, Error: "read of load steady: 3 partitions are not read to their high watermark: context deadline exceeded (the step's timeout of 1m0s has passed)"},
		},
		Failures: []Failure{{Message: "criterion two/gap: longest produce gap, ms", Expected: "during.gap < 2000", Observed: "3120.4", Evidence: []string{"runs/x/events.ndjson", "runs/x/history.ndjson.gz"}, Repro: "scenario run sample --seed 7"}},
	}
	r.Verdict = r.Judge(true)
	return r
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *rewrite {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs (go test -rewrite, and read the change):\n%s", path, got)
	}
}

func TestGoldens(t *testing.T) {
	r := sample()
	var text bytes.Buffer
	shown := NewTerminal(&text, false, false, false)
	shown.Event(Event{Kind: RunStarted, Text: "sample: run 20261202-000000-sample, seed 7"})
	stage := ""
	for i := range r.Steps {
		s := &r.Steps[i]
		if s.Stage != stage {
			stage = s.Stage
			shown.Event(Event{Kind: StageStarted, Stage: stage, Judged: stage != "two"})
		}
		shown.Event(Event{Kind: StepStarted, Step: s})
		shown.Event(Event{Kind: StepSays, Text: "waiting for the gates of b4"})
		shown.Event(Event{Kind: StepEnded, Step: s})
	}
	shown.Summary(r)
	for _, line := range strings.Split(text.String(), "\n") {
		if utf8.RuneCountInString(line) > Width {
			t.Errorf("wider than %d: %s", Width, line)
		}
		if strings.Contains(line, "\x1b") {
			t.Errorf("an escape where there is no terminal: %q", line)
		}
	}
	golden(t, "terminal.txt", text.String())
	golden(t, "summary.md", Markdown(r))
	junit, err := JUnit(r)
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "junit.xml", string(junit))
	var back junitSuites
	if err := xml.Unmarshal(junit, &back); err != nil {
		t.Fatal(err)
	}
	if back.Tests != 5 || back.Failures != 1 || back.Errors != 3 {
		t.Errorf("junit counts %d, %d, %d", back.Tests, back.Failures, back.Errors)
	}
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "run.json", string(data)+"\n")
}

func TestLiveTerminalReplacesTheRunningStep(t *testing.T) {
	var out bytes.Buffer
	shown := NewTerminal(&out, true, true, false)
	step := &Step{ID: "a", Use: "cluster.start", Title: "Start", Status: StepOK}
	shown.Event(Event{Kind: StepStarted, Step: step})
	shown.Event(Event{Kind: StepEnded, Step: step})
	if got := out.String(); got != "\r\x1b[2K  ..    Start\r\x1b[2K  \x1b[32mok\x1b[0m      0.0s  Start\n" {
		t.Errorf("%q", got)
	}
}

func TestQuietShowsFailuresOnly(t *testing.T) {
	var out bytes.Buffer
	shown := NewTerminal(&out, false, false, true)
	shown.Event(Event{Kind: StageStarted, Stage: "one"})
	shown.Event(Event{Kind: StepEnded, Step: &Step{Title: "good", Status: StepOK}})
	shown.Event(Event{Kind: StepEnded, Step: &Step{Title: "bad", Status: StepFailed, Error: "why"}})
	if got := out.String(); strings.Contains(got, "good") || !strings.Contains(got, "bad") || !strings.Contains(got, "why") {
		t.Errorf("%q", got)
	}
}

func TestJudge(t *testing.T) {
	pass, fail, none := Check{Status: CheckPass}, Check{Status: CheckFail}, Check{Status: NotEvaluated}
	for _, c := range []struct {
		criteria, guards []Check
		stepFailed       bool
		want             Verdict
	}{
		{[]Check{pass}, []Check{pass}, false, Pass},
		{[]Check{pass, fail}, []Check{fail}, true, Fail},
		{[]Check{pass}, []Check{fail}, false, Inconclusive},
		{[]Check{pass}, []Check{none}, false, Inconclusive},
		{[]Check{pass, none}, nil, false, Inconclusive},
		{[]Check{pass}, []Check{pass}, true, StepError},
		{nil, nil, false, Inconclusive},
	} {
		r := &Run{Criteria: c.criteria, Guards: c.guards}
		if got := r.Judge(c.stepFailed); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}

func TestLoadRunRefusesWhatItCannotRead(t *testing.T) {
	dir := t.TempDir()
	if _, err := LoadRun(dir); err == nil || !strings.Contains(err.Error(), "is no run") {
		t.Errorf("%v", err)
	}
	for text, want := range map[string]string{"{": "unexpected end", `{"schema_version": 99}`: "schema version 99", "{}": "schema version 0"} {
		if err := os.WriteFile(filepath.Join(dir, RunFile), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := LoadRun(dir); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
	if err := sample().Save(dir); err != nil {
		t.Fatal(err)
	}
	if r, err := LoadRun(dir); err != nil || r.ID != sample().ID {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestRunsAreNamedSoThatTheyAreFound: a run that is not in the default directory is
// named by its own.
func TestRunsAreNamedSoThatTheyAreFound(t *testing.T) {
	for directory, want := range map[string]string{"runs/a": "a", "./runs/a": "a", "": "a", "/tmp/x/a": "/tmp/x/a", "other/runs/a": "other/runs/a"} {
		if got := (&Run{ID: "a", Directory: directory}).Name(); got != want {
			t.Errorf("%q: %q, want %q", directory, got, want)
		}
	}
}

// TestRowsFitANarrowTerminal: the row of a criterion is one line on 80 columns too.
func TestRowsFitANarrowTerminal(t *testing.T) {
	for _, width := range []int{widthMin, 80, Width} {
		var out bytes.Buffer
		shown := NewTerminal(&out, false, false, false)
		shown.width = width
		shown.check(Check{Title: strings.Repeat("title ", 20), Observed: strings.Repeat("9", 40), Op: "==", Expected: strings.Repeat("8", 40), Status: CheckPass, Detail: strings.Repeat("detail ", 30)})
		for _, line := range strings.Split(out.String(), "\n") {
			if utf8.RuneCountInString(line) > width {
				t.Errorf("wider than %d: %s", width, line)
			}
		}
	}
}
