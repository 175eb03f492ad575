package segment

import (
	"fmt"
	"path"
	"strings"

	"github.com/ister-mq/ister/broker/internal/vfs"
)

// Marks in the names of directories that are no longer logs.
const (
	deletedMark     = ".deleted-"
	quarantinedMark = ".quarantined-"
	maxAside        = 1 << 20
)

// MarkDeleted renames a closed log's directory to <dir>.deleted-<n>, durably. Purge
// removes it later; until then a person can rename it back.
func MarkDeleted(fsys vfs.FS, dir string) (renamed string, err error) {
	return setAside(fsys, dir, deletedMark)
}

// Quarantine renames a log's directory to <dir>.quarantined-<n>, durably, keeping
// every byte, so that the replica can be copied anew. Nothing removes it but a
// person.
func Quarantine(fsys vfs.FS, dir string) (renamed string, err error) {
	return setAside(fsys, dir, quarantinedMark)
}

func setAside(fsys vfs.FS, dir, word string) (string, error) {
	for n := 1; n < maxAside; n++ {
		to := fmt.Sprintf("%s%s%d", dir, word, n)
		if _, err := fsys.Stat(to); err == nil {
			continue
		} else if !vfs.IsNotExist(err) {
			return "", fmt.Errorf("set %s aside: %w", dir, err)
		}
		if err := fsys.Rename(dir, to); err != nil {
			return "", fmt.Errorf("set %s aside: %w", dir, err)
		}
		if err := fsys.SyncDir(path.Dir(dir)); err != nil {
			return "", fmt.Errorf("set %s aside: %w", dir, err)
		}
		return to, nil
	}
	return "", fmt.Errorf("set %s aside: %d names are taken", dir, maxAside)
}

// Purge removes the directories below parent that MarkDeleted renamed, and returns
// their names. The caller decides when the time of grace is over.
func Purge(fsys vfs.FS, parent string) (removed []string, err error) {
	names, err := fsys.List(parent)
	if err != nil {
		return nil, fmt.Errorf("purge: %w", err)
	}
	for _, name := range names {
		if !strings.Contains(name, deletedMark) {
			continue
		}
		if err := fsys.RemoveAll(path.Join(parent, name)); err != nil {
			return removed, fmt.Errorf("purge: %w", err)
		}
		removed = append(removed, name)
	}
	if len(removed) == 0 {
		return nil, nil
	}
	return removed, fsys.SyncDir(parent)
}
