package byhand

import (
	"os"
	"syscall"
)

// attributes of a shell's process. It is killed when this process ends; being
// the first process of its table, everything that it started dies with it.
func attributes(how separation) *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setsid: true}
	if how == together {
		return a
	}
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
