package segment

import (
	"errors"
	"fmt"
	"math"
	"path"

	"github.com/ister-mq/ister/broker/internal/model"
	"github.com/ister-mq/ister/broker/internal/record"
	"github.com/ister-mq/ister/broker/internal/refusal"
	"github.com/ister-mq/ister/broker/internal/vfs"
)

// Open opens the log in cfg.Dir, making an empty one where there is none, and
// recovers it: what follows the first bad batch is cut when none of it can have
// been durable, and everything kept is durable when Open returns. Damage to what was
// durable gives a REPLICA_QUARANTINED refusal, with Recovery saying where, and
// changes nothing. Other errors are faults of the disk, and UNSUPPORTED_FORMAT for
// files of a later release.
func Open(cfg Config) (*Log, Recovery, error) {
	if err := cfg.complete(); err != nil {
		return nil, Recovery{}, err
	}
	l := &Log{cfg: cfg, producers: newProducers()}
	r := recoverer{log: l, fs: cfg.FS}
	err := r.run()
	if err != nil {
		for _, s := range l.segments {
			if s.handle != nil {
				s.handle.file.Close()
			}
		}
		return nil, r.report, err
	}
	r.report.LogStart, r.report.LogEnd = l.start, l.end
	return l, r.report, nil
}

// recoverer carries Open's findings from step to step.
type recoverer struct {
	log    *Log
	fs     vfs.FS
	report Recovery

	bases              []model.Offset // segment files, ascending
	indexes            map[model.Offset]bool
	snapshotsAscending []model.Offset
	check              checkpoint
	hasCheck           bool

	proven  model.Offset    // everything below was durable
	pending []record.Header // idempotent batches that the scan met, in order
	scanned model.Offset    // pending is complete from here on
	damage  *damage         // where the log stops being sound, if anywhere
	headers []model.Offset  // segments whose header must be written again
}

// damage is the first place where no sound batch stands.
type damage struct {
	segment  int // into Log.segments
	position int64
	offset   model.Offset
	reason   string
}

func (r *recoverer) run() error {
	if err := r.directory(); err != nil {
		return err
	}
	if err := r.list(); err != nil {
		return err
	}
	if reason, err := vfs.ReadFile(r.fs, r.log.path(damagedName), 1<<16); err == nil {
		return r.quarantine(damagedName, 0, 0, string(reason))
	}
	if err := r.readCheckpoint(); err != nil {
		return err
	}
	if r.check.Reset {
		if err := r.finishReset(); err != nil {
			return err
		}
	}
	if len(r.bases) == 0 {
		if r.hasCheck && !r.check.Reset {
			return r.quarantine(checkpointName, 0, r.check.Start, "there is a checkpoint but no segment file")
		}
		return r.create()
	}
	if err := r.scan(); err != nil {
		return err
	}
	if d := r.damage; d != nil && d.offset < r.proven {
		return r.quarantine(segmentName(r.log.segments[d.segment].base), d.position, d.offset,
			fmt.Sprintf("%s, although everything before offset %d was durable", d.reason, r.proven))
	}
	if r.check.Start > r.log.end && r.hasCheck {
		return r.quarantine(segmentName(r.log.active().base), r.log.active().size, r.log.end,
			fmt.Sprintf("the log ends before its start offset %d", r.check.Start))
	}
	if err := r.repair(); err != nil {
		return err
	}
	return r.finish()
}

// directory makes the log's directory, durably.
func (r *recoverer) directory() error {
	dir := r.log.cfg.Dir
	switch info, err := r.fs.Stat(dir); {
	case err == nil && info.Dir:
		return nil
	case err == nil:
		return fmt.Errorf("open log: %s is not a directory", dir)
	case !vfs.IsNotExist(err):
		return fmt.Errorf("open log: %w", err)
	}
	if err := r.fs.MkdirAll(dir); err != nil {
		return fmt.Errorf("open log: %w", err)
	}
	if err := r.fs.SyncDir(path.Dir(dir)); err != nil {
		return fmt.Errorf("open log: %w", err)
	}
	return nil
}

