package peer

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ister-mq/ister/broker/internal/refusal"
)

// connectionsMax bounds the incoming connections of an endpoint. A cluster of
// 100 nodes needs about ten from each.
const connectionsMax = 4096

// Config of an Endpoint.
type Config struct {
	Listener net.Listener // bound on --raft-addr; the endpoint closes it
	Logger   *slog.Logger // nil: slog.Default
}

// Endpoint is a node's end of all node-to-node traffic: one listener whose
// connections are raft streams, control calls or fetch sessions.
type Endpoint struct {
	listener net.Listener
	log      *slog.Logger

	identity  atomic.Pointer[Identity]
	verifier  atomic.Pointer[func(Identity) *refusal.Refusal]
	onRefused atomic.Pointer[func(Identity, *refusal.Refusal)]
	onGone    atomic.Pointer[func(Identity)]
	fetch     atomic.Pointer[FetchHandler]

	raft    *Streams
	dialer  *dialer
	methods methods
	idle    idlePool

	mu     sync.Mutex // guards the fields below; never held across I/O
	open   map[net.Conn]struct{}
	closed bool

	// lifetime is the parent of every handler's context: there is no caller
	// whose context could be it.
	lifetime context.Context
	expire   context.CancelFunc

	wait sync.WaitGroup
}

// New makes an endpoint. It answers nothing before Start, so that every handler
// can be set first.
func New(cfg Config) *Endpoint {
	e := &Endpoint{
		listener: cfg.Listener,
		log:      cfg.Logger,
		open:     make(map[net.Conn]struct{}),
	}
	if e.log == nil {
		e.log = slog.Default()
	}
	e.lifetime, e.expire = context.WithCancel(context.Background())
	e.identity.Store(&Identity{})
	e.raft = newStreams(e)
	e.dialer = newDialer()
	return e
}

// Start serves the listener until Close.
func (e *Endpoint) Start() {
	e.wait.Go(e.serve)
}

// Close ends the listener and every connection, in and out, and waits. It is
// idempotent.
func (e *Endpoint) Close() error {
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		e.wait.Wait()
		return nil
	}
	e.closed = true
	conns := make([]net.Conn, 0, len(e.open))
	for c := range e.open {
		conns = append(conns, c)
	}
	e.mu.Unlock()

	e.expire()
	e.raft.end()
	err := e.listener.Close()
	for _, c := range conns {
		_ = c.Close()
	}
	e.wait.Wait()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// Addr is the address the listener is bound to.
func (e *Endpoint) Addr() net.Addr { return e.listener.Addr() }

// Identity is what this node tells others.
func (e *Endpoint) Identity() Identity { return *e.identity.Load() }

// SetIdentity changes what this node tells others. New connections carry it;
// idle control connections are dropped, since they carry the old one.
func (e *Endpoint) SetIdentity(id Identity) {
	old := e.identity.Swap(&id)
	if *old != id {
		e.idle.drop()
	}
}

// SetVerifier sets the check of a caller of the same cluster: nil lets it in.
// It is called for each incoming connection and must be quick.
func (e *Endpoint) SetVerifier(verify func(from Identity) *refusal.Refusal) {
	e.verifier.Store(&verify)
}

// OnRefused sets a hook called when another node refuses this one in a
// handshake, for instance with NODE_REMOVED. It must not block.
func (e *Endpoint) OnRefused(hook func(by Identity, r *refusal.Refusal)) {
	e.onRefused.Store(&hook)
}

// OnGone sets a hook called when an incoming control or fetch connection of a
// member ends, which is the first sign that its process died. It must not block.
func (e *Endpoint) OnGone(hook func(from Identity)) { e.onGone.Store(&hook) }

// HandleFetch sets the leader's side of fetch sessions.
func (e *Endpoint) HandleFetch(handler FetchHandler) { e.fetch.Store(&handler) }

// Raft is the raft part of the listener.
func (e *Endpoint) Raft() *Streams { return e.raft }

func (e *Endpoint) serve() {
	pause := time.Millisecond
	for {
		c, err := e.listener.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) || e.isClosed() {
				return
			}
			// Out of file descriptors or an aborted connection: try again, slower.
			e.log.Warn("node-to-node accept failed", "reason", err)
			time.Sleep(pause)
			pause = min(2*pause, time.Second)
			continue
		}
		pause = time.Millisecond
		if !e.track(c) {
			_ = c.Close()
			continue
		}
		e.wait.Go(func() { e.serveConn(c) })
	}
}

func (e *Endpoint) serveConn(c net.Conn) {
	s, h, no, err := e.accept(c)
	if err != nil {
		e.untrack(c)
		e.log.Debug("node-to-node connection refused", "peer", c.RemoteAddr().String(), "node", h.From.Node, "reason", err)
		return
	}
	if s == streamRaft {
		// The raft side owns the connection from here; it stays tracked so that
		// Close ends it.
		e.raft.deliver(&trackedConn{Conn: c, endpoint: e})
		return
	}
	defer e.untrack(c)
	switch s {
	case streamControl:
		e.serveControl(c, h.From, no)
	case streamFetch:
		e.serveFetch(c, h.From)
	}
	if hook := e.onGone.Load(); hook != nil && no == nil && h.From.Node != 0 && !e.isClosed() {
		(*hook)(h.From)
	}
}

// track notes an open connection so that Close ends it; false when the endpoint
// is closed or full.
func (e *Endpoint) track(c net.Conn) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed || len(e.open) >= connectionsMax {
		return false
	}
	e.open[c] = struct{}{}
	return true
}

// untrack closes and forgets a connection.
func (e *Endpoint) untrack(c net.Conn) {
	_ = c.Close()
	e.mu.Lock()
	delete(e.open, c)
	e.mu.Unlock()
}

func (e *Endpoint) isClosed() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.closed
}

// trackedConn forgets itself when its user closes it.
type trackedConn struct {
	net.Conn
	endpoint *Endpoint
	by       Identity // who answered, on outgoing connections
}

// Close implements net.Conn.
func (t *trackedConn) Close() error {
	err := t.Conn.Close()
	t.endpoint.untrack(t.Conn)
	return err
}
