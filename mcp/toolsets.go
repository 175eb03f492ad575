package mcp

import (
	"context"
	"fmt"
	"slices"
	"strings"

	protocol "github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// The toolsets. The steps of a scenario are a toolset of its name.
const (
	toolsetScenario   = "scenario"
	toolsetCluster    = "cluster"
	toolsetBrokers    = "brokers"
	toolsetTopics     = "topics"
	toolsetNamespaces = "namespaces"
	toolsetDiagnose   = "diagnose"

	// Of --toolsets: what is on without it, and everything.
	toolsetDefault = "default"
	toolsetAll     = "all"
)

// Toolsets lists the toolsets that are no scenario, in the order of the list.
var Toolsets = []string{toolsetScenario, toolsetCluster, toolsetBrokers, toolsetTopics, toolsetNamespaces, toolsetDiagnose}

// optional are toolsets that are off unless they are asked for, besides those of
// scenarios: some clients take the first 40 tools only.
var optional = []string{toolsetNamespaces}

func isDefault(name string) bool {
	return slices.Contains(Toolsets, name) && !slices.Contains(optional, name)
}

// toolsetOn reports whether a toolset is on at the start.
func (f Filter) toolsetOn(name string) bool {
	if len(f.Toolsets) == 0 {
		return isDefault(name)
	}
	return slices.Contains(f.Toolsets, name) || slices.Contains(f.Toolsets, toolsetAll) || slices.Contains(f.Toolsets, toolsetDefault) && isDefault(name)
}

type toolsetRow struct {
	Name  string `json:"toolset"`
	On    bool   `json:"on"`
	Tools int    `json:"tools"`
	Doc   string `json:"about"`
}

var toolsetDocs = map[string]string{
	toolsetScenario: "run scenarios and read their verdicts", toolsetCluster: "members of the cluster, and operations", toolsetBrokers: "brokers: balance, unload, cordon",
	toolsetTopics: "topics", toolsetNamespaces: "groups of topics", toolsetDiagnose: "what is wrong, and what is in the way",
}

// toolsetTools is offered only where the toolsets were not chosen by who started
// the server: a client does not widen that choice.
func toolsetTools() []tool {
	return []tool{{
		name: "toolsets_enable", title: "List toolsets, and switch one on", toolset: toolsetScenario, risk: ReadOnly,
		doc:       "List the toolsets, or switch one on: its tools join the list of tools, for all clients of this server and until it ends. Each scenario has a toolset with one tool for each of its steps. Changes nothing but that list; scenario_step does the same steps by name.",
		arguments: []argument{{name: "toolset", kind: kindString, doc: "the one to switch on; left out: only list them", pattern: patternScenario}},
		result: typeSchema[struct {
			Toolsets []toolsetRow `json:"toolsets"`
			Added    []string     `json:"added" doc:"tools that were added; list the tools again when the client does not by itself"`
		}](),
		run: enableToolset,
	}}
}

func enableToolset(_ context.Context, s *Server, in input) (*answer, error) {
	name, added := in.text("toolset"), []string{}
	if name != "" {
		if err := oneOf("toolset", name, s.toolsetNames()); err != nil {
			err.(*failure).Fix = &fix{Tool: in.tool.name, Args: map[string]any{}, Why: "lists them"}
			return nil, err
		}
		added = s.enable(name)
	}
	rows := []toolsetRow{}
	s.mu.RLock()
	for _, one := range s.toolsetNames() {
		row := toolsetRow{Name: one, Doc: toolsetDocs[one]}
		if row.Doc == "" {
			row.Doc = "the steps of the scenario " + one
		}
		for i := range s.known {
			if t := &s.known[i]; t.toolset == one {
				row.Tools++
				row.On = row.On || s.tools[t.name] != nil
			}
		}
		rows = append(rows, row)
	}
	s.mu.RUnlock()
	a := &answer{body: map[string]any{"toolsets": rows, "added": added}, summary: fmt.Sprintf("%s, %d on", plural(len(rows), "toolset", "toolsets"), countOn(rows))}
	if name != "" {
		a.summary = fmt.Sprintf("Toolset %s is on, with %s more", name, plural(len(added), "tool", "tools"))
		if s.stepTable[name] != nil {
			a.next = []step{{"scenario_start", map[string]any{"scenario": name, "pause": "each"}, "a run that waits before every step"}}
		}
	}
	return a, nil
}

func countOn(rows []toolsetRow) int {
	on := 0
	for _, row := range rows {
		if row.On {
			on++
		}
	}
	return on
}

// toolsetNames lists the toolsets that have a tool which the filter permits.
func (s *Server) toolsetNames() []string {
	names := []string{}
	for i := range s.known {
		if name := s.known[i].toolset; !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// enable offers the tools of a toolset, and says which are new. Clients are told
// that the list has changed.
func (s *Server) enable(names ...string) []string {
	s.mu.Lock()
	added, entries := []string{}, []server.ServerTool{}
	for i := range s.known {
		t := &s.known[i]
		if s.tools[t.name] != nil || !slices.Contains(names, t.toolset) {
			continue
		}
		s.tools[t.name] = t
		added = append(added, t.name)
		entries = append(entries, server.ServerTool{Tool: t.definition(), Handler: func(ctx context.Context, request protocol.CallToolRequest) (*protocol.CallToolResult, error) {
			return s.call(ctx, t, request), nil
		}})
	}
	s.mu.Unlock()
	if len(entries) > 0 {
		s.mcp.AddTools(entries...)
	}
	return added
}

// offers reports whether a tool is in the list.
func (s *Server) offers(name string) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.tools[name] != nil
}

// offered is a call with a tool that is in the list: the call itself, the same
// step by name, or the one that switches its toolset on.
func (s *Server) offered(call step) (step, bool) {
	if s.offers(call.Tool) {
		return call, true
	}
	for i := range s.known {
		t := &s.known[i]
		if t.name != call.Tool || !s.offers("toolsets_enable") {
			continue
		}
		return step{"toolsets_enable", map[string]any{"toolset": t.toolset}, fmt.Sprintf("switches %s on: %s", call.Tool, call.Why)}, true
	}
	return step{}, false
}

// checkToolsets says which names of a filter are no toolset.
func checkToolsets(names, known []string) error {
	all := append([]string{toolsetDefault, toolsetAll}, known...)
	for _, name := range names {
		if !slices.Contains(all, name) {
			return fmt.Errorf("toolset %q is not known%s; known: %s", name, didYouMean(name, all), strings.Join(all, ", "))
		}
	}
	return nil
}
