package netns

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"

	"github.com/ister-mq/ister/setups"
	"github.com/ister-mq/ister/setups/fault"
	"github.com/ister-mq/ister/setups/process"
)

// Ports inside a namespace, the broker's defaults.
const (
	kafkaPort   = "6650"
	adminPort   = "50051"
	raftPort    = "7650"
	metricsPort = "9040"
)

// cluster is the process setup's, in namespaces.
type cluster struct {
	setups.Cluster
	net    *network
	links  fault.Network
	limits setups.Limits

	mu      sync.Mutex
	proxies []*fault.Proxy // guarded by mu
}

var (
	_ setups.Cleaner = Setup{}
	_ setups.Limited = Setup{}
	_ setups.Faults  = (*cluster)(nil)
	_ setups.Cutter  = (*cluster)(nil)
	_ setups.Limiter = (*cluster)(nil)
	_ setups.Inner   = (*cluster)(nil)
)

// Unwrap gives the cluster of processes, for setups.As.
func (c *cluster) Unwrap() setups.Cluster { return c.Cluster }

// InnerAdmin implements setups.Inner.
func (c *cluster) InnerAdmin(broker string) string {
	e, err := endOf(broker)
	if err != nil {
		return ""
	}
	return net.JoinHostPort(e.inner(), adminPort)
}

// place makes the namespace of a broker.
func (c *cluster) place(broker string) (process.Place, error) {
	e, err := endOf(broker)
	if err != nil {
		return process.Place{}, err
	}
	outer, err := c.net.add(e)
	if err != nil {
		return process.Place{}, err
	}
	return process.Place{
		Kafka: net.JoinHostPort(outer, kafkaPort), Admin: net.JoinHostPort(outer, adminPort), Metrics: net.JoinHostPort(outer, metricsPort),
		Raft: net.JoinHostPort(e.inner(), raftPort), InnerAdmin: net.JoinHostPort(e.inner(), adminPort),
		Within: func(start func() error) error { return c.net.within(e, start) },
	}, nil
}

// Limit implements setups.Limiter.
func (c *cluster) Limit(l setups.Limits) error {
	if disks := (setups.Limits{DiskBytes: l.DiskBytes}); disks != (setups.Limits{}) {
		if err := c.Cluster.(setups.Limiter).Limit(disks); err != nil {
			return err
		}
	}
	if l.Links {
		fronter, ok := setups.As[setups.Fronter](c.Cluster)
		if !ok {
			panic("netns: nothing can stand in front of the brokers of the process setup")
		}
		c.links.Dial = c.net.dial
		fronter.Front(c.front)
	}
	c.limits = l
	return nil
}

// front starts the proxy of a broker, which runs in this process and listens on
// the network between the brokers: what delays and loses pieces of a connection.
func (c *cluster) front(broker, listens string) (string, error) {
	var p *fault.Proxy
	err := c.net.within(hub, func() (err error) {
		p, err = c.links.Listen(net.JoinHostPort(hub.inner(), "0"), broker,
			func(context.Context) (string, error) { return listens, nil },
			func(conn net.Conn) string { return ownerOf(conn.RemoteAddr()) })
		return err
	})
	if err != nil {
		return "", err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.proxies = append(c.proxies, p)
	return p.Address(), nil
}

// Close implements setups.Cluster.
func (c *cluster) Close(ctx context.Context) []string {
	left := c.Cluster.Close(ctx)
	c.mu.Lock()
	proxies := c.proxies
	c.proxies = nil
	c.mu.Unlock()
	for _, p := range proxies {
		if err := p.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			left = append(left, err.Error())
		}
	}
	return append(left, c.net.close()...)
}

// Can implements setups.Faults.
func (c *cluster) Can() []setups.Fault {
	can := []setups.Fault{setups.FaultCutOff}
	if c.limits.Links {
		can = append(can, setups.FaultSlow)
	}
	if c.limits.DiskBytes > 0 {
		can = append(can, setups.FaultFillDisk)
	}
	return can
}

func (c *cluster) known(brokers ...string) error {
	for _, broker := range brokers {
		if broker != "" && !slices.ContainsFunc(c.Brokers(), func(b setups.Broker) bool { return b.Name == broker }) {
			return fmt.Errorf("no broker is called %s", broker)
		}
	}
	return nil
}

// CutOff implements setups.Faults.
func (c *cluster) CutOff(ctx context.Context, broker string) error {
	return c.Cut(ctx, setups.Cut{Broker: broker})
}

// Cut implements setups.Cutter.
func (c *cluster) Cut(_ context.Context, cut setups.Cut) error {
	if err := c.known(cut.Broker, cut.Peer); err != nil {
		return err
	}
	if cut.Peer == cut.Broker {
		return fmt.Errorf("cut %s off from itself: name another broker", cut.Peer)
	}
	c.links.Cut(cut) // first: a proxy must not take a lost packet for an end
	c.net.cuts.add(cut)
	return c.net.apply()
}

// Heal implements setups.Faults.
func (c *cluster) Heal(_ context.Context, broker string) error {
	if err := c.known(broker); err != nil {
		return err
	}
	c.net.cuts.heal(broker)
	err := errors.Join(c.net.apply(), c.net.limit(broker, 0))
	c.links.Heal(broker)
	return err
}

// Slow implements setups.Faults. The rate is one for all that a broker sends to
// the others, and one for all that it gets.
func (c *cluster) Slow(_ context.Context, broker string, link setups.Link) error {
	if err := c.known(broker); err != nil {
		return err
	}
	rate := link.BytesPerSecond
	link.BytesPerSecond = 0
	if link != (setups.Link{}) && !c.limits.Links {
		return &setups.Refused{Setup: name, What: "delay or lose what " + broker + " sends", Why: "the cluster was started without links", Remedy: "limit it with Links before it forms"}
	}
	if err := c.net.limit(broker, rate); err != nil {
		return err
	}
	c.links.Slow(broker, link)
	return nil
}

// FillDisk implements setups.Faults.
func (c *cluster) FillDisk(ctx context.Context, broker string, leaveBytes int64) error {
	if err := c.sized(broker); err != nil {
		return err
	}
	return c.Cluster.(setups.Faults).FillDisk(ctx, broker, leaveBytes)
}

// FreeDisk implements setups.Faults.
func (c *cluster) FreeDisk(ctx context.Context, broker string) error {
	if err := c.sized(broker); err != nil {
		return err
	}
	return c.Cluster.(setups.Faults).FreeDisk(ctx, broker)
}

func (c *cluster) sized(broker string) error {
	err := c.known(broker)
	if err == nil && c.limits.DiskBytes == 0 {
		err = &setups.Refused{Setup: name, What: "fill the disk of " + broker, Why: "its data is on this machine's own disk", Remedy: "limit the cluster with DiskBytes before it forms"}
	}
	return err
}
