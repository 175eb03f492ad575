package segment

import (
	"fmt"

	"github.com/ister-mq/ister/broker/internal/model"
	"github.com/ister-mq/ister/broker/internal/vfs"
)

// markBytes is how much durable data may follow a segment's mark before the mark is
// moved on, an eighth of the segment at most. It bounds how much damaged data at the
// tail can be mistaken for a torn write.
const markBytes = 1 << 20

// Sync makes everything that was appended before the call durable. A failed sync
// poisons the log: what reached the disk is unknown, and syncing again would only
// hide it.
func (l *Log) Sync() error {
	l.syncing.Lock()
	defer l.syncing.Unlock()
	return l.syncLocked()
}

// dirtySegment is a segment as a sync found it.
type dirtySegment struct {
	*segment
	size   int64
	next   model.Offset
	sealed bool
	mark   mark // to be written; zero for none
	named  bool
}

// syncLocked syncs the dirty segments, oldest first: a later segment must not
// become durable before an earlier one, or recovery would find a gap. l.syncing is
// held.
func (l *Log) syncLocked() error {
	l.mu.Lock()
	if err := l.usable(); err != nil {
		l.mu.Unlock()
		return err
	}
	end := l.end
	dirty := l.dirtyLocked(len(l.segments))
	l.mu.Unlock()
	for i := range dirty {
		if err := l.syncSegment(&dirty[i]); err != nil {
			return l.poison(err)
		}
	}
	l.mu.Lock()
	l.durable = max(l.durable, end)
	surplus := l.evict()
	l.mu.Unlock()
	closeAll(surplus)
	return nil
}

// dirtyLocked lists those of the first n segments that have something to sync, each
// with a reference to its handle; l.mu is held. The dirty ones are always the last.
func (l *Log) dirtyLocked(n int) []dirtySegment {
	first := n
	for first > 0 && (l.segments[first-1].synced < l.segments[first-1].size || !l.segments[first-1].named) {
		first--
	}
	var out []dirtySegment
	for i := first; i < n; i++ {
		s := l.segments[i]
		s.handle.refs++ // dirty segments are never evicted
		d := dirtySegment{segment: s, size: s.size, next: s.next, sealed: s != l.active(), named: s.named}
		if i > 0 && s.mark.Serial == 0 || s.synced-max(s.mark.Position, segmentHeader) >= min(markBytes, l.cfg.SegmentBytes/8) {
			// True once the segments before this one are synced, which happens first.
			d.mark = mark{max(s.synced, segmentHeader), s.syncedNext, s.mark.Serial + 1}
		}
		out = append(out, d)
	}
	return out
}

// syncSegment makes one segment durable as far as it was written. The mark that it
// carries along speaks of what was durable before, so it needs no sync of its own.
func (l *Log) syncSegment(d *dirtySegment) error {
	s := d.segment
	h := s.handle
	defer l.release(h)
	if d.mark.Serial != 0 {
		if _, err := h.file.WriteAt(d.mark.encode(), d.mark.slot()); err != nil {
			return fmt.Errorf("write mark of %s: %w", segmentName(s.base), err)
		}
	}
	if err := h.file.Sync(); err != nil {
		return fmt.Errorf("sync %s: %w", segmentName(s.base), err)
	}
	if !d.named {
		if err := l.cfg.FS.SyncDir(l.cfg.Dir); err != nil {
			return fmt.Errorf("sync directory of %s: %w", segmentName(s.base), err)
		}
	}
	l.mu.Lock()
	s.synced, s.syncedNext, s.named = d.size, d.next, true
	if d.size > s.secured {
		s.secured, s.securedNext = d.size, d.next
	}
	if d.mark.Serial != 0 {
		s.mark = d.mark
	}
	var x index
	if d.sealed {
		x = l.indexOf(s)
	}
	l.mu.Unlock()
	if d.sealed {
		l.writeIndex(x)
	}
	return nil
}

// indexOf copies what a segment's index file holds; l.mu is held, the segment is
// synced, and its entries are in memory.
func (l *Log) indexOf(s *segment) index {
	return index{
		Base: s.base, Next: s.next, Size: s.size, MaxTimestamp: s.maxTimestamp,
		Epochs: l.epochs.between(s.base, s.next), Entries: s.entries[:len(s.entries):len(s.entries)],
	}
}

// writeIndex writes an index file, without syncing it. Without one the segment is
// scanned on open, so a failure is no fault of the log.
func (l *Log) writeIndex(x index) {
	if vfs.WriteFile(l.cfg.FS, l.path(indexName(x.Base)), x.encode(), false) != nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.segments {
		if s.base == x.Base {
			s.indexed = x.Size
		}
	}
}

// settled is the offset below which everything is durable in the segment files
// themselves, whatever the journal holds beyond; l.mu is held.
func (l *Log) settled() model.Offset {
	for i := len(l.segments) - 1; i >= 0; i-- {
		if s := l.segments[i]; i == 0 || s.synced > segmentHeader {
			return s.syncedNext
		}
	}
	return l.start
}

// dirtyBytes is what a sync of the segments would write; l.mu is held.
func (l *Log) dirtyBytes() int64 {
	var n int64
	for i := len(l.segments) - 1; i >= 0; i-- {
		s := l.segments[i]
		if s.synced >= s.size {
			break
		}
		n += s.size - max(s.synced, segmentHeader)
	}
	return n
}
