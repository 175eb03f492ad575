package client

import (
	"context"
	"errors"
	"time"

	"github.com/ister-mq/ister/admin/adminv1"
)

// Progress is one look at an operation that is waited for.
type Progress struct {
	// Operation as last seen.
	Operation *adminv1.Operation
	Elapsed   time.Duration
	// Remaining is an estimate from the rate so far; Known false without one.
	Remaining      time.Duration
	RemainingKnown bool
	// Err is set when this look failed and the wait goes on, such as during a
	// change of controller.
	Err error
}

// The intervals of waiting.
const (
	pollFirst = 50 * time.Millisecond
	pollLast  = 500 * time.Millisecond
	// lookFailuresFor is how long looks may fail in a row before the wait gives up.
	lookFailuresFor = 30 * time.Second
)

// WaitOperation waits until an operation has ended, through changes of the
// controller, and returns it as it ended; whether it succeeded is for the caller
// to see. The function progress, which may be nil, is called after each look.
// When ctx ends first, the latest known operation is returned with the context's
// error: the operation itself goes on.
func (c *Client) WaitOperation(ctx context.Context, id uint64, progress func(Progress)) (*adminv1.Operation, error) {
	var last *adminv1.Operation
	started, lastGood := time.Now(), time.Now()
	interval := pollFirst
	for {
		answer, err := c.Operations.GetOperation(ctx, &adminv1.GetOperationRequest{OperationId: id})
		if ctx.Err() != nil {
			return last, ctx.Err()
		}
		look := Progress{Operation: last, Elapsed: time.Since(started), Err: err}
		if err == nil {
			last, lastGood = answer.GetOperation(), time.Now()
			look.Operation = last
			look.Remaining, look.RemainingKnown = remaining(last, look.Elapsed)
		} else if !transient(err) || time.Since(lastGood) > lookFailuresFor {
			return last, err
		}
		if progress != nil {
			progress(look)
		}
		if err == nil && Ended(last.GetState()) {
			return last, nil
		}
		if pauseErr := pause(ctx, interval); pauseErr != nil {
			return last, pauseErr
		}
		interval = min(interval*3/2, pollLast)
	}
}

// Ended reports a final state.
func Ended(s adminv1.Operation_State) bool {
	return s == adminv1.Operation_SUCCEEDED || s == adminv1.Operation_FAILED || s == adminv1.Operation_CANCELLED
}

// transient reports an error after which the next look may succeed.
func transient(err error) bool {
	var down *Unreachable
	if errors.As(err, &down) {
		return true
	}
	r := AsRefusal(err)
	return r != nil && (r.Kind == adminv1.Refusal_UNAVAILABLE || r.Kind == adminv1.Refusal_REDIRECT || r.Kind == adminv1.Refusal_EXHAUSTED)
}

// remaining estimates from bytes where there are some, else from moves.
func remaining(op *adminv1.Operation, elapsed time.Duration) (time.Duration, bool) {
	done, total := float64(op.GetBytesDone()), float64(op.GetBytesTotal())
	if total <= 0 {
		done, total = float64(op.GetMovesDone()), float64(op.GetMovesTotal())
	}
	if done <= 0 || total < done {
		return 0, false
	}
	return time.Duration(float64(elapsed) * (total - done) / done), true
}
