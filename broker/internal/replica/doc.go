// Package replica joins the rules of replication with the partition log: it is
// one partition on one node. It is deterministic: no goroutine, no lock, no
// clock of its own; the data plane and the simulator drive the same code.
//
// Invariants:
//
//   - Nothing is acknowledged before the high watermark covers it (Committed),
//     and never by the high watermark of an epoch in which another node may have
//     written.
//   - With FlushSync a record counts only where it is synced: the leader's own
//     contribution to the high watermark is its durable end, and a follower asks
//     for more only when what it has is durable.
//   - A node never leads an epoch that its log already holds records of, and
//     follows nobody by metadata older than its log.
//   - A follower never truncates below its high watermark when FlushSync.
//
// Before the first Assign after a start, the node must have registered and its
// image must show that registration: older metadata may name leaders that lag
// behind this log.
//
// Non-goals: syncing (the flusher), waiting, batching of ISR proposals, closing
// and deleting logs, checkpointing the high watermark (the data plane).
//
// Files:
//
//	replica.go   Replica: configuration, assignment, roles
//	leader.go    the leader's side: produce, followers' fetches, ISR, readers
//	follower.go  the follower's side: what to ask, what to do with the answer
package replica
