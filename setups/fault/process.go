package fault

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"sync"

	"github.com/ister-mq/ister/setups"
	"github.com/ister-mq/ister/setups/process"
)

// Setup is the process setup, able to hinder its brokers: with Limits.Links a
// proxy stands in front of every broker's node-to-node port, and with
// Limits.DiskBytes every broker's data is on a file system of its own, for which
// this process needs the right to mount (root, on Linux).
type Setup struct{ process.Setup }

// New implements setups.Setup.
func (s Setup) New(ctx context.Context, options setups.Options) (setups.Cluster, error) {
	inner, err := s.Setup.New(ctx, options)
	if err != nil {
		return nil, err
	}
	dir, err := filepath.Abs(options.Dir)
	if err != nil {
		return nil, fmt.Errorf("run directory: %w", err)
	}
	return &cluster{Cluster: inner, dir: dir}, nil
}

// Cannot implements setups.Limited.
func (s Setup) Cannot(ability setups.Ability) *setups.Refused {
	switch ability {
	case setups.AbilityCutOff, setups.AbilitySlow:
		return nil
	case setups.AbilityFillDisk:
		if why := mountable(); why != "" {
			return noDisks(why)
		}
		return nil
	}
	return setups.Cannot(s.Setup, ability)
}

func noDisks(why string) *setups.Refused {
	return &setups.Refused{Setup: "process", What: setups.AbilityFillDisk.What(), Why: "its brokers then need small file systems: " + why, Remedy: "run as root on Linux, or use the setup container", Here: true}
}

// Clean implements setups.Cleaner: it takes away the file systems that a run left
// mounted, whose brokers were ended. Links end with the process that runs them.
func (Setup) Clean(_ context.Context, dir string) (leftovers []string, err error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("run directory: %w", err)
	}
	return unmountBelow(abs), nil
}

type cluster struct {
	setups.Cluster
	dir    string
	limits setups.Limits
	links  Network

	mu      sync.Mutex
	proxies []*Proxy // guarded by mu
	disks   []string // guarded by mu: mounted directories
}

var (
	_ setups.Cleaner = Setup{}
	_ setups.Limited = Setup{}
	_ setups.Faults  = (*cluster)(nil)
	_ setups.Cutter  = (*cluster)(nil)
	_ setups.Limiter = (*cluster)(nil)
)

// Unwrap gives the process setup's cluster, for setups.As.
func (c *cluster) Unwrap() setups.Cluster { return c.Cluster }

// Limit implements setups.Limiter.
func (c *cluster) Limit(l setups.Limits) error {
	if err := l.Check(); err != nil {
		return err
	}
	if l.DiskBytes != 0 {
		if why := mountable(); why != "" {
			return noDisks(why)
		}
	}
	if l.Links {
		fronter, ok := c.Cluster.(setups.Fronter)
		if !ok {
			return &setups.Refused{Setup: "process", What: "hinder traffic between brokers", Why: "it lets nothing stand in front of them", Remedy: "use the setup container"}
		}
		fronter.Front(c.front)
	}
	c.limits = l
	return nil
}

