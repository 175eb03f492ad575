// Package vfstest holds every vfs.FS to one contract.
package vfstest

import (
	"bytes"
	"errors"
	"io"
	"path"
	"reflect"
	"testing"

	"github.com/ister-mq/ister/broker/internal/vfs"
)

// Run checks a file system. fresh returns one, and an empty directory on it.
func Run(t *testing.T, fresh func(t *testing.T) (vfs.FS, string)) {
	for name, test := range map[string]func(*testing.T, vfs.FS, string){
		"files":       files,
		"names":       names,
		"directories": directories,
		"replacing":   replacing,
		"errors":      failures,
		"locks":       locks,
		"space":       space,
	} {
		t.Run(name, func(t *testing.T) {
			fsys, dir := fresh(t)
			test(t, fsys, dir)
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func create(t *testing.T, fsys vfs.FS, name, content string) {
	t.Helper()
	f, err := fsys.Create(name)
	must(t, err)
	_, err = f.WriteAt([]byte(content), 0)
	must(t, err)
	must(t, f.Close())
}

func content(t *testing.T, fsys vfs.FS, name string) string {
	t.Helper()
	b, err := vfs.ReadFile(fsys, name, 1<<20)
	must(t, err)
	return string(b)
}

func list(t *testing.T, fsys vfs.FS, dir string) []string {
	t.Helper()
	names, err := fsys.List(dir)
	must(t, err)
	return names
}

func files(t *testing.T, fsys vfs.FS, dir string) {
	name := path.Join(dir, "f")
	f, err := fsys.Create(name)
	must(t, err)
	if n, err := f.WriteAt([]byte("hello"), 3); n != 5 || err != nil {
		t.Fatalf("wrote %d, %v", n, err)
	}
	if size, err := f.Size(); size != 8 || err != nil {
		t.Fatalf("size %d, %v", size, err)
	}
	b := make([]byte, 20)
	if n, err := f.ReadAt(b, 0); n != 8 || err != io.EOF || !bytes.Equal(b[:8], []byte("\x00\x00\x00hello")) {
		t.Fatalf("read %d, %v: %q", n, err, b[:n])
	}
	if n, err := f.ReadAt(b[:2], 4); n != 2 || err != nil || string(b[:2]) != "el" {
		t.Fatalf("read %d, %v: %q", n, err, b[:2])
	}
	if n, err := f.ReadAt(b, 8); n != 0 || err != io.EOF {
		t.Fatalf("read at the end: %d, %v", n, err)
	}
	must(t, f.Sync())
	must(t, f.Truncate(4))
	must(t, f.Truncate(6))
	other, err := fsys.Open(name)
	must(t, err)
	if n, err := other.ReadAt(b, 3); n != 3 || err != io.EOF || string(b[:3]) != "h\x00\x00" {
		t.Fatalf("after truncation: %d, %v: %q", n, err, b[:n])
	}
	// A removed file stays readable to those who have it open.
	must(t, fsys.Remove(name))
	if n, _ := other.ReadAt(b[:1], 3); n != 1 || b[0] != 'h' {
		t.Fatal("a removed file cannot be read any more")
	}
	must(t, f.Close())
	must(t, other.Close())
	if _, err := f.ReadAt(b, 0); err == nil {
		t.Error("a closed file was read")
	}
	if _, err := f.WriteAt(b, 0); err == nil {
		t.Error("a closed file was written")
	}
	if f.Sync() == nil || f.Truncate(0) == nil || f.Close() == nil {
		t.Error("a closed file was synced, truncated or closed")
	}
}

func names(t *testing.T, fsys vfs.FS, dir string) {
	create(t, fsys, path.Join(dir, "b"), "B")
	create(t, fsys, path.Join(dir, "a"), "A")
	create(t, fsys, path.Join(dir, "c"), "CC")
	must(t, fsys.SyncDir(dir))
	must(t, fsys.Rename(path.Join(dir, "c"), path.Join(dir, "a")))
	if got := list(t, fsys, dir); !reflect.DeepEqual(got, []string{"a", "b"}) {
		t.Fatalf("names %v", got)
	}
	if got := content(t, fsys, path.Join(dir, "a")); got != "CC" {
		t.Fatalf("content %q", got)
	}
	info, err := fsys.Stat(path.Join(dir, "a"))
	if err != nil || info.Dir || info.Bytes != 2 {
		t.Fatalf("stat: %+v, %v", info, err)
	}
	must(t, fsys.SyncDir(dir))
}

func directories(t *testing.T, fsys vfs.FS, dir string) {
	deep := path.Join(dir, "x/y/z")
	must(t, fsys.MkdirAll(deep))
	must(t, fsys.MkdirAll(deep))
	create(t, fsys, path.Join(deep, "f"), "1")
	if info, err := fsys.Stat(deep); err != nil || !info.Dir {
		t.Fatalf("stat: %+v, %v", info, err)
	}
	if err := fsys.Remove(deep); err == nil {
		t.Error("a directory with files was removed")
	}
	must(t, fsys.Rename(path.Join(dir, "x"), path.Join(dir, "w")))
	if got := content(t, fsys, path.Join(dir, "w/y/z/f")); got != "1" {
		t.Errorf("after renaming the directory: %q", got)
	}
	must(t, fsys.RemoveAll(path.Join(dir, "w")))
	must(t, fsys.RemoveAll(path.Join(dir, "w")))
	if got := list(t, fsys, dir); len(got) != 0 {
		t.Errorf("left: %v", got)
	}
	must(t, fsys.MkdirAll(path.Join(dir, "e")))
	must(t, fsys.Remove(path.Join(dir, "e")))
}

func replacing(t *testing.T, fsys vfs.FS, dir string) {
	name := path.Join(dir, "f")
	for _, durable := range []bool{true, false} {
		for _, want := range []string{"first", "2", ""} {
			must(t, vfs.WriteFile(fsys, name, []byte(want), durable))
			if got := content(t, fsys, name); got != want {
				t.Errorf("read %q, wrote %q", got, want)
			}
		}
	}
	if got := list(t, fsys, dir); !reflect.DeepEqual(got, []string{"f"}) {
		t.Errorf("names %v", got)
	}
	must(t, vfs.WriteFile(fsys, name, []byte("12345"), false))
	if _, err := vfs.ReadFile(fsys, name, 4); err == nil {
		t.Error("read more than was allowed")
	}
}

func failures(t *testing.T, fsys vfs.FS, dir string) {
	missing := path.Join(dir, "missing")
	for name, err := range map[string]error{
		"open":    second(fsys.Open(missing)),
		"stat":    second(fsys.Stat(missing)),
		"remove":  fsys.Remove(missing),
		"rename":  fsys.Rename(missing, path.Join(dir, "to")),
		"list":    second(fsys.List(missing)),
		"syncdir": fsys.SyncDir(missing),
		"create":  second(fsys.Create(path.Join(missing, "f"))),
	} {
		if !vfs.IsNotExist(err) {
			t.Errorf("%s of a missing name: %v", name, err)
		}
	}
	create(t, fsys, path.Join(dir, "f"), "")
	if err := second(fsys.Create(path.Join(dir, "f"))); !vfs.IsExist(err) {
		t.Errorf("create of a taken name: %v", err)
	}
	if err := fsys.MkdirAll(path.Join(dir, "f/g")); err == nil {
		t.Error("a directory was made below a file")
	}
}

func second[T any](_ T, err error) error { return err }

func locks(t *testing.T, fsys vfs.FS, dir string) {
	name := path.Join(dir, "lock")
	held, err := fsys.Lock(name)
	must(t, err)
	if _, err := fsys.Lock(name); !errors.Is(err, vfs.ErrLocked) {
		t.Errorf("second lock: %v", err)
	}
	must(t, held.Close())
	again, err := fsys.Lock(name)
	must(t, err)
	must(t, again.Close())
	if _, err := fsys.Lock(path.Join(dir, "missing/lock")); err == nil {
		t.Error("a lock in a missing directory")
	}
}

func space(t *testing.T, fsys vfs.FS, dir string) {
	s, err := fsys.Space(dir)
	if err != nil || s.Total <= 0 || s.Free < 0 || s.Free > s.Total {
		t.Errorf("space %+v, %v", s, err)
	}
}
