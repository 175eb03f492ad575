package segment

import (
	"fmt"
	"path"
	"slices"
	"sync"

	"github.com/ister-mq/ister/broker/internal/model"
	"github.com/ister-mq/ister/broker/internal/record"
	"github.com/ister-mq/ister/broker/internal/vfs"
)

// The format is described, with diagrams, in docs/formats/journal.md.
const (
	journalMagic      = "ISTERJNL"
	journalHeader     = 4096 // bytes before the first entry, a block of its own
	entryMagic        = "JENT"
	entryHeader       = 64
	entryAlign        = 8
	journalFiles      = 2
	maxJournalEntries = 1 << 15 // per round

	// defaultJournalBytes is the size of one of the two files. Larger files mean
	// fewer checkpoints and a longer replay.
	defaultJournalBytes = 64 << 20
	minJournalBytes     = 24 << 10
	// journalStep is how far a file is filled with zeros ahead of its entries: a
	// sync within written space need not change the file's metadata.
	journalStep = 1 << 20
	// cutReserveShare sets an eighth of each file aside for cuts, so that a
	// truncation never waits for a checkpoint.
	cutReserveShare = 8
)

type entryKind uint32

const (
	entryData entryKind = 1 // batches that follow what the log holds
	entryCut  entryKind = 2 // earlier entries of the log are void from Base on
)

// entry is one log's part of a round.
type entry struct {
	Kind       entryKind
	Generation uint64
	Round      uint64
	Identity   identity
	Base       model.Offset // data: of the first batch; cut: first void offset
	Next       model.Offset // data: after the last batch
	Epoch      model.LeaderEpoch
	Left       uint16 // entries that follow in the same round
	Name       string // of the log's directory
	Payload    []byte
}

func (e *entry) size() int {
	return (entryHeader + len(e.Name) + len(e.Payload) + entryAlign - 1) / entryAlign * entryAlign
}

// append writes the entry's header and name, leaves room for the payload, and
// returns the buffer and that room. sealEntryEntry completes the entry.
func (e *entry) append(b []byte, payload int) (all, room []byte) {
	at := len(b)
	size := (entryHeader + len(e.Name) + payload + entryAlign - 1) / entryAlign * entryAlign
	b = slices.Grow(b, size)[:at+size]
	h := b[at:]
	clear(h[:entryHeader])
	copy(h, entryMagic)
	le.PutUint32(h[4:], uint32(entryHeader+len(e.Name)+payload))
	le.PutUint32(h[12:], uint32(e.Kind))
	le.PutUint64(h[16:], e.Generation)
	le.PutUint64(h[24:], e.Round)
	le.PutUint64(h[32:], uint64(e.Identity))
	le.PutUint64(h[40:], uint64(e.Base))
	le.PutUint64(h[48:], uint64(e.Next))
	le.PutUint32(h[56:], uint32(e.Epoch))
	le.PutUint16(h[60:], uint16(len(e.Name)))
	le.PutUint16(h[62:], e.Left)
	copy(h[entryHeader:], e.Name)
	clear(h[entryHeader+len(e.Name)+payload:])
	return b, h[entryHeader+len(e.Name):][:payload:payload]
}

// sealEntry computes the checksum of the entry at the start of b.
func sealEntry(b []byte) {
	n := le.Uint32(b[4:])
	le.PutUint32(b[8:], record.CRC32C(0, b[12:n]))
}

// decodeEntry reads the entry at the start of b; ok is false when no whole, sound
// entry stands there. Payload and name alias b.
func decodeEntry(b []byte) (e entry, ok bool) {
	if len(b) < entryHeader || string(b[:4]) != entryMagic {
		return entry{}, false
	}
	n := le.Uint32(b[4:])
	name := int(le.Uint16(b[60:]))
	if n < entryHeader || uint64(n) > uint64(len(b)) || entryHeader+name > int(n) ||
		record.CRC32C(0, b[12:n]) != le.Uint32(b[8:]) {
		return entry{}, false
	}
	return entry{
		Kind: entryKind(le.Uint32(b[12:])), Generation: le.Uint64(b[16:]), Round: le.Uint64(b[24:]),
		Identity: identity(le.Uint64(b[32:])), Base: model.Offset(le.Uint64(b[40:])), Next: model.Offset(le.Uint64(b[48:])),
		Epoch: model.LeaderEpoch(le.Uint32(b[56:])), Left: le.Uint16(b[62:]),
		Name: string(b[entryHeader : entryHeader+name]), Payload: b[entryHeader+name : n],
	}, true
}

