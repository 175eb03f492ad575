//go:build !linux

package byhand

import "syscall"

// attributes of a shell's process: a group of its own, by which it is ended.
// Other systems have nothing more.
func attributes(separation) *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// groupRuns cannot look closer here: what can be signalled runs.
func groupRuns(int) bool { return true }
