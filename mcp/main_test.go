package mcp

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ister-mq/ister/admin/adminv1"
	"github.com/ister-mq/ister/admin/client"
	"github.com/ister-mq/ister/scenarios/scenariotest"
	"github.com/ister-mq/ister/setups/process"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the goldens")

// TestMain lets this binary also be the runner and the command under test.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case roleRunner:
			os.Exit(fakeRunner(os.Args[2:]))
		case roleScenario:
			ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
			code := scenariotest.Main(ctx, os.Args[2:], os.Stdout, os.Stderr)
			stop()
			os.Exit(code)
		case roleCommand:
			c := NewCommand()
			c.SetArgs(os.Args[2:])
			if err := c.ExecuteContext(context.Background()); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			os.Exit(0)
		}
	}
	os.Exit(m.Run())
}

const (
	roleRunner  = "as-runner"
	roleCommand = "as-command"
	// roleScenario is the word of the real command, whose supervisors say it again.
	roleScenario = "scenario"
	releaseFile  = ".release" // in the runs directory: the fake runner goes on
	fakeMax      = 60 * time.Second
)

// fakeRunner does what `scenario run` leaves: a record, events, a broker's log. It
// waits for the file releaseFile, or for SIGTERM.
func fakeRunner(args []string) int {
	runsDir, scenario, id := "", args[1], ""
	for i, a := range args {
		switch a {
		case "--runs-dir":
			runsDir = args[i+1]
		case "--run-id":
			id = args[i+1]
		}
		if strings.HasPrefix(a, "rounds=0") {
			fmt.Fprintln(os.Stderr, "Error: --param: rounds: 0 is below the minimum 1")
			return 2
		}
	}
	interrupted, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	dir := filepath.Join(runsDir, id)
	if i := slices.Index(args, "--detach"); i >= 0 {
		return detachFake(dir, slices.Delete(args, i, i+1))
	}
	if os.Mkdir(dir, 0o755) != nil {
		return 2
	}
	record := map[string]any{
		"schema_version": 1, "run_id": id, "scenario": scenario, "title": "fake", "aspects": []string{"kill"}, "setup": "process", "verdict": "running", "seed": 7,
		"started_at": time.Now().UTC(), "criteria": []any{}, "guards": []any{}, "steps": []any{}, "repro": "scenario run " + scenario, "directory": dir,
		"runner": map[string]any{"pid": os.Getpid(), "started": process.StartTime(os.Getpid())},
	}
	save := func(name string, value any) {
		raw, _ := json.Marshal(value)
		if os.WriteFile(filepath.Join(dir, name+".new"), raw, 0o644) != nil || os.Rename(filepath.Join(dir, name+".new"), filepath.Join(dir, name)) != nil {
			os.Exit(4)
		}
	}
	file, err := os.Create(filepath.Join(dir, eventsFile))
	if err != nil {
		return 4
	}
	seq := 0
	event := func(e map[string]any) {
		seq++
		e["seq"], e["ms"], e["at"] = seq, seq*10, time.Now().UTC()
		raw, _ := json.Marshal(e)
		_, _ = file.Write(append(raw, '\n'))
	}
	event(map[string]any{"event": "run_started", "text": "fake run " + id})
	event(map[string]any{"event": "stage_started", "stage": "setup"})
	for i := range 150 { // more than fits into one result
		s := map[string]any{"id": fmt.Sprintf("step%d", i), "stage": "setup", "use": "cluster.start", "title": "Do a part of the setup", "status": "ok"}
		event(map[string]any{"event": "step_started", "stage": "setup", "step": s})
		event(map[string]any{"event": "step_ended", "stage": "setup", "step": s})
	}
	_ = os.MkdirAll(filepath.Join(dir, "brokers", "b1"), 0o755)
	_ = os.WriteFile(filepath.Join(dir, "brokers", "b1", "log"), []byte(strings.Repeat("a line of the broker\n", 500)+"the last line\n"), 0o644)
	fmt.Println("the runner has begun")
	save(runFile, record)
	until := time.Now().Add(fakeMax)
	verdict := ""
	for verdict == "" {
		if _, err := os.Stat(filepath.Join(runsDir, releaseFile)); err == nil {
			verdict = "fail"
		}
		select {
		case <-interrupted.Done():
			verdict = "interrupted"
		case <-time.After(10 * time.Millisecond):
			if time.Now().After(until) {
				return 4
			}
		}
	}
	check := func(id, status string, guard bool) map[string]any {
		return map[string]any{"aspect": "kill", "id": id, "title": "criterion " + id, "guard": guard, "op": "==", "expected": "0", "observed": "1", "status": status, "evidence": "history.ndjson.gz"}
	}
	event(map[string]any{"event": "check_judged", "check": check("lost", "fail", false)})
	event(map[string]any{"event": "run_ended", "text": verdict})
	record["verdict"], record["exit_code"] = verdict, 1
	record["criteria"] = []any{check("order", "pass", false), check("lost", "fail", false)}
	record["guards"] = []any{check("baseline", "pass", true)}
	record["steps"] = []any{map[string]any{"id": "cluster", "stage": "setup", "use": "cluster.start", "title": "Start", "status": "ok"}}
	record["failures"] = []any{map[string]any{"message": "lost is 1, want 0", "evidence": []string{dir}, "repro": "scenario run"}}
	_ = os.WriteFile(filepath.Join(dir, "summary.md"), []byte("# fake: FAIL\n"), 0o644)
	save(runFile, record)
	return 1
}

