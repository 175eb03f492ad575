package node

import (
	"errors"
	"fmt"
	"io"
	"path"

	"github.com/ister-mq/ister/broker/internal/controlplane"
	"github.com/ister-mq/ister/broker/internal/vfs"
)

// lockDirectory makes the data directory and takes it for this process, before
// anything in it is read: two processes on one directory would destroy it.
func lockDirectory(fsys vfs.FS, dir string) (io.Closer, error) {
	if err := fsys.MkdirAll(dir); err != nil {
		return nil, fmt.Errorf("create data directory %s: %w", dir, err)
	}
	lock, err := fsys.Lock(path.Join(dir, "node.lock"))
	if errors.Is(err, vfs.ErrLocked) {
		return nil, &controlplane.Error{
			Code: "DATA_DIR_IN_USE", Message: fmt.Sprintf("data directory %s is used by another process", dir),
			Advice: "give another --data-dir, or end the broker that runs on it", ExitStatus: controlplane.ExitDataDirInUse, Err: err,
		}
	}
	if err != nil {
		return nil, fmt.Errorf("lock data directory %s: %w", dir, err)
	}
	return lock, nil
}
