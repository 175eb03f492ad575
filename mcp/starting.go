package mcp

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

type startedRun struct {
	RunID   string    `json:"run_id"`
	Command string    `json:"command" doc:"what a person would type"`
	Dir     string    `json:"directory"`
	Already bool      `json:"already" doc:"there was a run of this id: nothing was started"`
	First   *nextStep `json:"next_step,omitempty" doc:"where it pauses first"`
}

// startName is the tool that starts runs.
const startName = "scenario_start"

func startTool() tool {
	return tool{
		name: startName, title: "Start a scenario", toolset: toolsetScenario, risk: Contained,
		doc: "Start a run and return its run_id at once. It starts brokers of its own on this machine and touches no other cluster; it goes on whatever becomes of the client or of this process. With pause each it waits before every step: then do its steps one by one with scenario_step, or with the step tools.",
		arguments: []argument{
			scenarioArgument, aspectsArgument,
			{name: "params", kind: kindMap, doc: "parameters by name, values as text; scenario_show has them"},
			{name: "seed", kind: kindInteger, doc: "seed of random choices; 0 picks one", fallback: int64(0)},
			{name: "setup", kind: kindString, doc: "how the cluster is stood up; left out: the scenario's first", pattern: patternScenario},
			{name: "keep", kind: kindString, doc: "leave the cluster running at the end", oneOf: []string{"never", "failure", "always"}, fallback: "never"},
			{name: "pause", kind: kindString, doc: "stop and wait: before every step, or when something fails", oneOf: []string{"never", "on-failure", "each"}, fallback: "never"},
			{name: "from", kind: kindString, doc: "pause before this step and each after it; go on to there without pauses", pattern: patternStep},
			{name: "until", kind: kindString, doc: "end the run after this step; what was not judged is inconclusive", pattern: patternStep},
			{name: "run_id", kind: kindString, doc: "name of the run; left out: one is made. The same call with the same name starts nothing more", pattern: patternNewRun},
		},
		result: typeSchema[startedRun](), run: startScenario,
	}
}

func startScenario(ctx context.Context, s *Server, in input) (*answer, error) {
	found, err := s.scenario(ctx, in.text("scenario"))
	if err != nil {
		return nil, err
	}
	words, err := s.runWords(ctx, found, in)
	if err != nil {
		return nil, err
	}
	id := in.text("run_id")
	if id == latest {
		return nil, &failure{Code: codeInvalidArgument, Message: "last is the name of the newest run", Got: id, Expected: "another name"}
	}
	if id != "" {
		if _, record, err := s.findRun(id); err == nil {
			return s.startedBefore(found, record)
		}
	} else {
		id = s.newRunID(found.ID)
	}
	if err := s.commandsHold(ctx, found, in); err != nil {
		return nil, err
	}
	if err := s.roomForARun(ctx); err != nil {
		return nil, err
	}
	if err := s.startRun(ctx, id, words); err != nil {
		var f *failure
		if errors.As(err, &f) && f.Fix != nil && f.Fix.Tool == "scenario_show" {
			f.Fix.Args["scenario"] = found.ID
		}
		return nil, err
	}
	out := startedRun{RunID: id, Command: "scenario " + strings.Join(words, " "), Dir: filepath.Join(s.config.RunsDir, id)}
	a := &answer{summary: "Started run " + id, next: []step{{"scenario_wait", map[string]any{"run_id": id, "after_seq": 0}, "follow it"}}}
	if first := s.firstPause(ctx, found, in); first != nil {
		out.First = first
		a.summary += fmt.Sprintf("; it pauses before the step %s", first.Step)
		a.next = append(s.callsOf(id, first), a.next...)
	}
	a.body, a.next = out, append(a.next, step{"scenario_stop", map[string]any{"run_id": id}, "end it early"})
	return a, nil
}

// runWords are the words of the command that starts the run.
func (s *Server) runWords(ctx context.Context, found *listedScenario, in input) ([]string, error) {
	aspects, err := found.aspectWords(in.texts("aspects"))
	if err != nil {
		return nil, err
	}
	words := append([]string{"run", found.ID}, aspects...)
	if setup := in.text("setup"); setup != "" {
		if err := oneOf("setup", setup, ownClusters(found.Setups)); err != nil {
			return nil, err
		}
		words = append(words, "--setup", setup)
	}
	params, err := s.paramWords(ctx, found.ID, in.pairs("params"))
	if err != nil {
		return nil, err
	}
	words = append(words, params...)
	if seed := in.number("seed"); seed != 0 {
		words = append(words, "--seed", strconv.FormatInt(seed, 10))
	}
	if keep := in.text("keep"); keep != "never" {
		words = append(words, "--keep", keep)
	}
	if pause := in.text("pause"); pause != "never" {
		words = append(words, "--pause", pause)
	}
	for _, flag := range []string{"from", "until"} {
		if name := in.text(flag); name != "" {
			known, err := s.stepsOf(ctx, found.ID, aspects)
			if err != nil {
				return nil, err
			}
			if err := oneOf(flag, name, known); err != nil {
				return nil, err
			}
			words = append(words, "--"+flag, name)
		}
	}
	return words, nil
}

