package kafka

import (
	"context"
	"sync"
)

// queue holds the open calls of one connection in request order. The reader
// pushes, backends complete in any order, the writer takes answered calls from the
// head. The writer is woken only when the head becomes answered: once for a whole
// run of answers.
//
// Every call pushed is handed out exactly once: by take, or, after drop, to the
// finish function when it completes.
type queue struct {
	wake  chan struct{} // of the writer: the head is answered, or no more come
	space chan struct{} // of the reader: room was made

	mu sync.Mutex
	// Under mu:
	ring     []*call // a ring with count calls from head on
	head     int
	count    int
	limit    int
	ended    bool        // no more pushes
	dropped  bool        // no more takes
	onFinish func(*call) // set by drop
}

// queueStart is the first size of the ring, which doubles up to the limit.
const queueStart = 16

func newQueue(limit int) *queue {
	return &queue{
		wake:  make(chan struct{}, 1),
		space: make(chan struct{}, 1),
		ring:  make([]*call, min(queueStart, limit)),
		limit: limit,
	}
}

// push adds a call, waiting while the queue is full. It fails when ctx ends.
func (q *queue) push(ctx context.Context, k *call) error {
	for {
		q.mu.Lock()
		if q.count < q.limit {
			q.add(k)
			q.mu.Unlock()
			return nil
		}
		q.mu.Unlock()
		select {
		case <-q.space:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (q *queue) add(k *call) {
	if q.count == len(q.ring) {
		grown := make([]*call, min(q.limit, 2*len(q.ring)))
		n := copy(grown, q.ring[q.head:])
		copy(grown[n:], q.ring[:q.head])
		q.ring, q.head = grown, 0
	}
	q.ring[(q.head+q.count)%len(q.ring)] = k
	q.count++
}

// complete marks a call answered. It may be called from any goroutine, once for
// each call.
func (q *queue) complete(k *call) {
	q.mu.Lock()
	if q.dropped {
		finish := q.onFinish
		q.mu.Unlock()
		finish(k)
		return
	}
	k.answered = true
	isHead := q.count > 0 && q.ring[q.head] == k
	q.mu.Unlock()
	if isHead {
		signal(q.wake)
	}
}

// end says that no more calls come.
func (q *queue) end() {
	q.mu.Lock()
	q.ended = true
	q.mu.Unlock()
	signal(q.wake)
}

// take moves the answered calls at the head to out, at most its free capacity.
// done means that no call is left and none will come.
func (q *queue) take(out []*call) (taken []*call, done bool) {
	q.mu.Lock()
	wasFull := q.count == q.limit
	for len(out) < cap(out) && q.count > 0 && q.ring[q.head].answered {
		out = append(out, q.ring[q.head])
		q.ring[q.head] = nil
		q.head = (q.head + 1) % len(q.ring)
		q.count--
	}
	done = q.ended && q.count == 0
	q.mu.Unlock()
	if wasFull && len(out) > 0 {
		signal(q.space)
	}
	return out, done
}

// drop gives every call still held to finish, now or when it completes.
func (q *queue) drop(finish func(*call)) {
	q.mu.Lock()
	q.dropped, q.onFinish = true, finish
	var answered []*call
	for ; q.count > 0; q.count-- {
		if k := q.ring[q.head]; k.answered {
			answered = append(answered, k)
		}
		q.ring[q.head] = nil
		q.head = (q.head + 1) % len(q.ring)
	}
	q.mu.Unlock()
	for _, k := range answered {
		finish(k)
	}
}

// signal wakes the one goroutine that waits on a channel of capacity 1.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
