package quorum

import (
	"fmt"
	"io"
	"log/slog"
	"sync/atomic"

	"github.com/hashicorp/raft"
	"github.com/ister-mq/ister/broker/internal/model"
)

// Entry is one committed entry.
type Entry struct {
	Index model.Index
	Data  []byte
}

// Machine is what the committed entries drive. Apply and Restore are called from
// one goroutine, in order. Apply returns one result per entry, which Propose
// gives to the caller on the node that proposed it.
type Machine interface {
	Apply(entries []Entry) []any
	// Snapshot captures the present state; the function it returns encodes it
	// later, beside further Apply calls.
	Snapshot() func() ([]byte, error)
	Restore(snapshot []byte) error
}

// restoreAlarm is how many restores of one snapshot in a row are no longer
// chance: a diverged follower that never catches up (hashicorp/raft issue 697).
const restoreAlarm = 3

// snapshotSizeMax bounds a snapshot that is read into memory.
const snapshotSizeMax = 4 << 30

// fsm is raft's view of the Machine.
type fsm struct {
	machine Machine
	log     *slog.Logger
	// applied is called after each batch with its last index.
	applied func(index uint64)

	entries []Entry // reused

	opened   atomic.Uint64 // index of the snapshot opened last
	restored uint64        // index restored last
	repeats  int
	alarms   atomic.Uint64
}

// Apply implements raft.FSM.
func (f *fsm) Apply(l *raft.Log) any { return f.ApplyBatch([]*raft.Log{l})[0] }

// ApplyBatch implements raft.BatchingFSM.
func (f *fsm) ApplyBatch(logs []*raft.Log) []any {
	f.entries = f.entries[:0]
	for _, l := range logs {
		if l.Type == raft.LogCommand {
			f.entries = append(f.entries, Entry{Index: model.Index(l.Index), Data: l.Data})
		}
	}
	results := f.machine.Apply(f.entries)
	clear(f.entries)
	if len(results) != len(f.entries) {
		panic(fmt.Sprintf("quorum: %d results for %d entries", len(results), len(f.entries)))
	}
	out := make([]any, 0, len(logs))
	for _, l := range logs {
		if l.Type != raft.LogCommand {
			out = append(out, nil)
			continue
		}
		out = append(out, results[0])
		results = results[1:]
	}
	f.repeats = 0
	f.applied(logs[len(logs)-1].Index)
	return out
}

// Snapshot implements raft.FSM.
func (f *fsm) Snapshot() (raft.FSMSnapshot, error) { return snapshot(f.machine.Snapshot()), nil }

// Restore implements raft.FSM.
func (f *fsm) Restore(r io.ReadCloser) error {
	defer func() { _ = r.Close() }()
	b, err := io.ReadAll(io.LimitReader(r, snapshotSizeMax+1))
	if err != nil {
		return fmt.Errorf("read snapshot: %w", err)
	}
	if len(b) > snapshotSizeMax {
		return fmt.Errorf("read snapshot: more than %d bytes", snapshotSizeMax)
	}
	if err := f.machine.Restore(b); err != nil {
		return fmt.Errorf("restore snapshot: %w", err)
	}
	f.watchRepeats(f.opened.Load())
	return nil
}

func (f *fsm) watchRepeats(index uint64) {
	if index != f.restored {
		f.restored, f.repeats = index, 0
	}
	f.repeats++
	if f.repeats >= restoreAlarm {
		f.alarms.Add(1)
		if f.repeats == restoreAlarm || f.repeats%1000 == 0 {
			f.log.Error("metadata snapshot restored again and again; stop this node, delete its raft directory and restart it",
				"index", index, "repeats", f.repeats, "reason", "hashicorp/raft issue 697")
		}
	}
}

// snapshot encodes a captured state.
type snapshot func() ([]byte, error)

// Persist implements raft.FSMSnapshot.
func (s snapshot) Persist(sink raft.SnapshotSink) error {
	b, err := s()
	if err == nil {
		_, err = sink.Write(b)
	}
	if err != nil {
		_ = sink.Cancel()
		return fmt.Errorf("write snapshot: %w", err)
	}
	return sink.Close()
}

// Release implements raft.FSMSnapshot.
func (s snapshot) Release() {}

// watchedSnapshots notes which snapshot is opened, so that the machine can see
// the same one restored again.
type watchedSnapshots struct {
	raft.SnapshotStore
	fsm *fsm
}

// Open implements raft.SnapshotStore.
func (w watchedSnapshots) Open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	meta, r, err := w.SnapshotStore.Open(id)
	if err == nil {
		w.fsm.opened.Store(meta.Index)
	}
	return meta, r, err
}
