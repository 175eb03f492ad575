package peer

import (
	"context"
	"net"
	"sync"
	"time"
)

// raftBacklog bounds the raft connections that wait to be accepted.
const raftBacklog = 64

// Streams hands raft connections on as plain ones. It is a net.Listener; Close
// stops accepting and leaves the endpoint open.
type Streams struct {
	endpoint *Endpoint
	incoming chan net.Conn
	done     chan struct{}
	once     sync.Once
}

func newStreams(e *Endpoint) *Streams {
	return &Streams{endpoint: e, incoming: make(chan net.Conn, raftBacklog), done: make(chan struct{})}
}

// deliver passes a connection to Accept, or closes it when nobody accepts.
func (s *Streams) deliver(c net.Conn) {
	select {
	case <-s.done:
		_ = c.Close()
		return
	default:
	}
	select {
	case s.incoming <- c:
	case <-s.done:
		_ = c.Close()
	default:
		s.endpoint.log.Warn("raft connection dropped: too many wait", "peer", c.RemoteAddr().String())
		_ = c.Close()
	}
}

// Accept implements net.Listener.
func (s *Streams) Accept() (net.Conn, error) {
	select {
	case c := <-s.incoming:
		return c, nil
	case <-s.done:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (s *Streams) Close() error {
	s.end()
	return nil
}

func (s *Streams) end() {
	s.once.Do(func() { close(s.done) })
	for {
		select {
		case c := <-s.incoming:
			_ = c.Close()
		default:
			return
		}
	}
}

// Addr implements net.Listener.
func (s *Streams) Addr() net.Addr { return s.endpoint.Addr() }

// Dial opens a raft connection.
func (s *Streams) Dial(to Target, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	c, _, _, err := s.endpoint.dial(ctx, streamRaft, to, false)
	if err != nil {
		return nil, err
	}
	return c, nil
}
