// Package report holds what a run leaves for people and machines: the record of
// the run (run.json), its events, and their renderings for a terminal, Markdown
// and JUnit. Renderings are functions of the record alone, so they can be made
// again from a run's directory.
//
// File map:
//
//	doc.go       this page
//	run.go       Run, Step, Check, Verdict, exit codes
//	event.go     Event, and the file of events
//	sample.go    Sample: a look at the cluster and its clients
//	terminal.go  progress and tables on a terminal
//	html.go      report.html
//	charts.go    its charts
//	ndjson.go    progress as lines of JSON
//	files.go     junit.xml and summary.md
package report
