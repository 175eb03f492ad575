package placement

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/ister-mq/ister/broker/internal/metadata"
	"github.com/ister-mq/ister/broker/internal/model"
	"github.com/ister-mq/ister/broker/internal/refusal"
)

// deadBandPercent of the mean: a smaller spread of replicas is not worth data
// moves. Once a rebalance starts, it goes on until the counts differ by one.
const deadBandPercent = 10

// maxRounds bounds how often replicas and leaders take turns. Every round that
// changes something lowers the spread, so it is never reached.
const maxRounds = 1000

// Rebalance plans an even spread of replicas, then of leaders, over the nodes
// that may take them. It refuses a negative MaxMoves. When nothing is worth a
// move the plan is empty.
func Rebalance(w World, opts Options) (Plan, error) {
	if opts.MaxMoves < 0 {
		return Plan{}, refusal.New(refusal.InvalidArgument, "max-moves",
			fmt.Sprintf("max moves is %d, expected 0 (no bound) or more", opts.MaxMoves), "")
	}
	s := newState(w)
	for range maxRounds {
		changed := s.spreadReplicas()
		changed = s.spreadLeaders(nil) || changed
		changed = changed || s.relocateLeader()
		if !changed {
			break
		}
	}
	s.explainLeftovers()
	return s.plan(metadata.OpRebalance, "", model.NoNode, byGain, opts.MaxMoves), nil
}

// spreadReplicas evens out the replica counts. Each change takes a replica from
// a node that holds at least two more than the receiver, so the sum of squares
// falls and the loop ends.
func (s *state) spreadReplicas() bool {
	if !s.outsideDeadBand() {
		return false
	}
	changed := false
	for s.spreadOneReplica() {
		changed = true
	}
	return changed
}

func (s *state) outsideDeadBand() bool {
	targets := s.targets()
	if len(targets) == 0 {
		return false
	}
	low, high, sum := targets[0].replicas, 0, 0
	for _, n := range targets {
		low, high, sum = min(low, n.replicas), max(high, n.replicas), sum+n.replicas
	}
	return high-low > max(1, sum*deadBandPercent/100/len(targets))
}

// pair is a giver and a receiver.
type pair struct{ from, to *node }

// pairs lists the target pairs whose load differs by at least two, the widest
// first.
func (s *state) pairs(load func(*node) int) []pair {
	var out []pair
	targets := s.targets()
	for _, a := range targets {
		for _, b := range targets {
			if load(a)-load(b) >= 2 {
				out = append(out, pair{a, b})
			}
		}
	}
	slices.SortStableFunc(out, func(x, y pair) int {
		return cmp.Or(
			cmp.Compare(load(y.from)-load(y.to), load(x.from)-load(x.to)),
			cmp.Compare(y.from.leaders-y.to.leaders, x.from.leaders-x.to.leaders),
			cmp.Compare(x.from.ID, y.from.ID),
			cmp.Compare(x.to.ID, y.to.ID),
		)
	})
	return out
}

func replicaLoad(n *node) int { return n.replicas }
func leaderLoad(n *node) int  { return n.leaders }

func (s *state) spreadOneReplica() bool {
	pairs := s.pairs(replicaLoad)
	for _, pr := range pairs {
		if p := s.candidate(pr.from, pr.to); p != nil {
			s.relocate(p, pr.from.ID, pr.to.ID)
			return true
		}
	}
	for _, pr := range pairs {
		if s.chain(pr.from, pr.to) {
			return true
		}
	}
	return false
}

// candidate is the best partition to move from one node to another, or nil: one
// that evens out its topic, does not lose its leader, and is small, in this
// order.
func (s *state) candidate(from, to *node) *part {
	var best *part
	better := func(p *part) bool {
		counts, bestCounts := s.perTopic[p.ID.Topic], s.perTopic[best.ID.Topic]
		return cmp.Or(
			cmp.Compare(bestCounts[from.ID]-bestCounts[to.ID], counts[from.ID]-counts[to.ID]),
			cmp.Compare(leads(p, from.ID), leads(best, from.ID)),
			cmp.Compare(p.bytes, best.bytes),
		) < 0
	}
	for _, p := range s.parts {
		if p.on(from.ID) && p.movable() && (best == nil || better(p)) && s.mayHold(p, from.ID, to.ID) == allowed {
			best = p
		}
	}
	return best
}

