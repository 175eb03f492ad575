package sim

import (
	"time"

	"github.com/ister-mq/ister/broker/internal/model"
)

// beginNemesis schedules faults until the cluster is healed. How wild a run is
// depends on the seed.
func (s *Sim) beginNemesis() {
	// Some runs keep a majority up, so that things happen; some do not care.
	downMax := 1
	if s.oneIn(4) {
		downMax = s.cfg.Nodes
	}
	var strike func()
	strike = func() {
		if s.healed {
			return
		}
		s.after(s.between(s.strikes/2, s.strikes*2), strike)
		s.strike(downMax)
	}
	s.after(s.between(500*time.Millisecond, 1500*time.Millisecond), strike)
}

func (s *Sim) strike(downMax int) {
	running := func(n *node) bool { return n.running() }
	down := 0
	for _, n := range s.nodes {
		if !n.running() && !n.removed && n.life > 0 {
			down++
		}
	}
	switch s.random.IntN(10) {
	case 0, 1, 2:
		if n := s.anyNode(running); n != nil && down < downMax {
			s.crash(n, false)
		}
	case 3:
		if n := s.anyNode(running); n != nil && down < downMax {
			s.crash(n, true)
		}
	case 4:
		if n := s.anyNode(running); n != nil && down < downMax {
			n.pausedTo = s.now.Add(s.between(20*time.Millisecond, 2*time.Second))
			s.tracef("node %d is paused until %v", n.id, n.pausedTo.Sub(s.start))
		}
	case 5, 6:
		s.partition()
	case 7:
		if n := s.anyNode(func(*node) bool { return true }); n != nil {
			n.slow = 1 + s.random.IntN(60)
			s.after(s.between(200*time.Millisecond, 2*time.Second), func() { n.slow = 1 })
		}
	case 8:
		s.quorum.elect() // a hand-over; the old controller may not know yet
	case 9:
		if l := s.node(s.quorum.controller); l != nil && l.running() && down < downMax {
			s.crash(l, false)
		}
	}
}

// crash stops a node and starts it again later; at times at once, before anyone
// has noticed.
func (s *Sim) crash(n *node, clean bool) {
	n.stop(clean)
	wait := s.between(time.Millisecond, 100*time.Millisecond)
	if !s.oneIn(3) {
		wait = s.between(100*time.Millisecond, 3*time.Second)
	}
	life := n.life
	s.after(wait, func() {
		if n.life == life && !n.removed {
			n.boot()
		}
	})
}

// partition cuts links for a while: one node off, two halves, or one direction
// of one link.
func (s *Sim) partition() {
	var cut [][2]model.NodeID
	a := s.nodes[s.random.IntN(len(s.nodes))].id
	switch s.random.IntN(3) {
	case 0:
		for _, n := range s.nodes {
			if n.id != a {
				cut = append(cut, [2]model.NodeID{a, n.id}, [2]model.NodeID{n.id, a})
			}
		}
	case 1:
		side := map[model.NodeID]bool{}
		for _, n := range s.nodes {
			side[n.id] = s.oneIn(2)
		}
		for _, n := range s.nodes {
			for _, m := range s.nodes {
				if side[n.id] != side[m.id] {
					cut = append(cut, [2]model.NodeID{n.id, m.id})
				}
			}
		}
	case 2:
		b := s.nodes[s.random.IntN(len(s.nodes))].id
		if a != b {
			cut = append(cut, [2]model.NodeID{a, b})
		}
	}
	for _, link := range cut {
		s.links.cut[link] = true
	}
	s.tracef("links cut: %v", cut)
	s.after(s.between(50*time.Millisecond, 2*time.Second), func() {
		for _, link := range cut {
			delete(s.links.cut, link)
		}
		s.tracef("links restored: %v", cut)
	})
}
