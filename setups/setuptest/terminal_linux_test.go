package setuptest_test

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// terminal opens a pseudo terminal: what a window is, and what a command in it has.
func terminal(t *testing.T) (window, inside *os.File) {
	t.Helper()
	// Not blocking, so that closing the window ends a read of it.
	window, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { window.Close() })
	raw, err := window.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	number := 0
	if controlErr := raw.Control(func(fd uintptr) {
		if err = unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0); err == nil {
			number, err = unix.IoctlGetInt(int(fd), unix.TIOCGPTN)
		}
	}); controlErr != nil || err != nil {
		t.Fatal(controlErr, err)
	}
	inside, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	return window, inside
}

func TestAClosedTerminalEndsARunInOrder(t *testing.T) {
	t.Parallel()
	window, inside := terminal(t)
	s := begin(t, "process", func(cmd *exec.Cmd) {
		cmd.Stdin, cmd.Stdout, cmd.Stderr = inside, inside, inside
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	}, "--progress", "tty")
	inside.Close()
	go func() { // a terminal that is not read blocks who writes to it
		for buffer := make([]byte, 4096); ; {
			if _, err := window.Read(buffer); err != nil {
				return
			}
		}
	}()
	s.at(stepping)
	window.Close()
	s.exits(130)
	s.leftEvidence("interrupted", "SIGHUP", history, "brokers/b1/log")
	s.leftNothing()
}
