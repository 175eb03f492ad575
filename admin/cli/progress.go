package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/ister-mq/ister/admin/adminv1"
	"github.com/ister-mq/ister/admin/client"
)

// repeatEvery is how often an unchanged progress line is repeated where lines are
// not overwritten.
const repeatEvery = 10 * time.Second

// progress prints how a wait goes: one line overwritten on a terminal, else a new
// line at each change.
type progress struct {
	w        io.Writer
	terminal bool
	silent   bool
	last     string // without what changes with time alone
	lastAt   time.Time
	width    int
}

func newProgress(c *call) *progress {
	file, ok := c.stderr.(*os.File)
	terminal := ok && term.IsTerminal(int(file.Fd())) && os.Getenv("TERM") != "dumb"
	return &progress{w: c.stderr, terminal: terminal, silent: c.output != formatTable}
}

func (p *progress) show(look client.Progress) {
	if p.silent {
		return
	}
	stable, line := progressLine(look)
	if p.terminal {
		fmt.Fprintf(p.w, "\r%s%s", line, strings.Repeat(" ", max(0, p.width-len(line))))
		p.width = len(line)
		return
	}
	if stable == p.last && time.Since(p.lastAt) < repeatEvery {
		return
	}
	p.last, p.lastAt = stable, time.Now()
	fmt.Fprintln(p.w, line)
}

// end leaves the overwritten line.
func (p *progress) end() {
	if p.terminal && p.width > 0 {
		fmt.Fprintln(p.w)
	}
}

func progressLine(look client.Progress) (stable, line string) {
	op := look.Operation
	if look.Err != nil {
		stable = "waiting for the controller: " + shortCause(look.Err)
		return stable, stable
	}
	stable = fmt.Sprintf("%s %s %s: %d/%d moves", operationName(op.GetOperationId()), lower(op.GetKind()), lower(op.GetState()), op.GetMovesDone(), op.GetMovesTotal())
	if op.GetBytesTotal() > 0 {
		stable += fmt.Sprintf(", %s of %s copied", size(op.GetBytesDone()), size(op.GetBytesTotal()))
	}
	if op.GetReason() != "" {
		stable += fmt.Sprintf(" (%s: %s)", op.GetReason(), op.GetMessage())
	}
	line = stable + ", " + round(look.Elapsed).String()
	if look.RemainingKnown && !client.Ended(op.GetState()) {
		line += fmt.Sprintf(", about %s left", round(look.Remaining))
	}
	return stable, line
}

func shortCause(err error) string {
	if r := client.AsRefusal(err); r != nil {
		return r.Reason
	}
	return err.Error()
}

// wait waits for an operation to end, with progress. It returns the operation as
// it ended; not having succeeded is an error.
func (c *call) wait(op *adminv1.Operation) (*adminv1.Operation, error) {
	p := newProgress(c)
	ended, err := c.WaitOperation(c.context, op.GetOperationId(), p.show)
	p.end()
	if ended == nil {
		ended = op
	}
	switch {
	case errors.Is(err, context.Canceled):
		return ended, &unfinishedError{operation: ended, after: time.Since(c.started), exit: ExitInterrupted}
	case errors.Is(err, context.DeadlineExceeded):
		return ended, &unfinishedError{operation: ended, after: time.Since(c.started), exit: ExitUnavailable}
	case err != nil:
		return ended, err
	case ended.GetState() != adminv1.Operation_SUCCEEDED:
		return ended, &endedError{ended}
	}
	return ended, nil
}
