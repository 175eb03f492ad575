package mcp

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	protocol "github.com/mark3labs/mcp-go/mcp"
)

const promptPrefix = "run-"

// The paces of a run.
const (
	paceWhole = "whole"
	paceSteps = "step-by-step"
)

var paces = []string{paceWhole, paceSteps}

// addPrompts adds one prompt for each scenario, where scenarios can be run.
func (s *Server) addPrompts() error {
	if !s.offers("scenario_start") {
		return nil
	}
	all, err := s.scenarioList(context.Background())
	if err != nil {
		return err
	}
	for _, l := range all {
		prompt := protocol.NewPrompt(promptPrefix+l.ID, protocol.WithPromptTitle(l.Title), protocol.WithPromptDescription("Decide which part of the scenario to run and how, run it, and explain the verdict."),
			protocol.WithArgument("aspect", protocol.ArgumentDescription("only this part: "+strings.Join(l.Aspects, ", "))),
			protocol.WithArgument("pace", protocol.ArgumentDescription("at once, or step by step: "+strings.Join(paces, ", "))),
			protocol.WithArgument("setup", protocol.ArgumentDescription("how the cluster is stood up: "+strings.Join(ownClusters(l.Setups), ", "))))
		s.mcp.AddPrompt(prompt, func(ctx context.Context, request protocol.GetPromptRequest) (*protocol.GetPromptResult, error) {
			return s.prompt(ctx, l, request.Params.Arguments)
		})
	}
	return nil
}

// prompt is the decision flow of a scenario: what is settled by arguments is not
// asked again.
func (s *Server) prompt(ctx context.Context, l listedScenario, args map[string]string) (*protocol.GetPromptResult, error) {
	shown, err := s.shown(ctx, l.ID)
	if err != nil {
		return nil, err
	}
	call := map[string]any{"scenario": l.ID}
	decisions := []string{}
	for _, d := range []struct {
		name, question string
		choices        []string
	}{
		{"aspect", "Which part? All of them is the default.", l.Aspects},
		{"setup", "On which setup? The first is the default; diagnose_machine says what this machine has.", ownClusters(l.Setups)},
		{"pace", "All at once (the default), or step by step, to look at the cluster in between?", paces},
	} {
		switch value := args[d.name]; {
		case value != "" && !slices.Contains(d.choices, value):
			return nil, fmt.Errorf("%s %q is not known%s; there are %s", d.name, value, didYouMean(value, d.choices), strings.Join(d.choices, ", "))
		case value != "" && d.name == "aspect":
			call["aspects"] = []string{value}
		case value == paceSteps:
			call["pause"] = "each"
		case value == paceWhole:
		case value != "":
			call[d.name] = value
		case len(d.choices) > 1:
			decisions = append(decisions, d.question+" Choices: "+strings.Join(d.choices, ", ")+".")
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Run the scenario %s: %s\n\n%s\n", l.ID, shown.Title, shown.Description)
	if len(decisions) > 0 {
		b.WriteString("\nDecide first; ask the person only what their request leaves open:\n")
		for _, d := range decisions {
			b.WriteString("- " + d + "\n")
		}
	}
	if len(shown.Params) > 0 {
		b.WriteString("\nParameters, to change only when asked to:\n")
		for _, p := range shown.Params {
			fmt.Fprintf(&b, "- %s (default %v): %s\n", p.Name, p.Default, p.Doc)
		}
	}
	fmt.Fprintf(&b, `
Then:
1. diagnose_machine; when something fatal is missing, say what its remedy is and stop.
2. scenario_start with %s. It returns a run_id at once; the run starts brokers of its own and touches no other cluster.
3. scenario_wait with the run_id and the last_seq of the answer before, until ended is true. Say in a few words what happens. Step by step (pause each): do next_step with scenario_step, tell what it gave, and go on until the run has ended; show the plan of a destructive step to the person first.
4. scenario_report. Judge by verdict and criteria alone: pass; fail (name each criterion with observed and expected); inconclusive (a guard was unmet: it proves nothing, run it again on a less busy machine); step error or environment (read section steps, then scenario_logs).
5. Name the directory of the evidence and the command that repeats the run. When the run was kept, ask before scenario_stop.
`, mustJSON(call))
	return &protocol.GetPromptResult{
		Description: "Run " + l.ID, Messages: []protocol.PromptMessage{protocol.NewPromptMessage(protocol.RoleUser, protocol.NewTextContent(b.String()))},
	}, nil
}

// completer completes arguments of prompts and of resource templates.
type completer struct{ s *Server }

// completionsMax is a bound of the protocol.
const completionsMax = 100

func complete(known []string, given string) *protocol.Completion {
	values := []string{}
	for _, k := range known {
		if strings.HasPrefix(k, given) {
			values = append(values, k)
		}
	}
	shown := values[:min(len(values), completionsMax)]
	return &protocol.Completion{Values: shown, Total: len(values), HasMore: len(shown) < len(values)}
}

// CompletePromptArgument completes aspects and setups.
func (c completer) CompletePromptArgument(ctx context.Context, prompt string, argument protocol.CompleteArgument, _ protocol.CompleteContext) (*protocol.Completion, error) {
	all, err := c.s.scenarioList(ctx)
	if err != nil {
		return nil, err
	}
	for _, l := range all {
		if promptPrefix+l.ID == prompt {
			return complete(map[string][]string{"aspect": l.Aspects, "setup": ownClusters(l.Setups), "pace": paces}[argument.Name], argument.Value), nil
		}
	}
	return complete(nil, ""), nil
}

// CompleteResourceArgument completes ids of scenarios and runs, names of skills and
// of their files.
func (c completer) CompleteResourceArgument(ctx context.Context, uri string, argument protocol.CompleteArgument, given protocol.CompleteContext) (*protocol.Completion, error) {
	switch uri {
	case templateScenario:
		all, err := c.s.scenarioList(ctx)
		ids := []string{}
		for _, l := range all {
			ids = append(ids, l.ID)
		}
		return complete(ids, argument.Value), err
	case templateReport, templateSummary:
		ids, err := c.s.runIDs()
		return complete(ids, argument.Value), err
	case templateSkill:
		if argument.Name == "file" {
			return complete(c.s.skills[given.Arguments["name"]].files(), argument.Value), nil
		}
		return complete(slices.Sorted(maps.Keys(c.s.skills)), argument.Value), nil
	}
	return complete(nil, ""), nil
}
