package scenarios

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ister-mq/ister/scenarios/internal/fakecluster"
	"github.com/ister-mq/ister/scenarios/internal/report"
	"github.com/ister-mq/ister/scenarios/internal/run"
)

// pausing starts a run that pauses, and returns its first pause. It is ended with
// the test.
func pausing(t *testing.T, want int, args ...string) (runs string, state run.State) {
	t.Helper()
	t.Setenv(asCommand, "1")
	runs = t.TempDir()
	t.Cleanup(func() {
		if dir, err := run.Find(runs, "last"); err == nil {
			_, _ = run.Stop(context.Background(), dir, nil, func(string) {})
		}
	})
	return runs, goneOn(t, runs, want, append([]string{"run", "--seed", "7"}, args...)...)
}

// goneOn does a command that ends at a pause with the wanted exit code.
func goneOn(t *testing.T, runs string, want int, args ...string) (state run.State) {
	t.Helper()
	code, out, errOut := scenario(t, fakecluster.Setup{}, append(args, "--runs-dir", runs, "-o", "json")...)
	if err := json.Unmarshal([]byte(out), &state); err != nil || code != want || !state.Paused() {
		t.Fatalf("%v: exit %d, want %d, state %q: %v\n%s\n%s", args, code, want, state.State, err, out, errOut)
	}
	return state
}

func TestStepThroughARunThatPausesBeforeEachStep(t *testing.T) {
	runs, state := pausing(t, 0, smallFile(t, "", "40"), "--pause", "each")
	if state.Pause.Step != "cluster" || strings.Join(state.StepsLeft, " ") != "cluster topic load sent stop verify" {
		t.Fatalf("%+v", state)
	}
	if state = goneOn(t, runs, 0, "step", "last"); state.Pause.Step != "topic" || len(state.Pause.Bootstrap) != 3 || len(state.Pause.Admin) != 3 {
		t.Fatalf("%+v", state.Pause)
	}
	if code, _, errOut := scenario(t, fakecluster.Setup{}, "step", "last", "clustr", "--runs-dir", runs); code != 2 || !strings.Contains(errOut, "no step clustr") {
		t.Fatalf("exit %d: %s", code, errOut)
	}
	if state = goneOn(t, runs, 0, "step", "last", "sent"); state.Pause.Step != "stop" {
		t.Fatalf("%+v", state.Pause)
	}
	if err := run.Give(filepath.Join(runs, state.RunID), state.Pause.Number-1, run.ResumeOrder()); err == nil || !strings.Contains(err.Error(), "has been told already") {
		t.Errorf("a second order for one pause: %v", err)
	}
	code, out, errOut := scenario(t, fakecluster.Setup{}, "resume", "last", "--runs-dir", runs)
	if code != 0 || !strings.Contains(out, "PASS") || strings.Contains(out, "Start 3 brokers") {
		t.Fatalf("exit %d\n%s%s", code, out, errOut)
	}
	checkEvidence(t, filepath.Join(runs, state.RunID))
	if code, _, errOut := scenario(t, fakecluster.Setup{}, "resume", "last", "--runs-dir", runs); code != 2 || !strings.Contains(errOut, "is not paused: it is ended") {
		t.Errorf("resume of an ended run: exit %d: %s", code, errOut)
	}
}

func TestPauseOnFailureKeepsTheClusterAndTellsHowToGoOn(t *testing.T) {
	bad := "      - {id: bad, use: topic.describe, with: {name: /default/none}}\n"
	runs, state := pausing(t, report.ExitStep, smallFile(t, bad, "1"), "--pause", "on-failure")
	dir := filepath.Join(runs, state.RunID)
	if state.Pause.Step != "bad" || !strings.Contains(state.Pause.Message, "TOPIC_NOT_FOUND") {
		t.Fatalf("%+v", state.Pause)
	}
	text := strings.Join(state.Pause.Lines(), "\n")
	for _, want := range []string{"bootstrap " + strings.Join(state.Pause.Bootstrap, ","), "evidence  ", "repro     scenario run", "scenario step " + dir, "scenario resume " + dir} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	if state = goneOn(t, runs, report.ExitStep, "step", "last"); state.Pause.Step != "bad" || state.Pause.Number != 2 {
		t.Fatalf("the step was not done again: %+v", state.Pause)
	}
	if code, _, errOut := scenario(t, fakecluster.Setup{}, "resume", "last", "--runs-dir", runs); code != report.ExitStep {
		t.Fatalf("exit %d: %s", code, errOut)
	}
	r, err := report.LoadRun(dir)
	if err != nil || r.Verdict != report.StepError || !stepRan(r, "last") {
		t.Fatalf("%+v, %v", r, err)
	}
}

