package dataplane

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/ister-mq/ister/broker/internal/model"
)

// earlyWait is how long a produce that came before the news that this node leads
// is kept. At a hand-over the old leader's answer can send a client here a few
// milliseconds before the image arrives; a refusal would make the client wait for
// its retry back-off, many times longer.
const earlyWait = 100 * time.Millisecond

// early holds such produces, per partition and in the order of their arrival. While
// a partition has any, later ones queue behind them.
type early struct {
	some atomic.Bool // queues is not empty: the hot path looks at this only

	mu     sync.Mutex // guards queues and what they hold
	queues map[model.Partition]*earlyQueue
}

type earlyQueue struct {
	items    []earlyProduce
	draining bool // somebody serves it, alone
}

type earlyProduce struct {
	call  *produceCall
	index int
	until time.Time
}

// follow queues a produce behind those of its partition, if there are any.
func (e *early) follow(id model.Partition, item earlyProduce) bool {
	if !e.some.Load() {
		return false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	queue := e.queues[id]
	if queue != nil {
		queue.items = append(queue.items, item)
	}
	return queue != nil
}

// begin queues a produce as the first, or behind others.
func (e *early) begin(id model.Partition, item earlyProduce) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.queues == nil {
		e.queues = map[model.Partition]*earlyQueue{}
	}
	if e.queues[id] == nil {
		e.queues[id] = &earlyQueue{}
	}
	e.queues[id].items = append(e.queues[id].items, item)
	e.some.Store(true)
}

// claim makes the caller the one that serves a queue.
func (e *early) claim(id model.Partition) bool {
	if !e.some.Load() {
		return false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	queue := e.queues[id]
	if queue == nil || queue.draining {
		return false
	}
	queue.draining = true
	return true
}

// next takes the first produce of a claimed queue off. The queue stays until it
// is found empty, so that what arrives meanwhile keeps its place.
func (e *early) next(id model.Partition) (earlyProduce, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	queue := e.queues[id]
	if len(queue.items) == 0 {
		delete(e.queues, id)
		e.some.Store(len(e.queues) > 0)
		return earlyProduce{}, false
	}
	first := queue.items[0]
	queue.items = queue.items[1:]
	return first, true
}

// expired lists the partitions whose first produce has waited long enough.
func (e *early) expired(now time.Time) []model.Partition {
	if !e.some.Load() {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	var out []model.Partition
	for id, queue := range e.queues {
		if len(queue.items) > 0 && now.After(queue.items[0].until) {
			out = append(out, id)
		}
	}
	return out
}

// staleWait is how long after it stopped to lead a node takes produces for those of
// clients that have not heard of it, and refuses them at once.
const staleWait = 2 * time.Second

// mayLeadSoon reports whether this node could be about to lead a partition that it
// does not lead: the control plane says so already, or it is in the ISR and was not
// the leader a moment ago.
func (p *Plane) mayLeadSoon(id model.Partition, now time.Time) bool {
	state := p.control.Image().Partition(id)
	if state == nil || p.ctx.Err() != nil {
		return false
	}
	self, _ := p.control.Self()
	if state.Leader == self {
		return true
	}
	l := p.local(id)
	return model.HasNode(state.ISR, self) && l != nil && now.UnixNano()-l.steppedDown.Load() > int64(staleWait)
}

// serveEarly carries out the produces that waited for this node to lead, and
// refuses them when it does not: all together, so that none overtakes another.
func (p *Plane) serveEarly(id model.Partition) {
	if !p.early.claim(id) {
		return
	}
	for {
		item, ok := p.early.next(id)
		if !ok {
			return
		}
		if p.produceOne(item.call, item.index, p.control.LeaseValid(), false) {
			p.countProduce(item.call, item.call.request.Results[item.index].Err)
			item.call.answered()
		}
	}
}
