package segment

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/ister-mq/ister/broker/internal/model"
	"github.com/ister-mq/ister/broker/internal/record"
	"github.com/ister-mq/ister/broker/internal/refusal"
	"github.com/ister-mq/ister/broker/internal/vfs"
)

const noLimit = model.Offset(1 << 60)

// testConfig is a log in memory with small segments, so that tests roll often.
func testConfig(fsys vfs.FS) Config {
	return Config{
		FS: fsys, Dir: "data/p-0", SegmentBytes: 2 << 10, IndexIntervalBytes: 256,
		Now: func() time.Time { return time.UnixMilli(1_000_000) },
	}
}

func newMemory(t testing.TB) *vfs.Memory {
	t.Helper()
	m := vfs.NewMemory()
	if err := m.MkdirAll("data"); err != nil {
		t.Fatal(err)
	}
	if err := m.SyncDir("."); err != nil {
		t.Fatal(err)
	}
	return m
}

func mustOpen(t testing.TB, cfg Config) *Log {
	t.Helper()
	l, r, err := Open(cfg)
	if err != nil {
		t.Fatalf("open: %v (%+v)", err, r)
	}
	return l
}

// plain makes a batch of n records whose values tell seed and position.
func plain(seed, n int) []byte {
	recs := make([]record.Rec, n)
	for i := range recs {
		recs[i] = record.Rec{Timestamp: int64(1000*seed + i), Value: []byte(fmt.Sprintf("value-%d-%d", seed, i))}
	}
	return record.Build(record.BuildOptions{}, recs...)
}

func produced(id model.ProducerID, epoch model.ProducerEpoch, sequence int32, n int) []byte {
	recs := make([]record.Rec, n)
	for i := range recs {
		recs[i] = record.Rec{Value: []byte(fmt.Sprintf("p%d-e%d-s%d", id, epoch, sequence+int32(i)))}
	}
	return record.Build(record.BuildOptions{Producer: &record.Producer{ID: id, Epoch: epoch, Sequence: sequence}}, recs...)
}

// appendLeader checks a batch, as a leader's edge does, and appends it.
func appendLeader(l *Log, batch []byte, epoch model.LeaderEpoch) (first, last model.Offset, err error) {
	checked, err := record.CheckProduce(batch)
	if err != nil {
		return 0, 0, err
	}
	return l.AppendLeader(checked, epoch)
}

func mustAppend(t testing.TB, l *Log, batch []byte, epoch model.LeaderEpoch) (first, last model.Offset) {
	t.Helper()
	first, last, err := appendLeader(l, batch, epoch)
	if err != nil {
		t.Fatalf("append: %v", err)
	}
	return first, last
}

// readAll reads the log from its start and checks that offsets are contiguous.
func readAll(t testing.TB, l *Log) []byte {
	t.Helper()
	var out []byte
	for at := l.LogStart(); at < l.LogEnd(); {
		b, err := l.Read(at, 700, noLimit, true)
		if err != nil {
			t.Fatalf("read at %d: %v", at, err)
		}
		if len(b) == 0 {
			t.Fatalf("read at %d of %d: nothing", at, l.LogEnd())
		}
		for rest := b; len(rest) > 0; {
			h, err := record.Check(rest)
			if err != nil {
				t.Fatal(err)
			}
			if h.BaseOffset > at || h.LastOffset() < at {
				t.Fatalf("read at %d: a batch of %d to %d", at, h.BaseOffset, h.LastOffset())
			}
			at, rest = h.NextOffset(), rest[h.Size():]
		}
		out = append(out, b...)
	}
	return out
}

