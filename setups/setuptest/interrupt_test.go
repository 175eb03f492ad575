package setuptest_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ister-mq/ister/setups/process"
)

// Method of the tests of this file: a real run of the real command is interrupted
// at a moment that its list of events shows, and what it left is looked for: by
// its ledger, in the process list by its directory, among the mounts, in a
// directory for temporary files of its own, and (containers_test.go) on the engine.

// patience bounds every wait here; all end much sooner.
const patience = 60 * time.Second

// subject is a run that will be interrupted.
type subject struct {
	*testing.T
	cmd             *exec.Cmd
	runs, dir, temp string
	setup           string
	output          *bytes.Buffer
	ended           chan struct{} // closed once cmd has been waited for
}

// begin starts `ister scenario run`. flags come after the usual ones.
func begin(t *testing.T, setup string, prepare func(*exec.Cmd), flags ...string) *subject {
	t.Helper()
	s := &subject{T: t, runs: filepath.Join(t.TempDir(), "runs of a test"), temp: t.TempDir(), setup: setup, output: &bytes.Buffer{}, ended: make(chan struct{})}
	id := fmt.Sprintf("interrupted-%d", time.Now().UnixNano())
	s.dir = filepath.Join(s.runs, id)
	args := append([]string{"scenario", "run", "testdata/interrupted/scenario.yaml", "--run-id", id, "--runs-dir", s.runs, "--setup", setup, "--ister-bin", binary, "--progress", "plain"}, flags...)
	s.cmd = exec.Command(binary, args...)
	s.cmd.Stdout, s.cmd.Stderr = s.output, s.output
	s.cmd.Env = append(os.Environ(), "TMPDIR="+s.temp)
	if prepare != nil {
		prepare(s.cmd)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = s.cmd.Wait() // its exit code is looked at
		close(s.ended)
	}()
	t.Cleanup(func() {
		_ = s.cmd.Process.Kill()
		<-s.ended
		_ = s.scenario("stop", id).Run()
		_ = s.scenario("clean", id).Run()
		if t.Failed() {
			t.Logf("output of the run:\n%s", s.output)
		}
	})
	return s
}

// scenario is another command on the same runs.
func (s *subject) scenario(args ...string) *exec.Cmd {
	cmd := exec.Command(binary, append([]string{"scenario", "--runs-dir", s.runs}, args...)...)
	cmd.Env = append(os.Environ(), "TMPDIR="+s.temp)
	return cmd
}

// does runs a command of scenario and wants its exit code and words of its output.
func (s *subject) does(code int, words string, args ...string) {
	s.Helper()
	out, err := s.scenario(args...).CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		s.Fatal(err)
	}
	got := 0
	if exit != nil {
		got = exit.ExitCode()
	}
	if got != code || !strings.Contains(string(out), words) {
		s.Errorf("scenario %s: exit code %d, want %d with %q:\n%s", strings.Join(args, " "), got, code, words, out)
	}
}

// at waits until the list of events holds words, which is the moment to interrupt.
func (s *subject) at(words string) {
	s.Helper()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for deadline := time.Now().Add(patience); ; <-ticker.C {
		data, _ := os.ReadFile(filepath.Join(s.dir, "events.ndjson"))
		switch {
		case bytes.Contains(data, []byte(words)):
			return
		case s.isOver() && s.cmd.ProcessState.ExitCode() != 0: // a command that ended well has a supervisor
			s.Fatalf("the command ended before the run came to %s:\n%s", words, data)
		case time.Now().After(deadline):
			s.Fatalf("the run did not come to %s:\n%s", words, data)
		}
	}
}

func (s *subject) isOver() bool {
	select {
	case <-s.ended:
		return true
	default:
		return false
	}
}

// The moments of a run, as its events have them.
const (
	forming  = `"event":"step_started","stage":"setup","step":{"id":"cluster"`
	stepping = `"event":"step_started","stage":"only","step":{"id":"forever"`
	always   = `"event":"step_started","stage":"always"`
	paused   = `"event":"run_paused"`
	cleaning = `"event":"cleanup_begun"`
	building = `"event":"step_says","text":"building `
)

func (s *subject) signal(signals ...syscall.Signal) {
	s.Helper()
	for _, sig := range signals {
		if err := s.cmd.Process.Signal(sig); err != nil {
			s.Fatal(err)
		}
	}
}

// exits waits for the end of the command; -1 is a signal.
func (s *subject) exits(code int) {
	s.Helper()
	select {
	case <-s.ended:
	case <-time.After(patience):
		s.Fatalf("the command has not ended after %s", patience)
	}
	if got := s.cmd.ProcessState.ExitCode(); got != code {
		s.Errorf("exit code %d, want %d", got, code)
	}
}

