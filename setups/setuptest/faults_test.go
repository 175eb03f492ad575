//go:build containers && linux

package setuptest_test

import (
	"testing"

	"github.com/ister-mq/ister/setups"
	"github.com/ister-mq/ister/setups/fault"
	"github.com/ister-mq/ister/setups/setuptest"
)

// Mounting file systems needs root.
func TestProcessWithLimits(t *testing.T) {
	setuptest.Run(t, setuptest.Config{Setup: fault.Setup{}, Options: options(t), Upgrades: true,
		Limits: setups.Limits{DiskBytes: setups.MinDiskBytes, Links: true},
		Faults: []setups.Fault{setups.FaultCutOff, setups.FaultSlow, setups.FaultFillDisk}})
}
