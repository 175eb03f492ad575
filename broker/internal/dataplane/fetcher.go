package dataplane

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ister-mq/ister/broker/internal/model"
	"github.com/ister-mq/ister/broker/internal/peer"
	"github.com/ister-mq/ister/broker/internal/refusal"
	"github.com/ister-mq/ister/broker/internal/replica"
	"github.com/ister-mq/ister/broker/internal/segment"
	"github.com/ister-mq/ister/broker/internal/telemetry"
)

// Waits of a fetcher.
const (
	fetchRetryMin = 10 * time.Millisecond // after a refused partition or a broken session
	fetchRetryMax = time.Second
	// interruptAfter is how long a parked fetch may keep a new partition waiting
	// before the session is opened again with it.
	interruptAfter = 2 * time.Millisecond
)

// fetcher copies from one leader node: one goroutine, one session, one request
// in flight. A round is: ask, append what came, sync what needs it, and only then
// ask again, for the asked offset tells the leader what is durable here.
type fetcher struct {
	plane  *Plane
	leader model.NodeID
	ctx    context.Context
	cancel context.CancelFunc
	ended  chan struct{}
	kicked chan struct{} // a member was added, for a fetcher without a session

	mu      sync.Mutex // guards the fields below
	members map[*local]*member
	pending []*member         // positions to tell the leader
	removed []model.Partition // to tell it too
	open    *peer.FetchClient // of the session
	client  *peer.FetchClient // the same, while a request is in flight
	request uint64            // number of the request in flight
	retry   bool              // the client was closed to open another at once

	wire peer.FetchRequest  // reused, only by the fetcher's goroutine
	news peer.FetchResponse // the same
}

// member is one partition that the fetcher copies. The fetcher's mutex guards it.
type member struct {
	local   *local
	queued  bool
	asked   replica.FetchFrom // what the leader was last told; only the fetcher's goroutine
	backoff time.Duration
}

func newFetcher(p *Plane, leader model.NodeID) *fetcher {
	f := &fetcher{plane: p, leader: leader, ended: make(chan struct{}), kicked: make(chan struct{}, 1), members: map[*local]*member{}}
	f.ctx, f.cancel = context.WithCancel(p.ctx)
	go f.run()
	return f
}

// stop ends the fetcher and waits.
func (f *fetcher) stop() {
	f.cancel()
	f.reopen()
	<-f.ended
}

// add makes l a member. Renewed says that its epoch changed, so that the leader
// must be told its position again.
func (f *fetcher) add(l *local, renewed bool) {
	f.mu.Lock()
	m, known := f.members[l]
	if !known {
		m = &member{local: l}
		f.members[l] = m
	}
	if !known || renewed {
		m.backoff = 0
		f.queue(m)
	}
	f.mu.Unlock()
}

// remove ends the membership of l.
func (f *fetcher) remove(l *local) {
	f.mu.Lock()
	if _, known := f.members[l]; known {
		delete(f.members, l)
		f.removed = append(f.removed, l.id)
	}
	f.mu.Unlock()
}

// queue has the next request carry m's position. A request in flight that does
// not return soon is interrupted for it. Under mu.
func (f *fetcher) queue(m *member) {
	if m.queued {
		return
	}
	m.queued = true
	f.pending = append(f.pending, m)
	kick(f.kicked)
	if f.client != nil && len(f.pending) == 1 {
		number := f.request
		time.AfterFunc(interruptAfter, func() { f.interruptRequest(number) })
	}
}

// interruptRequest closes the client of a request that is still in flight.
func (f *fetcher) interruptRequest(number uint64) {
	f.mu.Lock()
	client := f.client
	if client == nil || f.request != number {
		f.mu.Unlock()
		return
	}
	f.retry = true
	f.mu.Unlock()
	client.Close()
}

// reopen ends the session so that another one begins, with what this node is now.
func (f *fetcher) reopen() {
	f.mu.Lock()
	client := f.open
	f.retry = client != nil
	f.mu.Unlock()
	if client != nil {
		client.Close()
	}
}

