// Command ister is the whole product in one static binary: the broker, its admin
// CLI, the scenario runner, and the MCP server for agents.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/ister-mq/ister/admin/cli"
	"github.com/ister-mq/ister/broker"
	"github.com/ister-mq/ister/mcp"
	"github.com/ister-mq/ister/scenarios"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "broker" {
		relaxTimers() // before a signal can be taken and then be lost
	}
	os.Exit(run(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
}

// run gives the exit status. The scenario runner has a tree, errors and exit
// statuses of its own.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	if len(args) > 0 && args[0] == "scenario" {
		return scenarios.Main(ctx, args[1:], stdout, stderr, scenarios.Mounted{Name: "ister scenario", Further: []*cobra.Command{mcp.NewCommand()}, Binary: newCommand})
	}
	root := newCommand()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	command, err := root.ExecuteContextC(ctx)
	switch {
	case err == nil:
		return 0
	case within(command, "admin"):
		return cli.PrintError(stderr, command, args, err)
	case errors.Is(err, errUnhealthy): // what is wrong was printed
		return broker.ExitFault
	}
	// A broker ends with its own exit status; what is left is wrong usage.
	fmt.Fprintf(stderr, "Error: %v\nWhat to do: see %s --help\n", err, command.CommandPath())
	return broker.ExitUsage
}

// within reports whether command is the named child of the root, or below it.
func within(command *cobra.Command, name string) bool {
	for ; command != nil; command = command.Parent() {
		if command.Name() == name && command.HasParent() && !command.Parent().HasParent() {
			return true
		}
	}
	return false
}

func newCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "ister",
		Short: "A log broker that scales while it is live, and proves that nothing was lost",
		Long: `Ister is a replicated log broker that speaks the Kafka protocol.

Start a cluster of one with "ister broker", look at it with "ister admin cluster
status", and see it scale under load with "ister scenario run broker-scaling".`,
		SilenceErrors: true, SilenceUsage: true, Version: versionText(),
	}
	root.SetVersionTemplate(versionLine())
	root.AddCommand(newBrokerCommand(), newHealthCommand(), cli.NewCommand(), scenarios.NewCommand(), mcp.NewCommand(), newVersionCommand())
	return root
}
