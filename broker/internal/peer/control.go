package peer

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/ister-mq/ister/broker/internal/refusal"
)

const (
	// ControlSizeMax bounds one control request or response, in bytes.
	ControlSizeMax = 16 << 20
	// callTimeout ends a call whose context has no deadline.
	callTimeout = 30 * time.Second
	// idlePerAddress bounds the idle connections kept for one target.
	idlePerAddress = 64
	// idleTimeout is how long the acceptor keeps a connection without a call.
	idleTimeout = 5 * time.Minute
)

// Access says who may call a method.
type Access int

// Members only is the zero value, so that a forgotten choice is the safe one.
const (
	MembersOnly Access = iota // same cluster, known incarnation, current node epoch
	Anyone                    // also nodes of no cluster or of another one
)

// Handler answers one control call. A *refusal.Refusal error reaches the caller
// as such; any other error as a fault text. Context ends at the caller's
// deadline.
type Handler func(ctx context.Context, from Identity, request json.RawMessage) (any, error)

type method struct {
	access  Access
	handler Handler
}

type methods struct {
	mu     sync.RWMutex // guards byName
	byName map[string]method
}

// callFrame is one request on a control connection.
type callFrame struct {
	Method    string          `json:"method"`
	TimeoutMs int64           `json:"timeout_ms"`
	Body      json.RawMessage `json:"body,omitempty"`
}

// answerFrame is one response. Early: the request was refused before its
// handler saw it.
type answerFrame struct {
	Body    json.RawMessage  `json:"body,omitempty"`
	Refusal *refusal.Refusal `json:"refusal,omitempty"`
	Fault   string           `json:"fault,omitempty"`
	Early   bool             `json:"early,omitempty"`
}

// Handle sets the handler of a control method.
func (e *Endpoint) Handle(name string, access Access, handler Handler) {
	e.methods.mu.Lock()
	defer e.methods.mu.Unlock()
	if e.methods.byName == nil {
		e.methods.byName = make(map[string]method)
	}
	e.methods.byName[name] = method{access: access, handler: handler}
}

// Call makes a control call and decodes the answer into response, which may be
// nil. A failed call is a *CallError; see Unsent. It does not retry. A context
// without a deadline gets 30 s.
func (e *Endpoint) Call(ctx context.Context, to Target, name string, request, response any) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	frame, err := encodeCall(ctx, name, request)
	if err != nil {
		return &CallError{Err: err}
	}
	c := e.idle.take(to)
	if c == nil {
		if c, _, _, err = e.dial(ctx, streamControl, to, false); err != nil {
			return &CallError{Err: err}
		}
	}
	answer, err := e.exchange(ctx, c, frame)
	if err != nil {
		_ = c.Close()
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return &CallError{Sent: true, Err: fmt.Errorf("call %s at %s: %w", name, to.Address, err)}
	}
	if answer.Early && answer.Refusal != nil {
		// The connection carries an identity that is no longer good.
		if hook := e.onRefused.Load(); hook != nil {
			(*hook)(c.by, answer.Refusal)
		}
		_ = c.Close()
	} else if !e.idle.put(to, c) {
		_ = c.Close()
	}
	return answer.into(name, to, response)
}

// into turns an answer into the caller's values.
func (a *answerFrame) into(name string, to Target, response any) error {
	switch {
	case a.Refusal != nil:
		return &CallError{Sent: !a.Early, Err: a.Refusal}
	case a.Fault != "":
		return &CallError{Sent: !a.Early, Err: fmt.Errorf("call %s at %s: %s", name, to.Address, a.Fault)}
	case response == nil:
		return nil
	}
	if err := json.Unmarshal(a.Body, response); err != nil {
		return &CallError{Sent: true, Err: fmt.Errorf("call %s at %s: decode the answer: %w", name, to.Address, err)}
	}
	return nil
}

func encodeCall(ctx context.Context, name string, request any) ([]byte, error) {
	body, err := json.Marshal(request)
	if err != nil {
		return nil, fmt.Errorf("encode request of %s: %w", name, err)
	}
	deadline, _ := ctx.Deadline()
	return encodeFrame(callFrame{Method: name, TimeoutMs: max(1, time.Until(deadline).Milliseconds()), Body: body})
}

// exchange sends a frame and reads the answer. The context ends it by making
// the connection unusable.
func (e *Endpoint) exchange(ctx context.Context, c *trackedConn, frame []byte) (*answerFrame, error) {
	deadline, _ := ctx.Deadline()
	_ = c.SetDeadline(deadline)
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if _, err := c.Write(frame); err != nil {
		return nil, err
	}
	answer := new(answerFrame)
	if err := readFrame(c, answer); err != nil {
		return nil, err
	}
	if !stop() {
		return nil, context.Cause(ctx)
	}
	return answer, nil
}

