package byhand

import (
	"os"
	"syscall"
	"time"
)

// separation says what a shell has for itself.
type separation int

const (
	// together: a process group, and nothing else.
	together separation = iota
	// processes of its own: they end with it.
	processes
	// network of its own, and processes: every port is free.
	network
)

func (s separation) String() string {
	switch s {
	case network:
		return "a network and processes of its own"
	case processes:
		return "this machine's network, and processes of its own"
	}
	return "this machine's network and processes"
}

// lookEvery is the time between two looks at a group that is ending.
const lookEvery = 10 * time.Millisecond

// killAll ends a shell and what it started, and returns when that is gone. With
// processes of its own, the shell's end is theirs; else its group is ended, which
// a process that makes a session of its own (a detached run) has left.
func killAll(shell *os.Process, apart bool, gone <-chan struct{}) {
	limit := time.NewTimer(endFor)
	defer limit.Stop()
	if apart {
		_ = shell.Kill() // gone already: the same
		select {
		case <-gone:
		case <-limit.C:
		}
		return
	}
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for syscall.Kill(-shell.Pid, syscall.SIGKILL) == nil && groupRuns(shell.Pid) { // an error: there is no such group any more
		select {
		case <-tick.C:
		case <-limit.C:
			return
		}
	}
}
