// Package node is the shell of one node: it reads settings, binds ports, starts
// both planes and the adapters around them, and stops them in order.
//
// Invariants: every port is bound before the node registers anywhere; no wildcard
// address and no port 0 is advertised; a clean stop gives leaderships away before
// it refuses clients, and leaves the clean marker only when all logs were synced.
//
// It decides nothing about data or metadata.
//
// Files:
//
//	doc.go       this page
//	settings.go  Config and the table of settings
//	load.go      flags, environment and file into a Config
//	ports.go     binding the listeners
//	lock.go      taking the data directory
//	advertise.go the addresses that others are given
//	node.go      Node: Start, Wait, Stop
//	backend.go   the node as the admin API sees it
package node
