//go:build containers && linux

package setuptest_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ister-mq/ister/setups"
	"github.com/ister-mq/ister/setups/netns"
	"github.com/ister-mq/ister/setups/setuptest"
)

// spaces lists the network namespaces of a run. Making them needs root.
func spaces(t *testing.T, id string) (found []string) {
	entries, err := os.ReadDir("/run/netns")
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "ister-"+id+"-") {
			found = append(found, e.Name())
		}
	}
	return found
}

func TestNetns(t *testing.T) {
	o := run(t)
	setuptest.Run(t, setuptest.Config{Setup: netns.Setup{}, Options: o, Upgrades: true,
		Faults: []setups.Fault{setups.FaultCutOff},
		Left:   func() []string { return spaces(t, filepath.Base(o.Dir)) }})
}

func TestNetnsWithLimits(t *testing.T) {
	o := run(t)
	setuptest.Run(t, setuptest.Config{Setup: netns.Setup{}, Options: o, Upgrades: true,
		Limits: setups.Limits{DiskBytes: 256 << 20, Links: true},
		Faults: []setups.Fault{setups.FaultCutOff, setups.FaultSlow, setups.FaultFillDisk},
		Left:   func() []string { return spaces(t, filepath.Base(o.Dir)) }})
}

// The runner was killed: its directory tells what to end and remove.
func TestNamespacesAreCleanedUpAfterACrashOfTheRunner(t *testing.T) {
	o := run(t)
	id := filepath.Base(o.Dir)
	cluster, err := netns.Setup{}.New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cluster.Close(t.Context()) })
	brokers, err := cluster.Form(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	if len(spaces(t, id)) != 2 { // the hub and b1
		t.Fatalf("the run made %v", spaces(t, id))
	}
	for range 2 {
		if rest, err := (netns.Setup{}).Clean(t.Context(), o.Dir); err != nil || len(rest) > 0 {
			t.Fatalf("cleaning left %v, %v", rest, err)
		}
	}
	if rest := spaces(t, id); len(rest) > 0 {
		t.Fatalf("still there: %v", rest)
	}
	for _, b := range brokers {
		if data, err := os.ReadFile(filepath.Join(o.Dir, b.LogFile)); err != nil || len(data) == 0 {
			t.Errorf("the log of %s is gone: %v", b.Name, err)
		}
	}
}
