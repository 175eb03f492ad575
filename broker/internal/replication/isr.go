package replication

import (
	"slices"
	"time"

	"github.com/ister-mq/ister/broker/internal/model"
)

// Proposal is the ISR that a leader wants, fenced on both epochs. Members are
// sorted by node.
type Proposal struct {
	LeaderEpoch    model.LeaderEpoch
	PartitionEpoch model.PartitionEpoch
	ISR            []Member
}

// Member is a node at the epoch under which the leader knows it.
type Member struct {
	Node  model.NodeID
	Epoch model.NodeEpoch
}

func (p *Proposal) has(id model.NodeID) bool {
	return slices.ContainsFunc(p.ISR, func(m Member) bool { return m.Node == id })
}

func (p *Proposal) nodes() []model.NodeID {
	ids := make([]model.NodeID, len(p.ISR))
	for i, m := range p.ISR {
		ids[i] = m.Node
	}
	return ids
}

// Propose returns the ISR to ask the controller for now, if another one than it
// has. An accepted proposal is settled by Assign; any other outcome by Failed.
func (l *Leader) Propose(now time.Time) (Proposal, bool) {
	if l.proposed != nil || now.Before(l.notBefore) || l.assigned.Eligible[l.self] == 0 {
		return Proposal{}, false
	}
	p := Proposal{LeaderEpoch: l.assigned.LeaderEpoch, PartitionEpoch: l.assigned.PartitionEpoch}
	changed := false
	for _, id := range l.assigned.Replicas {
		member := model.HasNode(l.assigned.ISR, id)
		epoch, wanted := l.wanted(id, member, now)
		if wanted {
			p.ISR = append(p.ISR, Member{Node: id, Epoch: epoch})
		}
		changed = changed || wanted != member
	}
	// While it is not known that an addition can no more be accepted, the high
	// watermark waits for it. Asking again, even for the ISR as it is, moves the
	// partition epoch and so settles the matter.
	if !changed && len(l.uncertain) == 0 {
		return Proposal{}, false
	}
	slices.SortFunc(p.ISR, func(a, b Member) int { return int(a.Node) - int(b.Node) })
	l.proposed = &p
	return p, true
}

// wanted reports whether a replica belongs in the ISR, and at which node epoch.
// A member stays while it keeps up. Another one joins once its log holds all
// that is committed and all that this epoch began with: then every record it
// may lack is above the high watermark and will wait for it.
func (l *Leader) wanted(id model.NodeID, member bool, now time.Time) (model.NodeEpoch, bool) {
	current := l.assigned.Eligible[id]
	if id == l.self {
		return current, true
	}
	f := l.followers[id]
	if current == 0 || !l.keepsUp(f, now) {
		return 0, false
	}
	if member {
		// The controller kept it at its current epoch; it may not have asked yet.
		return max(current, f.epoch), true
	}
	return f.epoch, f.epoch == current && f.end >= l.watermark && f.end >= l.epochStart
}

// Failed notes that a proposal was refused, or that its outcome is unknown. That
// is one case: the request, or an earlier try of it, may still be under way and
// be accepted by another controller, so its additions count until the partition
// epoch moves. The next proposal is made no sooner than pause after now. It
// reports whether the high watermark moved.
func (l *Leader) Failed(p Proposal, pause time.Duration, now time.Time) bool {
	if l.proposed == nil || p.LeaderEpoch != l.assigned.LeaderEpoch || p.PartitionEpoch != l.assigned.PartitionEpoch {
		return false
	}
	for _, m := range l.proposed.ISR {
		if !model.HasNode(l.assigned.ISR, m.Node) && !model.HasNode(l.uncertain, m.Node) {
			l.uncertain = append(l.uncertain, m.Node)
		}
	}
	l.proposed = nil
	l.notBefore = now.Add(pause)
	return l.advance(now)
}
