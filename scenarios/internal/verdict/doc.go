// Package verdict judges a recorded history. Judge is a pure function, so a
// verdict can be computed again, offline, from the file that a run left.
//
// A history has to be judged as a whole: counting records finds few of the ways
// in which a log can be wrong. Each Check below has a planted anomaly in
// selftest.go that it must catch, and legal histories must raise none.
//
// File map:
//
//	doc.go       this page
//	verdict.go   checks, findings, Judge
//	safety.go    what the log and its readers must never show
//	delivery.go  what consumers with acknowledgements must never see
//	liveness.go  gaps, latencies and windows around disturbances
//	legal.go     a generator of legal histories
//	selftest.go  planted anomalies, and the self-test
package verdict
