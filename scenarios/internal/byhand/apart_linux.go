package byhand

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// attributes of a shell's process. One that is apart is killed when this process
// ends, and being the first process of its table, everything that it started dies
// with it; one that is not is a group that ends itself.
func attributes(how separation) *syscall.SysProcAttr {
	if how == together {
		return &syscall.SysProcAttr{Setsid: true}
	}
	a := &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setsid: true}
	a.Cloneflags = syscall.CLONE_NEWPID | syscall.CLONE_NEWNS
	if how == network {
		a.Cloneflags |= syscall.CLONE_NEWNET
	}
	if uid := os.Geteuid(); uid != 0 {
		a.Cloneflags |= syscall.CLONE_NEWUSER
		a.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: uid, Size: 1}}
		a.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
	}
	return a
}

// groupRuns reports whether a process of the group runs. One that has ended and
// that its parent has not asked about, which may take seconds, does not.
func groupRuns(group int) bool {
	files, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is constant
	for _, file := range files {
		data, _ := os.ReadFile(file) // gone by now: an empty text
		// After the name, which may have spaces: state, parent, group.
		_, rest, _ := strings.Cut(string(data[max(strings.LastIndexByte(string(data), ')'), 0):]), " ")
		if fields := strings.Fields(rest); len(fields) > 2 && fields[2] == strconv.Itoa(group) && fields[0] != "Z" && fields[0] != "X" {
			return true
		}
	}
	return false
}
