package segment

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"path"
	"sync"
	"testing"

	"github.com/ister-mq/ister/broker/internal/model"
	"github.com/ister-mq/ister/broker/internal/vfs"
)

// fleet is many logs on one flusher.
type fleet struct {
	t     *testing.T
	fs    vfs.FS
	f     *Flusher
	logs  []*Log
	refs  []*reference
	mu    sync.Mutex
	acked []model.Offset // guarded by mu: what callbacks have called durable
}

func flusherConfig(fsys vfs.FS) FlusherConfig {
	return FlusherConfig{FS: fsys, Dir: "data", LogsDir: "data", Parallel: 3, JournalBytes: minJournalBytes}
}

func fleetConfig(fsys vfs.FS, i int) Config {
	cfg := testConfig(fsys)
	cfg.Dir = fmt.Sprintf("data/p-%d", i)
	return cfg
}

func newFleet(t *testing.T, fsys vfs.FS, n int) *fleet {
	t.Helper()
	f, err := NewFlusher(flusherConfig(fsys))
	if err != nil {
		t.Fatal(err)
	}
	if d := f.Replayed().Damaged; len(d) > 0 {
		t.Fatalf("replay damaged %v", d)
	}
	fl := &fleet{t: t, fs: fsys, f: f, acked: make([]model.Offset, n)}
	for i := range n {
		l := mustOpen(t, fleetConfig(fsys, i))
		if err := f.Attach(l); err != nil {
			t.Fatal(err)
		}
		fl.logs = append(fl.logs, l)
		fl.refs = append(fl.refs, &reference{end: l.LogEnd(), start: l.LogStart()})
	}
	return fl
}

// request asks for what has been appended; the returned channel closes when it is
// answered.
func (fl *fleet) request(i int) <-chan struct{} {
	done := make(chan struct{})
	end := fl.logs[i].LogEnd()
	fl.f.Request(fl.logs[i], end, func(durable model.Offset, err error) {
		defer close(done)
		if errors.Is(err, ErrDetached) {
			return
		}
		if err != nil || durable < end {
			fl.t.Errorf("log %d: durable %d of %d, %v", i, durable, end, err)
			return
		}
		fl.mu.Lock()
		defer fl.mu.Unlock()
		fl.acked[i] = max(fl.acked[i], end)
	})
	return done
}

func (fl *fleet) append(i, seed int) {
	b := plain(seed, 1+seed%3)
	mustAppend(fl.t, fl.logs[i], b, 0)
	fl.refs[i].append(b)
}

func (fl *fleet) close() {
	fl.t.Helper()
	for _, l := range fl.logs {
		fl.f.Detach(l)
		if err := l.Close(true); err != nil {
			fl.t.Fatal(err)
		}
	}
	if err := fl.f.Close(); err != nil {
		fl.t.Fatal(err)
	}
}

func TestFlusherMakesDurableAndCallsInOrder(t *testing.T) {
	for _, journal := range []bool{false, true} {
		m := newMemory(t)
		cfg := flusherConfig(m)
		if !journal {
			cfg.Dir = ""
		}
		f, err := NewFlusher(cfg)
		if err != nil {
			t.Fatal(err)
		}
		const logs, requests = 20, 30
		var all sync.WaitGroup
		for i := range logs {
			l := mustOpen(t, fleetConfig(m, i))
			if err := f.Attach(l); err != nil {
				t.Fatal(err)
			}
			all.Add(1)
			go func() {
				defer all.Done()
				var answered []int // by one goroutine at a time, in order
				var each sync.WaitGroup
				for k := range requests {
					mustAppend(t, l, plain(k, 2), 0)
					each.Add(1)
					f.Request(l, l.LogEnd(), func(durable model.Offset, err error) {
						defer each.Done()
						if err != nil || durable < model.Offset(2*k+2) {
							t.Errorf("request %d: durable %d, %v", k, durable, err)
						}
						answered = append(answered, k)
					})
				}
				each.Wait()
				for k, got := range answered {
					if k != got {
						t.Errorf("answers came as %v", answered)
						break
					}
				}
				f.Detach(l)
				if err := l.Close(true); err != nil {
					t.Error(err)
				}
			}()
		}
		all.Wait()
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		names, err := m.List("data")
		if err != nil || len(names) != logs {
			t.Errorf("journal %v: left %v, %v", journal, names, err)
		}
	}
}

