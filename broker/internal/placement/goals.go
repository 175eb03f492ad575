package placement

import (
	"github.com/ister-mq/ister/broker/internal/metadata"
	"github.com/ister-mq/ister/broker/internal/model"
	"github.com/ister-mq/ister/broker/internal/refusal"
)

// diskPeakPercent is how full a disk may get while both copies of every move
// exist.
const diskPeakPercent = 85

// allowed is the reason of a placement that breaks no goal.
const allowed refusal.Reason = ""

// mayHold judges the hard goals for a replica of p on node in, in place of the
// one on node out (NoNode: in addition). It returns allowed or the first goal
// that it breaks.
func (s *state) mayHold(p *part, out, in model.NodeID) refusal.Reason {
	n := s.byID[in]
	switch {
	case n == nil || !n.target:
		return refusal.NodeStateConflict
	case p.on(in):
		return refusal.NodeHoldsReplicas
	case model.HasNode(p.Retiring, in):
		return refusal.NodeHasMoves // it must give up the old copy first
	case s.racks(p, out, in) < s.racks(p, model.NoNode, model.NoNode):
		return refusal.NoPlacement
	case !s.fits(n, p, in):
		n.full = true
		return refusal.DiskFull
	}
	return allowed
}

// racks counts the racks of p's replicas after a change. Nodes without a rack
// share one.
func (s *state) racks(p *part, out, in model.NodeID) int {
	seen := make(map[string]bool, len(p.replicas)+1)
	for _, r := range p.replicas {
		if n := s.byID[r]; n != nil && r != out {
			seen[n.Rack] = true
		}
	}
	if n := s.byID[in]; n != nil {
		seen[n.Rack] = true
	}
	return len(seen)
}

// fits reports whether a node's disk stays below the peak with one more copy.
// What leaves the node is not credited: it goes last.
func (s *state) fits(n *node, p *part, in model.NodeID) bool {
	d := s.world.Disk[n.ID]
	if !d.Known || d.TotalBytes <= 0 || model.HasNode(p.Replicas, in) {
		return true // unknown: a warning says so; held already: nothing to copy
	}
	peak := d.TotalBytes - d.FreeBytes + n.arriving + p.bytes
	return peak < d.TotalBytes/100*diskPeakPercent
}

// mayLead reports whether node n can be made leader of p: it will be in sync,
// and it is active and not fenced. With fallback, a cordoned node will do.
func (s *state) mayLead(p *part, n model.NodeID, fallback bool) bool {
	sn := s.byID[n]
	if sn == nil || sn.Fenced || !p.on(n) || !model.HasNode(p.insync, n) {
		return false
	}
	return sn.target || fallback && sn.State == metadata.NodeCordoned
}

// movable reports whether p can change at all: nobody else changes it, there is
// a source to copy from, and it is not endangered.
func (p *part) movable() bool { return !p.locked && !p.sourceless() && !p.endangered() }
