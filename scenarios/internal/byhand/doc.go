// Package byhand tries what a skill tells a person to type: it reads the shell
// blocks below "## By hand", runs them line by line in one shell, and compares
// what is printed with what the skill states.
//
// A try has its own directory, home and, where the machine allows it, its own
// network and process table, so that it can use the documented ports beside
// other brokers and leaves nothing behind.
//
// File map:
//
//	doc.go      this page
//	parse.go    blocks, lines, what a line is expected to give
//	expect.go   comparing that with what was printed
//	shell.go    one shell that runs line after line
//	apart.go    a shell with a network and processes of its own (apart_linux.go, apart_other.go)
//	try.go      one skill, from its first line to the end of what it started
package byhand
