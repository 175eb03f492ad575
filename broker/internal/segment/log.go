package segment

import (
	"errors"
	"fmt"
	"math"
	"path"
	"sync"

	"github.com/ister-mq/ister/broker/internal/model"
	"github.com/ister-mq/ister/broker/internal/record"
	"github.com/ister-mq/ister/broker/internal/refusal"
	"github.com/ister-mq/ister/broker/internal/vfs"
)

// Faults of use.
var (
	ErrClosed   = errors.New("segment: the log is closed")
	ErrPoisoned = errors.New("segment: the log is poisoned by an earlier disk fault")
)

// recentBatches is how many of the latest batches have their position remembered,
// so that readers at the tail find theirs at once.
const recentBatches = 64

// Log is one partition's log.
//
// One owner at a time may mutate it: AppendLeader, AppendFollower, TruncateTo,
// ResetTo, DeleteTo, AssignEpoch, CheckSequence, Producers, ExpireProducers and
// Close. Sync and the flusher, Read, the offset accessors and the epoch look-ups may
// run at any time beside it.
//
// Invariants: LogStart <= Durable <= LogEnd; offsets in [LogStart, LogEnd) are
// contiguous; bytes below the active segment's end never change, except by
// truncation; once a sync fails, nothing is appended, synced or called durable any
// more.
type Log struct {
	cfg Config

	// syncing is held by whoever syncs or truncates, across the I/O. It comes
	// before mu in the lock order.
	syncing sync.Mutex

	// Of the owner; the flusher reads identity while it holds syncing.
	identity  identity
	producers *producers
	headers   []record.Header // scratch

	mu         sync.Mutex // never held across I/O
	segments   []*segment // ascending, never empty while open; the last is active
	opened     []*segment // sealed segments that hold a file handle, oldest opening first
	start      model.Offset
	end        model.Offset
	durable    model.Offset
	epochs     epochs
	generation uint64 // grows when bytes are cut, so that readers know
	failed     error
	closed     bool
	recent     [recentBatches]position // a ring
	recentNext int
	hint       position // where the last read stopped
	flusher    *Flusher // set while attached
	flush      flushState
}

// position is where a batch begins.
type position struct {
	offset  model.Offset
	segment *segment // nil: no position
	at      int64
}

// Dir is the log's directory.
func (l *Log) Dir() string { return l.cfg.Dir }

// LogStart is the first offset kept.
func (l *Log) LogStart() model.Offset {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.start
}

// LogEnd is the offset that the next record gets.
func (l *Log) LogEnd() model.Offset {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.end
}

// Durable is the offset below which everything survives a crash.
func (l *Log) Durable() model.Offset {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.durable
}

// Bytes is the size of the log's batches.
func (l *Log) Bytes() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	var n int64
	for _, s := range l.segments {
		n += s.size - segmentHeader
	}
	return n
}

// Segments describes the files, oldest first. Retention may DeleteTo the Next of
// any but the last.
func (l *Log) Segments() []SegmentInfo {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]SegmentInfo, 0, len(l.segments))
	for _, s := range l.segments {
		out = append(out, SegmentInfo{s.base, s.next, s.size - segmentHeader, s.maxTimestamp})
	}
	return out
}

// Failed is the fault that poisoned the log, or nil.
func (l *Log) Failed() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failed
}

// active is the segment that is appended to; l.mu is held, or the owner calls.
func (l *Log) active() *segment { return l.segments[len(l.segments)-1] }

// usable returns why the log may not be changed; l.mu is held.
func (l *Log) usable() error {
	switch {
	case l.closed:
		return ErrClosed
	case l.failed != nil:
		return fmt.Errorf("%w: %w", ErrPoisoned, l.failed)
	}
	return nil
}

// poison makes every later change fail with err. The first fault stays.
func (l *Log) poison(err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failed == nil {
		l.failed = err
	}
	return err
}

