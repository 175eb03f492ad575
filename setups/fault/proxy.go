package fault

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/ister-mq/ister/setups"
)

// Bounds of a proxy.
const (
	dialTimeout = 3 * time.Second
	// queueBytes bounds what one direction of a connection holds back. With
	// chunkBytes it also bounds the bandwidth of a delayed link.
	queueBytes = 4 << 20
	chunkBytes = 32 << 10
)

// Proxy stands in front of one address. Every connection through it belongs to a
// link between the end that dialled and the end behind the address.
type Proxy struct {
	network  *Network
	to       string // the end behind it
	listener net.Listener
	target   func(context.Context) (string, error)
	from     func(net.Conn) string

	ctx    context.Context
	cancel context.CancelFunc
	wait   sync.WaitGroup
}

// Network holds the state of the links between named ends, for any number of
// proxies. Its methods may be called from any goroutine. The zero value is ready.
type Network struct {
	mu    sync.Mutex
	ends  map[string]*end // guarded by mu
	turns chan struct{}   // guarded by mu; closed and replaced at every change
}

// end is how the links of one end are hindered.
type end struct {
	cut  bool
	link setups.Link
}

// CutOff stalls every link of an end.
func (n *Network) CutOff(name string) { n.change(name, func(e *end) { e.cut = true }) }

// Slow hinders every link of an end.
func (n *Network) Slow(name string, link setups.Link) {
	n.change(name, func(e *end) { e.link = link })
}

// Heal ends both.
func (n *Network) Heal(name string) { n.change(name, func(e *end) { *e = end{} }) }

func (n *Network) change(name string, f func(*end)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ends == nil {
		n.ends = make(map[string]*end)
	}
	if n.ends[name] == nil {
		n.ends[name] = &end{}
	}
	f(n.ends[name])
	if n.turns != nil {
		close(n.turns)
		n.turns = nil
	}
}

// state is how the link between two ends is hindered now, and a channel that is
// closed when that may have changed. A connection whose origin is not known
// ("") is hindered as its other end is.
func (n *Network) state(a, b string) (cut bool, link setups.Link, changed <-chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.turns == nil {
		n.turns = make(chan struct{})
	}
	for _, name := range []string{a, b} {
		e := n.ends[name]
		if e == nil {
			continue
		}
		cut = cut || e.cut
		link.Delay += e.link.Delay
		link.Jitter += e.link.Jitter
		if r := e.link.BytesPerSecond; r > 0 && (link.BytesPerSecond == 0 || r < link.BytesPerSecond) {
			link.BytesPerSecond = r
		}
	}
	return cut, link, n.turns
}

// Listen starts a proxy on an address. target says where the end behind it
// listens, asked for every connection; from names the end that dialled, "" when
// it is not known.
func (n *Network) Listen(listen, to string, target func(context.Context) (string, error), from func(net.Conn) string) (*Proxy, error) {
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return nil, fmt.Errorf("stand in front of %s: %w", to, err)
	}
	p := &Proxy{network: n, to: to, listener: l, target: target, from: from}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.wait.Go(p.accept)
	return p, nil
}

// Address is where the proxy listens.
func (p *Proxy) Address() string { return p.listener.Addr().String() }

// Close ends the proxy and every connection through it.
func (p *Proxy) Close() error {
	p.cancel()
	err := p.listener.Close()
	p.wait.Wait()
	return err
}

func (p *Proxy) accept() {
	for {
		conn, err := p.listener.Accept()
		if err != nil {
			if p.ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				return
			}
			continue
		}
		p.wait.Go(func() { p.carry(conn) })
	}
}

// carry connects a caller to the end behind the proxy until one of them is done.
// While the link is cut the far end is not even dialled: it must not learn of
// the caller.
func (p *Proxy) carry(near net.Conn) {
	ctx, cancel := context.WithCancel(p.ctx)
	defer cancel()
	defer near.Close()
	from := p.from(near)
	if !p.network.open(ctx, from, p.to) {
		return
	}
	address, err := p.target(ctx)
	if err != nil {
		return
	}
	dialer := net.Dialer{Timeout: dialTimeout}
	far, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return
	}
	defer far.Close()
	// Closing the connections is what ends a pump that reads or writes.
	stop := context.AfterFunc(ctx, func() { near.Close(); far.Close() })
	defer stop()
	link := func() (bool, setups.Link, <-chan struct{}) { return p.network.state(from, p.to) }
	var pumps sync.WaitGroup
	for _, way := range [][2]net.Conn{{near, far}, {far, near}} {
		pumps.Go(func() {
			if err := pump(ctx, way[1], way[0], link); err != nil {
				cancel() // a broken direction ends both
			}
		})
	}
	pumps.Wait()
}

// open waits until a link is not cut; false when ctx ended first.
func (n *Network) open(ctx context.Context, a, b string) bool {
	for {
		cut, _, changed := n.state(a, b)
		if !cut {
			return ctx.Err() == nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}
