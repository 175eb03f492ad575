// Package scenarios holds the scenarios that ship with Ister, and the command
// that runs them: `scenario`, which is also `ister scenario`.
//
// It reaches a cluster as any operator and client does, through admin/client and
// a Kafka client; a scenario that peeks inside proves nothing.
//
// File map:
//
//	doc.go      this page
//	embed.go     the shipped scenarios, and finding one by name or path
//	command.go   the command tree, flags, exit codes
//	completing.go  words for a shell's completion
//	attaching.go  the flags of a cluster that runs already
//	running.go   run
//	runs.go      runs
//	ending.go    stop, clean
//	interrupts.go  signals
//	detached.go  supervisors, watch
//	pausing.go   step, resume, runs that pause
//	layout.go    text within its columns
//	listing.go   list, show, plan
//	reporting.go  report
//	doctor.go    doctor
//	verifying.go  verify
//	table.go     table
//	lint.go      lint
//	lint_sarif.go  its findings for code scanning
//	schema.go    the JSON Schema of scenario files
//	skills.go    skills gen, skills check
//	skills_tree.go      coverage, links, names of MCP tools, by-hand blocks
//	skills_install.go   skills install, links for agents
//	skills_try.go       skills try: what is typed by hand
//	skills_blocks.go    the generated blocks of a scenario's skill
//	skills_commands.go  commands in skills, against the command trees
//	skills_front.go     front matter
//	matrix.go    matrix
//	new.go       new
//	reference_verbs.go  docs/reference/verbs.md
//	step_tools.go  steps as the tools of agents
package scenarios
