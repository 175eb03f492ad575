package placement

import (
	"fmt"
	"slices"

	"github.com/ister-mq/ister/broker/internal/metadata"
	"github.com/ister-mq/ister/broker/internal/model"
	"github.com/ister-mq/ister/broker/internal/refusal"
)

// MoveTopic plans to hand a topic's leadership to another in-sync replica
// (replicas false), or to relocate replica data so that node to holds and leads
// every partition (replicas true). To 0 is the best other node: with replicas
// one that holds none of the partition, otherwise the in-sync replica that leads
// least. A relocation takes the place of the present leader's replica unless
// racks forbid it. Refused: an unknown topic or node, a node that cannot lead.
func MoveTopic(w World, topic model.TopicName, to model.NodeID, replicas bool) (Plan, error) {
	t := w.Image.Topic(topic)
	if t == nil {
		return Plan{}, refusal.New(refusal.TopicNotFound, "topic "+topic.String(),
			fmt.Sprintf("topic %s does not exist", topic), "see `topics list`")
	}
	s := newState(w)
	if to != model.NoNode {
		if err := checkNode(w.Image, to); err != nil {
			return Plan{}, err
		}
		if n := s.byID[to]; !n.target {
			state := string(n.State)
			if n.Fenced {
				state += ", fenced"
			}
			return Plan{}, refusal.New(refusal.NodeStateConflict, object(to),
				fmt.Sprintf("node %d cannot take topic %s: it is %s", to, topic, state), "choose a node that is active and reachable")
		}
	}
	for _, p := range s.parts {
		if p.topic != t {
			continue
		}
		switch {
		case p.locked:
			s.find(refusal.OperationConflict, SeverityWarning, "partition "+p.label(),
				"an operation under way changes this partition; it is left to that", "wait for it, or cancel it, then plan again")
		case p.sourceless():
			s.find(refusal.NotInSync, SeverityError, "partition "+p.label(),
				"the partition is offline: no replica in sync is alive", "bring back a node that was in sync")
		case replicas:
			s.relocateTo(p, to)
		default:
			s.handOverTo(p, to)
		}
	}
	return s.plan(metadata.OpMoveTopic, topic.String(), model.NoNode, byLoad, 0), nil
}

func (s *state) handOverTo(p *part, to model.NodeID) {
	if to == p.leader {
		return
	}
	switch {
	case to == model.NoNode:
		if next := s.bestLeader(p, p.leader, true); next != model.NoNode {
			s.lead(p, next)
			return
		}
		s.find(refusal.NotInSync, SeverityError, "partition "+p.label(),
			fmt.Sprintf("no replica in sync other than node %d may lead", p.leader), "wait for followers to catch up, or relocate the replicas")
	case !p.on(to):
		s.find(refusal.NotInSync, SeverityError, "partition "+p.label(),
			fmt.Sprintf("node %d holds no replica to hand leadership to", to), "move the replicas as well: `topics move --replicas`")
	case !s.mayLead(p, to, false):
		s.find(refusal.NotInSync, SeverityError, "partition "+p.label(),
			fmt.Sprintf("the replica on node %d is not in sync", to), "wait until it is in the ISR")
	default:
		s.lead(p, to)
	}
}

func (s *state) relocateTo(p *part, to model.NodeID) {
	if to != model.NoNode && p.on(to) {
		s.handOverTo(p, to)
		return
	}
	outs := []model.NodeID{p.leader}
	for _, r := range slices.Backward(p.replicas) {
		if r != p.leader {
			outs = append(outs, r)
		}
	}
	why := refusal.NoPlacement
	for _, out := range outs {
		in := to
		if to == model.NoNode {
			if home := s.home(p, out); home != nil {
				in = home.ID
			}
		}
		if in == model.NoNode {
			continue
		}
		if r := s.mayHold(p, out, in); r != allowed {
			why = r
			continue
		}
		endangered := p.endangered() && model.HasNode(p.ISR, out)
		s.place(p, out, in)
		s.lead(p, in)
		if endangered {
			s.find(refusal.MinISRAtRisk, SeverityWarning, "partition "+p.label(),
				"the partition is at min ISR with replicas out of sync; the move waits until they are back",
				"bring back or unload the node whose replicas are out of sync first")
		}
		return
	}
	target := "any other node"
	if to != model.NoNode {
		target = object(to)
	}
	s.find(why, SeverityError, "partition "+p.label(), fmt.Sprintf("its data cannot move to %s: %s", target, s.homesLeft(p.leader)), s.remedy(why))
}
