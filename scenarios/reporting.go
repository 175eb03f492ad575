package scenarios

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/ister-mq/ister/scenarios/internal/report"
	"github.com/ister-mq/ister/scenarios/internal/run"
)

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
			if err := oneOf("format", format, append([]string{"text"}, run.Formats...)...); err != nil {
				return err
			}
			if cmd.Flags().Changed("format") && cmd.Flags().Changed("report") {
				return &usageError{errors.New("--format does not go with --report"), "--format prints one report, --report makes files"}
			}
			dir, err := c.find(args[0])
			if err != nil {
				return err
			}
			if len(rewrite) > 0 {
				return remake(cmd.OutOrStdout(), rewrite, dir)
			}
			return c.report(cmd.OutOrStdout(), format, dir)
		},
	}
	cmd.Flags().StringVar(&format, "format", "text", "print it as text, json, junit, md or html")
	cmd.Flags().StringSliceVar(&rewrite, "report", nil, "make these files again in the run's directory: json, junit, md, html")
	return cmd
}

// knownFormats refuses reports that there are not.
func knownFormats(formats []string) error {
	for _, format := range formats {
		if err := oneOf("report", format, run.Formats...); err != nil {
			return err
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
		return &usageError{fmt.Errorf("run %s has not ended: its reports are made when it does", r.ID), unended(r, dir)}
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

// unended says what can be done about a run without a verdict.
func unended(r *report.Run, dir string) string {
	if info, err := run.Inspect(dir); err == nil && info.State == run.Abandoned {
		return "its runner is gone: scenario clean " + r.Name() + " ends what it left and makes the reports"
	}
	return "it goes on: scenario watch " + r.Name()
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
		if r.Verdict == report.Running {
			fmt.Fprintln(out, unended(r, dir))
		}
		return nil
	}
	data, err := run.Render(format, dir)
	if err != nil {
		return environment(err)
	}
	_, err = out.Write(data)
	return err
}
