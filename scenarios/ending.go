package scenarios

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ister-mq/ister/scenarios/internal/report"
	"github.com/ister-mq/ister/scenarios/internal/run"
	"github.com/ister-mq/ister/setups"
)

func (c *common) stopCommand() *cobra.Command {
	return &cobra.Command{
		Use: "stop RUN", Short: "End a run, or the cluster that it kept", Args: exactly("RUN"),
		Long: "End a run: its runner is asked to, cleans up and writes the evidence. Where the runner is gone, the\nprocesses that it recorded are ended. RUN is an id, a unique part of one, a directory, or last.",
		RunE: func(cmd *cobra.Command, args []string) error {
			dir, err := c.find(args[0])
			if err != nil {
				return err
			}
			left, err := run.Stop(cmd.Context(), dir, c.cleanerOf(dir), func(text string) { fmt.Fprintln(cmd.OutOrStdout(), text) })
			return ended(cmd, "stopped "+dir, left, err)
		},
	}
}

// ended reports how a stop or clean came out.
func ended(cmd *cobra.Command, done string, left []string, err error) error {
	if errors.Is(err, run.ErrRunning) {
		return &usageError{err: err}
	}
	if err != nil {
		return &exitError{code: report.ExitEnvironment, err: err}
	}
	if len(left) > 0 {
		return &exitError{code: report.ExitLeftovers, err: fmt.Errorf("left behind: %s", strings.Join(left, ", "))}
	}
	fmt.Fprintln(cmd.OutOrStdout(), done)
	return nil
}

// cleanerOf is the cleaner of the setup that a run used; nil where there is none.
func (c *common) cleanerOf(dir string) setups.Cleaner {
	r, err := report.LoadRun(dir)
	if err != nil {
		return nil // told by who looks at the run
	}
	for _, setup := range c.setups {
		if cleaner, ok := setup.(setups.Cleaner); ok && setup.Name() == r.Setup {
			return cleaner
		}
	}
	return nil
}

// clean ends and removes what a run left.
func (c *common) clean(ctx context.Context, dir string, purge bool, say func(string)) ([]string, error) {
	return run.Clean(ctx, dir, c.cleanerOf(dir), purge, say)
}

func (c *common) cleanCommand() *cobra.Command {
	var all, purge bool
	cmd := &cobra.Command{
		Use: "clean [RUN]", Short: "End what ended runs left behind, and remove their brokers' data",
		Long: "End processes that a finished or abandoned run started and that still run, and remove its brokers' data.\nThe evidence stays unless --purge is given. Only what a run recorded is touched; a live run is refused.",
		Args: func(cmd *cobra.Command, args []string) error {
			if all == (len(args) > 0) || len(args) > 1 {
				return &usageError{errors.New("clean takes one RUN, or --all"), ""}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			say := func(text string) { fmt.Fprintln(cmd.OutOrStdout(), text) }
			if !all {
				dir, err := c.find(args[0])
				if err != nil {
					return err
				}
				left, err := c.clean(cmd.Context(), dir, purge, say)
				return ended(cmd, "cleaned "+dir, left, err)
			}
			infos, err := run.List(c.runsDir)
			if err != nil {
				return &exitError{code: report.ExitEnvironment, err: err}
			}
			var left []string
			cleaned := 0
			for _, info := range infos {
				if info.Live {
					say("left alone, running: " + info.Run.ID)
					continue
				}
				more, err := c.clean(cmd.Context(), c.runsDir+string(os.PathSeparator)+info.Run.ID, purge, say)
				if err != nil {
					return &exitError{code: report.ExitEnvironment, err: err}
				}
				left = append(left, more...)
				cleaned++
			}
			if cleaned == len(infos) {
				if err := run.RemoveCache(c.runsDir); err != nil {
					return &exitError{code: report.ExitEnvironment, err: err}
				}
			}
			return ended(cmd, "cleaned "+count(cleaned, "run"), left, nil)
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "every run that is not live")
	cmd.Flags().BoolVar(&purge, "purge", false, "remove the evidence as well")
	return cmd
}
