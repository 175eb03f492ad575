package operation

import (
	"fmt"
	"slices"

	"github.com/ister-mq/ister/broker/internal/metadata"
	"github.com/ister-mq/ister/broker/internal/model"
	"github.com/ister-mq/ister/broker/internal/placement"
	"github.com/ister-mq/ister/broker/internal/refusal"
)

// Step returns the next commands for all live operations, oldest operation
// first; none when nothing can change. Each holds on im by itself, so they can be
// proposed one after the other; one that is refused meanwhile is simply proposed
// again, or not, by the next Step.
func Step(im *metadata.Image, obs Observations) []metadata.Command {
	limits := obs.Limits.withDefaults()
	s := newSlots(im, limits)
	var out []metadata.Command
	for _, o := range im.LiveOperations() {
		if drives(o.Kind) {
			out = append(out, stepOperation(im, o, s, obs, limits)...)
		}
	}
	return out
}

func drives(k metadata.OperationKind) bool {
	switch k {
	case metadata.OpRebalance, metadata.OpUnload, metadata.OpMoveTopic, metadata.OpHeal:
		return true
	}
	return false
}

func stepOperation(im *metadata.Image, o *metadata.Operation, s *slots, obs Observations, limits Limits) []metadata.Command {
	v := &mover{
		image: im, slots: s, op: o,
		giveUp: waitsForDead(o) && obs.Now.Sub(o.UpdatedAt) >= limits.TargetGrace,
	}
	var out []metadata.Command
	var waits []*wait
	unfinished := 0
	for _, m := range o.Moves {
		if m.State.Done() {
			continue
		}
		unfinished++
		switch next := v.next(m); {
		case next.command != nil:
			out = append(out, next.command)
		case next.wait != nil:
			waits = append(waits, next.wait)
		}
	}
	switch {
	case unfinished == 0:
		return append(out, finish(im, o)...)
	case len(waits) == unfinished:
		return append(out, settle(o, blockedBy(waits))...)
	}
	return append(out, settle(o, nil)...)
}

// waitsForDead reports whether the record of an operation says that all it waits
// for is a fenced node.
func waitsForDead(o *metadata.Operation) bool {
	return o.State == metadata.OpBlocked && o.Reason == string(refusal.NodeUnreachable) ||
		o.State == metadata.OpCancelling && o.Reason == string(refusal.NotEnoughReplicas)
}

// blockedBy picks the wait to show for an operation of which every unfinished
// move waits. A dead target comes first, since its grace runs from then on.
func blockedBy(waits []*wait) *wait {
	shown := *waits[0]
	for _, w := range waits {
		if w.dead && !shown.dead {
			shown = *w
		}
	}
	if len(waits) > 1 {
		shown.message = fmt.Sprintf("%s (%d moves wait)", shown.message, len(waits))
	}
	return &shown
}

// settle records that an operation is blocked (w not nil) or running, if that is
// not what its record says already. A cancelling operation stays cancelling.
func settle(o *metadata.Operation, w *wait) []metadata.Command {
	f := &metadata.FinishOperation{Operation: o.ID, State: metadata.OpRunning}
	if w != nil {
		f.State, f.Reason, f.Message = metadata.OpBlocked, string(w.reason), w.message
	}
	if o.State == metadata.OpCancelling {
		if w == nil {
			return nil // the message still says who cancelled
		}
		f.State = metadata.OpCancelling
	}
	return unlessRecorded(o, f)
}

func unlessRecorded(o *metadata.Operation, f *metadata.FinishOperation) []metadata.Command {
	if o.State == f.State && o.Reason == f.Reason && o.Message == f.Message {
		return nil
	}
	return []metadata.Command{f}
}

// finish ends an operation whose moves are all done.
func finish(im *metadata.Image, o *metadata.Operation) []metadata.Command {
	switch {
	case o.State == metadata.OpCancelling:
		message := o.Message // who cancelled, unless it had to wait since
		if o.Reason != "" {
			message = "cancelled"
		}
		return end(o, metadata.OpCancelled, "", message)
	case o.Kind == metadata.OpUnload && im.Nodes[o.Node] != nil:
		return finishUnload(im, o)
	}
	failed, reason := failures(o)
	if failed > 0 {
		return end(o, metadata.OpFailed, reason, fmt.Sprintf("%d of %d moves failed; plan again", failed, len(o.Moves)))
	}
	return end(o, metadata.OpSucceeded, "", "")
}

func end(o *metadata.Operation, state metadata.OperationState, reason, message string) []metadata.Command {
	return []metadata.Command{&metadata.FinishOperation{Operation: o.ID, State: state, Reason: reason, Message: message}}
}

// failures counts failed moves; the reason is the first one's.
func failures(o *metadata.Operation) (n int, reason string) {
	for _, m := range o.Moves {
		if m.State == metadata.MoveFailed {
			if n == 0 {
				reason = m.Reason
			}
			n++
		}
	}
	return n, reason
}

