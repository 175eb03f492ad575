package scenarios

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/ister-mq/ister/scenarios/internal/history"
	"github.com/ister-mq/ister/scenarios/internal/report"
	"github.com/ister-mq/ister/scenarios/internal/run"
	"github.com/ister-mq/ister/scenarios/internal/spec"
	"github.com/ister-mq/ister/scenarios/internal/verb"
	"github.com/ister-mq/ister/scenarios/internal/verdict"
	"github.com/ister-mq/ister/setups"
	"github.com/ister-mq/ister/setups/attach"
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
				fmt.Fprintf(cmd.OutOrStdout(), "%-18s %s\n%-18s aspects: %s; setups: %s; %s\n", l.ID, l.Title, "", strings.Join(l.Aspects, ", "), strings.Join(l.Setups, ", "), l.Risk)
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
			fmt.Fprintf(out, "%s: %s\n\n%s\n\n%s; setups: %s; %d brokers; at most %s\n", s.ID, s.Title, s.Description, s.Risk, strings.Join(s.Setups, ", "), s.Brokers, s.Deadline)
			if len(s.Params) > 0 {
				fmt.Fprintln(out, "\nparameters")
				w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
				for _, p := range s.Params {
					fmt.Fprintf(w, "  %s\t%s\t%s\t%s\n", p.Name, p.Type, spec.Format(p.Default), p.Doc)
				}
				w.Flush()
			}
			for _, a := range s.Aspects {
				fmt.Fprintf(out, "\naspect %s: %s\n", a.ID, a.Title)
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
	first := true
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, k := range checks {
		if k.Aspect != aspect {
			continue
		}
		if first {
			fmt.Fprintf(w, "  %s\n", heading)
			first = false
		}
		fmt.Fprintf(w, "    %s\t%s %s\n", k.Title, k.Op, k.Value)
	}
	w.Flush()
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
					return &usageError{fmt.Errorf("no aspect is called %s", a), spec.Suggest(a, s.AspectIDs())}
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
				fmt.Fprintf(cmd.OutOrStdout(), "  %-16s %s\n  %-16s   %s: %s\n", p.ID, p.Title, "", p.Risk, p.Command)
				if p.Until != "" {
					fmt.Fprintf(cmd.OutOrStdout(), "  %-16s   until %s\n", "", p.Until)
				}
				if p.Cannot != "" {
					fmt.Fprintf(cmd.OutOrStdout(), "  %-16s   CANNOT: %s\n", "", p.Cannot)
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

func (c *common) reportCommand() *cobra.Command {
	var format string
	var rewrite []string
	cmd := &cobra.Command{
		Use: "report RUN", Short: "Show the result of a run, or make its reports again", Args: exactly("RUN"),
		Long: "Show the result of a run. With --format the report is printed in that form; with --report the files in the run's\n" +
			"directory are made again, and its checksums. Both use the evidence alone.",
		Example: "  scenario report last\n  scenario report last --format html > report.html\n  scenario report last --report html,junit",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := knownFormats(rewrite); err != nil {
				return err
			}
			if c.json() {
				format = "json"
			}
			if format != "text" && !slices.Contains(run.Formats, format) {
				return &usageError{fmt.Errorf("--format %s is not known", format), "text, " + strings.Join(run.Formats, ", ")}
			}
			dir, err := run.Find(c.runsDir, args[0])
			if err != nil {
				return &usageError{err: err}
			}
			if len(rewrite) > 0 {
				return remake(cmd.OutOrStdout(), rewrite, dir)
			}
			return c.report(cmd.OutOrStdout(), format, dir)
		},
	}
	cmd.Flags().StringVar(&format, "format", "text", "print it as text, json, junit, md or html")
	cmd.Flags().StringSliceVar(&rewrite, "report", nil, "make these files again in the run's directory: json, junit, md, html")
	cmd.MarkFlagsMutuallyExclusive("format", "report")
	return cmd
}

// knownFormats refuses reports that there are not.
func knownFormats(formats []string) error {
	for _, format := range formats {
		if !slices.Contains(run.Formats, format) {
			return &usageError{fmt.Errorf("--report %s is not known", format), strings.Join(run.Formats, ", ")}
		}
	}
	return nil
}

func remake(out io.Writer, formats []string, dir string) error {
	r, err := report.LoadRun(dir)
	if err != nil {
		return environment(err)
	}
	if r.Verdict == report.Running {
		return &usageError{fmt.Errorf("run %s has not ended: its reports are made when it does", r.ID), "follow it: scenario watch " + r.ID}
	}
	files, err := run.Rewrite(formats, dir)
	if err != nil {
		return environment(err)
	}
	for _, file := range files {
		fmt.Fprintln(out, file)
	}
	return nil
}

func (c *common) report(out io.Writer, format, dir string) error {
	if format == "text" {
		r, err := report.LoadRun(dir)
		if err != nil {
			return environment(err)
		}
		show, err := c.display(out, "auto", false)
		if err != nil {
			return err
		}
		show.Summary(r)
		return nil
	}
	data, err := run.Render(format, dir)
	if err != nil {
		return environment(err)
	}
	_, err = out.Write(data)
	return err
}

func (c *common) doctorCommand() *cobra.Command {
	var setup string
	var attached attachFlags
	cmd := &cobra.Command{
		Use: "doctor", Short: "Say what is missing on this machine, and how to get it", Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			chosen, err := c.toCheck(cmd.Context(), setup, &attached)
			if err != nil {
				return err
			}
			findings := []setups.Finding{c.checkRunsDir()}
			for _, setup := range chosen {
				findings = append(findings, setup.Check(cmd.Context())...)
			}
			fatal := 0
			for _, f := range findings {
				if !f.OK && f.Fatal {
					fatal++
				}
			}
			out := cmd.OutOrStdout()
			if c.json() {
				if err := printJSON(out, findings); err != nil {
					return err
				}
			} else {
				for _, f := range findings {
					mark := "ok  "
					if !f.OK {
						mark = "MISS"
					}
					fmt.Fprintf(out, "%s  %-17s %s\n", mark, f.Code, f.Message)
					if !f.OK {
						fmt.Fprintf(out, "      %-17s %s\n", "", f.Remedy)
					}
				}
			}
			if fatal > 0 {
				return &exitError{code: report.ExitEnvironment, err: fmt.Errorf("%d things are missing", fatal), silent: c.json()}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&setup, "setup", "", "only what this setup needs (default: every setup that starts its own brokers)")
	attached.add(cmd)
	return cmd
}

// toCheck are the setups that doctor looks at. Without a name that is all but
// attach, which is about a cluster and not about this machine.
func (c *common) toCheck(ctx context.Context, name string, f *attachFlags) ([]setups.Setup, error) {
	if name == "" && f.given() != "" {
		name = attach.Setup{}.Name()
	}
	var chosen []setups.Setup
	var known []string
	for _, setup := range c.setups {
		known = append(known, setup.Name())
		if name == setup.Name() {
			applied, err := f.applied(ctx, setup)
			return []setups.Setup{applied}, err
		}
		if _, foreign := setup.(attach.Setup); !foreign {
			chosen = append(chosen, setup)
		}
	}
	if name != "" {
		return nil, &usageError{fmt.Errorf("no setup is called %s", name), spec.Suggest(name, known)}
	}
	return chosen, nil
}

// checkRunsDir looks whether runs can be written, without leaving anything.
func (c *common) checkRunsDir() setups.Finding {
	f := setups.Finding{Code: "RUNS_DIRECTORY", OK: true, Message: "runs go to " + c.runsDir}
	parent := c.runsDir
	for {
		if _, err := os.Stat(parent); err == nil {
			break
		}
		parent = filepath.Dir(parent)
	}
	probe, err := os.MkdirTemp(parent, ".scenario-doctor-")
	if err == nil {
		err = os.Remove(probe)
	}
	if err != nil {
		f.OK, f.Fatal, f.Message, f.Remedy = false, true, err.Error(), "give a directory that can be written with --runs-dir"
	}
	return f
}

func (c *common) verifyCommand() *cobra.Command {
	var selftest bool
	var legal int
	cmd := &cobra.Command{
		Use: "verify [RUN]", Short: "Judge the recorded history of a run again, or test the judge",
		Long: "Judge a recorded history again, from the file alone. With --selftest the judge is tested: every anomaly that it\nknows is planted into a good history and must be caught, and legal histories must raise no alarm.",
		Args: func(cmd *cobra.Command, args []string) error {
			if selftest == (len(args) > 0) || len(args) > 1 {
				return &usageError{errors.New("verify takes one RUN, or --selftest"), ""}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if selftest {
				return c.selfTest(cmd.OutOrStdout(), legal)
			}
			return c.verify(cmd.OutOrStdout(), args[0])
		},
	}
	cmd.Flags().BoolVar(&selftest, "selftest", false, "test the judge itself")
	cmd.Flags().IntVar(&legal, "legal", verdict.LegalHistories, "with --selftest: how many legal histories to judge")
	return cmd
}

func (c *common) selfTest(out io.Writer, legal int) error {
	if legal < 1 {
		return &usageError{fmt.Errorf("--legal %d: at least one legal history must be judged", legal), ""}
	}
	result := verdict.SelfTest(legal)
	if c.json() {
		if err := printJSON(out, result); err != nil {
			return err
		}
	} else {
		caught := 0
		for _, row := range result.Rows {
			mark := "caught"
			if row.Caught {
				caught++
			} else {
				mark = "MISSED"
			}
			fmt.Fprintf(out, "%s  %-46s %s\n", mark, row.Anomaly, row.Want)
		}
		fmt.Fprintf(out, "%d of %d planted anomalies caught; %d of %d legal histories raised an alarm; %d client duplicates told apart\n", caught, len(result.Rows),
			len(result.FalseAlarms), result.Legal, result.ClientDuplicates)
		for i, alarm := range result.FalseAlarms {
			if i < 5 {
				fmt.Fprintln(out, "false alarm: "+alarm)
			}
		}
	}
	if !result.Passed() {
		return &exitError{code: report.ExitFail, err: errors.New("the judge is not to be trusted"), silent: c.json()}
	}
	return nil
}

func (c *common) verify(out io.Writer, name string) error {
	dir, err := run.Find(c.runsDir, name)
	if err != nil {
		return &usageError{err: err}
	}
	h, err := history.Load(filepath.Join(dir, run.HistoryFile))
	if errors.Is(err, fs.ErrNotExist) {
		return &exitError{code: report.ExitInconclusive, err: errors.New("the run ended before its history began: nothing can be judged")}
	}
	if err != nil {
		return &exitError{code: report.ExitEnvironment, err: err}
	}
	verdicts := []*verdict.Verdict{}
	for _, read := range h.Reads {
		v, err := verdict.Judge(h, read.Load, read.ID)
		if err != nil {
			return &exitError{code: report.ExitEnvironment, err: err}
		}
		verdicts = append(verdicts, v)
	}
	sort.SliceStable(verdicts, func(i, j int) bool { return verdicts[i].Load < verdicts[j].Load })
	violations := 0
	if !c.json() {
		fmt.Fprintf(out, "%d sends, %d deliveries, %d disturbances, %d complete reads\n", len(h.Sends), len(h.Receives), len(h.Disturbances), len(h.Reads))
		if h.Partial {
			fmt.Fprintln(out, "the history is partial: its runner ended before the run did")
		}
	}
	for _, v := range verdicts {
		violations += v.Violations()
		if c.json() {
			continue
		}
		fmt.Fprintf(out, "%s: %d acknowledged, %d unknown (%d in the log), %d refused, %d in the log, %d violations\n", v.Read, v.Acked, v.Unknown, v.UnknownVisible, v.Failed, v.InLog, v.Violations())
		for _, f := range v.Findings {
			fmt.Fprintf(out, "  %s: %s\n", f.Check, f.Message)
		}
	}
	if c.json() {
		if err := printJSON(out, verdicts); err != nil {
			return err
		}
	}
	switch {
	case violations > 0:
		return &exitError{code: report.ExitFail, err: fmt.Errorf("%d violations", violations), silent: c.json()}
	case len(verdicts) == 0:
		return &exitError{code: report.ExitInconclusive, err: errors.New("the history holds no complete read: nothing can be judged")}
	case h.Partial:
		return &exitError{code: report.ExitInconclusive, err: errors.New("no violation in what there is of the history: that is no pass, since it is partial")}
	}
	return nil
}
