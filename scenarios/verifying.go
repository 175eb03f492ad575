package scenarios

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"sort"

	"github.com/spf13/cobra"

	"github.com/ister-mq/ister/scenarios/internal/history"
	"github.com/ister-mq/ister/scenarios/internal/report"
	"github.com/ister-mq/ister/scenarios/internal/run"
	"github.com/ister-mq/ister/scenarios/internal/verdict"
)

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
	dir, err := c.find(name)
	if err != nil {
		return err
	}
	if err := run.CheckSum(dir, run.HistoryFile); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return environment(err)
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