func (r *recoverer) list() error {
	names, err := r.fs.List(r.log.cfg.Dir)
	if err != nil {
		return fmt.Errorf("open log: %w", err)
	}
	r.indexes = map[model.Offset]bool{}
	for _, name := range names {
		if isTemporary(name) {
			_ = r.fs.Remove(r.log.path(name)) // replaced when it is next written
		} else if base, ok := offsetOf(name, segmentSuffix); ok {
			r.bases = append(r.bases, base)
		} else if base, ok := offsetOf(name, indexSuffix); ok {
			r.indexes[base] = true
		} else if off, ok := offsetOf(name, producersSuffix); ok {
			r.snapshotsAscending = append(r.snapshotsAscending, off)
		}
	}
	return nil
}

func (r *recoverer) readCheckpoint() error {
	b, err := vfs.ReadFile(r.fs, r.log.path(checkpointName), maxFrameBytes)
	if vfs.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open log: %w", err)
	}
	check, err := decodeCheckpoint(b)
	if errors.As(err, new(damaged)) {
		return nil // the log start falls back to the first segment's
	}
	r.check, r.hasCheck = check, err == nil
	return err
}

// finishReset ends a ResetTo that a crash cut short: nothing but the start offset
// counts.
func (r *recoverer) finishReset() error {
	if err := r.log.removeFiles(); err != nil {
		return err
	}
	r.bases, r.indexes, r.snapshotsAscending = nil, nil, nil
	return nil
}

// create begins an empty log.
func (r *recoverer) create() error {
	l := r.log
	l.identity = newIdentity()
	l.start, l.end, l.durable = r.check.Start, r.check.Start, r.check.Start
	r.report.Clean = true
	s, err := l.createSegment(l.start)
	if err != nil {
		return err
	}
	l.segments = []*segment{s}
	if err := l.fixSegment(s); err != nil {
		return err
	}
	if !r.check.Reset {
		return nil
	}
	return l.writeCheckpoint(checkpoint{Start: l.start})
}

// fixSegment syncs a segment file and its name.
func (l *Log) fixSegment(s *segment) error {
	if err := s.handle.file.Sync(); err != nil {
		return fmt.Errorf("sync %s: %w", segmentName(s.base), err)
	}
	if err := l.cfg.FS.SyncDir(l.cfg.Dir); err != nil {
		return fmt.Errorf("sync directory of %s: %w", segmentName(s.base), err)
	}
	s.synced, s.syncedNext, s.named = s.size, s.next, true
	s.secured, s.securedNext = s.size, s.next
	return nil
}

// scan walks the segments from the one that holds the log start, reading what their
// index files do not vouch for, until the first damage.
func (r *recoverer) scan() error {
	l := r.log
	first := 0
	for first+1 < len(r.bases) && r.bases[first+1] <= r.check.Start {
		first++
	}
	l.start = max(r.check.Start, r.bases[first])
	if r.hasCheck && r.bases[first] > r.check.Start {
		r.damage = &damage{0, segmentHeader, r.check.Start, fmt.Sprintf("the segments begin at offset %d", r.bases[first])}
		r.proven = math.MaxInt64
	}
	r.scanned = math.MaxInt64
	r.report.Clean = true
	next := r.bases[first]
	for i, base := range r.bases[first:] {
		s, covered, err := r.openSegment(base)
		if err != nil {
			return err
		}
		l.segments = append(l.segments, s)
		if r.damage != nil {
			continue // opened for its mark, which may prove that the damage is real
		}
		if base != next {
			r.stop(len(l.segments)-1, segmentHeader, next, fmt.Sprintf("offset %d is missing, %s follows", next, segmentName(base)))
			continue
		}
		if s.indexed > segmentHeader {
			// Batches that were not looked at: what was collected before is of no use.
			r.scanned, r.pending = s.next, nil
		}
		for _, e := range covered {
			l.epochs = l.epochs.assign(e.Epoch, e.Start)
		}
		if err := r.scanSegment(i, s); err != nil {
			return err
		}
		next = s.next
	}
	l.end = next
	return nil
}

func (r *recoverer) stop(segment int, position int64, offset model.Offset, reason string) {
	if r.damage == nil {
		r.damage = &damage{segment, position, offset, reason}
	}
}

