package kafka

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
)

const (
	// readBufferBytes holds many small pipelined requests for one read call.
	readBufferBytes = 32 << 10
	// bodyStep is how much of a body is read before more memory is taken, so that
	// a claimed length alone costs nothing; each further step is bodyGrowth times
	// what has arrived.
	bodyStep   = 128 << 10
	bodyGrowth = 8
)

// connection is one client connection. Its reader takes requests and starts
// them; its writer sends the answers in the order of the requests. The queue
// between them is the bound on open requests.
//
//	reader -> queue -> writer
//	   \-> backend -> complete -^
type connection struct {
	*listener
	nc    net.Conn
	in    *bufio.Reader
	queue *queue
	// bytes bounds the open requests of this connection.
	bytes *semaphore.Weighted
	// fetchSlot holds a token while a fetch is open, until its records are
	// written: one at a time, since records are much larger than requests.
	fetchSlot chan struct{}
	fetches   sync.WaitGroup
	out       output // owned by the writer
}

func newConnection(l *listener, nc net.Conn) *connection {
	return &connection{
		listener:  l,
		nc:        nc,
		in:        bufio.NewReaderSize(nc, readBufferBytes),
		queue:     newQueue(l.cfg.RequestsInFlightMax),
		bytes:     semaphore.NewWeighted(int64(l.cfg.ConnectionBytesMax)),
		fetchSlot: make(chan struct{}, 1),
	}
}

// serve runs both sides until the connection ends, and closes it. The error says
// why it ended.
func (c *connection) serve(ctx context.Context) error {
	defer c.nc.Close()
	// reading ends when the listener stops or the writer fails; the reader is then
	// woken by its deadline.
	reading, stopReading := context.WithCancelCause(ctx)
	wake := context.AfterFunc(reading, func() { _ = c.nc.SetReadDeadline(time.Unix(1, 0)) })
	defer wake()

	writing, stopWriting := context.WithCancel(context.WithoutCancel(ctx))
	defer stopWriting()
	written := make(chan struct{})
	go func() {
		defer close(written)
		if err := c.write(writing); err != nil {
			stopReading(fmt.Errorf("write: %w", err))
			_ = c.nc.Close()
		}
		c.queue.drop(c.finish)
	}()

	err := c.read(reading)
	if reading.Err() != nil {
		err = context.Cause(reading)
	}
	stopReading(nil) // also ends long polls
	c.queue.end()
	grace := time.AfterFunc(c.cfg.DrainTimeout, func() {
		stopWriting()
		_ = c.nc.Close() // a writer that waits for the client waits no more
	})
	defer grace.Stop()
	<-written
	c.fetches.Wait()
	return err
}

// read takes requests until the connection or ctx ends.
func (c *connection) read(ctx context.Context) error {
	for {
		buf, err := c.readRequest(ctx)
		if err != nil {
			return err
		}
		if err := c.dispatch(ctx, buf); err != nil {
			return err
		}
	}
}

// readRequest reads one request, without its length field, within the timeouts.
func (c *connection) readRequest(ctx context.Context) (*buffer, error) {
	if err := c.await(ctx, 4, c.cfg.IdleTimeout); err != nil {
		return nil, err
	}
	prefix, err := c.in.Peek(4)
	if err != nil {
		return nil, err
	}
	size := int(int32(binary.BigEndian.Uint32(prefix)))
	if size < headerMin || size > c.cfg.RequestBytesMax {
		c.cfg.Logger.Warn("kafka connection refused", "peer", c.nc.RemoteAddr().String(),
			"reason", "request size", "bytes", size, "bytes_max", c.cfg.RequestBytesMax)
		return nil, fmt.Errorf("request of %d bytes; expected %d to %d", size, headerMin, c.cfg.RequestBytesMax)
	}
	_, _ = c.in.Discard(4)
	buf := getBuffer(min(size, bodyStep))
	for have := 0; ; {
		missing := len(buf.b) - have
		if err := c.await(ctx, missing, c.stallTimeout(missing)); err != nil {
			return nil, err
		}
		if _, err := io.ReadFull(c.in, buf.b[have:]); err != nil {
			return nil, err
		}
		if have = len(buf.b); have == size {
			return buf, nil
		}
		buf = buf.grown(min(size, have*bodyGrowth))
	}
}

// await sets the read deadline when fewer than n bytes are at hand. A stop that
// came just before is not undone: ctx is looked at after the deadline is set.
func (c *connection) await(ctx context.Context, n int, timeout time.Duration) error {
	if c.in.Buffered() < n {
		if err := c.nc.SetReadDeadline(time.Now().Add(timeout)); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// stallTimeout grows with the size, so that a slow but steady client is not cut
// off.
func (c *connection) stallTimeout(bytes int) time.Duration {
	return c.cfg.StallTimeout + time.Duration(bytes)*time.Second/time.Duration(c.cfg.PaceMin)
}

// reserved is what one open request holds of the two byte bounds.
type reserved struct{ connection, listener int64 }

// reserve waits until size more bytes may be open.
func (c *connection) reserve(ctx context.Context, size int) (reserved, error) {
	r := reserved{
		connection: int64(min(size, c.cfg.ConnectionBytesMax)),
		listener:   int64(min(size, c.cfg.ListenerBytesMax)),
	}
	if err := c.bytes.Acquire(ctx, r.connection); err != nil {
		return reserved{}, err
	}
	if err := c.listener.bytes.Acquire(ctx, r.listener); err != nil {
		c.bytes.Release(r.connection)
		return reserved{}, err
	}
	return r, nil
}

// finish gives up what a written or dropped call held.
func (c *connection) finish(k *call) {
	c.bytes.Release(k.reserved.connection)
	c.listener.bytes.Release(k.reserved.listener)
	if k.holdsFetchSlot {
		<-c.fetchSlot
	}
	k.recycle()
}

// takeMax bounds the calls that the writer holds at a time.
const takeMax = 128

// write sends answers in request order until all are sent and no more come, a
// write fails, or ctx ends. Answers that are ready are written together.
func (c *connection) write(ctx context.Context) error {
	var taken []*call
	space := make([]*call, 0, takeMax)
	defer func() {
		for _, k := range taken {
			c.finish(k)
		}
	}()
	for {
		var done bool
		taken, done = c.queue.take(space)
		hangup := false
		for _, k := range taken {
			hangup = c.out.add(k) || hangup
			if c.out.full() || hangup {
				if err := c.flush(); err != nil {
					return err
				}
			}
			if hangup {
				return errors.New("a produce that asked for no acknowledgement failed")
			}
		}
		if err := c.flush(); err != nil {
			return err
		}
		for _, k := range taken {
			c.finish(k)
		}
		wasIdle := len(taken) == 0
		taken = nil
		if done {
			return nil
		}
		if !wasIdle {
			continue
		}
		select {
		case <-c.queue.wake:
		case <-ctx.Done():
			return errors.New("the connection ends with open requests")
		}
	}
}

// flush writes the output.
func (c *connection) flush() error {
	if c.out.empty() {
		return nil
	}
	if err := c.nc.SetWriteDeadline(time.Now().Add(c.stallTimeout(c.out.size()))); err != nil {
		return err
	}
	return c.out.writeTo(c.nc)
}
