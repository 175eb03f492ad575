package scenarios

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/ister-mq/ister/scenarios/internal/report"
	"github.com/ister-mq/ister/scenarios/internal/run"
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
	if mounted.Name != "" {
		root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: mounted.Name}
	}
	return execute(ctx, root, args, out, errOut)
}

// Mounted is what a binary puts around the command.
type Mounted struct {
	// Name is what people type for the command; "" is scenario.
	Name string
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

` + exitCodes,
		SilenceUsage: true, SilenceErrors: true, Args: subcommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.PersistentFlags().StringVar(&c.runsDir, "runs-dir", report.DefaultRunsDir, "directory of the runs")
	root.PersistentFlags().StringVarP(&c.output, "output", "o", "text", "text or json")
	root.PersistentFlags().BoolVar(&c.noColor, "no-color", false, "no colours (also with NO_COLOR set)")
	root.PersistentPreRunE = func(*cobra.Command, []string) error {
		if c.runsDir == "" {
			return &usageError{errors.New("--runs-dir is empty"), "leave it out, and it is runs"}
		}
		return oneOf("output", c.output, "text", "json")
	}
	root.SetFlagErrorFunc(flagError)
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
			wanted := strings.Join(words, " ")
			if wanted == "" {
				wanted = "no arguments"
			}
			return &usageError{fmt.Errorf("%s takes %s, got %s", cmd.CommandPath(), wanted, count(len(args), "argument")), helpOf(cmd)}
		}
		return nil
	}
}

// subcommand is for a command that stands for those below it.
func subcommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, sub := range cmd.Commands() {
		names = append(names, sub.Name())
	}
	hint := spec.Suggest(args[0], names)
	if hint == "" {
		hint = helpOf(cmd)
	}
	return &usageError{fmt.Errorf("unknown command %q for %q", args[0], cmd.CommandPath()), hint}
}

func helpOf(cmd *cobra.Command) string { return "see: " + cmd.CommandPath() + " --help" }

// flagKinds are the types of flags in words.
var flagKinds = map[string]string{"int": "a whole number", "int64": "a whole number of 64 bits", "duration": "a time such as 90s or 5m", "bool": "true or false"}

// flagError tells a mistake in a flag, and what would be none.
func flagError(cmd *cobra.Command, err error) error {
	hint := helpOf(cmd)
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() == "" {
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		if near := spec.Suggest(unknown.GetSpecifiedName(), names); strings.HasPrefix(near, "did you mean") {
			hint = strings.Replace(near, "mean ", "mean --", 1) + " " + hint
		}
	}
	var invalid *pflag.InvalidValueError
	if errors.As(err, &invalid) {
		if kind := flagKinds[invalid.GetFlag().Value.Type()]; kind != "" {
			err = fmt.Errorf("--%s %q is not %s", invalid.GetFlag().Name, invalid.GetValue(), kind)
		}
	}
	return &usageError{err, hint}
}

// oneOf refuses a value of a flag that is none of the known words.
func oneOf(flag, value string, known ...string) error {
	if slices.Contains(known, value) {
		return nil
	}
	hint := spec.Choice(known)
	if near := spec.Suggest(value, known); strings.HasPrefix(near, "did you mean") {
		hint = near
	}
	return &usageError{fmt.Errorf("--%s %s is not known", flag, spec.Named(value)), hint}
}

// above refuses a time that has been given and is none.
func above(cmd *cobra.Command, flag string, value time.Duration) error {
	if cmd.Flags().Changed(flag) && value <= 0 {
		return &usageError{fmt.Errorf("--%s %s is not a time above zero", flag, value), "such as 90s or 5m"}
	}
	return nil
}

// count is "1 run", "2 runs".
func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// find is the directory of a run that was named.
func (c *common) find(name string) (string, error) {
	dir, err := run.Find(c.runsDir, name)
	var disk *fs.PathError
	switch {
	case errors.As(err, &disk):
		return "", environment(err)
	case err != nil:
		return "", &usageError{err: err}
	}
	return dir, nil
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
		return nil, oneOf("progress", progress, "auto", "tty", "plain", "ndjson")
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

const exitCodes = `Exit codes: 0 pass, 1 criteria failed, 2 usage or invalid YAML, 3 inconclusive, 4 environment,
5 something was left behind after the cleanup, 6 a step failed, 130 interrupted.`

// fine is "1 skill is fine" or "2 skills are fine".
func fine(n int, thing string) string {
	if n == 1 {
		return count(n, thing) + " is fine"
	}
	return count(n, thing) + " are fine"
}
