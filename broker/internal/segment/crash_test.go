package segment

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"strconv"
	"testing"
	"time"

	"github.com/ister-mq/ister/broker/internal/model"
	"github.com/ister-mq/ister/broker/internal/record"
	"github.com/ister-mq/ister/broker/internal/vfs"
)

// seeds is how many histories the random tests run; ISTER_SEEDS raises it.
func seeds(n int) int {
	if s, err := strconv.Atoi(os.Getenv("ISTER_SEEDS")); err == nil {
		return s
	}
	return n
}

// reference is the log as a dumb list of batches.
type reference struct {
	batches [][]byte
	start   model.Offset
	end     model.Offset
	durable model.Offset
	epoch   model.LeaderEpoch
}

func header(b []byte) record.Header {
	h, _, err := record.Parse(b)
	if err != nil {
		panic(err)
	}
	return h
}

func (r *reference) append(b []byte) {
	r.batches = append(r.batches, append([]byte{}, b...))
	r.end = header(b).NextOffset()
}

// bytes are the batches that hold offsets of [start, end).
func (r *reference) bytes() []byte {
	var out []byte
	for _, b := range r.batches {
		if header(b).LastOffset() >= r.start {
			out = append(out, b...)
		}
	}
	return out
}

func (r *reference) truncate(off model.Offset) {
	for len(r.batches) > 0 && header(r.batches[len(r.batches)-1]).LastOffset() >= off {
		r.end = header(r.batches[len(r.batches)-1]).BaseOffset
		r.batches = r.batches[:len(r.batches)-1]
	}
	r.start, r.durable = min(r.start, r.end), min(r.durable, r.end)
}

// derivedEpochs and derivedProducers recompute from the batches what the log keeps
// up to date.
func (r *reference) derivedEpochs() []EpochStart {
	out := []EpochStart{}
	for _, b := range r.batches {
		h := header(b)
		if h.LastOffset() >= r.start && (len(out) == 0 || out[len(out)-1].Epoch != h.LeaderEpoch) {
			out = append(out, EpochStart{h.LeaderEpoch, max(h.BaseOffset, r.start)})
		}
	}
	return out
}

func describe(l *Log) string {
	names, _ := l.cfg.FS.List(l.cfg.Dir)
	return fmt.Sprintf("%v\n%+v\n%v", names, l.Segments(), l.Producers())
}

func (r *reference) derivedProducers() map[model.ProducerID]producer {
	p := newProducers()
	for _, b := range r.batches {
		p.take(header(b), time.UnixMilli(0))
	}
	return plainProducers(p)
}

func plainProducers(p *producers) map[model.ProducerID]producer {
	out := map[model.ProducerID]producer{}
	for id, one := range p.byID {
		out[id] = producer{Epoch: one.Epoch, Batches: append([]producedBatch{}, one.Batches...)}
	}
	return out
}

// compare checks everything that the log answers against the reference.
func (r *reference) compare(t *testing.T, l *Log) {
	t.Helper()
	if l.LogStart() != r.start || l.LogEnd() != r.end || l.Durable() < r.durable {
		t.Fatalf("log %d to %d (durable %d), reference %d to %d (%d)", l.LogStart(), l.LogEnd(), l.Durable(), r.start, r.end, r.durable)
	}
	if got := readAll(t, l); !bytes.Equal(got, r.bytes()) {
		t.Fatalf("the log holds %d bytes, the reference %d, or others", len(got), len(r.bytes()))
	}
	epochs := l.Epochs()
	if n := len(epochs); n > 0 && epochs[n-1].Start == l.LogEnd() {
		epochs = epochs[:n-1]
	}
	if want := r.derivedEpochs(); fmt.Sprint(epochs) != fmt.Sprint(want) {
		t.Fatalf("epochs %v, want %v", epochs, want)
	}
	r.compareProducers(t, l)
}

