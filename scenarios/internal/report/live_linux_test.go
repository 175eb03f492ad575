package report

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// terminal is a pseudo-terminal, and what has been written to it.
type terminal struct {
	ours, theirs *os.File
	mu           sync.Mutex
	text         strings.Builder // guarded by mu
}

func newTerminal(t *testing.T, width, height uint16) *terminal {
	t.Helper()
	ours, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ours.Close() })
	number, err := unix.IoctlGetInt(int(ours.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(ours.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { theirs.Close() })
	p := &terminal{ours: ours, theirs: theirs}
	p.resize(t, width, height)
	go func() {
		buffer := make([]byte, 64<<10)
		for {
			n, err := ours.Read(buffer)
			p.mu.Lock()
			p.text.Write(buffer[:n])
			p.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	return p
}

func (p *terminal) resize(t *testing.T, width, height uint16) {
	t.Helper()
	if err := unix.IoctlSetWinsize(int(p.theirs.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: height, Col: width}); err != nil {
		t.Fatal(err)
	}
}

func (p *terminal) written() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.String()
}

// await waits until the text that was written has something in it.
func (p *terminal) await(t *testing.T, what string) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for !strings.Contains(p.written(), what) {
		select {
		case <-ticker.C:
		case <-deadline:
			t.Fatalf("%q never came; the last was %q", what, p.written()[max(0, len(p.written())-500):])
		}
	}
}

// The view takes the alternate screen, follows the size of the terminal, and
// gives the terminal back with the plain lines and the summary on it.
func TestLiveGivesTheTerminalBack(t *testing.T) {
	p := newTerminal(t, 80, 24)
	r, _, events := recorded(t, "recorded")
	live := NewLive(p.theirs, true)
	for _, e := range events[:40] {
		live.Event(e)
	}
	p.await(t, strings.Repeat("-", 80)+"\x1b[0m\x1b[K")
	p.resize(t, 120, 30)
	if err := syscall.Kill(os.Getpid(), syscall.SIGWINCH); err != nil {
		t.Fatal(err)
	}
	p.await(t, strings.Repeat("-", 120))
	for _, e := range events[40:] {
		live.Event(e)
	}
	live.Summary(r)
	live.Close()
	p.await(t, "evidence: "+r.Directory)
	text := p.written()
	if !strings.HasPrefix(text, enterScreen) || strings.Count(text, enterScreen) != 1 || strings.Count(text, leaveScreen) != 1 {
		t.Errorf("the screen was taken and given back: %d, %d times", strings.Count(text, enterScreen), strings.Count(text, leaveScreen))
	}
	_, after, _ := strings.Cut(text, leaveScreen)
	for _, want := range []string{"Start 3 brokers", "Relocate its data to the new broker", "PASS\x1b[0m  broker-scaling: 38 of 38 criteria"} {
		if !strings.Contains(after, want) {
			t.Errorf("%q is not on the screen that is left behind", want)
		}
	}
	if strings.Contains(after, goHome) || strings.Contains(after, "waiting for the gates") {
		t.Error("the view wrote on the normal screen")
	}
}

// A run that ends without a summary, as one that is no longer watched, leaves the
// terminal usable; and a display that never showed anything writes nothing.
func TestLiveIsClosedWithoutASummary(t *testing.T) {
	p := newTerminal(t, 80, 24)
	live := NewLive(p.theirs, false)
	live.Close()
	live.Event(Event{Kind: RunStarted, At: time.Now(), Text: "a run"})
	p.await(t, enterScreen)
	live.Close()
	live.Close()
	p.await(t, leaveScreen+"a run")
	if n := strings.Count(p.written(), leaveScreen); n != 1 {
		t.Errorf("given back %d times", n)
	}
}

// A terminal that went away does not block or end a run.
func TestLiveOutlivesItsTerminal(t *testing.T) {
	_, _, events := recorded(t, "recorded")
	live := NewLive(gone{}, true)
	for _, e := range events {
		live.Event(e)
	}
	live.Close()
}

type gone struct{}

func (gone) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }
