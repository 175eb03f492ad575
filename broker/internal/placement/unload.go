package placement

import (
	"cmp"
	"fmt"

	"github.com/ister-mq/ister/broker/internal/metadata"
	"github.com/ister-mq/ister/broker/internal/model"
	"github.com/ister-mq/ister/broker/internal/refusal"
)

// Unload plans to empty a node: every replica that has another home moves
// there, and where there is none another in-sync replica takes the lead. What
// cannot leave is a finding: a warning when only replicas stay, an error when
// leadership or the only copy stays. An unknown node is refused with
// NODE_NOT_FOUND.
func Unload(w World, id model.NodeID) (Plan, error) {
	if err := checkNode(w.Image, id); err != nil {
		return Plan{}, err
	}
	s := newState(w)
	s.byID[id].target = false // it will be draining
	mine := map[*part]bool{}
	for _, p := range s.parts {
		if p.locked || !p.on(id) {
			continue
		}
		mine[p] = true
		s.evict(p, id)
	}
	s.spreadLeaders(func(p *part) bool { return mine[p] })
	s.explainStays(id)
	return s.plan(metadata.OpUnload, id.String(), id, byLoad, 0), nil
}

// evict gives p's replica on node id another home, or at least its leadership.
func (s *state) evict(p *part, id model.NodeID) {
	if p.sourceless() {
		return
	}
	if home := s.home(p, id); home != nil {
		s.place(p, id, home.ID)
	}
	if p.leader == id {
		if next := s.bestLeader(p, id, true); next != model.NoNode {
			s.lead(p, next)
		}
	}
}

// home is the best node for a replica of p in place of the one on node out
// (NoNode: in addition): more racks, then fewer replicas of the topic, fewer
// replicas, fewer bytes to arrive, lower id. Nil when no goal-keeping node
// exists.
func (s *state) home(p *part, out model.NodeID) *node {
	var best *node
	for _, n := range s.nodes {
		if n.ID == out || s.mayHold(p, out, n.ID) != allowed {
			continue
		}
		if best == nil || cmp.Or(
			cmp.Compare(s.racks(p, out, best.ID), s.racks(p, out, n.ID)),
			cmp.Compare(s.perTopic[p.ID.Topic][n.ID], s.perTopic[p.ID.Topic][best.ID]),
			cmp.Compare(n.replicas, best.replicas),
			cmp.Compare(n.arriving, best.arriving),
		) < 0 {
			best = n
		}
	}
	return best
}

// explainStays says, per topic, what an unload leaves on the node and why.
func (s *state) explainStays(id model.NodeID) {
	kept, led := 0, 0
	s.eachTopic(func(t *metadata.Topic, parts []*part) {
		offline, stuck, replicas, endangered, busy := 0, 0, 0, 0, 0
		var why refusal.Reason
		for _, p := range parts {
			if !p.on(id) {
				if !p.locked && model.HasNode(p.Replicas, id) && model.HasNode(p.ISR, id) && p.endangered() {
					endangered++
				}
				continue
			}
			switch {
			case p.locked:
				busy++
				continue
			case p.sourceless():
				offline++
			case p.leader == id:
				stuck++
			default:
				replicas++
			}
			why = s.obstacle(p, id)
		}
		object := "topic " + t.Name.String()
		if offline > 0 {
			s.find(refusal.NotInSync, SeverityError, object,
				fmt.Sprintf("%s offline and cannot leave node %d: no replica in sync is alive", count(offline, "partition is", "partitions are"), id),
				"bring back a node that was in sync")
		}
		if stuck > 0 {
			s.find(why, SeverityError, object,
				fmt.Sprintf("%s only node %d in sync and no other home: %s", count(stuck, "partition has", "partitions have"), id, s.homesLeft(id)),
				s.remedy(why))
		}
		if replicas > 0 {
			s.find(why, SeverityWarning, object,
				fmt.Sprintf("%s no other home than node %d: %s; only leadership leaves", count(replicas, "replica has", "replicas have"), id, s.homesLeft(id)),
				s.remedy(why))
		}
		if endangered > 0 {
			s.find(refusal.MinISRAtRisk, SeverityWarning, object,
				fmt.Sprintf("%s at min ISR with replicas out of sync; the move waits until they are back", count(endangered, "partition is", "partitions are")),
				"bring back or unload the node whose replicas are out of sync first")
		}
		if busy > 0 {
			s.find(refusal.OperationConflict, SeverityWarning, object,
				fmt.Sprintf("%s kept on node %d by an operation under way", count(busy, "replica is", "replicas are"), id),
				"wait for it, or cancel it, then unload again")
		}
		kept, led = kept+offline+stuck+replicas, led+replicas
	})
	if kept > 0 && kept == led && !s.anyLeaves(id) {
		s.find(LeadersOnly, SeverityInfo, object(id),
			fmt.Sprintf("node %d keeps its %s: this unload hands over leadership only", id, count(kept, "replica", "replicas")),
			"add a node to move the replicas as well")
	}
}

// Movable lists the partitions whose replica on node id has another home now, as
// far as the image and the disks of w tell. Partitions of an operation under way
// are left out, and so are those with no live copy to read from.
func Movable(w World, id model.NodeID) []model.Partition {
	s := newState(w)
	if n := s.byID[id]; n != nil {
		n.target = false
	}
	var out []model.Partition
	for _, p := range s.parts {
		if !p.locked && p.on(id) && !p.sourceless() && s.home(p, id) != nil {
			out = append(out, p.ID)
		}
	}
	return out
}

func (s *state) anyLeaves(id model.NodeID) bool {
	for _, p := range s.parts {
		if !p.locked && model.HasNode(p.Replicas, id) && !p.on(id) {
			return true
		}
	}
	return false
}

// obstacle is the goal that keeps p's replica on node id: a full disk when that
// is all that is in the way, otherwise NO_PLACEMENT.
func (s *state) obstacle(p *part, id model.NodeID) refusal.Reason {
	for _, n := range s.nodes {
		if s.mayHold(p, id, n.ID) == refusal.DiskFull {
			return refusal.DiskFull
		}
	}
	return refusal.NoPlacement
}

// homesLeft says how many nodes beside id could take replicas, and why they do
// not take this one.
func (s *state) homesLeft(id model.NodeID) string {
	n := 0
	for _, t := range s.targets() {
		if t.ID != id {
			n++
		}
	}
	if n == 0 {
		return "no other node can take replicas now"
	}
	return fmt.Sprintf("%s, which %s a replica already or %s ruled out by racks or disk",
		count(n, "other node can take replicas", "other nodes can take replicas"), verb(n, "holds", "hold"), verb(n, "is", "are"))
}

func (s *state) remedy(why refusal.Reason) string {
	if why == refusal.DiskFull {
		return "free or add disk space, or add a node"
	}
	return "add or activate a node"
}

func checkNode(im *metadata.Image, id model.NodeID) error {
	if im.Nodes[id] != nil {
		return nil
	}
	if t := im.Tombstones[id]; t != nil {
		return refusal.New(refusal.NodeRemoved, object(id), fmt.Sprintf("node %d was removed", id), "see `brokers list`")
	}
	return refusal.New(refusal.NodeNotFound, object(id), fmt.Sprintf("node %d is not in the cluster", id), "see `brokers list`")
}
