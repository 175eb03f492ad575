package process

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// awaitExit blocks until the child has ended and leaves it unreaped. False: it
// could not wait.
func awaitExit(pid int) bool {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return err == nil
		}
	}
}

// awaitStop waits until every thread of a process is stopped, or the process has
// ended. False: the time was up first.
func awaitStop(pid int, limit time.Duration) bool {
	for deadline := time.Now().Add(limit); !stopped(pid); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			return false
		}
	}
	return true
}

func stopped(pid int) bool {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	for _, path := range threads {
		data, err := os.ReadFile(path)
		_, state, _ := strings.Cut(string(data), ") ") // the name may hold spaces
		if err == nil && !strings.ContainsAny(state[:min(1, len(state))], "TtZX") {
			return false
		}
	}
	return true
}
