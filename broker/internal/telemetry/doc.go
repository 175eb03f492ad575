// Package telemetry turns what happened into logs and metrics.
//
// The planes hand it typed events (events.go) and count into typed metrics
// (metrics.go). Every metric is a row of one table (table.go): name, kind,
// unit, labels, help. A golden lists the table, so that a name changes only on
// purpose.
//
// Invariants: every name starts with ister_; labels are bounded sets, never
// topic names, client ids, keys or error text; log messages are constant and
// their data is in keys.
//
// It does not keep history, trace requests, or decide anything.
//
// Files:
//
//	doc.go      this page
//	table.go    the table of metrics and its text form
//	metrics.go  Metrics: one field per row, and the HTTP handler
//	events.go   Event, the event types, and Log, which writes them
package telemetry
