package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/ister-mq/ister/broker"
)

const configFileVariable = "ISTER_CONFIG_FILE"

func newBrokerCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "broker",
		Short: "Run a broker",
		Long: `Run one node of a cluster until it is told to stop (SIGINT or SIGTERM).

Without --seed-nodes and --join the node is a cluster of one. Every setting can be
given as a flag, as an environment variable (--data-dir is ISTER_DATA_DIR) or in
the --config-file (data_dir: ...); the flag is the strongest, the file the weakest.

Exit status: 0 stopped in order, 1 fault, 2 wrong usage, 10 removed from the
cluster, 11 the data directory belongs to another node or cluster, 12 the data
directory is in use, 13 a port is in use.`,
		Example: `  ister broker
  ister broker --data-dir /var/lib/ister --seed-nodes a:7650,b:7650,c:7650
  ister broker --data-dir d4 --broker-addr :6653 --admin-addr :50054 --raft-addr :7653 --join`,
		Args: cobra.NoArgs,
	}
	file := c.Flags().String("config-file", os.Getenv(configFileVariable), "YAML file with settings (environment "+configFileVariable+")")
	for _, s := range broker.Settings() {
		if s.Type == "true or false" {
			c.Flags().Bool(s.Name, s.Default == "true", s.Help)
		} else {
			c.Flags().String(s.Name, s.Default, s.Help)
		}
	}
	c.RunE = func(c *cobra.Command, _ []string) error {
		err := runBroker(c, *file)
		if err == nil {
			return nil
		}
		fmt.Fprintf(c.ErrOrStderr(), "ister broker: %v\n", err)
		os.Exit(broker.ExitStatus(err))
		return nil
	}
	return c
}

func runBroker(c *cobra.Command, file string) error {
	config, err := broker.Load(broker.Sources{
		File: file,
		Env:  os.LookupEnv,
		Flag: func(name string) (string, bool) {
			f := c.Flags().Lookup(name)
			if f == nil || !f.Changed {
				return "", false
			}
			return f.Value.String(), true
		},
	})
	if errors.Is(err, os.ErrNotExist) {
		return &broker.UsageError{Text: fmt.Sprintf("%v; give an existing file with --config-file", err)}
	}
	if err != nil {
		return err
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	return broker.Run(c.Context(), config, broker.Options{Version: versionText(), Logger: newLogger(c.ErrOrStderr(), config)})
}

// gcPercent trades memory for collections: a broker's live heap is small and its
// garbage is buffers.
const gcPercent = 400

func newLogger(w io.Writer, config broker.Config) *slog.Logger {
	var level slog.Level
	_ = level.UnmarshalText([]byte(config.LogLevel)) // judged by Load
	options := &slog.HandlerOptions{Level: level}
	if config.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}