// compareProducers wants of each producer the last batches: all of those that are
// still in the log, and none that was not produced. What lies below the log start
// may be forgotten.
func (r *reference) compareProducers(t *testing.T, l *Log) {
	t.Helper()
	got, want := plainProducers(l.producers), r.derivedProducers()
	for id, w := range want {
		g, n := got[id], len(got[id].Batches)
		kept := 0
		for _, b := range w.Batches {
			if b.FirstOffset >= r.start {
				kept++
			}
		}
		if n < kept || n > len(w.Batches) || n > 0 && (g.Epoch != w.Epoch || !reflect.DeepEqual(g.Batches, w.Batches[len(w.Batches)-n:])) {
			t.Fatalf("producer %d: %v, want %v (log start %d)\n%s", id, g, w, r.start, describe(l))
		}
		delete(got, id)
	}
	if len(got) > 0 {
		t.Fatalf("producers %v never produced", got)
	}
}

// history drives a log and its reference through random changes.
type history struct {
	t      *testing.T
	random *rand.Rand
	l      *Log
	ref    reference
	serial int
	sync   func() error // how the history syncs
}

func (h *history) step() {
	t, r := h.t, h.random
	switch n := r.IntN(100); {
	case n < 55:
		h.append()
	case n < 75:
		if err := h.sync(); err != nil {
			t.Fatal(err)
		}
		h.ref.durable = h.ref.end
	case n < 82:
		off := h.ref.start + model.Offset(r.Int64N(int64(h.ref.end-h.ref.start)+2))
		if err := h.l.TruncateTo(off); err != nil {
			t.Fatal(err)
		}
		h.ref.truncate(off)
	case n < 88:
		h.ref.epoch += model.LeaderEpoch(1 + r.IntN(2))
		if err := h.l.AssignEpoch(h.ref.epoch, h.ref.end); err != nil {
			t.Fatal(err)
		}
	case n < 93:
		// Retention deletes what is committed, hence durable.
		off := h.ref.start + model.Offset(r.Int64N(int64(max(h.ref.durable-h.ref.start, 0))/2+1))
		if err := h.l.DeleteTo(off); err != nil {
			t.Fatal(err)
		}
		h.ref.start = max(h.ref.start, min(off, h.ref.end))
	case n < 94:
		off := h.ref.end + model.Offset(r.IntN(50)) - 20
		off = max(off, 0)
		if err := h.l.ResetTo(off); err != nil {
			t.Fatal(err)
		}
		h.ref.batches = nil
		h.ref.start, h.ref.end, h.ref.durable = off, off, off
	default:
		for i := r.IntN(20); i >= 0; i-- {
			h.append()
		}
	}
}

func (h *history) append() {
	h.serial++
	var b []byte
	if h.random.IntN(2) == 0 {
		b = plain(h.serial, 1+h.random.IntN(4))
	} else {
		id := model.ProducerID(h.random.IntN(3))
		b = produced(id, model.ProducerEpoch(h.serial/40), int32(h.serial), 1+h.random.IntN(3))
	}
	if h.random.IntN(4) == 0 {
		b = append(b, plain(h.serial, 2)...)
	}
	if h.random.IntN(3) == 0 {
		next := h.ref.end
		for rest := b; len(rest) > 0; {
			batch, after, hd, err := record.Next(rest)
			if err != nil {
				h.t.Fatal(err)
			}
			record.Stamp(batch, next, h.ref.epoch)
			hd.BaseOffset = next
			next, rest = hd.NextOffset(), after
		}
		if _, err := h.l.AppendFollower(b); err != nil {
			h.t.Fatal(err)
		}
	} else {
		for rest := b; len(rest) > 0; {
			batch, after, _, err := record.Next(rest)
			if err != nil {
				h.t.Fatal(err)
			}
			mustAppend(h.t, h.l, batch, h.ref.epoch)
			rest = after
		}
	}
	for rest := b; len(rest) > 0; {
		var batch []byte
		batch, rest, _, _ = record.Next(rest)
		h.ref.append(batch)
	}
}

