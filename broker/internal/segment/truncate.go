package segment

import (
	"errors"
	"fmt"
	"sort"

	"github.com/ister-mq/ister/broker/internal/model"
	"github.com/ister-mq/ister/broker/internal/vfs"
)

// removeFile unlinks a file of the log; a missing one is no error.
func (l *Log) removeFile(name string) (removed bool, err error) {
	if err := l.cfg.FS.Remove(l.path(name)); err != nil {
		if vfs.IsNotExist(err) {
			return false, nil
		}
		return false, fmt.Errorf("remove %s: %w", name, err)
	}
	return true, nil
}

func (l *Log) syncDir() error {
	if err := l.cfg.FS.SyncDir(l.cfg.Dir); err != nil {
		return fmt.Errorf("sync log directory: %w", err)
	}
	return nil
}

// removeSegment unlinks a segment and its index, durably. The index goes first: it
// must never vouch for a segment that has been cut.
func (l *Log) removeSegment(base model.Offset) error {
	if err := l.removeIndex(base); err != nil {
		return err
	}
	if _, err := l.removeFile(segmentName(base)); err != nil {
		return err
	}
	return l.syncDir()
}

func (l *Log) removeIndex(base model.Offset) error {
	removed, err := l.removeFile(indexName(base))
	if err != nil || !removed {
		return err
	}
	return l.syncDir()
}

// removeSnapshotsAfter unlinks, durably, the producer snapshots of beyond end, and
// returns the others.
func (l *Log) removeSnapshotsAfter(ascending []model.Offset, end model.Offset) ([]model.Offset, error) {
	n := sort.Search(len(ascending), func(i int) bool { return ascending[i] > end })
	if n == len(ascending) {
		return ascending, nil
	}
	for _, off := range ascending[n:] {
		if _, err := l.removeFile(producersName(off)); err != nil {
			return ascending, err
		}
	}
	return ascending[:n], l.syncDir()
}

// removeFiles unlinks every file of the log but the checkpoint, durably.
func (l *Log) removeFiles() error {
	names, err := l.cfg.FS.List(l.cfg.Dir)
	if err != nil {
		return fmt.Errorf("list log: %w", err)
	}
	for _, name := range names {
		ours := false
		for _, suffix := range []string{segmentSuffix, indexSuffix, producersSuffix} {
			if _, ok := offsetOf(name, suffix); ok {
				ours = true
			}
		}
		if !ours {
			continue
		}
		if _, err := l.removeFile(name); err != nil {
			return err
		}
	}
	return l.syncDir()
}

func (l *Log) snapshots() ([]model.Offset, error) {
	names, err := l.cfg.FS.List(l.cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("list log: %w", err)
	}
	var out []model.Offset
	for _, name := range names {
		if off, ok := offsetOf(name, producersSuffix); ok {
			out = append(out, off)
		}
	}
	return out, nil
}

// change runs a mutation that cuts bytes, alone with respect to syncs. A failure
// half way leaves a log whose memory and disk may disagree, so it poisons.
func (l *Log) change(run func() error) error {
	l.syncing.Lock()
	defer l.syncing.Unlock()
	l.mu.Lock()
	err := l.usable()
	l.mu.Unlock()
	if err != nil {
		return err
	}
	if err := run(); err != nil {
		return l.poison(err)
	}
	return nil
}

// ErrBelowStart reports a truncation to before the log start; ResetTo is for that.
var ErrBelowStart = errors.New("segment: the offset is below the log start")

// TruncateTo drops the records at and after off, the leader epochs that begin there
// (also those without data: KAFKA-10706), and the producer state they made. An off
// inside a batch drops that batch. It is durable when it returns. An off at the log
// end only drops epochs; beyond it there is nothing to do.
func (l *Log) TruncateTo(off model.Offset) error {
	l.mu.Lock()
	start, end := l.start, l.end
	if off >= end {
		defer l.mu.Unlock()
		if err := l.usable(); err != nil {
			return err
		}
		l.epochs = l.epochs.truncateTo(off)
		return nil
	}
	l.mu.Unlock()
	if off < start {
		return fmt.Errorf("truncate to offset %d, log start %d: %w", off, start, ErrBelowStart)
	}
	return l.change(func() error { return l.truncate(off) })
}

