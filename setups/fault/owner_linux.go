package fault

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
)

const canTellOwners = true

// ownerOf finds which of some processes has the far end of a connection between
// two addresses of this machine; 0 when none has.
func ownerOf(conn net.Conn, processes map[int]string) int {
	near, err1 := netip.ParseAddrPort(conn.LocalAddr().String())
	far, err2 := netip.ParseAddrPort(conn.RemoteAddr().String())
	data, err3 := os.ReadFile("/proc/net/tcp")
	if err1 != nil || err2 != nil || err3 != nil {
		return 0
	}
	// The far end's own line: its local address first.
	want := hexAddress(far) + " " + hexAddress(near)
	for line := range strings.Lines(string(data)) {
		fields := strings.Fields(line)
		if len(fields) < 10 || fields[1]+" "+fields[2] != want {
			continue
		}
		socket := "socket:[" + fields[9] + "]"
		for pid := range processes {
			if holds(pid, socket) {
				return pid
			}
		}
	}
	return 0
}

// hexAddress is an IPv4 address as /proc/net/tcp has it, in the byte order of
// the machine.
func hexAddress(a netip.AddrPort) string {
	ip := a.Addr().Unmap()
	if !ip.Is4() {
		return ""
	}
	bytes := ip.As4()
	return fmt.Sprintf("%08X:%04X", binary.NativeEndian.Uint32(bytes[:]), a.Port())
}

func holds(pid int, socket string) bool {
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return false
	}
	for _, e := range entries {
		if target, err := os.Readlink(filepath.Join(dir, e.Name())); err == nil && target == socket {
			return true
		}
	}
	return false
}
