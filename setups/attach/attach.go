// Package attach uses a cluster that somebody else started and looks after: any
// Ister cluster by its admin addresses, or any cluster that speaks the Kafka
// protocol by its bootstrap addresses, for what needs no admin API.
//
// It starts and ends nothing. What would need that is refused with a
// *setups.Refused.
package attach

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ister-mq/ister/admin/client"
	"github.com/ister-mq/ister/setups"
)

// askTimeout bounds one question to one broker.
const askTimeout = 5 * time.Second

// Setup implements setups.Setup.
type Setup struct {
	// Admin are the admin addresses of the brokers, host:port or http://host:port.
	// One of a broker that waits to be added (--join) is what Add gives.
	Admin []string
	// Bootstrap are addresses for Kafka clients. They are needed only where Admin
	// is empty: admin addresses tell them.
	Bootstrap []string
}

// Name implements setups.Setup.
func (Setup) Name() string { return "attach" }

// Check implements setups.Setup.
func (s Setup) Check(ctx context.Context) []setups.Finding {
	if len(s.Admin)+len(s.Bootstrap) == 0 {
		return []setups.Finding{{Code: "ADDRESSES", Fatal: true, Message: "no address of a cluster is given",
			Remedy: "give --admin HOST:PORT,... of every broker, or --bootstrap HOST:PORT,... of a cluster without Ister's admin API"}}
	}
	var findings []setups.Finding
	for _, address := range s.Admin {
		f := setups.Finding{Code: "ADMIN_REACHABLE", OK: true}
		if info, err := ask(ctx, address); err != nil {
			f.OK, f.Fatal, f.Message, f.Remedy = false, true, err.Error(), "start that broker, or correct --admin"
		} else {
			f.Message = fmt.Sprintf("%s is a broker in state %s, version %s", address, info.State, info.Version)
		}
		findings = append(findings, f)
	}
	if len(s.Bootstrap) > 0 {
		f := setups.Finding{Code: "BOOTSTRAP_REACHABLE", OK: true}
		if brokers, err := kafkaBrokers(ctx, s.Bootstrap); err != nil {
			f.OK, f.Fatal, f.Message, f.Remedy = false, true, err.Error(), "start the cluster, or correct --bootstrap"
		} else {
			f.Message = fmt.Sprintf("%d brokers answer the Kafka protocol", len(brokers))
		}
		findings = append(findings, f)
	}
	return findings
}

// New implements setups.Setup.
func (s Setup) New(ctx context.Context, _ setups.Options) (setups.Cluster, error) {
	for _, f := range s.Check(ctx) {
		if f.Fatal {
			return nil, fmt.Errorf("%s; %s", f.Message, f.Remedy)
		}
	}
	return &cluster{setup: s}, nil
}

// ask asks the broker behind an admin address who it is.
func ask(ctx context.Context, address string) (client.NodeInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	c, err := client.New(client.Options{Endpoints: []string{address}, Actor: "attach"})
	if err != nil {
		return client.NodeInfo{}, err
	}
	defer c.Close()
	return c.NodeInfo(ctx)
}

// kafkaBrokers asks a cluster of any kind for its brokers, in order of their ids.
func kafkaBrokers(ctx context.Context, bootstrap []string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	c, err := kgo.NewClient(kgo.SeedBrokers(bootstrap...))
	if err != nil {
		return nil, fmt.Errorf("bootstrap addresses: %w", err)
	}
	defer c.Close()
	request := kmsg.NewPtrMetadataRequest()
	request.Topics = []kmsg.MetadataRequestTopic{} // none
	answer, err := request.RequestWith(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("ask %s for the brokers of the cluster: %w", strings.Join(bootstrap, ","), err)
	}
	sort.Slice(answer.Brokers, func(i, j int) bool { return answer.Brokers[i].NodeID < answer.Brokers[j].NodeID })
	var out []string
	for _, b := range answer.Brokers {
		out = append(out, net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port))))
	}
	return out, nil
}

type cluster struct {
	setup   Setup
	version string
	brokers []setups.Broker
	inner   map[string]string // admin address among brokers, by name
	spares  []string          // admin addresses of brokers that wait to be added
	closed  bool
}

var (
	_ setups.Cluster = (*cluster)(nil)
	_ setups.Inner   = (*cluster)(nil)
)