func newHistory(t *testing.T, seed uint64, fsys vfs.FS) *history {
	h := &history{t: t, random: rand.New(rand.NewPCG(seed, 1)), l: mustOpen(t, testConfig(fsys))}
	h.sync = func() error { return h.l.Sync() }
	return h
}

// TestAgainstReference compares the log with a list of batches over random changes
// and reopenings, clean and not.
func TestAgainstReference(t *testing.T) {
	for seed := range seeds(15) {
		m := newMemory(t)
		h := newHistory(t, uint64(seed), m)
		for range 120 {
			h.step()
			if h.random.IntN(10) == 0 {
				h.ref.compare(t, h.l)
			}
			if h.random.IntN(25) == 0 {
				if err := h.l.Close(h.random.IntN(2) == 0); err != nil {
					t.Fatal(err)
				}
				h.l = mustOpen(t, h.l.cfg) // page cache survives a mere process end
				h.ref.durable = h.ref.end
			}
		}
		h.ref.compare(t, h.l)
	}
}

// TestEveryCrashRecovers cuts the power at a random moment of random histories, and
// again after recovery. What was durable must be there, offsets must be contiguous,
// nothing must be quarantined, and the log must go on.
func TestEveryCrashRecovers(t *testing.T) {
	for seed := range seeds(40) {
		m := newMemory(t)
		h := newHistory(t, uint64(seed), m)
		for generation := range 4 {
			for range 5 + h.random.IntN(40) {
				h.step()
			}
			h.ref.durable = max(h.ref.durable, h.l.Durable()) // a truncation syncs, too
			crashed := m.CrashClone(uint64(seed*10 + generation))
			cfg := h.l.cfg
			cfg.FS = crashed
			l, report, err := Open(cfg)
			if err != nil {
				t.Fatalf("seed %d, generation %d: %v, %+v", seed, generation, err, report)
			}
			checkSurvivors(t, seed, h, l)
			m, h.l = crashed, l
			h.ref.truncate(l.LogEnd())
			h.ref.durable = l.LogEnd()
			h.ref.compare(t, l)
		}
	}
}

func checkSurvivors(t *testing.T, seed int, h *history, l *Log) {
	t.Helper()
	if l.LogEnd() < h.ref.durable {
		t.Fatalf("seed %d: the log ends at %d, %d was durable", seed, l.LogEnd(), h.ref.durable)
	}
	if l.LogStart() != h.ref.start {
		t.Fatalf("seed %d: the log begins at %d, want %d", seed, l.LogStart(), h.ref.start)
	}
	if l.Durable() != l.LogEnd() {
		t.Fatalf("seed %d: durable %d of %d after recovery", seed, l.Durable(), l.LogEnd())
	}
	got := readAll(t, l)
	if want := h.ref.bytes(); !bytes.HasPrefix(want, got) {
		t.Fatalf("seed %d: recovered %d bytes that are not a prefix of the %d written", seed, len(got), len(want))
	}
}

// TestCrashInsideAnyCall cuts the power between any two steps that the disk sees of
// a truncation, deletion, reset, roll or recovery.
func TestCrashInsideAnyCall(t *testing.T) {
	calls := map[string]func(l *Log) error{
		"truncate into the last segment": func(l *Log) error { return l.TruncateTo(l.LogEnd() - 2) },
		"truncate into an earlier one":   func(l *Log) error { return l.TruncateTo(15) },
		"truncate everything":            func(l *Log) error { return l.TruncateTo(0) },
		"delete":                         func(l *Log) error { return l.DeleteTo(31) },
		"reset":                          func(l *Log) error { return l.ResetTo(1000) },
		"clean close":                    func(l *Log) error { return l.Close(true) },
		"sync":                           func(l *Log) error { return l.Sync() },
	}
	for name, call := range calls {
		t.Run(name, func(t *testing.T) { crashInside(t, call) })
	}
}

