package docker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ister-mq/ister/setups"
	"github.com/ister-mq/ister/setups/internal/build"
)

const (
	// CloseTimeout bounds the end of a cluster, whatever the caller's context.
	CloseTimeout = 60 * time.Second
	// stopGrace is how long the end lets brokers end in order.
	stopGrace = 10 * time.Second
	// engineTimeout bounds a question to the engine where the caller gives no context.
	engineTimeout = 10 * time.Second
)

// Member is one broker of a fleet and its container.
type Member struct {
	setups.Broker
	Box *Box // nil before the first start
	// Cut: off the cluster network.
	Cut bool
	// Path and Digest are of the binary that it starts with, Made is the digest of
	// the one that its container was made for.
	Path, Digest, Made string
}

// Stale: the container is of another build than the broker is to start with.
func (m *Member) Stale() bool { return m.Made != m.Digest && !m.Box.Running() }

// Fleet is the life of brokers in containers, the same however these are made.
// It implements the part of setups.Cluster that starts and ends brokers.
type Fleet struct {
	Run Run
	// Binaries says what a binary has to be, Path and Digest are of the first one.
	Binaries     build.Target
	Path, Digest string

	mu      sync.Mutex
	members []*Member // guarded by mu, as is each Box
	closed  bool      // guarded by mu
}

// Enter adds a broker that is about to be made, unless the fleet is closed.
func (f *Fleet) Enter(m *Member) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return errors.New("the cluster is closed")
	}
	m.Path, m.Digest = f.Path, f.Digest
	f.members = append(f.members, m)
	return nil
}

// Size is how many brokers there are.
func (f *Fleet) Size() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.members)
}

// Started gives a broker its container. One that started while the fleet was
// closed is ended.
func (f *Fleet) Started(ctx context.Context, m *Member, box *Box) error {
	f.mu.Lock()
	m.Box, m.Made = box, m.Digest
	closed := f.closed
	f.mu.Unlock()
	if closed {
		return errors.Join(errors.New("the cluster is closed"), box.Kill(ctx))
	}
	return nil
}

// Brokers implements setups.Cluster.
func (f *Fleet) Brokers() []setups.Broker {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := make([]setups.Broker, len(f.members))
	for i, m := range f.members {
		out[i] = m.Broker
		out[i].Running = m.Box != nil && m.Box.Running()
	}
	return out
}

// Find returns a broker that was started at least once.
func (f *Fleet) Find(name string) (*Member, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, m := range f.members {
		if m.Name == name && m.Box != nil {
			return m, nil
		}
	}
	return nil, fmt.Errorf("no broker is called %s", name)
}

// Await waits until a path of a broker's admin port answers 200. An end before
// that is an error.
func (f *Fleet) Await(ctx context.Context, m *Member, path string) error {
	exit, err := m.Box.Await(ctx, "http://"+m.Admin+path)
	if err == nil && exit != nil {
		err = m.Box.early(*exit)
	}
	return err
}

// AwaitAll waits for all members at once: one that ends while it starts is why the
// others wait.
func (f *Fleet) AwaitAll(ctx context.Context, members []*Member, path string) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, m := range members {
		group.Go(func() error { return f.Await(ctx, m, path) })
	}
	return group.Wait()
}

// Binary implements setups.Cluster.
func (f *Fleet) Binary() (name, digest string) { return ImageName(f.Digest), f.Digest }

// Builds implements setups.Builder.
func (f *Fleet) Builds(ctx context.Context, upgrade string) (first, next setups.Build, err error) {
	return f.Binaries.Two(ctx, f.Path, upgrade)
}

// Upgrade implements setups.Upgrader. The container of another build is made at
// the next start.
func (f *Fleet) Upgrade(_ context.Context, name, binary string) error {
	m, err := f.Find(name)
	if err != nil {
		return err
	}
	if m.Box.Running() {
		return fmt.Errorf("%s runs: stop it before it gets another binary", name)
	}
	path, digest, err := f.Binaries.Accept(binary)
	if err != nil {
		return err
	}
	m.Path, m.Digest = path, digest
	return nil
}

// Start implements setups.Cluster.
func (f *Fleet) Start(ctx context.Context, name string) (*setups.Exit, error) {
	m, err := f.Find(name)
	if err != nil {
		return nil, err
	}
	if err := m.Box.Start(ctx); err != nil {
		return nil, err
	}
	return f.Answers(ctx, m)
}

// Answers waits until a broker that was just started answers, or has ended.
func (f *Fleet) Answers(ctx context.Context, m *Member) (*setups.Exit, error) {
	return m.Box.Await(ctx, "http://"+m.Admin+"/healthz")
}

// Stop implements setups.Cluster.
func (f *Fleet) Stop(ctx context.Context, name string, grace time.Duration) (setups.Exit, error) {
	m, err := f.Find(name)
	if err != nil {
		return setups.Exit{}, err
	}
	return m.Box.Stop(ctx, grace)
}

// Kill implements setups.Cluster.
func (f *Fleet) Kill(ctx context.Context, name string) error {
	m, err := f.Find(name)
	if err != nil {
		return err
	}
	return m.Box.Kill(ctx)
}

// Pause implements setups.Cluster.
func (f *Fleet) Pause(name string) error {
	m, err := f.Find(name)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), engineTimeout)
	defer cancel()
	return m.Box.Pause(ctx)
}

// Resume implements setups.Cluster.
func (f *Fleet) Resume(name string) error {
	m, err := f.Find(name)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), engineTimeout)
	defer cancel()
	return m.Box.Resume(ctx)
}

// End stops every broker in order and lets none start any more. False: it was
// ended before.
func (f *Fleet) End(ctx context.Context) bool {
	f.mu.Lock()
	again := f.closed
	f.closed = true
	members := f.members
	f.mu.Unlock()
	if again {
		return false
	}
	var ends sync.WaitGroup
	for _, m := range members {
		if m.Box != nil && m.Box.Running() {
			ends.Go(func() { _, _ = m.Box.Stop(ctx, stopGrace) }) // what is left is seen afterwards
		}
	}
	ends.Wait()
	return true
}
