// Package container runs a cluster as containers of a Docker engine: an image
// made from the static ister binary and nothing else, built by the runner itself
// without a registry; a client network, whose ports are published on this
// machine and over which containers cannot talk to each other; and a cluster
// network for everything between brokers. Taking the cluster network from a
// broker is a true partition while clients still get in.
//
// Brokers have the name bN.cluster on the cluster network and no name on the
// client network.
//
// File map:
//
//	container.go  the setup
//	cluster.go    the cluster and the life of its brokers
//	create.go     networks, volumes and containers
//	faults.go     cut off, slow, full disk
package container

import (
	"context"

	"github.com/ister-mq/ister/setups"
	"github.com/ister-mq/ister/setups/internal/docker"
)

// Setup implements setups.Setup.
type Setup struct{}

// Name implements setups.Setup.
func (Setup) Name() string { return "container" }

// Check implements setups.Setup.
func (Setup) Check(ctx context.Context) []setups.Finding { return docker.Check(ctx) }

// New implements setups.Setup. The id of the run is the last element of its
// directory.
func (s Setup) New(ctx context.Context, options setups.Options) (setups.Cluster, error) {
	if options.Say == nil {
		options.Say = func(string) {}
	}
	engine, run, err := docker.Begin(ctx, options.Dir)
	if err != nil {
		return nil, err
	}
	binaries := docker.Binaries("container", options, engine.Arch)
	path, digest, err := binaries.Find(ctx, options.Binary)
	if err != nil {
		engine.Close()
		return nil, err
	}
	return &cluster{Fleet: docker.Fleet{Run: run, Binaries: binaries, Path: path, Digest: digest}, engine: engine}, nil
}

// Clean implements setups.Cleaner.
func (Setup) Clean(ctx context.Context, dir string) (leftovers []string, err error) {
	return docker.CleanRun(ctx, dir)
}
