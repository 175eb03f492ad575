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
	cuts  map[way]bool           // guarded by mu
	links map[string]setups.Link // guarded by mu, by end
	turns chan struct{}          // guarded by mu; closed and replaced at every change

	// Dial connects to the end behind a proxy; nil dials from here. It is set
	// before the first Listen.
	Dial func(ctx context.Context, address string) (net.Conn, error)
}

// way is one direction of the links between two ends; anyEnd stands for all.
type way struct{ from, to string }

const anyEnd = "*"

// CutOff stalls every link of an end.
func (n *Network) CutOff(name string) { n.Cut(setups.Cut{Broker: name}) }

// Cut stalls a part of an end's links.
func (n *Network) Cut(c setups.Cut) {
	peer := c.Peer
	if peer == "" {
		peer = anyEnd
	}
	n.change(func() {
		if c.Direction != setups.In {
			n.cuts[way{c.Broker, peer}] = true
		}
		if c.Direction != setups.Out {
			n.cuts[way{peer, c.Broker}] = true
		}
	})
}

// Slow hinders every link of an end.
func (n *Network) Slow(name string, link setups.Link) {
	n.change(func() { n.links[name] = link })
}

// Heal ends what hinders an end.
func (n *Network) Heal(name string) {
	n.change(func() {
		delete(n.links, name)
		for w := range n.cuts {
			if w.from == name || w.to == name {
				delete(n.cuts, w)
			}
		}
	})
}

// change lets f alter the state, and tells those who wait for a change.
func (n *Network) change(f func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cuts == nil {
		n.cuts, n.links = make(map[way]bool), make(map[string]setups.Link)
	}
	f()
	if n.turns != nil {
		close(n.turns)
		n.turns = nil
	}
}

// state is how traffic from one end to another is hindered now, and a channel
// that is closed when that may have changed. A connection whose origin is not
// known ("") is hindered as its other end is.
func (n *Network) state(from, to string) (cut bool, link setups.Link, changed <-chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.turns == nil {
		n.turns = make(chan struct{})
	}
	cut = n.cuts[way{from, to}] || n.cuts[way{from, anyEnd}] || n.cuts[way{anyEnd, to}]
	for _, name := range []string{from, to} {
		l := n.links[name]
		link.Delay += l.Delay
		link.Jitter += l.Jitter
		link.LossPercent = max(link.LossPercent, l.LossPercent)
		if l.BytesPerSecond > 0 && (link.BytesPerSecond == 0 || l.BytesPerSecond < link.BytesPerSecond) {
			link.BytesPerSecond = l.BytesPerSecond
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
	far, err := p.network.dial(ctx, address)
	if err != nil {
		return
	}
	defer far.Close()
	// Closing the connections is what ends a pump that reads or writes.
	stop := context.AfterFunc(ctx, func() { near.Close(); far.Close() })
	defer stop()
	var pumps sync.WaitGroup
	carry := func(w way, source, sink net.Conn) {
		pumps.Go(func() {
			link := func() (bool, setups.Link, <-chan struct{}) { return p.network.state(w.from, w.to) }
			if err := pump(ctx, sink, source, link); err != nil {
				cancel() // a broken direction ends both
			}
		})
	}
	carry(way{from, p.to}, near, far)
	carry(way{p.to, from}, far, near)
	pumps.Wait()
}

func (n *Network) dial(ctx context.Context, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	if n.Dial != nil {
		return n.Dial(ctx, address)
	}
	return new(net.Dialer).DialContext(ctx, "tcp", address)
}

// open waits until a link is cut in neither direction, since a connection needs
// both to come about; false when ctx ended first.
func (n *Network) open(ctx context.Context, a, b string) bool {
	for {
		there, _, changed := n.state(a, b)
		back, _, _ := n.state(b, a)
		if !there && !back {
			return ctx.Err() == nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}
