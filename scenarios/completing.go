package scenarios

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ister-mq/ister/scenarios/internal/run"
	"github.com/ister-mq/ister/scenarios/internal/spec"
)

// completer offers words for what a person has begun to type.
type completer = cobra.CompletionFunc

// nothingMore is where no further argument is taken.
func nothingMore() ([]cobra.Completion, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveNoFileComp
}

// completeScenario offers the shipped scenarios, and files.
func completeScenario(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nothingMore()
	}
	return scenarioWords(), cobra.ShellCompDirectiveDefault
}

func completeScenarios(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return scenarioWords(), cobra.ShellCompDirectiveDefault
}

func scenarioWords() []cobra.Completion {
	var words []cobra.Completion
	for _, name := range shippedNames() {
		if s, err := load(name); err == nil {
			words = append(words, cobra.CompletionWithDesc(name, s.Title))
		}
	}
	return words
}

// completeRuns offers the runs that a command can do something with, newest first,
// as many as it takes; 0 is any number.
func (c *common) completeRuns(most int, fit func(run.Info) bool) completer {
	return func(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if most > 0 && len(args) >= most {
			return nothingMore()
		}
		infos, _ := run.ListAll(c.runsDir) // an error completes nothing
		var words []cobra.Completion
		for _, info := range slices.Backward(infos) {
			if fit(info) && !slices.Contains(args, info.Run.ID) {
				words = append(words, cobra.CompletionWithDesc(info.Run.ID, fmt.Sprintf("%s %s", info.Run.Scenario, info.State)))
			}
		}
		readable := slices.DeleteFunc(infos, func(i run.Info) bool { return i.Problem != "" })
		if n := len(readable); n > 0 && len(args) == 0 && fit(readable[n-1]) {
			words = append(words, cobra.CompletionWithDesc("last", "the newest run"))
		}
		return words, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	}
}

// What commands can do something with.
func readableRun(info run.Info) bool  { return info.Problem == "" }
func pausedRun(info run.Info) bool    { return info.Paused }
func endedRun(info run.Info) bool     { return info.Problem == "" && !info.Live }
func stoppableRun(info run.Info) bool { return info.Live || info.Processes > 0 || info.Run.Kept }

// completeStep offers paused runs, and then the steps that one has left.
func (c *common) completeStep(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) != 1 {
		return c.completeRuns(1, pausedRun)(cmd, args, begun)
	}
	dir, err := run.Find(c.runsDir, args[0])
	if err != nil {
		return nothingMore()
	}
	state, err := run.LoadState(dir)
	if err != nil {
		return nothingMore()
	}
	return state.StepsLeft, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
}

// ofScenario offers words of the scenario that was typed, in their order; none
// before there is one.
func ofScenario(words func(cmd *cobra.Command, s *spec.Scenario, begun string) []cobra.Completion) completer {
	return func(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) == 0 {
			return nothingMore()
		}
		s, err := load(args[0])
		if err != nil {
			return nothingMore()
		}
		found := words(cmd, s, begun)
		directive := cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
		if len(found) > 0 && strings.HasSuffix(strings.SplitN(found[0], "\t", 2)[0], "=") {
			directive |= cobra.ShellCompDirectiveNoSpace
		}
		return found, directive
	}
}

func aspectWords(cmd *cobra.Command, s *spec.Scenario, _ string) []cobra.Completion {
	taken, _ := cmd.Flags().GetStringArray("aspect")
	var words []cobra.Completion
	for _, a := range s.Aspects {
		if !slices.Contains(taken, a.ID) {
			words = append(words, cobra.CompletionWithDesc(a.ID, a.Title))
		}
	}
	return words
}

// paramWords offers names with their =, and behind it the values of a parameter
// that has a list of them.
func paramWords(_ *cobra.Command, s *spec.Scenario, begun string) []cobra.Completion {
	name, _, valued := strings.Cut(begun, "=")
	var words []cobra.Completion
	for _, p := range s.Params {
		switch {
		case !valued:
			words = append(words, cobra.CompletionWithDesc(p.Name+"=", fmt.Sprintf("%s, %s: %s", p.Type, spec.Format(p.Default), p.Doc)))
		case p.Name == name && p.Type.Kind == spec.KindBool:
			words = append(words, name+"=true", name+"=false")
		case p.Name == name:
			for _, value := range p.Enum {
				words = append(words, name+"="+value)
			}
		}
	}
	return words
}