// openSegment opens a file and reads its header, mark and index file. It returns the
// epochs of the batches that the index covers, too.
func (r *recoverer) openSegment(base model.Offset) (*segment, epochs, error) {
	l := r.log
	f, err := r.fs.Open(l.path(segmentName(base)))
	if err != nil {
		return nil, nil, fmt.Errorf("open segment: %w", err)
	}
	s := &segment{base: base, next: base, size: segmentHeader, maxTimestamp: noTimestamp, syncedNext: base, securedNext: base, handle: &handle{file: f}}
	header := make([]byte, segmentHeader)
	n, err := f.ReadAt(header, 0)
	if err != nil && n == 0 {
		if size, sizeErr := f.Size(); sizeErr != nil || size > 0 {
			f.Close()
			return nil, nil, fmt.Errorf("read segment header: %w", err)
		}
	}
	if err := checkHeader(header[:n], base, segmentName(base)); err != nil {
		if !errors.As(err, new(damaged)) {
			f.Close()
			return nil, nil, err
		}
		// All that the header states is also in the file's name. Batches carry their
		// own checksums, so nothing is trusted that should not be.
		r.headers = append(r.headers, base)
	}
	if l.identity == 0 && len(r.headers) == 0 {
		l.identity = identity(le.Uint64(header[24:]))
	}
	s.mark = newestMark(header[:n])
	if s.mark.Serial > 0 {
		r.proven = max(r.proven, s.mark.Next)
	}
	return s, r.readIndex(s), nil
}

// readIndex takes over what the index file covers. A damaged or missing one costs a
// scan.
func (r *recoverer) readIndex(s *segment) epochs {
	if !r.indexes[s.base] {
		return nil
	}
	name := indexName(s.base)
	b, err := vfs.ReadFile(r.fs, r.log.path(name), maxFrameBytes)
	if err != nil {
		return nil
	}
	x, err := decodeIndex(name, s.base, b)
	if err != nil {
		return nil
	}
	r.proven = max(r.proven, x.Next)
	size, err := s.handle.file.Size()
	if err != nil || x.Size > size {
		return nil
	}
	s.next, s.size, s.maxTimestamp, s.entries, s.indexed = x.Next, x.Size, x.MaxTimestamp, x.Entries, x.Size
	s.synced, s.syncedNext = x.Size, x.Next
	return x.Epochs
}

// scanSegment reads the batches after what the index covers. Position i is into
// Log.segments.
func (r *recoverer) scanSegment(i int, s *segment) error {
	l := r.log
	size, err := s.handle.file.Size()
	if err != nil {
		return fmt.Errorf("open segment: %w", err)
	}
	if s.size >= size {
		if size < segmentHeader {
			r.report.Clean = false
		}
		return nil
	}
	r.report.Clean = false
	r.report.ScannedBytes += size - s.size
	r.scanned = min(r.scanned, s.next)
	for sc := newScanner(s.handle.file, s.size, size); ; {
		h, _, err := sc.next(true)
		if err == errScanEnd {
			return nil
		}
		if bad := new(badBatch); errors.As(err, &bad) {
			r.stop(i, s.size, s.next, bad.Error())
			return nil
		}
		if err != nil {
			return fmt.Errorf("scan %s: %w", segmentName(s.base), err)
		}
		if h.BaseOffset != s.next || h.LeaderEpoch < l.epochs.last() {
			r.stop(i, s.size, s.next, fmt.Sprintf("a batch of offset %d and epoch %d stands where offset %d, epoch %d or later is next",
				h.BaseOffset, h.LeaderEpoch, s.next, l.epochs.last()))
			return nil
		}
		l.epochs = l.epochs.assign(h.LeaderEpoch, h.BaseOffset)
		if h.Idempotent() {
			r.pending = append(r.pending, h)
		}
		s.add(h, h.Size(), l.cfg.IndexIntervalBytes)
	}
}

func (r *recoverer) quarantine(name string, position int64, offset model.Offset, reason string) error {
	r.report.Quarantined = true
	r.report.Segment, r.report.Position, r.report.Offset, r.report.Reason = name, position, offset, reason
	return refusal.New(refusal.ReplicaQuarantined, path.Base(r.log.cfg.Dir),
		fmt.Sprintf("%s is damaged at byte %d, offset %d: %s", name, position, offset, reason),
		"set the directory aside and copy the partition from another replica")
}

