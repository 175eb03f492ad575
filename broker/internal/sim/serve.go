package sim

import (
	"time"

	"github.com/ister-mq/ister/broker/internal/metadata"
	"github.com/ister-mq/ister/broker/internal/model"
	"github.com/ister-mq/ister/broker/internal/record"
	"github.com/ister-mq/ister/broker/internal/refusal"
	"github.com/ister-mq/ister/broker/internal/replica"
)

// waiter is a produce request that is appended and waits to be committed.
type waiter struct {
	result replica.ProduceResult
	send   *send
	answer func(func())
}

func (l *local) id() model.Partition { return l.replica.Partition() }

func (l *local) assign(p *metadata.Partition, eligible map[model.NodeID]model.NodeEpoch) {
	n := l.node
	change, err := l.replica.Assign(p, eligible, n.s.now)
	if err != nil {
		n.s.fail("durable-survives", "node %d assigns %s: %v", n.id, short(l.id()), err)
		return
	}
	if change.NewEpoch {
		n.s.tracef("node %d %s becomes %s", n.id, short(l.id()), l.replica.Describe(n.s.now))
		l.asked = 0
		if change.After == replica.RoleLeader {
			n.s.check.leads(l)
		}
	}
	l.touched()
	if change.After == replica.RoleFollower {
		l.fetch()
	}
}

// touched is called whenever the log or the high watermark may have changed.
func (l *local) touched() {
	l.node.s.check.dirty(l)
	l.settle()
}

// settle answers the produce requests whose fate is known. A leader whose lease
// is out acknowledges nothing.
func (l *local) settle() {
	n := l.node
	kept := l.waiters[:0]
	for _, w := range l.waiters {
		committed, err := l.replica.Committed(w.result.Last, w.result.Epoch)
		switch {
		case err != nil:
			w.answer(func() { w.send.refused(err) })
		case committed && n.leaseValid():
			n.s.check.acked(l, w)
			result := w.result
			w.answer(func() { w.send.acked(result) })
		default:
			kept = append(kept, w)
		}
	}
	clear(l.waiters[len(kept):])
	l.waiters = kept
}

// produce is the leader's end of a produce request.
func (l *local) produce(p *send, answer func(func())) {
	n := l.node
	var result replica.ProduceResult
	batch, err := record.CheckProduce(append([]byte{}, p.batch...))
	if err == nil {
		result, err = l.replica.Produce(batch, n.leaseValid(), n.s.now)
	}
	if err != nil {
		if refusal.As(err) == nil {
			n.s.fail("durable-survives", "node %d appends to %s: %v", n.id, short(l.id()), err)
		}
		answer(func() { p.refused(err) })
		return
	}
	if result.Duplicate {
		n.s.counts.Duplicates++
	}
	l.waiters = append(l.waiters, &waiter{result: result, send: p, answer: answer})
	l.flush()
	l.touched()
}

// flush syncs the log, after a while; topics that need no sync are synced too,
// now and then, as an operating system would.
func (l *local) flush() {
	if l.syncing {
		l.again = true
		return
	}
	l.syncing = true
	n := l.node
	wait := n.s.between(200*time.Microsecond, 5*time.Millisecond) * time.Duration(n.slow)
	if !l.sync {
		wait = n.s.between(100*time.Millisecond, time.Second)
	}
	n.after(wait, func() {
		l.syncing = false
		if n.replicas[l.id()] != l {
			return
		}
		if err := l.log.Sync(); err != nil {
			n.s.fail("durable-survives", "node %d syncs %s: %v", n.id, short(l.id()), err)
			return
		}
		l.replica.Flushed(l.log.Durable(), n.s.now)
		l.touched()
		if l.again {
			l.again = false
			l.flush()
		}
		l.fetch()
	})
}

const (
	fetchTimeout = 250 * time.Millisecond
	fetchIdle    = 25 * time.Millisecond
	fetchBytes   = 600
)

