// Command scenario runs scenarios; it is the same as `ister scenario`.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/ister-mq/ister/mcp"
	"github.com/ister-mq/ister/scenarios"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := scenarios.Main(ctx, os.Args[1:], os.Stdout, os.Stderr, mcp.NewCommand(scenarios.Files()))
	stop()
	os.Exit(code)
}