// appendJournalHeader writes the block that opens a journal file.
func appendJournalHeader(b []byte, generation uint64) []byte {
	h := make([]byte, journalHeader)
	copy(h, journalMagic)
	le.PutUint16(h[8:], formatVersion)
	le.PutUint16(h[10:], journalHeader)
	le.PutUint64(h[16:], generation)
	le.PutUint32(h[12:], record.CRC32C(record.CRC32C(0, h[:12]), h[16:24]))
	return append(b, h...)
}

// decodeJournalHeader returns the file's generation, a damaged error, or a refusal
// for a newer version.
func decodeJournalHeader(name string, b []byte) (uint64, error) {
	if len(b) < journalHeader || string(b[:8]) != journalMagic {
		return 0, damaged(name + ": not a journal file")
	}
	if v := le.Uint16(b[8:]); v > formatVersion {
		return 0, newerVersion(name, v)
	}
	if n := le.Uint16(b[10:]); n != journalHeader {
		return 0, damaged(fmt.Sprintf("%s: header length %d", name, n))
	}
	if record.CRC32C(record.CRC32C(0, b[:12]), b[16:24]) != le.Uint32(b[12:]) {
		return 0, damaged(name + ": the header's checksum does not match")
	}
	return le.Uint64(b[16:]), nil
}

func journalName(i int) string { return fmt.Sprintf("journal-%d", i) }

// half is one of the journal's two files.
type half struct {
	file      vfs.File // nil until first used
	at        int64    // where the next entry goes; 0 before the header is written
	allocated int64    // bytes written at least once
	// logs holds, per log with entries in the file, the end of the newest. It is
	// kept until the file is overwritten: until then a replay would meet them.
	logs   map[identity]journalled
	free   bool // every entry is durable in its segment, so the file may be overwritten
	pinned bool // an entry could not be made durable in its segment: never free
}

type journalled struct {
	log *Log
	end model.Offset
}

// journal is the shared file that small rounds over many logs are made durable in.
// Two files take turns: while one fills up, the logs with entries in the other are
// synced, after which it may be overwritten.
type journal struct {
	fs    vfs.FS
	dir   string
	bytes int64 // of one file

	// writing is held across the I/O of a round or a cut. It comes after
	// Log.syncing and before mu in the lock order.
	writing    sync.Mutex
	buf        []byte
	generation uint64
	round      uint64 // of the next write; no number is left out, which replay relies on

	mu     sync.Mutex
	halves [journalFiles]half
	active int
	failed error // the journal is no longer written

	drains chan int // halves to be checkpointed; at most one at a time
}

func newJournal(fsys vfs.FS, dir string, size int64) *journal {
	if size == 0 {
		size = defaultJournalBytes
	}
	j := &journal{fs: fsys, dir: dir, bytes: max(size, minJournalBytes), drains: make(chan int, journalFiles)}
	for i := range j.halves {
		j.halves[i].free = true
	}
	return j
}

