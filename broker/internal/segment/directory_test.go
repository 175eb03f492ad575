package segment

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/ister-mq/ister/broker/internal/model"
	"github.com/ister-mq/ister/broker/internal/record"
	"github.com/ister-mq/ister/broker/internal/refusal"
	"github.com/ister-mq/ister/broker/internal/vfs"
)

func TestDirectoriesSetAside(t *testing.T) {
	m := newMemory(t)
	var renamed []string
	for _, set := range []func(vfs.FS, string) (string, error){MarkDeleted, MarkDeleted, Quarantine} {
		l := mustOpen(t, testConfig(m))
		if err := l.Close(false); err != nil {
			t.Fatal(err)
		}
		to, err := set(m, l.Dir())
		if err != nil {
			t.Fatal(err)
		}
		renamed = append(renamed, to)
	}
	if want := []string{"data/p-0.deleted-1", "data/p-0.deleted-2", "data/p-0.quarantined-1"}; !reflect.DeepEqual(renamed, want) {
		t.Fatalf("renamed to %v", renamed)
	}
	removed, err := Purge(m, "data")
	if err != nil || !reflect.DeepEqual(removed, []string{"p-0.deleted-1", "p-0.deleted-2"}) {
		t.Fatalf("purged %v, %v", removed, err)
	}
	names, _ := m.CrashClone(1).List("data")
	if !reflect.DeepEqual(names, []string{"p-0.quarantined-1"}) {
		t.Fatalf("left %v", names)
	}
	if _, err := MarkDeleted(m, "data/missing"); err == nil {
		t.Fatal("a missing directory was renamed")
	}
}

func TestReadFindsDamage(t *testing.T) {
	m := newMemory(t)
	l := mustOpen(t, testConfig(m))
	for i := range 60 {
		mustAppend(t, l, plain(i, 2), 0)
	}
	if err := l.Close(true); err != nil {
		t.Fatal(err)
	}
	l = mustOpen(t, l.cfg)
	first := l.Segments()[0]
	f, err := m.Open(path.Join(l.Dir(), segmentName(first.Base)))
	if err != nil {
		t.Fatal(err)
	}
	at := int64(segmentHeader + len(plain(0, 2))) // the second batch's base offset: outside the checksum
	for _, place := range []int64{at + 7, at + 80} {
		b := make([]byte, 1)
		f.ReadAt(b, place)
		f.WriteAt([]byte{b[0] ^ 1}, place)
		_, err := l.Read(0, 1<<20, noLimit, true)
		damage := new(CorruptError)
		if !errors.As(err, &damage) || damage.Position != at {
			t.Errorf("read over damage at byte %d: %v", place, err)
		}
		if _, err := l.CRC(0, 100); !errors.As(err, &damage) || damage.Position != at {
			t.Errorf("sum over damage: %v", err)
		}
		f.WriteAt(b, place)
	}
	if _, err := l.Read(0, 1<<20, noLimit, true); err != nil {
		t.Errorf("after healing: %v", err)
	}
}

// TestReadsFormatV1 opens files that an earlier build wrote. Set ISTER_WRITE_FORMAT
// to write them, once per format version.
func TestReadsFormatV1(t *testing.T) {
	source := filepath.Join("testdata", "v1", "log")
	if os.Getenv("ISTER_WRITE_FORMAT") != "" {
		writeFormat(t, source)
	}
	dir := filepath.Join(t.TempDir(), "log")
	if err := os.CopyFS(dir, os.DirFS(source)); err != nil {
		t.Fatal(err)
	}
	cfg := testConfig(vfs.OS{})
	cfg.Dir = dir
	l, r, err := Open(cfg)
	if err != nil || !r.Clean {
		t.Fatalf("open: %v, %+v", err, r)
	}
	if got := fmt.Sprint(l.LogStart(), l.LogEnd(), l.Epochs(), len(l.Segments())); got != "3 31 [{1 3} {2 20} {5 31}] 2" {
		t.Errorf("read %s", got)
	}
	sum, err := l.CRC(0, 1000)
	if err != nil || sum != 0x47fec006 {
		t.Errorf("sum %08x, %v", sum, err)
	}
	if p := l.Producers(); len(p) != 1 || p[0].ID != 9 || p[0].LastSequence != 1 || p[0].LastOffset != 30 {
		t.Errorf("producers %+v", p)
	}
	for name, magicAt := range map[string]int64{segmentName(0): 8, indexName(0): 8, checkpointName: 8, producersName(31): 8} {
		refuseNewer(t, source, name, magicAt)
	}
}

func writeFormat(t *testing.T, dir string) {
	cfg := testConfig(vfs.OS{})
	cfg.Dir, cfg.SegmentBytes = dir, 1024
	l := mustOpen(t, cfg)
	for i := range 10 {
		mustAppend(t, l, plain(i, 2), 1)
	}
	for i := range 3 {
		mustAppend(t, l, record.Build(record.BuildOptions{Codec: record.Codec(i + 1)}, record.Rec{Value: []byte("packed")}, record.Rec{Key: []byte("k")}, record.Rec{}), 2)
	}
	mustAppend(t, l, produced(9, 1, 0, 2), 2)
	if err := errors.Join(l.Sync(), l.DeleteTo(3), l.AssignEpoch(5, l.LogEnd()), l.Close(true)); err != nil {
		t.Fatal(err)
	}
}

// refuseNewer raises the format version of one file: the log must be refused with
// words, or do without a file that can be derived.
func refuseNewer(t *testing.T, source, name string, versionAt int64) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "log")
	if err := os.CopyFS(dir, os.DirFS(source)); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	f.WriteAt([]byte{formatVersion + 1}, versionAt)
	f.Close()
	cfg := testConfig(vfs.OS{})
	cfg.Dir = dir
	l, _, err := Open(cfg)
	if name == indexName(0) && err == nil {
		l.Close(false)
		return
	}
	if !refusal.Is(err, refusal.UnsupportedFormat) {
		t.Errorf("%s of a newer version: %v", name, err)
	}
}