// AppendLeader appends a client's batch, giving it the next offsets and the epoch,
// in place. The bytes are in the page cache when it returns, and readable; they are
// durable after a sync. After an error nothing was appended.
func (l *Log) AppendLeader(batch record.Checked, epoch model.LeaderEpoch) (first, last model.Offset, err error) {
	l.mu.Lock()
	err = l.usable()
	first, lastEpoch := l.end, l.epochs.last()
	l.mu.Unlock()
	if err != nil {
		return 0, 0, err
	}
	if epoch < lastEpoch || epoch < 0 {
		return 0, 0, refusal.New(refusal.FencedLeaderEpoch, path.Base(l.cfg.Dir),
			fmt.Sprintf("leader epoch %d is older than the log's epoch %d", epoch, lastEpoch), "look up the leader again")
	}
	h := batch.Stamp(first, epoch)
	if h.LastOffset() < first || h.LastOffset() >= math.MaxInt64-1 {
		return 0, 0, fmt.Errorf("append batch: offset %d is the last there is", first)
	}
	l.headers = append(l.headers[:0], h)
	if err := l.write(batch.Bytes()); err != nil {
		return 0, 0, err
	}
	return first, h.LastOffset(), nil
}

// AppendFollower appends batches exactly as the leader sent them. Each must begin at
// the log end and have a matching checksum; in an empty log the first may begin
// before it, if it holds it, which lowers the log start. After an error nothing was
// appended.
// Refusals: CORRUPT_BATCH, UNSUPPORTED_FORMAT; a gap in the offsets is a fault.
func (l *Log) AppendFollower(batches []byte) (last model.Offset, err error) {
	if err := l.alignStart(batches); err != nil {
		return 0, err
	}
	l.mu.Lock()
	err = l.usable()
	next, lastEpoch := l.end, l.epochs.last()
	l.mu.Unlock()
	if err != nil {
		return 0, err
	}
	l.headers = l.headers[:0]
	for rest := batches; len(rest) > 0; {
		h, err := record.Check(rest)
		if err != nil {
			return 0, fmt.Errorf("append fetched batch at offset %d: %w", next, err)
		}
		if h.BaseOffset != next {
			return 0, fmt.Errorf("append fetched batch: it begins at offset %d where %d is next", h.BaseOffset, next)
		}
		if h.LeaderEpoch < lastEpoch {
			return 0, fmt.Errorf("append fetched batch: leader epoch %d follows epoch %d", h.LeaderEpoch, lastEpoch)
		}
		l.headers = append(l.headers, h)
		next, lastEpoch, rest = h.NextOffset(), h.LeaderEpoch, rest[h.Size():]
	}
	if err := l.write(batches); err != nil {
		return 0, err
	}
	return next - 1, nil
}

// alignStart moves the start of an empty log back to the beginning of the first
// batch, when the log start that it took over from its leader lies inside one.
func (l *Log) alignStart(batches []byte) error {
	h, _, err := record.Parse(batches)
	if err != nil {
		return nil // the append finds out
	}
	l.mu.Lock()
	inside := l.start == l.end && h.BaseOffset < l.end && h.LastOffset() >= l.end
	l.mu.Unlock()
	if !inside {
		return nil
	}
	return l.ResetTo(h.BaseOffset)
}

// write puts the batches of l.headers at the end of the active segment with one
// pwrite, and publishes them.
func (l *Log) write(batches []byte) error {
	if len(l.headers) == 0 {
		return nil
	}
	last := l.headers[len(l.headers)-1].LastOffset()
	s := l.active()
	if s.size > segmentHeader && (s.size+int64(len(batches)) > l.cfg.SegmentBytes || last-s.base > math.MaxInt32) {
		if err := l.roll(); err != nil {
			return err
		}
		s = l.active()
	}
	if _, err := s.handle.file.WriteAt(batches, s.size); err != nil {
		err = fmt.Errorf("append to %s: %w", segmentName(s.base), err)
		// Part of it may stand beyond the end. Cut it, so that recovery cannot take
		// for appended what the caller was told was not.
		if cut := s.handle.file.Truncate(s.size); cut != nil {
			return l.poison(errors.Join(err, cut))
		}
		return err
	}
	now := l.cfg.Now()
	l.mu.Lock()
	for _, h := range l.headers {
		l.recent[l.recentNext%recentBatches] = position{h.BaseOffset, s, s.size}
		l.recentNext++
		s.add(h, h.Size(), l.cfg.IndexIntervalBytes)
		l.epochs = l.epochs.assign(h.LeaderEpoch, h.BaseOffset)
	}
	l.end = s.next
	l.mu.Unlock()
	for _, h := range l.headers {
		l.producers.take(h, now)
	}
	return nil
}