// reserve picks the file for a round of n bytes: the active one, or the other when
// it is free, in which case the one that was left goes to be checkpointed. ok is
// false when neither has room. j.writing is held.
func (j *journal) reserve(n int64, cut bool) (h *half, ok bool) {
	limit := j.bytes
	if !cut {
		limit -= j.bytes / cutReserveShare
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.failed != nil || journalHeader+n > limit {
		return nil, false
	}
	h = &j.halves[j.active]
	if h.at != 0 {
		if h.at+n <= limit {
			return h, true
		}
		other := 1 - j.active
		if !j.halves[other].free {
			return nil, false
		}
		j.drains <- j.active
		j.active = other
		h = &j.halves[other]
		h.at = 0
	}
	h.free, h.logs = false, map[identity]journalled{}
	return h, true
}

// open makes the file of a half when it is used for the first time.
func (j *journal) open(h *half) error {
	if h.file != nil {
		return nil
	}
	i := 0
	if h == &j.halves[1] {
		i = 1
	}
	f, err := j.fs.Create(path.Join(j.dir, journalName(i)))
	if err != nil {
		return fmt.Errorf("create journal: %w", err)
	}
	if err := j.fs.SyncDir(j.dir); err != nil {
		f.Close()
		return fmt.Errorf("create journal: %w", err)
	}
	h.file = f
	return nil
}

// begin starts j.buf for the next round in a half. A half that is used anew gets
// its header first, synced by itself: entries must never be found under the header
// of an earlier use. j.writing is held.
func (j *journal) begin(h *half) error {
	j.buf = j.buf[:0]
	if h.at != 0 {
		return nil
	}
	j.generation++
	err := j.open(h)
	if err == nil {
		err = j.put(h, appendJournalHeader(nil, j.generation))
	}
	return j.fail(err)
}

// write puts the sealed entries of j.buf at the end of a half and syncs them.
// j.writing is held.
func (j *journal) write(h *half) error {
	err := j.fail(j.put(h, j.buf))
	if err == nil {
		j.round++
	}
	return err
}

// fail ends the journal's use on any error: what the file holds is unknown then.
func (j *journal) fail(err error) error {
	if err != nil {
		j.mu.Lock()
		j.failed = err
		j.mu.Unlock()
	}
	return err
}

func (j *journal) put(h *half, b []byte) error {
	end := h.at + int64(len(b))
	if _, err := h.file.WriteAt(b, h.at); err != nil {
		return fmt.Errorf("write journal: %w", err)
	}
	h.allocated = max(h.allocated, end)
	if end+journalStep/4 > h.allocated && h.allocated < j.bytes {
		zeros := make([]byte, min(journalStep, j.bytes-h.allocated))
		if _, err := h.file.WriteAt(zeros, h.allocated); err != nil {
			return fmt.Errorf("extend journal: %w", err)
		}
		h.allocated += int64(len(zeros))
	}
	if err := h.file.Sync(); err != nil {
		return fmt.Errorf("sync journal: %w", err)
	}
	h.at = end
	return nil
}

// cut makes the journal's entries of a log void from off on, durably, if it has any
// there. The log's syncing is held.
func (j *journal) cut(id identity, name string, off model.Offset) error {
	j.writing.Lock()
	defer j.writing.Unlock()
	held := false
	j.mu.Lock()
	for i := range j.halves {
		e, ok := j.halves[i].logs[id]
		held = held || ok && e.end > off
	}
	failed := j.failed
	j.mu.Unlock()
	switch {
	case failed != nil:
		return fmt.Errorf("cut journal: it is no longer written: %w", failed)
	case !held:
		return nil
	}
	e := entry{Kind: entryCut, Identity: id, Base: off, Name: name}
	h, ok := j.reserve(int64(e.size()), true)
	if !ok {
		return fmt.Errorf("cut journal: no room for another cut before a checkpoint ends")
	}
	if err := j.begin(h); err != nil {
		return err
	}
	e.Generation, e.Round = j.generation, j.round
	j.buf, _ = e.append(j.buf, 0)
	sealEntry(j.buf)
	if err := j.write(h); err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	for i := range j.halves {
		if e, ok := j.halves[i].logs[id]; ok {
			e.end = min(e.end, off)
			j.halves[i].logs[id] = e
		}
	}
	return nil
}

// holders lists the logs with entries in half i.
func (j *journal) holders(i int) []*Log {
	j.mu.Lock()
	defer j.mu.Unlock()
	out := make([]*Log, 0, len(j.halves[i].logs))
	for _, e := range j.halves[i].logs {
		out = append(out, e.log)
	}
	return out
}

// holds reports whether the journal has entries of the log.
func (j *journal) holds(id identity) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	for i := range j.halves {
		if _, ok := j.halves[i].logs[id]; ok {
			return true
		}
	}
	return false
}

// forget drops a log whose entries are void; with pin set they are not, and could
// not be made durable elsewhere, so that the files must stay.
func (j *journal) forget(id identity, pin bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for i := range j.halves {
		if _, ok := j.halves[i].logs[id]; ok {
			delete(j.halves[i].logs, id)
			j.halves[i].pinned = j.halves[i].pinned || pin
		}
	}
}

// settled reports whether nothing in the files is needed any more.
func (j *journal) settled() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	for i := range j.halves {
		if len(j.halves[i].logs) > 0 || j.halves[i].pinned {
			return false
		}
	}
	return true
}

// release lets half i be overwritten.
func (j *journal) release(i int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.halves[i].free = !j.halves[i].pinned
}

// remove closes and unlinks the files, durably: every entry is in its segment.
func (j *journal) remove() error {
	j.close()
	return removeJournal(j.fs, j.dir)
}

func (j *journal) close() {
	for i := range j.halves {
		if f := j.halves[i].file; f != nil {
			f.Close()
			j.halves[i].file = nil
		}
	}
}

func removeJournal(fsys vfs.FS, dir string) error {
	removed := false
	for i := range journalFiles {
		switch err := fsys.Remove(path.Join(dir, journalName(i))); {
		case err == nil:
			removed = true
		case !vfs.IsNotExist(err):
			return fmt.Errorf("remove journal: %w", err)
		}
	}
	if !removed {
		return nil
	}
	if err := fsys.SyncDir(dir); err != nil {
		return fmt.Errorf("remove journal: %w", err)
	}
	return nil
}
