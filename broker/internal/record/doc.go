// Package record reads and writes Kafka v2 record batches in place.
//
// A batch is the unit that producers send, logs store and consumers fetch. The
// system never re-encodes one: it looks at the 61-byte header, checks the CRC32C,
// and stamps the two fields that lie outside the checksum (base offset and leader
// epoch). Everything here works on a byte slice that the caller owns.
//
// Invariants:
//   - no input makes a function panic, and nothing reads beyond the slice;
//   - a batch that Check accepts has magic 2, a length that fits the slice, and a
//     CRC32C that matches;
//   - decompression is bounded by a limit that the caller states.
//
// Non-goals: magic 0 and 1 (refused as UNSUPPORTED_FORMAT), transactions, and
// re-compression.
//
// Files:
//
//	header.go     Header, Parse, Check, Next, Stamp
//	produce.go    CheckProduce: what a leader asks of a client's batch; Checked: the answer
//	decode.go     Decode: the records inside, for tools, tests and time look-ups
//	compress.go   codecs, bounded
//	build.go      Build: batches for tests, the simulator and tools
//
// Source: Apache Kafka message format v2 (KIP-98), KIP-110 (zstd).
package record
