// Package attach uses a cluster that somebody else started and looks after: any
// Ister cluster by its admin addresses, or any cluster that speaks the Kafka
// protocol by its bootstrap addresses, for what needs no admin API.
//
// It starts and ends no broker by itself. Where a run has to, an executable of
// the cluster's owner does it (Setup.Command); without one that is refused.
//
// What a run makes on the cluster is noted in the run's directory before it is
// made: topics, and brokers that joined. Close, or Clean after a killed runner,
// takes exactly that back.
//
// File map:
//
//	doc.go      this page
//	attach.go   Setup: its check, its abilities
//	cluster.go  the cluster: finding its brokers, adding and ending some
//	command.go  calling the owner's executable
//	journal.go  what a run made on the cluster
//	return.go   taking it back
package attach
