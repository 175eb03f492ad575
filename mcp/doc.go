// Package mcp serves scenarios and the admin API to AI agents over the Model
// Context Protocol: `ister mcp` and `scenario mcp`, on stdio or HTTP.
//
// One table says everything about a tool: name, words, arguments, risk, result
// and handler. Annotations, filters, plan_id, paging, validation, the audit log
// and the goldens follow from it.
//
// Invariants: a call returns within CallMax with at most ResultMax bytes. A
// change that can disturb or destroy something in a cluster is carried out only
// with the plan_id of a plan that still holds. No shell runs what a client says,
// unless who started the server allows it. A run that a tool started does not
// depend on the client nor on this process. Standard output carries JSON-RPC and
// nothing else.
//
// It reaches a cluster through admin/client, and scenarios through their command
// and the files that a run leaves, so that an agent sees what a person sees. It
// does not: keep state of a client, send progress, produce or consume records.
//
// File map:
//
//	command.go    flags
//	stdio.go      one client on a pair of streams; answers after the end of the input
//	http.go       bearer token, Origin, bounds of HTTP
//	server.go     Config, New, what happens around every call
//	requests.go   what is refused before a tool is called
//	table.go      the type of a row of the table, risks, filters
//	toolsets.go   toolsets, and switching them on
//	arguments.go  arguments: schema, validation, suggestions
//	schema.go     output schemas of Go types and protobuf messages
//	result.go     results: JSON, paging, bound on size
//	errors.go     refusals and faults as tool errors with a fix
//	plans.go      plan_id
//	reference.go  docs/reference/tools.md
//	audit.go      one line per call
//	scenario.go   scenario tools that read
//	starting.go   scenario_start
//	running.go    scenario tools about runs: wait, status, report, logs, stop
//	commands.go   runs in which a shell runs what a client says
//	steps.go      step tools, scenario_step, scenario_resume
//	standing.go   where a run stands: paused, under way, ended; what comes next
//	runner.go     the runner as a process of its own; a run's files
//	cluster.go    cluster and operations tools
//	brokers.go    broker tools
//	topics.go     topic and namespace tools
//	diagnose.go   health summary, what blocks a removal, what this machine lacks
//	resources.go  scenario://, run://, skill://
//	prompts.go    a prompt per scenario; completions
package mcp
