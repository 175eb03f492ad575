// Package run carries scenarios out: it makes a run's directory, stands the
// cluster up through a setup, runs the steps, judges guards and criteria, cleans
// up whatever happened, and leaves the evidence.
//
// Invariants: `always` and the cleanup run on pass, fail, timeout and interrupt.
// Nothing is ended that the run did not start. A run that did not test what it
// was meant to is never a pass.
//
// File map:
//
//	doc.go     this page
//	engine.go  Options, Execute, the order of things
//	abilities.go  what the steps need, against what the setup can
//	step.go    one step: inputs, timeout, until
//	pause.go   stopping between steps, and the orders that end a pause
//	sample.go  looks at the cluster and its clients while a run goes on
//	judge.go   guards and criteria, failures
//	dir.go     a run's directory and its checksums
//	follow.go  following a run of any process
//	files.go   the reports, with excerpts of the history
//	limit.go   what the cluster needs for the faults of a run
//	manage.go  listing, stopping and cleaning runs
package run
