// Package broker runs one Ister node inside a program. `ister broker` is a thin
// wrapper around it.
//
//	config, err := broker.Load(broker.Sources{})
//	...
//	err = broker.Run(ctx, config, broker.Options{Logger: slog.Default()})
//
// Everything else is under broker/internal; ARCHITECTURE.md says how it fits.
package broker

import (
	"context"
	"errors"

	"github.com/ister-mq/ister/broker/internal/controlplane"
	"github.com/ister-mq/ister/broker/internal/node"
)

// Config is what a node is told from outside. Get one from Load, which fills the
// defaults; then change fields at will.
type Config = node.Config

// Options are what an embedding program may give beside the Config.
type Options = node.Options

// Sources are where Load takes settings from.
type Sources = node.Sources

// Setting is one row of the table of settings.
type Setting = node.Setting

// UsageError is wrong input by whoever started the node.
type UsageError = node.UsageError

// Endpoints are the addresses that a node gives to others.
type Endpoints struct{ Kafka, Admin, Raft, Metrics string }

// Settings is the table of settings, in the order that help prints it.
func Settings() []Setting { return node.Settings }

// Load gathers the settings: flags, environment, config file, defaults.
func Load(sources Sources) (Config, error) { return node.Load(sources) }

// The exit statuses of a broker process, stable for scripts.
const (
	ExitClean         = 0
	ExitFault         = 1
	ExitUsage         = 2
	ExitRemoved       = controlplane.ExitRemoved       // 10: the node was removed from its cluster
	ExitWrongIdentity = controlplane.ExitWrongIdentity // 11: the data directory belongs elsewhere
	ExitDataDirInUse  = controlplane.ExitDataDirInUse  // 12: another process has the data directory
	ExitAddressInUse  = controlplane.ExitAddressInUse  // 13: a port is taken
)

// ExitStatus is the exit status that an error of Load, New or Run asks for.
func ExitStatus(err error) int {
	var usage *UsageError
	var known *controlplane.Error
	switch {
	case err == nil:
		return ExitClean
	case errors.As(err, &usage):
		return ExitUsage
	case errors.As(err, &known) && known.ExitStatus != 0:
		return known.ExitStatus
	}
	return ExitFault
}

// Broker is one running node.
type Broker struct{ node *node.Node }

// New starts a node. All its ports are bound when it returns; it serves when
// Ready says so.
func New(config Config, options Options) (*Broker, error) {
	n, err := node.Start(config, options)
	if err != nil {
		return nil, err
	}
	return &Broker{node: n}, nil
}

// Endpoints are the addresses that the node gives to others.
func (b *Broker) Endpoints() Endpoints {
	e := b.node.Endpoints()
	return Endpoints{Kafka: e.Kafka, Admin: e.Admin, Raft: e.Raft, Metrics: e.Metrics}
}

// Ready reports whether the node serves, and what it waits for when not.
func (b *Broker) Ready() (bool, []string) { return b.node.Ready() }

// Wait blocks until ctx ends, which gives nil, or the node cannot go on.
func (b *Broker) Wait(ctx context.Context) error { return b.node.Wait(ctx) }

// Stop ends the node in order, leaderships handed over and logs synced. Bounded
// by about ten seconds.
func (b *Broker) Stop() error { return b.node.Stop() }

// Run starts a node, runs it until ctx ends or it cannot go on, and stops it.
func Run(ctx context.Context, config Config, options Options) error {
	b, err := New(config, options)
	if err != nil {
		return err
	}
	ended := b.Wait(ctx)
	return errors.Join(ended, b.Stop())
}
