package container

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"

	"github.com/ister-mq/ister/setups"
	"github.com/ister-mq/ister/setups/fault"
	"github.com/ister-mq/ister/setups/internal/docker"
)

type cluster struct {
	docker.Fleet
	engine *docker.Engine
	limits setups.Limits
	links  fault.Network

	// networks and brokers change in Limit, Form and Add only, which are called
	// one at a time.
	networks *networks // nil: not made yet
	brokers  []*broker
}

// broker is one broker and its container.
type broker struct {
	*docker.Member
	ports [3]int       // published: kafka, admin, metrics
	more  []string     // arguments that say how it finds its cluster
	link  *fault.Proxy // nil without links
	hold  string       // id of the container that keeps its disk, "" for none
}

var (
	_ setups.Cleaner = Setup{}
	_ setups.Cluster = (*cluster)(nil)
	_ setups.Faults  = (*cluster)(nil)
	_ setups.Cutter  = (*cluster)(nil)
	_ setups.Limited = Setup{}
	_ setups.Limiter = (*cluster)(nil)
	_ setups.Inner   = (*cluster)(nil)

	_ setups.Upgrader = (*cluster)(nil)
	_ setups.Builder  = (*cluster)(nil)
)

// InnerAdmin implements setups.Inner.
func (c *cluster) InnerAdmin(name string) string {
	return fmt.Sprintf("%s:%d", clusterName(name), adminPort)
}

// Limit implements setups.Limiter.
func (c *cluster) Limit(l setups.Limits) error {
	if err := l.Check(); err != nil {
		return err
	}
	if len(c.brokers) > 0 {
		return errors.New("limits are set before the first broker starts")
	}
	c.limits = l
	return nil
}

func (c *cluster) Form(ctx context.Context, n int) ([]setups.Broker, error) {
	var seeds []string
	brokers := make([]*broker, n)
	for i := range n {
		b, err := c.prepare(ctx)
		if err != nil {
			return nil, err
		}
		brokers[i] = b
		seeds = append(seeds, b.Raft)
	}
	// The engine takes a second or more for each; the image comes first, so that
	// it is built once.
	if _, err := c.engine.EnsureImage(ctx, c.Run, c.Path, c.Digest); err != nil {
		return nil, err
	}
	errs := make([]error, n)
	var launches sync.WaitGroup
	for i, b := range brokers {
		b.more = []string{"--seed-nodes", strings.Join(seeds, ",")}
		launches.Go(func() { errs[i] = c.launch(ctx, b) })
	}
	launches.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	members := make([]*docker.Member, n)
	for i, b := range brokers {
		members[i] = b.Member
	}
	if err := c.AwaitAll(ctx, members, "/readyz"); err != nil {
		return nil, err
	}
	return c.Brokers(), nil
}

func (c *cluster) Add(ctx context.Context) (setups.Broker, error) {
	b, err := c.prepare(ctx)
	if err != nil {
		return setups.Broker{}, err
	}
	b.more = []string{"--join"}
	if err := c.launch(ctx, b); err != nil {
		return setups.Broker{}, err
	}
	if err := c.Await(ctx, b.Member, "/healthz"); err != nil {
		return setups.Broker{}, err
	}
	started := b.Broker
	started.Running = true
	return started, nil
}

// Start implements setups.Cluster. A broker that was given another binary gets a
// container of its image, on the same volume, names and ports.
func (c *cluster) Start(ctx context.Context, name string) (*setups.Exit, error) {
	b, err := c.find(name)
	if err != nil {
		return nil, err
	}
	if !b.Stale() {
		return c.Fleet.Start(ctx, name)
	}
	if err := c.engine.RemoveContainer(ctx, b.Box.ID()); err != nil {
		return nil, fmt.Errorf("remove the container of %s: %w", name, err)
	}
	if err := c.launch(ctx, b); err != nil {
		return nil, err
	}
	return c.Answers(ctx, b.Member)
}

// Close stops the brokers in order and removes all that the run made, the image
// included unless another run uses it.
func (c *cluster) Close(ctx context.Context) []string {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), docker.CloseTimeout)
	defer cancel()
	if !c.End(ctx) {
		return nil
	}
	defer c.engine.Close()
	for _, b := range c.brokers {
		if b.link != nil {
			_ = b.link.Close()
		}
	}
	left, err := c.engine.Clean(ctx, c.Run)
	if err != nil {
		left = append(left, err.Error())
	}
	return left
}

// Mistake implements setups.Mistaker.
func (c *cluster) Mistake(ctx context.Context, name string, mistake setups.Mistake) (setups.Mistaken, error) {
	if c.networks == nil {
		return setups.Mistaken{}, errors.New("the cluster was not formed")
	}
	return c.Fleet.Mistake(ctx, c.networks.cluster, name, mistake)
}

// logFile is the path of a broker's log below the run's directory.
func logFile(name string) string { return filepath.Join("brokers", name, "log") }
