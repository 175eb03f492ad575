package container

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
	testcontainers "github.com/testcontainers/testcontainers-go"

	"github.com/ister-mq/ister/setups"
)

// engineTimeout bounds a question to the engine from a connection's goroutine.
const engineTimeout = 10 * time.Second

// Cannot implements setups.Limited: a run on it has all faults.
func (Setup) Cannot(ability setups.Ability) *setups.Refused {
	switch ability {
	case setups.AbilityUpgrade, setups.AbilityMistake, setups.AbilityCutOff, setups.AbilitySlow, setups.AbilityFillDisk:
		return nil
	}
	return setups.StartsBrokers("container", ability)
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

// find returns a broker that was started.
func (c *cluster) find(name string) (*broker, error) {
	if _, err := c.Find(name); err != nil {
		return nil, err
	}
	for _, b := range c.brokers {
		if b.Name == name {
			return b, nil
		}
	}
	return nil, fmt.Errorf("no broker is called %s", name)
}

// CutOff takes the cluster network from the broker's container.
func (c *cluster) CutOff(ctx context.Context, name string) error {
	b, err := c.find(name)
	if err != nil {
		return err
	}
	c.links.CutOff(name)
	return c.engine.CutOff(ctx, b.Member, c.networks.cluster)
}

// Cut implements setups.Cutter. Its links are what the brokers know each other by,
// so that it needs nothing of the engine.
func (c *cluster) Cut(_ context.Context, cut setups.Cut) error {
	for _, name := range []string{cut.Broker, cut.Peer} {
		if name == "" {
			continue
		}
		b, err := c.find(name)
		if err != nil {
			return err
		}
		if b.link == nil {
			return &setups.Refused{Setup: "container", What: "cut a part of the network of " + name, Why: "the cluster was started without links", Remedy: "limit it with Links before it forms"}
		}
	}
	if cut.Peer == cut.Broker {
		return fmt.Errorf("cut %s off from itself: name another broker", cut.Peer)
	}
	c.links.Cut(cut)
	return nil
}

// Heal implements setups.Faults.
func (c *cluster) Heal(ctx context.Context, name string) error {
	b, err := c.find(name)
	if err != nil {
		return err
	}
	if err := c.engine.Heal(ctx, b.Member, c.networks.cluster, clusterName(name)); err != nil {
		return err
	}
	c.links.Heal(name)
	return nil
}

// Slow implements setups.Faults.
func (c *cluster) Slow(_ context.Context, name string, link setups.Link) error {
	b, err := c.find(name)
	if err != nil {
		return err
	}
	if b.link == nil {
		return &setups.Refused{Setup: "container", What: "slow " + name + " down", Why: "the cluster was started without links", Remedy: "limit it with Links before it forms"}
	}
	c.links.Slow(name, link)
	return nil
}

// front puts a link, which runs in this process, between the broker and the
// others: they know the broker by the link's address on the gateway of the
// cluster network. That is an address of this machine only while the engine
// runs here. c.mu is held.
func (c *cluster) front(ctx context.Context, b *broker) error {
	gateway, err := c.gateway(ctx)
	if err != nil {
		return err
	}
	b.link, err = c.links.Listen(net.JoinHostPort(gateway, "0"), b.Name,
		func(ctx context.Context) (string, error) {
			ip, err := c.address(ctx, b)
			return net.JoinHostPort(ip, strconv.Itoa(raftPort)), err
		},
		func(conn net.Conn) string { return c.owner(conn.RemoteAddr()) })
	if err != nil {
		return &setups.Refused{Setup: "container", What: "hinder traffic between brokers", Why: err.Error(), Remedy: "use a docker engine on this machine"}
	}
	b.Raft = b.link.Address()
	return nil
}

func (c *cluster) gateway(ctx context.Context) (string, error) {
	info, err := c.engine.API.NetworkInspect(ctx, c.networks.cluster, client.NetworkInspectOptions{})
	if err != nil {
		return "", fmt.Errorf("inspect network %s: %w", c.networks.cluster, err)
	}
	for _, config := range info.Network.IPAM.Config {
		if config.Gateway.IsValid() && config.Gateway.Is4() {
			return config.Gateway.String(), nil
		}
	}
	return "", fmt.Errorf("network %s has no gateway", c.networks.cluster)
}

// address is where a broker's container is on the cluster network now; it
// changes with a cut.
func (c *cluster) address(ctx context.Context, b *broker) (string, error) {
	info, err := c.engine.API.ContainerInspect(ctx, c.Run.Name(b.Name), client.ContainerInspectOptions{})
	if err != nil {
		return "", fmt.Errorf("inspect %s: %w", b.Name, err)
	}
	if info.Container.NetworkSettings != nil {
		if n := info.Container.NetworkSettings.Networks[c.networks.cluster]; n != nil && n.IPAddress.IsValid() {
			return n.IPAddress.String(), nil
		}
	}
	return "", fmt.Errorf("%s is not on the cluster network", b.Name)
}

// owner names the broker that a connection comes from. A broker that is off the
// cluster network reaches the gateway's address by way of the client network,
// since this machine answers for all its addresses on each.
func (c *cluster) owner(from net.Addr) string {
	at, err := netip.ParseAddrPort(from.String())
	if err != nil {
		return ""
	}
	ctx, cancel := context.WithTimeout(context.Background(), engineTimeout)
	defer cancel()
	for _, name := range []string{c.networks.cluster, c.networks.clients} {
		info, err := c.engine.API.NetworkInspect(ctx, name, client.NetworkInspectOptions{})
		if err != nil {
			continue
		}
		for _, member := range info.Network.Containers {
			if broker, ours := strings.CutPrefix(member.Name, c.Run.Name("")); ours && member.IPv4Address.Addr() == at.Addr().Unmap() {
				return broker
			}
		}
	}
	return ""
}

// hold keeps a broker's disk, which is in memory, while the broker's own
// container does not run: a file system ends with its last user. The image has
// one binary, so it is a broker that waits to be added, with no network.
func (c *cluster) hold(ctx context.Context, b *broker, image string) error {
	if c.limits.DiskBytes == 0 || b.hold != "" {
		return nil
	}
	made, err := c.engine.Provider.CreateContainer(ctx, testcontainers.ContainerRequest{
		Image: image, Name: c.Run.Name(b.Name + "-disk"), Labels: c.labels(b.Name), ExposedPorts: []string{},
		Cmd:    []string{"broker", "--join", "--data-dir", "/holder", "--advertised-raft-addr", "holder:7650", "--log-level", "error"},
		Mounts: testcontainers.Mounts(testcontainers.VolumeMount(c.Run.Name(b.Name), dataDir)),
		HostConfigModifier: func(h *container.HostConfig) {
			h.NetworkMode = "none"
			h.Tmpfs = map[string]string{"/holder": "size=16777216"}
		},
	})
	if err != nil {
		return fmt.Errorf("keep the disk of %s: %w", b.Name, err)
	}
	if _, err := c.engine.API.ContainerStart(ctx, made.GetContainerID(), client.ContainerStartOptions{}); err != nil {
		return fmt.Errorf("keep the disk of %s: %w", b.Name, err)
	}
	b.hold = made.GetContainerID()
	return nil
}

// FillDisk implements setups.Faults.
func (c *cluster) FillDisk(ctx context.Context, name string, leaveBytes int64) error {
	b, err := c.limited(name, "fill the disk of ")
	if err != nil {
		return err
	}
	return b.Box.Fill(ctx, dataDir, c.limits.DiskBytes, leaveBytes)
}

// FreeDisk implements setups.Faults.
func (c *cluster) FreeDisk(ctx context.Context, name string) error {
	b, err := c.limited(name, "free the disk of ")
	if err != nil {
		return err
	}
	return b.Box.Free(ctx, dataDir)
}

func (c *cluster) limited(name, what string) (*broker, error) {
	b, err := c.find(name)
	if err == nil && c.limits.DiskBytes == 0 {
		err = &setups.Refused{Setup: "container", What: what + name, Why: "its data is on the engine's own disk", Remedy: "limit the cluster with DiskBytes before it forms"}
	}
	return b, err
}
