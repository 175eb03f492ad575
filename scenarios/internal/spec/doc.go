// Package spec reads scenario files: strict YAML in the format scenario/v1,
// checked completely before anything runs.
//
// Invariants: a *Scenario that Parse returned has no unknown key, every
// reference in it resolves to a value of a fitting type, every step uses a known
// verb with its required inputs, and every `until` repeats a read only. Mistakes
// come as Problems, all of them at once, each with file, line, column and, where
// a near word exists, a suggestion.
//
// It does not run anything, knows no verb by name, and reads no file.
//
// File map:
//
//	cluster.go   the cluster section: brokers, links, disks
//	doc.go       this page
//	expr.go      the expressions inside ${}: parse, type-check, evaluate
//	keys.go      the keys and words of the format
//	parse.go     YAML nodes to Scenario
//	problem.go   mistakes and suggestions
//	scenario.go  Scenario, Aspect, Step, Check; stages and parameters
//	schema.go    the JSON Schema of the format
//	template.go  values that may hold expressions
//	type.go      static types, and types of Go structs
//	type_json.go  JSON Schemas of values
//	value.go     run-time values, formatting, comparison
package spec
