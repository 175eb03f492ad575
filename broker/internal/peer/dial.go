package peer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/ister-mq/ister/broker/internal/refusal"
)

const (
	dialTimeout = 2 * time.Second
	// After a failed dial the next one to the same address waits, doubling from
	// the first to the last of these.
	backoffFirst = 20 * time.Millisecond
	backoffMax   = 320 * time.Millisecond
	// backoffAddresses bounds the addresses remembered.
	backoffAddresses = 1024
)

// CallError is a failed call. Sent tells whether the request can have been
// carried out: false means that it certainly was not.
type CallError struct {
	Sent bool
	Err  error
}

// Error implements error.
func (c *CallError) Error() string { return c.Err.Error() }

// Unwrap gives the cause.
func (c *CallError) Unwrap() error { return c.Err }

// Unsent reports that a failed call certainly was not carried out: no
// connection, or the other side refused it before it looked at the request.
func Unsent(err error) bool {
	var c *CallError
	return errors.As(err, &c) && !c.Sent
}

// Gone reports that nobody listens at the address: the machine answers and
// refuses the connection. A silent address is not gone, only unreachable.
func Gone(err error) bool { return errors.Is(err, syscall.ECONNREFUSED) }

// dialer remembers failed addresses so that nobody dials them in a tight loop.
type dialer struct {
	net.Dialer
	mu     sync.Mutex // guards failed
	failed map[string]failure
}

type failure struct {
	pause time.Duration
	until time.Time
}

func newDialer() *dialer {
	return &dialer{
		Dialer: net.Dialer{Timeout: dialTimeout, KeepAlive: 15 * time.Second},
		failed: make(map[string]failure),
	}
}

// gate waits until the address may be dialled again.
func (d *dialer) gate(ctx context.Context, address string) error {
	d.mu.Lock()
	wait := time.Until(d.failed[address].until)
	d.mu.Unlock()
	if wait <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait to dial %s again: %w", address, ctx.Err())
	}
}

// note records the outcome of a dial.
func (d *dialer) note(address string, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if ok {
		delete(d.failed, address)
		return
	}
	if len(d.failed) >= backoffAddresses {
		clear(d.failed)
	}
	f := d.failed[address]
	f.pause = min(max(2*f.pause, backoffFirst), backoffMax)
	f.until = time.Now().Add(f.pause)
	d.failed[address] = f
}

// dial opens a connection and shakes hands. Eager skips the back-off. A control
// connection may come with a refusal and no error.
func (e *Endpoint) dial(ctx context.Context, s stream, to Target, eager bool) (*trackedConn, Identity, *refusal.Refusal, error) {
	if !eager {
		if err := e.dialer.gate(ctx, to.Address); err != nil {
			return nil, Identity{}, nil, err
		}
	}
	c, err := e.dialer.DialContext(ctx, "tcp", to.Address)
	if err != nil {
		e.dialer.note(to.Address, false)
		return nil, Identity{}, nil, fmt.Errorf("connect to %s: %w", to.Address, err)
	}
	if !e.track(c) {
		_ = c.Close()
		return nil, Identity{}, nil, net.ErrClosed
	}
	deadline := time.Now().Add(handshakeTimeout)
	if d, ok := ctx.Deadline(); ok && d.Before(deadline) {
		deadline = d
	}
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	by, no, err := e.greet(c, s, to, deadline)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	e.dialer.note(to.Address, err == nil)
	if err != nil {
		e.untrack(c)
		return nil, by, no, fmt.Errorf("connect to %s: %w", to.Address, err)
	}
	return &trackedConn{Conn: c, endpoint: e, by: by}, by, no, nil
}

// Probe dials without back-off and tells who answers. It is how a silent node is
// told from a dead one: see Gone.
func (e *Endpoint) Probe(ctx context.Context, to Target) (Identity, error) {
	c, by, no, err := e.dial(ctx, streamControl, Target{Address: to.Address}, true)
	if err != nil {
		return by, err
	}
	_ = c.Close()
	if no != nil && no.Reason == refusal.NodeRemoved {
		return by, no
	}
	return by, nil
}
