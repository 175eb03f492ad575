package scenarios

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ister-mq/ister/scenarios/internal/report"
	"github.com/ister-mq/ister/scenarios/internal/run"
	"github.com/ister-mq/ister/scenarios/internal/spec"
)

type runFlags struct {
	aspects []string
	params  []string
	seed    int64
	setup   string
	runID   string
	binary  string
	upgrade string
	keep    string
	timeout time.Duration
	quiet   bool

	detach     bool
	supervisor bool // started by another command, which is told where the run is
	progress   string

	pause       string
	pauseMax    time.Duration
	from, until string
	repeat      int
	reports     []string
	attach      attachFlags
}

// The words of flags.
var (
	keepWords  = []string{string(run.KeepNever), string(run.KeepOnFailure), string(run.KeepAlways)}
	pauseWords = []string{string(run.PauseNever), string(run.PauseOnFailure), string(run.PauseEach)}
)

func (c *common) runCommand() *cobra.Command {
	f := &runFlags{}
	cmd := &cobra.Command{
		Use: "run SCENARIO", Short: "Run a scenario and judge it", Args: exactly("SCENARIO"),
		Long: `Run a scenario and judge it: a name that "scenario list" shows, a file, or a directory with a scenario.yaml.
The evidence is in runs/<id>/; "scenario report last" shows the result again.

` + exitCodes,
		Example: "  scenario run broker-scaling\n  scenario run broker-scaling --aspect scale-up --seed 7\n  scenario run kill-and-recover --param rounds=20\n  scenario watch $(scenario run broker-scaling --detach)",
		RunE: func(cmd *cobra.Command, args []string) error {
			pauses := f.pause != string(run.PauseNever) || f.from != ""
			if err := errors.Join(above(cmd, "timeout", f.timeout), above(cmd, "pause-max", f.pauseMax)); err != nil {
				return err
			}
			switch {
			case f.repeat < 1:
				return &usageError{fmt.Errorf("--repeat %d is not a number of runs", f.repeat), "1 or more"}
			case f.repeat > 1 && (f.detach || pauses || f.runID != ""):
				return &usageError{errors.New("--repeat does not go with --detach, --pause, --from and --run-id"), ""}
			case f.runID == "" && cmd.Flags().Changed("run-id"):
				return &usageError{errors.New("--run-id is empty"), "leave it out, and one is made"}
			case f.detach:
				return c.detach(cmd, args)
			case pauses && !f.supervisor:
				return c.conduct(cmd, args, f)
			}
			return c.run(cmd, args[0], f)
		},
	}
	cmd.Flags().StringArrayVar(&f.aspects, "aspect", nil, "only this aspect, with what it needs; may be repeated")
	cmd.Flags().StringArrayVarP(&f.params, "param", "p", nil, "name=value; may be repeated")
	cmd.Flags().Int64Var(&f.seed, "seed", 0, "seed of random choices; 0 picks one")
	cmd.Flags().StringVar(&f.setup, "setup", "", "process, netns, container, compose or attach (default: the scenario's first)")
	cmd.Flags().StringVar(&f.runID, "run-id", "", "name of the run, which must be free (default: one of the time and the scenario)")
	f.attach.add(cmd)
	cmd.Flags().StringVar(&f.binary, "ister-bin", "", "ister binary to run (default: this one, or built from the source tree)")
	cmd.Flags().StringVar(&f.upgrade, "upgrade-bin", "", "ister binary of another version to upgrade to (default: the source tree, built with another version)")
	cmd.Flags().StringVar(&f.keep, "keep", "never", "leave the cluster running: never, failure or always")
	cmd.Flags().DurationVar(&f.timeout, "timeout", 0, "bound on the whole run (default: the scenario's deadline)")
	cmd.Flags().BoolVar(&f.detach, "detach", false, "print the run's id and return; the run goes on by itself")
	cmd.Flags().BoolVar(&f.supervisor, "supervisor", false, "")
	_ = cmd.Flags().MarkHidden("supervisor") // it exists
	progressFlag(cmd, &f.progress)
	cmd.Flags().StringVar(&f.pause, "pause", "never", "stop and keep the cluster: never, on-failure, or each (before every step); go on with step or resume")
	cmd.Flags().DurationVar(&f.pauseMax, "pause-max", run.PauseMax, "a pause that lasts longer ends the run")
	cmd.Flags().StringVar(&f.from, "from", "", "pause before this step, and before each after it")
	cmd.Flags().StringVar(&f.until, "until", "", "end the run after this step; what was not judged is inconclusive")
	cmd.Flags().StringSliceVar(&f.reports, "report", run.Formats, "which reports are written: json, junit, md, html")
	cmd.Flags().IntVar(&f.repeat, "repeat", 1, "so many runs, each with the next seed, until one does not pass")
	cmd.Flags().BoolVarP(&f.quiet, "quiet", "q", false, "show failures and the result only")
	return cmd
}