// Binary is what the brokers say of themselves; there is no digest.
func (c *cluster) Binary() (string, string) {
	return strings.TrimSpace("attached " + c.version), ""
}

// InnerAdmin implements setups.Inner: the address that the broker advertises.
func (c *cluster) InnerAdmin(name string) string { return c.inner[name] }

// Form finds the brokers of the cluster, and wants at least n that serve.
func (c *cluster) Form(ctx context.Context, n int) ([]setups.Broker, error) {
	c.inner = make(map[string]string)
	if len(c.setup.Admin) == 0 {
		brokers, err := kafkaBrokers(ctx, c.setup.Bootstrap)
		if err != nil {
			return nil, err
		}
		for _, address := range brokers {
			c.brokers = append(c.brokers, setups.Broker{Name: c.next(), Kafka: address, Running: true})
		}
	}
	first := ""
	for _, address := range c.setup.Admin {
		info, err := ask(ctx, address)
		if err != nil {
			return nil, err
		}
		switch info.State {
		case "fresh":
			c.spares = append(c.spares, address)
			continue
		case "removed":
			return nil, fmt.Errorf("the broker at %s was removed from its cluster: leave it out of --admin", address)
		}
		if first == "" {
			first = info.Cluster
		}
		if info.Cluster != first {
			return nil, fmt.Errorf("the broker at %s belongs to cluster %s, the one at %s to %s: attach to one cluster", address, info.Cluster, c.setup.Admin[0], first)
		}
		c.take(address, info)
	}
	if len(c.brokers) < n {
		return nil, &setups.Refused{Setup: "attach", What: fmt.Sprintf("form a cluster of %d", n), Why: fmt.Sprintf("%d brokers were found", len(c.brokers)),
			Remedy: "list the admin address of every broker in --admin"}
	}
	return c.Brokers(), nil
}

func (c *cluster) next() string { return fmt.Sprintf("b%d", len(c.brokers)+1) }

func (c *cluster) take(address string, info client.NodeInfo) setups.Broker {
	hostPort := address
	if u, err := client.ParseEndpoint(address); err == nil {
		hostPort = u.Host
	}
	b := setups.Broker{Name: c.next(), Kafka: info.Endpoints.Kafka, Admin: hostPort, Raft: info.Endpoints.Raft, Metrics: info.Endpoints.Metrics, Running: true}
	c.inner[b.Name], c.version = info.Endpoints.Admin, info.Version
	c.brokers = append(c.brokers, b)
	return b
}

// Add takes the next broker of --admin that waits to be added.
func (c *cluster) Add(ctx context.Context) (setups.Broker, error) {
	if c.closed {
		return setups.Broker{}, errors.New("the cluster is closed")
	}
	if len(c.spares) == 0 {
		return setups.Broker{}, &setups.Refused{Setup: "attach", What: "add a broker", Why: "no address in --admin is of a broker that waits to be added",
			Remedy: "start one with `ister broker --join` and list its admin address in --admin"}
	}
	address := c.spares[0]
	info, err := ask(ctx, address)
	if err != nil {
		return setups.Broker{}, err
	}
	c.spares = c.spares[1:]
	return c.take(address, info), nil
}

func (c *cluster) refuse(what, name string) error {
	return &setups.Refused{Setup: "attach", What: what + " " + name, Why: "it did not start the cluster", Remedy: "do it by hand, or use a setup that starts its own cluster"}
}

func (c *cluster) Start(_ context.Context, name string) (*setups.Exit, error) {
	return nil, c.refuse("start", name)
}

func (c *cluster) Stop(_ context.Context, name string, _ time.Duration) (setups.Exit, error) {
	return setups.Exit{}, c.refuse("stop", name)
}

func (c *cluster) Kill(_ context.Context, name string) error { return c.refuse("kill", name) }
func (c *cluster) Pause(name string) error                   { return c.refuse("pause", name) }
func (c *cluster) Resume(name string) error                  { return c.refuse("resume", name) }

func (c *cluster) Brokers() []setups.Broker { return append([]setups.Broker(nil), c.brokers...) }

// Close leaves the cluster as it is.
func (c *cluster) Close(context.Context) []string {
	c.closed = true
	return nil
}
