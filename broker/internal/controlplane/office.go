package controlplane

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ister-mq/ister/broker/internal/metadata"
	"github.com/ister-mq/ister/broker/internal/model"
	"github.com/ister-mq/ister/broker/internal/quorum"
	"github.com/ister-mq/ister/broker/internal/refusal"
)

const (
	// barrierTimeout bounds how long a new controller waits to have applied what
	// was committed before it.
	barrierTimeout = 5 * time.Second
	queueSize      = 1024
)

// office is one term of this node as the controller. Its goroutines end when
// raft's leadership does.
type office struct {
	plane  *Plane
	quorum *quorum.Quorum
	self   model.NodeID
	queue  chan *request
	done   <-chan struct{} // closed when the office is lost

	suspects chan model.NodeID // nodes to probe at once
	reported signal            // a report came

	mu       sync.Mutex // guards the fields below
	contacts map[model.NodeID]*contact

	// changing is held over a membership change, so that verbs and the steward do
	// not work on the same one.
	changing chan struct{}

	wait sync.WaitGroup
}

// govern takes the office whenever raft makes this node its leader.
func (p *Plane) govern(ctx context.Context) {
	for {
		changed := p.leadingChanged.C()
		p.mu.Lock()
		leading := p.leading
		var term context.Context
		if leading {
			term, p.leaveOffice = context.WithCancel(ctx)
		}
		p.mu.Unlock()
		if leading {
			if err := p.hold(term); err != nil && ctx.Err() == nil {
				p.log.Warn("controller office was not taken", "reason", err)
				if pause(ctx, askPause) {
					continue // still the leader, as far as known
				}
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// hold is the controller's office from its begin to its end.
func (p *Plane) hold(ctx context.Context) error {
	q := p.quorum.Load()
	bctx, cancel := context.WithTimeout(ctx, barrierTimeout)
	defer cancel()
	if err := q.Barrier(bctx); err != nil {
		if ctx.Err() != nil {
			return nil // lost again before it began
		}
		return err
	}
	o := &office{
		plane: p, quorum: q, self: p.store.get().Node,
		queue: make(chan *request, queueSize), done: ctx.Done(),
		suspects: make(chan model.NodeID, 64), contacts: make(map[model.NodeID]*contact),
		changing: make(chan struct{}, 1),
	}
	o.wait.Go(func() { o.decide(ctx) })
	if err := o.formCluster(ctx); err != nil {
		p.mu.Lock()
		p.leaveOffice()
		p.mu.Unlock()
		o.wait.Wait()
		o.drain()
		return err
	}
	p.office.Store(o)
	p.controllers.Fire()
	p.log.Info("controller took office", "node", o.self, "revision", p.Image().Revision)
	o.wait.Go(func() { o.watch(ctx) })
	o.wait.Go(func() { o.steward(ctx) })
	<-ctx.Done()
	p.office.Store(nil)
	p.controllers.Fire()
	o.wait.Wait()
	o.drain()
	p.log.Info("controller left office", "node", o.self)
	return nil
}

// formCluster writes the first image when there is none.
func (o *office) formCluster(ctx context.Context) error {
	if o.plane.Image().Cluster != "" {
		return nil
	}
	id := o.plane.store.get()
	if len(id.Forming) == 0 {
		return errors.New("the metadata log is empty and this node does not know its first members")
	}
	ctx, cancel := context.WithTimeout(ctx, barrierTimeout)
	defer cancel()
	out := o.submit(ctx, &metadata.FormCluster{Cluster: id.Cluster, Nodes: id.Forming})
	if out.err != nil {
		return fmt.Errorf("form the cluster: %w", out.err)
	}
	return nil
}

// drain refuses what still waits when the office is lost.
func (o *office) drain() {
	for {
		select {
		case r := <-o.queue:
			r.reply <- outcome{err: o.plane.notController()}
		default:
			return
		}
	}
}

// claim takes the right to change the membership.
func (o *office) claim(ctx context.Context) error {
	select {
	case o.changing <- struct{}{}:
		return nil
	default:
	}
	select {
	case o.changing <- struct{}{}:
		return nil
	case <-ctx.Done():
	case <-o.done:
	}
	return refusal.New(refusal.MembershipPending, "quorum", "another membership change is under way", "wait for it and repeat")
}

func (o *office) release() { <-o.changing }

// members is the quorum's present configuration.
func (o *office) members() (quorum.Members, error) {
	m, err := o.quorum.Members()
	if err != nil {
		return m, fmt.Errorf("read the members of the quorum: %w", err)
	}
	return m, nil
}
