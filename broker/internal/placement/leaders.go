package placement

import (
	"cmp"

	"github.com/ister-mq/ister/broker/internal/model"
)

// spreadLeaders evens out leadership by hand-over alone, among the partitions
// that only selects (nil: all). It looks for a chain of hand-overs from a node
// that leads at least two partitions more than the end of the chain; when none
// is left, the counts are as even as hand-overs can make them.
func (s *state) spreadLeaders(only func(*part) bool) bool {
	changed := false
	for s.handOverOnce(only) {
		changed = true
	}
	return changed
}

func (s *state) handOverOnce(only func(*part) bool) bool {
	for _, pr := range s.pairs(leaderLoad) {
		if s.handOverChain(pr.from, pr.to, only) {
			return true
		}
	}
	return false
}

// handOverChain walks breadth first from one node to another over the
// partitions that can change hands, and hands over along the path found.
func (s *state) handOverChain(from, to *node, only func(*part) bool) bool {
	type hop struct {
		from *node
		p    *part
	}
	reached := map[model.NodeID]hop{from.ID: {}}
	queue := []*node{from}
	for len(queue) > 0 && reached[to.ID].from == nil {
		at := queue[0]
		queue = queue[1:]
		for next, p := range s.handOvers(at, only) {
			if _, seen := reached[next.ID]; !seen && p != nil {
				reached[next.ID] = hop{at, p}
				queue = append(queue, next)
			}
		}
	}
	if reached[to.ID].from == nil {
		return false
	}
	for at := to; at != from; at = reached[at.ID].from {
		s.lead(reached[at.ID].p, at.ID)
	}
	return true
}

// handOvers yields, for each node in order, the best partition that the node at
// leads and that the other could lead: one already in the plan before others,
// one that prefers the other before others.
func (s *state) handOvers(at *node, only func(*part) bool) func(func(*node, *part) bool) {
	best := map[model.NodeID]*part{}
	for _, p := range s.parts {
		if p.leader != at.ID || p.locked || only != nil && !only(p) {
			continue
		}
		for _, r := range p.replicas {
			if r == at.ID || !s.mayLead(p, r, false) {
				continue
			}
			if b := best[r]; b == nil || cmp.Or(
				cmp.Compare(untouched(p), untouched(b)),
				cmp.Compare(unpreferred(p, r), unpreferred(b, r)),
			) < 0 {
				best[r] = p
			}
		}
	}
	return func(yield func(*node, *part) bool) {
		for _, n := range s.nodes {
			if p := best[n.ID]; p != nil && !yield(n, p) {
				return
			}
		}
	}
}

func untouched(p *part) int {
	if p.relocated() || p.leader != p.Leader {
		return 0
	}
	return 1
}

func unpreferred(p *part, n model.NodeID) int {
	if p.replicas[0] == n {
		return 0
	}
	return 1
}

// relocateLeader is the last resort for one step of leader balance: it moves the
// data of a partition from an overloaded leader to a node that leads at least
// two fewer, and swaps a follower back when the receiver would otherwise hold
// more replicas than the giver. It reports whether it changed something.
func (s *state) relocateLeader() bool {
	for _, pr := range s.pairs(leaderLoad) {
		p := s.leaderCandidate(pr.from, pr.to)
		if p == nil {
			continue
		}
		if pr.from.replicas > pr.to.replicas {
			s.place(p, pr.from.ID, pr.to.ID)
			s.lead(p, pr.to.ID)
			return true
		}
		if back := s.followerCandidate(pr.to, pr.from, p); back != nil {
			s.place(p, pr.from.ID, pr.to.ID)
			s.lead(p, pr.to.ID)
			s.place(back, pr.to.ID, pr.from.ID)
			return true
		}
	}
	return false
}

// leaderCandidate is the smallest partition that from leads and to could hold.
func (s *state) leaderCandidate(from, to *node) *part {
	var best *part
	for _, p := range s.parts {
		if p.leader == from.ID && p.movable() && (best == nil || p.bytes < best.bytes) &&
			s.mayHold(p, from.ID, to.ID) == allowed {
			best = p
		}
	}
	return best
}

// followerCandidate is the smallest partition that from follows and to could
// hold.
func (s *state) followerCandidate(from, to *node, not *part) *part {
	var best *part
	for _, p := range s.parts {
		if p != not && p.on(from.ID) && p.leader != from.ID && p.movable() && (best == nil || p.bytes < best.bytes) &&
			s.mayHold(p, from.ID, to.ID) == allowed {
			best = p
		}
	}
	return best
}
