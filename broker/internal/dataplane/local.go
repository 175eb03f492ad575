package dataplane

import (
	"errors"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/ister-mq/ister/broker/internal/metadata"
	"github.com/ister-mq/ister/broker/internal/model"
	"github.com/ister-mq/ister/broker/internal/refusal"
	"github.com/ister-mq/ister/broker/internal/replica"
	"github.com/ister-mq/ister/broker/internal/segment"
	"github.com/ister-mq/ister/broker/internal/telemetry"
)

// local is this node's replica of one partition.
//
// Lock order: Plane.mu, then local.mu, then session.mu or fetcher.mu. Appends
// are page-cache writes made under local.mu, since the order of appends is the
// order of offsets; nothing that waits for a disk or a node is.
type local struct {
	id    model.Partition
	plane *Plane

	leads atomic.Bool // mirrors the role, for counting without the lock
	// steppedDown is when it last stopped to lead, in unix nanoseconds.
	steppedDown atomic.Int64
	waiting     atomic.Int32 // waiters in both queues, so that the timeout tick can pass by

	mu       sync.Mutex // guards everything below
	replica  *replica.Replica
	log      *segment.Log
	settings settings
	// offline is why this replica serves nothing; nil while it works. A fault
	// stays until the node restarts.
	offline error
	dropped bool // given up; the log is closed
	// rebuilding: the directory was quarantined and the copy is being fetched
	// anew. Until it holds everything committed it must not lead.
	rebuilding bool
	assigned   *metadata.Partition
	minISR     int

	commits   waitQueue // acks=all: until the high watermark passes
	durables  waitQueue // acks=1: until the own log is synced
	polls     []*poll
	follows   []*follow
	flushedAt time.Time // flush.policy=interval: the latest sync
	dirty     bool      // and whether anything came since

	// flushing: the flusher was asked for this leader's log and has not answered.
	// One request is out at a time; its answer asks again for what came since.
	flushing  bool
	askedAt   time.Time                             // when
	flushDone func(durable model.Offset, err error) // leaderFlushed, bound once
}

// settings are what the topic says about this replica.
type settings struct {
	flushSync      bool
	flushInterval  time.Duration // 0: none
	segmentBytes   int64
	retention      time.Duration // negative: for ever
	retentionBytes int64         // negative: no bound
	maxBatchBytes  int
	minISR         int
}

func settingsOf(t *metadata.Topic) settings {
	s := settings{
		flushSync: t.FlushSync(), flushInterval: time.Duration(t.FlushInterval()) * time.Millisecond,
		segmentBytes: t.SegmentBytes(), retentionBytes: t.RetentionBytes(),
		maxBatchBytes: t.MaxMessageBytes(), minISR: t.MinISR(), retention: -1,
	}
	if ms := t.RetentionMs(); ms >= 0 && ms < int64(1<<62/time.Millisecond) {
		s.retention = time.Duration(ms) * time.Millisecond
	}
	return s
}

// errNotLeading is the refusal of a replica that does not lead.
func errNotLeading(id model.Partition) error {
	return refusal.New(refusal.NotLeader, id.String(), "this node does not lead the partition", "refresh the metadata and ask its leader")
}

// serving returns why the replica cannot answer as leader, or nil. Under mu.
func (l *local) serving(epoch model.LeaderEpoch) error {
	switch {
	case l.dropped || l.offline != nil || l.replica.Role() != replica.RoleLeader:
		return errNotLeading(l.id)
	case epoch == model.NoEpoch || epoch == l.replica.LeaderEpoch():
		return nil
	case epoch < l.replica.LeaderEpoch():
		return refusal.New(refusal.FencedLeaderEpoch, l.id.String(), "the leader epoch is older than the current one", "refresh the metadata")
	}
	return refusal.New(refusal.UnknownLeaderEpoch, l.id.String(), "the leader epoch is newer than what this node knows", "try again")
}

