package process

import (
	"errors"

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
