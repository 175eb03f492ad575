package fault

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"time"

	"github.com/ister-mq/ister/setups"
)

// chunk is a piece on its way; an empty one is the end of the stream.
type chunk struct {
	data []byte
	due  time.Time
}

// pump forwards one direction until the stream ends, which is passed on and
// gives nil, or a side breaks.
func pump(ctx context.Context, to, from net.Conn, link func() (bool, setups.Link, <-chan struct{})) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	queue := make(chan chunk, queueBytes/chunkBytes)
	failed := make(chan error, 1)
	go func() {
		defer close(queue)
		failed <- read(ctx, queue, from, link)
	}()
	for c := range queue {
		if err := deliver(ctx, to, c, link); err != nil {
			cancel()
			from.Close() // ends a read that waits
			for range queue {
			}
			return err
		}
	}
	return <-failed
}

// read takes what comes and says when it is due.
func read(ctx context.Context, queue chan<- chunk, from net.Conn, link func() (bool, setups.Link, <-chan struct{})) error {
	var last time.Time
	for {
		buffer := make([]byte, chunkBytes)
		n, err := from.Read(buffer)
		_, l, _ := link()
		due := time.Now().Add(l.Delay + losses(l.LossPercent, rand.IntN))
		if l.Jitter > 0 {
			due = due.Add(rand.N(l.Jitter))
		}
		if due.Before(last) {
			due = last // never out of order
		}
		last = due
		var pieces []chunk
		if n > 0 {
			pieces = append(pieces, chunk{buffer[:n], due})
		}
		if errors.Is(err, io.EOF) {
			pieces = append(pieces, chunk{nil, due})
		}
		for _, c := range pieces {
			select {
			case queue <- c:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// Retransmission timeouts, as Linux has them.
const (
	lossFirst   = 200 * time.Millisecond
	lossRepeats = 5 // beyond so many in a row a piece arrives
)

// losses is how late a piece is by being lost and sent again.
func losses(percent int, draw func(int) int) (late time.Duration) {
	for n := range lossRepeats {
		if draw(100) >= percent {
			break
		}
		late += lossFirst << n
	}
	return late
}

// deliver writes a chunk once it is due, the link is whole and its bandwidth
// allows.
func deliver(ctx context.Context, to net.Conn, c chunk, link func() (bool, setups.Link, <-chan struct{})) error {
	if err := sleepUntil(ctx, c.due); err != nil {
		return err
	}
	var l setups.Link
	for {
		cut, now, changed := link()
		if l = now; !cut {
			break
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if len(c.data) == 0 {
		if half, ok := to.(interface{ CloseWrite() error }); ok {
			return half.CloseWrite()
		}
		return to.Close()
	}
	if _, err := to.Write(c.data); err != nil {
		return err
	}
	if l.BytesPerSecond > 0 {
		took := time.Duration(float64(len(c.data)) / float64(l.BytesPerSecond) * float64(time.Second))
		return sleepUntil(ctx, time.Now().Add(took))
	}
	return nil
}

func sleepUntil(ctx context.Context, t time.Time) error {
	wait := time.Until(t)
	if wait <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
