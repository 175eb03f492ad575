package controlplane

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/ister-mq/ister/broker/internal/metadata"
	"github.com/ister-mq/ister/broker/internal/model"
	"github.com/ister-mq/ister/broker/internal/operation"
	"github.com/ister-mq/ister/broker/internal/placement"
	"github.com/ister-mq/ister/broker/internal/quorum"
	"github.com/ister-mq/ister/broker/internal/refusal"
)

const (
	// tendEvery is the pace of healing and of unfinished membership changes.
	tendEvery = 500 * time.Millisecond
	// tendTimeout bounds one membership step of the steward.
	tendTimeout = 5 * time.Second
)

// steward drives what goes on by itself: operations, copies given up, healing,
// leaders with full disks, preferred leaders and membership changes that were cut
// short.
func (o *office) steward(ctx context.Context) {
	tick := time.NewTicker(o.plane.timing.Tick)
	defer tick.Stop()
	var tended time.Time
	var healed model.Revision
	var back preference
	for {
		changed, reported := o.plane.machine.changed.C(), o.reported.C()
		o.retire(ctx)
		o.step(ctx)
		o.relieve(ctx)
		if time.Since(tended) >= tendEvery {
			o.tend(ctx)
			healed = o.heal(ctx, healed)
			o.prefer(ctx, &back)
			tended = time.Now()
		}
		if !o.await(ctx, changed, reported, tick.C) {
			return
		}
	}
}

// await blocks until there may be something to do. Without live operations the
// tick does not count, except for tending.
func (o *office) await(ctx context.Context, changed, reported <-chan struct{}, tick <-chan time.Time) bool {
	select {
	case <-changed:
	case <-reported:
	case <-tick:
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}

// step proposes the next commands of the operations under way.
func (o *office) step(ctx context.Context) {
	im := o.plane.Image()
	if len(im.LiveOperations()) == 0 {
		return
	}
	o.proposeAll(ctx, operation.Step(im, o.observations()))
}

// proposeAll has commands decided together; a refused one is left to the next
// step.
func (o *office) proposeAll(ctx context.Context, commands []metadata.Command) {
	ctx, cancel := context.WithTimeout(ctx, commitTimeout)
	defer cancel()
	var wait sync.WaitGroup
	for chunk := range slices.Chunk(commands, commandsPerEntry) {
		for _, cmd := range chunk {
			// One goroutine each, at most commandsPerEntry: the decider takes them
			// as one entry. Order does not matter: each holds by itself.
			wait.Go(func() {
				if out := o.submit(ctx, cmd); out.err != nil {
					o.plane.log.Debug("operation step was not taken", "reason", out.err)
				}
			})
		}
		wait.Wait()
	}
}

// retire records the copies that nodes report to have given up.
func (o *office) retire(ctx context.Context) {
	im := o.plane.Image()
	var commands []metadata.Command
	o.mu.Lock()
	for node, c := range o.contacts {
		n := im.Nodes[node]
		if n == nil || n.Epoch != c.epoch {
			continue
		}
		var gone []model.Partition
		for _, id := range c.report.Retired {
			if p := im.Partition(id); p != nil && model.HasNode(p.Retiring, node) && !model.HasNode(p.Replicas, node) {
				gone = append(gone, id)
			}
		}
		if len(gone) > 0 {
			commands = append(commands, &metadata.ReplicaRetired{Node: node, Epoch: c.epoch, Partitions: gone})
		}
	}
	o.mu.Unlock()
	if len(commands) > 0 {
		o.proposeAll(ctx, commands)
	}
}

// heal starts raising topics below their wanted replicas when the cluster can
// hold more, unless something else moves. Tried once per image with another set
// of homes; the revision it looked at is returned.
func (o *office) heal(ctx context.Context, looked model.Revision) model.Revision {
	im := o.plane.Image()
	if im.Revision == looked || len(im.LiveOperations()) > 0 || !belowDesired(im) {
		return looked
	}
	plan, err := placement.Heal(o.world())
	if err == nil && !plan.Empty() {
		out, err := o.start(ctx, OperationRequest{Kind: metadata.OpHeal, Actor: "system"})
		if err != nil {
			o.plane.log.Debug("healing was not started", "reason", err)
		} else if out.Operation != nil {
			o.plane.log.Info("healing was started", "operation", out.Operation.ID)
		}
	}
	return im.Revision
}

// disks is what the nodes' latest reports say of their disks. A report of another
// life of the node says nothing.
func (o *office) disks() operation.Disks {
	im := o.plane.Image()
	disks := operation.Disks{}
	o.mu.Lock()
	defer o.mu.Unlock()
	for node, c := range o.contacts {
		n := im.Nodes[node]
		switch {
		case n == nil || n.Epoch != c.epoch || !c.report.Known:
		case c.report.Disk.Full:
			disks[node] = operation.DiskIsFull
		default:
			disks[node] = operation.DiskHasRoom
		}
	}
	return disks
}

// relieve hands away what is led by nodes with a full disk.
func (o *office) relieve(ctx context.Context) {
	elections := operation.Relief(o.plane.Image(), o.disks())
	if len(elections) == 0 {
		return
	}
	o.plane.log.Info("leadership is handed away from full disks", "partitions", len(elections))
	o.proposeAll(ctx, []metadata.Command{&metadata.ElectLeaders{Elections: elections}})
}

// preference is what could be handed back, and since when that is so.
type preference struct {
	elections []metadata.Election
	since     time.Time
}

// prefer hands leadership back to the preferred nodes once that has been
// possible, unchanged, for preferAfter.
func (o *office) prefer(ctx context.Context, back *preference) {
	elections := operation.PreferredLeaders(o.plane.Image(), o.disks())
	if !slices.Equal(elections, back.elections) {
		*back = preference{elections: elections, since: time.Now()}
	}
	if len(elections) == 0 || time.Since(back.since) < o.plane.timing.Prefer {
		return
	}
	o.proposeAll(ctx, []metadata.Command{&metadata.ElectLeaders{Elections: elections}})
	o.plane.log.Info("leadership was handed back to preferred nodes", "partitions", len(elections))
	*back = preference{}
}

func belowDesired(im *metadata.Image) bool {
	for _, t := range im.Topics {
		for _, p := range t.Partitions {
			if len(p.Replicas) < t.DesiredReplicas {
				return true
			}
		}
	}
	return false
}

// tend completes memberships that are in one of metadata and quorum only, or
// marked to end.
func (o *office) tend(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, tendTimeout)
	defer cancel()
	select {
	case o.changing <- struct{}{}:
	default:
		return // a verb is at it
	}
	defer o.release()
	m, err := o.members()
	if err != nil || m.Pending {
		return
	}
	if err := o.tendOne(ctx, o.plane.Image(), m); err != nil && ctx.Err() == nil {
		o.plane.log.Debug("membership was not completed yet", "reason", err)
	}
}

