package mcp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/server"
)

// workers bounds the calls at the same time on stdio: a wait takes one.
const workers = 32

// ServeStdio serves one client on a pair of streams until the input ends or ctx
// does. What was asked before the input ended is answered. Nothing but the
// protocol is written to out.
func (s *Server) ServeStdio(ctx context.Context, in io.Reader, out, errOut io.Writer) error {
	transport := server.NewStdioServer(s.mcp)
	transport.SetErrorLogger(log.New(errOut, "mcp: ", 0))
	server.WithWorkerPoolSize(workers)(transport)
	d := &dialogue{refusal: func(raw []byte) []byte { return s.refusal("stdio", raw) }, done: ctx.Done(), in: bufio.NewReaderSize(in, requestMax), out: out, open: map[string]int{}, answered: make(chan struct{}, 1)}
	err := transport.Listen(ctx, d, d)
	if errors.Is(err, io.EOF) || errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// dialogue is both streams of a client. The transport gives up all calls when its
// input ends, so that the end is kept from it until each request has its answer.
type dialogue struct {
	refusal func([]byte) []byte // what a message is answered with at once, if it is
	done    <-chan struct{}
	in      *bufio.Reader // of one line at most
	rest    []byte        // what is left of the line that is being read

	answered chan struct{} // holds one when something was answered

	mu   sync.Mutex
	out  io.Writer      // guarded by mu
	open map[string]int // guarded by mu: requests without an answer, by id
}

// line is what is read here of a line of the protocol.
type line struct {
	ID     any             `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

// Read gives whole lines to the transport, also a last one without its end.
func (d *dialogue) Read(p []byte) (int, error) {
	for len(d.rest) == 0 {
		line, err := d.in.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			if err := d.refuseLong(); err != nil {
				return 0, err
			}
			continue
		}
		if line = bytes.TrimSpace(line); len(line) > 0 {
			if refusal := d.refusal(line); refusal != nil {
				if _, err := d.Write(refusal); err != nil {
					return 0, err
				}
				continue
			}
			d.asked(line)
			d.rest = append(bytes.Clone(line), '\n')
			break
		}
		if err != nil {
			d.awaitAnswers()
			return 0, err
		}
	}
	n := copy(p, d.rest)
	d.rest = d.rest[n:]
	return n, nil
}

// refuseLong answers a line that is too long, and skips the rest of it.
func (d *dialogue) refuseLong() error {
	for {
		_, err := d.in.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		_, err = d.Write(refusedRequest(nil, -32600, fmt.Sprintf("the message is longer than %d bytes", requestMax), nil))
		return err
	}
}

// asked notes a request. One that was cancelled needs no answer any more, and a
// subscription has none before the end.
func (d *dialogue) asked(raw []byte) {
	var m line
	if json.Unmarshal(raw, &m) != nil {
		return // the transport says so
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case m.Method == "notifications/cancelled":
		var cancelled struct {
			ID any `json:"requestId"`
		}
		if json.Unmarshal(m.Params, &cancelled) == nil {
			delete(d.open, requestKey(cancelled.ID))
		}
	case m.ID != nil && m.Method != "" && m.Method != "subscriptions/listen":
		d.open[requestKey(m.ID)]++
	}
}

func requestKey(id any) string { return fmt.Sprintf("%T %v", id, id) }

// Write takes one message of the transport.
func (d *dialogue) Write(raw []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n, err := d.out.Write(raw)
	var m line
	if json.Unmarshal(raw, &m) == nil && m.ID != nil && m.Method == "" {
		key := requestKey(m.ID)
		if d.open[key]--; d.open[key] <= 0 {
			delete(d.open, key)
		}
		select {
		case d.answered <- struct{}{}:
		default:
		}
	}
	return n, err
}

func (d *dialogue) isAnswered() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.open) == 0
}

// awaitAnswers waits, as long as a call may take, until nothing is open.
func (d *dialogue) awaitAnswers() {
	late := time.NewTimer(CallMax)
	defer late.Stop()
	for !d.isAnswered() {
		select {
		case <-d.answered:
		case <-late.C:
			return
		case <-d.done:
			return
		}
	}
}
