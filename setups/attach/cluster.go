package attach

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ister-mq/ister/admin/client"
	"github.com/ister-mq/ister/setups"
)

// askEvery is the pace of looks at a broker that starts or ends.
const askEvery = 100 * time.Millisecond

// cluster implements setups.Cluster.
type cluster struct {
	setup   Setup
	options setups.Options

	// mu guards what follows, and is not held while a broker or the command is
	// asked.
	mu      sync.Mutex
	version string
	brokers []setups.Broker
	inner   map[string]string // admin address among brokers, by name
	spares  []string          // admin addresses of brokers that wait to be added
	journal *journal
	closed  bool
}

var (
	_ setups.Cluster  = (*cluster)(nil)
	_ setups.Inner    = (*cluster)(nil)
	_ setups.Borrowed = (*cluster)(nil)
)

// Binary is what the brokers say of themselves; there is no digest.
func (c *cluster) Binary() (string, string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.TrimSpace("attached " + c.version), ""
}

// InnerAdmin implements setups.Inner: the address that the broker advertises.
func (c *cluster) InnerAdmin(name string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.inner[name]
}

// Brokers implements setups.Cluster.
func (c *cluster) Brokers() []setups.Broker {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.brokers)
}

// Form finds the brokers of the cluster, and wants at least n that serve.
func (c *cluster) Form(ctx context.Context, n int) ([]setups.Broker, error) {
	if len(c.setup.Admin) == 0 {
		brokers, err := kafkaBrokers(ctx, c.setup.Bootstrap)
		if err != nil {
			return nil, err
		}
		c.mu.Lock()
		for _, address := range brokers {
			c.brokers = append(c.brokers, setups.Broker{Name: c.next(), Kafka: address, Running: true})
		}
		c.mu.Unlock()
	}
	first := ""
	var members []string
	for _, address := range c.setup.Admin {
		info, err := ask(ctx, address)
		if err != nil {
			return nil, err
		}
		switch info.State {
		case stateFresh:
			c.spares = append(c.spares, address)
			continue
		case stateForming:
			return nil, fmt.Errorf("the broker at %s waits for the other seed nodes: its cluster is not formed yet; start them, and wait until /readyz answers", address)
		case stateRemoved:
			return nil, fmt.Errorf("the broker at %s was removed from its cluster: leave it out of --admin", address)
		}
		if first == "" {
			first = info.Cluster
		}
		if info.Cluster != first {
			return nil, fmt.Errorf("the broker at %s belongs to cluster %s, the one at %s to %s: attach to one cluster", address, info.Cluster, c.setup.Admin[0], first)
		}
		c.take(address, info)
		members = append(members, address)
	}
	found := c.Brokers()
	if len(found) < n {
		remedy := "list the admin address of every broker in --admin"
		if len(c.setup.Admin) == 0 {
			remedy = "wait until all its brokers have joined, or correct --bootstrap"
		}
		return nil, &setups.Refused{Setup: "attach", What: fmt.Sprintf("find a cluster of %d brokers", n), Why: fmt.Sprintf("%d were found", len(found)), Remedy: remedy}
	}
	return found, c.remember(members, found)
}

// remember notes how the members are reached, for the return.
func (c *cluster) remember(members []string, found []setups.Broker) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.journal.Admin = members
	if len(c.journal.Bootstrap) == 0 {
		for _, b := range found {
			c.journal.Bootstrap = append(c.journal.Bootstrap, b.Kafka)
		}
	}
	return c.journal.save()
}

// next is the name of the next broker; c.mu is held.
func (c *cluster) next() string { return fmt.Sprintf("b%d", len(c.brokers)+1) }

// take makes a broker that answered one of the cluster's.
func (c *cluster) take(address string, info client.NodeInfo) setups.Broker {
	c.mu.Lock()
	defer c.mu.Unlock()
	b := setups.Broker{Name: c.next(), Kafka: info.Endpoints.Kafka, Admin: hostPort(address), Raft: info.Endpoints.Raft, Metrics: info.Endpoints.Metrics, Running: true}
	c.inner[b.Name], c.version = info.Endpoints.Admin, info.Version
	c.brokers = append(c.brokers, b)
	return b
}

// hostPort is an endpoint without its scheme.
func hostPort(address string) string {
	if u, err := client.ParseEndpoint(address); err == nil {
		return u.Host
	}
	return address
}

// checkAddress says what is wrong with an address that the command answered.
func checkAddress(address string) error {
	if _, err := client.ParseEndpoint(address); err != nil {
		return fmt.Errorf("admin address: %w", err)
	}
	return nil
}

// Add lets the command start a broker, or takes the next one of --admin that
// waits to be added.
func (c *cluster) Add(ctx context.Context) (setups.Broker, error) {
	c.mu.Lock()
	closed, name, spares := c.closed, c.next(), c.spares
	c.mu.Unlock()
	switch {
	case closed:
		return setups.Broker{}, errors.New("the cluster is closed")
	case len(spares) > 0:
		return c.join(ctx, &joined{Name: name, Admin: spares[0]}, "")
	case c.setup.Command == "":
		refused := *c.setup.Cannot(setups.AbilityAdd)
		return setups.Broker{}, &refused
	}
	// Noted first: a command that fails, or a runner that is killed, may leave a
	// broker that has to be ended.
	entry := &joined{Name: name, Commanded: true, Running: true}
	if err := c.joins(entry); err != nil {
		return setups.Broker{}, err
	}
	got, err := c.call(ctx, "add", name)
	if err != nil {
		return setups.Broker{}, err
	}
	entry.Admin = hostPort(got.Admin)
	return c.join(ctx, entry, got.Log)
}