// roll seals the active segment and begins the next. Nothing is synced here: the
// sealed segment stays dirty until the next sync, which goes through the dirty
// segments in order.
func (l *Log) roll() error {
	old := l.active()
	// Derived, and checked when it is read: a failed or lost snapshot costs a
	// longer scan, nothing else.
	l.producers.expire(l.cfg.Now(), l.cfg.ProducerExpiry)
	l.snapshotProducers(l.end)
	s, err := l.createSegment(l.end)
	if err != nil {
		return err
	}
	l.mu.Lock()
	l.segments = append(l.segments, s)
	l.opened = append(l.opened, old)
	surplus := l.evict()
	flusher, end := l.flusher, l.end
	l.mu.Unlock()
	closeAll(surplus)
	if flusher != nil {
		flusher.Request(l, end, nil)
	}
	return nil
}

// keptSnapshots is how many producer snapshots stay, the newest first.
const keptSnapshots = 3

// snapshotProducers writes the producer state as of end, and drops old snapshots.
func (l *Log) snapshotProducers(end model.Offset) {
	if vfs.WriteFile(l.cfg.FS, l.path(producersName(end)), l.producers.encode(end), false) != nil {
		return
	}
	names, err := l.cfg.FS.List(l.cfg.Dir)
	if err != nil {
		return
	}
	kept := 0
	for i := len(names) - 1; i >= 0; i-- {
		if _, ok := offsetOf(names[i], producersSuffix); ok {
			if kept++; kept > keptSnapshots {
				_ = l.cfg.FS.Remove(l.path(names[i]))
			}
		}
	}
}

// AssignEpoch records that this replica leads from start on, also when no record
// follows (KIP-101). start is the log end of the new leader. It is not made durable
// before data of the epoch is: until then losing it changes no answer about data.
func (l *Log) AssignEpoch(epoch model.LeaderEpoch, start model.Offset) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usable(); err != nil {
		return err
	}
	if start != l.end {
		return fmt.Errorf("assign epoch %d: it begins at offset %d but the log ends at %d", epoch, start, l.end)
	}
	if epoch < l.epochs.last() || epoch < 0 {
		return refusal.New(refusal.FencedLeaderEpoch, path.Base(l.cfg.Dir),
			fmt.Sprintf("leader epoch %d is older than the log's epoch %d", epoch, l.epochs.last()), "look up the leader again")
	}
	l.epochs = l.epochs.assign(epoch, start)
	return nil
}

// LastEpoch is the latest leader epoch, NoEpoch when there has been none.
func (l *Log) LastEpoch() model.LeaderEpoch {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.epochs.last()
}

// EpochAt is the leader epoch of the record at off, NoEpoch before the first.
func (l *Log) EpochAt(off model.Offset) model.LeaderEpoch {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.epochs.at(off)
}

// Epochs lists the leader epochs with their first offsets, ascending.
func (l *Log) Epochs() []EpochStart {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]EpochStart{}, l.epochs...)
}

// EndOffsetFor answers OffsetForLeaderEpoch (KIP-320): the largest epoch not above
// the asked one and the offset where it ends, which for the latest epoch is the log
// end. NoEpoch and -1 for an epoch later than the latest.
func (l *Log) EndOffsetFor(epoch model.LeaderEpoch) (found model.LeaderEpoch, end model.Offset) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.epochs.endOffset(epoch, l.end)
}

// Close ends the use of the log. With clean set everything is synced and summed up,
// so that the next Open need not scan; the error is that of the sync. The log must
// be detached from its flusher. Readers that are under way finish.
func (l *Log) Close(clean bool) error {
	var err error
	if clean {
		if err = l.Sync(); err == nil {
			err = l.sumUp()
		}
	}
	l.syncing.Lock()
	defer l.syncing.Unlock()
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return ErrClosed
	}
	l.closed = true
	var files []vfs.File
	for _, s := range l.segments {
		files = append(files, l.forget(s)...)
	}
	l.mu.Unlock()
	closeAll(files)
	return err
}

// sumUp writes what lets Open trust the synced log without a scan.
func (l *Log) sumUp() error {
	l.snapshotProducers(l.end)
	l.mu.Lock()
	x := l.indexOf(l.active())
	check := checkpoint{Start: l.start, Epochs: l.epochs}
	loose := len(l.epochs) > 0 && l.epochs[len(l.epochs)-1].Start == l.end // an epoch without data
	l.mu.Unlock()
	l.writeIndex(x)
	if loose {
		return l.writeCheckpoint(check)
	}
	return nil
}

func (l *Log) writeCheckpoint(c checkpoint) error {
	if err := vfs.WriteFile(l.cfg.FS, l.path(checkpointName), c.encode(), true); err != nil {
		return fmt.Errorf("write checkpoint: %w", err)
	}
	return nil
}