// serveControl answers calls, one after the other, until the connection ends.
// No is the handshake's verdict: then only methods for Anyone are served.
func (e *Endpoint) serveControl(c net.Conn, from Identity, no *refusal.Refusal) {
	for {
		_ = c.SetDeadline(time.Now().Add(idleTimeout))
		var call callFrame
		if err := readFrame(c, &call); err != nil {
			if !errors.Is(err, io.EOF) && !e.isClosed() {
				e.log.Debug("control connection ended", "node", from.Node, "reason", err)
			}
			return
		}
		answer := e.dispatch(&call, from, no)
		frame, err := encodeFrame(answer)
		if err != nil {
			frame, _ = encodeFrame(&answerFrame{Fault: err.Error()})
		}
		_ = c.SetWriteDeadline(time.Now().Add(callTimeout))
		if _, err := c.Write(frame); err != nil {
			return
		}
	}
}

func (e *Endpoint) dispatch(call *callFrame, from Identity, no *refusal.Refusal) *answerFrame {
	e.methods.mu.RLock()
	m, ok := e.methods.byName[call.Method]
	e.methods.mu.RUnlock()
	if !ok {
		return &answerFrame{Early: true, Fault: fmt.Sprintf("method %q is unknown to this node", call.Method)}
	}
	if m.access == MembersOnly {
		// A connection outlives restarts and removals of its sender: check again.
		if no == nil {
			no = e.judge(e.Identity(), hello{From: from})
		}
		if no != nil {
			return &answerFrame{Early: true, Refusal: no}
		}
	}
	timeout := min(max(time.Duration(call.TimeoutMs)*time.Millisecond, time.Millisecond), 10*callTimeout)
	ctx, cancel := context.WithTimeout(e.lifetime, timeout)
	defer cancel()
	result, err := m.handler(ctx, from, call.Body)
	if err != nil {
		if r := refusal.As(err); r != nil {
			return &answerFrame{Refusal: r}
		}
		return &answerFrame{Fault: err.Error()}
	}
	body, err := json.Marshal(result)
	if err != nil {
		return &answerFrame{Fault: "encode the answer: " + err.Error()}
	}
	return &answerFrame{Body: body}
}

// encodeFrame is a 4-byte length and JSON.
func encodeFrame(v any) ([]byte, error) {
	body, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	if len(body) > ControlSizeMax {
		return nil, fmt.Errorf("control message of %d bytes, at most %d", len(body), ControlSizeMax)
	}
	frame := make([]byte, 4, 4+len(body))
	binary.BigEndian.PutUint32(frame, uint32(len(body)))
	return append(frame, body...), nil
}

func readFrame(c net.Conn, v any) error {
	var head [4]byte
	if _, err := io.ReadFull(c, head[:]); err != nil {
		return err
	}
	size := binary.BigEndian.Uint32(head[:])
	if size > ControlSizeMax {
		return fmt.Errorf("control message of %d bytes, at most %d", size, ControlSizeMax)
	}
	body := make([]byte, size)
	if _, err := io.ReadFull(c, body); err != nil {
		return fmt.Errorf("read control message: %w", err)
	}
	if err := json.Unmarshal(body, v); err != nil {
		return fmt.Errorf("decode control message: %w", err)
	}
	return nil
}

// idlePool keeps control connections for reuse.
type idlePool struct {
	mu    sync.Mutex // guards conns
	conns map[Target][]*trackedConn
}

// take gives a live idle connection or nil.
func (p *idlePool) take(to Target) *trackedConn {
	for {
		p.mu.Lock()
		list := p.conns[to]
		if len(list) == 0 {
			p.mu.Unlock()
			return nil
		}
		c := list[len(list)-1]
		p.conns[to] = list[:len(list)-1]
		if len(list) == 1 {
			delete(p.conns, to)
		}
		p.mu.Unlock()
		if quiet(c) {
			return c
		}
		_ = c.Close()
	}
}

// put keeps a connection; false when there are enough.
func (p *idlePool) put(to Target, c *trackedConn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.conns == nil {
		p.conns = make(map[Target][]*trackedConn)
	}
	if len(p.conns[to]) >= idlePerAddress {
		return false
	}
	p.conns[to] = append(p.conns[to], c)
	return true
}

// drop closes every idle connection.
func (p *idlePool) drop() {
	p.mu.Lock()
	all := p.conns
	p.conns = nil
	p.mu.Unlock()
	for _, list := range all {
		for _, c := range list {
			_ = c.Close()
		}
	}
}

// quiet reports that an idle connection is still open: nothing to read, and no
// end of file. It keeps a restarted node's dead connections from making the
// outcome of a call unknown.
func quiet(c *trackedConn) bool {
	sc, ok := c.Conn.(syscall.Conn)
	if !ok {
		return true
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return false
	}
	alive := false
	err = raw.Read(func(fd uintptr) bool {
		var b [1]byte
		n, err := syscall.Read(int(fd), b[:])
		alive = n <= 0 && (errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EWOULDBLOCK))
		return true
	})
	return err == nil && alive
}
