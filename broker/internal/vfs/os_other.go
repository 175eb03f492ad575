//go:build !linux

package vfs

import (
	"errors"
	"io"
	"os"
	"syscall"
)

func syncOS(f *os.File) error { return f.Sync() }

func spaceOS(dir string) (Space, error) {
	return Space{}, &os.PathError{Op: "statfs", Path: dir, Err: errors.ErrUnsupported}
}

func lockOS(name string) (io.Closer, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, filePermission)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		return nil, ErrLocked
	}
	return f, nil
}
