package scenarios

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ister-mq/ister/scenarios/internal/report"
	"github.com/ister-mq/ister/scenarios/internal/run"
	"github.com/ister-mq/ister/scenarios/internal/spec"
)

// runFilter chooses among runs; what is empty chooses all.
type runFilter struct {
	scenarios, setups, states []string
	last                      int // 0: all
}

func (c *common) runsCommand() *cobra.Command {
	var f runFilter
	cmd := &cobra.Command{
		Use: "runs", Short: "List the runs, newest first", Args: exactly(),
		Long: `List the runs, newest first. RUN is as much of the id as every command takes: --output json has all of it.
PASSED are the criteria that passed, of those that were judged. Besides verdicts there are running, paused,
abandoned (its runner is gone: scenario clean RUN) and unreadable (a folder without a record of a run).`,
		Example: "  scenario runs --last 5\n  scenario runs --scenario broker-scaling --verdict fail,inconclusive",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("last") && f.last < 1 {
				return &usageError{fmt.Errorf("--last %d is not a number of runs", f.last), "1 or more"}
			}
			infos, err := run.ListAll(c.runsDir)
			if err != nil {
				return environment(err)
			}
			if err := f.known(infos); err != nil {
				return err
			}
			chosen := f.of(infos)
			if c.json() {
				return printJSON(cmd.OutOrStdout(), chosen)
			}
			if len(chosen) == 0 {
				of := ""
				if len(infos) > 0 {
					of = fmt.Sprintf(" that these flags choose, of %d", len(infos))
				}
				if _, err := os.Stat(c.runsDir); err != nil {
					of = ", which does not exist"
				}
				fmt.Fprintf(cmd.OutOrStdout(), "no runs in %s%s\n", c.runsDir, of)
				return nil
			}
			writeRuns(cmd.OutOrStdout(), chosen, infos)
			return nil
		},
	}
	cmd.Flags().StringSliceVar(&f.scenarios, "scenario", nil, "runs of these scenarios")
	cmd.Flags().StringSliceVar(&f.setups, "setup", nil, "runs on these setups")
	cmd.Flags().StringSliceVar(&f.states, "verdict", nil, "runs with these verdicts: "+strings.Join(stateWords(), ", "))
	cmd.Flags().IntVar(&f.last, "last", 0, "only the newest so many of them")
	return cmd
}

// known refuses words that no run could have.
func (f *runFilter) known(infos []run.Info) error {
	names := shippedNames()
	for _, info := range infos {
		names = append(names, info.Run.Scenario)
	}
	for _, name := range f.scenarios {
		if !slices.Contains(names, name) {
			return &usageError{fmt.Errorf("--scenario %q: no run of it, and no shipped scenario is called so", name), spec.Suggest(name, names)}
		}
	}
	for i, state := range f.states {
		f.states[i] = strings.ReplaceAll(strings.ToLower(state), "-", " ") // of "step error"
	}
	for _, name := range f.setups {
		if err := oneOf("setup", name, spec.Setups...); err != nil {
			return err
		}
	}
	for _, state := range f.states {
		if err := oneOf("verdict", state, run.States...); err != nil {
			return err
		}
	}
	return nil
}

// of is what the filter chooses, newest first.
func (f *runFilter) of(infos []run.Info) []run.Info {
	one := func(of []string, word string) bool { return len(of) == 0 || slices.Contains(of, word) }
	chosen := []run.Info{}
	for _, info := range slices.Backward(infos) {
		if one(f.scenarios, info.Run.Scenario) && one(f.setups, info.Run.Setup) && one(f.states, info.State) && (f.last == 0 || len(chosen) < f.last) {
			chosen = append(chosen, info)
		}
	}
	return chosen
}

// The column of runs that gives way where a row would be too wide, and the part
// of an id that is shown at the least.
const (
	scenarioColumn = 2
	shortIDMin     = len("20261202-080000")
)

// writeRuns writes a table within report.Width columns, and below it what is to
// be done about some of the runs.
func writeRuns(out io.Writer, chosen, all []run.Info) {
	rows := [][]string{{"STARTED", "RUN", "SCENARIO", "SETUP", "SEED", "VERDICT", "PASSED", "TOOK"}}
	var notes []string
	for _, info := range chosen {
		r := info.Run
		id := shortID(r.ID, all)
		row := []string{r.StartedAt.Local().Format("01-02 15:04"), id, r.Scenario, r.Setup, fmt.Sprint(r.Seed), strings.ToUpper(info.State), passedOf(r), tookOf(info)}
		if info.Problem != "" {
			row = []string{row[0], id, "-", "-", "-", row[5], "-", "-"}
			notes = append(notes, "UNREADABLE "+info.Problem)
		}
		if info.Processes > 0 && !info.Live {
			notes = append(notes, fmt.Sprintf("%s still has %d processes: scenario stop %s", id, info.Processes, id))
		}
		rows = append(rows, row)
	}
	writeColumns(out, rows, scenarioColumn)
	for _, note := range notes {
		fold(out, "  ", note, "")
	}
}

// writeColumns writes rows in columns; the one that gives way is clipped where
// they would be wider than report.Width.
func writeColumns(out io.Writer, rows [][]string, gives int) {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], len([]rune(cell)))
		}
	}
	total := 2 * (len(widths) - 1)
	for _, width := range widths {
		total += width
	}
	widths[gives] = max(4, widths[gives]-max(0, total-report.Width))
	for _, row := range rows {
		line := ""
		for i, cell := range row {
			line += padded(clipped(cell, widths[i]), widths[i]) + "  "
		}
		fmt.Fprintln(out, strings.TrimRight(line, " "))
	}
}

// shortID is the shortest beginning of an id, with its date and time where it has
// them, by which commands find the run.
func shortID(id string, all []run.Info) string {
	for n := shortIDMin; n < len(id); n++ {
		unique := true
		for _, info := range all {
			unique = unique && (info.Run.ID == id || !strings.Contains(info.Run.ID, id[:n]))
		}
		if unique {
			return id[:n]
		}
	}
	return id
}

// passedOf counts criteria as "passed/judged"; "-" where none was.
func passedOf(r *report.Run) string {
	passed, judged := r.Passed()
	if judged == 0 {
		return "-"
	}
	return fmt.Sprintf("%d/%d", passed, judged)
}

// tookOf is how long a run took, or has taken so far; "-" where that is not known.
func tookOf(info run.Info) string {
	took := time.Duration(info.Run.TookMS) * time.Millisecond
	switch {
	case info.Live:
		took = time.Since(info.Run.StartedAt)
	case info.Run.Verdict == report.Running:
		return "-"
	}
	if took < time.Minute {
		return fmt.Sprintf("%.1fs", took.Seconds())
	}
	return took.Round(time.Second).String()
}
