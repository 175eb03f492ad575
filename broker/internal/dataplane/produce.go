package dataplane

import (
	"sync/atomic"
	"time"

	"github.com/ister-mq/ister/broker/internal/kafka"
	"github.com/ister-mq/ister/broker/internal/model"
	"github.com/ister-mq/ister/broker/internal/refusal"
)

// produceCall is one produce request until its last partition is answered.
type produceCall struct {
	request *kafka.ProduceRequest
	done    func()
	left    atomic.Int32 // partitions not yet answered, and one for Produce itself
	started time.Time
}

// answered counts one answer; the last one calls back.
func (c *produceCall) answered() {
	if c.left.Add(-1) == 0 {
		c.done()
	}
}

// waiter is one partition of a produce request that waits for its batch to be
// committed or durable.
type waiter struct {
	call     *produceCall
	index    int
	last     model.Offset
	epoch    model.LeaderEpoch
	deadline time.Time
	err      error // set when finished
}

// waitQueue holds waiters in append order. A waiter whose call is nil timed out.
type waitQueue struct {
	items []waiter
	head  int
}

func (q *waitQueue) push(w waiter) {
	if q.head > 64 && q.head*2 > len(q.items) {
		n := copy(q.items, q.items[q.head:])
		clear(q.items[n:])
		q.items, q.head = q.items[:n], 0
	}
	q.items = append(q.items, w)
}

func (q *waitQueue) front() (waiter, bool) {
	for q.head < len(q.items) && q.items[q.head].call == nil {
		q.head++
	}
	if q.head == len(q.items) {
		q.items, q.head = q.items[:0], 0
		return waiter{}, false
	}
	return q.items[q.head], true
}

func (q *waitQueue) pop() {
	q.items[q.head] = waiter{}
	q.head++
}

// expire takes off every waiter whose deadline is past, and without a lease all.
func (q *waitQueue) expire(now time.Time, lease bool, finished []waiter) []waiter {
	for i := q.head; i < len(q.items); i++ {
		if w := &q.items[i]; w.call != nil && (!lease || now.After(w.deadline)) {
			w.err = errUnconfirmed
			if lease {
				w.err = refusal.New(refusal.OutcomeUnknown, "", "the batch was appended but not confirmed within the request's timeout", "retry with an idempotent producer, or read back")
			}
			finished = append(finished, *w)
			*w = waiter{}
		}
	}
	return finished
}

// Produce implements kafka.Backend.
func (p *Plane) Produce(request *kafka.ProduceRequest, done func()) {
	call := &produceCall{request: request, done: done, started: time.Now()}
	call.left.Store(int32(len(request.Partitions)) + 1)
	lease := p.control.LeaseValid()
	for i := range request.Partitions {
		if answered := p.produceOne(call, i, lease, true); answered {
			p.countProduce(call, request.Results[i].Err)
			call.answered()
		}
	}
	call.answered()
}