// TestCloseEmptiesJournal ends a flusher that still has logs attached, at every fill
// of its journal.
func TestCloseEmptiesJournal(t *testing.T) {
	for rounds := range 40 {
		m := newMemory(t)
		fl := newFleet(t, m, 8)
		for round := range rounds {
			for i := range fl.logs {
				fl.append(i, round)
			}
			for i, err := range fl.oneRound() {
				if err != nil {
					t.Fatalf("log %d: %v", i, err)
				}
			}
		}
		if err := fl.f.Close(); err != nil {
			t.Fatal(err)
		}
		crashed := m.CrashClone(0)
		names, _ := crashed.List("data")
		if len(names) != len(fl.logs) {
			t.Fatalf("%d rounds: left %v", rounds, names)
		}
		for i, ref := range fl.refs {
			if l := mustOpen(t, fleetConfig(crashed, i)); l.LogEnd() != ref.end {
				t.Fatalf("%d rounds: log %d ends at %d, want %d", rounds, i, l.LogEnd(), ref.end)
			}
		}
	}
}

// TestEveryCrashReplaysJournal cuts the power while a fleet of logs is flushed by
// way of the journal, and between truncations, resets, removals and checkpoints.
func TestEveryCrashReplaysJournal(t *testing.T) {
	const logs = 9
	replayed := int64(0)
	for seed := range seeds(12) {
		random := rand.New(rand.NewPCG(uint64(seed), 7))
		m := newMemory(t)
		fl := newFleet(t, m, logs)
		for generation := range 4 {
			for step := range 10 + random.IntN(40) {
				fl.step(random, seed*1000+step)
			}
			fl.mu.Lock()
			acked := append([]model.Offset{}, fl.acked...)
			fl.mu.Unlock()
			crashed := m.CrashClone(uint64(seed*10 + generation))
			old := fl
			fl = newFleet(t, crashed, logs)
			replayed += fl.f.Replayed().Bytes
			for i, l := range fl.logs {
				if l.LogEnd() < acked[i] || l.LogStart() != old.refs[i].start {
					t.Fatalf("seed %d, generation %d: log %d is %d to %d, want it from %d to %d at least",
						seed, generation, i, l.LogStart(), l.LogEnd(), old.refs[i].start, acked[i])
				}
				if got := readAll(t, l); !bytes.HasPrefix(old.refs[i].bytes(), got) {
					t.Fatalf("seed %d, generation %d: log %d holds %d bytes that are no prefix of what was written", seed, generation, i, len(got))
				}
				old.refs[i].truncate(l.LogEnd())
				fl.refs[i] = old.refs[i]
				fl.acked[i] = l.LogEnd()
			}
			old.close()
			m = crashed
		}
		fl.close()
		for i := range logs {
			l := mustOpen(t, fleetConfig(m, i))
			if !bytes.Equal(readAll(t, l), fl.refs[i].bytes()) {
				t.Fatalf("seed %d: log %d differs after a clean end", seed, i)
			}
		}
	}
	if replayed == 0 {
		t.Error("no crash left anything for the journal to give back")
	}
}

func (fl *fleet) step(random *rand.Rand, seed int) {
	i := random.IntN(len(fl.logs))
	l, ref := fl.logs[i], fl.refs[i]
	switch n := random.IntN(100); {
	case n < 60: // a round over many logs
		var waits []<-chan struct{}
		for k := range fl.logs {
			if random.IntN(5) > 0 {
				fl.append(k, seed+k)
				waits = append(waits, fl.request(k))
			}
		}
		if random.IntN(3) > 0 {
			for _, w := range waits {
				<-w
			}
		}
	case n < 70:
		fl.append(i, seed)
	case n < 80:
		<-fl.request(i)
	case n < 90:
		fl.settle(i)
		off := ref.start + model.Offset(random.Int64N(int64(ref.end-ref.start)+1))
		if err := l.TruncateTo(off); err != nil {
			fl.t.Fatal(err)
		}
		ref.truncate(off)
		fl.mu.Lock()
		fl.acked[i] = min(fl.acked[i], ref.end)
		fl.mu.Unlock()
	case n < 93:
		fl.settle(i)
		off := ref.start + model.Offset(random.Int64N(int64(l.Durable()-ref.start)+1))
		if err := l.DeleteTo(off); err != nil {
			fl.t.Fatal(err)
		}
		ref.start = max(ref.start, off)
	case n < 96: // the directory goes, and another log comes under its name
		fl.f.Detach(l)
		if err := l.Close(random.IntN(2) == 0); err != nil {
			fl.t.Fatal(err)
		}
		if _, err := MarkDeleted(fl.fs, l.Dir()); err != nil {
			fl.t.Fatal(err)
		}
		fl.renew(i, mustOpen(fl.t, l.cfg))
	case n < 98:
		fl.settle(i)
		if err := l.ResetTo(ref.end / 2); err != nil {
			fl.t.Fatal(err)
		}
		fl.refs[i] = &reference{start: l.LogStart(), end: l.LogEnd()}
		fl.mu.Lock()
		fl.acked[i] = l.LogEnd()
		fl.mu.Unlock()
	default: // closed and opened again
		fl.f.Detach(l)
		if err := l.Close(random.IntN(2) == 0); err != nil {
			fl.t.Fatal(err)
		}
		l = mustOpen(fl.t, l.cfg)
		if err := fl.f.Attach(l); err != nil {
			fl.t.Fatal(err)
		}
		fl.logs[i] = l
	}
}

