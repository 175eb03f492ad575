// Package peer carries all traffic between nodes over one listener: raft
// streams, control calls and replication fetch sessions.
//
// Every connection opens with a handshake that names the cluster, the node, its
// incarnation and its epoch, and whom it is meant for. A connection that reached
// the wrong cluster, another incarnation, a removed node or comes from a node
// that has restarted since is refused with a typed refusal before anything else
// is read.
//
// What holds:
//   - Frames have a bound that is checked before memory is taken.
//   - A call that fails says whether the request can have been carried out
//     (Unsent).
//   - A fetch request and response cost as much as the partitions they name.
//   - Every goroutine ends before Close returns.
//
// What it does not do: it does not know raft, metadata or logs; it does not
// retry calls; it does not encrypt (yet).
//
// Files:
//
//	endpoint.go     Endpoint: listener, accepting, closing
//	identity.go     Identity, Target
//	handshake.go    the opening of a connection, its bytes and its refusals
//	dial.go         outgoing connections, back-off, Probe, Unsent
//	control.go      control calls: frames, connection reuse, dispatch
//	streams.go      raft streams, handed on as plain connections
//	fetch.go        the types of a fetch session
//	fetchwire.go    the bytes of a fetch session
//	fetchsession.go both ends of a fetch session
package peer
