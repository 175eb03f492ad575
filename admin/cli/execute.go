package cli

import (
	"context"
	"fmt"
	"io"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Execute runs root, which is NewCommand's or a tree that holds it, with args,
// prints an error that comes out of it, and returns the exit status. An interrupt
// ends waits and calls in order.
func Execute(ctx context.Context, root *cobra.Command, args []string, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	command, err := root.ExecuteContextC(ctx)
	if err == nil {
		return ExitOK
	}
	return PrintError(stderr, command, args, err)
}

// PrintError prints an error that command returned and gives the exit status. It
// is for callers that run a command tree by themselves.
func PrintError(stderr io.Writer, command *cobra.Command, args []string, err error) int {
	return printError(stderr, err, errorFormat(command, args))
}

// errorFormat finds the wanted format also where the flags did not parse.
func errorFormat(command *cobra.Command, args []string) string {
	if command != nil {
		if f := command.Flag("output"); f != nil && f.Changed {
			return f.Value.String()
		}
	}
	for i, a := range args {
		if value, ok := strings.CutPrefix(a, "--output="); ok {
			return value
		}
		if value, ok := strings.CutPrefix(a, "-o"); ok && value != "" && !strings.HasPrefix(a, "--") {
			return strings.TrimPrefix(value, "=")
		}
		if (a == "--output" || a == "-o") && i+1 < len(args) {
			return args[i+1]
		}
	}
	return formatTable
}

// flagError names the nearest flag for an unknown one.
func flagError(command *cobra.Command, err error) error {
	out := &usageError{message: plainFlagError(err.Error()), command: command.CommandPath()}
	got, ok := strings.CutPrefix(err.Error(), "unknown flag: ")
	if !ok {
		return out
	}
	out.message = fmt.Sprintf("unknown flag %s of %q", got, command.CommandPath())
	var names []string
	command.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, "--"+f.Name)
		}
	})
	if near := nearest(got, names); near != "" {
		out.advice = "did you mean " + near + "?"
	} else {
		slices.Sort(names)
		out.advice = "expected one of " + strings.Join(names, ", ")
	}
	return out
}

// plainFlagError says what was expected where a library only says what failed.
func plainFlagError(message string) string {
	what, cause, ok := strings.Cut(message, " flag: ")
	switch {
	case !ok:
		return message
	case strings.HasPrefix(cause, "strconv.ParseInt:"):
		return what + " flag: expected a whole number up to 2147483647"
	case strings.HasPrefix(cause, "strconv.ParseUint:"):
		return what + " flag: expected a whole number of 0 or more"
	case strings.HasPrefix(cause, "strconv.ParseBool:"):
		return what + " flag: expected true or false"
	case strings.HasPrefix(cause, "time:"):
		return what + " flag: expected a time such as 30s, 5m or 1h"
	}
	return message
}

// group is the behaviour of a command that only holds others: help without
// arguments, and the nearest command for an unknown one.
func group(command *cobra.Command, args []string) error {
	if len(args) == 0 {
		return command.Help()
	}
	var names []string
	for _, c := range command.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	out := &usageError{message: fmt.Sprintf("unknown command %q of %q", args[0], command.CommandPath()), command: command.CommandPath()}
	if near := nearest(args[0], names); near != "" {
		out.advice = fmt.Sprintf("did you mean %q?", command.CommandPath()+" "+near)
	} else {
		out.advice = "expected one of " + strings.Join(names, ", ")
	}
	return out
}

// noArguments refuses arguments, naming the flag that may have been meant.
func noArguments(command *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	out := &usageError{message: fmt.Sprintf("unexpected argument %q: %q takes none", args[0], command.CommandPath()), command: command.CommandPath()}
	for _, name := range []string{"node-id", "broker-id", "node-addr"} {
		if command.Flags().Lookup(name) != nil {
			out.advice = fmt.Sprintf("did you mean --%s %s?", name, args[0])
		}
	}
	return out
}

// oneArgument wants exactly one argument.
func oneArgument(name, example string) cobra.PositionalArgs {
	return func(command *cobra.Command, args []string) error {
		switch {
		case len(args) == 0:
			return &usageError{message: fmt.Sprintf("missing argument %s", name), advice: fmt.Sprintf("give it, such as: %s %s", command.CommandPath(), example), command: command.CommandPath()}
		case len(args) > 1:
			return &usageError{message: fmt.Sprintf("unexpected argument %q: %q takes one %s", args[1], command.CommandPath(), name), command: command.CommandPath()}
		}
		return nil
	}
}

// nearest is the candidate that is close enough to what was typed, or "".
func nearest(got string, candidates []string) string {
	best, bestDistance := "", len(strings.TrimLeft(got, "-"))/2+1
	for _, c := range candidates {
		if d := distance(strings.ToLower(got), c); d < bestDistance {
			best, bestDistance = c, d
		}
	}
	return best
}

// distance is the number of single-character edits between two words.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j+1]+1, row[j]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}
