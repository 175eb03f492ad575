// Package verb holds what a scenario's steps can do. A verb has typed inputs and
// outputs (structs whose tags are their schema), a sentence of documentation, a
// risk, and the command that a person would type instead.
//
// Verbs reach the cluster through admin/client and Kafka clients, and its
// processes through the setup. They judge nothing: they return what they saw.
//
// File map:
//
//	doc.go      this page
//	verb.go     Verb, the registry, rendering of commands
//	env.go      what a verb works on
//	cluster.go  cluster.*: forming, membership, status
//	broker.go   broker.*, brokers.*: processes, draining, balance
//	topic.go    topic.*
//	load.go     load.*: traffic, and its verdict
//	fault.go    network.*, disk.*, freezing of brokers, broker.pick
//	epochs.go   epochs.*: who leads, as every broker tells it
//	chaos.go    chaos.kill
//	capture.go  capture.state
package verb
