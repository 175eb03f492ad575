// Command ister is the whole product in one static binary: the broker, its admin
// CLI, and the scenario runner.
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/ister-mq/ister/admin/cli"
	"github.com/ister-mq/ister/scenarios"
)

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
}

// run gives the exit status. The scenario runner and the other commands have exit
// statuses of their own, so each runs its own tree.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if len(args) > 0 && args[0] == "scenario" {
		ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
		defer stop()
		return scenarios.Main(ctx, args[1:], stdout, stderr)
	}
	return cli.Execute(ctx, newCommand(), args, stdout, stderr)
}

func newCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "ister",
		Short: "A log broker that scales while it is live, and proves that nothing was lost",
		Long: `Ister is a replicated log broker that speaks the Kafka protocol.

Start a cluster of one with "ister broker", look at it with "ister admin cluster
status", and see it scale under load with "ister scenario run broker-scaling".`,
		SilenceErrors: true, SilenceUsage: true,
	}
	root.AddCommand(newBrokerCommand(), cli.NewCommand(), scenarios.NewCommand(), newVersionCommand())
	return root
}