func TestAppendReadAcrossSegments(t *testing.T) {
	l := mustOpen(t, testConfig(newMemory(t)))
	var want []byte
	for i := 0; i < 200; i++ {
		b := plain(i, 1+i%4)
		first, last := mustAppend(t, l, b, 3)
		if int(last-first) != i%4 {
			t.Fatalf("append %d gave %d to %d", i, first, last)
		}
		want = append(want, b...) // stamped in place
	}
	if len(l.Segments()) < 5 {
		t.Fatalf("only %d segments", len(l.Segments()))
	}
	if !bytes.Equal(readAll(t, l), want) {
		t.Fatal("what was read is not what was appended")
	}
	if err := l.Close(true); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Read(0, 1, noLimit, true); !errors.Is(err, ErrClosed) {
		t.Fatalf("read after close: %v", err)
	}
	l, r, err := Open(l.cfg)
	if err != nil || !r.Clean || r.ScannedBytes != 0 {
		t.Fatalf("open after a clean close: %v, %+v", err, r)
	}
	if !bytes.Equal(readAll(t, l), want) {
		t.Fatal("what was read after reopening is not what was appended")
	}
	if l.LastEpoch() != 3 || l.Durable() != l.LogEnd() {
		t.Fatalf("epoch %d, durable %d, end %d", l.LastEpoch(), l.Durable(), l.LogEnd())
	}
}

func TestReadBounds(t *testing.T) {
	l := mustOpen(t, testConfig(newMemory(t)))
	for i := 0; i < 5; i++ {
		mustAppend(t, l, plain(i, 2), 0) // offsets 0..9
	}
	size := len(plain(0, 2))
	for _, c := range []struct {
		name       string
		from       model.Offset
		maxBytes   int
		upTo       model.Offset
		atLeastOne bool
		batches    int
		first      model.Offset
	}{
		{"everything", 0, 1 << 20, noLimit, false, 5, 0},
		{"inside a batch", 3, 1 << 20, noLimit, false, 4, 2},
		{"two batches fit", 0, 2*size + 1, noLimit, false, 2, 0},
		{"none fits", 0, size - 1, noLimit, false, 0, 0},
		{"one all the same", 0, 1, noLimit, true, 1, 0},
		{"limit on a boundary", 0, 1 << 20, 4, true, 2, 0},
		{"limit inside a batch", 0, 1 << 20, 5, true, 2, 0},
		{"limit inside the first", 0, 1 << 20, 1, true, 0, 0},
		{"limit at from", 4, 1 << 20, 4, true, 0, 0},
		{"log end", 10, 1 << 20, noLimit, true, 0, 0},
		{"negative bytes", 0, -1, noLimit, false, 0, 0},
	} {
		b, err := l.Read(c.from, c.maxBytes, c.upTo, c.atLeastOne)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if len(b) != c.batches*size {
			t.Errorf("%s: %d bytes, want %d batches of %d", c.name, len(b), c.batches, size)
		} else if len(b) > 0 {
			if h, _ := record.Check(b); h.BaseOffset != c.first {
				t.Errorf("%s: begins at %d, want %d", c.name, h.BaseOffset, c.first)
			}
		}
	}
	for _, from := range []model.Offset{-1, 11} {
		if _, err := l.Read(from, 1, noLimit, true); !refusal.Is(err, refusal.OffsetOutOfRange) {
			t.Errorf("read at %d: %v", from, err)
		}
	}
	buf := make([]byte, 0, 1<<16)
	b, err := l.ReadInto(buf, 0, 1<<10, noLimit, true)
	if err != nil || &b[0] != &buf[:1][0] {
		t.Errorf("ReadInto did not use the buffer: %v", err)
	}
}

func TestFollowerRefusesGapsAndDamage(t *testing.T) {
	l := mustOpen(t, testConfig(newMemory(t)))
	good := plain(1, 2)
	record.Stamp(good, 0, 4)
	if last, err := l.AppendFollower(good); err != nil || last != 1 {
		t.Fatalf("append: %d, %v", last, err)
	}
	gap := plain(1, 2)
	record.Stamp(gap, 3, 4)
	if _, err := l.AppendFollower(gap); err == nil {
		t.Error("a gap was accepted")
	}
	old := plain(1, 2)
	record.Stamp(old, 2, 3)
	if _, err := l.AppendFollower(old); err == nil {
		t.Error("an older epoch was accepted")
	}
	bad := plain(1, 2)
	record.Stamp(bad, 2, 4)
	bad[len(bad)-1] ^= 1
	if _, err := l.AppendFollower(bad); !refusal.Is(err, refusal.CorruptBatch) {
		t.Errorf("a damaged batch: %v", err)
	}
	if _, err := l.AppendFollower(good[:20]); err == nil {
		t.Error("half a batch was accepted")
	}
	if l.LogEnd() != 2 {
		t.Errorf("log end %d", l.LogEnd())
	}
	if _, _, err := appendLeader(l, plain(1, 1), 3); !refusal.Is(err, refusal.FencedLeaderEpoch) {
		t.Errorf("append in an older epoch: %v", err)
	}
}

