//go:build containers

package setuptest_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/moby/moby/client"
	testcontainers "github.com/testcontainers/testcontainers-go"

	"github.com/ister-mq/ister/setups"
	"github.com/ister-mq/ister/setups/compose"
	"github.com/ister-mq/ister/setups/container"
	"github.com/ister-mq/ister/setups/setuptest"
)

// These need a Docker engine: make containers.

// run gives a run an id that no other has: resources are found by it.
func run(t *testing.T) setups.Options {
	o := options(t)
	o.Dir = filepath.Join(filepath.Dir(o.Dir), strings.ToLower(t.Name())+"-"+fmt.Sprint(setuptest.Unique()))
	return o
}

func engine(t *testing.T) client.APIClient {
	c, err := testcontainers.NewDockerClientWithOpts(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// left lists all that the engine has of a run.
func left(t *testing.T, id string) []string {
	ctx, api := t.Context(), engine(t)
	filter := make(client.Filters).Add("label", "ister.run="+id)
	var out []string
	containers, err := api.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: filter})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range containers.Items {
		out = append(out, "container "+c.Names[0])
	}
	networks, err := api.NetworkList(ctx, client.NetworkListOptions{Filters: filter})
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range networks.Items {
		out = append(out, "network "+n.Name)
	}
	volumes, err := api.VolumeList(ctx, client.VolumeListOptions{Filters: filter})
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range volumes.Items {
		out = append(out, "volume "+v.Name)
	}
	return out
}

func TestContainer(t *testing.T) {
	o := run(t)
	setuptest.Run(t, setuptest.Config{Setup: container.Setup{}, Options: o, Upgrades: true,
		Faults: []setups.Fault{setups.FaultCutOff},
		Left:   func() []string { return left(t, filepath.Base(o.Dir)) }})
}

func TestContainerWithLimits(t *testing.T) {
	o := run(t)
	setuptest.Run(t, setuptest.Config{Setup: container.Setup{}, Options: o, Upgrades: true,
		Limits: setups.Limits{DiskBytes: setups.MinDiskBytes, Links: true},
		Faults: []setups.Fault{setups.FaultCutOff, setups.FaultSlow, setups.FaultFillDisk},
		Left:   func() []string { return left(t, filepath.Base(o.Dir)) }})
}

// The runner was killed: nothing of it is there but what the engine has.
func TestContainersAreCleanedUpAfterACrashOfTheRunner(t *testing.T) {
	o := run(t)
	o.Say = func(string) {}
	id := filepath.Base(o.Dir)
	cluster, err := container.Setup{}.New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cluster.Close(context.Background()) })
	if _, err := cluster.Form(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	if len(left(t, id)) != 4 { // a container, two networks, a volume
		t.Fatalf("the run made %v", left(t, id))
	}
	if rest, err := (container.Setup{}).Clean(t.Context(), o.Dir); err != nil || len(rest) > 0 {
		t.Fatalf("cleaning left %v, %v", rest, err)
	}
	if rest := left(t, id); len(rest) > 0 {
		t.Fatalf("still there: %v", rest)
	}
}

func TestCompose(t *testing.T) {
	o := run(t)
	setuptest.Run(t, setuptest.Config{Setup: compose.Setup{}, Options: o, Upgrades: true,
		Faults: []setups.Fault{setups.FaultCutOff},
		Left:   func() []string { return left(t, filepath.Base(o.Dir)) }})
}
