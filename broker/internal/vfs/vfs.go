package vfs

import (
	"errors"
	"fmt"
	"io"
	"path"
)

// ErrLocked reports that another process holds the lock.
var ErrLocked = errors.New("vfs: the lock is held by another process")

// FS is a file system. All methods may be called concurrently. Errors satisfy
// errors.Is with fs.ErrNotExist and fs.ErrExist where they apply.
type FS interface {
	// Create makes a new file, open for reading and writing; a file of that name
	// must not exist.
	Create(name string) (File, error)
	// Open opens an existing file for reading and writing.
	Open(name string) (File, error)
	// Remove unlinks a file or an empty directory.
	Remove(name string) error
	// RemoveAll unlinks name and everything below; a missing name is no error.
	RemoveAll(name string) error
	// Rename replaces to, atomically.
	Rename(from, to string) error
	// MkdirAll makes a directory and its parents; the names are durable after
	// SyncDir on each parent.
	MkdirAll(name string) error
	// List returns the names in a directory, sorted.
	List(dir string) ([]string, error)
	// Stat describes a file or directory.
	Stat(name string) (Info, error)
	// SyncDir makes the names in dir durable.
	SyncDir(dir string) error
	// Space reports the size of the file system that holds dir, in bytes.
	Space(dir string) (Space, error)
	// Lock takes an exclusive lock named by a file, until Close or the end of the
	// process. ErrLocked when another holder has it.
	Lock(name string) (io.Closer, error)
}

// File is an open file. ReadAt and WriteAt may be called concurrently with each
// other and with Sync.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	// Size is the current length in bytes.
	Size() (int64, error)
	// Truncate sets the length in bytes.
	Truncate(size int64) error
	// Sync makes data and length durable (fdatasync).
	Sync() error
}

// Info describes a name.
type Info struct {
	Dir   bool
	Bytes int64 // length of a file; 0 for a directory
}

// Space is a file system's size in bytes; Free is what an ordinary user may still
// write.
type Space struct {
	Total int64
	Free  int64
}

// ReadFile reads a whole file of at most maxBytes.
func ReadFile(fsys FS, name string, maxBytes int64) ([]byte, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	if size > maxBytes {
		return nil, fmt.Errorf("read %s: %d bytes, at most %d are expected", name, size, maxBytes)
	}
	b := make([]byte, size)
	n, err := f.ReadAt(b, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return b[:n], nil
}

// WriteFile replaces a file's content atomically: a temporary file is written and
// renamed over it. With durable set, content and name are on disk when it returns;
// without, a crash leaves the old content, the new one, or (on file systems that
// rename before they write) a damaged file, so that readers must check a checksum.
func WriteFile(fsys FS, name string, content []byte, durable bool) (err error) {
	temporary := name + ".tmp"
	if err := fsys.Remove(temporary); err != nil && !IsNotExist(err) {
		return err
	}
	f, err := fsys.Create(temporary)
	if err != nil {
		return err
	}
	defer func() {
		if closing := f.Close(); err == nil {
			err = closing
		}
	}()
	if _, err := f.WriteAt(content, 0); err != nil {
		return err
	}
	if durable {
		if err := f.Sync(); err != nil {
			return err
		}
	}
	if err := fsys.Rename(temporary, name); err != nil {
		return err
	}
	if durable {
		return fsys.SyncDir(path.Dir(name))
	}
	return nil
}
