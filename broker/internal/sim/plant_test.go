//go:build plant_ack_early || plant_hw_below_min_isr || plant_remove_early || plant_stale_epoch_ack

package sim

import "testing"

// plantSeeds is within how many seeds a planted bug must be caught.
const plantSeeds = 100

// TestPlantedBugIsCaught demands that the simulator fails, and by a broken
// promise rather than for want of progress. It is built once for
// each tag by `make plants`.
func TestPlantedBugIsCaught(t *testing.T) {
	ran := 0
	for r := range RunMany(1, plantSeeds, Config{}) {
		ran++
		if r.Violation != nil && r.Violation.Invariant != "live" {
			t.Logf("caught by seed %d, %d seeds: %v", r.Seed, ran, r.Violation)
			return
		}
	}
	t.Fatalf("%d seeds did not catch the planted bug", ran)
}
