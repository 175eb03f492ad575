package container

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"
	testcontainers "github.com/testcontainers/testcontainers-go"

	"github.com/ister-mq/ister/setups"
	"github.com/ister-mq/ister/setups/internal/docker"
)

// Ports inside a container, the broker's defaults.
const (
	kafkaPort   = 6650
	adminPort   = 50051
	raftPort    = 7650
	metricsPort = 9040
)

// dataDir is where a broker's volume is mounted.
const dataDir = "/data"

// createAttempts bounds how often a broker is created anew when a published port
// was taken, or the image removed, meanwhile.
const createAttempts = 3

// networks are the run's two networks, by name.
type networks struct{ clients, cluster string }

// clusterName is a broker's name on the cluster network.
func clusterName(name string) string { return name + ".cluster" }

func (c *cluster) labels(broker string) map[string]string {
	l := c.Run.Labels()
	if broker != "" {
		l["ister.broker"] = broker
	}
	return l
}

// ensureNetworks makes the networks before the first broker.
func (c *cluster) ensureNetworks(ctx context.Context) error {
	if c.networks != nil {
		return nil
	}
	n := &networks{clients: c.Run.Name("clients"), cluster: c.Run.Name("cluster")}
	for _, o := range []struct {
		name     string
		internal bool
		options  map[string]string
	}{
		{n.clients, false, map[string]string{"com.docker.network.bridge.enable_icc": "false"}},
		{n.cluster, true, nil},
	} {
		_, err := c.engine.API.NetworkCreate(ctx, o.name, client.NetworkCreateOptions{
			Driver: "bridge", Internal: o.internal, Options: o.options, Labels: c.labels(""),
		})
		if err != nil {
			return fmt.Errorf("make network %s: %w", o.name, err)
		}
	}
	c.networks = n
	return nil
}