func TestDiskFullLeavesLogUsable(t *testing.T) {
	faulty := vfs.NewFaulty(newMemory(t))
	l := mustOpen(t, testConfig(faulty))
	mustAppend(t, l, plain(0, 2), 0)
	faulty.FailNth(vfs.OpWrite, 1, errors.New("no space left on device"))
	if _, _, err := appendLeader(l, plain(1, 2), 0); err == nil {
		t.Fatal("the append went through")
	}
	if l.LogEnd() != 2 {
		t.Fatalf("log end %d after a failed append", l.LogEnd())
	}
	faulty.Fail(nil)
	mustAppend(t, l, plain(2, 1), 0)
	if err := l.Sync(); err != nil {
		t.Fatal(err)
	}
	want := readAll(t, l)
	if err := l.Close(false); err != nil {
		t.Fatal(err)
	}
	l, r, err := Open(l.cfg)
	if err != nil || r.TruncatedBytes != 0 || !bytes.Equal(readAll(t, l), want) {
		t.Fatalf("reopen: %v, %+v", err, r)
	}
}

func TestFailedSyncPoisons(t *testing.T) {
	faulty := vfs.NewFaulty(newMemory(t))
	l := mustOpen(t, testConfig(faulty))
	mustAppend(t, l, plain(0, 2), 0)
	faulty.FailNth(vfs.OpSync, 1, io.ErrUnexpectedEOF)
	if err := l.Sync(); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Fatalf("sync: %v", err)
	}
	faulty.Fail(nil)
	// The disk is well again, but nobody knows what it holds.
	if err := l.Sync(); !errors.Is(err, ErrPoisoned) {
		t.Errorf("second sync: %v", err)
	}
	if _, _, err := appendLeader(l, plain(1, 1), 0); !errors.Is(err, ErrPoisoned) {
		t.Errorf("append: %v", err)
	}
	if err := l.TruncateTo(0); !errors.Is(err, ErrPoisoned) {
		t.Errorf("truncate: %v", err)
	}
	if l.Durable() != 0 || l.Failed() == nil {
		t.Errorf("durable %d, failed %v", l.Durable(), l.Failed())
	}
	if _, err := l.Read(0, 1, noLimit, true); err != nil {
		t.Errorf("read: %v", err)
	}
	if err := l.Close(true); !errors.Is(err, ErrPoisoned) {
		t.Errorf("clean close: %v", err)
	}
}

