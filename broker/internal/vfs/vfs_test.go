package vfs_test

import (
	"bytes"
	"errors"
	"reflect"
	"testing"

	"github.com/ister-mq/ister/broker/internal/vfs"
	"github.com/ister-mq/ister/broker/internal/vfs/vfstest"
)

func TestOSConforms(t *testing.T) {
	vfstest.Run(t, func(t *testing.T) (vfs.FS, string) { return vfs.OS{}, t.TempDir() })
}

func TestMemoryConforms(t *testing.T) {
	vfstest.Run(t, func(*testing.T) (vfs.FS, string) { return vfs.NewMemory(), "." })
}

func TestFaultyWithoutFaultsConforms(t *testing.T) {
	vfstest.Run(t, func(*testing.T) (vfs.FS, string) { return vfs.NewFaulty(vfs.NewMemory()), "." })
}

func write(t *testing.T, f vfs.File, at int64, b []byte) {
	t.Helper()
	if _, err := f.WriteAt(b, at); err != nil {
		t.Fatal(err)
	}
}

func create(t *testing.T, m *vfs.Memory, name string) vfs.File {
	t.Helper()
	f, err := m.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestCrashKeepsExactlyWhatWasSynced looks at many crashes of one history: synced
// bytes and names are in all of them, and each thing unsynced is lost in some and
// kept in some.
func TestCrashKeepsExactlyWhatWasSynced(t *testing.T) {
	m := vfs.NewMemory()
	f := create(t, m, "synced")
	write(t, f, 0, bytes.Repeat([]byte("a"), 2000))
	if err := errors.Join(f.Sync(), m.SyncDir(".")); err != nil {
		t.Fatal(err)
	}
	write(t, f, 1000, bytes.Repeat([]byte("b"), 2000))
	create(t, m, "unsynced")
	if err := m.Rename("unsynced", "renamed"); err != nil {
		t.Fatal(err)
	}
	kept, lost, torn, grown := 0, 0, 0, 0
	namesSeen := map[string]bool{}
	for seed := range uint64(200) {
		c := m.CrashClone(seed)
		b, err := vfs.ReadFile(c, "synced", 1<<20)
		if err != nil || len(b) < 2000 || !bytes.Equal(b[:1000], bytes.Repeat([]byte("a"), 1000)) {
			t.Fatalf("seed %d: synced bytes are gone: %v", seed, err)
		}
		switch n := bytes.Count(b, []byte("b")); {
		case n == 2000:
			kept++
		case n == 0:
			lost++
		default:
			torn++
		}
		if bytes.IndexByte(b, 0) >= 0 {
			grown++
		}
		names, _ := c.List(".")
		for _, name := range names {
			namesSeen[name] = true
		}
		if len(names) == 1 {
			namesSeen["none"] = true
		}
		again, _ := vfs.ReadFile(m.CrashClone(seed), "synced", 1<<20)
		if !bytes.Equal(b, again) {
			t.Fatalf("seed %d gives two clones", seed)
		}
		// A clone is durable as it is: another crash changes nothing.
		twice, _ := vfs.ReadFile(c.CrashClone(seed+1), "synced", 1<<20)
		if !bytes.Equal(b, twice) {
			t.Fatalf("seed %d: a crashed disk lost more at the next crash", seed)
		}
	}
	if kept == 0 || lost == 0 || torn == 0 || grown == 0 {
		t.Errorf("kept %d, lost %d, torn %d, grown %d", kept, lost, torn, grown)
	}
	if want := map[string]bool{"synced": true, "unsynced": true, "renamed": true, "none": true}; !reflect.DeepEqual(namesSeen, want) {
		t.Errorf("names seen: %v", namesSeen)
	}
	b, _ := vfs.ReadFile(m, "synced", 1<<20)
	if bytes.Count(b, []byte("b")) != 2000 {
		t.Error("the original was harmed")
	}
}

func TestTruncationIsLostOrKeptWhole(t *testing.T) {
	m := vfs.NewMemory()
	f := create(t, m, "f")
	write(t, f, 0, make([]byte, 5000))
	if err := errors.Join(f.Sync(), m.SyncDir("."), f.Truncate(100)); err != nil {
		t.Fatal(err)
	}
	sizes := map[int64]bool{}
	for seed := range uint64(50) {
		info, err := m.CrashClone(seed).Stat("f")
		if err != nil {
			t.Fatal(err)
		}
		sizes[info.Bytes] = true
	}
	if !reflect.DeepEqual(sizes, map[int64]bool{100: true, 5000: true}) {
		t.Errorf("sizes %v", sizes)
	}
}

func TestMemoryRunsFull(t *testing.T) {
	m := vfs.NewMemory()
	f := create(t, m, "f")
	m.SetFree(10)
	write(t, f, 0, make([]byte, 8))
	if _, err := f.WriteAt(make([]byte, 8), 8); !vfs.IsNoSpace(err) {
		t.Fatalf("a write beyond the space: %v", err)
	}
	write(t, f, 0, make([]byte, 10))
}

func TestFaultyFailsTheNthCall(t *testing.T) {
	faulty := vfs.NewFaulty(vfs.NewMemory())
	boom := errors.New("boom")
	f, err := faulty.Create("f")
	if err != nil {
		t.Fatal(err)
	}
	faulty.FailNth(vfs.OpWrite, 2, boom)
	write(t, f, 0, []byte("1234"))
	if n, err := f.WriteAt([]byte("abcd"), 0); n != 2 || !errors.Is(err, boom) {
		t.Fatalf("second write: %d, %v", n, err)
	}
	write(t, f, 3, []byte("!"))
	if b, _ := vfs.ReadFile(faulty, "f", 10); string(b) != "ab3!" {
		t.Errorf("content %q", b)
	}
	for op, call := range map[vfs.Op]func() error{
		vfs.OpSync:     f.Sync,
		vfs.OpTruncate: func() error { return f.Truncate(0) },
		vfs.OpRead:     func() error { _, err := f.ReadAt(make([]byte, 1), 0); return err },
		vfs.OpSyncDir:  func() error { return faulty.SyncDir(".") },
		vfs.OpOpen:     func() error { _, err := faulty.Open("f"); return err },
		vfs.OpCreate:   func() error { _, err := faulty.Create("g"); return err },
		vfs.OpRename:   func() error { return faulty.Rename("f", "g") },
		vfs.OpRemove:   func() error { return faulty.Remove("f") },
		vfs.OpMkdir:    func() error { return faulty.MkdirAll("d") },
		vfs.OpList:     func() error { _, err := faulty.List("."); return err },
		vfs.OpStat:     func() error { _, err := faulty.Stat("f"); return err },
	} {
		faulty.FailNth(op, 1, boom)
		if err := call(); !errors.Is(err, boom) {
			t.Errorf("%s: %v", op, err)
		}
	}
	faulty.Fail(nil)
	if _, err := faulty.Stat("f"); err != nil {
		t.Error(err)
	}
}
