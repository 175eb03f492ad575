package process

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// started starts a process that lasts, in the ledger of a new run.
func started(t *testing.T) (*Ledger, *exec.Cmd, string) {
	t.Helper()
	dir := t.TempDir()
	l, cmd := NewLedger(dir), exec.Command("sleep", "600")
	if err := l.Start("b1", cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return l, cmd, dir
}

func TestAProcessIsInTheLedgerFromItsFirstMoment(t *testing.T) {
	l, cmd, dir := started(t)
	loaded, err := LoadLedger(dir)
	if err != nil || len(loaded.Alive()) != 1 {
		t.Fatalf("%v, %v", loaded.Alive(), err)
	}
	e := loaded.Alive()[0]
	if e.PID != cmd.Process.Pid || !slices.Equal(e.Args[1:], []string{"600"}) || !filepath.IsAbs(e.Args[0]) {
		t.Fatalf("%+v", e)
	}
	go func() { _ = cmd.Wait() }()
	if left := l.EndAll(10 * time.Second); len(left) > 0 {
		t.Errorf("left %v", left)
	}
}

func TestAProcessThatNoLedgerTakesNeverRuns(t *testing.T) {
	dir := t.TempDir()
	mark := filepath.Join(dir, "ran")
	cmd := exec.Command("touch", mark)
	err := NewLedger(filepath.Join(dir, "none")).Start("b1", cmd)
	if err == nil || !strings.Contains(err.Error(), "write process list") || cmd.ProcessState == nil {
		t.Fatalf("%v, %v", err, cmd.ProcessState)
	}
	if _, err := os.Stat(mark); err == nil {
		t.Error("it ran")
	}
}

// Method: the pipe is closed unwritten, as it is when its starter is killed.
func TestAHeldProcessEndsWithItsStarter(t *testing.T) {
	dir := t.TempDir()
	mark := filepath.Join(dir, "ran")
	heard, tell, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/bin/sh", "-c", held, "touch", mark)
	cmd.ExtraFiles = []*os.File{heard}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	heard.Close()
	tell.Close()
	if err := cmd.Wait(); err == nil || cmd.ProcessState.ExitCode() != 125 {
		t.Errorf("%v, exit code %d", err, cmd.ProcessState.ExitCode())
	}
	if _, err := os.Stat(mark); err == nil {
		t.Error("it ran")
	}
}

func TestWhatTheLedgerOnlySeemsToNameIsLeftAlone(t *testing.T) {
	l, cmd, _ := started(t)
	good := l.Alive()[0]
	for name, change := range map[string]func(*Entry){
		"another start":     func(e *Entry) { e.Started = strings.Replace(e.Started, " on ", "0 on ", 1) },
		"another machine":   func(e *Entry) { e.Started = strings.Split(e.Started, onMachine)[0] + " on 1234-5678" },
		"another command":   func(e *Entry) { e.Args = []string{e.Args[0], "601"} },
		"no command":        func(e *Entry) { e.Args = nil },
		"no start":          func(e *Entry) { e.Started = "" },
		"every process":     func(e *Entry) { e.PID = -1 },
		"this group":        func(e *Entry) { e.PID = 0 },
		"init":              func(e *Entry) { e.PID, e.Started = 1, StartTime(1) },
		"a used process id": func(e *Entry) { e.PID = os.Getpid() },
	} {
		e := good
		change(&e)
		edited := NewLedger(t.TempDir())
		edited.entries = []Entry{e}
		if left := edited.EndAll(time.Second); len(left) > 0 || len(edited.Alive()) > 0 {
			t.Errorf("%s: left %v, alive %v", name, left, edited.Alive())
		}
		if said := edited.Strangers(); e.PID > 0 && (len(said) != 1 || !strings.HasPrefix(said[0], "left alone: ")) {
			t.Errorf("%s: said %v", name, said)
		}
	}
	if len(l.Alive()) != 1 || cmd.ProcessState != nil {
		t.Error("the process was touched")
	}
}

func TestALedgerThatIsNoneEndsNothing(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, LedgerFile), []byte(`[{"pid": "12"}]`), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadLedger(dir); err == nil || !strings.Contains(err.Error(), "nothing that it names is ended") {
		t.Fatalf("%v", err)
	}
}
