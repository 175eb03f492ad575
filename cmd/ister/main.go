// Command ister is the whole product in one static binary: the broker, its admin
// CLI, and the scenario runner.
package main

import (
	"context"
	"os"

	"github.com/spf13/cobra"

	"github.com/ister-mq/ister/admin/cli"
)

func main() {
	os.Exit(cli.Execute(context.Background(), newCommand(), os.Args[1:], os.Stdout, os.Stderr))
}

func newCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "ister",
		Short: "A log broker that scales while it is live, and proves that nothing was lost",
		Long: `Ister is a replicated log broker that speaks the Kafka protocol.

  ister broker      run a broker; without flags, a cluster of one in ./ister-data
  ister admin       administer a running cluster
  ister version     print the version`,
		SilenceErrors: true, SilenceUsage: true,
	}
	root.AddCommand(newBrokerCommand(), cli.NewCommand(), newVersionCommand())
	return root
}