type runRecord struct {
	Verdict  string `json:"verdict"`
	Failures []struct {
		Message string `json:"message"`
	} `json:"failures"`
	Criteria []struct {
		ID     string `json:"id"`
		Status string `json:"status"`
	} `json:"criteria"`
	Runner struct {
		PID int `json:"pid"`
	} `json:"runner"`
}

func (s *subject) record() (r runRecord) {
	s.Helper()
	data, err := os.ReadFile(filepath.Join(s.dir, "run.json"))
	if err == nil {
		err = json.Unmarshal(data, &r)
	}
	if err != nil {
		s.Fatal(err)
	}
	return r
}

// leftEvidence wants a verdict and everything that a run leaves.
func (s *subject) leftEvidence(verdict, why string, files ...string) {
	s.Helper()
	r := s.record()
	told := false
	for _, f := range r.Failures {
		told = told || strings.Contains(f.Message, why)
	}
	if r.Verdict != verdict || !told {
		s.Errorf("run.json: %+v, want %s, %s", r, verdict, why)
	}
	for _, c := range r.Criteria {
		if c.Status != "not evaluated" {
			s.Errorf("criterion %s of a step that was interrupted: %s", c.ID, c.Status)
		}
	}
	for _, name := range append([]string{"events.ndjson", "state.json", "summary.md", "junit.xml", "report.html", "SHA256SUMS"}, files...) {
		if info, err := os.Stat(filepath.Join(s.dir, name)); err != nil || info.Size() == 0 {
			s.Errorf("evidence %s: %v", name, err)
		}
	}
}

// history is what a run leaves once it was prepared.
const history = "history.ndjson.gz"

// leftNothing looks for what a run may leave beside its evidence.
func (s *subject) leftNothing() {
	s.Helper()
	ledger, err := process.LoadLedger(s.dir)
	if err != nil {
		s.Error(err)
	} else if alive := ledger.Alive(); len(alive) > 0 {
		s.Errorf("processes of the ledger run: %+v", alive)
	}
	if found := processesOf(s.dir); len(found) > 0 {
		s.Errorf("processes with the run's directory in their command run: %v", found)
	}
	if mounts, err := os.ReadFile("/proc/self/mounts"); err == nil && strings.Contains(string(mounts), filepath.Base(s.dir)) {
		s.Errorf("something is mounted in the run's directory:\n%s", mounts)
	}
	for _, name := range []string{"build", "orders/draft-*", "*.new*"} {
		if found, _ := filepath.Glob(filepath.Join(s.dir, name)); len(found) > 0 {
			s.Errorf("half a file: %v", found)
		}
	}
	if temp, err := os.ReadDir(s.temp); err != nil || len(temp) > 0 {
		s.Errorf("temporary files: %v, %v", temp, err)
	}
	if data, _ := filepath.Glob(filepath.Join(s.dir, "brokers", "*", "data")); len(data) > 0 {
		s.Errorf("data of brokers: %v", data)
	}
}

// processesOf lists processes that name a directory in their command.
func processesOf(dir string) (found []string) {
	lists, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, list := range lists {
		if data, err := os.ReadFile(list); err == nil && bytes.Contains(data, []byte(dir+"/")) {
			found = append(found, strings.ReplaceAll(string(data), "\x00", " "))
		}
	}
	return found
}

func TestASignalEndsARunInOrder(t *testing.T) {
	for name, sig := range map[string]syscall.Signal{"SIGINT": syscall.SIGINT, "SIGTERM": syscall.SIGTERM, "SIGHUP": syscall.SIGHUP} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := begin(t, "process", nil)
			s.at(stepping)
			s.signal(sig)
			s.exits(130)
			s.leftEvidence("interrupted", "interrupted by "+name, history, "brokers/b1/log")
			s.leftNothing()
			s.does(0, " 0 violations", "verify", "last")
		})
	}
}

func TestASignalWhileTheClusterForms(t *testing.T) {
	t.Parallel()
	s := begin(t, "process", nil)
	s.at(forming)
	s.signal(syscall.SIGINT)
	s.exits(130)
	s.leftEvidence("interrupted", "interrupted by SIGINT", history)
	s.leftNothing()
}

// compiling begins a run that has to build the broker: the command is not called
// ister, and is not given one.
func compiling(t *testing.T) *subject {
	t.Helper()
	data, err := os.ReadFile(binary)
	if err != nil {
		t.Fatal(err)
	}
	runner := filepath.Join(t.TempDir(), "scenario")
	if err := os.WriteFile(runner, data, 0o755); err != nil {
		t.Fatal(err)
	}
	s := begin(t, "process", func(cmd *exec.Cmd) {
		cmd.Path, cmd.Args[0] = runner, runner
		cmd.Args = slices.DeleteFunc(cmd.Args, func(word string) bool { return word == "--ister-bin" || word == binary })
	})
	s.at(building)
	return s
}

