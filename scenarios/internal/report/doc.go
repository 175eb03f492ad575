// Package report holds what a run leaves for people and machines: the record of
// the run (run.json), its events, and their renderings for a terminal, Markdown,
// JUnit and HTML. Renderings are functions of the record alone, so they can be made
// again from a run's directory.
//
// File map:
//
//	doc.go       this page
//	run.go       Run, Step, Check, Verdict, exit codes
//	event.go     Event, and the file of events
//	sample.go    Sample: a look at the cluster and its clients
//	terminal.go  progress and tables on a terminal
//	view.go      View: what the live view shows, as lines
//	live.go      Live: the view on a terminal
//	html.go      report.html, from page.tmpl
//	charts.go    plots over time, bars
//	traffic.go   what clients saw: over the run, and around each disturbance
//	balance.go   leaders, replicas and moves: before, after and over time
//	excerpt.go   the history around violations, and sends of unknown outcome
//	ndjson.go    progress as lines of JSON
//	files.go     junit.xml and summary.md
package report
