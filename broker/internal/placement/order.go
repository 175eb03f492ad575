package placement

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/ister-mq/ister/broker/internal/metadata"
	"github.com/ister-mq/ister/broker/internal/model"
	"github.com/ister-mq/ister/broker/internal/refusal"
)

// plan turns the changed partitions into ordered moves, bounded by maxMoves
// (0: no bound), and the notes taken on the way into findings.
func (s *state) plan(kind metadata.OperationKind, subject string, about model.NodeID, order orderBy, maxMoves int) Plan {
	var changed []*part
	for _, p := range s.parts {
		if !p.locked && (p.relocated() || p.leader != p.Leader) {
			changed = append(changed, p)
		}
	}
	o := newOrderer(s)
	chosen := o.order(changed, order, maxMoves)
	for _, p := range changed { // what was cut off stays as it is
		if !slices.Contains(chosen, p) {
			s.revert(p)
		}
	}
	if cut := len(changed) - len(chosen); cut > 0 {
		s.find(PlanTruncated, SeverityInfo, "cluster",
			fmt.Sprintf("%s left for another plan, since at most %d were asked for", count(cut, "move is", "moves are"), maxMoves),
			"plan again when these have finished")
	}
	plan := Plan{
		Kind: kind, Subject: subject, Node: about,
		Before: MeasureWorld(s.world), After: s.measure(about), PlacementRevision: s.image.PlacementRevision,
	}
	for _, p := range chosen {
		plan.Moves = append(plan.Moves, p.move())
		if p.leader != p.Leader {
			plan.LeaderMoves++
		}
		for _, r := range p.arrivals() {
			plan.ReplicaMoves++
			plan.BytesMoved += p.bytes
			s.noteDisk(s.byID[r])
		}
	}
	s.noteFull()
	slices.SortStableFunc(s.findings, func(a, b Finding) int { return cmp.Compare(rank(a.Severity), rank(b.Severity)) })
	plan.Findings = s.findings
	return plan
}

// move is the change of one partition: the wanted leader first, the rest in the
// order they had.
func (p *part) move() *metadata.Move {
	to := slices.Clone(p.replicas)
	if p.leader != model.NoNode {
		to = append([]model.NodeID{p.leader}, model.WithoutNode(p.replicas, p.leader)...)
	}
	m := &metadata.Move{Partition: p.ID, From: slices.Clone(p.Replicas), To: to, State: metadata.MovePlanned}
	if p.leader != p.Leader {
		m.Leader = p.leader
	}
	return m
}

// arrivals are the nodes that will get a copy; departures those that give one up.
func (p *part) arrivals() []model.NodeID {
	return slices.DeleteFunc(slices.Clone(p.replicas), func(n model.NodeID) bool { return model.HasNode(p.Replicas, n) })
}

func (p *part) departures() []model.NodeID {
	return slices.DeleteFunc(slices.Clone(p.Replicas), p.on)
}

func (s *state) revert(p *part) {
	for _, in := range p.arrivals() {
		s.place(p, in, model.NoNode)
	}
	for _, out := range slices.Clone(p.Replicas) {
		if !p.on(out) {
			s.place(p, model.NoNode, out)
		}
	}
	p.replicas = slices.Clone(p.Replicas)
	s.lead(p, p.Leader)
}

// orderBy is what decides which move comes next.
type orderBy int

const (
	byGain orderBy = iota // the move that evens out the most; a cut prefix is useful by itself
	byLoad                // the move whose nodes have been used least so far
)

// orderer replays the chosen moves from the present balance.
type orderer struct {
	state    *state
	leaders  map[model.NodeID]int
	replicas map[model.NodeID]int
	used     map[model.NodeID]int
}

func newOrderer(s *state) *orderer {
	o := &orderer{state: s, leaders: map[model.NodeID]int{}, replicas: map[model.NodeID]int{}, used: map[model.NodeID]int{}}
	for _, p := range s.parts {
		leader, replicas := p.Leader, p.Replicas
		if p.locked {
			leader, replicas = p.leader, p.replicas
		}
		o.leaders[leader]++
		for _, r := range replicas {
			o.replicas[r]++
		}
	}
	return o
}

