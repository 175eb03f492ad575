package sim

import (
	"fmt"
	"time"

	"github.com/ister-mq/ister/broker/internal/metadata"
	"github.com/ister-mq/ister/broker/internal/model"
	"github.com/ister-mq/ister/broker/internal/placement"
	"github.com/ister-mq/ister/broker/internal/replica"
)

// heal ends all faults, and demands that the cluster becomes live and equal. In
// some runs one node stays down at first: what has min ISR without it must go on.
func (s *Sim) heal() {
	s.healed = true
	s.tracef("all faults end")
	s.links.cut = map[[2]model.NodeID]bool{}
	s.links.loss, s.links.repeat, s.links.late = 0, 0, 0
	var dead *node
	if s.oneIn(3) {
		dead = s.anyNode(func(n *node) bool { return n.voter && n.life > 0 && !n.removed })
		s.crash(dead, false)
		dead.life += 2 // never mind the restart that was scheduled
	}
	for _, n := range s.nodes {
		n.slow = 1
		n.pausedTo = s.now
		if n != dead && !n.up() && !n.removed && n.life > 0 {
			n.boot()
		}
	}
	if dead != nil {
		if !s.until(s.now.Add(s.cfg.Live), s.goesOn) {
			return
		}
		dead.boot()
	}
	deadline := s.now.Add(s.cfg.Live)
	if !s.until(deadline, s.settled) {
		return
	}
	// A plan that was run leaves nothing to plan.
	for _, n := range s.quorum.image().SortedNodes() {
		if n.State == metadata.NodeDrained {
			s.admin.propose(&metadata.SetNodeState{ID: n.ID, State: metadata.NodeActive, Reason: "sim"})
		}
	}
	s.runUntil(s.now.Add(500 * time.Millisecond))
	for range 2 {
		before := s.now
		s.admin.start(placement.Rebalance(placement.World{Image: s.quorum.image()}, placement.Options{}))
		s.runUntil(s.now.Add(time.Second))
		if !s.until(before.Add(s.cfg.Live), s.settled) {
			return
		}
	}
	plan, err := placement.Rebalance(placement.World{Image: s.quorum.image()}, placement.Options{})
	if err != nil || !plan.Empty() {
		s.fail("plan-idempotent", "after two rebalances there is still a plan of %d moves: %+v %v", len(plan.Moves), plan.Moves, err)
		return
	}
	// The producers come to rest; then every copy is the same.
	for _, c := range s.producers {
		c.resting = true
	}
	s.until(s.now.Add(s.cfg.Live), s.quiet)
	if s.violation == nil {
		s.check.finally()
	}
}

// until runs until why is empty, or fails with the last reason.
func (s *Sim) until(deadline time.Time, why func() string) bool {
	last := ""
	for s.violation == nil {
		s.runUntil(s.now.Add(50 * time.Millisecond))
		if last = why(); last == "" {
			return s.violation == nil
		}
		if s.now.After(deadline) {
			s.fail("live", "%s", last)
		}
	}
	return false
}

// goesOn says, while one node is down, which producer stands still although its
// partition could do without that node, or "".
func (s *Sim) goesOn() string {
	im := s.quorum.image()
	for _, c := range s.producers {
		p := im.Partition(c.partition)
		if c.gone || p == nil {
			continue
		}
		live, inISR := 0, false
		for _, id := range p.Replicas {
			if s.node(id).up() {
				live++
				inISR = inISR || model.HasNode(p.ISR, id)
			}
		}
		if inISR && live >= im.MinISR(p) && s.now.Sub(c.ackedAt) > time.Second {
			return fmt.Sprintf("with a node down, producer %d of %s makes no progress since %v: %v; leader %d, ISR %v of %v",
				c.number, short(c.partition), c.ackedAt.Sub(s.start), c.trouble(), p.Leader, p.ISR, p.Replicas)
		}
	}
	return ""
}

// settled says what is not live yet, or "".
func (s *Sim) settled() string {
	im := s.quorum.image()
	for _, n := range im.SortedNodes() {
		if node := s.node(n.ID); node.life > 0 && (n.Fenced || !node.serving) {
			return fmt.Sprintf("node %d is fenced=%v serving=%v", n.ID, n.Fenced, node.serving)
		}
	}
	for _, o := range im.LiveOperations() {
		return fmt.Sprintf("%s %s is %s %s %s", o.ID, o.Kind, o.State, o.Reason, o.Message)
	}
	for _, p := range im.SortedPartitions() {
		if p.Leader == model.NoNode || len(p.ISR) != len(p.Replicas) || len(p.Retiring) > 0 {
			return fmt.Sprintf("%s has leader %d, ISR %v of %v, retiring %v", short(p.ID), p.Leader, p.ISR, p.Replicas, p.Retiring)
		}
	}
	for _, c := range s.producers {
		if !c.gone && s.now.Sub(c.ackedAt) > time.Second {
			return fmt.Sprintf("producer %d of %s makes no progress since %v: %v", c.number, short(c.partition), c.ackedAt.Sub(s.start), c.trouble())
		}
	}
	return ""
}

// quiet says what is still moving, or "".
func (s *Sim) quiet() string {
	for _, c := range s.producers {
		for _, p := range c.window {
			if !p.done && s.quorum.image().Partition(c.partition) != nil {
				return fmt.Sprintf("producer %d: %s is not acknowledged after %d attempts", c.number, p.name, p.attempts)
			}
		}
	}
	for _, p := range s.quorum.image().SortedPartitions() {
		leader := s.node(p.Leader).replicas[p.ID]
		if leader == nil || leader.replica.Role() != replica.RoleLeader {
			return fmt.Sprintf("%s is not led by node %d", short(p.ID), p.Leader)
		}
		end := leader.log.LogEnd()
		for _, id := range p.Replicas {
			l := s.node(id).replicas[p.ID]
			if l == nil || l.log.LogEnd() != end || l.replica.HighWatermark() != end {
				state := "not open"
				if l != nil {
					state = fmt.Sprintf("%s, asked %d, syncing %v", l.replica, l.asked, l.syncing)
				}
				return fmt.Sprintf("%s differs on node %d: %s; the leader is %s", short(p.ID), id, state, leader.replica)
			}
		}
	}
	for _, c := range s.consumers {
		if l := s.check.ledger(c.partition); s.quorum.image().Partition(c.partition) != nil && !l.lossy && c.next < l.end {
			return fmt.Sprintf("consumer %d of %s is at %d of %d", c.number, short(c.partition), c.next, l.end)
		}
	}
	return ""
}

// trouble is the last refusal of the oldest batch that is not acknowledged.
func (c *producer) trouble() error {
	for _, p := range c.window {
		if !p.done {
			return p.refusal
		}
	}
	return nil
}
