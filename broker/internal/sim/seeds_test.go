//go:build !plant_ack_early && !plant_hw_below_min_isr && !plant_remove_early && !plant_stale_epoch_ack

package sim

import "testing"

// boundedSeeds is what a plain `go test` simulates; `make sim` does more.
const boundedSeeds = 40

// TestSeeds simulates seeds, each from start to a quiet end.
func TestSeeds(t *testing.T) {
	var total Counts
	failed := 0
	for r := range RunMany(1, boundedSeeds, Config{}) {
		total.Add(r.Counts)
		if r.Violation == nil {
			continue
		}
		if failed++; failed > 1 {
			t.Errorf("seed %d: %v", r.Seed, r.Violation)
		} else {
			t.Errorf("%s", r.Report())
		}
	}
	t.Log(total)
	// Seeds in which nothing happens prove nothing.
	for name, count := range map[string]int{
		"acknowledgements": total.Acked, "elections": total.Elections, "crashes": total.Crashes, "switches": total.Moves,
		"truncations": total.Truncations, "duplicates": total.Duplicates, "records consumed": total.Consumed, "terms": total.Terms,
	} {
		if count < boundedSeeds {
			t.Errorf("%d seeds had only %d %s", boundedSeeds, count, name)
		}
	}
}