// fetch asks the leader for more, unless an answer is waited for.
func (l *local) fetch() {
	n := l.node
	if l.asked != 0 || n.replicas[l.id()] != l {
		return
	}
	from, ok := l.replica.FetchPosition()
	if !ok {
		return
	}
	from.NodeEpoch, from.MaxBytes = n.epoch, fetchBytes
	n.s.order++
	number := n.s.order
	l.asked = number
	// Requests may arrive late or twice; an answer counts only while waited for.
	answered := func(then func()) {
		if l.asked == number && n.replicas[l.id()] == l {
			l.asked = 0
			then()
		}
	}
	n.after(fetchTimeout, func() { answered(l.fetch) })
	leader := n.s.node(l.replica.Leader())
	if leader == nil {
		return
	}
	n.s.links.send(n, leader, func() {
		source := leader.replicas[l.id()]
		if source == nil {
			return
		}
		data, err := source.replica.LeaderFetch(from, n.s.now)
		if err == nil {
			source.propose()
		} else if refusal.As(err) == nil {
			n.s.fail("durable-survives", "node %d reads %s: %v", leader.id, short(l.id()), err)
		}
		source.touched()
		n.s.links.send(leader, n, func() {
			answered(func() { l.take(data, err) })
		})
	})
}

// take is the follower's end of a fetch.
func (l *local) take(data replica.FetchData, err error) {
	n := l.node
	if err != nil {
		n.after(n.s.between(10*time.Millisecond, 40*time.Millisecond), l.fetch)
		return
	}
	before := l.log.LogEnd()
	needSync, err := l.replica.FollowerAppend(data, n.s.now)
	if err != nil {
		n.s.fail("committed-agrees", "node %d follows in %s: %v", n.id, short(l.id()), err)
		return
	}
	if end := l.log.LogEnd(); data.Diverging || end < before {
		n.s.counts.Truncations++
		n.s.tracef("node %d %s truncates %d to %d: epoch %d ends at %d", n.id, short(l.id()), before, end, data.DivergingEpoch, data.DivergingEnd)
	}
	if len(data.Batches) > 0 && !l.sync {
		l.flush()
	}
	l.touched()
	switch {
	case needSync:
		l.flush()
	case len(data.Batches) > 0 || data.Diverging || data.LogStart > data.From:
		l.fetch()
	default:
		n.after(fetchIdle, l.fetch)
	}
}

// maintain is the replica's timer.
func (l *local) maintain() {
	n := l.node
	if l.replica.Tick(n.s.now) {
		l.touched()
	}
	l.propose()
	if n.s.retention && l.replica.Role() == replica.RoleLeader && n.s.oneIn(60) && !n.s.healed {
		// Retention.
		to := l.replica.HighWatermark() - model.Offset(n.s.random.IntN(20))
		if err := l.replica.DeleteTo(to); err != nil {
			n.s.fail("durable-survives", "node %d deletes from %s: %v", n.id, short(l.id()), err)
		}
		l.touched()
	}
	l.fetch()
}

// propose asks the controller for another ISR, if one is wanted.
func (l *local) propose() {
	n := l.node
	if l.proposing {
		return
	}
	change, ok := l.replica.ISRProposal(n.s.now)
	if !ok {
		return
	}
	l.proposing = true
	n.s.tracef("node %d %s proposes isr %v at %d.%d", n.id, short(l.id()), change.ISR, change.LeaderEpoch, change.PartitionEpoch)
	n.ask(&metadata.AlterISR{Leader: n.id, Epoch: n.epoch, Changes: []metadata.ISRChange{change}}, func(result any, err error) {
		l.proposing = false
		var state *metadata.Partition
		if r, ok := result.(*metadata.AlterISRResult); ok && err == nil {
			state = r.Changes[0].State
			if reason := r.Changes[0].Refusal; reason != "" {
				err = refusal.New(refusal.Reason(reason), l.id().String(), "the ISR change was refused", "")
			}
		}
		if n.replicas[l.id()] != l {
			return
		}
		l.replica.ISRProposalDone(change, state, err, n.s.now)
		n.s.tracef("node %d %s isr proposal: %v %v", n.id, short(l.id()), state != nil, err)
		l.touched()
	})
}
