package fault

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// mountSource marks the file systems that this package mounts.
const mountSource = "ister-disk"

// Files that fill a disk.
const (
	fillFile    = "fill.ister"    // takes what there is
	reserveFile = "reserve.ister" // keeps free what shall stay free
)

// mountable says why file systems cannot be mounted; "" when they can.
func mountable() string {
	if os.Geteuid() != 0 {
		return "mounting needs root"
	}
	return ""
}

// mount puts a file system of a size, in memory, on a directory that it makes.
func mount(dir string, sizeBytes int64) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make the data directory: %w", err)
	}
	if err := unix.Mount(mountSource, dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, fmt.Sprintf("size=%d,mode=755", sizeBytes)); err != nil {
		return fmt.Errorf("mount a file system of %d bytes on %s: %w", sizeBytes, dir, err)
	}
	return nil
}

func unmount(dir string) error {
	if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) { // EINVAL: not mounted
		return fmt.Errorf("unmount %s: %w", dir, err)
	}
	return nil
}

// unmountBelow takes away what mount mounted below a directory.
func unmountBelow(dir string) (leftovers []string) {
	data, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return []string{fmt.Sprintf("list mounts: %v", err)}
	}
	spaces := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	for line := range strings.Lines(string(data)) {
		fields := strings.Fields(line)
		if len(fields) < 3 || fields[0] != mountSource {
			continue
		}
		at := spaces.Replace(fields[1])
		if strings.HasPrefix(at, dir+string(filepath.Separator)) {
			if err := unmount(at); err != nil {
				leftovers = append(leftovers, err.Error())
			}
		}
	}
	return leftovers
}

// fill takes the room on a directory's file system, all but so many bytes.
func fill(dir string, leaveBytes int64) error {
	reserve := filepath.Join(dir, reserveFile)
	if err := zeros(reserve, leaveBytes); err != nil {
		return fmt.Errorf("keep %d bytes free: %w", leaveBytes, err)
	}
	defer os.Remove(reserve)
	var stat unix.Statfs_t
	if err := unix.Statfs(dir, &stat); err != nil {
		return fmt.Errorf("size of the disk: %w", err)
	}
	if err := zeros(filepath.Join(dir, fillFile), int64(stat.Blocks)*stat.Bsize); !errors.Is(err, unix.ENOSPC) {
		return fmt.Errorf("fill the disk: it is not full (%v)", err)
	}
	return nil
}

func free(dir string) error {
	if err := os.Remove(filepath.Join(dir, fillFile)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("free the disk: %w", err)
	}
	return nil
}

// zeros writes a file; what was written before an error stays.
func zeros(path string, size int64) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	piece := make([]byte, 1<<20)
	for size > 0 && err == nil {
		_, err = file.Write(piece[:min(size, int64(len(piece)))])
		size -= int64(len(piece))
	}
	return errors.Join(err, file.Close())
}
