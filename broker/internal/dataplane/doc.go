// Package dataplane holds every replica of a node: it appends for producers,
// reads for consumers, copies from and to other nodes, and keeps the disk.
//
// Each replica (local) has one mutex around its replica.Replica and waiters.
// Decisions are in replica and replication; this package carries them out, in
// few goroutines: one that carries images out, one fetcher per leader node, one
// session per follower node (the peer endpoint's), one that proposes ISR changes,
// one for the clock. A produce runs on its connection's goroutine up to the
// append, and is answered from whichever goroutine moved the high watermark.
//
// Invariants:
//
//   - Nothing is acknowledged with acks=all before replica.Committed says so,
//     under the epoch that appended it.
//   - The offset that a follower asks for is durable there, when the topic syncs
//     before an ack: a fetcher asks again only after the sync of what it appended.
//   - No directory is deleted unless an image of this start says that the copy is
//     not needed; everything else unknown or damaged is set aside. No image is
//     acted on before it holds this start's own registration.
//   - A copy that lost its data leads nothing until the metadata has seen it
//     leave the ISR.
//   - A fault of one log takes one replica offline. A full disk takes none.
//   - Lock order: Plane.mu, local.mu, then session.mu or fetcher.mu; callbacks of
//     others run without any of them.
//
// It does not elect, plan, or speak the Kafka protocol, and never waits for a
// disk or a node with a replica's lock held.
//
// Files:
//
//	doc.go          this page
//	plane.go        Config, Plane, Open, Run, Close
//	local.go        local: one replica, its waiters, faults
//	reconcile.go    from images to open, leading, following and given-up replicas
//	directory.go    the data directory: open, set aside, give up, purge, close
//	produce.go      Produce and the queues of waiters
//	early.go        produces that came before the news that this node leads
//	news.go         reads that came before the news of a new leader epoch
//	read.go         Fetch, ListOffsets, OffsetForLeaderEpoch
//	fetcher.go      the follower's side of replication
//	session.go      the leader's side of replication
//	buffers.go      pooled read buffers
//	throttle.go     the bound on copies outside the ISR
//	isr.go          ISR proposals, and handing over what cannot be led
//	housekeeping.go timeouts, interval flushes, disk space, retention
//	report.go       what this node can say about its data
//	checkpoint.go   high watermarks on disk
//	view.go         the rest of kafka.Backend
package dataplane
