package segment

import (
	"errors"
	"fmt"
	"io"
	"path"
	"sort"

	"github.com/ister-mq/ister/broker/internal/model"
	"github.com/ister-mq/ister/broker/internal/record"
	"github.com/ister-mq/ister/broker/internal/refusal"
)

const (
	// readAhead is read beyond what was asked, so that the batch before the wanted
	// one, where the index points, does not cost a second read.
	readAhead = 4 << 10
	// maxDecodedBytes bounds the unpacking of one batch for a time look-up.
	maxDecodedBytes = 64 << 20
)

// Read returns whole batches, the first of which holds from, at most maxBytes of
// them and none that ends at or beyond upTo. With atLeastOne the first batch is
// returned however large it is. Nothing to return is (nil, nil): from at the log
// end, or at or beyond upTo. Each batch's checksum is verified. Refusal:
// OFFSET_OUT_OF_RANGE below the log start or beyond the log end. A *CorruptError
// means that the replica is damaged.
func (l *Log) Read(from model.Offset, maxBytes int, upTo model.Offset, atLeastOne bool) ([]byte, error) {
	return l.ReadInto(nil, from, maxBytes, upTo, atLeastOne)
}

// ReadInto is Read into buf's memory, which is replaced when it is too small. The
// batches need not begin at the start of that memory.
func (l *Log) ReadInto(buf []byte, from model.Offset, maxBytes int, upTo model.Offset, atLeastOne bool) ([]byte, error) {
	for {
		out, generation, err := l.readOnce(buf, from, maxBytes, upTo, atLeastOne)
		if err == nil || !errors.As(err, new(*CorruptError)) {
			return out, err
		}
		// The bytes may have been cut and written anew under the read: look again.
		l.mu.Lock()
		same := generation == l.generation
		l.mu.Unlock()
		if same {
			return nil, err
		}
	}
}

// place is where to read, as seen at one moment.
type place struct {
	segment    *segment
	at         int64 // at or before the wanted batch
	limit      int64 // end of the segment's batches
	next       model.Offset
	generation uint64
	start, end model.Offset
}

// locate finds the segment and a position for from; a nil segment when from is the
// log end.
func (l *Log) locate(from model.Offset) (place, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := place{generation: l.generation, start: l.start, end: l.end}
	switch {
	case l.closed:
		return p, ErrClosed
	case from < l.start || from > l.end:
		return p, refusal.New(refusal.OffsetOutOfRange, path.Base(l.cfg.Dir),
			fmt.Sprintf("offset %d is outside the log, which begins at %d and ends at %d", from, l.start, l.end),
			"read from the log start or the log end")
	case from == l.end:
		return p, nil
	}
	i := sort.Search(len(l.segments), func(i int) bool { return l.segments[i].next > from })
	s := l.segments[i]
	p.segment, p.limit, p.next = s, s.size, s.next
	p.at = l.positionIn(s, from)
	return p, nil
}

// positionIn is the best known position at or before from in s; l.mu is held.
func (l *Log) positionIn(s *segment, from model.Offset) int64 {
	if l.hint.segment == s && l.hint.offset == from {
		return l.hint.at
	}
	if s == l.active() {
		for k := 1; k <= recentBatches && k <= l.recentNext; k++ {
			p := l.recent[(l.recentNext-k)%recentBatches]
			if p.segment != s {
				break
			}
			if p.offset <= from {
				return p.at
			}
		}
	}
	return floor(s.entries, s.base, from)
}