// truncate does the work of TruncateTo; l.syncing is held. The order matters, since
// a crash may come between any two steps: nothing may vouch for bytes that are
// about to go, and no gap may ever stand between two segments.
func (l *Log) truncate(off model.Offset) error {
	i := sort.Search(len(l.segments), func(i int) bool { return l.segments[i].next > off })
	s := l.segments[i]
	h, err := l.acquire(s)
	if err != nil {
		return err
	}
	defer l.release(h)
	cut, err := l.cutPoint(s, h.file, off)
	if err != nil {
		return err
	}
	if err := l.cutJournal(cut.next); err != nil {
		return err
	}
	if cut.next < l.start {
		// The batch that goes holds the log start. The start follows the end, so
		// that the batch can be fetched again.
		if err := l.writeCheckpoint(checkpoint{Start: cut.next}); err != nil {
			return err
		}
	}
	if err := l.syncBefore(i); err != nil {
		return err
	}
	for k := len(l.segments) - 1; k > i; k-- {
		if err := l.removeSegment(l.segments[k].base); err != nil {
			return err
		}
	}
	if err := l.removeIndex(s.base); err != nil {
		return err
	}
	if s.mark.Serial > 0 && s.mark.Position > cut.size {
		lower := mark{cut.size, cut.next, s.mark.Serial + 1}
		if _, err := h.file.WriteAt(lower.encode(), lower.slot()); err != nil {
			return fmt.Errorf("lower mark of %s: %w", segmentName(s.base), err)
		}
		if err := h.file.Sync(); err != nil {
			return fmt.Errorf("sync %s: %w", segmentName(s.base), err)
		}
		cut.mark = lower
	}
	snapshots, err := l.snapshots()
	if err != nil {
		return err
	}
	if snapshots, err = l.removeSnapshotsAfter(snapshots, cut.next); err != nil {
		return err
	}
	if err := h.file.Truncate(cut.size); err != nil {
		return fmt.Errorf("truncate %s: %w", segmentName(s.base), err)
	}
	if err := h.file.Sync(); err != nil {
		return fmt.Errorf("sync %s: %w", segmentName(s.base), err)
	}
	if !s.named {
		// It was never synced before, so its name may not be durable either.
		if err := l.syncDir(); err != nil {
			return err
		}
	}
	l.publishCut(i, cut)
	return l.rollBackProducers(snapshots)
}

// syncBefore syncs the segments before segment i. That one is about to be synced
// shortened, and no segment may be durable before an earlier one is.
func (l *Log) syncBefore(i int) error {
	l.mu.Lock()
	dirty := l.dirtyLocked(i)
	l.mu.Unlock()
	for k := range dirty {
		if err := l.syncSegment(&dirty[k]); err != nil {
			return err
		}
	}
	return nil
}

// cutPoint summarizes what stays of a segment when the batch that holds off goes.
func (l *Log) cutPoint(s *segment, f vfs.File, off model.Offset) (segment, error) {
	kept := segment{base: s.base, next: s.base, size: segmentHeader, maxTimestamp: noTimestamp, mark: s.mark}
	// Begin at the last index entry at or before off: what it says of the batches
	// before it saves reading them.
	n := sort.Search(len(s.entries), func(k int) bool { return s.base+model.Offset(s.entries[k].Relative) > off })
	if n > 0 {
		e := s.entries[n-1]
		kept.entries = append([]indexEntry{}, s.entries[:n-1]...)
		kept.size, kept.next, kept.maxTimestamp = int64(e.Position), s.base+model.Offset(e.Relative), e.MaxBefore
	}
	for sc := newScanner(f, kept.size, s.size); ; {
		h, _, err := sc.next(false)
		if err == errScanEnd || err == nil && h.LastOffset() >= off {
			return kept, nil
		}
		if err != nil {
			return kept, &CorruptError{segmentName(s.base), kept.size, kept.next, err}
		}
		kept.add(h, h.Size(), l.cfg.IndexIntervalBytes)
	}
}

