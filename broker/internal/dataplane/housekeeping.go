package dataplane

import (
	"sync/atomic"
	"time"

	"github.com/ister-mq/ister/broker/internal/model"
	"github.com/ister-mq/ister/broker/internal/replica"
	"github.com/ister-mq/ister/broker/internal/telemetry"
)

// housekeepingLoop does what time brings: request timeouts, interval flushes,
// disk space, checkpoints, retention, and the end of grace periods.
func (p *Plane) housekeepingLoop() {
	tick := time.NewTicker(tickInterval)
	defer tick.Stop()
	var gauges, marks, retention time.Time
	for {
		var now time.Time
		select {
		case <-p.ctx.Done():
			return
		case now = <-tick.C:
		}
		p.expireWaiters(now)
		for _, id := range p.early.expired(now) {
			p.serveEarly(id)
		}
		p.flushIntervals(now)
		if now.Sub(gauges) >= time.Second {
			gauges = now
			p.checkDisk()
			p.setGauges()
			p.purge(now)
			p.giveUpAgain()
		}
		if now.Sub(marks) >= p.cfg.CheckpointInterval {
			marks = now
			_ = p.writeMarks(false) // only a hint: the next one will do
		}
		if now.Sub(retention) >= p.cfg.RetentionInterval {
			retention = now
			p.retain(now)
		}
	}
}

// diskState is the free space of the data directory's file system.
type diskState struct {
	full        atomic.Bool
	total, free atomic.Int64
	known       atomic.Bool
	// until keeps full set after a write failed for space, since what is free by
	// the figures may not be free for us. Unix nanoseconds.
	until atomic.Int64
}

// noteFull is told of a write that failed for want of space.
func (d *diskState) noteFull() {
	d.until.Store(time.Now().Add(time.Second).UnixNano())
	d.full.Store(true)
}

// checkDisk reads the free space and opens or closes the plane for appends.
func (p *Plane) checkDisk() {
	space, err := p.cfg.FS.Space(p.cfg.Dir)
	if err != nil {
		p.disk.known.Store(false)
		return
	}
	p.disk.total.Store(space.Total)
	p.disk.free.Store(space.Free)
	p.disk.known.Store(true)
	p.metrics.DiskCapacity.Set(float64(space.Total))
	p.metrics.DiskFree.Set(float64(space.Free))
	full := space.Free < p.cfg.DiskReserveBytes || time.Now().UnixNano() < p.disk.until.Load()
	switch was := p.disk.full.Swap(full); {
	case full && !was:
		p.log(telemetry.DiskFilled{FreeBytes: space.Free, ReserveBytes: p.cfg.DiskReserveBytes})
	case !full && was:
		p.log(telemetry.DiskRecovered{FreeBytes: space.Free})
	}
}

func (p *Plane) setGauges() {
	var leaders, followers, offline, underReplicated, underMinISR int
	for _, l := range p.snapshot() {
		l.mu.Lock()
		switch {
		case l.offline != nil || l.rebuilding:
			offline++
		case l.replica.Role() == replica.RoleLeader:
			leaders++
			if len(l.assigned.ISR) < len(l.assigned.Replicas)-len(l.assigned.Adding) {
				underReplicated++
			}
			if len(l.assigned.ISR) < l.minISR {
				underMinISR++
			}
		case l.replica.Role() == replica.RoleFollower:
			followers++
		default:
			offline++
		}
		l.mu.Unlock()
	}
	p.metrics.ReplicasLeader.Set(float64(leaders))
	p.metrics.ReplicasFollower.Set(float64(followers))
	p.metrics.ReplicasOffline.Set(float64(offline))
	p.metrics.UnderReplicated.Set(float64(underReplicated))
	p.metrics.UnderMinISR.Set(float64(underMinISR))
}

// flushIntervals syncs the logs of flush.policy=interval that are due.
func (p *Plane) flushIntervals(now time.Time) {
	for _, l := range p.snapshot() {
		if l.settings.flushInterval == 0 {
			continue
		}
		l.mu.Lock()
		due := l.dirty && !l.dropped && l.offline == nil && now.Sub(l.flushedAt) >= l.settings.flushInterval
		if due {
			l.dirty, l.flushedAt = false, now
		}
		log := l.log
		l.mu.Unlock()
		if due {
			p.flusher.Request(log, log.LogEnd(), l.onFlushed)
		}
	}
}

// retain deletes whole segments that are too old or too many, on partitions led
// here; followers take the log start over. The last segment always stays.
func (p *Plane) retain(now time.Time) {
	for _, l := range p.snapshot() {
		if !l.leads.Load() || l.settings.retention < 0 && l.settings.retentionBytes < 0 {
			continue
		}
		l.mu.Lock()
		if l.dropped || l.offline != nil || l.replica.Role() != replica.RoleLeader {
			l.mu.Unlock()
			continue
		}
		before := l.log.Bytes()
		err := error(nil)
		if to := l.retainTo(now); to > l.log.LogStart() {
			err = l.replica.DeleteTo(to)
		}
		deleted := before - l.log.Bytes()
		if deleted > 0 {
			for _, f := range l.follows {
				f.session.mark(f, false)
			}
		}
		l.mu.Unlock()
		if err != nil {
			_ = l.appendError(err)
		}
		p.metrics.RetentionBytes.Add(float64(max(deleted, 0)))
	}
}

// retainTo is where the log start may go: past the segments that retention
// drops. Under mu.
func (l *local) retainTo(now time.Time) model.Offset {
	segments := l.log.Segments()
	total := int64(0)
	for _, s := range segments {
		total += s.Bytes
	}
	to := l.log.LogStart()
	for i, s := range segments {
		last := i == len(segments)-1
		old := l.settings.retention >= 0 && now.UnixMilli()-s.MaxTimestamp > l.settings.retention.Milliseconds()
		large := l.settings.retentionBytes >= 0 && total-s.Bytes >= l.settings.retentionBytes
		if last || !old && !large {
			break
		}
		to = s.Next
		total -= s.Bytes
	}
	return to
}
