package operation

import (
	"fmt"

	"github.com/ister-mq/ister/broker/internal/metadata"
	"github.com/ister-mq/ister/broker/internal/model"
	"github.com/ister-mq/ister/broker/internal/refusal"
)

// step is what comes next for one move. At most one of command and wait is set;
// neither means that it is on its way (copying, giving up copies, or queued for a
// slot) and nothing is to be done.
type step struct {
	command metadata.Command
	wait    *wait
}

// wait is why a move cannot go on. Its words hold no figure that changes while
// it waits, since a changed wait is written to the metadata log.
type wait struct {
	reason  refusal.Reason
	message string
	// dead is set when the move waits for a fenced node for a bounded time.
	dead bool
}

func waiting(reason refusal.Reason, format string, args ...any) step {
	return step{wait: &wait{reason: reason, message: fmt.Sprintf(format, args...)}}
}

// mover steps the moves of one operation.
type mover struct {
	image *metadata.Image
	slots *slots
	op    *metadata.Operation
	// giveUp: fenced nodes have been waited for long enough.
	giveUp bool
}

func (v *mover) advance(m *metadata.Move, to metadata.MoveState, reason refusal.Reason) step {
	return step{command: &metadata.AdvanceMove{Operation: v.op.ID, Partition: m.Partition, To: to, Reason: string(reason)}}
}

// next is the next step of an unfinished move.
func (v *mover) next(m *metadata.Move) step {
	p := v.image.Partition(m.Partition)
	cancelling := v.op.State == metadata.OpCancelling
	switch {
	case p == nil:
		return v.advance(m, metadata.MoveCancelled, refusal.TopicNotFound)
	case m.State == metadata.MovePlanned && cancelling:
		return v.advance(m, metadata.MoveCancelled, "")
	case m.State == metadata.MovePlanned && !m.ReplicasChange():
		return v.handOver(m, p)
	case m.State == metadata.MovePlanned:
		return v.start(m, p)
	case m.State == metadata.MoveAdding && cancelling:
		return v.revert(m, p)
	case m.State == metadata.MoveAdding:
		return v.switchOver(m, p)
	case m.State == metadata.MoveSwitched:
		return v.finish(m, p)
	}
	return step{}
}

// handOver is the whole of a move that changes only leader and order.
func (v *mover) handOver(m *metadata.Move, p *metadata.Partition) step {
	name := partitionName(v.image, p.ID)
	if len(p.Target) > 0 || !sameNodes(m.To, p.Replicas) {
		return v.advance(m, metadata.MoveFailed, refusal.StaleRevision)
	}
	if m.Leader == model.NoNode {
		return v.advance(m, metadata.MoveDone, "")
	}
	switch n := v.image.Nodes[m.Leader]; {
	case n == nil || !mayTakeOver(n.State):
		return v.advance(m, metadata.MoveFailed, refusal.NodeStateConflict)
	case n.Fenced:
		return v.unreachable(m, p, m.Leader)
	case !model.HasNode(p.ISR, m.Leader):
		return waiting(refusal.NotInSync, "%s: node %d is to lead and is not in sync", name, m.Leader)
	}
	return v.advance(m, metadata.MoveDone, "")
}

// start begins to copy, if a slot is free.
func (v *mover) start(m *metadata.Move, p *metadata.Partition) step {
	name := partitionName(v.image, p.ID)
	if len(p.Target) > 0 || !sameNodes(m.From, p.Replicas) {
		return v.advance(m, metadata.MoveFailed, refusal.StaleRevision)
	}
	adding := arriving(m)
	for _, id := range adding {
		if n := v.image.Nodes[id]; n == nil || n.State != metadata.NodeActive {
			return v.advance(m, metadata.MoveFailed, refusal.NoPlacement)
		}
	}
	for _, id := range adding {
		if v.image.Nodes[id].Fenced {
			return v.unreachable(m, p, id)
		}
	}
	for _, id := range adding {
		if model.HasNode(p.Retiring, id) {
			return step{} // a live node, which is about to confirm
		}
	}
	if p.Leader == model.NoNode {
		return waiting(refusal.NotEnoughReplicas, "%s: no replica in sync is alive to copy from", name)
	}
	if v.endangers(m, p) {
		if v.op.Kind == metadata.OpUnload && p.Leader == v.op.Node {
			// The data waits; leadership need not.
			if elections, _ := handAway(v.image, v.op.Node, p); len(elections) > 0 {
				return step{command: &metadata.ElectLeaders{Elections: elections}}
			}
		}
		return waiting(refusal.NotEnoughReplicas, "%s: at min ISR with replicas out of sync, so it is not moved", name)
	}
	if !v.slots.take(adding, p.Leader) {
		return step{}
	}
	return v.advance(m, metadata.MoveAdding, "")
}

// endangers reports whether a partition that one more loss would stop is to be
// moved without gaining a live replica from it.
func (v *mover) endangers(m *metadata.Move, p *metadata.Partition) bool {
	if len(p.ISR) == len(p.Replicas) || len(p.ISR) > v.image.MinISR(p) {
		return false
	}
	for _, id := range m.From {
		if !model.HasNode(m.To, id) && model.HasNode(p.ISR, id) {
			return true
		}
	}
	return false
}