// settle waits for the requests on a log: a test's reference cannot follow a
// truncation that overtakes one.
func (fl *fleet) settle(i int) { <-fl.request(i) }

func (fl *fleet) renew(i int, l *Log) {
	if err := fl.f.Attach(l); err != nil {
		fl.t.Fatal(err)
	}
	fl.logs[i], fl.refs[i] = l, &reference{}
	fl.mu.Lock()
	fl.acked[i] = 0
	fl.mu.Unlock()
}

// oneRound flushes all logs in one round: the round of the first log is held up in
// its callback while the others queue.
func (fl *fleet) oneRound() []error {
	out := make([]error, len(fl.logs))
	var all sync.WaitGroup
	hold, held := make(chan struct{}), make(chan struct{})
	fl.f.Request(fl.logs[0], 0, func(model.Offset, error) { close(held); <-hold })
	<-held
	for i, l := range fl.logs {
		all.Add(1)
		fl.f.Request(l, l.LogEnd(), func(_ model.Offset, err error) { out[i] = err; all.Done() })
	}
	close(hold)
	all.Wait()
	return out
}

func TestJournalDamageInTheMiddleIsRefused(t *testing.T) {
	m := newMemory(t)
	fl := newFleet(t, m, 8)
	for round := range 3 {
		for i := range fl.logs {
			fl.append(i, round)
		}
		fl.oneRound()
	}
	crashed := m.CrashClone(0)
	name := path.Join("data", journalName(0))
	f, err := crashed.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte{0xff}, journalHeader+40); err != nil {
		t.Fatal(err)
	}
	if _, err := NewFlusher(flusherConfig(crashed)); err == nil {
		t.Fatal("a damaged journal was replayed")
	}
	fl.close()
}

func TestJournalFaultPoisonsItsRound(t *testing.T) {
	faulty := vfs.NewFaulty(newMemory(t))
	fl := newFleet(t, faulty, 8)
	faulty.Fail(func(op vfs.Op, name string) error {
		if op == vfs.OpSync && path.Base(name) == journalName(0) {
			return io.ErrShortWrite
		}
		return nil
	})
	for i := range fl.logs {
		fl.append(i, i)
	}
	for i, err := range fl.oneRound() {
		l := fl.logs[i]
		if i == 0 { // synced in place, to hold up the round
			if err != nil || l.Failed() != nil {
				t.Errorf("log 0: %v, failed %v", err, l.Failed())
			}
		} else if !errors.Is(err, io.ErrShortWrite) || l.Failed() == nil || l.Durable() != 0 {
			t.Errorf("log %d: %v, failed %v, durable %d", i, err, l.Failed(), l.Durable())
		}
		fl.f.Detach(l)
		_ = l.Close(false)
	}
	_ = fl.f.Close()
}

// FuzzJournal replays arbitrary bytes beside a sound log: no panic, and the log is
// whole afterwards, or quarantined.
func FuzzJournal(f *testing.F) {
	e := entry{Kind: entryData, Generation: 1, Identity: 5, Base: 0, Next: 2, Name: "p-0"}
	b, room := e.append(nil, len(plain(1, 2)))
	copy(room, plain(1, 2))
	sealEntry(b)
	f.Add(append(appendJournalHeader(nil, 1), b...), true)
	f.Add(append(appendJournalHeader(nil, 2), b...), true)
	f.Add(b, false)
	f.Add([]byte(journalMagic), false)
	f.Fuzz(func(t *testing.T, b []byte, seal bool) {
		m := newMemory(t)
		l := mustOpen(t, fleetConfig(m, 0))
		if seal && len(b) > journalHeader+entryHeader {
			// Reach what lies behind the checksum.
			le.PutUint64(b[journalHeader+32:], uint64(l.identity))
			if n := le.Uint32(b[journalHeader+4:]); n >= entryHeader && int(n) <= len(b)-journalHeader {
				sealEntry(b[journalHeader:])
			}
		}
		mustAppend(t, l, plain(1, 1), 0)
		if err := errors.Join(l.Close(true), vfs.WriteFile(m, "data/"+journalName(0), b, true)); err != nil {
			t.Fatal(err)
		}
		flusher, err := NewFlusher(flusherConfig(m))
		if err != nil {
			return
		}
		l, r, err := Open(fleetConfig(m, 0))
		if err == nil && l.LogEnd() < 1 || err != nil && !r.Quarantined {
			t.Errorf("open: %v, %+v", err, r)
		}
		if err := flusher.Close(); err != nil {
			t.Error(err)
		}
	})
}
