package dataplane

import (
	"time"

	"github.com/ister-mq/ister/broker/internal/model"
	"github.com/ister-mq/ister/broker/internal/replica"
)

// Report is what this node can say about its data.
type Report struct {
	Disk     Disk
	Bytes    map[model.Partition]int64 // of each replica here
	Progress []Progress                // of replicas of partitions led here; with many, of those that lag
	// Retired are copies given up that the newest image still lists as retiring.
	Retired []model.Partition
	// Known is false until the first image was carried out, and while stopping.
	Known bool
}

// Disk is the data directory's file system, in bytes.
type Disk struct {
	TotalBytes, FreeBytes int64
	Known                 bool // the figures
	Full                  bool // appends are refused for want of room
}

// Progress is how far one follower is, as its leader here sees it.
type Progress struct {
	Partition            model.Partition
	Node                 model.NodeID
	LogStart             model.Offset
	LogEnd, LeaderLogEnd model.Offset
	BytesBehind          int64 // estimated from the average record
	InSync, CaughtUp     bool
}

// Report gathers the report.
func (p *Plane) Report() Report {
	report := Report{
		Disk: Disk{
			TotalBytes: p.disk.total.Load(), FreeBytes: p.disk.free.Load(), Known: p.disk.known.Load(), Full: p.disk.full.Load(),
		},
		Bytes: map[model.Partition]int64{},
		Known: p.ready.Load() && p.ctx.Err() == nil,
	}
	now := time.Now()
	locals := p.snapshot()
	for _, l := range locals {
		l.mu.Lock()
		if !l.dropped && l.log != nil {
			report.Bytes[l.id] = l.log.Bytes()
			if l.offline == nil && l.replica.Role() == replica.RoleLeader {
				report.Progress = append(report.Progress, l.progress(now, len(locals) <= progressAllMax)...)
			}
		}
		l.mu.Unlock()
	}
	p.mu.RLock()
	for id := range p.retired {
		report.Retired = append(report.Retired, id)
	}
	p.mu.RUnlock()
	return report
}

// progressAllMax is how many replicas a node may hold for its report to name every
// follower. Above it, only those that are being added or are behind: the report
// goes out twice a second.
const progressAllMax = 256

// progress lists this leader and its followers, or only those followers that are
// being added or are behind. Under mu.
func (l *local) progress(now time.Time, all bool) []Progress {
	var out []Progress
	if all {
		out = append(out, Progress{
			Partition: l.id, Node: l.assigned.Leader, LogStart: l.log.LogStart(), LogEnd: l.log.LogEnd(), LeaderLogEnd: l.log.LogEnd(),
			InSync: true, CaughtUp: true,
		})
	}
	for _, f := range l.replica.Progress(now) {
		if !all && f.InISR && f.CaughtUp && len(l.assigned.Adding) == 0 && len(l.assigned.Target) == 0 {
			continue
		}
		behind := int64(0)
		if records := int64(f.LeaderLogEnd - l.log.LogStart()); records > 0 {
			// By the average size of a record: exact bytes would need the index.
			behind = int64(float64(l.log.Bytes()) * float64(f.LeaderLogEnd-f.LogEnd) / float64(records))
		}
		out = append(out, Progress{
			Partition: l.id, Node: f.Node, LogStart: l.log.LogStart(), LogEnd: f.LogEnd, LeaderLogEnd: f.LeaderLogEnd,
			BytesBehind: max(behind, 0), InSync: f.InISR, CaughtUp: f.CaughtUp,
		})
	}
	return out
}
