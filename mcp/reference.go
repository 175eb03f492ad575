package mcp

import (
	"fmt"
	"strings"
)

// reference is the offered tools as a page: docs/reference/tools.md when all are.
func (s *Server) reference() string {
	var b strings.Builder
	b.WriteString(`# Tools of the MCP server

Made by ` + "`ister mcp --list-tools --format markdown --toolsets all`" + ` from the table of tools and the scenario files. Arguments with a star
are required. Risk read-only, contained (only brokers of a run) and additive act at once; disruptive and destructive tools
show a plan first and act with its ` + "`plan_id`" + `; of step tools only destructive ones need one. Where the toolsets are not chosen
with ` + "`--toolsets`" + `, ` + "`toolsets_enable`" + ` lists them and switches one on while the server runs. Errors carry code, got, expected and fix.
`)
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, toolset := range s.toolsetNames() {
		var rows []*tool
		for i := range s.known {
			if t := &s.known[i]; t.toolset == toolset && s.tools[t.name] != nil {
				rows = append(rows, t)
			}
		}
		if len(rows) == 0 {
			continue
		}
		about, isSteps := toolsetDocs[toolset], s.stepTable[toolset] != nil
		if isSteps {
			about = "the steps of the scenario " + toolset + ", in their order; each takes " + argumentList(rows[0])
		}
		if !isDefault(toolset) {
			about += "; off by default"
		}
		fmt.Fprintf(&b, "\n## %s\n\n%s.\n\n", toolset, strings.ToUpper(about[:1])+about[1:])
		if isSteps {
			b.WriteString("| Tool | Risk | What it does |\n|---|---|---|\n")
		} else {
			b.WriteString("| Tool | Risk | What it does | Arguments |\n|---|---|---|---|\n")
		}
		for _, t := range rows {
			fmt.Fprintf(&b, "| `%s` | %s | %s |", t.name, t.risk, tableCell(t.doc))
			if !isSteps {
				fmt.Fprintf(&b, " %s |", argumentList(t))
			}
			b.WriteString("\n")
		}
	}
	return b.String()
}

func argumentList(t *tool) string {
	var names []string
	for _, a := range t.allArguments() {
		name := "`" + a.name + "`"
		if a.required {
			name += "*"
		}
		names = append(names, name)
	}
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// tableCell makes a text fit for a table.
func tableCell(text string) string {
	return strings.NewReplacer("|", `\|`, "<", "&lt;", ">", "&gt;").Replace(strings.Join(strings.Fields(text), " "))
}