func TestTruncateResetDelete(t *testing.T) {
	l := mustOpen(t, testConfig(newMemory(t)))
	for i := 0; i < 100; i++ {
		mustAppend(t, l, plain(i, 2), model.LeaderEpoch(i/10))
	}
	if err := l.Sync(); err != nil {
		t.Fatal(err)
	}
	whole := readAll(t, l)
	if err := l.TruncateTo(61); err != nil { // inside the batch of 60 and 61
		t.Fatal(err)
	}
	if l.LogEnd() != 60 || l.Durable() != 60 || l.LastEpoch() != 2 {
		t.Fatalf("end %d, durable %d, epoch %d", l.LogEnd(), l.Durable(), l.LastEpoch())
	}
	if got := readAll(t, l); !bytes.Equal(got, whole[:len(got)]) {
		t.Fatal("the rest differs")
	}
	if first, _ := mustAppend(t, l, plain(7, 2), 9); first != 60 {
		t.Fatalf("append at %d", first)
	}
	if err := l.DeleteTo(33); err != nil {
		t.Fatal(err)
	}
	if l.LogStart() != 33 || l.Segments()[0].Base > 33 || l.Segments()[0].Next <= 33 {
		t.Fatalf("start %d, %+v", l.LogStart(), l.Segments()[0])
	}
	if _, err := l.Read(32, 1, noLimit, true); !refusal.Is(err, refusal.OffsetOutOfRange) {
		t.Fatalf("read below the start: %v", err)
	}
	if err := l.TruncateTo(20); !errors.Is(err, ErrBelowStart) {
		t.Fatalf("truncate below the start: %v", err)
	}
	want, epochs := readAll(t, l), l.Epochs()
	if err := l.Close(false); err != nil {
		t.Fatal(err)
	}
	l = mustOpen(t, l.cfg)
	if l.LogStart() != 33 || !bytes.Equal(readAll(t, l), want) || fmt.Sprint(l.Epochs()) != fmt.Sprint(epochs) {
		t.Fatalf("after reopening: start %d, epochs %v, want %v", l.LogStart(), l.Epochs(), epochs)
	}
	if err := l.ResetTo(500); err != nil {
		t.Fatal(err)
	}
	if l.LogStart() != 500 || l.LogEnd() != 500 || l.LastEpoch() != model.NoEpoch || l.Bytes() != 0 {
		t.Fatalf("after a reset: %d to %d", l.LogStart(), l.LogEnd())
	}
	mustAppend(t, l, plain(1, 1), 12)
	if err := l.Close(true); err != nil {
		t.Fatal(err)
	}
	l = mustOpen(t, l.cfg)
	if l.LogStart() != 500 || l.LogEnd() != 501 {
		t.Fatalf("after a reset and reopening: %d to %d", l.LogStart(), l.LogEnd())
	}
}

func TestTimeLookup(t *testing.T) {
	l := mustOpen(t, testConfig(newMemory(t)))
	if _, _, _, ok, err := l.OffsetForTime(0); ok || err != nil {
		t.Fatalf("empty log: %v, %v", ok, err)
	}
	for i := 0; i < 100; i++ {
		codec := record.Codec(i % 5)
		b := record.Build(record.BuildOptions{Codec: codec},
			record.Rec{Timestamp: int64(i * 10), Value: []byte("a")}, record.Rec{Timestamp: int64(i*10 + 5), Value: []byte("b")})
		mustAppend(t, l, b, model.LeaderEpoch(i/50))
	}
	for ms := int64(-7); ms <= 995; ms += 61 {
		off, ts, epoch, ok, err := l.OffsetForTime(ms)
		want := max(0, (ms+4)/5)
		if err != nil || !ok || int64(off) != want || ts != want*5 || int64(epoch) != want/100 {
			t.Fatalf("time %d: offset %d, time %d, epoch %d, %v, %v; want offset %d", ms, off, ts, epoch, ok, err, want)
		}
	}
	if _, _, _, ok, _ := l.OffsetForTime(996); ok {
		t.Fatal("found a record later than the last")
	}
}

func TestRollingCRCAgreesBetweenReplicas(t *testing.T) {
	leader := mustOpen(t, testConfig(newMemory(t)))
	cfg := testConfig(newMemory(t))
	cfg.SegmentBytes = 5000
	follower := mustOpen(t, cfg)
	for i := 0; i < 100; i++ {
		mustAppend(t, leader, plain(i, 1+i%3), 1)
	}
	for follower.LogEnd() < leader.LogEnd() {
		b, err := leader.Read(follower.LogEnd(), 999, noLimit, true)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := follower.AppendFollower(b); err != nil {
			t.Fatal(err)
		}
	}
	for _, r := range [][2]model.Offset{{0, 199}, {0, 1000}, {50, 150}, {0, 0}} {
		a, err1 := leader.CRC(r[0], r[1])
		b, err2 := follower.CRC(r[0], r[1])
		if err1 != nil || err2 != nil || a != b {
			t.Errorf("%v: %08x and %08x, %v, %v", r, a, b, err1, err2)
		}
	}
	if a, _ := leader.CRC(0, 100); a == 0 {
		t.Error("no sum")
	}
}
