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

// spaces lists the network namespaces of the run in a directory. Making them needs
// root.
func spaces(t *testing.T, dir string) (found []string) {
	owner, err := setups.Owner(dir)
	if err != nil || owner == "" {
		t.Fatalf("owner's mark %q, %v", owner, err)
	}
	entries, err := os.ReadDir("/run/netns")
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "ister-"+filepath.Base(dir)+"-"+owner+"-") {
			found = append(found, e.Name())
		}
	}
	return found
}

func TestNetns(t *testing.T) {
	o := run(t)
	setuptest.Run(t, setuptest.Config{Setup: netns.Setup{}, Options: o, Upgrades: true,
		Faults: []setups.Fault{setups.FaultCutOff},
		Left:   func() []string { return spaces(t, o.Dir) }})
}

func TestNetnsWithLimits(t *testing.T) {
	o := run(t)
	setuptest.Run(t, setuptest.Config{Setup: netns.Setup{}, Options: o, Upgrades: true,
		Limits: setups.Limits{DiskBytes: setups.MinDiskBytes, Links: true},
		Faults: []setups.Fault{setups.FaultCutOff, setups.FaultSlow, setups.FaultFillDisk},
		Left:   func() []string { return spaces(t, o.Dir) }})
}

func TestNamespacesOfACrashedRunAreCleanedUp(t *testing.T) {
	cleansOnlyItsOwn(t, netns.Setup{}, 1, 2, func(dir string) []string { return spaces(t, dir) }) // the hub and b1
}

func TestInterruptedNamespaces(t *testing.T) {
	cutShort(t, "netns", func(t *testing.T) func(*subject) {
		return func(s *subject) {
			if rest := spaces(t, s.dir); len(rest) > 0 {
				s.Errorf("namespaces: %v", rest)
			}
		}
	})
}
