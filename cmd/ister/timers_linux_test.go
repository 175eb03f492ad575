package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const slackHelper = "ISTER_TEST_SLACK"

// The test binary plays the broker: it relaxes its timers and prints the slack of a
// thread of its own, one that was there before the tests, and its arguments.
func TestRelaxTimersHelper(t *testing.T) {
	if os.Getenv(slackHelper) == "" {
		return
	}
	relaxTimers()
	fmt.Printf("slack=%s main=%s args=%d\n", slack(), fileSlack(t, os.Getpid()), len(os.Args))
}

func fileSlack(t *testing.T, pid int) string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/timerslack_ns", pid))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(b))
}

// runWithSlack starts the helper from a thread with the given slack, which it gets.
func runWithSlack(t *testing.T, given time.Duration) string {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before := slack()
	if err := unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(given), 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(before), 0, 0, 0) }()
	c := exec.Command(os.Args[0], "-test.run=^TestRelaxTimersHelper$")
	c.Env = append(os.Environ(), slackHelper+"=1")
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	line, _, _ := strings.Cut(string(out), "\n")
	return line
}

func TestBrokerGetsCoarserTimersOnAllThreads(t *testing.T) {
	want := fmt.Sprintf("slack=%s main=%d args=2", brokerSlack, brokerSlack.Nanoseconds())
	if got := runWithSlack(t, kernelSlack); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestBrokerKeepsTheSlackThatItWasGiven(t *testing.T) {
	given := 70 * time.Microsecond
	want := fmt.Sprintf("slack=%s main=%d args=2", given, given.Nanoseconds())
	if got := runWithSlack(t, given); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
