package dataplane

import (
	"fmt"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/ister-mq/ister/broker/internal/metadata"
	"github.com/ister-mq/ister/broker/internal/model"
	"github.com/ister-mq/ister/broker/internal/refusal"
	"github.com/ister-mq/ister/broker/internal/segment"
	"github.com/ister-mq/ister/broker/internal/telemetry"
	"github.com/ister-mq/ister/broker/internal/vfs"
)

// The data directory, as far as this plane owns it:
//
//	logs/<topic>-<index>/               one log
//	logs/<topic>-<index>.deleted-<n>/   given up; removed after the grace period
//	logs/<topic>-<index>.quarantined-<n>/ set aside; never removed by the node
//	rebuilding/<topic>-<index>          this copy is incomplete and must not lead
//	journal/                            the flusher's
//	high-watermarks                     checkpoint
//	clean                               exists only between an orderly stop and the next start

func (p *Plane) cleanMarker() string   { return path.Join(p.cfg.Dir, "clean") }
func (p *Plane) rebuildingDir() string { return path.Join(p.cfg.Dir, "rebuilding") }
func (p *Plane) rebuildingMark(id model.Partition) string {
	return path.Join(p.rebuildingDir(), id.String())
}
func (p *Plane) logDir(id model.Partition) string { return path.Join(p.logsDir(), id.String()) }

// openDirectories prepares the data directory and replays the journal. The clean
// marker is taken off durably before anything else can change.
func (p *Plane) openDirectories() error {
	fsys := p.cfg.FS
	for _, dir := range []string{p.logsDir(), p.journalDir(), p.rebuildingDir()} {
		if err := fsys.MkdirAll(dir); err != nil {
			return fmt.Errorf("create %s: %w", dir, err)
		}
	}
	switch err := fsys.Remove(p.cleanMarker()); {
	case err == nil:
		p.clean = true
	case !vfs.IsNotExist(err):
		return fmt.Errorf("remove clean marker: %w", err)
	}
	if err := fsys.SyncDir(p.cfg.Dir); err != nil {
		return fmt.Errorf("sync data directory: %w", err)
	}
	p.marks = p.readMarks()
	flusher, err := segment.NewFlusher(segment.FlusherConfig{FS: fsys, Dir: p.journalDir(), LogsDir: p.logsDir()})
	if err != nil {
		return fmt.Errorf("open journal: %w", err)
	}
	p.flusher = flusher
	return nil
}

// openLog opens or creates the log of a partition. A log that is corrupt in the
// middle is set aside and an empty one opened in its place, with rebuilding
// set: durably, since an empty copy that leads would lose what is committed. So it
// is for a log that ends below its high watermark.
func (p *Plane) openLog(id model.Partition, s settings) (log *segment.Log, rebuilding bool, err error) {
	started := time.Now()
	_, err = p.cfg.FS.Stat(p.rebuildingMark(id))
	rebuilding = err == nil
	log, recovery, err := segment.Open(p.segmentConfig(id, s))
	if refusal.Is(err, refusal.ReplicaQuarantined) {
		if err := p.setAside(id, fmt.Sprintf("%s at offset %d of %s", recovery.Reason, recovery.Offset, recovery.Segment)); err != nil {
			return nil, false, err
		}
		rebuilding = true
		log, recovery, err = segment.Open(p.segmentConfig(id, s))
	}
	if err != nil {
		return nil, rebuilding, fmt.Errorf("open log %s: %w", id, err)
	}
	if mark := p.marks[id]; !rebuilding && s.flushSync && log.LogEnd() < mark {
		// What was committed here is gone: somebody took the directory or a part of
		// it away. A topic that does not sync may lose its tail with the power; there
		// the registration has given up the place in the ISR.
		reason := fmt.Sprintf("the log ends at %d, but was committed up to %d", log.LogEnd(), mark)
		if err := p.markRebuilding(id, reason); err != nil {
			log.Close(false)
			return nil, false, err
		}
		p.metrics.Quarantined.Inc()
		p.log(telemetry.ReplicaLostData{Partition: id, LogEnd: log.LogEnd(), HighWatermark: mark})
		rebuilding = true
	}
	if recovery.TruncatedBytes > 0 {
		p.metrics.TruncatedBytes.Add(float64(recovery.TruncatedBytes))
	}
	p.log(telemetry.ReplicaOpened{Partition: id, LogEnd: log.LogEnd(), Truncated: recovery.TruncatedBytes, Took: time.Since(started)})
	if err := p.flusher.Attach(log); err != nil {
		log.Close(false)
		return nil, rebuilding, fmt.Errorf("attach log %s: %w", id, err)
	}
	return log, rebuilding, nil
}

func (p *Plane) segmentConfig(id model.Partition, s settings) segment.Config {
	return segment.Config{FS: p.cfg.FS, Dir: p.logDir(id), SegmentBytes: s.segmentBytes, Now: time.Now}
}

// setAside quarantines a log and marks the partition as rebuilding, in the order
// that a crash in between leaves the mark, not an unmarked empty log.
func (p *Plane) setAside(id model.Partition, reason string) error {
	if err := p.markRebuilding(id, reason); err != nil {
		return err
	}
	to, err := segment.Quarantine(p.cfg.FS, p.logDir(id))
	if err != nil {
		return fmt.Errorf("quarantine log %s: %w", id, err)
	}
	p.metrics.Quarantined.Inc()
	p.log(telemetry.ReplicaQuarantined{Name: id.String(), To: to, Reason: reason})
	return nil
}