// advanced is called under mu after the high watermark moved: it takes the
// committed waiters off the queue, wakes the long polls, and tells the followers
// at their next answer.
func (l *local) advanced(finished []waiter) []waiter {
	for {
		w, ok := l.commits.front()
		if !ok {
			break
		}
		committed, err := l.replica.Committed(w.last, w.epoch)
		if !committed && err == nil {
			break
		}
		w.err = err
		finished = append(finished, w)
		l.commits.pop()
		l.waiting.Add(-1)
	}
	for _, q := range l.polls {
		q.notify()
	}
	for _, f := range l.follows {
		f.session.mark(f, false)
	}
	return finished
}

// leaderFlushed is the flusher's answer to a leader: whatever was appended while
// the sync ran goes into the next.
func (l *local) leaderFlushed(durable model.Offset, err error) {
	l.onFlushed(durable, err)
	now := time.Now()
	l.mu.Lock()
	log, took := l.log, now.Sub(l.askedAt)
	again := err == nil && !l.dropped && l.offline == nil && log.Durable() < log.LogEnd()
	l.flushing, l.askedAt = again, now
	l.mu.Unlock()
	l.plane.metrics.FlushLatency.Observe(took.Seconds())
	if again {
		l.plane.flusher.Request(log, log.LogEnd(), l.flushDone)
	}
}

// wantFlush reports whether the flusher has to be asked; then the caller does so,
// without the lock. Under mu.
func (l *local) wantFlush(now time.Time) bool {
	if l.flushing {
		return false
	}
	l.flushing, l.askedAt = true, now
	return true
}

// onFlushed takes the flusher's word, for leaders and followers alike.
func (l *local) onFlushed(durable model.Offset, err error) {
	if errors.Is(err, segment.ErrDetached) {
		return // the log is being closed
	}
	if err != nil {
		l.fault("sync", err)
		return
	}
	var buffer [16]waiter
	finished := buffer[:0]
	l.mu.Lock()
	if l.dropped || l.offline != nil {
		l.mu.Unlock()
		return
	}
	if l.replica.Flushed(durable, time.Now()) {
		finished = l.advanced(finished)
	}
	for {
		w, ok := l.durables.front()
		if !ok || w.last >= durable {
			break
		}
		finished = append(finished, w)
		l.durables.pop()
		l.waiting.Add(-1)
	}
	l.mu.Unlock()
	l.plane.finish(finished)
}

// failWaiters empties both queues with err. Under mu.
func (l *local) failWaiters(finished []waiter, err error) []waiter {
	for _, q := range []*waitQueue{&l.commits, &l.durables} {
		for {
			w, ok := q.front()
			if !ok {
				break
			}
			w.err = err
			finished = append(finished, w)
			q.pop()
			l.waiting.Add(-1)
		}
	}
	for _, q := range l.polls {
		q.notify()
	}
	return finished
}

// stopServing ends every wait on this replica.
func (l *local) stopServing() {
	l.mu.Lock()
	finished := l.failWaiters(nil, errNotLeading(l.id))
	l.mu.Unlock()
	l.plane.finish(finished)
}

// fault takes the replica offline: only a restart, with its recovery, brings it
// back. Others of this node go on. A full disk is no fault of the replica.
func (l *local) fault(what string, err error) {
	l.mu.Lock()
	if l.offline != nil || l.dropped {
		l.mu.Unlock()
		return
	}
	l.offline = err
	led := l.replica != nil && l.replica.Role() == replica.RoleLeader
	l.leads.Store(false)
	finished := l.failWaiters(nil, errNotLeading(l.id))
	l.mu.Unlock()

	l.plane.finish(finished)
	l.plane.metrics.Faults.WithLabelValues(what).Inc()
	l.plane.log(telemetry.ReplicaOffline{Partition: l.id, Reason: what, Err: err})
	if led {
		l.plane.isr.add(l)
	}
}

// appendError sorts the outcome of an append: refusals pass, a full disk becomes
// one, and anything else takes the replica offline.
func (l *local) appendError(err error) error {
	switch {
	case err == nil || refusal.As(err) != nil:
		return err
	case errors.Is(err, syscall.ENOSPC):
		l.plane.disk.noteFull()
		return errDiskFull(l.id.String())
	}
	l.fault("append", err)
	return errNotLeading(l.id)
}

func errDiskFull(subject string) error {
	return refusal.New(refusal.DiskFull, subject, "the disk of this node is full, so that nothing can be appended", "free disk space on the node, or move partitions away from it")
}