// switchOver changes the replica set once every new replica is in sync.
func (v *mover) switchOver(m *metadata.Move, p *metadata.Partition) step {
	name := partitionName(v.image, p.ID)
	for _, id := range p.Adding {
		switch n := v.image.Nodes[id]; {
		case (n == nil || !mayTakeOver(n.State)) && keepsMinISR(v.image, p):
			return v.advance(m, metadata.MoveFailed, refusal.NoPlacement)
		case n == nil || n.Fenced:
			return v.unreachable(m, p, id)
		}
	}
	if p.Leader == model.NoNode {
		return waiting(refusal.NotEnoughReplicas, "%s: no replica in sync is alive to copy from", name)
	}
	for _, id := range p.Adding {
		if !model.HasNode(p.ISR, id) {
			return step{} // copying
		}
	}
	if !switchable(v.image, p) {
		return waiting(refusal.NotEnoughReplicas, "%s: too few of the replicas that stay are in sync", name)
	}
	return v.advance(m, metadata.MoveSwitched, "")
}

// switchable is metadata's condition of the switch, apart from fenced nodes.
func switchable(im *metadata.Image, p *metadata.Partition) bool {
	staying := 0
	for _, id := range p.ISR {
		if !model.HasNode(p.Removing, id) {
			staying++
		}
	}
	for _, id := range p.Adding {
		if !model.HasNode(p.ISR, id) || !im.Unfenced(id) {
			return false
		}
	}
	return staying >= min(im.MinISR(p), len(p.Target))
}

// canRevert reports whether the old replicas alone still have every committed
// record.
func canRevert(p *metadata.Partition) bool {
	for _, id := range p.ISR {
		if !model.HasNode(p.Adding, id) {
			return true
		}
	}
	return false
}

// keepsMinISR reports whether going back leaves the ISR at min ISR or as large as
// it is.
func keepsMinISR(im *metadata.Image, p *metadata.Partition) bool {
	staying := 0
	for _, id := range p.ISR {
		if !model.HasNode(p.Adding, id) {
			staying++
		}
	}
	return staying > 0 && (staying >= im.MinISR(p) || staying == len(p.ISR))
}

// revert takes a cancelled move back, or forward when going back would lose
// records or stop commits. When both would stop commits, since a replica that the
// move keeps is dead, it waits for that one as long as for a dead target, and
// then goes back: that is where the partition would be without the move, and a
// cancel that never ends would keep the partition from being moved off the dead
// node.
func (v *mover) revert(m *metadata.Move, p *metadata.Partition) step {
	name := partitionName(v.image, p.ID)
	switch {
	case keepsMinISR(v.image, p):
		return v.advance(m, metadata.MoveCancelled, "")
	case switchable(v.image, p):
		return v.advance(m, metadata.MoveSwitched, refusal.OperationPastCancel)
	case !canRevert(p):
		return waiting(refusal.NotInSync, "%s: neither the old nor the new replicas are in sync", name)
	case v.giveUp:
		return v.advance(m, metadata.MoveCancelled, refusal.NotEnoughReplicas)
	}
	s := waiting(refusal.NotEnoughReplicas, "%s: going back would leave fewer than min ISR in sync", name)
	s.wait.dead = true
	return s
}

// finish makes the wanted leader lead and ends a move whose removed nodes have
// given up their copies. Fenced ones are not waited for: they give up theirs
// when they come back.
func (v *mover) finish(m *metadata.Move, p *metadata.Partition) step {
	if n := v.image.Nodes[m.Leader]; n != nil && m.Leader != p.Leader && !n.Fenced && mayTakeOver(n.State) && model.HasNode(p.ISR, m.Leader) {
		return step{command: &metadata.ElectLeaders{Elections: []metadata.Election{{Partition: p.ID, Leader: m.Leader}}}}
	}
	reason := refusal.Reason("")
	for _, id := range p.Retiring {
		if v.image.Unfenced(id) {
			return step{}
		}
		reason = refusal.NodeUnreachable
	}
	return v.advance(m, metadata.MoveDone, reason)
}

// unreachable waits for a fenced node, and fails the move once that took too
// long, unless going back would lose records.
func (v *mover) unreachable(m *metadata.Move, p *metadata.Partition, id model.NodeID) step {
	if v.giveUp && (m.State == metadata.MovePlanned || canRevert(p)) {
		return v.advance(m, metadata.MoveFailed, refusal.NodeUnreachable)
	}
	s := waiting(refusal.NodeUnreachable, "%s: node %d is to take it and does not answer", partitionName(v.image, p.ID), id)
	s.wait.dead = true
	return s
}

// mayTakeOver reports whether a node in this state may get what a plan meant for
// it; one on its way out may not.
func mayTakeOver(s metadata.NodeState) bool {
	return s == metadata.NodeActive || s == metadata.NodeCordoned
}

func arriving(m *metadata.Move) []model.NodeID {
	var out []model.NodeID
	for _, id := range m.To {
		if !model.HasNode(m.From, id) {
			out = append(out, id)
		}
	}
	return out
}

func sameNodes(a, b []model.NodeID) bool {
	if len(a) != len(b) {
		return false
	}
	for _, id := range a {
		if !model.HasNode(b, id) {
			return false
		}
	}
	return true
}

func partitionName(im *metadata.Image, id model.Partition) string {
	if t := im.Topics[id.Topic]; t != nil {
		return fmt.Sprintf("%s-%d", t.Name, id.Index)
	}
	return id.String()
}
