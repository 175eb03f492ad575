package scenarios

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ister-mq/ister/admin/client"
	"github.com/ister-mq/ister/scenarios/internal/spec"
	"github.com/ister-mq/ister/setups"
	"github.com/ister-mq/ister/setups/attach"
)

// attachFlags name the cluster of the setup attach.
type attachFlags struct {
	admin, bootstrap []string
	command          string
}

func (f *attachFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringSliceVar(&f.admin, "admin", nil, "with --setup attach: admin addresses of every broker, HOST:PORT,...")
	cmd.Flags().StringSliceVar(&f.bootstrap, "bootstrap", nil, "with --setup attach: Kafka addresses, HOST:PORT,..., of a cluster without Ister's admin API")
	cmd.Flags().StringVar(&f.command, "broker-command", "", "with --setup attach: an executable that adds, starts and ends brokers (see the skill attach)")
}

// given is the first of the flags that is set, or "".
func (f *attachFlags) given() string {
	switch {
	case len(f.admin) > 0:
		return "--admin"
	case len(f.bootstrap) > 0:
		return "--bootstrap"
	case f.command != "":
		return "--broker-command"
	}
	return ""
}

// applied is the setup with what the flags tell. They are of attach alone.
func (f *attachFlags) applied(ctx context.Context, setup setups.Setup) (setups.Setup, error) {
	bare, ok := setup.(attach.Setup)
	switch {
	case !ok && f.given() != "":
		return nil, &usageError{fmt.Errorf("%s goes with --setup attach, and the setup is %s", f.given(), setup.Name()), "add --setup attach"}
	case !ok:
		return setup, nil
	}
	var problems []error
	for _, address := range f.admin {
		if _, err := client.ParseEndpoint(address); err != nil {
			problems = append(problems, fmt.Errorf("--admin: %w", err))
		}
	}
	for _, address := range f.bootstrap {
		if host, port, err := net.SplitHostPort(address); err != nil || host == "" || port == "" {
			problems = append(problems, fmt.Errorf("--bootstrap %q: expected HOST:PORT", address))
		}
	}
	for flag, addresses := range map[string][]string{"--admin": f.admin, "--bootstrap": f.bootstrap} {
		seen := map[string]bool{}
		for _, address := range addresses {
			if seen[address] {
				problems = append(problems, fmt.Errorf("%s: %s is given twice", flag, address))
			}
			seen[address] = true
		}
	}
	command, err := commandPath(f.command)
	if err != nil {
		problems = append(problems, fmt.Errorf("--broker-command: %w", err))
	}
	if len(problems) > 0 {
		return nil, &usageError{errors.Join(problems...), ""}
	}
	bare.Admin, bare.Bootstrap, bare.Command = f.admin, f.bootstrap, command
	return bare.Looked(ctx), nil
}

// commandPath is the absolute path of a command that is given as a path or by a
// name on PATH.
func commandPath(given string) (string, error) {
	if given == "" {
		return "", nil
	}
	path := given
	if !strings.ContainsRune(given, filepath.Separator) {
		if found, err := exec.LookPath(given); err == nil {
			path = found
		}
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("find %s: %w", given, err)
	}
	return path, attach.CheckCommand(path)
}

// configured is the setup of a scenario, with what the flags tell.
func (c *common) configured(ctx context.Context, s *spec.Scenario, name string, f *attachFlags) (setups.Setup, error) {
	setup, err := c.setupOf(s, name)
	if err != nil {
		return nil, err
	}
	return f.applied(ctx, setup)
}

// addressed refuses an attach without a cluster.
func addressed(setup setups.Setup) error {
	if a, ok := setup.(attach.Setup); ok && len(a.Admin)+len(a.Bootstrap) == 0 {
		return &usageError{errors.New("--setup attach: no address of a cluster is given"),
			"give --admin HOST:PORT,... of every broker, or --bootstrap HOST:PORT,... of a cluster without Ister's admin API"}
	}
	return nil
}
