package dataplane

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/ister-mq/ister/broker/internal/metadata"
	"github.com/ister-mq/ister/broker/internal/model"
	"github.com/ister-mq/ister/broker/internal/refusal"
	"github.com/ister-mq/ister/broker/internal/telemetry"
)

// isrQueue are the replicas whose leader may want another ISR, or wants to lead
// no longer.
type isrQueue struct {
	kick chan struct{}
	mu   sync.Mutex
	set  map[*local]struct{}
}

func (q *isrQueue) add(l *local) {
	q.mu.Lock()
	if q.set == nil {
		q.set = map[*local]struct{}{}
	}
	q.set[l] = struct{}{}
	q.mu.Unlock()
	kick(q.kick)
}

func (q *isrQueue) take() []*local {
	q.mu.Lock()
	defer q.mu.Unlock()
	out := make([]*local, 0, len(q.set))
	for l := range q.set {
		out = append(out, l)
	}
	clear(q.set)
	slices.SortFunc(out, func(a, b *local) int { return a.id.Compare(b.id) })
	return out
}

// isrAgain is when a proposal that did not succeed is made again; the replica
// itself keeps a shorter pause.
const isrAgain = 60 * time.Millisecond

// isrLoop proposes ISR changes, all that are wanted at one moment in one command,
// and looks at every led partition often enough to see followers fall behind.
func (p *Plane) isrLoop() {
	tick := time.NewTicker(p.cfg.LagMax / 4)
	defer tick.Stop()
	for {
		var candidates []*local
		select {
		case <-p.ctx.Done():
			return
		case <-p.isr.kick:
			candidates = p.isr.take()
		case <-tick.C:
			candidates = p.snapshot()
		}
		p.proposeISR(candidates)
		p.proposeHandOver(candidates)
	}
}

// proposeISR gathers the wanted changes, proposes them and hands the outcomes
// back.
func (p *Plane) proposeISR(candidates []*local) {
	now := time.Now()
	var command metadata.AlterISR
	var owners []*local
	for _, l := range candidates {
		var finished []waiter
		l.mu.Lock()
		if l.dropped || l.offline != nil || !l.leads.Load() {
			l.mu.Unlock()
			continue
		}
		if l.replica.Tick(now) {
			finished = l.advanced(nil)
		}
		change, wanted := l.replica.ISRProposal(now)
		l.mu.Unlock()
		p.finish(finished)
		if wanted {
			command.Changes = append(command.Changes, change)
			owners = append(owners, l)
		}
	}
	if len(owners) == 0 {
		return
	}
	command.Leader, command.Epoch = p.control.Self()
	ctx, cancel := context.WithTimeout(p.ctx, proposeTimeout)
	answer, err := p.control.Propose(ctx, &command)
	cancel()
	result, _ := answer.(*metadata.AlterISRResult)
	for i, l := range owners {
		var state *metadata.Partition
		outcome := err
		if err == nil && result != nil && i < len(result.Changes) {
			state = result.Changes[i].State
			if reason := result.Changes[i].Refusal; reason != "" {
				outcome = refusal.New(refusal.Reason(reason), l.id.String(), "the controller declined the ISR change", "")
			}
		}
		p.isrDone(l, command.Changes[i], state, outcome)
	}
}

// isrDone hands one outcome to its replica.
func (p *Plane) isrDone(l *local, change metadata.ISRChange, state *metadata.Partition, err error) {
	var finished []waiter
	l.mu.Lock()
	if l.dropped || l.offline != nil {
		l.mu.Unlock()
		return
	}
	before := l.assigned
	if l.replica.ISRProposalDone(change, state, err, time.Now()) {
		finished = l.advanced(nil)
	}
	l.mu.Unlock()
	p.finish(finished)
	switch {
	case err != nil:
		p.metrics.ISRRefused.Inc()
		if r := refusal.As(err); r != nil {
			p.log(telemetry.ISRProposalRefused{Partition: l.id, Reason: string(r.Reason)})
		}
		time.AfterFunc(isrAgain, func() { p.isr.add(l) })
	case state != nil && before != nil && len(state.ISR) > len(before.ISR):
		p.metrics.ISRExpanded.Inc()
	case state != nil && before != nil && len(state.ISR) < len(before.ISR):
		p.metrics.ISRShrunk.Inc()
	}
}

// proposeHandOver asks for another leader for partitions that this node leads by
// the metadata but cannot serve: its log is broken, or is being rebuilt.
func (p *Plane) proposeHandOver(candidates []*local) {
	self, _ := p.control.Self()
	im := p.control.Image()
	var command metadata.ElectLeaders
	for _, l := range candidates {
		l.mu.Lock()
		unable := !l.dropped && (l.offline != nil || l.rebuilding)
		l.mu.Unlock()
		state := im.Partition(l.id)
		if !unable || state == nil || state.Leader != self {
			continue
		}
		for _, id := range state.Replicas {
			if id != self && model.HasNode(state.ISR, id) && im.Unfenced(id) {
				command.Elections = append(command.Elections, metadata.Election{Partition: l.id, Leader: id})
				break
			}
		}
	}
	if len(command.Elections) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(p.ctx, proposeTimeout)
	defer cancel()
	// A refusal needs no answer: the next tick tries again.
	_, _ = p.control.Propose(ctx, &command)
}