func (f *fetcher) run() {
	defer close(f.ended)
	wait := fetchRetryMin
	for f.ctx.Err() == nil {
		if !f.waitForMembers() {
			return
		}
		worked, err := f.session()
		f.mu.Lock()
		again := f.retry
		f.retry = false
		f.mu.Unlock()
		if f.ctx.Err() != nil {
			return
		}
		if again {
			continue
		}
		if worked {
			wait = fetchRetryMin
		}
		f.plane.log(telemetry.FetchInterrupted{Leader: f.leader, Err: err})
		select {
		case <-f.ctx.Done():
		case <-time.After(wait):
		}
		wait = min(2*wait, fetchRetryMax)
	}
}

// waitForMembers blocks while there is nothing to copy.
func (f *fetcher) waitForMembers() bool {
	for {
		f.mu.Lock()
		n := len(f.members)
		f.mu.Unlock()
		if n > 0 {
			return true
		}
		select {
		case <-f.ctx.Done():
			return false
		case <-f.kicked:
		}
	}
}

// target is where the leader is, by the newest image.
func (f *fetcher) target() (peer.Target, error) {
	n := f.plane.control.Image().Nodes[f.leader]
	if n == nil {
		return peer.Target{}, fmt.Errorf("node %s is not in the metadata", f.leader)
	}
	return peer.Target{Address: n.Endpoints.Raft, Node: n.ID, Incarnation: n.Incarnation}, nil
}

// session opens a session and runs rounds until it breaks.
func (f *fetcher) session() (worked bool, err error) {
	target, err := f.target()
	if err != nil {
		return false, err
	}
	opening, cancel := context.WithTimeout(f.ctx, proposeTimeout)
	client, err := f.plane.peers.OpenFetch(opening, target)
	cancel()
	if err != nil {
		return false, fmt.Errorf("open fetch session: %w", err)
	}
	defer f.closeSession(client)
	f.requeue(client)
	for {
		if err := f.fetch(client); err != nil {
			return worked, err
		}
		worked = true
		if err := f.apply(); err != nil {
			return worked, err
		}
		if f.idle() {
			return worked, errNothingToFetch
		}
	}
}

// errNothingToFetch ends the session of a fetcher without members.
var errNothingToFetch = errors.New("no partition is left to copy from this node")

// idle reports that there are no members left, in which case the session ends
// quietly.
func (f *fetcher) idle() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.members) > 0 {
		return false
	}
	f.retry = true
	return true
}

// requeue has a new session start with every member.
func (f *fetcher) requeue(client *peer.FetchClient) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.open = client
	f.removed = f.removed[:0]
	f.pending = f.pending[:0]
	for _, m := range f.members {
		m.queued = true
		f.pending = append(f.pending, m)
	}
}

func (f *fetcher) closeSession(client *peer.FetchClient) {
	f.mu.Lock()
	f.open = nil
	f.mu.Unlock()
	client.Close()
}

// fetch makes one request, with every position that changed.
func (f *fetcher) fetch(client *peer.FetchClient) error {
	f.mu.Lock()
	members := f.pending
	f.pending = nil
	f.wire.Removed = append(f.wire.Removed[:0], f.removed...)
	f.removed = f.removed[:0]
	for _, m := range members {
		m.queued = false
	}
	f.request++
	f.client = client
	f.mu.Unlock()

	f.wire.Changed = f.wire.Changed[:0]
	for _, m := range members {
		if position, ok := f.position(m); ok {
			f.wire.Changed = append(f.wire.Changed, position)
		}
	}
	f.wire.MaxBytes, f.wire.MaxWait = fetchBytesMax, f.plane.cfg.FetchWait
	f.news.Partitions = f.news.Partitions[:0]
	err := client.Fetch(f.ctx, &f.wire, &f.news)

	f.mu.Lock()
	f.client = nil
	if f.pending == nil {
		f.pending = members[:0] // keep its memory
	}
	f.mu.Unlock()
	return err
}

