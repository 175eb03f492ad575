package vfs

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"sort"
)

// IsNotExist reports that a name is missing.
func IsNotExist(err error) bool { return errors.Is(err, fs.ErrNotExist) }

// IsExist reports that a name is taken.
func IsExist(err error) bool { return errors.Is(err, fs.ErrExist) }

// OS is the machine's file system.
type OS struct{}

var _ FS = OS{}

const (
	filePermission      = 0o644
	directoryPermission = 0o755
)

// Create implements FS.
func (OS) Create(name string) (File, error) {
	return openOS(name, os.O_RDWR|os.O_CREATE|os.O_EXCL)
}

// Open implements FS.
func (OS) Open(name string) (File, error) { return openOS(name, os.O_RDWR) }

func openOS(name string, flags int) (File, error) {
	f, err := os.OpenFile(name, flags, filePermission)
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

// Remove implements FS.
func (OS) Remove(name string) error { return os.Remove(name) }

// RemoveAll implements FS.
func (OS) RemoveAll(name string) error { return os.RemoveAll(name) }

// Rename implements FS.
func (OS) Rename(from, to string) error { return os.Rename(from, to) }

// MkdirAll implements FS.
func (OS) MkdirAll(name string) error { return os.MkdirAll(name, directoryPermission) }

// List implements FS.
func (OS) List(dir string) ([]string, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	sort.Strings(names)
	return names, nil
}

// Stat implements FS.
func (OS) Stat(name string) (Info, error) {
	st, err := os.Stat(name)
	if err != nil {
		return Info{}, err
	}
	if st.IsDir() {
		return Info{Dir: true}, nil
	}
	return Info{Bytes: st.Size()}, nil
}

// SyncDir implements FS.
func (OS) SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	if closing := d.Close(); err == nil {
		err = closing
	}
	return err
}

// Space implements FS.
func (OS) Space(dir string) (Space, error) { return spaceOS(dir) }

// Lock implements FS.
func (OS) Lock(name string) (io.Closer, error) { return lockOS(name) }

type osFile struct{ *os.File }

func (f osFile) Size() (int64, error) {
	st, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return st.Size(), nil
}

func (f osFile) Sync() error { return syncOS(f.File) }
