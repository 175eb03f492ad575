package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/user"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ister-mq/ister/admin/client"
)

// The default of --timeout, without and with --wait.
const (
	defaultTimeout     = 30 * time.Second
	defaultWaitTimeout = time.Hour
)

// app holds the global flags.
type app struct {
	endpoint string
	output   string
	timeout  time.Duration
}

// call is one run of a command.
type call struct {
	*client.Client
	context context.Context
	command *cobra.Command
	args    []string
	output  string
	stdout  io.Writer
	stderr  io.Writer
	started time.Time
}

// NewCommand is the command tree `admin`. Its errors are to be printed by
// Execute or PrintError.
func NewCommand() *cobra.Command {
	a := &app{output: formatTable}
	root := &cobra.Command{
		Use:   "admin",
		Short: "Administer a running cluster",
		Long: `Administer a running cluster over its admin API.

Any node of the cluster can be asked: what needs the controller is sent on to it.
--endpoint takes several admin addresses, of which one has to work.

` + exitHelp,
		Example: `  ister admin cluster status
  ister admin brokers unload --broker-id 4 --wait
  ister admin brokers balance --output json | jq .coefficient_of_variation
  ister admin --endpoint 127.0.0.1:50052,127.0.0.1:50053 topics list`,
		Args: cobra.ArbitraryArgs, RunE: group,
		SilenceErrors: true, SilenceUsage: true,
	}
	root.SetFlagErrorFunc(flagError)
	flags := root.PersistentFlags()
	flags.StringVar(&a.endpoint, "endpoint", "", "admin addresses, comma-separated (default $"+client.EndpointVariable+" or "+client.DefaultEndpoint+")")
	flags.VarP(choiceValue{&a.output, []string{formatTable, formatJSON, formatYAML}}, "output", "o", "how results are printed")
	flags.DurationVar(&a.timeout, "timeout", 0, "how long to go on at most, such as 90s (default 30s; 1h with --wait)")
	_ = root.RegisterFlagCompletionFunc("output", words(formatTable, formatJSON, formatYAML))
	root.AddCommand(a.clusterCommand(), a.brokersCommand(), a.topicsCommand(), a.namespacesCommand())
	return root
}

// run makes a command's RunE out of what it does with a client.
func (a *app) run(do func(*call) error) func(*cobra.Command, []string) error {
	return func(command *cobra.Command, args []string) error {
		timeout := a.timeout
		if command.Flags().Changed("timeout") && timeout <= 0 {
			return &usageError{message: fmt.Sprintf("--timeout: got %s, expected more than 0", timeout), advice: "give a time such as 30s, 5m or 1h", command: command.CommandPath()}
		}
		if timeout == 0 {
			timeout = defaultTimeout
			if waits, err := command.Flags().GetBool("wait"); err == nil && waits {
				timeout = defaultWaitTimeout
			}
		}
		admin, err := a.connect(timeout)
		if err != nil {
			return &usageError{message: err.Error(), advice: "give it with --endpoint or " + client.EndpointVariable, command: command.CommandPath()}
		}
		defer admin.Close()
		ctx, cancel := context.WithTimeout(command.Context(), timeout)
		defer cancel()
		return do(&call{
			Client: admin, context: ctx, command: command, args: args, output: a.output,
			stdout: command.OutOrStdout(), stderr: command.ErrOrStderr(), started: time.Now(),
		})
	}
}

// endpoints are the admin addresses given, or the default.
func (a *app) endpoints() []string {
	given := client.EndpointsFromEnvironment()
	if a.endpoint != "" {
		given = strings.Split(a.endpoint, ",")
	}
	var out []string
	for _, text := range given {
		if text = strings.TrimSpace(text); text != "" {
			out = append(out, text)
		}
	}
	return out
}

func (a *app) connect(timeout time.Duration) (*client.Client, error) {
	return client.New(client.Options{Endpoints: a.endpoints(), Actor: actor(), RetryFor: min(10*time.Second, timeout)})
}

// actor names who runs the command, for the record.
func actor() string {
	if u, err := user.Current(); err == nil && u.Username != "" {
		return "cli:" + u.Username
	}
	if name := os.Getenv("USER"); name != "" {
		return "cli:" + name
	}
	return "cli"
}

// newGroup is a command that only holds others.
func newGroup(use, short, long string, commands ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{Use: use, Short: short, Long: long, Args: cobra.ArbitraryArgs, RunE: group}
	c.AddCommand(commands...)
	return c
}

func dryRunFlag(c *cobra.Command, value *bool) {
	c.Flags().BoolVar(value, "dry-run", false, "show what would be done, and change nothing")
}

// fenceFlag lets a person carry out exactly the plan that a dry run showed.
func fenceFlag(c *cobra.Command, value *uint64) {
	c.Flags().Uint64Var(value, "placement-revision", 0, "refuse unless the cluster is still at this placement revision")
}

func waitFlag(c *cobra.Command, value *bool) {
	c.Flags().BoolVar(value, "wait", false, "wait until it has ended, with progress; --timeout bounds the wait")
}
