package scenarios

import (
	"fmt"
	"strings"

	"github.com/ister-mq/ister/scenarios/internal/spec"
	"github.com/ister-mq/ister/scenarios/internal/verb"
)

// verbReference is docs/reference/verbs.md: every verb with its inputs and
// outputs.
func verbReference() string {
	var out strings.Builder
	out.WriteString(`# Verbs of scenarios

Made by ` + "`scenario schema --format markdown`" + ` from the registry of verbs. A step uses one verb (` + "`use:`" + `), gives its inputs
(` + "`with:`" + `), and later steps and checks read its outputs as ` + "`STEP.OUTPUT`" + `. In a command, ` + "`{x}`" + ` is an input, and a part in ` + "`[ ]`" + ` is
there when its input is given.

| Verb | Risk | What it does |
|---|---|---|
`)
	names := verb.Registry{}.Names()
	for _, name := range names {
		v, _ := verb.Lookup(name)
		fmt.Fprintf(&out, "| [%s](#%s) | %s | %s |\n", name, strings.ReplaceAll(name, ".", ""), v.Risk, cell(v.Doc))
	}
	for _, name := range names {
		v, _ := verb.Lookup(name)
		fmt.Fprintf(&out, "\n## %s\n\n%s %s.", name, v.Doc, strings.ToUpper(string(v.Risk[:1]))+string(v.Risk[1:]))
		if v.Pollable {
			out.WriteString(" May carry `until`.")
		}
		if v.Disturbs {
			out.WriteString(" Recorded in the history as a disturbance.")
		}
		for i, need := range v.Needs {
			fmt.Fprintf(&out, "%s`%s`", map[bool]string{true: " Needs of the setup: ", false: ", "}[i == 0], need)
		}
		if len(v.Needs) > 0 {
			out.WriteString(".")
		}
		fmt.Fprintf(&out, "\n\nBy hand: `%s`\n", v.Command)
		fieldTable(&out, "Input", v.Inputs)
		fieldTable(&out, "Output", v.Outputs)
	}
	return out.String()
}

func fieldTable(out *strings.Builder, what string, object spec.Type) {
	if len(object.Fields) == 0 {
		return
	}
	if what == "Output" {
		out.WriteString("\n| Output | Type | What |\n|---|---|---|\n")
		for _, f := range object.Fields {
			fmt.Fprintf(out, "| `%s` | %s | %s |\n", f.Name, f.Type, cell(f.Doc))
		}
		return
	}
	out.WriteString("\n| Input | Type | Default | Allowed | What |\n|---|---|---|---|---|\n")
	for _, f := range object.Fields {
		fallback := "none"
		switch {
		case f.Required:
			fallback = "required"
		case f.Default != nil:
			fallback = code(cell(spec.Format(f.Default)))
		}
		fmt.Fprintf(out, "| `%s` | %s | %s | %s | %s |\n", f.Name, f.Type, fallback, cell(allowed(f)), cell(f.Doc))
	}
}

// allowed says which values an input takes, beyond its type.
func allowed(f spec.Field) string {
	switch {
	case len(f.Enum) > 0:
		return strings.Join(f.Enum, ", ")
	case f.Min != nil && f.Max != nil:
		return fmt.Sprintf("%d to %d", *f.Min, *f.Max)
	case f.Min != nil:
		return fmt.Sprintf("at least %d", *f.Min)
	case f.Max != nil:
		return fmt.Sprintf("at most %d", *f.Max)
	}
	return ""
}
