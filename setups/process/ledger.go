package process

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// LedgerFile is the file in a run's directory that lists every process that the
// run started. Only what is listed there is ever ended.
const LedgerFile = "processes.json"

// Entry is one started process. A process is the one that was started only while
// its start time and its command are the recorded ones: process ids are used
// again, and a list can be edited or copied.
type Entry struct {
	Name string `json:"name"`
	PID  int    `json:"pid"` // also its process group
	// Started is the start time as StartTime tells it, compared as text.
	Started string   `json:"started"`
	Args    []string `json:"args"` // the executable first
	Ended   bool     `json:"ended,omitempty"`
}

// Ledger is the list of a run, written at every change.
type Ledger struct {
	path    string
	mu      sync.Mutex
	entries []Entry // guarded by mu
}

// NewLedger begins the ledger of the run in dir.
func NewLedger(dir string) *Ledger { return &Ledger{path: filepath.Join(dir, LedgerFile)} }

// LoadLedger reads the ledger of a run; none is an empty one.
func LoadLedger(dir string) (*Ledger, error) {
	l := NewLedger(dir)
	data, err := os.ReadFile(l.path)
	if errors.Is(err, os.ErrNotExist) {
		return l, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read process list: %w", err)
	}
	if err := json.Unmarshal(data, &l.entries); err != nil {
		return nil, fmt.Errorf("%s is not the list that a runner wrote (%w): nothing that it names is ended; where none of it runs any more, remove that file and try again", l.path, err)
	}
	return l, nil
}

// Add records a process that was just started.
func (l *Ledger) Add(name string, pid int, args []string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries = append(l.entries, Entry{Name: name, PID: pid, Started: StartTime(pid), Args: args})
	return l.save()
}

// End records that a process has ended and been waited for.
func (l *Ledger) End(pid int) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.entries {
		if l.entries[i].PID == pid {
			l.entries[i].Ended = true
		}
	}
	return l.save()
}

// save writes the list in one step; l.mu is held.
func (l *Ledger) save() error {
	data, err := json.MarshalIndent(l.entries, "", "  ")
	if err == nil {
		err = os.WriteFile(l.path+".new", append(data, '\n'), 0o644)
	}
	if err == nil {
		err = os.Rename(l.path+".new", l.path)
	}
	if err != nil {
		return fmt.Errorf("write process list: %w", err)
	}
	return nil
}

// Alive lists the recorded processes that still run.
func (l *Ledger) Alive() []Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	var alive []Entry
	for _, e := range l.entries {
		if e.alive() {
			alive = append(alive, e)
		}
	}
	return alive
}

func (e Entry) alive() bool {
	return !e.Ended && Same(e.PID, e.Started) && runs(e.PID, e.Args)
}

// Strangers says of recorded processes that have not ended as far as the list
// knows, and cannot be ended, why: the process of that id is another one, or the
// list is of another machine.
func (l *Ledger) Strangers() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var said []string
	for _, e := range l.entries {
		switch {
		case e.Ended || e.alive():
		case Elsewhere(e.Started):
			said = append(said, fmt.Sprintf("left alone: %s was started on another machine, or before this one's last start", e.Name))
		case e.PID > 0 && startTime(e.PID) != "":
			said = append(said, fmt.Sprintf("left alone: process %d is not the one that was started as %s", e.PID, e.Name))
		}
	}
	return said
}

// Same reports whether the process with this id runs and is the one that was
// started at the given time.
func Same(pid int, started string) bool {
	return pid > 1 && started != "" && StartTime(pid) == started
}

// StartTime is a process's start time as the system tells it, with what makes it
// unique: the machine's own start, and the space of its process ids where there
// is more than one. "" when there is no such process.
func StartTime(pid int) string {
	started := startTime(pid)
	if started == "" || machine() == "" {
		return started
	}
	return started + onMachine + machine()
}

// onMachine stands between a start time and its machine.
const onMachine = " on "

// Elsewhere reports that a start time is of another machine than this.
func Elsewhere(started string) bool {
	_, where, told := strings.Cut(started, onMachine)
	return told && where != machine()
}

// machine tells this start of this machine, and its space of process ids, from
// any other; "" where the system does not tell.
var machine = sync.OnceValue(func() string {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	space, _ := os.Readlink("/proc/self/ns/pid") // none: one space
	return strings.TrimSpace(strings.TrimSpace(string(boot)) + " " + space)
})

// execLooks is how often a command that is empty is looked at again: it is for a
// moment while a shell becomes another program.
const execLooks = 20

// runs reports whether a process has the arguments, or is a shell that is about
// to become the one that has them. Where the system does not tell, it is believed.
func runs(pid int, args []string) bool {
	if len(args) == 0 {
		return false
	}
	var data []byte
	for try := 0; len(data) == 0 && try < execLooks; try++ {
		if try > 0 {
			time.Sleep(time.Millisecond)
		}
		var err error
		if data, err = os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); err != nil {
			return machine() == ""
		}
	}
	have := strings.Split(strings.TrimSuffix(string(data), "\x00"), "\x00")
	return len(have) >= len(args) && slices.Equal(have[len(have)-len(args):], args)
}

// EndAll ends the recorded processes that still run: SIGTERM, then SIGKILL after
// grace. It returns the names of those that did not end.
func (l *Ledger) EndAll(grace time.Duration) []string {
	alive := l.Alive()
	for _, e := range alive {
		signalGroup(e.PID, syscall.SIGCONT)
		signalGroup(e.PID, syscall.SIGTERM)
	}
	waitGone(alive, grace)
	for _, e := range alive {
		if e.alive() {
			signalGroup(e.PID, syscall.SIGKILL)
		}
	}
	waitGone(alive, 5*time.Second)
	var left []string
	for _, e := range alive {
		if e.alive() {
			left = append(left, fmt.Sprintf("process %d (%s)", e.PID, e.Name))
		} else if err := l.End(e.PID); err != nil {
			left = append(left, err.Error())
		}
	}
	return left
}

// waitGone polls, since these are no children of ours, until none is left or the
// time is up.
func waitGone(entries []Entry, limit time.Duration) {
	deadline := time.Now().Add(limit)
	for time.Now().Before(deadline) {
		left := false
		for _, e := range entries {
			left = left || e.alive()
		}
		if !left {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func signalGroup(pid int, s syscall.Signal) {
	// An error means that the group is gone, which the caller looks at itself.
	_ = syscall.Kill(-pid, s)
}

// startTime reads field 22 of /proc/PID/stat where there is a /proc, and asks ps
// elsewhere. A zombie counts as gone.
func startTime(pid int) string {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err == nil {
		_, after, _ := strings.Cut(string(data), ") ") // the name may hold spaces
		fields := strings.Fields(after)
		if len(fields) < 20 || fields[0] == "Z" || fields[0] == "X" {
			return ""
		}
		return fields[19]
	}
	if _, err := os.Stat("/proc/self/stat"); err == nil {
		return ""
	}
	out, err := exec.Command("ps", "-o", "lstart=", "-p", fmt.Sprint(pid)).Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}