func (l *Log) readOnce(buf []byte, from model.Offset, maxBytes int, upTo model.Offset, atLeastOne bool) ([]byte, uint64, error) {
	p, err := l.locate(from)
	if err != nil || p.segment == nil || from >= upTo {
		return nil, p.generation, err
	}
	h, err := l.acquire(p.segment)
	if err != nil {
		return nil, p.generation, err
	}
	defer l.release(h)
	if p.at == segmentHeader {
		// The index may have been loaded just now.
		l.mu.Lock()
		p.at = l.positionIn(p.segment, from)
		l.mu.Unlock()
	}
	want := int64(max(maxBytes, 0)) + readAhead
	for {
		n := min(want, p.limit-p.at)
		b, err := readRange(h.file, buf, p.at, n)
		if err != nil {
			return nil, p.generation, fmt.Errorf("read %s: %w", segmentName(p.segment.base), err)
		}
		if int64(len(b)) < n {
			return nil, p.generation, &CorruptError{segmentName(p.segment.base), p.at, from, io.ErrUnexpectedEOF}
		}
		batches, skipped, need, err := take(b, from, upTo, maxBytes, atLeastOne)
		if err != nil {
			return nil, p.generation, &CorruptError{segmentName(p.segment.base), p.at + int64(skipped), from, err}
		}
		if need > 0 {
			// The wanted batch lies beyond what was read, or is larger.
			p.at += int64(skipped)
			if p.at+int64(need) > p.limit {
				return nil, p.generation, &CorruptError{segmentName(p.segment.base), p.at, from, record.ErrShort}
			}
			want, buf = max(want, int64(need)), b
			continue
		}
		l.remember(p, p.at+int64(skipped+len(batches)), batches)
		if len(batches) == 0 {
			return nil, p.generation, nil
		}
		return batches, p.generation, nil
	}
}