// front starts the proxy of a broker.
func (c *cluster) front(name, listens string) (string, error) {
	p, err := c.links.Listen("127.0.0.1:0", name,
		func(context.Context) (string, error) { return listens, nil },
		func(conn net.Conn) string { return c.owner(conn) })
	if err != nil {
		return "", err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.proxies = append(c.proxies, p)
	return p.Address(), nil
}

// owner names the broker that a connection comes from.
func (c *cluster) owner(conn net.Conn) string {
	ledger, err := process.LoadLedger(c.dir)
	if err != nil {
		return ""
	}
	names := make(map[int]string)
	for _, e := range ledger.Alive() {
		names[e.PID] = e.Name
	}
	return names[ownerOf(conn, names)]
}

func (c *cluster) dataDir(name string) string { return filepath.Join(c.dir, "brokers", name, "data") }

// disk mounts the file system of the broker that starts next.
func (c *cluster) disk(n int) error {
	if c.limits.DiskBytes == 0 {
		return nil
	}
	dir := c.dataDir(fmt.Sprintf("b%d", n))
	if err := mount(dir, c.limits.DiskBytes); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.disks = append(c.disks, dir)
	return nil
}

// Form implements setups.Cluster.
func (c *cluster) Form(ctx context.Context, n int) ([]setups.Broker, error) {
	for i := range n {
		if err := c.disk(i + 1); err != nil {
			return nil, err
		}
	}
	return c.Cluster.Form(ctx, n)
}

// Add implements setups.Cluster.
func (c *cluster) Add(ctx context.Context) (setups.Broker, error) {
	if err := c.disk(len(c.Brokers()) + 1); err != nil {
		return setups.Broker{}, err
	}
	return c.Cluster.Add(ctx)
}

// Close implements setups.Cluster.
func (c *cluster) Close(ctx context.Context) []string {
	left := c.Cluster.Close(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.proxies {
		if err := p.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			left = append(left, err.Error())
		}
	}
	for _, dir := range c.disks {
		if err := unmount(dir); err != nil {
			left = append(left, err.Error())
		}
	}
	c.proxies, c.disks = nil, nil
	return left
}

// Can implements setups.Faults.
func (c *cluster) Can() (can []setups.Fault) {
	if c.limits.Links {
		can = append(can, setups.FaultCutOff, setups.FaultSlow)
	}
	if c.limits.DiskBytes > 0 {
		can = append(can, setups.FaultFillDisk)
	}
	return can
}

// known checks that a broker exists and that a fault works.
func (c *cluster) known(name, what string, fault setups.Fault, remedy string) error {
	if !slices.ContainsFunc(c.Brokers(), func(b setups.Broker) bool { return b.Name == name }) {
		return fmt.Errorf("no broker is called %s", name)
	}
	if !slices.Contains(c.Can(), fault) {
		return &setups.Refused{Setup: "process", What: what + " " + name, Why: "the cluster was started without it", Remedy: remedy}
	}
	return nil
}

const needLinks, needDisk = "limit it with Links before it forms", "limit it with DiskBytes before it forms"

// CutOff implements setups.Faults.
func (c *cluster) CutOff(_ context.Context, name string) error {
	err := c.known(name, "cut off", setups.FaultCutOff, needLinks)
	if err == nil {
		c.links.CutOff(name)
	}
	return err
}

// Cut implements setups.Cutter.
func (c *cluster) Cut(_ context.Context, cut setups.Cut) error {
	err := c.known(cut.Broker, "cut off", setups.FaultCutOff, needLinks)
	if err == nil && cut.Peer != "" {
		if cut.Peer == cut.Broker {
			return fmt.Errorf("cut %s off from itself: name another broker", cut.Peer)
		}
		if !canTellOwners {
			return &setups.Refused{Setup: "process", What: "cut " + cut.Broker + " off from " + cut.Peer + " alone", Why: "it cannot tell here which process a connection comes from", Remedy: "run on Linux, or cut it off from every broker"}
		}
		err = c.known(cut.Peer, "cut off", setups.FaultCutOff, needLinks)
	}
	if err == nil {
		c.links.Cut(cut)
	}
	return err
}

// Heal implements setups.Faults.
func (c *cluster) Heal(_ context.Context, name string) error {
	err := c.known(name, "heal", setups.FaultCutOff, needLinks)
	if err == nil {
		c.links.Heal(name)
	}
	return err
}

// Slow implements setups.Faults.
func (c *cluster) Slow(_ context.Context, name string, link setups.Link) error {
	err := c.known(name, "slow down", setups.FaultSlow, needLinks)
	if err == nil {
		c.links.Slow(name, link)
	}
	return err
}

// FillDisk implements setups.Faults.
func (c *cluster) FillDisk(_ context.Context, name string, leaveBytes int64) error {
	if err := c.known(name, "fill the disk of", setups.FaultFillDisk, needDisk); err != nil {
		return err
	}
	return fill(c.dataDir(name), leaveBytes)
}

// FreeDisk implements setups.Faults.
func (c *cluster) FreeDisk(_ context.Context, name string) error {
	if err := c.known(name, "free the disk of", setups.FaultFillDisk, needDisk); err != nil {
		return err
	}
	return free(c.dataDir(name))
}
