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
//	kafka.go    topics and brokers of a cluster without the admin API
//	hand.go     hand.run: a command of the cluster's own tools
//	load.go     load.*: traffic, and its verdict
//	fault.go    network.*, disk.*, freezing of brokers, broker.pick
//	epochs.go   epochs.*: who leads, as every broker tells it
//	chaos.go    chaos.kill
//	soak.go     chaos.soak: windows of load that are judged and given up
//	soak_mix.go what a soak does to the cluster, and what brokers use
//	capture.go  capture.state
//	message.go  message.*: records written and read step by step, and judged
//	offsets.go  offsets.*: what a topic's partitions answer about offsets
//	metadata.go  metadata.compare, namespace.*, topic.delete
//	probe.go    broker.probe, admin.read: does everything answer
//	whole.go    cluster.stop, cluster.kill, cluster.restart: every broker
//	mistake.go  broker.mistake: starts that must be refused
//	health.go   cluster.health
//	upgrade.go  two builds of the broker, and brokers that go from one to the other
package verb