func leads(p *part, n model.NodeID) int {
	if p.leader == n {
		return 1
	}
	return 0
}

// relocate moves a replica and, when it led, chooses the least loaded of the
// others to lead.
func (s *state) relocate(p *part, from, to model.NodeID) {
	s.place(p, from, to)
	if p.leader == from {
		s.lead(p, s.bestLeader(p, from, true))
	}
}

// bestLeader is the replica of p with the fewest leaderships that may lead,
// replicas in sync today before new ones, then in replica order; NoNode when
// there is none.
func (s *state) bestLeader(p *part, not model.NodeID, fallback bool) model.NodeID {
	best := model.NoNode
	for _, r := range p.replicas {
		if r == not || !s.mayLead(p, r, fallback) {
			continue
		}
		if best == model.NoNode || cmp.Or(
			cmp.Compare(cordoned(s.byID[r]), cordoned(s.byID[best])),
			cmp.Compare(s.byID[r].leaders, s.byID[best].leaders),
			cmp.Compare(arrives(p, r), arrives(p, best)),
		) < 0 {
			best = r
		}
	}
	return best
}

func cordoned(n *node) int {
	if n.target {
		return 0
	}
	return 1
}

func arrives(p *part, n model.NodeID) int {
	if model.HasNode(p.Replicas, n) {
		return 0
	}
	return 1
}

// chain moves replicas along a path of nodes from one to another, for the case
// that every replica of the giver has its partition on the receiver already.
// The nodes between keep their counts. It reports whether a path was found.
func (s *state) chain(from, to *node) bool {
	before := map[model.NodeID]*node{from.ID: nil}
	queue := []*node{from}
	for len(queue) > 0 && before[to.ID] == nil {
		at := queue[0]
		queue = queue[1:]
		for _, next := range s.targets() {
			if _, seen := before[next.ID]; !seen && s.candidate(at, next) != nil {
				before[next.ID] = at
				queue = append(queue, next)
			}
		}
	}
	if before[to.ID] == nil {
		return false
	}
	type step struct {
		p        *part
		from, to model.NodeID
		leader   model.NodeID // before
	}
	var done []step
	// From the receiver back, so that a step's goals see the room made before it.
	for at := to; before[at.ID] != nil; at = before[at.ID] {
		giver := before[at.ID]
		p := s.candidate(giver, at)
		if p == nil { // only when one partition is in two steps and its racks forbid both
			for _, d := range slices.Backward(done) {
				s.place(d.p, d.to, d.from)
				s.lead(d.p, d.leader)
			}
			return false
		}
		done = append(done, step{p, giver.ID, at.ID, p.leader})
		s.relocate(p, giver.ID, at.ID)
	}
	return true
}

// explainLeftovers says why partitions were left out and whether the spread is
// still wide.
func (s *state) explainLeftovers() {
	s.eachTopic(func(t *metadata.Topic, parts []*part) {
		offline, endangered := 0, 0
		for _, p := range parts {
			switch {
			case p.locked:
			case p.sourceless():
				offline++
			case p.endangered():
				endangered++
			}
		}
		if offline > 0 {
			s.find(refusal.NotInSync, SeverityWarning, "topic "+t.Name.String(),
				fmt.Sprintf("%s offline and not moved", count(offline, "partition is", "partitions are")),
				"bring back a node that was in sync")
		}
		if endangered > 0 {
			s.find(refusal.MinISRAtRisk, SeverityWarning, "topic "+t.Name.String(),
				fmt.Sprintf("%s at min ISR with replicas out of sync, and not moved now", count(endangered, "partition is", "partitions are")),
				"bring back or unload the node whose replicas are out of sync, then plan again")
		}
	})
	for _, what := range []struct {
		name string
		load func(*node) int
	}{{"replicas", replicaLoad}, {"leaders", leaderLoad}} {
		if what.name == "replicas" && !s.outsideDeadBand() {
			continue
		}
		if wide := s.pairs(what.load); len(wide) > 0 {
			w := wide[0]
			s.find(Uneven, SeverityInfo, "cluster",
				fmt.Sprintf("%s stay uneven: node %d has %d, node %d has %d, and no change that keeps every goal evens them out",
					what.name, w.from.ID, what.load(w.from), w.to.ID, what.load(w.to)), "")
		}
	}
}