func (c *common) run(cmd *cobra.Command, name string, f *runFlags) error {
	s, err := load(name)
	if err != nil {
		return err
	}
	setup, err := c.configured(cmd.Context(), s, f.setup, &f.attach)
	if err == nil {
		err = addressed(setup)
	}
	if err != nil {
		return err
	}
	params, err := paramsOf(f.params)
	if err != nil {
		return err
	}
	keep := run.Keep(f.keep)
	if err := oneOf("keep", f.keep, keepWords...); err != nil {
		return err
	}
	pause := run.Pause(f.pause)
	if err := oneOf("pause", f.pause, pauseWords...); err != nil {
		return err
	}
	if err := knownFormats(f.reports); err != nil {
		return err
	}
	if f.upgrade != "" && !upgrades(s) {
		return &usageError{fmt.Errorf("--upgrade-bin does not go with %s, which upgrades no broker", s.ID), "upgrade-rolling does"}
	}
	if f.seed == 0 {
		f.seed = 1 + rand.Int64N(1_000_000)
	}
	show, err := c.view(c.progressOut(cmd), f.progress, f.quiet)
	if err != nil {
		return err
	}
	defer show.Close() // before an error is printed
	begun := func(string, string) {}
	if f.supervisor {
		begun = announce
	}
	named := ""
	if !slices.Contains(shippedNames(), name) {
		if named, err = filepath.Abs(name); err != nil {
			return environment(err)
		}
	}
	ctx, hurry, stop := interruptible(cmd.Context(), cmd.ErrOrStderr())
	defer stop()
	options := run.Options{
		Hurry:    hurry,
		Scenario: s, Named: named, Aspects: f.aspects, Params: params, Seed: f.seed, Setup: setup, Binary: f.binary, UpgradeBinary: f.upgrade, RunsDir: c.runsDir, RunID: f.runID, Keep: keep, Deadline: f.timeout, Show: show, Begun: begun,
		Pause: pause, PauseMax: f.pauseMax, From: f.from, Until: f.until, Reports: f.reports,
	}
	for n := 1; ; n++ {
		if err := c.execute(ctx, cmd, options, show); err != nil || n == f.repeat {
			return err
		}
		options.Seed++
	}
}

// upgrades reports whether a scenario looks for a second build.
func upgrades(s *spec.Scenario) bool {
	finds := func(step *spec.Step) bool { return step.Use == "build.find" }
	return slices.ContainsFunc(s.Setup, finds) || slices.ContainsFunc(s.Aspects, func(a *spec.Aspect) bool { return slices.ContainsFunc(a.Steps, finds) })
}

// execute does one run, and is the error of its exit code.
func (c *common) execute(ctx context.Context, cmd *cobra.Command, options run.Options, show report.Display) error {
	record, err := run.Execute(ctx, options)
	if record == nil {
		var problems spec.Problems
		var unable *run.UnableError
		if errors.As(err, &problems) || errors.As(err, &unable) {
			return &usageError{err: err}
		}
		return &exitError{code: report.ExitEnvironment, err: err}
	}
	return c.shown(cmd, show, record)
}

func paramsOf(given []string) (map[string]string, error) {
	params := map[string]string{}
	for _, text := range given {
		name, value, ok := strings.Cut(text, "=")
		if !ok || name == "" {
			return nil, &usageError{fmt.Errorf("--param %q is not name=value", text), ""}
		}
		if _, twice := params[name]; twice {
			return nil, &usageError{fmt.Errorf("--param %s is given twice", name), ""}
		}
		params[name] = value
	}
	return params, nil
}
