package run

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ister-mq/ister/scenarios/internal/report"
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
	left, err := Clean(dir, false, silent)
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
	if left, err := Clean(dir, true, silent); err != nil || len(left) > 0 {
		t.Fatalf("%v, %v", left, err)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the run is still there: %v", err)
	}
}

func TestCleanRefusesALiveRun(t *testing.T) {
	self := report.Process{PID: os.Getpid(), Started: process.StartTime(os.Getpid())}
	dir, gone := abandoned(t, self)
	if _, err := Clean(dir, true, silent); err == nil || !strings.Contains(err.Error(), "scenario stop") {
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
	left, err := Stop(t.Context(), dir, func(text string) { said = append(said, text) })
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
	for _, want := range []string{"20261202-010203-s", "20261202-010203-s-2", "20261202-010203-s-3"} {
		if id, _, err := newDir(runs, "", "s", at); err != nil || id != want {
			t.Errorf("%s, %v, want %s", id, err, want)
		}
	}
}
