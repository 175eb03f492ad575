package main

import (
	"os"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// kernelSlack is how much later than asked Linux wakes a sleeping thread by
	// default.
	kernelSlack = 50 * time.Microsecond
	// brokerSlack is what a broker makes of it. While threads are blocked in system
	// calls, which a broker's are in fdatasync all the time, the Go runtime's monitor
	// sleeps 20 µs over and over: on a virtual machine that took a tenth to a quarter
	// of all that brokers used. Nothing here needs a timer to be more exact than this.
	brokerSlack = 500 * time.Microsecond
)

// relaxTimers gives every thread of this process coarser timers. Slack is a
// thread's own and passed on to those that it starts, and the runtime's monitor
// starts before main: so the process executes itself once more, with the same id,
// arguments and files. A slack that whoever started it has chosen is left alone,
// which is also what ends this. Without success it goes on as it was.
func relaxTimers() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if slack() != kernelSlack {
		return
	}
	if unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(brokerSlack), 0, 0, 0) != nil || slack() != brokerSlack {
		return
	}
	if file, err := os.Executable(); err == nil {
		_ = syscall.Exec(file, os.Args, os.Environ())
	}
}

// slack is that of the calling thread.
func slack() time.Duration {
	ns, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
	if err != nil {
		return -1
	}
	return time.Duration(ns)
}
