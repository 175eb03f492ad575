package dataplane

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/ister-mq/ister/broker/internal/model"
	"github.com/ister-mq/ister/broker/internal/peer"
	"github.com/ister-mq/ister/broker/internal/refusal"
	"github.com/ister-mq/ister/broker/internal/replica"
	"github.com/ister-mq/ister/broker/internal/segment"
)

// session is the leader's side of one follower node. It remembers where the
// follower stands in each partition and lists those with news, so that a request
// costs what is active and not what exists.
type session struct {
	plane *Plane
	from  peer.Identity
	parts map[model.Partition]*follow // only the session's goroutine
	work  []*follow                   // reused by it
	calm  []*follow                   // news that can wait: a moved high watermark
	lent  []buffer                    // what the batches of the present answer are in

	wake  chan struct{}
	mu    sync.Mutex // guards dirty, and queued of each follow
	dirty []*follow
}

// follow is one partition in a session; local.follows points back at it.
type follow struct {
	session *session
	local   *local
	queued  bool
	// ahead: the follower knows newer metadata than this node. It is answered when
	// the image is here. Guarded by local.mu.
	ahead bool

	// Only the session's goroutine:
	position  peer.FetchPosition // where the follower stands
	sentHigh  model.Offset       // what it was last told
	sentStart model.Offset
	calm      bool // in session.calm
}

// OpenSession implements peer.FetchHandler.
func (p *Plane) OpenSession(from peer.Identity) (peer.FetchSession, error) {
	if p.ctx.Err() != nil || !p.ready.Load() {
		return nil, refusal.New(refusal.NodeNotReady, "node "+from.Node.String(), "the leader is starting or stopping", "retry")
	}
	return &session{plane: p, from: from, parts: map[model.Partition]*follow{}, wake: make(chan struct{}, 1)}, nil
}

// mark lists f as having news. Urgent news wake a parked request; others go with
// the next answer. Called with the replica's lock held.
func (s *session) mark(f *follow, urgent bool) {
	s.mu.Lock()
	if !f.queued {
		f.queued = true
		s.dirty = append(s.dirty, f)
	}
	s.mu.Unlock()
	if urgent {
		kick(s.wake)
	}
}

// take swaps the list of news out.
func (s *session) take() []*follow {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.work = append(s.work[:0], s.dirty...)
	s.dirty = s.dirty[:0]
	for _, f := range s.work {
		f.queued = false
	}
	return s.work
}

// Fetch implements peer.FetchSession.
func (s *session) Fetch(ctx context.Context, request *peer.FetchRequest, response *peer.FetchResponse) error {
	for _, id := range request.Removed {
		s.unfollow(id)
	}
	for i := range request.Changed {
		s.follow(&request.Changed[i], response)
	}
	left := budget{bytes: request.MaxBytes, move: moveBytesPerFetch}
	var parked *time.Timer
	for {
		s.collect(&left, response)
		if len(response.Partitions) > 0 {
			s.addCalm(response)
			return nil
		}
		if parked == nil {
			parked = time.NewTimer(request.MaxWait)
			defer parked.Stop()
		}
		select {
		case <-s.wake:
		case <-s.plane.throttle.refill(&left):
		case <-parked.C:
			s.addCalm(response)
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-s.plane.ctx.Done():
			return s.plane.ctx.Err()
		}
	}
}

// Sent implements peer.FetchSession.
func (s *session) Sent(*peer.FetchResponse) { s.takeBack() }

// takeBack gives the buffers of the last answer to the pool.
func (s *session) takeBack() {
	for i := range s.lent {
		s.lent[i].put()
	}
	s.lent = s.lent[:0]
}

// Close implements peer.FetchSession.
func (s *session) Close() {
	s.takeBack()
	for id := range s.parts {
		s.unfollow(id)
	}
}

