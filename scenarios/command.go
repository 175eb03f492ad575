package scenarios

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/ister-mq/ister/scenarios/internal/report"
	"github.com/ister-mq/ister/scenarios/internal/spec"
	"github.com/ister-mq/ister/setups"
	"github.com/ister-mq/ister/setups/attach"
	"github.com/ister-mq/ister/setups/compose"
	"github.com/ister-mq/ister/setups/container"
	"github.com/ister-mq/ister/setups/fault"
	"github.com/ister-mq/ister/setups/netns"
)

// ExitCode is the process exit code that an error of the command stands for; 0
// of nil. An error that is not of this package is a usage error.
func ExitCode(err error) int {
	if err == nil {
		return report.ExitPass
	}
	var coded interface{ ExitCode() int }
	if errors.As(err, &coded) {
		return coded.ExitCode()
	}
	return report.ExitUsage
}

// exitError carries an exit code. Silent ones have said everything already.
type exitError struct {
	code   int
	err    error
	silent bool
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// ExitCode is the code for the process.
func (e *exitError) ExitCode() int { return e.code }

// Silent reports that the command has shown what there is to show, so that
// nothing is printed for the error.
func (e *exitError) Silent() bool { return e.silent }

// usageError is a wrong argument, with what might have been meant.
type usageError struct {
	err  error
	hint string
}

func (u *usageError) Error() string {
	if u.hint == "" {
		return u.err.Error()
	}
	return u.err.Error() + " (" + u.hint + ")"
}

func (u *usageError) Unwrap() error { return u.err }
func (u *usageError) ExitCode() int { return report.ExitUsage }

// Main runs the command with the given arguments, prints an error, and returns
// the exit code. ctx ends on an interrupt.
func Main(ctx context.Context, args []string, out, errOut io.Writer, mounted Mounted) int {
	root := (&common{setups: knownSetups, binary: mounted.Binary}).command()
	root.AddCommand(mounted.Further...)
	return execute(ctx, root, args, out, errOut)
}

// Mounted is what a binary puts around the command.
type Mounted struct {
	// Further commands stand beside those of the runner.
	Further []*cobra.Command
	// Binary makes the whole command tree of the binary, which skills are checked
	// against. It may be nil.
	Binary func() *cobra.Command
}

func execute(ctx context.Context, cmd *cobra.Command, args []string, out, errOut io.Writer) int {
	cmd.SetArgs(args)
	cmd.SetOut(out)
	cmd.SetErr(errOut)
	err := cmd.ExecuteContext(ctx)
	var quiet interface{ Silent() bool }
	if err != nil && !(errors.As(err, &quiet) && quiet.Silent()) {
		fmt.Fprintln(errOut, "Error: "+err.Error())
	}
	return ExitCode(err)
}

// common are the flags of every command, and the setups there are.
type common struct {
	setups  []setups.Setup
	runsDir string
	output  string
	noColor bool
	binary  func() *cobra.Command // as in Mounted
}

// knownSetups are those that a scenario may name.
var knownSetups = []setups.Setup{fault.Setup{}, container.Setup{}, compose.Setup{}, netns.Setup{}, attach.Setup{}}

// NewCommand makes the command tree. Its errors carry exit codes; see ExitCode.
func NewCommand() *cobra.Command {
	return newCommand(knownSetups...)
}

func newCommand(known ...setups.Setup) *cobra.Command {
	return (&common{setups: known}).command()
}

func (c *common) command() *cobra.Command {
	root := &cobra.Command{
		Use:   "scenario",
		Short: "Run scenarios against a cluster and judge what its clients saw",
		Long: `Run scenarios: start a cluster, do the steps of a YAML file under live load, judge pass criteria over the
recorded history, and leave the evidence in runs/<id>/.

Exit codes: 0 pass, 1 criteria failed, 2 usage or invalid YAML, 3 inconclusive, 4 environment,
5 something was left behind after the cleanup, 6 a step failed, 130 interrupted.`,
		SilenceUsage: true, SilenceErrors: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.PersistentFlags().StringVar(&c.runsDir, "runs-dir", "runs", "directory of the runs")
	root.PersistentFlags().StringVarP(&c.output, "output", "o", "text", "text or json")
	root.PersistentFlags().BoolVar(&c.noColor, "no-color", false, "no colours (also with NO_COLOR set)")
	root.PersistentPreRunE = func(*cobra.Command, []string) error {
		if c.output != "text" && c.output != "json" {
			return &usageError{fmt.Errorf("--output %s is not known", c.output), "text or json"}
		}
		return nil
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return &usageError{err, "see: " + cmd.CommandPath() + " --help"}
	})
	root.AddCommand(c.schemaCommand(), c.skillsCommand(), c.matrixCommand(), c.newScenarioCommand())
	root.AddCommand(c.listCommand(), c.showCommand(), c.planCommand(), c.runCommand(), c.watchCommand(), c.stepCommand(), c.resumeCommand(), c.runsCommand(), c.tableCommand(), c.reportCommand(), c.verifyCommand(),
		c.stopCommand(), c.cleanCommand(), c.lintCommand(), c.doctorCommand())
	c.complete(root)
	return root
}

// exactly is cobra.ExactArgs with an error that says what is wanted.
func exactly(words ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != len(words) {
			return &usageError{fmt.Errorf("%s takes %s, got %d arguments", cmd.CommandPath(), strings.Join(words, " "), len(args)), "see: " + cmd.CommandPath() + " --help"}
		}
		return nil
	}
}

func (c *common) json() bool { return c.output == "json" }

func printJSON(out io.Writer, value any) error {
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(value)
}

// display makes the display for out: on a terminal, lines that are replaced.
func (c *common) display(out io.Writer, progress string, quiet bool) (report.Display, error) {
	terminal := false
	if file, ok := out.(*os.File); ok {
		terminal = term.IsTerminal(int(file.Fd())) && os.Getenv("TERM") != "dumb"
	}
	switch progress {
	case "auto":
	case "tty":
		terminal = true
	case "plain":
		terminal = false
	case "ndjson":
		return report.NDJSON{Out: out}, nil
	default:
		return nil, &usageError{fmt.Errorf("--progress %s is not known", progress), "auto, tty, plain or ndjson"}
	}
	return report.NewTerminal(out, terminal, terminal && c.colors(), quiet), nil
}

// view makes the display of a command that follows one run to its end: on a
// terminal that has colours, or with --progress tty, a screen that is drawn again.
func (c *common) view(out io.Writer, progress string, quiet bool) (report.Display, error) {
	file, ok := out.(*os.File)
	able := ok && term.IsTerminal(int(file.Fd())) && c.colors()
	if !quiet && (progress == "auto" && able || progress == "tty") {
		return report.NewLive(out, c.colors()), nil
	}
	return c.display(out, progress, quiet)
}

// colors reports that nobody asked for none.
func (c *common) colors() bool {
	return !c.noColor && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

// setupOf finds a setup that the scenario allows. An empty name takes its first.
func (c *common) setupOf(s *spec.Scenario, name string) (setups.Setup, error) {
	if name == "" && len(s.Setups) > 0 {
		name = s.Setups[0]
	}
	for _, setup := range c.setups {
		if setup.Name() == name && slices.Contains(s.Setups, name) {
			return setup, nil
		}
	}
	return nil, &usageError{fmt.Errorf("scenario %s does not run on setup %s", s.ID, name), "it runs on: " + strings.Join(s.Setups, ", ")}
}
