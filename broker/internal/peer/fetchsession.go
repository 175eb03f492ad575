package peer

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/ister-mq/ister/broker/internal/refusal"
)

// bufferKeepMax bounds the buffer a session keeps between requests; a larger
// one is given up after use.
const bufferKeepMax = 8 << 20

// readAheadBytes lets the head and what follows it come by one read; longer bodies
// are read past it.
const readAheadBytes = 16 << 10

// FetchClient is the follower's side of a session. Not for concurrent use,
// except Close.
type FetchClient struct {
	conn     *trackedConn
	reader   *bufio.Reader
	to       Target
	sequence uint32
	out      []byte // the last request
	in       []byte // meta and body of the last response
}

// OpenFetch opens a fetch session to a leader node. It waits out the back-off
// of an address that failed lately.
func (e *Endpoint) OpenFetch(ctx context.Context, to Target) (*FetchClient, error) {
	c, _, _, err := e.dial(ctx, streamFetch, to, false)
	if err != nil {
		return nil, fmt.Errorf("open fetch session to node %v: %w", to.Node, err)
	}
	return &FetchClient{conn: c, reader: bufio.NewReaderSize(c, readAheadBytes), to: to}, nil
}

// Fetch makes one request. The batches of response belong to the client and are
// valid until the next Fetch or Close. Any error ends the session: Close it and
// open another. A *refusal.Refusal in the chain is the leader's word.
func (c *FetchClient) Fetch(ctx context.Context, request *FetchRequest, response *FetchResponse) error {
	var err error
	c.sequence++
	if c.out, err = appendRequest(c.out[:0], c.sequence, request); err != nil {
		return err
	}
	_ = c.conn.SetDeadline(time.Now().Add(request.MaxWait + fetchReadGrace))
	stop := context.AfterFunc(ctx, func() { _ = c.conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	err = c.exchange(response)
	if err != nil && ctx.Err() != nil {
		err = ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("fetch from node %v: %w", c.to.Node, err)
	}
	return nil
}

func (c *FetchClient) exchange(response *FetchResponse) error {
	if _, err := c.conn.Write(c.out); err != nil {
		return err
	}
	if cap(c.out) > bufferKeepMax {
		c.out = nil
	}
	var head [fetchHeadSize]byte
	if _, err := io.ReadFull(c.reader, head[:]); err != nil {
		return err
	}
	h, err := parseFetchHead(head[:])
	if err != nil {
		return err
	}
	// A session may end before its first request is read, hence with number 0.
	if h.sequence != c.sequence && h.status != fetchStatusEnd {
		return fmt.Errorf("%w: answer %d to request %d", errFetchFrame, h.sequence, c.sequence)
	}
	// The batches of the answer before were valid until now.
	c.in = sized(c.in, int(h.meta)+int(h.body))
	if _, err := io.ReadFull(c.reader, c.in); err != nil {
		return err
	}
	meta, body := c.in[:h.meta], c.in[h.meta:]
	if h.status != fetchStatusOK {
		return endReason(meta)
	}
	return parseResponse(meta, body, response)
}

// Close ends the session.
func (c *FetchClient) Close() error { return c.conn.Close() }

// sized gives a buffer of n bytes, reusing b when it is large enough and not
// wastefully so.
func sized(b []byte, n int) []byte {
	if cap(b) < n || cap(b) > bufferKeepMax && n <= bufferKeepMax {
		return make([]byte, n, max(n, min(2*n, bufferKeepMax)))
	}
	return b[:n]
}

// ending is how a leader tells why it ends a session.
type ending struct {
	Refusal *refusal.Refusal `json:"refusal,omitempty"`
	Fault   string           `json:"fault,omitempty"`
}

func endReason(meta []byte) error {
	var e ending
	if err := json.Unmarshal(meta, &e); err != nil {
		return fmt.Errorf("decode the end of a fetch session: %w", err)
	}
	if e.Refusal != nil {
		return e.Refusal
	}
	return errors.New(e.Fault)
}

// serveFetch runs the leader's side until the connection ends.
func (e *Endpoint) serveFetch(c net.Conn, from Identity) {
	handler := e.fetch.Load()
	if handler == nil || from.Epoch == 0 {
		sendEnding(c, 0, refusal.New(refusal.NodeNotReady, fmt.Sprintf("node %v", from.Node),
			"the fetch session came too early: one of its two nodes is not registered yet", "retry"))
		return
	}
	session, err := (*handler).OpenSession(from)
	if err != nil {
		sendEnding(c, 0, err)
		return
	}
	defer session.Close()
	requests := make(chan *fetchTurn)
	ctx, cancel := context.WithCancel(e.lifetime)
	turn := &fetchTurn{done: make(chan struct{}, 1)}
	reading := make(chan struct{})
	go func() {
		// This goroutine reads, so that a broken connection ends a long poll. It
		// hands one request over and then waits for its bytes or the end.
		defer close(reading)
		defer cancel()
		readTurns(ctx, c, turn, requests)
	}()
	for {
		select {
		case t := <-requests:
			if err := e.answerFetch(ctx, c, session, t); err != nil {
				e.log.Debug("fetch session ended", "node", from.Node, "reason", err)
				cancel()
			}
			t.done <- struct{}{}
			continue
		case <-ctx.Done():
		}
		break
	}
	_ = c.Close()
	<-reading
}

// fetchTurn is one request and its answer; both are reused.
type fetchTurn struct {
	sequence uint32
	request  FetchRequest
	response FetchResponse
	out      []byte
	vectors  net.Buffers
	done     chan struct{} // a token per answered request
}

// readTurns reads requests into turn and passes it on, one at a time. While an
// answer is under way it already reads the next head, which only comes early
// when the connection broke.
func readTurns(ctx context.Context, c net.Conn, turn *fetchTurn, requests chan<- *fetchTurn) {
	var head [fetchHeadSize]byte
	var meta []byte
	answered := true
	reader := bufio.NewReaderSize(c, readAheadBytes)
	for {
		_ = c.SetReadDeadline(time.Now().Add(fetchWaitMax + fetchReadGrace))
		if _, err := io.ReadFull(reader, head[:]); err != nil {
			return
		}
		h, err := parseFetchHead(head[:])
		if err != nil || h.body != 0 {
			return
		}
		meta = sized(meta, int(h.meta))
		if _, err := io.ReadFull(reader, meta); err != nil {
			return
		}
		if !answered {
			select {
			case <-turn.done:
			case <-ctx.Done():
				return
			}
		}
		if err := parseRequest(meta, &turn.request); err != nil {
			sendEnding(c, h.sequence, err)
			return
		}
		turn.sequence = h.sequence
		select {
		case requests <- turn:
			answered = false
		case <-ctx.Done():
			return
		}
	}
}

// answerFetch runs one request: header first, then the batches, in one writev.
func (e *Endpoint) answerFetch(ctx context.Context, c net.Conn, session FetchSession, t *fetchTurn) error {
	clear(t.response.Partitions)
	t.response.Partitions = t.response.Partitions[:0]
	if err := session.Fetch(ctx, &t.request, &t.response); err != nil {
		if ctx.Err() == nil {
			sendEnding(c, t.sequence, err)
		}
		return err
	}
	defer session.Sent(&t.response)
	var err error
	if t.out, err = appendResponse(t.out[:0], t.sequence, &t.response); err != nil {
		sendEnding(c, t.sequence, err)
		return err
	}
	t.vectors = append(t.vectors[:0], t.out)
	for i := range t.response.Partitions {
		if b := t.response.Partitions[i].Batches; len(b) > 0 {
			t.vectors = append(t.vectors, b)
		}
	}
	_ = c.SetWriteDeadline(time.Now().Add(fetchWriteTimeout))
	vectors := t.vectors // WriteTo eats its receiver
	_, err = vectors.WriteTo(c)
	clear(t.vectors)
	return err
}

func sendEnding(c net.Conn, sequence uint32, err error) {
	e := ending{Refusal: refusal.As(err)}
	if e.Refusal == nil {
		e.Fault = err.Error()
	}
	meta, jerr := json.Marshal(e)
	if jerr != nil {
		return
	}
	_ = c.SetWriteDeadline(time.Now().Add(handshakeTimeout))
	head := fetchHead{meta: uint32(len(meta)), sequence: sequence, status: fetchStatusEnd}
	_, _ = c.Write(append(head.append(nil), meta...))
}