// finishUnload succeeds only when the certificate says that the node is drained.
// Leaderships that came back are handed away again. Replicas that have another
// home although every move is done need another plan, so the operation fails and
// says so.
func finishUnload(im *metadata.Image, o *metadata.Operation) []metadata.Command {
	c := CertificateOf(im, o.Node)
	switch {
	case c.Leaders > 0:
		elections, stuck := handAway(im, o.Node, im.SortedPartitions()...)
		if len(elections) > 0 {
			return append([]metadata.Command{&metadata.ElectLeaders{Elections: elections}}, settle(o, nil)...)
		}
		reason := refusal.NotEnoughReplicas
		if p := im.Partition(stuck); p != nil && len(p.Replicas) == 1 {
			if slices.Contains(placement.Movable(placement.World{Image: im}, o.Node), stuck) {
				return unloadAgain(im, o) // a home came up for it; no move of this plan goes there
			}
			reason = refusal.NoPlacement
		}
		return settle(o, &wait{reason: reason, message: fmt.Sprintf("%s: only node %d is in sync and may lead", partitionName(im, stuck), o.Node)})
	case c.LastCopy > 0:
		return settle(o, &wait{
			reason:  refusal.NotEnoughReplicas,
			message: fmt.Sprintf("node %d holds the only in-sync copy of a partition and does not answer", o.Node),
		})
	case c.Movable > 0:
		return unloadAgain(im, o)
	case c.Drained:
		message := fmt.Sprintf("node %d leads nothing and holds nothing", o.Node)
		if c.Replicas > 0 {
			message = fmt.Sprintf("node %d leads nothing; replicas without another home stay: %d", o.Node, c.Replicas)
		}
		return end(o, metadata.OpSucceeded, "", message)
	}
	return settle(o, nil) // other operations' moves, or copies being given up
}

// unloadAgain ends an unload whose plan is used up while replicas could still move.
func unloadAgain(im *metadata.Image, o *metadata.Operation) []metadata.Command {
	failed, reason := failures(o)
	detail := fmt.Sprintf("%d moves failed", failed)
	if failed == 0 {
		reason, detail = string(refusal.NodeNotDrained), "the cluster changed meanwhile"
	}
	return end(o, metadata.OpFailed, reason,
		fmt.Sprintf("node %d still holds replicas that have another home (%s); unload it again", o.Node, detail))
}

// handAway lists the elections that take leadership of these partitions from a
// node, and, when one is not possible, a partition that is stuck there.
func handAway(im *metadata.Image, node model.NodeID, partitions ...*metadata.Partition) (elections []metadata.Election, stuck model.Partition) {
	leaders := map[model.NodeID]int{}
	for _, p := range im.SortedPartitions() {
		leaders[p.Leader]++
	}
	for _, p := range partitions {
		if p.Leader != node {
			continue
		}
		best := model.NoNode
		for _, id := range p.Replicas {
			n := im.Nodes[id]
			if id == node || n == nil || n.Fenced || !mayTakeOver(n.State) || !model.HasNode(p.ISR, id) {
				continue
			}
			if best == model.NoNode || leaders[id] < leaders[best] {
				best = id
			}
		}
		if best == model.NoNode {
			stuck = p.ID
			continue
		}
		leaders[best]++
		elections = append(elections, metadata.Election{Partition: p.ID, Leader: best})
	}
	return elections, stuck
}

// slots bound the moves that copy at the same time. A move takes one slot of
// each node that gets a copy and one of the node it is read from.
type slots struct {
	limits Limits
	total  int
	used   map[model.NodeID]int
}

// newSlots counts what is under way. Moves to a fenced node hold no slot: they
// copy nothing, and must not hold up the others.
func newSlots(im *metadata.Image, limits Limits) *slots {
	s := &slots{limits: limits, used: map[model.NodeID]int{}}
	for _, o := range im.LiveOperations() {
		for _, m := range o.Moves {
			p := im.Partition(m.Partition)
			if m.State != metadata.MoveAdding || p == nil {
				continue
			}
			live := true
			for _, id := range p.Adding {
				live = live && im.Unfenced(id)
			}
			if live {
				s.put(p.Adding, p.Leader)
			}
		}
	}
	return s
}

func (s *slots) put(adding []model.NodeID, source model.NodeID) {
	s.total++
	s.used[source]++
	for _, id := range adding {
		s.used[id]++
	}
}

// take takes the slots of one more move, or none and reports false.
func (s *slots) take(adding []model.NodeID, source model.NodeID) bool {
	if s.total >= s.limits.MovesTotal || s.used[source] >= s.limits.MovesPerNode {
		return false
	}
	for _, id := range adding {
		if s.used[id] >= s.limits.MovesPerNode {
			return false
		}
	}
	s.put(adding, source)
	return true
}
