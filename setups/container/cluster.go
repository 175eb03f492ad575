package container

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/ister-mq/ister/setups"
	"github.com/ister-mq/ister/setups/fault"
	"github.com/ister-mq/ister/setups/internal/docker"
)

// closeTimeout bounds Close, whatever the caller's context.
const closeTimeout = 60 * time.Second

// stopGrace is how long Close lets brokers end in order.
const stopGrace = 10 * time.Second

type cluster struct {
	engine       *docker.Engine
	path, digest string
	dir, run     string
	say          func(string)
	limits       setups.Limits
	links        fault.Network

	mu       sync.Mutex // guards the fields below
	image    string
	networks *networks // nil: not made yet
	brokers  []*broker
	closed   bool
}

// broker is one broker and its container.
type broker struct {
	setups.Broker
	ports [3]int // published: kafka, admin, metrics
	box   *docker.Box
	link  *fault.Proxy // nil without links
	hold  string       // id of the container that keeps its disk, "" for none
	cut   bool         // off the cluster network
}

var (
	_ setups.Cluster = (*cluster)(nil)
	_ setups.Faults  = (*cluster)(nil)
	_ setups.Limiter = (*cluster)(nil)
	_ setups.Inner   = (*cluster)(nil)
)

func (c *cluster) Binary() (string, string) { return docker.ImageName(c.digest), c.digest }

// InnerAdmin implements setups.Inner.
func (c *cluster) InnerAdmin(name string) string {
	return fmt.Sprintf("%s:%d", clusterName(name), adminPort)
}

// Limit implements setups.Limiter.
func (c *cluster) Limit(l setups.Limits) error {
	if l.DiskBytes != 0 && l.DiskBytes < setups.MinDiskBytes {
		return fmt.Errorf("disk of %d bytes: at least %d are needed", l.DiskBytes, setups.MinDiskBytes)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.brokers) > 0 {
		return errors.New("limits are set before the first broker starts")
	}
	c.limits = l
	return nil
}

func (c *cluster) Brokers() []setups.Broker {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make([]setups.Broker, len(c.brokers))
	for i, b := range c.brokers {
		out[i] = b.Broker
		out[i].Running = b.box != nil && b.box.Running()
	}
	return out
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
	if _, err := c.engine.EnsureImage(ctx, c.path, c.digest); err != nil {
		return nil, err
	}
	errs := make([]error, n)
	var launches sync.WaitGroup
	for i, b := range brokers {
		launches.Go(func() { errs[i] = c.launch(ctx, b, "--seed-nodes", strings.Join(seeds, ",")) })
	}
	launches.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	for _, b := range brokers {
		if exit, err := b.box.Await(ctx, "http://"+b.Admin+"/readyz"); err != nil {
			return nil, err
		} else if exit != nil {
			return nil, b.box.Early(*exit)
		}
	}
	return c.Brokers(), nil
}

func (c *cluster) Add(ctx context.Context) (setups.Broker, error) {
	b, err := c.prepare(ctx)
	if err != nil {
		return setups.Broker{}, err
	}
	if err := c.launch(ctx, b, "--join"); err != nil {
		return setups.Broker{}, err
	}
	if exit, err := b.box.Await(ctx, "http://"+b.Admin+"/healthz"); err != nil {
		return setups.Broker{}, err
	} else if exit != nil {
		return setups.Broker{}, b.box.Early(*exit)
	}
	started := b.Broker
	started.Running = true
	return started, nil
}

func (c *cluster) find(name string) (*broker, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, b := range c.brokers {
		if b.Name == name && b.box != nil {
			return b, nil
		}
	}
	return nil, fmt.Errorf("no broker is called %s", name)
}

func (c *cluster) Start(ctx context.Context, name string) (*setups.Exit, error) {
	b, err := c.find(name)
	if err != nil {
		return nil, err
	}
	if err := b.box.Start(ctx); err != nil {
		return nil, err
	}
	return b.box.Await(ctx, "http://"+b.Admin+"/healthz")
}

func (c *cluster) Stop(ctx context.Context, name string, grace time.Duration) (setups.Exit, error) {
	b, err := c.find(name)
	if err != nil {
		return setups.Exit{}, err
	}
	return b.box.Stop(ctx, grace)
}

func (c *cluster) Kill(ctx context.Context, name string) error {
	b, err := c.find(name)
	if err != nil {
		return err
	}
	return b.box.Kill(ctx)
}

// engineTimeout bounds a question to the engine where the caller gives no context.
const engineTimeout = 10 * time.Second

func (c *cluster) Pause(name string) error {
	b, err := c.find(name)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), engineTimeout)
	defer cancel()
	return b.box.Pause(ctx)
}

func (c *cluster) Resume(name string) error {
	b, err := c.find(name)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), engineTimeout)
	defer cancel()
	return b.box.Resume(ctx)
}

// Close stops the brokers in order and removes all that the run made, the image
// included unless another run uses it.
func (c *cluster) Close(ctx context.Context) []string {
	c.mu.Lock()
	again := c.closed
	c.closed = true
	brokers, image := c.brokers, c.image
	c.mu.Unlock()
	if again {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	defer c.engine.Close()
	var ends sync.WaitGroup
	for _, b := range brokers {
		if b.box != nil && b.box.Running() {
			ends.Go(func() { _, _ = b.box.Stop(ctx, stopGrace) }) // Clean tells what is left
		}
	}
	ends.Wait()
	for _, b := range brokers {
		if b.link != nil {
			_ = b.link.Close()
		}
	}
	left, err := c.engine.Clean(ctx, c.run)
	if err == nil && image != "" {
		err = c.engine.RemoveImage(ctx, image)
	}
	if err != nil {
		left = append(left, err.Error())
	}
	return left
}

// logFile is the path of a broker's log below the run's directory.
func logFile(name string) string { return filepath.Join("brokers", name, "log") }