func TestAFailedGuardPausesAndStopEndsThePause(t *testing.T) {
	runs, state := pausing(t, report.ExitFail, smallFile(t, "", "41"), "--pause", "on-failure")
	if state.Pause.Step != "" || !strings.Contains(state.Pause.Message, "guard only/seen") {
		t.Fatalf("%+v", state.Pause)
	}
	if code, _, errOut := scenario(t, fakecluster.Setup{}, "stop", "last", "--runs-dir", runs); code != 0 {
		t.Fatalf("exit %d: %s", code, errOut)
	}
	if r, err := report.LoadRun(filepath.Join(runs, state.RunID)); err != nil || r.Verdict != report.Interrupted || !stepRan(r, "last") {
		t.Fatalf("%+v, %v", r, err)
	}
}

func TestFromPausesAtAStep(t *testing.T) {
	runs, state := pausing(t, 0, smallFile(t, "", "40"), "--from", "stop")
	if state.Pause.Step != "stop" {
		t.Fatalf("%+v", state.Pause)
	}
	if state = goneOn(t, runs, 0, "step", "last"); state.Pause.Step != "verify" {
		t.Fatalf("%+v", state.Pause)
	}
}

func TestUntilEndsTheRunAfterAStep(t *testing.T) {
	r, _ := ran(t, fakecluster.Setup{}, smallFile(t, "", "40"), "--until", "sent")
	if r.Verdict != report.Inconclusive || !stepRan(r, "sent") || stepRan(r, "verify") || !stepRan(r, "last") || len(r.Failures) != 1 || !strings.Contains(r.Failures[0].Message, "--until") {
		t.Fatalf("%s: %+v", r.Verdict, r.Failures)
	}
}

func TestAPauseThatNobodyEndsEndsTheRun(t *testing.T) {
	t.Setenv(asCommand, "1")
	runs := t.TempDir()
	id := func() string {
		_, out, _ := scenario(t, fakecluster.Setup{}, "run", smallFile(t, "", "40"), "--runs-dir", runs, "--pause", "each", "--pause-max", "1ms", "--detach")
		return strings.TrimSpace(out)
	}()
	code, out, errOut := scenario(t, fakecluster.Setup{}, "watch", id, "--runs-dir", runs)
	if code != report.ExitInterrupted || !strings.Contains(out, "nobody went on with a pause for 1ms") {
		t.Fatalf("exit %d\n%s%s", code, out, errOut)
	}
}

func TestRepeatGoesOnUntilARunDoesNotPass(t *testing.T) {
	for guard, want := range map[string]int{"40": 2, "41": 1} {
		runs := t.TempDir()
		scenario(t, fakecluster.Setup{}, "run", smallFile(t, "", guard), "--runs-dir", runs, "--seed", "7", "--repeat", "2")
		infos, err := run.List(runs)
		if err != nil || len(infos) != want || infos[len(infos)-1].Run.Seed != int64(6+want) {
			t.Errorf("%d runs, want %d: %v", len(infos), want, err)
		}
	}
}

func TestUsageErrorsOfPauses(t *testing.T) {
	for want, args := range map[string][]string{
		"--pause always is not known":        {"--pause", "always", "--supervisor"},
		"this run has no step called sendt":  {"--until", "sendt"},
		"--repeat 0 is not a number of runs": {"--repeat", "0"},
		"--repeat does not go with":          {"--repeat", "2", "--detach"},
		"--detach, --pause, --from and --ru": {"--repeat", "2", "--run-id", "mine"},
	} {
		runs := t.TempDir()
		code, _, errOut := scenario(t, fakecluster.Setup{}, append([]string{"run", smallFile(t, "", "1"), "--runs-dir", runs}, args...)...)
		if left, _ := os.ReadDir(runs); code != 2 || !strings.Contains(errOut, want) || len(left) > 0 {
			t.Errorf("%v: exit %d, %s, left %v", args, code, errOut, left)
		}
	}
}
