package quorum

import (
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"
	"github.com/hashicorp/raft"
)

const (
	// EntrySizeMax bounds one entry in bytes: a badger transaction must hold it.
	EntrySizeMax = 4 << 20

	memTableSize = 32 << 20 // badger's transaction limit is 15 % of it
	valueLogSize = 64 << 20
)

// Keys of the store: one letter, then the index (8 bytes, big endian) or a name.
const (
	logPrefix    = 'l'
	stablePrefix = 's'
)

// entryHeaderSize is version, type, term, time and data length; see
// docs/formats/raft-store.md.
const (
	entryHeaderSize = 1 + 1 + 8 + 8 + 4
	entryVersion    = 1
)

// errKeyNotFound has the text that raft looks for when a stable key is missing.
var errKeyNotFound = errors.New("not found")

// store is raft's log and stable store on one badger database with synced
// writes. Its log is contiguous: entries first to last, none missing.
type store struct {
	db *badger.DB

	mu          sync.RWMutex // guards what follows
	first, last uint64       // 0, 0: empty
	unlooked    int          // bytes stored since the last look for files without room

	dir string
	log *slog.Logger
}

func openStore(dir string, log *slog.Logger) (*store, error) {
	opts := badger.DefaultOptions(dir).
		WithLogger(badgerLog{log}).
		WithSyncWrites(true).
		WithDetectConflicts(false).
		WithMetricsEnabled(false).
		WithCompression(options.None).
		WithBlockCacheSize(0).
		WithMemTableSize(memTableSize).
		WithNumMemtables(2).
		WithNumCompactors(2).
		WithValueLogFileSize(valueLogSize).
		WithNumGoroutines(1)
	db, err := badger.Open(opts)
	if err != nil {
		return nil, fmt.Errorf("open raft store %s: %w", dir, err)
	}
	s := &store{db: db, dir: dir, log: log}
	s.reserve()
	if err := s.scan(); err != nil {
		_ = db.Close()
		return nil, fmt.Errorf("open raft store %s: %w", dir, err)
	}
	return s, nil
}

// reserveEvery is how much is stored between two looks for new files.
const reserveEvery = 1 << 20

// reserve gives the files that badger writes by way of memory all their blocks on
// the disk. They are made with holes, and a store into a hole of a full disk is
// no error but a signal (SIGBUS), which ends the process. Metadata is little, so
// a node with a full disk goes on with what is reserved. Where it cannot be had,
// the node runs as well, and a full disk may end it. s.mu is held, or s is new.
func (s *store) reserve() {
	s.unlooked = 0
	files, err := filepath.Glob(filepath.Join(s.dir, "*.mem"))
	for _, file := range files {
		if err == nil {
			err = allocate(file)
		}
	}
	if err != nil {
		s.log.Warn("room for the metadata log was not reserved", "reason", err.Error())
	}
}

// scan finds the first and last entry and checks that none is missing between.
func (s *store) scan() error {
	return s.db.View(func(txn *badger.Txn) error {
		it := txn.NewIterator(badger.IteratorOptions{Prefix: []byte{logPrefix}})
		defer it.Close()
		for it.Rewind(); it.Valid(); it.Next() {
			key := it.Item().Key()
			if len(key) != 9 {
				return fmt.Errorf("log key of %d bytes", len(key))
			}
			index := binary.BigEndian.Uint64(key[1:])
			if s.first == 0 {
				s.first = index
			} else if index != s.last+1 {
				return fmt.Errorf("log entries %d to %d are missing", s.last+1, index-1)
			}
			s.last = index
		}
		return nil
	})
}

func (s *store) close() error { return s.db.Close() }

// IsMonotonic tells raft that the log must have no gap after a restore.
func (s *store) IsMonotonic() bool { return true }

// FirstIndex implements raft.LogStore.
func (s *store) FirstIndex() (uint64, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.first, nil
}

// LastIndex implements raft.LogStore.
func (s *store) LastIndex() (uint64, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.last, nil
}

// GetLog implements raft.LogStore.
func (s *store) GetLog(index uint64, l *raft.Log) error {
	return s.db.View(func(txn *badger.Txn) error {
		item, err := txn.Get(logKey(index))
		if errors.Is(err, badger.ErrKeyNotFound) {
			return raft.ErrLogNotFound
		}
		if err != nil {
			return fmt.Errorf("read log entry %d: %w", index, err)
		}
		return item.Value(func(v []byte) error { return decodeEntry(index, v, l) })
	})
}

// StoreLog implements raft.LogStore.
func (s *store) StoreLog(l *raft.Log) error { return s.StoreLogs([]*raft.Log{l}) }

// StoreLogs implements raft.LogStore. The entries are durable when it returns.
func (s *store) StoreLogs(logs []*raft.Log) error {
	if len(logs) == 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	next := s.last + 1
	if s.last == 0 {
		next = logs[0].Index
	}
	txn := s.db.NewTransaction(true)
	defer func() { txn.Discard() }()
	for i, l := range logs {
		if l.Index != next+uint64(i) {
			return fmt.Errorf("store log entry %d: the next one is %d", l.Index, next+uint64(i))
		}
		key, value := logKey(l.Index), encodeEntry(l)
		s.unlooked += len(value)
		err := txn.Set(key, value)
		if errors.Is(err, badger.ErrTxnTooBig) {
			// Earlier entries may be durable alone: the log stays contiguous.
			if err := txn.Commit(); err != nil {
				return fmt.Errorf("store log entries: %w", err)
			}
			txn = s.db.NewTransaction(true)
			err = txn.Set(key, value)
		}
		if err != nil {
			return fmt.Errorf("store log entry %d: %w", l.Index, err)
		}
	}
	if err := txn.Commit(); err != nil {
		return fmt.Errorf("store log entries: %w", err)
	}
	if s.first == 0 {
		s.first = logs[0].Index
	}
	s.last = logs[len(logs)-1].Index
	if s.unlooked >= reserveEvery {
		s.reserve()
	}
	return nil
}