// TestReplayQuarantinesWhatDoesNotFit lets a log lose synced bytes that the journal
// continues.
func TestReplayQuarantinesWhatDoesNotFit(t *testing.T) {
	m := newMemory(t)
	fl := newFleet(t, m, 6)
	for i := range fl.logs {
		fl.append(i, 1)
		if err := fl.logs[i].Sync(); err != nil {
			t.Fatal(err)
		}
		fl.append(i, 2)
	}
	for i, err := range fl.oneRound() {
		if err != nil {
			t.Fatalf("log %d: %v", i, err)
		}
	}
	var crashed *vfs.Memory
	for seed := uint64(0); ; seed++ { // one that lost the segment's unsynced part
		crashed = m.CrashClone(seed)
		if info, err := crashed.Stat("data/p-3/" + segmentName(0)); err == nil && info.Bytes < int64(segmentHeader+len(plain(1, 2))+50) {
			break
		}
	}
	f, err := crashed.Open("data/p-3/" + segmentName(0))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Truncate(segmentHeader), crashed.RemoveAll("data/p-4"), f.Close()); err != nil {
		t.Fatal(err)
	}
	flusher, err := NewFlusher(flusherConfig(crashed))
	if err != nil {
		t.Fatal(err)
	}
	if r := flusher.Replayed(); !reflect.DeepEqual(r.Damaged, []string{"p-3"}) || !reflect.DeepEqual(r.Skipped, []string{"p-4"}) || r.Entries != 5 {
		t.Errorf("replay %+v", r)
	}
	if _, r, err := Open(fleetConfig(crashed, 3)); !refusal.Is(err, refusal.ReplicaQuarantined) || !r.Quarantined {
		t.Errorf("open: %v", err)
	}
	for _, i := range []int{0, 1, 2, 5} {
		if l := mustOpen(t, fleetConfig(crashed, i)); l.LogEnd() != fl.logs[i].LogEnd() {
			t.Errorf("log %d ends at %d", i, l.LogEnd())
		}
	}
	names, _ := crashed.List("data")
	if names[0] != "journal-0.kept-1" {
		t.Errorf("names %v", names)
	}
	flusher.Close()
	fl.close()
}

// TestConcurrentReadsSeeWholeBatches reads while another goroutine appends, rolls,
// truncates and deletes.
func TestConcurrentReadsSeeWholeBatches(t *testing.T) {
	l := mustOpen(t, testConfig(newMemory(t)))
	stop := make(chan struct{})
	done := make(chan error, 3)
	for range 3 {
		go func() {
			for at := model.Offset(0); ; {
				select {
				case <-stop:
					done <- nil
					return
				default:
				}
				b, err := l.Read(at, 900, noLimit, true)
				if refusal.Is(err, refusal.OffsetOutOfRange) {
					at = l.LogStart()
					continue
				}
				if err != nil {
					done <- err
					return
				}
				for len(b) > 0 {
					h, err := record.Check(b)
					if err != nil || h.LastOffset() < at {
						done <- fmt.Errorf("read at %d: %+v, %v", at, h, err)
						return
					}
					at, b = h.NextOffset(), b[h.Size():]
				}
				l.CRC(l.LogStart(), l.LogEnd())
				l.OffsetForTime(int64(at))
			}
		}()
	}
	for i := range 400 {
		mustAppend(t, l, plain(i, 1+i%3), model.LeaderEpoch(i/20))
		switch {
		case i%50 == 49:
			if err := l.TruncateTo(l.LogEnd() - 30); err != nil {
				t.Fatal(err)
			}
		case i%70 == 69:
			if err := l.DeleteTo((l.LogStart() + l.LogEnd()) / 2); err != nil {
				t.Fatal(err)
			}
		case i%10 == 0:
			if err := l.Sync(); err != nil {
				t.Fatal(err)
			}
		}
	}
	close(stop)
	for range 3 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// FuzzOpen gives Open segments of arbitrary bytes: no panic, and what opens reads
// back.
func FuzzOpen(f *testing.F) {
	sound := append(encodeHeader(0, 1), plain(1, 2)...)
	f.Add(sound, []byte{}, []byte{})
	f.Add(sound[:200], encodeFrame(indexMagic, make([]byte, 40)), encodeFrame(producersMagic, make([]byte, 20)))
	f.Add([]byte{}, []byte(indexMagic), checkpoint{Start: 1, Epochs: epochs{{1, 0}}}.encode())
	f.Fuzz(func(t *testing.T, log, idx, check []byte) {
		m := newMemory(t)
		cfg := testConfig(m)
		if err := errors.Join(m.MkdirAll(cfg.Dir), m.SyncDir("data")); err != nil {
			t.Fatal(err)
		}
		for name, b := range map[string][]byte{segmentName(0): log, indexName(0): idx, checkpointName: check, producersName(0): check} {
			if err := vfs.WriteFile(m, path.Join(cfg.Dir, name), b, true); err != nil {
				t.Fatal(err)
			}
		}
		l, r, err := Open(cfg)
		if err != nil {
			return
		}
		if l.LogEnd() < l.LogStart() || r.LogEnd != l.LogEnd() {
			t.Fatalf("%d to %d, %+v", l.LogStart(), l.LogEnd(), r)
		}
		mustAppend(t, l, plain(1, 1), max(l.LastEpoch(), 0))
		l.Close(true)
	})
}
