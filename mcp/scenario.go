package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/ister-mq/ister/scenarios"
)

// listedScenario, shownScenario and plannedStep are what the scenario command
// prints as JSON.
type listedScenario struct {
	ID      string   `json:"id"`
	Title   string   `json:"title"`
	Risk    string   `json:"risk"`
	Setups  []string `json:"setups"`
	Aspects []string `json:"aspects"`
}

type scenarioCheck struct {
	Aspect string `json:"aspect"`
	ID     string `json:"id"`
	Title  string `json:"title"`
	Metric string `json:"metric"`
	Op     string `json:"op"`
	Value  string `json:"value"`
	Guard  bool   `json:"guard,omitempty" doc:"unmet: the run is inconclusive, never a pass"`
}

type scenarioParam struct {
	Name string `json:"name"`
	Type struct {
		Kind string `json:"kind"`
	} `json:"type"`
	Default any    `json:"default"`
	Doc     string `json:"doc"`
	Min     any    `json:"min,omitempty"`
	Max     any    `json:"max,omitempty"`
	Shell   bool   `json:"shell,omitempty" doc:"a shell of this machine runs its value: only where the server was started with --allow-commands"`
}

type plannedStep struct {
	Stage   string `json:"stage"`
	ID      string `json:"id"`
	Title   string `json:"title"`
	Use     string `json:"use"`
	Risk    string `json:"risk"`
	Command string `json:"command" doc:"what a person would type"`
	Until   string `json:"until,omitempty"`
	Judged  bool   `json:"judged"`
}

type shownScenario struct {
	listedScenario
	Description string          `json:"description"`
	Params      []scenarioParam `json:"params"`
	Criteria    []scenarioCheck `json:"criteria"`
	Guards      []scenarioCheck `json:"guards"`
}

var (
	scenarioArgument = argument{name: "scenario", kind: kindString, doc: "id of a scenario, from scenario_list", required: true, pattern: patternScenario}
	aspectsArgument  = argument{name: "aspects", kind: kindStrings, doc: "only these parts of it, with what they need; left out: all"}
)

func scenarioTools() []tool {
	return []tool{
		{
			name: "scenario_list", title: "List scenarios", toolset: toolsetScenario, risk: ReadOnly, list: "scenarios",
			doc: "List the scenarios that can be run, with their aspects (parts that run alone) and setups.",
			result: typeSchema[struct {
				Scenarios []listedScenario `json:"scenarios"`
			}](),
			run: listScenarios,
		},
		{
			name: "scenario_show", title: "Show a scenario", toolset: toolsetScenario, risk: ReadOnly, list: "criteria",
			doc:       "Show what a scenario does, its parameters, and the criteria and guards by which a run of it is judged.",
			arguments: []argument{scenarioArgument},
			result: typeSchema[struct {
				listedScenario
				Description string          `json:"description"`
				Params      []scenarioParam `json:"params"`
				Criteria    []scenarioCheck `json:"criteria"`
			}](),
			run: showScenario,
		},
		{
			name: "scenario_plan", title: "Plan a scenario", toolset: toolsetScenario, risk: ReadOnly, list: "steps",
			doc:       "Show the steps that a run would take, each with the command that a person would type. Changes nothing.",
			arguments: []argument{scenarioArgument, aspectsArgument},
			result: typeSchema[struct {
				Scenario string        `json:"scenario"`
				Steps    []plannedStep `json:"steps"`
				Command  string        `json:"command" doc:"the command that runs it"`
			}](),
			run: planScenario,
		},
	}
}

// command runs the scenario command inside this process and reads its JSON.
func (s *Server) command(ctx context.Context, into any, args ...string) error {
	var out, errOut bytes.Buffer
	args = append(args, "--output", "json", "--no-color", "--runs-dir", s.config.RunsDir)
	code := scenarios.Main(ctx, args, &out, &errOut, scenarios.Mounted{})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	// doctor prints what it found also when something is missing.
	if code != 0 && (args[0] != "doctor" || out.Len() == 0) {
		said := strings.TrimPrefix(strings.TrimSpace(errOut.String()), "Error: ")
		return &failure{Code: codeScenario, Message: said, Got: fmt.Sprintf("exit code %d of: scenario %s", code, strings.Join(args[:len(args)-5], " ")), Expected: "exit code 0"}
	}
	if into == nil {
		return nil
	}
	if err := json.Unmarshal(out.Bytes(), into); err != nil {
		return fmt.Errorf("read the answer of scenario %s: %w", args[0], err)
	}
	return nil
}