func stepWords(cmd *cobra.Command, s *spec.Scenario, _ string) []cobra.Completion {
	aspects, _ := cmd.Flags().GetStringArray("aspect")
	for _, id := range aspects {
		if _, known := s.Aspect(id); !known {
			return nil
		}
	}
	return run.StepIDs(s, aspects)
}

// stateWords are the states of runs as one types them.
func stateWords() []string {
	var words []string
	for _, state := range run.States {
		words = append(words, strings.ReplaceAll(state, " ", "-"))
	}
	return words
}

// setupWords are the setups of the scenario that this build has.
func (c *common) setupWords(_ *cobra.Command, s *spec.Scenario, _ string) []cobra.Completion {
	return slices.DeleteFunc(slices.Clone(s.Setups), func(name string) bool { return !slices.Contains(c.setupNames(), name) })
}

// setupNames are the setups of this build.
func (c *common) setupNames() []string {
	var names []string
	for _, setup := range c.setups {
		names = append(names, setup.Name())
	}
	return names
}

// words offers the values of a flag that takes one of a few.
func words(of ...string) completer {
	return cobra.FixedCompletions(of, cobra.ShellCompDirectiveNoFileComp|cobra.ShellCompDirectiveKeepOrder)
}

// list offers the values of a flag that takes several, with commas between them.
func list(of ...string) completer {
	return func(_ *cobra.Command, _ []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		before := begun[:strings.LastIndex(begun, ",")+1]
		var found []cobra.Completion
		for _, word := range of {
			if !slices.Contains(strings.Split(before, ","), word) {
				found = append(found, before+word)
			}
		}
		return found, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	}
}

// complete gives the commands of the tree words for their arguments, and for their
// flags: those of one command, or of all that have the flag.
func (c *common) complete(root *cobra.Command) {
	known := map[string]completer{
		"run": completeScenario, "show": completeScenario, "plan": completeScenario, "lint": completeScenarios,
		"watch": c.completeRuns(1, readableRun), "report": c.completeRuns(1, readableRun), "verify": c.completeRuns(1, readableRun),
		"table": c.completeRuns(0, endedRun), "clean": c.completeRuns(1, endedRun), "stop": c.completeRuns(1, stoppableRun),
		"resume": c.completeRuns(1, pausedRun), "step": c.completeStep,

		"--output": words("text", "json"), "--runs-dir": directories, "--dir": directories, "--progress": words("auto", "tty", "plain", "ndjson"),
		"--report": list(run.Formats...), "--aspect": ofScenario(aspectWords), "--param": ofScenario(paramWords),
		"--from": ofScenario(stepWords), "--until": ofScenario(stepWords), "--setup": ofScenario(c.setupWords),
		"--keep":  words(keepWords...),
		"--pause": words(pauseWords...),

		"doctor --setup": words(c.setupNames()...), "runs --setup": list(spec.Setups...), "runs --verdict": list(stateWords()...),
		"runs --scenario": list(shippedNames()...), "table --scenario": words(shippedNames()...),
		"report --format": words(append([]string{"text"}, run.Formats...)...), "lint --format": words("text", "json", "sarif"),
		"matrix --format": words("github", "json"), "schema --format": words("json", "markdown"), "table --format": words("text", "md", "json"),
	}
	for key, fit := range known {
		known[key] = begunWith(fit)
	}
	for _, cmd := range append(root.Commands(), root) {
		if cmd.ValidArgsFunction = known[cmd.Name()]; cmd.ValidArgsFunction == nil && !cmd.HasSubCommands() {
			cmd.ValidArgsFunction = cobra.NoFileCompletions
		}
		cmd.LocalFlags().VisitAll(func(flag *pflag.Flag) {
			fit := known[cmd.Name()+" --"+flag.Name]
			if fit == nil {
				fit = known["--"+flag.Name]
			}
			if fit == nil {
				return // files, or what only a person knows
			}
			if err := cmd.RegisterFlagCompletionFunc(flag.Name, fit); err != nil {
				panic(err) // a flag that has words already
			}
		})
	}
}

// begunWith leaves only the words that go on with what was typed.
func begunWith(fit completer) completer {
	return func(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		offered, directive := fit(cmd, args, begun)
		return slices.DeleteFunc(slices.Clone(offered), func(word string) bool { return !strings.HasPrefix(word, begun) }), directive
	}
}

func directories(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveFilterDirs
}