// markRebuilding notes, durably, that a copy is incomplete and must not lead.
func (p *Plane) markRebuilding(id model.Partition, reason string) error {
	if err := vfs.WriteFile(p.cfg.FS, p.rebuildingMark(id), []byte(reason+"\n"), true); err != nil {
		return fmt.Errorf("mark %s as rebuilding: %w", id, err)
	}
	return nil
}

// quarantineUnknown sets aside every log directory that the image gives this node
// no reason to have. It deletes nothing: an image can be wrong about us. Copies
// that the image says were moved away are given up in the ordinary way.
func (p *Plane) quarantineUnknown(im *metadata.Image, self model.NodeID) error {
	names, err := p.cfg.FS.List(p.logsDir())
	if err != nil {
		return fmt.Errorf("list logs: %w", err)
	}
	for _, name := range names {
		switch {
		case strings.Contains(name, ".deleted-"):
			p.trash.add(path.Join(p.logsDir(), name), time.Now())
			continue
		case strings.Contains(name, ".quarantined-"):
			continue
		}
		id, err := model.ParsePartition(name)
		if err != nil {
			continue // nothing of ours; leave it where it is
		}
		state := im.Partition(id)
		if state != nil && (model.HasNode(state.Replicas, self) || model.HasNode(state.Retiring, self)) {
			continue
		}
		to, err := segment.Quarantine(p.cfg.FS, path.Join(p.logsDir(), name))
		if err != nil {
			return fmt.Errorf("quarantine %s: %w", name, err)
		}
		p.metrics.Quarantined.Inc()
		p.log(telemetry.ReplicaQuarantined{Name: name, To: to, Reason: "the metadata does not place this partition on this node"})
	}
	return nil
}

// trash is what was given up and waits for the end of its grace period.
type trash struct {
	mu    sync.Mutex
	items []trashItem
}

type trashItem struct {
	path string
	at   time.Time
}

func (t *trash) add(path string, at time.Time) {
	t.mu.Lock()
	t.items = append(t.items, trashItem{path, at})
	t.mu.Unlock()
}

// due takes off what was added before the given time.
func (t *trash) due(before time.Time) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []string
	kept := t.items[:0]
	for _, item := range t.items {
		if item.at.Before(before) {
			out = append(out, item.path)
		} else {
			kept = append(kept, item)
		}
	}
	t.items = kept
	return out
}

// purge removes what is past its grace period. A failed removal is tried again.
func (p *Plane) purge(now time.Time) {
	for _, path := range p.trash.due(now.Add(-p.cfg.RetiredGrace)) {
		if err := p.cfg.FS.RemoveAll(path); err != nil {
			p.trash.add(path, now)
		}
	}
}

// closeLogs closes every log and, when all went well, leaves the checkpoint and
// the clean marker.
func (p *Plane) closeLogs() error {
	locals := p.snapshot()
	clean := p.ready.Load()
	if err := p.writeMarks(true); err != nil {
		clean = false
	}
	if err := p.flusher.Close(); err != nil {
		clean = false
	}
	forEach(openParallel, len(locals), func(i int) { locals[i].closeLog() })
	for _, l := range locals {
		if l.offline != nil {
			clean = false
		}
	}
	if !clean {
		return nil // the next start recovers
	}
	return p.leaveMarker()
}

func (p *Plane) leaveMarker() error {
	if err := vfs.WriteFile(p.cfg.FS, p.cleanMarker(), []byte("clean\n"), true); err != nil {
		return fmt.Errorf("write clean marker: %w", err)
	}
	return nil
}

func (l *local) closeLog() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dropped || l.log == nil {
		return
	}
	if err := l.log.Close(l.offline == nil); err != nil && l.offline == nil {
		l.offline = err
	}
}

// forEach runs f for 0..n-1 on at most parallel goroutines and waits.
func forEach(parallel, n int, f func(i int)) {
	var next sync.Mutex
	at := 0
	var wait sync.WaitGroup
	for range min(parallel, n) {
		wait.Add(1)
		go func() {
			defer wait.Done()
			for {
				next.Lock()
				i := at
				at++
				next.Unlock()
				if i >= n {
					return
				}
				f(i)
			}
		}()
	}
	wait.Wait()
}

// markDeleted renames a log's directory, if there is one, and takes off its
// rebuilding mark.
func (p *Plane) markDeleted(id model.Partition) (renamed string, err error) {
	if _, err := p.cfg.FS.Stat(p.logDir(id)); err != nil {
		if vfs.IsNotExist(err) {
			return "", nil
		}
		return "", err
	}
	if renamed, err = segment.MarkDeleted(p.cfg.FS, p.logDir(id)); err != nil {
		return "", err
	}
	return renamed, p.clearRebuilding(id)
}

// clearRebuilding takes off the mark, durably.
func (p *Plane) clearRebuilding(id model.Partition) error {
	if err := p.cfg.FS.Remove(p.rebuildingMark(id)); err != nil {
		if vfs.IsNotExist(err) {
			return nil
		}
		return err
	}
	return p.cfg.FS.SyncDir(p.rebuildingDir())
}
