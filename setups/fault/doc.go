// Package fault hinders brokers: a proxy in user space that delays, narrows and
// cuts connections, and the process setup with it in front of every broker's
// node-to-node port and with file systems that can be filled.
//
// The proxy knows no protocol. It forwards bytes, in order, never losing one of
// a connection that lives: what TCP promises holds, as on a bad network.
//
// It does not reach clients' connections and does not corrupt data. It drops no
// packets: a user of TCP sees a loss as a stall, and so a lost piece is a late
// one; a connection that is cut off stalls, as one does whose packets all
// vanish. A new connection is accepted by the proxy also while the link is cut,
// and then stalls, where a real one would not come about.
//
// File map:
//
//	proxy.go         the proxy: links between named ends
//	pump.go          one direction of one connection
//	process.go       the process setup with faults
//	owner_linux.go   which process a local connection comes from
//	owner_other.go   there is no telling elsewhere
//	disk_linux.go    file systems of a given size
//	disk_other.go    none elsewhere
package fault
