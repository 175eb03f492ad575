// Package scenariotest is the scenario command on a cluster inside the process,
// for tests of what drives it: runs take seconds and need no broker.
package scenariotest

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/ister-mq/ister/scenarios"
	"github.com/ister-mq/ister/scenarios/internal/fakecluster"
)

// Main is scenarios.Main on the fake cluster, which takes the place of the setup
// process.
func Main(ctx context.Context, args []string, out, errOut io.Writer) int {
	root := scenarios.NewCommandOn(fakecluster.Setup{})
	root.SetArgs(args)
	root.SetOut(out)
	root.SetErr(errOut)
	err := root.ExecuteContext(ctx)
	var quiet interface{ Silent() bool }
	if err != nil && !(errors.As(err, &quiet) && quiet.Silent()) {
		fmt.Fprintln(errOut, "Error: "+err.Error())
	}
	return scenarios.ExitCode(err)
}
