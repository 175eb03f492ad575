package mcp

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// A run is contained: it changes brokers of its own. Not so where a parameter comes
// to a shell, which runs on this machine whatever the client says. Such a run needs
// --allow-commands, and a plan_id.

// withCommands is scenario_start where commands are allowed: a tool that can
// destroy, and says so.
func withCommands(start tool) tool {
	start.risk = Destructive
	start.doc += " A call with a parameter that a shell runs (scenario_show marks them) needs the plan_id of its plan."
	start.arguments = append(slices.Clone(start.arguments), argument{name: "plan_id", kind: kindString, doc: "where a shell runs a parameter: the call without it is refused, shows the command, and gives one"})
	return start
}

// commandsOf are the given parameters of a shipped scenario that a shell would run.
func (s *Server) commandsOf(ctx context.Context, scenario string, params map[string]string) (map[string]string, error) {
	shown, err := s.shown(ctx, scenario)
	if err != nil {
		return nil, err
	}
	commands := map[string]string{}
	for _, p := range shown.Params {
		if p.Shell && params[p.Name] != "" {
			commands[p.Name] = params[p.Name]
		}
	}
	return commands, nil
}

// commandsHold refuses to start a run that has a shell run something, unless it is
// allowed and planned.
func (s *Server) commandsHold(ctx context.Context, found *listedScenario, in input) error {
	commands, err := s.commandsOf(ctx, found.ID, in.pairs("params"))
	if err != nil || len(commands) == 0 {
		return err
	}
	names := slices.Sorted(maps.Keys(commands))
	if !s.config.Filter.commands() {
		without := in.given()
		params := maps.Clone(in.pairs("params"))
		maps.DeleteFunc(params, func(name, _ string) bool { return commands[name] != "" })
		without["params"] = params
		f := s.commandsRefused("params."+strings.Join(names, ", params.")+" would be run by a shell of this machine", abridge(commands[names[0]]))
		f.Advice = fmt.Sprintf("a person runs it: scenario run %s --param %s=...; or starts this server with --allow-commands", found.ID, names[0])
		f.Fix = &fix{Tool: in.tool.name, Args: without, Why: "the same run without the command"}
		return f
	}
	summary := []string{}
	for _, name := range names {
		summary = append(summary, fmt.Sprintf("a shell of this machine runs params.%s: %s", name, commands[name]))
	}
	// The newest run is part of it, so that a plan starts one run.
	ids, err := s.runIDs()
	if err != nil {
		return err
	}
	newest := ""
	if len(ids) > 0 {
		newest = ids[0]
	}
	now := &effect{what: map[string]any{"starts": found.ID, "a_shell_runs": commands, "newest_run": newest}, summary: strings.Join(summary, "; ")}
	return s.plans.held(in, in, now, "this run has a shell run a command, and needs the plan_id of its plan; nothing was started")
}

func (s *Server) commandsRefused(message, got string) *failure {
	expected := "a server that was started with --allow-commands"
	if s.config.Filter.NoDestructive {
		expected = "a server that was started with --allow-commands, and without --no-destructive"
	}
	return &failure{Code: codeCommands, Message: message, Got: got, Expected: expected}
}

// contained refuses to go on with a run whose steps reach beyond its own brokers: on
// a cluster that others use, and one that a person gave a command.
func (s *Server) contained(ctx context.Context, r *runRecord) error {
	byPerson := "a person goes on with it: scenario step " + r.ID
	if r.Setup == attached {
		return &failure{Code: codeRunNotContained, Message: "this run works on a cluster that others use", Got: r.ID + " on the setup " + attached, Expected: "a run with brokers of its own", Advice: byPerson}
	}
	if s.config.Filter.commands() || s.stepTable[r.Scenario] == nil { // what does not ship was started by a person
		return nil
	}
	commands, err := s.commandsOf(ctx, r.Scenario, r.Params)
	if err != nil || len(commands) == 0 {
		return err
	}
	f := s.commandsRefused("this run has a shell of this machine run a command", abridge(string(mustJSON(commands))))
	f.Advice = byPerson
	return f
}