// paramWords are the words of parameters. Only names that the scenario has become
// words: in a name with = the rest of it would be the value of another one.
func (s *Server) paramWords(ctx context.Context, scenario string, params map[string]string) ([]string, error) {
	if len(params) == 0 {
		return nil, nil
	}
	shown, err := s.shown(ctx, scenario)
	if err != nil {
		return nil, err
	}
	known, words := []string{}, []string{}
	for _, p := range shown.Params {
		known = append(known, p.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(params)) {
		if err := oneOf("params", name, known); err != nil {
			err.(*failure).Fix = &fix{Tool: "scenario_show", Args: map[string]any{"scenario": scenario}, Why: "has the parameters"}
			return nil, err
		}
		words = append(words, "--param", name+"="+params[name])
	}
	return words, nil
}

// stepsOf lists the steps of a run of the aspects that the words choose.
func (s *Server) stepsOf(ctx context.Context, id string, aspects []string) ([]string, error) {
	steps := []plannedStep{}
	if err := s.command(ctx, &steps, append([]string{"plan", id}, aspects...)...); err != nil {
		return nil, err
	}
	names := []string{}
	for _, one := range steps {
		if one.Stage != stageOnFailure && one.Stage != stageAlways {
			names = append(names, one.ID)
		}
	}
	return names, nil
}

// firstPause is the step before which a new run pauses, or nil.
func (s *Server) firstPause(ctx context.Context, found *listedScenario, in input) *nextStep {
	if from := in.text("from"); in.text("pause") != "each" && from != "" {
		return s.nextStep(found.ID, from)
	}
	if in.text("pause") != "each" {
		return nil
	}
	aspects, err := found.aspectWords(in.texts("aspects"))
	if err != nil {
		return nil
	}
	if steps, err := s.stepsOf(ctx, found.ID, aspects); err == nil && len(steps) > 0 {
		return s.nextStep(found.ID, steps[0])
	}
	return nil
}

// startedBefore answers a start whose run is there already, such as one that is
// repeated since its answer was lost.
func (s *Server) startedBefore(found *listedScenario, r *runRecord) (*answer, error) {
	if r.Scenario != found.ID {
		return nil, &failure{Code: codeRunExists, Message: fmt.Sprintf("run %s is of the scenario %s", r.ID, r.Scenario), Got: r.ID, Expected: "a run_id that is free", Fix: &fix{Tool: "scenario_status", Args: map[string]any{}, Why: "lists the runs"}}
	}
	return &answer{
		body:    startedRun{RunID: r.ID, Command: r.Repro, Dir: filepath.Join(s.config.RunsDir, r.ID), Already: true},
		summary: fmt.Sprintf("Run %s is there already: %s. Nothing was started", r.ID, r.Verdict),
		next:    []step{{"scenario_wait", map[string]any{"run_id": r.ID}, "see how it is"}},
	}, nil
}

// roomForARun refuses more runs at the same time than would leave each other in
// peace.
func (s *Server) roomForARun(ctx context.Context) error {
	infos, err := s.runs(ctx)
	if err != nil {
		return err
	}
	live := []string{}
	for _, info := range infos {
		if info.Live {
			live = append(live, info.Run.ID)
		}
	}
	if len(live) < liveRunsMax {
		return nil
	}
	return &failure{Code: "TOO_MANY_RUNS", Message: "so many runs at once would only disturb each other", Got: strings.Join(live, ", "), Expected: fmt.Sprintf("less than %d live runs", liveRunsMax), Retry: true, Fix: &fix{Tool: "scenario_wait", Args: map[string]any{"run_id": live[len(live)-1], "until": "end"}, Why: "wait for one of them"}}
}

// attached is the setup that runs on a cluster which is there already.
const attached = "attach"

// ownClusters leaves out that setup: a run that a tool starts is contained, and a
// person runs a scenario on a cluster that others use.
func ownClusters(setups []string) []string {
	return slices.DeleteFunc(slices.Clone(setups), func(name string) bool { return name == attached })
}