func (s *Server) scenarioList(ctx context.Context) ([]listedScenario, error) {
	var all []listedScenario
	return all, s.command(ctx, &all, "list")
}

// scenario finds a shipped scenario; a path is never one.
func (s *Server) scenario(ctx context.Context, id string) (*listedScenario, error) {
	all, err := s.scenarioList(ctx)
	if err != nil {
		return nil, err
	}
	ids := []string{}
	for i := range all {
		if all[i].ID == id {
			return &all[i], nil
		}
		ids = append(ids, all[i].ID)
	}
	f := &failure{Code: "SCENARIO_UNKNOWN", Message: fmt.Sprintf("no scenario is called %s%s", id, didYouMean(id, ids)), Got: id, Expected: "one of: " + strings.Join(ids, ", "), Fix: &fix{Tool: "scenario_list", Args: map[string]any{}}}
	if right := closest(id, ids); right != "" {
		f.Fix = &fix{Tool: "scenario_show", Args: map[string]any{"scenario": right}}
	}
	return nil, f
}

// oneOf checks a value against what a scenario has.
func oneOf(name, value string, known []string) error {
	if slices.Contains(known, value) {
		return nil
	}
	return &failure{Code: codeInvalidArgument, Message: fmt.Sprintf("%s: %s is not known%s", name, value, didYouMean(value, known)), Got: value, Expected: "one of: " + strings.Join(known, ", ")}
}

// aspectWords choose aspects on a command line.
func (l *listedScenario) aspectWords(aspects []string) ([]string, error) {
	var words []string
	for _, aspect := range aspects {
		if err := oneOf("aspects", aspect, l.Aspects); err != nil {
			return nil, err
		}
		words = append(words, "--aspect", aspect)
	}
	return words, nil
}

func listScenarios(ctx context.Context, s *Server, _ input) (*answer, error) {
	all, err := s.scenarioList(ctx)
	if err != nil {
		return nil, err
	}
	a := &answer{body: map[string]any{"scenarios": all}, summary: plural(len(all), "scenario", "scenarios")}
	for _, l := range all {
		a.next = append(a.next, step{"scenario_show", map[string]any{"scenario": l.ID}, l.Title})
	}
	return a, nil
}

func (s *Server) shown(ctx context.Context, id string) (*shownScenario, error) {
	if _, err := s.scenario(ctx, id); err != nil {
		return nil, err
	}
	var shown shownScenario
	if err := s.command(ctx, &shown, "show", id); err != nil {
		return nil, err
	}
	return &shown, nil
}

func showScenario(ctx context.Context, s *Server, in input) (*answer, error) {
	shown, err := s.shown(ctx, in.text("scenario"))
	if err != nil {
		return nil, err
	}
	for i := range shown.Guards {
		shown.Guards[i].Guard = true
	}
	shown.Criteria = append(shown.Criteria, shown.Guards...)
	shown.Guards = nil
	out, err := object(shown)
	if err != nil {
		return nil, err
	}
	delete(out, "guards")
	return &answer{
		body: out, summary: fmt.Sprintf("%s: %s; aspects: %s; setups: %s", shown.ID, shown.Title, strings.Join(shown.Aspects, ", "), strings.Join(shown.Setups, ", ")),
		next: []step{{"scenario_plan", map[string]any{"scenario": shown.ID}, "see the steps"}, {"scenario_start", map[string]any{"scenario": shown.ID}, "run all of it"}},
	}, nil
}

func planScenario(ctx context.Context, s *Server, in input) (*answer, error) {
	id, aspects := in.text("scenario"), in.texts("aspects")
	found, err := s.scenario(ctx, id)
	if err != nil {
		return nil, err
	}
	words, err := found.aspectWords(aspects)
	if err != nil {
		return nil, err
	}
	steps := []plannedStep{}
	if err := s.command(ctx, &steps, append([]string{"plan", id}, words...)...); err != nil {
		return nil, err
	}
	return &answer{
		body:    map[string]any{"scenario": id, "steps": steps, "command": "scenario " + strings.Join(append([]string{"run", id}, words...), " ")},
		summary: fmt.Sprintf("%s of %s, on brokers of its own; nothing was started", plural(len(steps), "step", "steps"), id),
		next:    []step{{"scenario_start", in.given(), "runs them"}},
	}, nil
}