// order picks moves one after the other. With a bound it stops there and drops
// what comes last without evening anything out.
func (o *orderer) order(parts []*part, by orderBy, bound int) []*part {
	left := slices.Clone(parts)
	var out []*part
	useful := 0 // moves up to the latest one at a new best balance
	sumReplicas, sumLeaders := 0, 0
	for len(left) > 0 && (bound == 0 || len(out) < bound) {
		best, bestReplicas, bestLeaders, bestUse := 0, 0, 0, 0
		for i, p := range left {
			replicas, leaders := 0, 0
			if by == byGain {
				replicas, leaders = o.gain(p)
			}
			use := o.use(p)
			if i == 0 || cmp.Or(cmp.Compare(replicas, bestReplicas), cmp.Compare(leaders, bestLeaders), cmp.Compare(use, bestUse)) < 0 {
				best, bestReplicas, bestLeaders, bestUse = i, replicas, leaders, use
			}
		}
		o.take(left[best])
		out = append(out, left[best])
		left = slices.Delete(left, best, best+1)
		sumReplicas, sumLeaders = sumReplicas+bestReplicas, sumLeaders+bestLeaders
		if cmp.Or(cmp.Compare(sumReplicas, 0), cmp.Compare(sumLeaders, 0)) < 0 {
			sumReplicas, sumLeaders, useful = 0, 0, len(out)
		}
	}
	if bound > 0 && len(left) > 0 && by == byGain {
		return out[:useful]
	}
	return out
}

// gain is how the sums of squares of replicas and leaders over the target nodes
// change with p's move; negative is better.
func (o *orderer) gain(p *part) (replicas, leaders int) {
	for _, in := range p.arrivals() {
		replicas += o.step(o.replicas, in, 1)
	}
	for _, out := range p.departures() {
		replicas += o.step(o.replicas, out, -1)
	}
	if p.leader != p.Leader {
		leaders = o.step(o.leaders, p.leader, 1) + o.step(o.leaders, p.Leader, -1)
	}
	return replicas, leaders
}

func (o *orderer) step(counts map[model.NodeID]int, n model.NodeID, by int) int {
	if sn := o.state.byID[n]; sn == nil || !sn.target {
		return 0
	}
	return (counts[n]+by)*(counts[n]+by) - counts[n]*counts[n]
}

func (o *orderer) use(p *part) int {
	total := 0
	for _, n := range p.touches() {
		total += o.used[n]
	}
	return total
}

// touches are the nodes that p's move puts work on: those that get a copy and
// the old and new leader.
func (p *part) touches() []model.NodeID {
	out := append(p.arrivals(), p.departures()...)
	if p.leader != p.Leader {
		for _, n := range []model.NodeID{p.Leader, p.leader} {
			if !model.HasNode(out, n) {
				out = append(out, n)
			}
		}
	}
	return out
}

func (o *orderer) take(p *part) {
	for _, n := range p.arrivals() {
		o.replicas[n]++
	}
	for _, n := range p.departures() {
		o.replicas[n]--
	}
	if p.leader != p.Leader {
		o.leaders[p.Leader]--
		o.leaders[p.leader]++
	}
	for _, n := range p.touches() {
		o.used[n]++
	}
}

// find notes a finding.
func (s *state) find(code refusal.Reason, severity Severity, object, message, remedy string) {
	s.findings = append(s.findings, Finding{Code: code, Severity: severity, Object: object, Message: message, Remedy: remedy})
}

// noteDisk warns once per node that is used without knowing its disk.
func (s *state) noteDisk(n *node) {
	if d := s.world.Disk[n.ID]; d.Known && d.TotalBytes > 0 {
		return
	}
	object := object(n.ID)
	if !slices.ContainsFunc(s.findings, func(f Finding) bool { return f.Code == refusal.UnknownHealth && f.Object == object }) {
		s.find(refusal.UnknownHealth, SeverityWarning, object,
			fmt.Sprintf("the disk of node %d is unknown, so nothing shows that its new replicas fit", n.ID), "wait for its report, or check the disk by hand")
	}
}

// noteFull warns about nodes that were passed over because of their disk.
func (s *state) noteFull() {
	for _, n := range s.nodes {
		if n.full {
			s.find(refusal.DiskFull, SeverityWarning, object(n.ID),
				fmt.Sprintf("node %d was passed over for some replicas: its disk would reach %d %% at the peak", n.ID, diskPeakPercent), "free or add disk space")
		}
	}
}

// eachTopic visits the topics by name with their partitions.
func (s *state) eachTopic(visit func(*metadata.Topic, []*part)) {
	for at := 0; at < len(s.parts); {
		end := at
		for end < len(s.parts) && s.parts[end].topic == s.parts[at].topic {
			end++
		}
		visit(s.parts[at].topic, s.parts[at:end])
		at = end
	}
}

func rank(s Severity) int {
	return slices.Index([]Severity{SeverityError, SeverityWarning, SeverityInfo}, s)
}

func object(n model.NodeID) string { return "node " + n.String() }

func itoa(i int32) string { return strconv.Itoa(int(i)) }

// count says "1 thing" or "n things".
func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + many
}

func verb(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}
