package vfs

import (
	"errors"
	"io"
	"sync"
	"syscall"
)

var errNoSpace error = syscall.ENOSPC

// IsNoSpace reports a full disk.
func IsNoSpace(err error) bool { return errors.Is(err, syscall.ENOSPC) }

// Op names a call on the file system for Faulty.
type Op string

// The calls that Faulty can fail.
const (
	OpCreate   Op = "create"
	OpOpen     Op = "open"
	OpRemove   Op = "remove"
	OpRename   Op = "rename"
	OpMkdir    Op = "mkdir"
	OpList     Op = "list"
	OpStat     Op = "stat"
	OpSyncDir  Op = "syncdir"
	OpRead     Op = "read"
	OpWrite    Op = "write"
	OpTruncate Op = "truncate"
	OpSync     Op = "sync"
)

// Faulty wraps a file system and fails the calls that its hook picks.
type Faulty struct {
	inner FS

	mu   sync.Mutex
	hook func(op Op, name string) error // guarded by mu
}

var _ FS = (*Faulty)(nil)

// NewFaulty wraps inner with no fault.
func NewFaulty(inner FS) *Faulty { return &Faulty{inner: inner} }

// Fail sets the hook: a call fails with what it returns, and goes through when that
// is nil. A failed write leaves the first half of its bytes. A nil hook heals. The
// hook runs under a lock, one call at a time.
func (f *Faulty) Fail(hook func(op Op, name string) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hook = hook
}

// FailNth makes the nth call of op from now (1 is the next) fail with err, once.
func (f *Faulty) FailNth(op Op, n int, err error) {
	f.Fail(func(called Op, _ string) error {
		if called == op {
			if n--; n == 0 {
				return err
			}
		}
		return nil
	})
}

func (f *Faulty) check(op Op, name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.hook == nil {
		return nil
	}
	if err := f.hook(op, name); err != nil {
		return pathError(string(op), name, err)
	}
	return nil
}

func (f *Faulty) open(op Op, name string, open func(string) (File, error)) (File, error) {
	if err := f.check(op, name); err != nil {
		return nil, err
	}
	file, err := open(name)
	if err != nil {
		return nil, err
	}
	return &faultyFile{File: file, fs: f, name: name}, nil
}

// Create implements FS.
func (f *Faulty) Create(name string) (File, error) { return f.open(OpCreate, name, f.inner.Create) }

// Open implements FS.
func (f *Faulty) Open(name string) (File, error) { return f.open(OpOpen, name, f.inner.Open) }

// Remove implements FS.
func (f *Faulty) Remove(name string) error {
	if err := f.check(OpRemove, name); err != nil {
		return err
	}
	return f.inner.Remove(name)
}

// RemoveAll implements FS.
func (f *Faulty) RemoveAll(name string) error {
	if err := f.check(OpRemove, name); err != nil {
		return err
	}
	return f.inner.RemoveAll(name)
}

// Rename implements FS.
func (f *Faulty) Rename(from, to string) error {
	if err := f.check(OpRename, from); err != nil {
		return err
	}
	return f.inner.Rename(from, to)
}

// MkdirAll implements FS.
func (f *Faulty) MkdirAll(name string) error {
	if err := f.check(OpMkdir, name); err != nil {
		return err
	}
	return f.inner.MkdirAll(name)
}

// List implements FS.
func (f *Faulty) List(dir string) ([]string, error) {
	if err := f.check(OpList, dir); err != nil {
		return nil, err
	}
	return f.inner.List(dir)
}

// Stat implements FS.
func (f *Faulty) Stat(name string) (Info, error) {
	if err := f.check(OpStat, name); err != nil {
		return Info{}, err
	}
	return f.inner.Stat(name)
}

// SyncDir implements FS.
func (f *Faulty) SyncDir(dir string) error {
	if err := f.check(OpSyncDir, dir); err != nil {
		return err
	}
	return f.inner.SyncDir(dir)
}

// Space implements FS.
func (f *Faulty) Space(dir string) (Space, error) { return f.inner.Space(dir) }

// Lock implements FS.
func (f *Faulty) Lock(name string) (io.Closer, error) { return f.inner.Lock(name) }

type faultyFile struct {
	File
	fs   *Faulty
	name string
}

func (f *faultyFile) ReadAt(b []byte, at int64) (int, error) {
	if err := f.fs.check(OpRead, f.name); err != nil {
		return 0, err
	}
	return f.File.ReadAt(b, at)
}

func (f *faultyFile) WriteAt(b []byte, at int64) (int, error) {
	if err := f.fs.check(OpWrite, f.name); err != nil {
		n, _ := f.File.WriteAt(b[:len(b)/2], at)
		return n, err
	}
	return f.File.WriteAt(b, at)
}

func (f *faultyFile) Truncate(size int64) error {
	if err := f.fs.check(OpTruncate, f.name); err != nil {
		return err
	}
	return f.File.Truncate(size)
}

func (f *faultyFile) Sync() error {
	if err := f.fs.check(OpSync, f.name); err != nil {
		return err
	}
	return f.File.Sync()
}
