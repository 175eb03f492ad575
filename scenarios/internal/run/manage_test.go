package run

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ister-mq/ister/scenarios/internal/report"
	"github.com/ister-mq/ister/setups"
	"github.com/ister-mq/ister/setups/process"
)

// abandoned makes the directory of a run whose runner is gone, with one process
// that it started and that still runs.
func abandoned(t *testing.T, runner report.Process) (dir string, gone <-chan struct{}) {
	t.Helper()
	id, dir, err := newDir(t.TempDir(), "", "sample", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	r := &report.Run{SchemaVersion: report.SchemaVersion, ID: id, Scenario: "sample", Verdict: report.Running, Runner: runner}
	if err := r.Save(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "brokers", "b1", "data", "deep"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "brokers", "b1", "log"), []byte("log\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sleep", "600")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	if err := process.NewLedger(dir).Add("b1", cmd.Process.Pid, cmd.Args); err != nil {
		t.Fatal(err)
	}
	return dir, ended
}

func silent(string) {}

func TestCleanEndsWhatAnAbandonedRunLeft(t *testing.T) {
	dir, gone := abandoned(t, report.Process{PID: 999999999, Started: "1"})
	infos, err := List(filepath.Dir(dir))
	if err != nil || len(infos) != 1 || infos[0].Live || infos[0].Processes != 1 {
		t.Fatalf("%+v, %v", infos, err)
	}
	left, err := Clean(t.Context(), dir, nil, false, silent)
	if err != nil || len(left) > 0 {
		t.Fatalf("%v, %v", left, err)
	}
	<-gone
	if _, err := os.Stat(filepath.Join(dir, "brokers", "b1", "data")); !os.IsNotExist(err) {
		t.Errorf("data is still there: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "brokers", "b1", "log")); err != nil {
		t.Errorf("evidence is gone: %v", err)
	}
	if r, err := report.LoadRun(dir); err != nil || r.Verdict != report.Interrupted || len(r.Failures) != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	if left, err := Clean(t.Context(), dir, nil, true, silent); err != nil || len(left) > 0 {
		t.Fatalf("%v, %v", left, err)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the run is still there: %v", err)
	}
}

func TestCleanRefusesALiveRun(t *testing.T) {
	self := report.Process{PID: os.Getpid(), Started: process.StartTime(os.Getpid())}
	dir, gone := abandoned(t, self)
	if _, err := Clean(t.Context(), dir, nil, true, silent); err == nil || !strings.Contains(err.Error(), "scenario stop") {
		t.Fatalf("%v", err)
	}
	select {
	case <-gone:
		t.Fatal("a live run's process was ended")
	default:
	}
}

func TestStopEndsTheProcessesWhenTheRunnerIsGone(t *testing.T) {
	dir, gone := abandoned(t, report.Process{PID: os.Getpid(), Started: "another process had this id"})
	var said []string
	left, err := Stop(t.Context(), dir, nil, func(text string) { said = append(said, text) })
	if err != nil || len(left) > 0 {
		t.Fatalf("%v, %v", left, err)
	}
	<-gone
	if len(said) != 1 || !strings.Contains(said[0], "ending b1") {
		t.Errorf("said %v", said)
	}
}

func TestFind(t *testing.T) {
	runs := t.TempDir()
	for _, scenario := range []string{"alpha", "beta"} {
		id, dir, err := newDir(runs, "", scenario, time.Date(2026, 12, 2, 1, 2, 3, 0, time.UTC))
		if err != nil {
			t.Fatal(err)
		}
		if err := (&report.Run{SchemaVersion: 1, ID: id, Scenario: scenario}).Save(dir); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]string{"last": "20261202-010203-beta", "alpha": "20261202-010203-alpha", "20261202-010203-beta": "20261202-010203-beta", filepath.Join(runs, "20261202-010203-beta"): "20261202-010203-beta"} {
		if dir, err := Find(runs, name); err != nil || filepath.Base(dir) != want {
			t.Errorf("%s: %s, %v", name, dir, err)
		}
	}
	for name, want := range map[string]string{"2026": "could be", "gamma": "no run gamma"} {
		if _, err := Find(runs, name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestNewDirTakesTheNextFreeName(t *testing.T) {
	runs, at := t.TempDir(), time.Date(2026, 12, 2, 1, 2, 3, 0, time.UTC)
	for _, want := range []string{"20261202-010203-s", "20261202-010203-2-s", "20261202-010203-3-s"} {
		if id, _, err := newDir(runs, "", "s", at); err != nil || id != want {
			t.Errorf("%s, %v, want %s", id, err, want)
		}
	}
}

// cleanerFunc is a setups.Cleaner.
type cleanerFunc func(ctx context.Context, dir string) ([]string, error)

func (f cleanerFunc) Clean(ctx context.Context, dir string) ([]string, error) { return f(ctx, dir) }

func TestTheSetupCleansAfterTheProcessesEnded(t *testing.T) {
	for name, act := range map[string]func(string, setups.Cleaner) ([]string, error){
		"stop":  func(dir string, c setups.Cleaner) ([]string, error) { return Stop(t.Context(), dir, c, silent) },
		"clean": func(dir string, c setups.Cleaner) ([]string, error) { return Clean(t.Context(), dir, c, false, silent) },
	} {
		dir, gone := abandoned(t, report.Process{PID: 999999999, Started: "1"})
		called := 0
		left, err := act(dir, cleanerFunc(func(_ context.Context, at string) ([]string, error) {
			<-gone
			if called++; at != dir {
				t.Errorf("%s: cleaned %s", name, at)
			}
			return []string{"container x"}, nil
		}))
		if err != nil || called != 1 || len(left) != 1 {
			t.Fatalf("%s: %v, %v, called %d times", name, left, err, called)
		}
		if r, err := report.LoadRun(dir); err != nil || r.Verdict != report.Running {
			t.Errorf("%s: settled as %s with something left behind, %v", name, r.Verdict, err)
		}
		if left, err := act(dir, cleanerFunc(func(context.Context, string) ([]string, error) { return nil, nil })); err != nil || len(left) > 0 {
			t.Errorf("%s again: %v, %v", name, left, err)
		}
		if r, err := report.LoadRun(dir); err != nil || r.Verdict != report.Interrupted || r.ExitCode != report.ExitInterrupted {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
		for _, file := range []string{"summary.md", "junit.xml", "report.html", "repro.sh", "state.json", sumsName} {
			if info, err := os.Stat(filepath.Join(dir, file)); err != nil || info.Size() == 0 {
				t.Errorf("%s: evidence %s: %v", name, file, err)
			}
		}
	}
}

func TestAKeptClusterIsEndedByStop(t *testing.T) {
	dir, gone := abandoned(t, report.Process{PID: 999999999, Started: "1"})
	r, err := report.LoadRun(dir)
	if err != nil {
		t.Fatal(err)
	}
	r.Verdict, r.Kept = report.Pass, true
	if err := r.Save(dir); err != nil {
		t.Fatal(err)
	}
	called := false
	if left, err := Stop(t.Context(), dir, cleanerFunc(func(context.Context, string) ([]string, error) { called = true; return nil, nil }), silent); err != nil || len(left) > 0 || !called {
		t.Fatalf("%v, %v, called %v", left, err, called)
	}
	<-gone
	if r, err := report.LoadRun(dir); err != nil || r.Verdict != report.Pass || r.Kept || r.ExitCode != report.ExitPass {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestARunAtWorkOnAnotherMachineIsNotTouched(t *testing.T) {
	dir, _ := abandoned(t, report.Process{PID: os.Getpid(), Started: "1 on another machine"})
	r, err := report.LoadRun(dir)
	if err != nil {
		t.Fatal(err)
	}
	r.StartedAt = time.Now().UTC()
	if err := r.Save(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := Clean(t.Context(), dir, nil, false, silent); err == nil || !strings.Contains(err.Error(), "stop it there") {
		t.Errorf("clean: %v", err)
	}
	if _, err := Stop(t.Context(), dir, nil, silent); err == nil || !strings.Contains(err.Error(), "stop it there") {
		t.Errorf("stop: %v", err)
	}
	if info, err := Inspect(dir); err != nil || info.Processes != 1 {
		t.Errorf("%+v, %v", info, err)
	}
	r.StartedAt = r.StartedAt.Add(-quietAfter)
	if err := r.Save(dir); err != nil {
		t.Fatal(err)
	}
	if left, err := Clean(t.Context(), dir, nil, false, silent); err != nil || len(left) > 0 {
		t.Errorf("clean of one that is quiet: %v, %v", left, err)
	}
}