// detachFake starts the fake runner in a session of its own and waits until the
// run has its record, as a supervisor announces it.
func detachFake(dir string, args []string) int {
	self, err := os.Executable()
	if err != nil {
		return 4
	}
	logs := filepath.Join(filepath.Dir(dir), runnerLogs)
	_ = os.MkdirAll(logs, 0o755)
	log, err := os.Create(filepath.Join(logs, filepath.Base(dir)+".log"))
	if err != nil {
		return 4
	}
	runner := exec.Command(self, append([]string{roleRunner}, args...)...)
	runner.Stdout, runner.Stderr, runner.SysProcAttr = log, log, &syscall.SysProcAttr{Setsid: true}
	if runner.Start() != nil {
		return 4
	}
	if !await(fakeMax, func() bool { _, err := loadRun(dir); return err == nil }) {
		return 4
	}
	return 0
}

// await looks until a condition holds; false when it did not in time.
func await(limit time.Duration, holds func() bool) bool {
	tick, end := time.NewTicker(5*time.Millisecond), time.After(limit)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-end:
			return false
		}
	}
	return true
}

// release lets fake runners go on.
func release(t *testing.T, runsDir string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(runsDir, releaseFile), nil, 0o644); err != nil {
		t.Fatal(err)
	}
}

// newTestServer makes a server whose runner is this binary. Fake runs that are
// left end with the test.
func newTestServer(t *testing.T, change func(*Config)) *Server {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	config := Config{Endpoints: []string{"127.0.0.1:1"}, RunsDir: t.TempDir(), Runner: []string{self, roleRunner}, Version: "test", checkResults: true}
	if change != nil {
		change(&config)
	}
	endRuns(t, config.RunsDir)
	s, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// endRuns ends fake runners and waits for them, so that nothing is left behind.
func endRuns(t *testing.T, runsDir string) {
	t.Cleanup(func() {
		entries, _ := filepath.Glob(filepath.Join(runsDir, "*", runFile))
		for _, path := range entries {
			r, err := loadRun(filepath.Dir(path))
			if err != nil || r.Verdict != verdictRunning {
				continue
			}
			_ = syscall.Kill(r.Runner.PID, syscall.SIGTERM)
			within(t, "the runner ends", func() bool {
				r, err := loadRun(filepath.Dir(path))
				return err == nil && r.Verdict != verdictRunning
			})
		}
	})
}

// within waits for a condition.
func within(t *testing.T, what string, holds func() bool) {
	t.Helper()
	if !await(time.Minute, holds) {
		t.Fatalf("not in time: %s", what)
	}
}

func names(s *Server) []string {
	out := []string{}
	for name := range s.tools {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// drift changes the placement of a cluster behind a plan's back.
func drift(t *testing.T, endpoint string) {
	t.Helper()
	admin, err := client.New(client.Options{Endpoints: []string{endpoint}, Actor: "test"})
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	if _, err := admin.Brokers.Cordon(t.Context(), &adminv1.CordonRequest{BrokerId: 1}); err == nil {
		if _, err := admin.Brokers.Uncordon(t.Context(), &adminv1.UncordonRequest{BrokerId: 1}); err != nil {
			t.Fatal(err)
		}
		return
	}
	if _, err := admin.Brokers.Activate(t.Context(), &adminv1.ActivateRequest{BrokerId: 1}); err != nil { // the fake knows no cordon, and counts this
		t.Fatal(err)
	}
}
