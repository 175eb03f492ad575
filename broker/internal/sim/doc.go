// Package sim runs whole clusters in one goroutine from one seed. The decisions
// and the storage are the real ones (metadata, placement, operation, replication,
// replica, segment on vfs.Memory); the metadata quorum is modelled: a log with
// terms, controllers that are replaced and may not know it yet, proposals that
// are lost, committed by a successor, or dropped because their base is old.
//
// A run has two phases. Under faults (lost, late, reordered and repeated messages,
// crashes that lose what was not synced, pauses, partitions, slow disks,
// controller changes) it must stay safe: the invariants are checked after each
// event. Then everything heals, and it must become live: leaders, full ISRs,
// finished operations, producers that go on, equal copies.
//
// The same seed gives the same trace. A failing run prints the end of its trace
// and the command that repeats it.
//
// Invariants by name:
//
//	one-leader-per-epoch      at most one life of one node leads a leader epoch
//	watermark-monotone        a leader's high watermark never goes back, across epochs too
//	committed-agrees          all logs hold the same batches below any high watermark
//	leader-complete           a new leader holds everything that was committed
//	acked-committed           an acknowledged batch is committed where the producer was told
//	acked-durable             and synced on min ISR nodes (flush.policy=sync)
//	isr-holds-committed       every ISR member holds everything that was committed, synced
//	truncate-below-watermark  no replica truncates what was committed
//	durable-survives          what was synced is there after a crash
//	contiguous                offsets are positions: no gap, no overlap, epochs never
//	                          fall, no high watermark beyond the log end
//	no-duplicates             at most one committed batch per producer id and sequence
//	image-sane                ISR within replicas, leader within ISR, epochs only grow
//	read-committed            consumers get exactly the committed batches, in order
//	latest-monotone           the latest offset told to clients never goes back
//	plan-idempotent           once a plan ran, planning again gives nothing
//	replay-equal              applying the same batches gives the same image
//
// Files:
//
//	sim.go      Run: configuration, virtual time, events, trace, phases
//	quorum.go   the modelled metadata quorum and its controllers
//	network.go  messages between nodes, faults of links
//	node.go     one node: start, registration, images, heartbeats, crash
//	serve.go    a node's replicas: fetching, syncing, ISR proposals, produce
//	client.go   producers and consumers
//	admin.go    topics, nodes, plans and operations
//	nemesis.go  faults
//	check.go    the invariants on logs
//	live.go     healing, liveness and the final comparison
//	many.go     many seeds at a time
//	plants.sh   each planted bug must be caught (`make plants`)
//
// The command in cmd is what `make sim` runs.
package sim