// joins notes a broker that may join.
func (c *cluster) joins(entry *joined) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.journal.broker(entry.Name) == nil {
		c.journal.Joined = append(c.journal.Joined, entry)
	}
	return c.journal.save()
}

// join makes a broker that waits to be added one of the cluster's.
func (c *cluster) join(ctx context.Context, entry *joined, log string) (setups.Broker, error) {
	info, err := awaitAnswer(ctx, entry.Admin)
	if err != nil {
		return setups.Broker{}, fmt.Errorf("%s at %s: expected a broker that waits to be added, observed: %w", entry.Name, entry.Admin, err)
	}
	if info.State != stateFresh {
		return setups.Broker{}, fmt.Errorf("%s at %s: expected a broker that waits to be added (started with --join on an empty data directory), observed state %s", entry.Name, entry.Admin, info.State)
	}
	entry.Incarnation, entry.Running = info.Incarnation, true
	if err := c.joins(entry); err != nil {
		return setups.Broker{}, err
	}
	b := c.take(entry.Admin, info)
	c.mu.Lock()
	defer c.mu.Unlock()
	if !entry.Commanded {
		c.spares = c.spares[1:]
	}
	if log != "" {
		if relative, err := filepath.Rel(c.options.Dir, log); err == nil {
			b.LogFile = relative
		}
	}
	c.brokers[len(c.brokers)-1] = b
	return b, nil
}

// awaitAnswer asks a broker that was started until it says who it is.
func awaitAnswer(ctx context.Context, address string) (client.NodeInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, commandMax)
	defer cancel()
	for {
		info, err := ask(ctx, address)
		if err == nil {
			return info, nil
		}
		if waitErr := pause(ctx, askEvery); waitErr != nil {
			return client.NodeInfo{}, fmt.Errorf("no answer: %w", err)
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// find is the broker of a name, for an ability that it takes.
func (c *cluster) find(name string, ability setups.Ability) (setups.Broker, error) {
	if refused := c.setup.Cannot(ability); refused != nil {
		refused.What += " (" + name + ")"
		return setups.Broker{}, refused
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, b := range c.brokers {
		if b.Name == name {
			return b, nil
		}
	}
	return setups.Broker{}, fmt.Errorf("no broker is called %s", name)
}

// runs notes whether a broker runs.
func (c *cluster) runs(name string, runs bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.brokers {
		if c.brokers[i].Name == name {
			c.brokers[i].Running = runs
		}
	}
	return c.journal.running(name, runs)
}

// Start implements setups.Cluster.
func (c *cluster) Start(ctx context.Context, name string) (*setups.Exit, error) {
	b, err := c.find(name, setups.AbilityStart)
	if err != nil {
		return nil, err
	}
	if b.Running {
		return nil, fmt.Errorf("%s runs already", name)
	}
	got, err := c.call(ctx, "start", name)
	if err != nil {
		return nil, err
	}
	if got.ExitCode != nil {
		return &setups.Exit{Code: *got.ExitCode}, nil
	}
	if err := c.runs(name, true); err != nil {
		return nil, err
	}
	if b.Admin == "" {
		return nil, nil
	}
	if _, err := awaitAnswer(ctx, b.Admin); err != nil {
		return nil, fmt.Errorf("%s was started: expected an answer at %s, observed: %w", name, b.Admin, err)
	}
	return nil, nil
}

// Stop implements setups.Cluster. The command is told the grace.
func (c *cluster) Stop(ctx context.Context, name string, grace time.Duration) (setups.Exit, error) {
	b, err := c.find(name, setups.AbilityStop)
	if err != nil {
		return setups.Exit{}, err
	}
	got, err := c.end(ctx, "stop", b, graceVariable(grace))
	if err != nil || got.ExitCode == nil {
		return setups.Exit{}, err
	}
	return setups.Exit{Code: *got.ExitCode}, nil
}

// Kill implements setups.Cluster.
func (c *cluster) Kill(ctx context.Context, name string) error {
	b, err := c.find(name, setups.AbilityKill)
	if err != nil {
		return err
	}
	if !b.Running {
		return fmt.Errorf("%s does not run", name)
	}
	_, err = c.end(ctx, "kill", b)
	return err
}

// end lets the command end a broker, and sees that it did.
func (c *cluster) end(ctx context.Context, verb string, b setups.Broker, more ...string) (answer, error) {
	got, err := c.call(ctx, verb, b.Name, more...)
	if err != nil {
		return got, err
	}
	if err := c.runs(b.Name, false); err != nil {
		return got, err
	}
	deadline := time.Now().Add(downWithin)
	for b.Admin != "" {
		conn, err := net.DialTimeout("tcp", b.Admin, time.Second)
		if err != nil {
			break
		}
		conn.Close()
		if time.Now().After(deadline) {
			return got, fmt.Errorf("broker command, %s %s: expected nobody at %s when it had ended, observed: it still takes connections after %s", verb, b.Name, b.Admin, downWithin)
		}
		if err := pause(ctx, askEvery); err != nil {
			return got, err
		}
	}
	return got, nil
}

// Pause implements setups.Cluster.
func (c *cluster) Pause(name string) error { return c.freeze("pause", name) }

// Resume implements setups.Cluster.
func (c *cluster) Resume(name string) error { return c.freeze("resume", name) }

func (c *cluster) freeze(verb, name string) error {
	b, err := c.find(name, setups.AbilityPause)
	if err != nil {
		return err
	}
	if !b.Running {
		return fmt.Errorf("%s does not run", name)
	}
	_, err = c.call(context.Background(), verb, name)
	return err
}
