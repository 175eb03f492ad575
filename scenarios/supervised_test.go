package scenarios

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/cobra"

	"github.com/ister-mq/ister/scenarios/internal/fakecluster"
	"github.com/ister-mq/ister/scenarios/internal/report"
	"github.com/ister-mq/ister/scenarios/internal/run"
)

// asCommand makes this test binary the scenario command with the fake cluster,
// so that a supervisor is a real process.
const asCommand = "ISTER_TEST_AS_SCENARIO"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) == "" {
		if slices.Contains(os.Args, "--supervisor") {
			panic("a test has started a supervisor without " + asCommand + ": it would be these tests again")
		}
		os.Exit(m.Run())
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := execute(ctx, newCommand(fakecluster.Setup{}), os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// forever is a step that only an interrupt ends in time.
const forever = "      - {id: forever, use: load.wait, with: {load: small, acked: 1000}, timeout: 1h}\n"

// detached starts a run in a supervisor, which is ended with the test.
func detached(t *testing.T, args ...string) (runs, id string) {
	t.Helper()
	t.Setenv(asCommand, "1")
	runs = t.TempDir()
	code, out, errOut := scenario(t, fakecluster.Setup{}, append([]string{"run", "--detach", "--runs-dir", runs, "--seed", "7"}, args...)...)
	if code != 0 {
		t.Fatalf("exit %d: %s", code, errOut)
	}
	id = strings.TrimSpace(out)
	t.Cleanup(func() {
		if _, err := run.Stop(context.Background(), filepath.Join(runs, id), nil, func(string) {}); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
	return runs, id
}

func TestDetachedRunIsWatchedToItsEndWithItsExitCode(t *testing.T) {
	for guard, want := range map[string]int{"40": report.ExitPass, "41": report.ExitInconclusive} {
		runs, id := detached(t, smallFile(t, "", guard))
		code, out, errOut := scenario(t, fakecluster.Setup{}, "watch", "--runs-dir", runs, id)
		if code != want || !strings.Contains(out, "run "+id) || !strings.Contains(out, "evidence: ") {
			t.Fatalf("exit %d, want %d\n%s\n%s", code, want, out, errOut)
		}
		checkEvidence(t, filepath.Join(runs, id))
		if r, err := report.LoadRun(filepath.Join(runs, id)); err != nil || r.Runner.PID == os.Getpid() {
			t.Errorf("the run was not supervised: %+v, %v", r, err)
		}
		if log, err := os.ReadFile(filepath.Join(runs, run.LogsName, id+".log")); err != nil || !strings.Contains(string(log), id) {
			t.Errorf("the supervisor's log: %v\n%s", err, log)
		}
	}
}

func TestStopEndsADetachedRun(t *testing.T) {
	runs, id := detached(t, smallFile(t, forever, "1"))
	seen := &stopAt{word: `"forever"`}
	following, cancel := context.WithCancel(t.Context())
	seen.cancel = cancel
	if code := execute(following, newCommand(fakecluster.Setup{}), []string{"watch", "--runs-dir", runs, "--progress", "ndjson", "last"}, seen, seen); code != report.ExitInterrupted {
		t.Fatalf("exit %d of a watch that was ended\n%s", code, seen)
	}
	code, out, errOut := scenario(t, fakecluster.Setup{}, "stop", "--runs-dir", runs, id)
	if code != 0 || !strings.Contains(out, "stopped") {
		t.Fatalf("exit %d: %s%s", code, out, errOut)
	}
	if code, _, _ := scenario(t, fakecluster.Setup{}, "watch", "--runs-dir", runs, id); code != report.ExitInterrupted {
		t.Errorf("watch of a stopped run: exit %d", code)
	}
}

func TestDetachSaysWhatIsWrongAndLeavesNothing(t *testing.T) {
	t.Setenv(asCommand, "1")
	runs := t.TempDir()
	code, _, errOut := scenario(t, fakecluster.Setup{}, "run", "broker-scaling", "--detach", "--runs-dir", runs, "-p", "topics=2")
	if code != 2 || !strings.Contains(errOut, "topics: 2 is below the minimum 4") || strings.Contains(errOut, "Error: Error") {
		t.Fatalf("exit %d: %s", code, errOut)
	}
	if left, _ := filepath.Glob(filepath.Join(runs, "*")); len(left) > 0 {
		t.Errorf("left %v", left)
	}
}

func TestACallerNamesTheRun(t *testing.T) {
	runs, id := detached(t, smallFile(t, "", "40"), "--run-id", "z-mine")
	if id != "z-mine" {
		t.Fatalf("run %s", id)
	}
	if code, out, errOut := scenario(t, fakecluster.Setup{}, "watch", "--runs-dir", runs, "z-mine"); code != 0 {
		t.Fatalf("exit %d: %s%s", code, out, errOut)
	}
	sums, _ := os.ReadFile(filepath.Join(runs, id, "SHA256SUMS"))
	for given, says := range map[string]string{
		"z-mine": "there is a " + filepath.Join(runs, id) + " already", "last": "the newest run", "../up": "no name of a run", "": "--run-id is empty", "Upper": "no name of a run",
		strings.Repeat("a", 64): "64 characters", "-flag": "no name of a run", "end-": "no name of a run",
	} {
		for _, more := range [][]string{nil, {"--detach"}} {
			code, _, errOut := scenario(t, fakecluster.Setup{}, append([]string{"run", smallFile(t, "", "40"), "--runs-dir", runs, "--run-id=" + given}, more...)...)
			if code != 2 || !strings.Contains(errOut, says) {
				t.Errorf("--run-id %q %v: exit %d: %s", given, more, code, errOut)
			}
		}
	}
	if after, _ := os.ReadFile(filepath.Join(runs, id, "SHA256SUMS")); len(sums) == 0 || string(after) != string(sums) {
		t.Error("the run of that name was touched")
	}
	if code, _, errOut := scenario(t, fakecluster.Setup{}, "run", smallFile(t, "", "40"), "--runs-dir", runs, "--run-id", "a-later"); code != 0 {
		t.Fatal(errOut)
	}
	if dir, err := run.Find(runs, "last"); err != nil || filepath.Base(dir) != "a-later" {
		t.Errorf("the newest run is %s, %v", dir, err)
	}
}

func TestWatchOfAnAbandonedRunSaysSo(t *testing.T) {
	runs := t.TempDir()
	dir := filepath.Join(runs, "20261202-000000-small")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	r := &report.Run{SchemaVersion: report.SchemaVersion, ID: filepath.Base(dir), Verdict: report.Running, Runner: report.Process{PID: 999999999, Started: "1"}}
	if err := r.Save(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, run.EventsFile), []byte(`{"seq":1,"event":"run_started","text":"begun"}`+"\n{\"seq\":"), 0o644); err != nil {
		t.Fatal(err)
	}
	code, out, errOut := scenario(t, fakecluster.Setup{}, "watch", "--runs-dir", runs, "last")
	if code != report.ExitEnvironment || !strings.Contains(errOut, "scenario stop "+r.ID) || !strings.Contains(out, "begun") {
		t.Fatalf("exit %d: %s%s", code, out, errOut)
	}
	if err := os.WriteFile(filepath.Join(dir, run.StateFile), []byte(`{"schema_version":1,"run_id":"x","state":"running"}`), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, verb := range []string{"step", "resume"} {
		if code, _, errOut := scenario(t, fakecluster.Setup{}, verb, "--runs-dir", runs, "last"); code != report.ExitEnvironment || !strings.Contains(errOut, "scenario stop "+r.ID) {
			t.Errorf("%s: exit %d: %s", verb, code, errOut)
		}
	}
	if code, out, _ := scenario(t, fakecluster.Setup{}, "report", "--runs-dir", runs, "last"); code != 0 || !strings.Contains(out, "scenario clean "+r.ID) {
		t.Errorf("report: exit %d: %s", code, out)
	}
	if code, _, errOut := scenario(t, fakecluster.Setup{}, "report", "--runs-dir", runs, "last", "--report", "md"); code != 2 || !strings.Contains(errOut, "scenario clean "+r.ID) {
		t.Errorf("reports made again: exit %d: %s", code, errOut)
	}
}

func TestProgressNDJSONIsTheEventsFile(t *testing.T) {
	runs := t.TempDir()
	code, out, errOut := scenario(t, fakecluster.Setup{}, "run", smallFile(t, "", "40"), "--runs-dir", runs, "--progress", "ndjson")
	if code != 0 {
		t.Fatalf("exit %d: %s", code, errOut)
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	for i, line := range lines {
		var e report.Event
		if err := json.Unmarshal([]byte(line), &e); err != nil || e.Seq != int64(i+1) {
			t.Fatalf("line %d: %v: %s", i+1, err, line)
		}
	}
	files, _ := filepath.Glob(filepath.Join(runs, "*", run.EventsFile))
	if len(files) != 1 {
		t.Fatal(fmt.Sprint(files))
	}
	if code, again, _ := scenario(t, fakecluster.Setup{}, "watch", "--runs-dir", runs, "--progress", "ndjson", "last"); code != 0 || again != out {
		t.Errorf("watch of an ended run: exit %d, %d bytes instead of %d", code, len(again), len(out))
	}
}

func TestSupervisorIsTheCommandThatWasTyped(t *testing.T) {
	runOf := func(root *cobra.Command) *cobra.Command {
		cmd, _, err := root.Find([]string{"scenario", "run"})
		if err != nil || cmd.Name() != "run" {
			cmd, _, err = root.Find([]string{"run"})
		}
		if err != nil {
			t.Fatal(err)
		}
		return cmd
	}
	mounted := &cobra.Command{Use: "ister"}
	mounted.AddCommand(NewCommand())
	for want, got := range map[string][]string{
		"run":          wordsOf(runOf(NewCommand()), []string{"/bin/scenario", "run", "small"}),
		"scenario run": wordsOf(runOf(NewCommand()), []string{"/bin/ister", "scenario", "run", "small"}),
	} {
		if strings.Join(got, " ") != want {
			t.Errorf("%v, want %s", got, want)
		}
	}
	if got := wordsOf(runOf(mounted), []string{"/bin/ister", "scenario", "run"}); strings.Join(got, " ") != "scenario run" {
		t.Errorf("mounted: %v", got)
	}
}
