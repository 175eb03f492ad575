package quorum

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// allocate gives a file blocks for its whole length. A file system that cannot do
// so is no fault.
func allocate(path string) error {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil // badger was done with it
	}
	if err != nil {
		return fmt.Errorf("allocate %s: %w", path, err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return fmt.Errorf("allocate %s: %w", path, err)
	}
	if info.Size() > 0 {
		err = unix.Fallocate(int(file.Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, info.Size())
	}
	if err != nil && !errors.Is(err, unix.EOPNOTSUPP) && !errors.Is(err, unix.ENOSYS) {
		return fmt.Errorf("allocate %d bytes for %s: %w", info.Size(), path, err)
	}
	return nil
}
