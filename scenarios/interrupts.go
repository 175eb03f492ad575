package scenarios

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// signalNames are the signals that interrupt a run.
var signalNames = map[os.Signal]string{os.Interrupt: "SIGINT", syscall.SIGTERM: "SIGTERM", syscall.SIGHUP: "SIGHUP, a closed terminal"}

// signalWait is how long the name of a signal is waited for that ended a context.
const signalWait = 100 * time.Millisecond

// interruptible ends a run's context at the first signal, with a cause that names
// it, and closes hurry at the second: a person who presses Ctrl-C again does not
// want to wait for the cleanup's courtesy. The cleanup itself is never given up,
// since what it would leave is on nobody's mind afterwards.
//
// A closed terminal interrupts as well, unless the command was started to outlive
// it (nohup). A reader of the output that went away ends nothing.
func interruptible(parent context.Context, errOut io.Writer) (ctx context.Context, hurry <-chan struct{}, stop func()) {
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		signals = append(signals, syscall.SIGHUP)
	}
	signal.Ignore(syscall.SIGPIPE)
	// The parent's context may end by the same signal, without its name.
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(parent))
	seen, hurried, over := make(chan os.Signal, 4), make(chan struct{}), make(chan struct{})
	signal.Notify(seen, signals...)
	go func() {
		parentDone, noSignal := parent.Done(), (<-chan time.Time)(nil)
		for count := 0; ; {
			select {
			case <-over:
				return
			case <-parentDone: // perhaps by a signal that is on its way here as well
				parentDone, noSignal = nil, time.After(signalWait)
			case <-noSignal:
				cancel(context.Cause(parent))
			case s := <-seen:
				switch count++; count {
				case 1:
					fmt.Fprintln(errOut, "interrupted: cleaning up; once more to kill the brokers at once")
					cancel(fmt.Errorf("interrupted by %s", signalNames[s]))
				case 2:
					fmt.Fprintln(errOut, "killing the brokers")
					close(hurried)
				}
			}
		}
	}()
	return ctx, hurried, func() {
		signal.Stop(seen)
		close(over)
		cancel(nil)
	}
}