func TestABuildThatIsInterrupted(t *testing.T) {
	t.Run("SIGINT", func(t *testing.T) {
		t.Parallel()
		s := compiling(t)
		s.signal(syscall.SIGINT)
		s.exits(130)
		s.leftEvidence("interrupted", "interrupted by SIGINT")
		s.leftNothing()
	})
	t.Run("SIGKILL", func(t *testing.T) {
		t.Parallel()
		s := compiling(t)
		s.signal(syscall.SIGKILL)
		s.exits(-1)
		s.does(4, "the runner is gone", "watch", "last")
		s.does(3, "nothing can be judged", "verify", "last")
		s.does(0, "cleaned", "clean", "last")
		s.leftEvidence("interrupted", "without finishing the run")
		s.leftNothing()
	})
}

func TestARunnerThatIsKilledLeavesEvidenceAndCleanRemovesTheRest(t *testing.T) {
	for name, moment := range map[string]string{"forming": forming, "step": stepping, "always": always, "cleanup": cleaning} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := begin(t, "process", nil)
			if name == "always" || name == "cleanup" {
				s.at(stepping)
				s.signal(syscall.SIGINT)
			}
			s.at(moment)
			s.signal(syscall.SIGKILL)
			s.exits(-1)
			if got := s.record().Verdict; got != "running" {
				t.Errorf("the record says %s", got)
			}
			s.does(4, "the runner is gone", "watch", "last")
			s.does(0, "ABANDONED", "runs")
			if name == "step" || name == "always" { // before that there is no read, and after it the history is whole
				s.does(3, "partial", "verify", "last")
			}
			s.does(0, "cleaned", "clean", "last")
			s.leftEvidence("interrupted", "without finishing the run", history)
			s.leftNothing()
			s.does(130, "INTERRUPTED", "watch", "last")
		})
	}
}

func TestASupervisorThatIsKilledInAPause(t *testing.T) {
	t.Parallel()
	s := begin(t, "process", nil, "--from", "topic")
	s.at(paused)
	s.exits(0) // the command ends at a pause; its supervisor stays
	if err := syscall.Kill(s.record().Runner.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	s.does(4, "the runner is gone", "resume", "last")
	s.does(0, "stopped", "stop", "last")
	s.does(0, "cleaned", "clean", "last")
	s.leftEvidence("interrupted", "without finishing the run", history)
	s.leftNothing()
}

func TestASupervisorOfADetachedRunThatIsKilled(t *testing.T) {
	t.Parallel()
	s := begin(t, "process", nil, "--detach")
	s.exits(0)
	s.at(stepping)
	if err := syscall.Kill(s.record().Runner.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	s.does(4, "the runner is gone", "watch", "last")
	s.does(3, "partial", "verify", "last")
	s.does(0, "cleaned 1", "clean", "--all")
	s.leftEvidence("interrupted", "without finishing the run", history)
	s.leftNothing()
}

// The brokers are frozen, so that what always does cannot end: the second signal
// does not wait for it.
func TestASecondSignalEndsTheCleanupsWaiting(t *testing.T) {
	t.Parallel()
	s := begin(t, "process", nil)
	s.at(stepping)
	ledger, err := process.LoadLedger(s.dir)
	if err != nil || len(ledger.Alive()) != 3 {
		t.Fatalf("%v, %v", ledger, err)
	}
	for _, e := range ledger.Alive() {
		if err := syscall.Kill(e.PID, syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
	}
	s.signal(syscall.SIGINT)
	s.at(always)
	second := time.Now()
	s.signal(syscall.SIGINT)
	s.exits(130)
	if took := time.Since(second); took > 30*time.Second {
		t.Errorf("it took %s after the second signal", took)
	}
	s.leftEvidence("interrupted", "interrupted by SIGINT", history)
	s.leftNothing()
}

func TestAReaderThatWentAwayDoesNotEndTheRun(t *testing.T) {
	t.Parallel()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	s := begin(t, "process", func(cmd *exec.Cmd) { cmd.Stdout, cmd.Stderr = write, write }, "--until", "read")
	write.Close()
	s.at(forming)
	read.Close()
	s.exits(3) // --until
	s.leftEvidence("inconclusive", "--until", history, "brokers/b1/log")
	s.does(0, "cleaned", "clean", "last")
	s.leftNothing()
	s.does(0, "0 violations", "verify", "last")
}

func TestADirectoryThatIsRemovedUnderARun(t *testing.T) {
	t.Parallel()
	s := begin(t, "process", nil)
	s.at(stepping)
	ledger, err := process.LoadLedger(s.dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(s.dir); err != nil {
		t.Fatal(err)
	}
	s.signal(syscall.SIGTERM)
	s.exits(130) // interrupted, whatever became of the evidence
	if !strings.Contains(s.output.String(), "write the evidence") {
		t.Errorf("it did not say what is wrong")
	}
	if alive := ledger.Alive(); len(alive) > 0 {
		t.Errorf("processes of the ledger run: %+v", alive)
	}
	s.leftNothing()
}
