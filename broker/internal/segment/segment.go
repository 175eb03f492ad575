package segment

import (
	"fmt"

	"github.com/ister-mq/ister/broker/internal/model"
	"github.com/ister-mq/ister/broker/internal/record"
	"github.com/ister-mq/ister/broker/internal/vfs"
)

// maxOpenSegments bounds the sealed segments of one log that keep a file handle and
// their index in memory.
const maxOpenSegments = 4

// segment is one file of the log. Its fields are guarded by Log.mu.
type segment struct {
	base model.Offset

	next         model.Offset // offset after the last batch
	size         int64        // position after the last batch
	maxTimestamp int64

	synced     int64        // bytes known durable in the file
	syncedNext model.Offset // offset after them

	secured     int64        // bytes known durable in the file or in the journal
	securedNext model.Offset // offset after them
	named       bool         // the directory entry is durable
	mark        mark         // the last one written to the header
	indexed     int64        // bytes covered by the index file; 0 without one

	// entries is the sparse index; it is in memory whenever handle is set, and
	// while there is no index file that covers the segment.
	entries []indexEntry
	handle  *handle // nil while the file is closed
	gone    bool    // removed from the log
}

// handle is an open file shared by the users that hold a reference to it.
type handle struct {
	file   vfs.File
	refs   int  // guarded by Log.mu
	doomed bool // guarded by Log.mu: close at the last release
}

// add takes one batch that was written at s.size into the segment's summary.
func (s *segment) add(h record.Header, size, interval int) {
	if n := len(s.entries); n == 0 || s.size-int64(s.entries[n-1].Position) >= int64(interval) {
		s.entries = append(s.entries, indexEntry{uint32(h.BaseOffset - s.base), uint32(s.size), s.maxTimestamp})
	}
	s.size += int64(size)
	s.next = h.NextOffset()
	s.maxTimestamp = max(s.maxTimestamp, h.MaxTimestamp)
}

// acquire opens the segment's file if need be, and takes a reference.
func (l *Log) acquire(s *segment) (*handle, error) {
	l.mu.Lock()
	if h := s.handle; h != nil {
		h.refs++
		l.mu.Unlock()
		return h, nil
	}
	limit, cached := s.size, s.entries
	l.mu.Unlock()

	// Slow path, without the lock: two readers may both open; the second lets go.
	f, err := l.cfg.FS.Open(l.path(segmentName(s.base)))
	if err != nil {
		return nil, fmt.Errorf("open segment: %w", err)
	}
	entries := cached
	if entries == nil {
		if entries, err = l.loadEntries(s.base, f, limit); err != nil {
			f.Close()
			return nil, err
		}
	}
	h := &handle{file: f, refs: 1}
	var surplus []vfs.File
	l.mu.Lock()
	switch {
	case s.handle != nil:
		surplus = append(surplus, f)
		h = s.handle
		h.refs++
	case s.gone || l.closed:
		h.doomed = true // the caller reads what is left of it, then it goes
	default:
		s.handle, s.entries = h, entries
		l.opened = append(l.opened, s)
		surplus = l.evict()
	}
	l.mu.Unlock()
	closeAll(surplus)
	return h, nil
}

// loadEntries reads the index file, or rebuilds the index from the segment.
func (l *Log) loadEntries(base model.Offset, f vfs.File, limit int64) ([]indexEntry, error) {
	name := indexName(base)
	if b, err := vfs.ReadFile(l.cfg.FS, l.path(name), maxFrameBytes); err == nil {
		if x, err := decodeIndex(name, base, b); err == nil && x.Size == limit {
			return x.Entries, nil
		}
	}
	rebuilt := &segment{base: base, next: base, size: segmentHeader, maxTimestamp: noTimestamp}
	for sc := newScanner(f, segmentHeader, limit); ; {
		at := sc.at
		h, _, err := sc.next(false)
		if err == errScanEnd {
			return rebuilt.entries, nil
		}
		if err != nil {
			return nil, &CorruptError{segmentName(base), at, rebuilt.next, err}
		}
		rebuilt.add(h, h.Size(), l.cfg.IndexIntervalBytes)
	}
}

// evict closes sealed segments beyond the bound, oldest opening first; l.mu is held
// and the caller closes what it returns without it.
func (l *Log) evict() []vfs.File {
	var out []vfs.File
	for i := 0; len(l.opened) > maxOpenSegments && i < len(l.opened); {
		s := l.opened[i]
		if s.handle.refs > 0 || s == l.active() || s.synced < s.size || s.indexed < s.size {
			i++
			continue
		}
		out = append(out, s.handle.file)
		s.handle, s.entries = nil, nil
		l.opened = append(l.opened[:i], l.opened[i+1:]...)
	}
	return out
}

// release gives a reference back.
func (l *Log) release(h *handle) {
	l.mu.Lock()
	h.refs--
	last := h.refs == 0 && h.doomed
	l.mu.Unlock()
	if last {
		h.file.Close()
	}
}

// forget takes a segment out of the log's handles; l.mu is held. The caller closes
// what it returns.
func (l *Log) forget(s *segment) []vfs.File {
	s.gone = true
	for i, o := range l.opened {
		if o == s {
			l.opened = append(l.opened[:i], l.opened[i+1:]...)
			break
		}
	}
	h := s.handle
	s.handle, s.entries = nil, nil
	if h == nil {
		return nil
	}
	if h.refs > 0 {
		h.doomed = true
		return nil
	}
	return []vfs.File{h.file}
}

func closeAll(files []vfs.File) {
	for _, f := range files {
		f.Close()
	}
}

// createSegment makes a segment file with its header; neither is durable yet.
func (l *Log) createSegment(base model.Offset) (*segment, error) {
	name := l.path(segmentName(base))
	f, err := l.cfg.FS.Create(name)
	if err != nil {
		return nil, fmt.Errorf("create segment: %w", err)
	}
	if _, err := f.WriteAt(encodeHeader(base, l.identity), 0); err != nil {
		f.Close()
		// Best effort: a leftover without a header is repaired or dropped on open.
		_ = l.cfg.FS.Remove(name)
		return nil, fmt.Errorf("write segment header: %w", err)
	}
	return &segment{
		base: base, next: base, size: segmentHeader, maxTimestamp: noTimestamp, syncedNext: base, securedNext: base,
		handle: &handle{file: f},
	}, nil
}
