//go:build containers

package setuptest_test

import (
	"context"
	"fmt"
	"os"
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

// left lists all that the engine has of the run in a directory. One whose mark is
// gone is found by its id, which no other run of a test has.
func left(t *testing.T, dir string) []string {
	ctx, api := t.Context(), engine(t)
	filter := make(client.Filters).Add("label", "ister.run="+filepath.Base(dir))
	if owner, err := setups.Owner(dir); err == nil && owner != "" {
		filter.Add("label", "ister.owner="+owner)
	}
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
		Left:   func() []string { return left(t, o.Dir) }})
}

func TestContainerWithLimits(t *testing.T) {
	o := run(t)
	setuptest.Run(t, setuptest.Config{Setup: container.Setup{}, Options: o, Upgrades: true,
		Limits: setups.Limits{DiskBytes: setups.MinDiskBytes, Links: true},
		Faults: []setups.Fault{setups.FaultCutOff, setups.FaultSlow, setups.FaultFillDisk},
		Left:   func() []string { return left(t, o.Dir) }})
}

func TestContainersOfACrashedRunAreCleanedUp(t *testing.T) {
	cleansOnlyItsOwn(t, container.Setup{}, 1, 4, func(dir string) []string { return left(t, dir) }) // a container, two networks, a volume
}

func TestComposeOfACrashedRunIsCleanedUp(t *testing.T) {
	cleansOnlyItsOwn(t, compose.Setup{}, 3, 11, func(dir string) []string { return left(t, dir) }) // 3 containers, 2 networks, a volume for each of 6 brokers
}

// cleansOnlyItsOwn forms clusters of n brokers, which are so many things as left
// lists them, in two runs of the same id in two runs directories. The runner of one
// was killed, and cleaning it leaves the other one alone.
func cleansOnlyItsOwn(t *testing.T, setup setups.Setup, n, things int, left func(dir string) []string) {
	crashed := run(t)
	other := crashed
	other.Dir = filepath.Join(t.TempDir(), filepath.Base(crashed.Dir))
	var cluster setups.Cluster
	var brokers []setups.Broker
	for _, o := range []setups.Options{crashed, other} {
		var err error
		if cluster, err = setup.New(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { cluster.Close(context.Background()) })
		if brokers, err = cluster.Form(t.Context(), n); err != nil {
			t.Fatal(err)
		}
		if made := left(o.Dir); len(made) != things {
			t.Fatalf("the run made %v, want %d of them", made, things)
		}
	}
	for range 2 {
		if rest, err := setup.(setups.Cleaner).Clean(t.Context(), crashed.Dir); err != nil || len(rest) > 0 {
			t.Fatalf("cleaning left %v, %v", rest, err)
		}
	}
	if rest := left(crashed.Dir); len(rest) > 0 {
		t.Errorf("still there: %v", rest)
	}
	if rest := left(other.Dir); len(rest) != things {
		t.Errorf("of the other run there is only %v", rest)
	}
	for _, b := range brokers {
		if !setuptest.Answers(t.Context(), b.Admin) {
			t.Errorf("%s of the other run does not answer any more", b.Name)
		}
	}
	if rest := cluster.Close(t.Context()); len(rest) > 0 || len(left(other.Dir)) > 0 {
		t.Errorf("closing the other run left %v, %v", rest, left(other.Dir))
	}
	for _, b := range brokers {
		if data, err := os.ReadFile(filepath.Join(crashed.Dir, b.LogFile)); err != nil || len(data) == 0 {
			t.Errorf("the log of %s is gone: %v", b.Name, err)
		}
	}
}

func TestCompose(t *testing.T) {
	o := run(t)
	setuptest.Run(t, setuptest.Config{Setup: compose.Setup{}, Options: o, Upgrades: true,
		Faults: []setups.Fault{setups.FaultCutOff},
		Left:   func() []string { return left(t, o.Dir) }})
}