// tendOne takes the first step that is due; the next round takes the next.
func (o *office) tendOne(ctx context.Context, im *metadata.Image, m quorum.Members) error {
	for _, one := range m.All {
		if im.Nodes[one.Node] != nil || im.Tombstones[one.Node] == nil {
			continue
		}
		// The tombstone came first; finish the quorum's part.
		if err := o.demoteVoter(ctx, one.Node); err != nil {
			return err
		}
		return o.change(ctx, func(m quorum.Members) (func() error, error) {
			member, ok := m.Get(one.Node)
			if !ok {
				return nil, nil
			}
			return func() error { return o.quorum.Remove(ctx, member, m.Index) }, nil
		})
	}
	for _, n := range im.SortedNodes() {
		_, member := m.Get(n.ID)
		switch {
		case n.State == metadata.NodeLeaving:
			if err := o.resumeRemoval(ctx, n); err != nil {
				return err
			}
		case n.Epoch == 0 && !o.heardOf(n.ID):
			// Added and not yet registered: it may not know its place.
			if err := o.admit(ctx, n); err != nil {
				o.plane.log.Debug("node was not told its place yet", "node", n.ID, "reason", err)
				continue
			}
			if !member {
				return o.makeLearner(ctx, n)
			}
		case !member:
			return o.makeLearner(ctx, n)
		}
	}
	return nil
}

func (o *office) heardOf(node model.NodeID) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return !o.contact(node).heard.IsZero()
}

// resumeRemoval goes on with a removal by the same rules.
func (o *office) resumeRemoval(ctx context.Context, n *metadata.Node) error {
	v, err := o.view()
	if err != nil {
		return err
	}
	if safe, blockers := operation.SafeToRemove(o.plane.Image(), n.ID, v); !safe {
		return blocked(n.ID, blockers)
	}
	if n.ID == o.self {
		err := o.yield(ctx)
		if refusal.Is(err, refusal.NotController) {
			return nil
		}
		return err
	}
	return o.finishRemoval(ctx, n, "")
}
