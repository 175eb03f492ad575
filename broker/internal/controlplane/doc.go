// Package controlplane is one node's part of the control plane: who the node
// is, how it comes into a cluster and leaves it, the metadata image it follows,
// and, while it leads the metadata quorum, the controller.
//
// What holds:
//   - A data directory belongs to one process, one node and one cluster. What
//     does not fit is refused with advice and its own exit status, before
//     anything is written.
//   - Forming, admission and removal are sequences of steps of which each can be
//     repeated, and which the controller finishes by itself after a crash
//     between any two.
//   - Commands are decided one after the other on the latest image; those that
//     wait together go into one raft entry.
//   - A caller is told NOT_CONTROLLER only when nothing was written, and
//     OUTCOME_UNKNOWN whenever something may have been.
//   - Liveness uses the monotonic clock. The lease a node believes in ends before
//     the one the controller grants. A silent node is fenced when its lease is
//     out; a node whose process is gone is fenced at once.
//   - The voters never change by themselves, except to finish a removal that was
//     asked for.
//
// What it does not do: it holds no records and serves no client; it decides
// nothing itself (metadata, placement and operation do); it opens no port.
//
// Files:
//
//	plane.go      Plane: Config, Start, Close, the view of the node
//	types.go      reports, status, errors with exit statuses
//	identity.go   the identity file and the lock of the data directory
//	forming.go    a new cluster from its seed nodes, or of one
//	machine.go    the metadata image and its listeners
//	attend.go     registration, heartbeats and the lease of a node
//	ask.go        calling the controller from any node
//	office.go     taking, holding and losing the controller's office
//	decide.go     the controller's queue of commands
//	liveness.go   contacts, probes, fencing and unfencing
//	steward.go    operations, healing and unfinished membership
//	admission.go  adding a node
//	membership.go promoting, demoting, removing, transferring
//	requests.go   plans and operations on request
package controlplane
