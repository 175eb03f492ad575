package scenarios

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ister-mq/ister/scenarios/internal/run"
	"github.com/ister-mq/ister/scenarios/internal/spec"
	"github.com/ister-mq/ister/scenarios/internal/verb"
)

// listed is a scenario in a list.
type listed struct {
	ID      string   `json:"id"`
	Title   string   `json:"title"`
	Risk    string   `json:"risk"`
	Setups  []string `json:"setups"`
	Aspects []string `json:"aspects"`
}

func (c *common) listCommand() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the shipped scenarios", Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var all []listed
			for _, name := range shippedNames() {
				s, err := load(name)
				if err != nil {
					return err
				}
				all = append(all, listed{s.ID, s.Title, string(s.Risk), s.Setups, s.AspectIDs()})
			}
			if c.json() {
				return printJSON(cmd.OutOrStdout(), all)
			}
			for _, l := range all {
				fold(cmd.OutOrStdout(), padded(l.ID, 18)+" ", l.Title, "")
				fold(cmd.OutOrStdout(), padded("", 19), fmt.Sprintf("aspects: %s; setups: %s; %s", strings.Join(l.Aspects, ", "), strings.Join(l.Setups, ", "), l.Risk), "")
			}
			return nil
		},
	}
}

// shown is a scenario as data.
type shown struct {
	listed
	Description string        `json:"description"`
	Params      []spec.Field  `json:"params"`
	Criteria    []shownCheck  `json:"criteria"`
	Guards      []shownCheck  `json:"guards"`
	Steps       []plannedStep `json:"steps"`
}

type shownCheck struct {
	Aspect string `json:"aspect"`
	ID     string `json:"id"`
	Title  string `json:"title"`
	Metric string `json:"metric"`
	Op     string `json:"op"`
	Value  string `json:"value"`
}

// plannedStep is a step as it would run.
type plannedStep struct {
	Stage   string `json:"stage"`
	ID      string `json:"id"`
	Title   string `json:"title"`
	Use     string `json:"use"`
	Risk    string `json:"risk"`
	Command string `json:"command"`
	Until   string `json:"until,omitempty"`
	Judged  bool   `json:"judged"`
	// Cannot says what the setup, where one was named, lacks for the step.
	Cannot string `json:"cannot,omitempty"`
}

func planOf(s *spec.Scenario, aspects []string) []plannedStep {
	var plan []plannedStep
	add := func(stage string, judged bool, steps []*spec.Step) {
		for _, step := range steps {
			v, _ := verb.Lookup(step.Use)
			p := plannedStep{Stage: stage, ID: step.ID, Title: step.Title, Use: step.Use, Risk: string(step.Verb.Risk), Judged: judged}
			p.Command = v.CommandLine(func(name string) (string, bool) {
				if t, ok := step.With[name]; ok {
					return t.String(), true
				}
				if f, ok := step.Verb.Inputs.Field(name); ok && f.Default != nil {
					return spec.Format(f.Default), true
				}
				return "", false
			})
			if u := step.Until; u != nil {
				p.Until = fmt.Sprintf("%s %s %s, every %s within %s, %d in a row", u.Path, u.Op, u.Value, u.Every, u.Within, u.Stable)
			}
			plan = append(plan, p)
		}
	}
	add("setup", true, s.Setup)
	for _, stage := range s.Stages(aspects) {
		add(stage.Aspect.ID, stage.Judged, stage.Aspect.Steps)
	}
	add("on_failure", false, s.OnFailure)
	add("always", false, s.Always)
	return plan
}

func checksOf(s *spec.Scenario) (criteria, guards []shownCheck) {
	for _, a := range s.Aspects {
		for _, c := range a.Criteria {
			criteria = append(criteria, shownCheck{a.ID, c.ID, c.Title, c.Metric.String(), c.Op, c.Value.String()})
		}
		for _, c := range a.Guards {
			guards = append(guards, shownCheck{a.ID, c.ID, c.Title, c.Metric.String(), c.Op, c.Value.String()})
		}
	}
	return criteria, guards
}

