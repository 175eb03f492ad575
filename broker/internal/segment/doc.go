// Package segment is the partition log and what makes many of them durable on one
// disk.
//
// A Log keeps Kafka v2 record batches verbatim in segment files. Beside them lie
// files that can be derived from them (indexes, producer snapshots) and a small
// checkpoint of what cannot (the log start offset, a leader epoch without data).
// A Flusher makes logs durable in rounds: it syncs the segments of a few, and writes
// what many have appended to one shared journal.
//
// Invariants:
//   - offsets from LogStart to LogEnd are contiguous: nothing but records takes one;
//   - what Durable has covered survives any crash, through TruncateTo and ResetTo
//     alone can it go, and both are durable when they return;
//   - a segment is never durable before the one before it is;
//   - recovery drops only what cannot have been durable; damage to anything else
//     quarantines the log, and then nothing is changed;
//   - whatever vouches for bytes (an index file, a mark, a journal entry) is taken
//     back, durably, before the bytes are cut;
//   - a failed sync is never repeated: it poisons the log.
//
// Non-goals: compaction, transactions, tiered storage. The package decides nothing
// about leadership, in-sync replicas or the high watermark, and starts no goroutine
// but the Flusher's.
//
// The formats are in docs/formats/segment.md and docs/formats/journal.md.
//
// Files:
//
//	config.go      Config, Recovery, SegmentInfo, CorruptError
//	log.go         Log: accessors, appending, rolling, epochs, closing
//	read.go        Read, CRC, OffsetForTime
//	sync.go        Sync, marks, index files
//	truncate.go    TruncateTo, ResetTo, DeleteTo
//	recover.go     Open
//	rebuild.go     producer state from snapshots and batches
//	segment.go     one file: its summary, handle and eviction
//	scan.go        walking the batches of a file
//	index.go       the sparse index
//	epochs.go      leader epochs, the checkpoint file
//	producers.go   idempotent producers (KIP-98)
//	format.go      headers, marks, frames, names
//	directory.go   MarkDeleted, Quarantine, Purge
//	flusher.go     Flusher: rounds, waiters, checkpoints
//	round.go       a round by way of the journal
//	journal.go     the journal's files and entries
//	replay.go      what NewFlusher does with a journal it finds
package segment