// produceOne appends one batch. It reports whether the partition is answered;
// otherwise a waiter will do it, or the early queue, which patient allows.
func (p *Plane) produceOne(call *produceCall, index int, lease, patient bool) bool {
	request := call.request
	part, result := &request.Partitions[index], &request.Results[index]
	if patient && p.early.follow(part.ID, earlyProduce{call, index, call.started.Add(earlyWait)}) {
		return false
	}
	l := p.local(part.ID)
	if l == nil || !l.leads.Load() || p.ctx.Err() != nil {
		if patient && p.mayLeadSoon(part.ID, call.started) {
			p.early.begin(part.ID, earlyProduce{call, index, call.started.Add(earlyWait)})
			if l = p.local(part.ID); l != nil && l.leads.Load() || p.ctx.Err() != nil {
				p.serveEarly(part.ID) // it began to lead, or the node to stop, in between
			}
			return false
		}
		result.Err = errNotLeading(part.ID)
		return true
	}
	if p.disk.full.Load() {
		result.Err = errDiskFull(part.ID.String())
		return true
	}
	size := part.Batch.Size()
	var buffer [16]waiter
	finished := buffer[:0]

	l.mu.Lock()
	err := l.serving(model.NoEpoch)
	if err == nil && p.ctx.Err() != nil {
		err = errNotLeading(part.ID) // under the lock: FailWaiters takes it after the context has ended
	}
	if err != nil {
		l.mu.Unlock()
		result.Err = err
		return true
	}
	before := l.replica.HighWatermark()
	out, err := l.replica.Produce(part.Batch, lease, call.started)
	if err != nil {
		l.mu.Unlock()
		result.Err = l.appendError(err)
		return true
	}
	result.Base, result.LogStart = out.First, out.LogStart
	if l.replica.HighWatermark() != before {
		finished = l.advanced(finished)
	}
	answered := l.enqueue(waiter{call: call, index: index, last: out.Last, epoch: out.Epoch, deadline: call.started.Add(request.Timeout)})
	if !out.Duplicate {
		l.dirty = true
		for _, f := range l.follows {
			f.session.mark(f, true)
		}
	}
	sync, log := l.settings.flushSync && !out.Duplicate && l.wantFlush(call.started), l.log
	l.mu.Unlock()

	if sync {
		p.flusher.Request(log, out.Last+1, l.flushDone)
	}
	if !out.Duplicate {
		p.metrics.ProduceBytes.Add(float64(size))
	}
	p.finish(finished)
	return answered
}

// enqueue puts the waiter where its acks level says, and reports whether there is
// nothing to wait for. Under mu.
func (l *local) enqueue(w waiter) (answered bool) {
	switch w.call.request.Acks {
	case kafka.AcksNone:
		return true
	case kafka.AcksLeader:
		if !l.settings.flushSync || l.log.Durable() > w.last {
			return true
		}
		l.durables.push(w)
	default:
		committed, err := l.replica.Committed(w.last, w.epoch)
		if committed || err != nil {
			w.call.request.Results[w.index].Err = err
			return true
		}
		l.commits.push(w)
	}
	l.waiting.Add(1)
	return false
}

// finish answers waiters. Without any lock held, since done may do anything. A
// leader whose lease is out confirms nothing, not even what is committed:
// another node may lead and have confirmed later records already.
func (p *Plane) finish(finished []waiter) {
	lease := len(finished) == 0 || p.control.LeaseValid()
	for i := range finished {
		w := &finished[i]
		if w.err == nil && !lease {
			w.err = errUnconfirmed
		}
		w.call.request.Results[w.index].Err = w.err
		p.countProduce(w.call, w.err)
		w.call.answered()
	}
}

func (p *Plane) countProduce(call *produceCall, err error) {
	switch {
	case err == nil:
		p.metrics.ProduceAccepted.Inc()
		p.metrics.ProduceLatency.Observe(time.Since(call.started).Seconds())
	case refusal.As(err) != nil:
		p.metrics.ProduceRefused.Inc()
	default:
		p.metrics.ProduceFailed.Inc()
	}
}

// errUnconfirmed answers a batch that was appended under a lease which is out.
var errUnconfirmed = refusal.New(refusal.OutcomeUnknown, "", "the batch was appended, and this leader has not heard from the controller for too long to confirm it", "retry with an idempotent producer, or read back")

// expireWaiters answers the produce waiters whose time is over. That of a leader
// whose lease is out is over for all: it can confirm nothing, another node may
// lead by now, and nobody may reach this one to say so. Its clients look for the
// other one as soon as they are answered.
func (p *Plane) expireWaiters(now time.Time) {
	lease := p.control.LeaseValid()
	for _, l := range p.snapshot() {
		if l.waiting.Load() == 0 {
			continue
		}
		l.mu.Lock()
		finished := l.durables.expire(now, lease, l.commits.expire(now, lease, nil))
		l.waiting.Add(-int32(len(finished)))
		l.mu.Unlock()
		p.finish(finished)
	}
}