// publishCut makes the shortened segment the active one.
func (l *Log) publishCut(i int, cut segment) {
	l.mu.Lock()
	s := l.segments[i]
	var files []vfs.File
	for _, gone := range l.segments[i+1:] {
		files = append(files, l.forget(gone)...)
	}
	l.segments = l.segments[:i+1]
	for k, o := range l.opened {
		if o == s {
			l.opened = append(l.opened[:k], l.opened[k+1:]...)
			break
		}
	}
	s.next, s.size, s.maxTimestamp, s.entries, s.mark = cut.next, cut.size, cut.maxTimestamp, cut.entries, cut.mark
	s.synced, s.syncedNext, s.named, s.indexed = s.size, s.next, true, 0
	s.secured, s.securedNext = s.size, s.next
	l.end = s.next
	l.start, l.durable = min(l.start, l.end), l.end // everything left was synced
	l.epochs = l.epochs.truncateTo(l.end)
	l.forgetPositions()
	l.mu.Unlock()
	closeAll(files)
}

// forgetPositions drops what readers were remembered by; l.mu is held.
func (l *Log) forgetPositions() {
	l.generation++
	l.recent = [recentBatches]position{}
	l.hint = position{}
}

// rollBackProducers rebuilds the producer state as of the new end, if a batch of it
// is gone.
func (l *Log) rollBackProducers(snapshots []model.Offset) error {
	if l.producers.last < l.end {
		return nil
	}
	from, state, err := l.newestSnapshot(snapshots, l.end)
	if err != nil {
		return err
	}
	l.producers = state
	return l.replayProducers(from)
}

// ResetTo drops everything and begins an empty log at off, durably: for a follower
// whose end lies below its leader's log start.
func (l *Log) ResetTo(off model.Offset) error {
	if off < 0 {
		return fmt.Errorf("reset to offset %d: offsets begin at 0", off)
	}
	return l.change(func() error {
		// Should a crash interrupt what follows, Open finds the flag and ends it.
		if err := l.writeCheckpoint(checkpoint{Start: off, Reset: true}); err != nil {
			return err
		}
		if err := l.removeFiles(); err != nil {
			return err
		}
		old := l.identity
		l.identity = newIdentity() // voids what the journal holds
		s, err := l.createSegment(off)
		if err != nil {
			return err
		}
		if err := l.fixSegment(s); err != nil {
			return err
		}
		if err := l.writeCheckpoint(checkpoint{Start: off}); err != nil {
			return err
		}
		l.mu.Lock()
		var files []vfs.File
		for _, gone := range l.segments {
			files = append(files, l.forget(gone)...)
		}
		l.segments = []*segment{s}
		l.start, l.end, l.durable, l.epochs = off, off, off, nil
		l.forgetPositions()
		l.mu.Unlock()
		closeAll(files)
		l.producers = newProducers()
		l.forgetJournal(old)
		return nil
	})
}

// DeleteTo moves the log start up to off, which retention or a user decided, and
// unlinks the segments that lie wholly below. off is clipped to the log end; one at
// or below the log start changes nothing. The new start is durable before anything
// is unlinked.
func (l *Log) DeleteTo(off model.Offset) error {
	l.mu.Lock()
	off = min(off, l.end)
	unchanged, settled := off <= l.start, l.settled()
	l.mu.Unlock()
	if unchanged {
		return nil
	}
	if off > settled {
		// A start beyond what the segments hold would look like lost data after a
		// crash.
		if err := l.Sync(); err != nil {
			return err
		}
	}
	return l.change(func() error {
		l.mu.Lock()
		history := l.epochs.deleteTo(off)
		l.mu.Unlock()
		if err := l.writeCheckpoint(checkpoint{Start: off, Epochs: history}); err != nil {
			return err
		}
		l.mu.Lock()
		l.start, l.epochs = off, history
		n := 0
		var files []vfs.File
		var gone []model.Offset
		for n+1 < len(l.segments) && l.segments[n].next <= off {
			gone = append(gone, l.segments[n].base)
			files = append(files, l.forget(l.segments[n])...)
			n++
		}
		l.segments = append([]*segment{}, l.segments[n:]...)
		l.mu.Unlock()
		closeAll(files)
		for _, base := range gone {
			if err := l.removeSegment(base); err != nil {
				return err
			}
		}
		return nil
	})
}