// prepare gives the next broker its name, ports, directory and disk.
func (c *cluster) prepare(ctx context.Context) (*broker, error) {
	name := fmt.Sprintf("b%d", len(c.brokers)+1)
	b := &broker{Member: &docker.Member{Broker: setups.Broker{Name: name, Raft: fmt.Sprintf("%s:%d", clusterName(name), raftPort), LogFile: logFile(name)}}}
	if err := c.publish(b); err != nil {
		return nil, err
	}
	if err := c.Enter(b.Member); err != nil {
		return nil, err
	}
	c.brokers = append(c.brokers, b)
	if err := c.ensureNetworks(ctx); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Join(c.Run.Dir, "brokers", name), 0o755); err != nil {
		return nil, fmt.Errorf("make the broker's directory: %w", err)
	}
	volume := client.VolumeCreateOptions{Name: c.Run.Name(name), Labels: c.labels(name)}
	if c.limits.DiskBytes > 0 {
		volume.Driver = "local"
		volume.DriverOpts = map[string]string{"type": "tmpfs", "device": "tmpfs", "o": fmt.Sprintf("size=%d", c.limits.DiskBytes)}
	}
	if _, err := c.engine.API.VolumeCreate(ctx, volume); err != nil {
		return nil, fmt.Errorf("make volume %s: %w", volume.Name, err)
	}
	if c.limits.Links {
		if err := c.front(ctx, b); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// publish chooses the ports on this machine, before the start: they are the
// addresses that clients are given.
func (c *cluster) publish(b *broker) error {
	ports, err := setups.FreePorts(3)
	if err != nil {
		return err
	}
	at := func(i int) string { return c.engine.Host + ":" + strconv.Itoa(ports[i]) }
	b.ports = [3]int{ports[0], ports[1], ports[2]}
	b.Kafka, b.Admin, b.Metrics = at(0), at(1), at(2)
	return nil
}

// launch creates the broker's container and starts it. A port that somebody took
// since it was chosen is replaced.
func (c *cluster) launch(ctx context.Context, b *broker) error {
	for attempt := 1; ; attempt++ {
		err := c.tryLaunch(ctx, b)
		if err == nil || attempt == createAttempts || ctx.Err() != nil {
			return err
		}
		switch text := err.Error(); {
		case strings.Contains(text, "port is already allocated") || strings.Contains(text, "address already in use"):
			if err := c.publish(b); err != nil {
				return err
			}
		case strings.Contains(text, "No such image") || strings.Contains(text, "pull access denied"):
			// A run that ended removed it; tryLaunch builds it again.
		default:
			return err
		}
	}
}

func (c *cluster) tryLaunch(ctx context.Context, b *broker) error {
	image, err := c.engine.EnsureImage(ctx, c.Run, b.Path, b.Digest)
	if err != nil {
		return err
	}
	args := c.arguments(b)
	if err := docker.Record(c.Run.Dir, b.Broker, image, b.Digest, args); err != nil {
		return err
	}
	if err := c.hold(ctx, b, image); err != nil {
		return err
	}
	made, err := c.engine.Provider.CreateContainer(ctx, c.request(b, image, args))
	if err != nil {
		return fmt.Errorf("create the container of %s: %w", b.Name, err)
	}
	if b.Cut { // a cut lasts over an upgrade
		if err := c.engine.TakeNetwork(ctx, made.GetContainerID(), c.networks.cluster); err != nil {
			return fmt.Errorf("keep %s cut off: %w", b.Name, err)
		}
	}
	box := c.engine.NewBox(made.GetContainerID(), b.Name, filepath.Join(c.Run.Dir, b.LogFile))
	if err := box.Start(ctx); err != nil {
		_ = made.Terminate(ctx) // Close removes it by its label otherwise
		return err
	}
	return c.Started(ctx, b.Member, box)
}

func (c *cluster) arguments(b *broker) []string {
	listen := func(port int) string { return "0.0.0.0:" + strconv.Itoa(port) }
	args := []string{"broker", "--data-dir", dataDir,
		"--broker-addr", listen(kafkaPort), "--advertised-broker-addr", b.Kafka,
		// Brokers send admin calls on to each other, which clients never see: the
		// advertised admin address is the one that brokers reach.
		"--admin-addr", listen(adminPort), "--advertised-admin-addr", c.InnerAdmin(b.Name),
		"--raft-addr", listen(raftPort), "--advertised-raft-addr", b.Raft,
		"--prom-exporter", listen(metricsPort)}
	if c.limits.DiskBytes > 0 {
		args = append(args, "--disk-reserve-bytes", strconv.FormatInt(c.limits.DiskBytes/8, 10))
	}
	return append(args, b.more...)
}

func (c *cluster) request(b *broker, image string, args []string) testcontainers.ContainerRequest {
	bindings := network.PortMap{}
	exposed := []string{}
	for i, inside := range []int{kafkaPort, adminPort, metricsPort} {
		port := network.MustParsePort(strconv.Itoa(inside) + "/tcp")
		bindings[port] = []network.PortBinding{{HostIP: c.engine.Bind, HostPort: strconv.Itoa(b.ports[i])}}
		exposed = append(exposed, port.String())
	}
	return testcontainers.ContainerRequest{
		Image: image, Name: c.Run.Name(b.Name), Cmd: args, Labels: c.labels(b.Name),
		Networks:       []string{c.networks.clients, c.networks.cluster},
		NetworkAliases: map[string][]string{c.networks.cluster: {clusterName(b.Name)}},
		ExposedPorts:   exposed,
		Mounts:         testcontainers.Mounts(testcontainers.VolumeMount(c.Run.Name(b.Name), dataDir)),
		HostConfigModifier: func(h *container.HostConfig) {
			h.NetworkMode = container.NetworkMode(c.networks.clients)
			h.PortBindings = bindings
			h.LogConfig = container.LogConfig{Type: "json-file", Config: map[string]string{"max-size": "64m", "max-file": "2"}}
		},
	}
}
