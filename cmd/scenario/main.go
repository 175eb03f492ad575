// Command scenario runs scenarios; it is the same as `ister scenario`.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/ister-mq/ister/mcp"
	"github.com/ister-mq/ister/scenarios"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := scenarios.Main(ctx, os.Args[1:], os.Stdout, os.Stderr, scenarios.Mounted{Further: []*cobra.Command{mcp.NewCommand()}, Binary: newCommand})
	stop()
	os.Exit(code)
}

func newCommand() *cobra.Command {
	root := scenarios.NewCommand()
	root.AddCommand(mcp.NewCommand())
	return root
}