// DeleteRange implements raft.LogStore. A head is deleted upwards and a tail
// downwards, so that a crash in the middle leaves no gap.
func (s *store) DeleteRange(from, to uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	from, to = max(from, s.first), min(to, s.last)
	if s.last == 0 || from > to {
		return nil
	}
	if from != s.first && to != s.last {
		return fmt.Errorf("delete log entries %d to %d: it would leave a gap in %d to %d", from, to, s.first, s.last)
	}
	head := from == s.first
	txn := s.db.NewTransaction(true)
	defer func() { txn.Discard() }()
	for n := from; n <= to; n++ {
		index := n
		if !head {
			index = to - (n - from)
		}
		err := txn.Delete(logKey(index))
		if errors.Is(err, badger.ErrTxnTooBig) {
			if err := txn.Commit(); err != nil {
				return fmt.Errorf("delete log entries: %w", err)
			}
			txn = s.db.NewTransaction(true)
			err = txn.Delete(logKey(index))
		}
		if err != nil {
			return fmt.Errorf("delete log entry %d: %w", index, err)
		}
	}
	if err := txn.Commit(); err != nil {
		return fmt.Errorf("delete log entries: %w", err)
	}
	switch {
	case from == s.first && to == s.last:
		s.first, s.last = 0, 0
	case head:
		s.first = to + 1
	default:
		s.last = from - 1
	}
	return nil
}

// Set implements raft.StableStore.
func (s *store) Set(key, value []byte) error {
	err := s.db.Update(func(txn *badger.Txn) error { return txn.Set(stableKey(key), value) })
	if err != nil {
		return fmt.Errorf("store %s: %w", key, err)
	}
	return nil
}

// Get implements raft.StableStore.
func (s *store) Get(key []byte) ([]byte, error) {
	var value []byte
	err := s.db.View(func(txn *badger.Txn) error {
		item, err := txn.Get(stableKey(key))
		if errors.Is(err, badger.ErrKeyNotFound) {
			return errKeyNotFound
		}
		if err != nil {
			return fmt.Errorf("read %s: %w", key, err)
		}
		value, err = item.ValueCopy(nil)
		return err
	})
	return value, err
}

// SetUint64 implements raft.StableStore.
func (s *store) SetUint64(key []byte, value uint64) error {
	return s.Set(key, binary.BigEndian.AppendUint64(nil, value))
}

// GetUint64 implements raft.StableStore.
func (s *store) GetUint64(key []byte) (uint64, error) {
	b, err := s.Get(key)
	if err != nil {
		return 0, err
	}
	if len(b) != 8 {
		return 0, fmt.Errorf("read %s: %d bytes, expected 8", key, len(b))
	}
	return binary.BigEndian.Uint64(b), nil
}

func logKey(index uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte{logPrefix}, index)
}

func stableKey(key []byte) []byte { return append([]byte{stablePrefix}, key...) }

func encodeEntry(l *raft.Log) []byte {
	b := make([]byte, 0, entryHeaderSize+len(l.Data)+len(l.Extensions))
	b = append(b, entryVersion, byte(l.Type))
	b = binary.BigEndian.AppendUint64(b, l.Term)
	var at int64
	if !l.AppendedAt.IsZero() {
		at = l.AppendedAt.UnixNano()
	}
	b = binary.BigEndian.AppendUint64(b, uint64(at))
	b = binary.BigEndian.AppendUint32(b, uint32(len(l.Data)))
	b = append(b, l.Data...)
	return append(b, l.Extensions...)
}

func decodeEntry(index uint64, b []byte, l *raft.Log) error {
	if len(b) < entryHeaderSize {
		return fmt.Errorf("log entry %d: %d bytes, at least %d expected", index, len(b), entryHeaderSize)
	}
	if b[0] != entryVersion {
		return fmt.Errorf("log entry %d: format version %d, this build reads %d; use a newer build", index, b[0], entryVersion)
	}
	size := binary.BigEndian.Uint32(b[18:])
	if uint64(size) > uint64(len(b)-entryHeaderSize) {
		return fmt.Errorf("log entry %d: %d bytes of data in %d", index, size, len(b)-entryHeaderSize)
	}
	*l = raft.Log{
		Index: index,
		Term:  binary.BigEndian.Uint64(b[2:]),
		Type:  raft.LogType(b[1]),
	}
	if at := int64(binary.BigEndian.Uint64(b[10:])); at != 0 {
		l.AppendedAt = time.Unix(0, at)
	}
	// The bytes belong to badger and are gone after the transaction.
	rest := append([]byte(nil), b[entryHeaderSize:]...)
	l.Data = rest[:size:size]
	if len(rest) > int(size) {
		l.Extensions = rest[size:]
	}
	return nil
}