// follow takes a follower's new position in one partition.
func (s *session) follow(position *peer.FetchPosition, response *peer.FetchResponse) {
	f := s.parts[position.Partition]
	l := s.plane.local(position.Partition)
	if f != nil && f.local != l {
		s.unfollow(position.Partition)
		f = nil
	}
	if l == nil {
		response.Partitions = append(response.Partitions, peer.FetchResult{Partition: position.Partition, Reason: refusal.NotLeader})
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if f == nil {
		f = &follow{session: s, local: l}
		s.parts[position.Partition] = f
		l.follows = append(l.follows, f)
	}
	f.position = *position
	s.mark(f, false)
}

func (s *session) unfollow(id model.Partition) {
	f := s.parts[id]
	if f == nil {
		return
	}
	delete(s.parts, id)
	f.local.mu.Lock()
	if i := slices.Index(f.local.follows, f); i >= 0 {
		f.local.follows = slices.Delete(f.local.follows, i, i+1)
	}
	f.local.mu.Unlock()
}

// budget bounds one response.
type budget struct {
	bytes     int // left for replicas in the ISR, then for the others
	move      int // left for replicas outside the ISR
	throttled bool
}

// collect answers every partition with news: it notes the follower's progress,
// which may commit records, and adds batches as far as the budget goes.
func (s *session) collect(left *budget, response *peer.FetchResponse) {
	for _, f := range s.take() {
		if s.parts[f.position.Partition] == f {
			s.collectOne(f, left, response)
		}
	}
}

func (s *session) collectOne(f *follow, left *budget, response *peer.FetchResponse) {
	l := f.local
	var buffer [16]waiter
	finished := buffer[:0]
	l.mu.Lock()
	if l.dropped || l.offline != nil {
		l.mu.Unlock()
		response.Partitions = append(response.Partitions, peer.FetchResult{Partition: l.id, Reason: refusal.NotLeader})
		return
	}
	inSync := l.assigned != nil && model.HasNode(l.assigned.ISR, s.from.Node)
	want := int(f.position.MaxBytes)
	if behind := f.position.Offset < l.replica.LogEnd(); behind {
		want = s.plane.allow(left, want, inSync)
		if want == 0 {
			s.mark(f, left.bytes <= 0) // the rest goes with the next answer
		}
	}
	data, err := l.replica.LeaderFetch(replica.FetchFrom{
		Node: s.from.Node, NodeEpoch: s.from.Epoch, LeaderEpoch: f.position.LeaderEpoch,
		Offset: f.position.Offset, LastFetchedEpoch: f.position.LastFetchedEpoch,
	}, time.Now())
	if data.HighWatermarkChanged {
		finished = l.advanced(finished)
	}
	log, end := l.log, l.replica.LogEnd()
	f.ahead = refusal.Is(err, refusal.UnknownLeaderEpoch) || refusal.Is(err, refusal.IneligibleReplica)
	ahead := f.ahead
	l.mu.Unlock()
	s.plane.finish(finished)
	if ahead {
		return
	}

	if err == nil && want > 0 && !data.Diverging && data.LogStart <= f.position.Offset && f.position.Offset < end {
		data.Batches, err = s.read(f, log, want, end)
	}
	if err != nil {
		if refusal.As(err) == nil {
			l.fault("read", err)
		}
		response.Partitions = append(response.Partitions, peer.FetchResult{Partition: l.id, Reason: reasonOf(err)})
		return
	}
	if !inSync {
		s.plane.isr.add(l)
	}
	s.plane.spend(left, len(data.Batches), inSync)
	f.note(data, response)
}

// read reads batches for a follower without the replica's lock. What was read
// counts only if the epoch is still led here: otherwise the log may have been cut
// and written anew under the read, by another leader.
func (s *session) read(f *follow, log *segment.Log, want int, end model.Offset) ([]byte, error) {
	batches, lent, err := readLog(log, f.position.Offset, want, end, true)
	f.local.mu.Lock()
	stale := f.local.serving(f.position.LeaderEpoch)
	f.local.mu.Unlock()
	if stale != nil {
		lent.put()
		return nil, stale
	}
	if err != nil {
		return nil, err
	}
	s.lent = append(s.lent, lent)
	return batches, nil
}

// note puts the answer of one partition into the response, or aside when it is
// only a moved high watermark.
func (f *follow) note(data replica.FetchData, response *peer.FetchResponse) {
	s := f.session
	switch {
	case len(data.Batches) > 0, data.Diverging, data.LogStart > f.position.Offset:
		response.Partitions = append(response.Partitions, peer.FetchResult{
			Partition: f.local.id, LeaderEpoch: data.LeaderEpoch, HighWatermark: data.HighWatermark, LogStart: data.LogStart,
			Diverging: data.Diverging, DivergingEpoch: data.DivergingEpoch, DivergingEnd: data.DivergingEnd, Batches: data.Batches,
		})
		f.sentHigh, f.sentStart, f.calm = data.HighWatermark, data.LogStart, false
	case data.HighWatermark != f.sentHigh || data.LogStart != f.sentStart:
		if !f.calm {
			f.calm = true
			s.calm = append(s.calm, f)
		}
	}
}

// addCalm adds the high watermarks that moved and were not sent with batches.
// They alone never end a long poll: that would double the rounds.
func (s *session) addCalm(response *peer.FetchResponse) {
	for _, f := range s.calm {
		if !f.calm || s.parts[f.position.Partition] != f {
			continue
		}
		f.calm = false
		l := f.local
		l.mu.Lock()
		if l.serving(f.position.LeaderEpoch) != nil {
			l.mu.Unlock()
			continue
		}
		f.sentHigh, f.sentStart = l.replica.HighWatermark(), l.replica.LogStart()
		l.mu.Unlock()
		response.Partitions = append(response.Partitions, peer.FetchResult{
			Partition: l.id, LeaderEpoch: f.position.LeaderEpoch, HighWatermark: f.sentHigh, LogStart: f.sentStart,
		})
	}
	s.calm = s.calm[:0]
}

// allow is how many bytes one partition may still have of a response. Replicas
// outside the ISR also need room under the move throttle.
func (p *Plane) allow(left *budget, want int, inSync bool) int {
	want = min(want, left.bytes)
	if want > 0 && !inSync {
		allowed := p.throttle.take(min(want, left.move), time.Now())
		if allowed == 0 && left.move > 0 {
			left.throttled = true
			p.metrics.ReplicateThrottled.Inc()
		}
		want = allowed
	}
	return max(want, 0)
}

// spend takes the bytes of an answer off the budget.
func (p *Plane) spend(left *budget, n int, inSync bool) {
	left.bytes -= n
	if inSync {
		p.metrics.FetchFollower.Add(float64(n))
		return
	}
	left.move -= n
	p.throttle.spend(n)
	p.metrics.FetchMove.Add(float64(n))
}