// remember keeps where a reader stopped, since it will go on there.
func (l *Log) remember(p place, at int64, batches []byte) {
	if len(batches) == 0 || at >= p.limit {
		return
	}
	h, next := record.Header{}, batches
	for len(next) > 0 {
		var err error
		if _, next, h, err = record.Next(next); err != nil {
			return
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.generation == p.generation {
		l.hint = position{h.NextOffset(), p.segment, at}
	}
}

// readRange preads n bytes into buf's memory, or fresh memory when it is too small.
func readRange(f io.ReaderAt, buf []byte, at, n int64) ([]byte, error) {
	if int64(cap(buf)) < n {
		buf = make([]byte, n)
	}
	got, err := f.ReadAt(buf[:n], at)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return buf[:got], nil
}

// take picks from b the batches to return. skipped is the bytes before the first of
// them. need > 0 asks for that many bytes from skipped on, because the wanted batch
// is not whole in b.
func take(b []byte, from, upTo model.Offset, maxBytes int, atLeastOne bool) (batches []byte, skipped, need int, err error) {
	taken, next := 0, from
	for {
		h, size, err := record.Parse(b[skipped+taken:])
		if errors.Is(err, record.ErrShort) {
			switch {
			case taken > 0:
				return b[skipped : skipped+taken], skipped, 0, nil
			case size == 0:
				return nil, skipped, record.HeaderSize, nil
			case h.LastOffset() < from:
				return nil, skipped, size + record.HeaderSize, nil
			case h.LastOffset() >= upTo || !atLeastOne && size > maxBytes:
				return nil, skipped, 0, nil
			}
			return nil, skipped, size, nil
		}
		if err != nil {
			return nil, skipped + taken, 0, err
		}
		if taken == 0 && h.LastOffset() < from {
			skipped += size
			continue
		}
		// Offsets lie outside the checksum.
		if taken == 0 && h.BaseOffset > from || taken > 0 && h.BaseOffset != next {
			return nil, skipped + taken, 0, fmt.Errorf("a batch of offset %d stands where offset %d is next", h.BaseOffset, next)
		}
		if h.LastOffset() >= upTo || taken+size > maxBytes && (taken > 0 || !atLeastOne) {
			return b[skipped : skipped+taken], skipped, 0, nil
		}
		if _, err := record.Check(b[skipped+taken:]); err != nil {
			return nil, skipped + taken, 0, err
		}
		taken, next = taken+size, h.NextOffset()
	}
}

// each calls do with every batch that begins in [from, to), in order, its checksum
// verified, until do returns false. Segments are read a window at a time.
func (l *Log) each(from, to model.Offset, do func(h record.Header, batch []byte) bool) error {
	for from < to {
		p, err := l.locate(from)
		if err != nil || p.segment == nil {
			return err
		}
		h, err := l.acquire(p.segment)
		if err != nil {
			return err
		}
		more, err := eachIn(h.file, p, from, to, do)
		l.release(h)
		if err != nil || !more {
			return err
		}
		from = p.next
	}
	return nil
}

func eachIn(f io.ReaderAt, p place, from, to model.Offset, do func(record.Header, []byte) bool) (more bool, err error) {
	next := model.Offset(-1)
	for sc := newScanner(f, p.at, p.limit); ; {
		at := sc.at
		h, batch, err := sc.next(true)
		if err == errScanEnd {
			return true, nil
		}
		if bad := new(badBatch); errors.As(err, &bad) {
			return false, &CorruptError{segmentName(p.segment.base), at, from, bad.err}
		}
		if err != nil {
			return false, fmt.Errorf("read %s: %w", segmentName(p.segment.base), err)
		}
		if next >= 0 && h.BaseOffset != next {
			return false, &CorruptError{segmentName(p.segment.base), at, from,
				fmt.Errorf("a batch of offset %d stands where offset %d is next", h.BaseOffset, next)}
		}
		if next = h.NextOffset(); h.LastOffset() < from {
			continue
		}
		if h.BaseOffset >= to || !do(h, batch) {
			return false, nil
		}
	}
}

// CRC is the CRC32C over the batches that begin in [from, to), as stored, with from
// raised to the log start. Replicas that agree on those records have the same.
func (l *Log) CRC(from, to model.Offset) (uint32, error) {
	var sum uint32
	from = max(from, l.LogStart())
	err := l.each(from, min(to, l.LogEnd()), func(h record.Header, batch []byte) bool {
		if h.BaseOffset >= from {
			sum = record.CRC32C(sum, batch)
		}
		return true
	})
	return sum, err
}

// OffsetForTime finds the first record with a timestamp of at least ms: its offset,
// timestamp and leader epoch. ok is false when there is none. Records inside a batch
// that cannot be unpacked count with the batch's first offset.
func (l *Log) OffsetForTime(ms int64) (off model.Offset, ts int64, epoch model.LeaderEpoch, ok bool, err error) {
	l.mu.Lock()
	start, end, closed := l.start, l.end, l.closed
	var found *segment
	var base model.Offset
	for _, s := range l.segments {
		if s.maxTimestamp >= ms && s.next > start && s.size > segmentHeader {
			found, base = s, s.base
			break
		}
	}
	l.mu.Unlock()
	if closed {
		return 0, 0, 0, false, ErrClosed
	}
	if found == nil {
		return 0, 0, 0, false, nil
	}
	if from := l.timeFloor(found, ms); from > base {
		base = from
	}
	err = l.each(max(base, start), end, func(h record.Header, batch []byte) bool {
		if h.MaxTimestamp < ms || h.LastOffset() < start {
			return true
		}
		if off, ts, ok = firstInBatch(h, batch, start, ms); ok {
			epoch = h.LeaderEpoch
		}
		return !ok
	})
	return off, ts, epoch, ok, err
}

// timeFloor is the offset in s to look for ms from.
func (l *Log) timeFloor(s *segment, ms int64) model.Offset {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := sort.Search(len(s.entries), func(i int) bool { return s.entries[i].MaxBefore >= ms })
	if i == 0 {
		return s.base
	}
	return s.base + model.Offset(s.entries[i-1].Relative)
}

func firstInBatch(h record.Header, batch []byte, start model.Offset, ms int64) (model.Offset, int64, bool) {
	if h.LogAppendTime() {
		return max(h.BaseOffset, start), h.MaxTimestamp, true
	}
	recs, err := record.Decode(batch, maxDecodedBytes)
	if err != nil {
		return max(h.BaseOffset, start), h.MaxTimestamp, true
	}
	for _, rec := range recs {
		if rec.Timestamp >= ms && rec.Offset >= start {
			return rec.Offset, rec.Timestamp, true
		}
	}
	return 0, 0, false
}
