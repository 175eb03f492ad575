// Package cli is `ister admin`: the admin commands over admin/client.
//
// Invariants:
//
//   - Results go to standard output, errors and progress to standard error, and
//     the exit status says what kind of answer it was (exit.go).
//   - --output json and yaml print the messages of the API with the field names
//     of their .proto files; 64-bit numbers are strings in them. Errors are JSON
//     then too, and there are no progress lines.
//   - A table fits 100 columns. Nothing is coloured.
//
// It decides nothing about the cluster: a check that only the CLI made would be
// one that other callers lack.
//
// File map:
//
//	command.go     NewCommand, the global flags, what every command shares
//	execute.go     Execute, unknown flags and arguments with a suggestion
//	exit.go        exit statuses
//	errors.go      errors as text and as JSON
//	flags.go       flag values: ids, choices, settings
//	output.go      JSON, YAML and words
//	table.go       tables
//	progress.go    waiting with progress
//	plan.go        plans, operations and moves as text
//	cluster.go     cluster ...
//	health.go      cluster health
//	operations.go  cluster operations ..., cluster moves
//	brokers.go     brokers ...
//	topics.go      topics ..., namespaces ...
//	complete.go    shell completion of names and ids
package cli
