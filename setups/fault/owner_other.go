//go:build !linux

package fault

import "net"

const canTellOwners = false

// ownerOf cannot tell here: a connection is then hindered as the end behind the
// proxy is.
func ownerOf(net.Conn, map[int]string) int { return 0 }