func (c *common) showCommand() *cobra.Command {
	return &cobra.Command{
		Use: "show SCENARIO", Short: "Show a scenario: aspects, parameters, criteria", Args: exactly("SCENARIO"),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := load(args[0])
			if err != nil {
				return err
			}
			criteria, guards := checksOf(s)
			if c.json() {
				return printJSON(cmd.OutOrStdout(), shown{listed{s.ID, s.Title, string(s.Risk), s.Setups, s.AspectIDs()}, s.Description, s.Params, criteria, guards, planOf(s, nil)})
			}
			out := cmd.OutOrStdout()
			fold(out, "", s.ID+": "+s.Title, "")
			fmt.Fprintln(out)
			fold(out, "", s.Description, "")
			fmt.Fprintf(out, "\n%s; setups: %s; %d brokers; at most %s\n", s.Risk, strings.Join(s.Setups, ", "), s.Brokers, s.Deadline)
			if len(s.Params) > 0 {
				fmt.Fprintln(out, "\nparameters")
				var rows [][2]string
				for _, p := range s.Params {
					rows = append(rows, [2]string{fmt.Sprintf("%s (%s) = %s", p.Name, p.Type, spec.Format(p.Default)), p.Doc})
				}
				twoColumns(out, "  ", rows)
			}
			for _, a := range s.Aspects {
				fmt.Fprintln(out)
				fold(out, "", "aspect "+a.ID+": "+a.Title, "")
				if len(a.Needs) > 0 {
					fmt.Fprintf(out, "  needs: %s\n", strings.Join(a.Needs, ", "))
				}
				showChecks(out, "criteria", a.ID, criteria)
				showChecks(out, "guards (unmet: inconclusive)", a.ID, guards)
			}
			return nil
		},
	}
}

func showChecks(out io.Writer, heading, aspect string, checks []shownCheck) {
	var rows [][2]string
	for _, k := range checks {
		if k.Aspect == aspect {
			rows = append(rows, [2]string{k.Title, k.Op + " " + k.Value})
		}
	}
	if len(rows) > 0 {
		fmt.Fprintln(out, "  "+heading)
		twoColumns(out, "    ", rows)
	}
}

func (c *common) planCommand() *cobra.Command {
	var aspects []string
	var setup string
	var attached attachFlags
	cmd := &cobra.Command{
		Use: "plan SCENARIO", Short: "Show the steps of a run, with the commands a person would type", Args: exactly("SCENARIO"),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := load(args[0])
			if err != nil {
				return err
			}
			for _, a := range aspects {
				if _, ok := s.Aspect(a); !ok {
					return &usageError{fmt.Errorf("no aspect is called %s", spec.Named(a)), spec.Suggest(a, s.AspectIDs())}
				}
			}
			plan := planOf(s, aspects)
			unable, err := c.planFor(cmd.Context(), s, aspects, setup, &attached, plan)
			if err != nil {
				return err
			}
			if c.json() {
				if err := printJSON(cmd.OutOrStdout(), plan); err != nil {
					return err
				}
				return unable
			}
			stage := ""
			for _, p := range plan {
				if p.Stage != stage {
					stage = p.Stage
					note := ""
					if !p.Judged && stage != "on_failure" && stage != "always" {
						note = "  (needed; not judged)"
					}
					fmt.Fprintf(cmd.OutOrStdout(), "%s%s\n", stage, note)
				}
				out, below := cmd.OutOrStdout(), padded("", 21)
				fold(out, "  "+padded(p.ID, 16)+" ", p.Title, "")
				fold(out, below+p.Risk+": ", p.Command, " \\")
				if p.Until != "" {
					fold(out, below+"until ", p.Until, "")
				}
				if p.Cannot != "" {
					fold(out, below+"CANNOT: ", p.Cannot, "")
				}
			}
			return unable
		},
	}
	cmd.Flags().StringVar(&setup, "setup", "", "say which steps this setup cannot do")
	attached.add(cmd)
	cmd.Flags().StringArrayVar(&aspects, "aspect", nil, "only this aspect, with what it needs; may be repeated")
	return cmd
}

// planFor notes at each step of a plan what a setup lacks for it. unable is the
// refusal that a run would meet; no name of a setup asks for nothing.
func (c *common) planFor(ctx context.Context, s *spec.Scenario, aspects []string, name string, f *attachFlags, plan []plannedStep) (unable, err error) {
	if name == "" && f.given() == "" {
		return nil, nil
	}
	setup, err := c.configured(ctx, s, name, f)
	if err != nil {
		return nil, err
	}
	for _, o := range run.Obstacles(s, aspects, "", setup) {
		for i := range plan {
			if plan[i].ID == o.Step && plan[i].Cannot == "" {
				plan[i].Cannot = o.Refused.Error()
			}
		}
	}
	if err := run.CheckAbilities(s, aspects, "", setup); err != nil {
		return &usageError{err: err}, nil
	}
	return nil, nil
}
