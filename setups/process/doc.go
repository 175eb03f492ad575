// Package process runs a cluster as processes of the ister binary on this
// machine: each in a process group of its own, on free ports, with everything
// below the run's directory and every process in the run's ledger.
//
// It never looks for processes by name and never signals one that it did not
// start.
//
// File map:
//
//	doc.go      this page
//	process.go  the setup and its cluster
//	mistake.go  starts that a broker must refuse
//	place.go    where a broker listens and its process lives
//	ledger.go   what was started, also for a later `clean`
//	held.go     starting what the ledger knows from the first moment
//	wait_linux.go, wait_other.go  an end without reaping, a stop of every thread
package process
