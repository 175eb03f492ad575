package scenarios

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/ister-mq/ister/scenarios/internal/report"
	"github.com/ister-mq/ister/scenarios/internal/run"
	"github.com/ister-mq/ister/scenarios/internal/spec"
)

func (c *common) resumeCommand() *cobra.Command {
	progress := ""
	cmd := &cobra.Command{
		Use: "resume RUN", Short: "Let a paused run go on to its end", Args: exactly("RUN"),
		Long: "Let a paused run go on, and follow it to its end or to a failure, at which it pauses again. After a step\nthat failed, the run is finished: cleanup and verdict. Ending this command does not end the run.",
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.goOn(cmd, args[0], progress, run.ResumeOrder())
		},
	}
	progressFlag(cmd, &progress)
	return cmd
}

func (c *common) stepCommand() *cobra.Command {
	progress := ""
	cmd := &cobra.Command{
		Use: "step RUN [STEP]", Short: "Let a paused run do its next step, or all up to STEP",
		Long: "Let a paused run do its next step, or all up to and including STEP, and pause again. After a step that\nfailed it is done again; such a run is inconclusive at best. Ending this command does not end the run.",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 && len(args) != 2 {
				return &usageError{fmt.Errorf("%s takes RUN and perhaps STEP, got %d arguments", cmd.CommandPath(), len(args)), "see: " + cmd.CommandPath() + " --help"}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			until := ""
			if len(args) == 2 {
				until = args[1]
			}
			return c.goOn(cmd, args[0], progress, run.StepOrder(until))
		},
	}
	progressFlag(cmd, &progress)
	return cmd
}

// goOn gives a paused run an order and follows it to its next pause or its end.
func (c *common) goOn(cmd *cobra.Command, name, progress string, order run.Order) error {
	dir, err := c.find(name)
	if err != nil {
		return err
	}
	show, err := c.display(c.progressOut(cmd), progress, false)
	if err != nil {
		return err
	}
	state, err := run.LoadState(dir)
	if err != nil {
		return environment(err)
	}
	id := filepath.Base(dir)
	info, err := run.Inspect(dir)
	if err != nil {
		return environment(err)
	}
	if info.State == run.Abandoned {
		return c.followed(cmd, show, info.Run, run.ErrAbandoned)
	}
	if !state.Paused() {
		return &usageError{fmt.Errorf("run %s is not paused: it is %s", id, state.State), "see: scenario runs"}
	}
	failedNow := state.Pause.Failed && order.Until == state.Pause.Step
	if order.Until != "" && !failedNow && !slices.Contains(state.StepsLeft, order.Until) {
		return &usageError{fmt.Errorf("run %s has no step %s before it", id, order.Until), spec.Suggest(order.Until, state.StepsLeft)}
	}
	if err := run.Give(dir, state.Pause.Number, order); err != nil {
		return &usageError{err: err}
	}
	return c.toPause(cmd, dir, show, state.Pause.Number)
}

// since passes on what comes after a pause.
type since struct {
	report.Display
	pause int
	seen  bool
}

// Event implements report.Sink.
func (s *since) Event(e report.Event) {
	if s.seen {
		s.Display.Event(e)
	}
	s.seen = s.seen || s.pause == 0 || e.Pause != nil && e.Pause.Number == s.pause
}

// toPause follows a run from one pause, 0 being its start, to the next or its end.
// At a pause the state is the output with -o json, and the exit code is 0, or
// that of what failed.
func (c *common) toPause(cmd *cobra.Command, dir string, show report.Display, pause int) error {
	var next *report.Pause
	later := &since{Display: show, pause: pause, seen: pause == 0}
	record, err := run.Follow(cmd.Context(), dir, later, func(e report.Event) bool {
		if e.Pause != nil && e.Pause.Number > pause {
			next = e.Pause
		}
		return next != nil
	})
	if err != nil || next == nil {
		return c.followed(cmd, show, record, err)
	}
	if c.json() {
		state, err := run.LoadState(dir)
		if err != nil {
			return environment(err)
		}
		if err := printJSON(cmd.OutOrStdout(), state); err != nil {
			return err
		}
	}
	switch {
	case !next.Failed:
		return nil
	case next.Step == "":
		return &exitError{code: report.ExitFail, silent: true}
	}
	return &exitError{code: report.ExitStep, silent: true}
}

// conduct starts a run that may pause, in a supervisor, and follows it to its
// first pause or its end. An interrupt ends the run.
func (c *common) conduct(cmd *cobra.Command, args []string, f *runFlags) error {
	show, err := c.display(c.progressOut(cmd), f.progress, f.quiet)
	if err != nil {
		return err
	}
	dir, _, err := c.supervise(cmd, args)
	if err != nil {
		return environment(err)
	}
	err = c.toPause(cmd, dir, show, 0)
	if cmd.Context().Err() == nil {
		return err
	}
	left, stopErr := run.Stop(context.WithoutCancel(cmd.Context()), dir, c.cleanerOf(dir), func(text string) { fmt.Fprintln(cmd.ErrOrStderr(), text) })
	if stopErr != nil || len(left) > 0 {
		return ended(cmd, "", left, stopErr)
	}
	record, err := report.LoadRun(dir)
	return c.followed(cmd, show, record, err)
}
