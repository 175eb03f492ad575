package node

import (
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/ister-mq/ister/broker/internal/controlplane"
	"github.com/ister-mq/ister/broker/internal/vfs"
)

// ownNames are what a node makes in its data directory.
var ownNames = []string{"clean", "high-watermarks", "identity", "identity.new", "journal", "lock", "logs", "node.lock", "raft", "rebuilding"}

// lockDirectory makes the data directory and takes it for this process, before
// anything in it is read: two processes on one directory would destroy it. A
// directory of somebody else is refused as it is.
func lockDirectory(fsys vfs.FS, dir string) (io.Closer, error) {
	if err := fsys.MkdirAll(dir); err != nil {
		return nil, fmt.Errorf("create data directory %s: %w", dir, err)
	}
	if err := mayBeFormatted(fsys, dir); err != nil {
		return nil, err
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

// mayBeFormatted refuses a directory without an identity that is not empty: one
// that was mistaken for a data directory, or one whose identity was lost. What a
// first start that was cut short leaves, what a file system has by itself, and
// hidden files count as empty.
func mayBeFormatted(fsys vfs.FS, dir string) error {
	names, err := fsys.List(dir)
	if err != nil {
		return fmt.Errorf("list data directory %s: %w", dir, err)
	}
	if slices.Contains(names, "identity") {
		return nil
	}
	foreign := slices.DeleteFunc(names, func(name string) bool {
		return slices.Contains(ownNames, name) || name == "lost+found" || strings.HasPrefix(name, ".")
	})
	if len(foreign) > 0 {
		return &controlplane.Error{
			Code: controlplane.CodeDataDirForeign, ExitStatus: controlplane.ExitWrongIdentity,
			Message: fmt.Sprintf("data directory %s is not a broker's and not empty: it holds %s", dir, some(foreign)),
			Advice:  "give a --data-dir that is empty or does not exist; nothing was changed in this one",
		}
	}
	for _, kept := range []struct{ name, what string }{{"logs", "partition logs"}, {"raft", "cluster state"}} {
		inside, err := fsys.List(path.Join(dir, kept.name))
		if err != nil && !vfs.IsNotExist(err) {
			return fmt.Errorf("list data directory %s: %w", dir, err)
		}
		if len(inside) > 0 {
			return controlplane.Damaged(dir, fmt.Errorf("it holds %s and no identity file", kept.what))
		}
	}
	return nil
}

// some names the first few of many.
func some(names []string) string {
	const shown = 3
	if len(names) <= shown {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:shown], ", "), len(names)-shown)
}