func crashInside(t *testing.T, call func(l *Log) error) {
	m := newMemory(t)
	var clones []*vfs.Memory
	faulty := vfs.NewFaulty(m)
	l := mustOpen(t, testConfig(faulty))
	var written []byte
	for i := 0; i < 50; i++ {
		b := produced(7, 0, int32(2*i), 2)
		mustAppend(t, l, b, model.LeaderEpoch(i/5))
		written = append(written, b...)
		if i%7 == 0 || i == 40 {
			if err := l.Sync(); err != nil {
				t.Fatal(err)
			}
		}
	}
	seed := uint64(0)
	snap := func() {
		for range 4 {
			seed++
			clones = append(clones, m.CrashClone(seed))
		}
	}
	faulty.Fail(func(vfs.Op, string) error { snap(); return nil })
	if err := call(l); err != nil {
		t.Fatal(err)
	}
	faulty.Fail(nil)
	snap()
	for i, clone := range clones {
		cfg := testConfig(clone)
		l, report, err := Open(cfg)
		if err != nil {
			t.Fatalf("clone %d of %d: %v, %+v", i, len(clones), err, report)
		}
		if l.LogStart() != 1000 && !bytes.Contains(written, readAll(t, l)) {
			t.Fatalf("clone %d: recovered what was not written", i)
		}
		mustAppend(t, l, plain(i, 2), 50)
		end := l.LogEnd()
		if err := l.Close(false); err != nil {
			t.Fatal(err)
		}
		if l = mustOpen(t, cfg); l.LogEnd() != end {
			t.Fatalf("clone %d: end %d, want %d", i, l.LogEnd(), end)
		}
	}
}

// TestEveryFaultKeepsWhatWasDurable fails one call on the disk, each in turn, while a
// log is appended to and synced. Afterwards the log is usable or poisoned, and opened
// anew it has all that was durable and nothing that was refused.
func TestEveryFaultKeepsWhatWasDurable(t *testing.T) {
	faults := 0
	for n := 1; n == faults+1; n++ {
		m := newMemory(t)
		faulty := vfs.NewFaulty(m)
		l := mustOpen(t, testConfig(faulty))
		count := 0
		faulty.Fail(func(op vfs.Op, _ string) error {
			if op == vfs.OpRead || op == vfs.OpList || op == vfs.OpStat || op == vfs.OpOpen {
				return nil
			}
			if count++; count == n {
				faults = n
				return fmt.Errorf("fault %d: %s", n, op)
			}
			return nil
		})
		var ref reference
		for i := range 60 {
			b := produced(1, 0, int32(2*i), 2)
			if _, _, err := appendLeader(l, b, 0); err == nil {
				ref.append(b)
			}
			if i%6 == 5 && l.Sync() == nil {
				ref.durable = ref.end
			}
		}
		if l.LogEnd() != ref.end || l.Durable() < ref.durable || l.Failed() == nil && l.Durable() != ref.end {
			t.Fatalf("fault %d: end %d of %d, durable %d of %d, failed %v", n, l.LogEnd(), ref.end, l.Durable(), ref.durable, l.Failed())
		}
		faulty.Fail(nil)
		_ = l.Close(false)
		for seed := range uint64(3) {
			cfg := testConfig(m.CrashClone(seed))
			again, report, err := Open(cfg)
			if err != nil {
				t.Fatalf("fault %d, seed %d: %v, %+v", n, seed, err, report)
			}
			if got := readAll(t, again); again.LogEnd() < ref.durable || !bytes.HasPrefix(ref.bytes(), got) {
				t.Fatalf("fault %d, seed %d: %d of %d durable, %d bytes", n, seed, again.LogEnd(), ref.durable, len(got))
			}
		}
	}
	if faults < 50 {
		t.Fatalf("only %d calls were failed", faults)
	}
}