// position is what the leader is told of one partition; false while there is
// nothing to ask. A log that has to be synced first comes back by itself.
func (f *fetcher) position(m *member) (position peer.FetchPosition, ok bool) {
	l := m.local
	l.mu.Lock()
	if l.dropped || l.offline != nil {
		l.mu.Unlock()
		return position, false
	}
	from, ok := l.replica.FetchPosition()
	unsynced := !ok && l.replica.Role() == replica.RoleFollower && l.replica.NeedsSync()
	start, end, log := l.replica.LogStart(), l.replica.LogEnd(), l.log
	l.mu.Unlock()
	if unsynced {
		f.syncThenQueue(m, log, end)
	}
	if !ok {
		return position, false
	}
	m.asked = from
	return peer.FetchPosition{
		Partition: l.id, LeaderEpoch: from.LeaderEpoch, LastFetchedEpoch: from.LastFetchedEpoch,
		Offset: from.Offset, LogStart: start, MaxBytes: fetchPartitionBytes,
	}, true
}

// syncThenQueue makes m's log durable and has it asked for then.
func (f *fetcher) syncThenQueue(m *member, log *segment.Log, end model.Offset) {
	f.plane.flusher.Request(log, end, func(durable model.Offset, err error) {
		m.local.onFlushed(durable, err)
		f.mu.Lock()
		defer f.mu.Unlock()
		if err == nil && f.ctx.Err() == nil && f.members[m.local] == m {
			f.queue(m)
		}
	})
}

// apply appends the news of one response and waits until all of it that needs to
// be durable is: the next request says so.
func (f *fetcher) apply() error {
	var syncing sync.WaitGroup
	var again []*member
	for i := range f.news.Partitions {
		news := &f.news.Partitions[i]
		l := f.plane.local(news.Partition)
		if l == nil {
			continue
		}
		f.mu.Lock()
		m := f.members[l]
		f.mu.Unlock()
		if m == nil {
			continue
		}
		if news.Reason != "" {
			f.retryLater(m)
			continue
		}
		moved, err := f.append(m, news, &syncing)
		switch {
		case err != nil:
			if refusal.Is(err, refusal.InternalInconsistency) {
				f.plane.log(telemetry.ReplicaInconsistent{Partition: l.id, Err: err})
			}
			f.retryLater(m)
		case moved:
			m.backoff = 0
			again = append(again, m)
		}
	}
	syncing.Wait()
	f.mu.Lock()
	for _, m := range again {
		if f.members[m.local] == m {
			f.queue(m)
		}
	}
	f.mu.Unlock()
	return f.ctx.Err()
}

// append takes one partition's news. It reports whether the position moved.
func (f *fetcher) append(m *member, news *peer.FetchResult, syncing *sync.WaitGroup) (moved bool, err error) {
	l := m.local
	if len(news.Batches) > 0 && f.plane.disk.full.Load() {
		return false, errDiskFull(l.id.String())
	}
	l.mu.Lock()
	if l.dropped || l.offline != nil {
		l.mu.Unlock()
		return false, nil
	}
	needSync, err := l.replica.FollowerAppend(replica.FetchData{
		LeaderEpoch: news.LeaderEpoch, From: m.asked.Offset, FromEpoch: m.asked.LastFetchedEpoch,
		HighWatermark: news.HighWatermark, LogStart: news.LogStart,
		Diverging: news.Diverging, DivergingEpoch: news.DivergingEpoch, DivergingEnd: news.DivergingEnd,
		Batches: news.Batches,
	}, time.Now())
	end, log := l.replica.LogEnd(), l.log
	l.dirty = l.dirty || len(news.Batches) > 0
	l.mu.Unlock()
	if err != nil {
		return false, l.appendError(err)
	}
	f.plane.metrics.ReplicateBytes.Add(float64(len(news.Batches)))
	if needSync {
		syncing.Add(1)
		f.plane.flusher.Request(log, end, func(durable model.Offset, err error) {
			l.onFlushed(durable, err)
			syncing.Done()
		})
	}
	return needSync || end != m.asked.Offset || news.Diverging, nil
}

// retryLater asks for a partition again after a growing wait: its leader may not
// have the newest image yet, or the disk has to get room.
func (f *fetcher) retryLater(m *member) {
	m.backoff = min(max(2*m.backoff, fetchRetryMin), fetchRetryMax)
	time.AfterFunc(m.backoff, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.ctx.Err() == nil && f.members[m.local] == m {
			f.queue(m)
		}
	})
}

// reasonOf is the refusal reason that a response carries for err.
func reasonOf(err error) refusal.Reason {
	if r := refusal.As(err); r != nil {
		return r.Reason
	}
	return refusal.InternalInconsistency
}
