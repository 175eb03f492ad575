package mcp

import (
	"context"
	"fmt"
	"slices"
	"strings"

	protocol "github.com/mark3labs/mcp-go/mcp"
)

// Risk says how much a tool can change.
type Risk string

// The risks, from least to most. Contained changes only what belongs to a run of
// a scenario, which starts its own brokers; it is never asked for a plan.
const (
	ReadOnly    Risk = "read-only"
	Contained   Risk = "contained"
	Additive    Risk = "additive"
	Disruptive  Risk = "disruptive"
	Destructive Risk = "destructive"
)

// hints are what a risk tells a client. The defaults of the protocol are
// pessimistic, so all are always stated.
var hints = map[Risk]struct{ readOnly, destructive bool }{
	ReadOnly:    {true, false},
	Contained:   {false, false},
	Additive:    {false, false},
	Disruptive:  {false, true},
	Destructive: {false, true},
}

// planned reports whether a tool of the admin API of this risk needs a plan_id.
func (r Risk) planned() bool { return r == Disruptive || r == Destructive }

// tool is one row of the table.
type tool struct {
	name, title string
	doc         string // what it does, when to use it
	toolset     string
	risk        Risk
	repeatable  bool // calling it again with the same arguments changes nothing more
	arguments   []argument
	// result is the schema of the result; see schema.go. The common fields are
	// added to it.
	result schema
	// list is the path of the list in the result that is paged, such as
	// "topic.partitions"; empty when the result is small by itself. Such a tool
	// also takes limit and cursor.
	list string
	// run does it. With a plan it is called only with a valid plan_id.
	run func(ctx context.Context, s *Server, in input) (*answer, error)
	// plan says what run would do now. Set exactly for the planned risks, except
	// that steps of a run have plans of their own; see steps.go.
	plan func(ctx context.Context, s *Server, in input) (*effect, error)
}

// planned reports whether the tool shows a plan and acts only with its plan_id.
func (t *tool) planned() bool { return t.plan != nil }

// table is every tool but those of steps, in the order of the list.
func table() []tool {
	return slices.Concat(scenarioTools(), runTools(), stepByNameTools(), toolsetTools(), clusterTools(), operationTools(), brokerTools(), topicTools(), namespaceTools(), diagnoseTools())
}

// Filter chooses tools.
type Filter struct {
	// Toolsets by name, or default, or all; a scenario's name is the toolset of its
	// steps. Empty: those that are on by default, and clients may switch on more.
	Toolsets []string
	// ReadOnly keeps only what changes nothing. It outranks everything.
	ReadOnly bool
	// NoDestructive leaves out what is annotated as destructive: tools that can
	// disturb or destroy something in a cluster.
	NoDestructive bool
	// AllowCommands lets a run have a shell run what a client says; see commands.go.
	// The other two outrank it.
	AllowCommands bool
}

// commands reports whether a client's commands may be run.
func (f Filter) commands() bool { return f.AllowCommands && !f.ReadOnly && !f.NoDestructive }

// permits reports whether a tool may be offered when its toolset is on.
func (f Filter) permits(t *tool) bool {
	switch {
	case f.ReadOnly && t.risk != ReadOnly:
		return false
	case f.NoDestructive && hints[t.risk].destructive:
		return false
	case len(f.Toolsets) > 0 && t.name == "toolsets_enable":
		return false
	}
	return true
}

// all arguments of a tool: its own, and those that follow from the table.
func (t *tool) allArguments() []argument {
	args := slices.Clone(t.arguments)
	if t.list != "" {
		args = append(args,
			argument{name: "limit", kind: kindInteger, doc: fmt.Sprintf("rows of %s at most; less when the result would be too long", t.list), min: 1, max: limitMax, fallback: limitDefault},
			argument{name: "cursor", kind: kindString, doc: "next_cursor of the result before"})
	}
	if t.planned() {
		args = append(args, argument{name: "plan_id", kind: kindString, doc: "leave out: shows the plan, changes nothing and returns a plan_id; then call again with the same arguments and that plan_id"})
	}
	return args
}

// definition is the tool as clients see it.
func (t *tool) definition() protocol.Tool {
	hint := hints[t.risk]
	doc := t.doc
	if t.planned() {
		doc += fmt.Sprintf(" %s: without plan_id it only shows the plan.", strings.ToUpper(string(t.risk[:1]))+string(t.risk[1:]))
	}
	repeatable, openWorld := t.repeatable || t.risk == ReadOnly, false
	return protocol.Tool{
		Name: t.name, Title: t.title, Description: doc,
		RawInputSchema: inputSchema(t.allArguments()), RawOutputSchema: t.outputSchema(),
		Annotations: protocol.ToolAnnotation{Title: t.title, ReadOnlyHint: &hint.readOnly, DestructiveHint: &hint.destructive, IdempotentHint: &repeatable, OpenWorldHint: &openWorld},
	}
}