// repair cuts the damaged tail and rewrites damaged headers, and makes all that is
// kept durable.
func (r *recoverer) repair() error {
	l := r.log
	if d := r.damage; d != nil {
		r.report.Segment, r.report.Position = segmentName(l.segments[d.segment].base), d.position
		r.report.Offset, r.report.Reason = d.offset, d.reason
		if err := r.cut(d); err != nil {
			return err
		}
	}
	if l.identity == 0 {
		l.identity = newIdentity()
	}
	for _, base := range r.headers {
		for _, s := range l.segments {
			if s.base != base {
				continue
			}
			r.report.RepairedHeaders++
			if _, err := s.handle.file.WriteAt(encodeHeader(base, l.identity), 0); err != nil {
				return fmt.Errorf("repair header of %s: %w", segmentName(base), err)
			}
			s.mark, s.synced = mark{}, 0
		}
	}
	for _, s := range l.segments {
		if s.secured, s.securedNext = s.size, s.next; s.synced == s.size {
			s.named = true // whatever vouches for the bytes was written after the name
			continue
		}
		if err := l.fixSegment(s); err != nil {
			return err
		}
	}
	return nil
}

// cut drops everything from the damage on: later segments, newest first, then the
// rest of the damaged one.
func (r *recoverer) cut(d *damage) error {
	l := r.log
	keep := d.segment + 1
	if d.position == segmentHeader && d.segment > 0 && l.segments[d.segment].base != d.offset {
		keep = d.segment // the segment belongs to another place altogether
	}
	for i := len(l.segments) - 1; i >= keep; i-- {
		s := l.segments[i]
		size, err := s.handle.file.Size()
		if err != nil {
			return fmt.Errorf("cut tail: %w", err)
		}
		r.report.TruncatedBytes += max(size-segmentHeader, 0)
		r.report.TruncatedBatches += countBatches(s.handle.file, segmentHeader, size)
		r.report.RemovedSegments++
		s.handle.file.Close()
		if err := l.removeSegment(s.base); err != nil {
			return err
		}
		l.segments = l.segments[:i]
	}
	l.epochs = l.epochs.truncateTo(d.offset)
	if err := r.cutSnapshots(d.offset); err != nil {
		return err
	}
	s := l.active()
	size, err := s.handle.file.Size()
	if err != nil {
		return fmt.Errorf("cut tail: %w", err)
	}
	if size > s.size {
		r.report.TruncatedBytes += size - s.size
		r.report.TruncatedBatches += countBatches(s.handle.file, s.size, size)
		if err := s.handle.file.Truncate(s.size); err != nil {
			return fmt.Errorf("cut tail: %w", err)
		}
		s.synced = min(s.synced, s.size-1) // the new length must be made durable
	}
	return nil
}

// cutSnapshots removes producer snapshots of beyond the end: later data could
// otherwise meet a state that it never had.
func (r *recoverer) cutSnapshots(end model.Offset) error {
	kept, err := r.log.removeSnapshotsAfter(r.snapshotsAscending, end)
	r.snapshotsAscending = kept
	return err
}

// countBatches counts the whole, sound batches between two positions, for the
// report.
func countBatches(f vfs.File, from, to int64) int {
	n := 0
	for sc := newScanner(f, from, to); ; n++ {
		if _, _, err := sc.next(true); err != nil {
			return n
		}
	}
}

// finish derives the rest of the state from the sound segments.
func (r *recoverer) finish() error {
	l := r.log
	l.end = l.active().next
	l.durable = l.end
	l.start = min(l.start, l.end)
	if kept, err := l.removeSnapshotsAfter(r.snapshotsAscending, l.end); err != nil {
		return err
	} else {
		r.snapshotsAscending = kept
	}
	l.epochs = l.epochs.deleteTo(l.start)
	if n := len(r.check.Epochs); n > 0 {
		if last := r.check.Epochs[n-1]; last.Start == l.end && last.Epoch > l.epochs.last() {
			l.epochs = l.epochs.assign(last.Epoch, last.Start)
		}
	}
	if err := r.dropBelowStart(); err != nil {
		return err
	}
	if err := r.loadProducers(); err != nil {
		return err
	}
	// Keep as many files open as evict would.
	for _, s := range l.segments[:len(l.segments)-1] {
		l.opened = append(l.opened, s)
	}
	for _, s := range l.segments[:len(l.segments)-1] {
		if s.indexed < s.size {
			l.writeIndex(l.indexOf(s))
		}
	}
	closeAll(l.evict())
	return nil
}

// dropBelowStart removes the segments that a DeleteTo had left.
func (r *recoverer) dropBelowStart() error {
	for _, base := range r.bases {
		if base < r.log.segments[0].base {
			if err := r.log.removeSegment(base); err != nil {
				return err
			}
		}
	}
	return nil
}
