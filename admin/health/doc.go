// Package health says how a cluster is: Gather reads it through the admin API
// and the metrics of each broker, Judge turns the facts into findings with a
// code, an object and a remedy.
//
// Invariants:
//
//   - Judge is a function of the facts alone.
//   - What could not be read is unknown: it is never taken for zero, nor for fine.
//   - Nothing is changed in the cluster.
//
// File map:
//
//	doc.go          this page
//	gather.go       Facts, Gather
//	judge.go        Report, Judge, what the cluster says of itself
//	judge_nodes.go  what each broker says: disks, replicas, clocks, versions
package health
