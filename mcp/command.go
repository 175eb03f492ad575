package mcp

import (
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ister-mq/ister/admin/client"
)

// TokenVariable is the environment variable with the bearer token.
const TokenVariable = "ISTER_MCP_TOKEN"

type flags struct {
	http          string
	tokenFile     string
	origins       []string
	readOnly      bool
	noDestructive bool
	allowCommands bool
	toolsets      []string
	endpoint      string
	runsDir       string
	auditLog      string
	listTools     bool
	format        string
}

// NewCommand makes the command. The name of the root command says how runs are
// started: with `scenario`, or else with `ister scenario`.
func NewCommand() *cobra.Command {
	f := &flags{}
	c := &cobra.Command{
		Use: "mcp", Short: "Serve scenarios and the admin API to AI agents (Model Context Protocol)",
		Long: `Serve scenarios and the admin API as tools of the Model Context Protocol: on standard input and output,
or with --http over streamable HTTP. Runs that a tool starts go on when the client or this process ends.

Tools that can disturb or destroy something in a cluster show a plan first and act only with its plan_id.
--read-only leaves only tools that change nothing; --no-destructive leaves out those that can disturb or
destroy. Commands of a client are run by no shell, unless --allow-commands is given: then with a plan_id. HTTP always needs a bearer token: --token-file, or ` + TokenVariable + `.`,
		Example: `  ister mcp                                        # stdio, for an agent on this machine
  ister mcp --read-only --toolsets diagnose,cluster --endpoint 10.0.0.1:50051,10.0.0.2:50051
  ister mcp --http 127.0.0.1:8765 --token-file token`,
		Args: cobra.NoArgs, SilenceUsage: true,
		RunE: func(c *cobra.Command, _ []string) error { return f.run(c) },
	}
	c.Flags().StringVar(&f.http, "http", "", "serve HTTP on this address instead of stdio; a bare port is of the loopback interface")
	c.Flags().StringVar(&f.tokenFile, "token-file", "", "file with the bearer token for --http (default: "+TokenVariable+")")
	c.Flags().StringSliceVar(&f.origins, "allow-origin", nil, "origin of pages that may call, besides those of this machine; may be repeated")
	c.Flags().BoolVar(&f.readOnly, "read-only", false, "only tools that change nothing")
	c.Flags().BoolVar(&f.noDestructive, "no-destructive", false, "no tools that can disturb or destroy something in a cluster")
	c.Flags().BoolVar(&f.allowCommands, "allow-commands", false, "let a run have a shell of this machine run a client's command, such as params.during of delivery-check; not with the two above")
	c.Flags().StringSliceVar(&f.toolsets, "toolsets", nil, "only these: "+strings.Join(Toolsets, ", ")+", a scenario's name for its step tools, default, or all (default: all but namespaces and step tools, and clients may switch those on)")
	c.Flags().StringVar(&f.endpoint, "endpoint", "", "admin addresses of the cluster, comma-separated (default: "+client.EndpointVariable+", or "+client.DefaultEndpoint+")")
	c.Flags().StringVar(&f.runsDir, "runs-dir", "runs", "directory of the runs of scenarios")
	c.Flags().StringVar(&f.auditLog, "audit-log", "", "file that gets one line of JSON for each call; - is standard error")
	c.Flags().BoolVar(&f.listTools, "list-tools", false, "print the tools with their schemas, and end")
	c.Flags().StringVar(&f.format, "format", "json", "of --list-tools: json, or markdown for a page to read")
	return c
}

func (f *flags) run(c *cobra.Command) error {
	if f.format != "json" && f.format != "markdown" {
		return fmt.Errorf("--format %s is not known: json or markdown", f.format)
	}
	config, closeAudit, err := f.config(c)
	if err != nil {
		return err
	}
	defer closeAudit()
	s, err := New(config)
	if err != nil {
		return err
	}
	defer s.Close()
	switch {
	case f.listTools && f.format == "markdown":
		_, err = fmt.Fprint(c.OutOrStdout(), s.reference())
		return err
	case f.listTools:
		definitions, err := s.Tools()
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(c.OutOrStdout(), string(definitions))
		return err
	case f.http == "":
		return s.ServeStdio(c.Context(), c.InOrStdin(), c.OutOrStdout(), c.ErrOrStderr())
	}
	options := HTTPOptions{Token: os.Getenv(TokenVariable), Origins: f.origins}
	if f.tokenFile != "" {
		raw, err := readBounded(f.tokenFile, 4<<10)
		if err != nil {
			return fmt.Errorf("read the token: %w", err)
		}
		options.Token = strings.TrimSpace(string(raw))
	}
	if err := options.check(); err != nil {
		return err
	}
	address := f.http
	if !strings.Contains(address, ":") {
		address = "127.0.0.1:" + address
	}
	if strings.HasPrefix(address, ":") {
		return fmt.Errorf("--http %s: name the interface, such as 127.0.0.1%s", f.http, address)
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	if host, _, _ := net.SplitHostPort(listener.Addr().String()); !isLoopback(host) {
		config.Warn("this listens beyond the loopback interface without encryption: put a TLS proxy in front of it")
	}
	fmt.Fprintf(c.ErrOrStderr(), "mcp serves http://%s%s\n", listener.Addr(), Path)
	return s.serveHTTP(c.Context(), listener, options)
}

// config turns flags into a Config, and opens the audit log.
func (f *flags) config(c *cobra.Command) (Config, func(), error) {
	nothing := func() {}
	self, err := os.Executable()
	if err != nil {
		return Config{}, nothing, fmt.Errorf("find this executable: %w", err)
	}
	runner := []string{self, "scenario"}
	if c.Root().Name() == "scenario" {
		runner = []string{self}
	}
	warn := func(text string) { fmt.Fprintln(c.ErrOrStderr(), "mcp: "+text) }
	config := Config{
		Filter: Filter{f.toolsets, f.readOnly, f.noDestructive, f.allowCommands}, Endpoints: client.EndpointsFromEnvironment(), RunsDir: f.runsDir, Runner: runner, Warn: warn, Version: version(c),
	}
	if f.endpoint != "" {
		config.Endpoints = strings.Split(f.endpoint, ",")
	}
	switch f.auditLog {
	case "":
	case "-":
		config.Audit = c.ErrOrStderr()
	default:
		file, err := os.OpenFile(f.auditLog, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return Config{}, nothing, fmt.Errorf("open the audit log: %w", err)
		}
		config.Audit = file
		return config, func() { _ = file.Close() }, nil
	}
	return config, nothing, nil
}

// version is that of the binary, where its root command has one.
func version(c *cobra.Command) string {
	if v := c.Root().Version; v != "" {
		return v
	}
	return "devel"
}
