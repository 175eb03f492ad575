// Package load is what real clients do to a cluster during a run: an idempotent
// producer that sends at a steady rate, a reader that follows it, and a fresh
// reader at the end. Everything goes into a history.
//
// A load owns its goroutines and clients; Stop or Close ends them.
//
// File map:
//
//	doc.go      this page
//	load.go    Config, Load, sending
//	client.go  options of the Kafka clients
//	read.go    the following reader and the complete read
//	payload.go what a record holds
//	stream.go  records that a scenario writes step by step
//	stream_read.go  reading them, at once or bit by bit
//	repeat.go  a producer that sends its numbered batches again
package load
