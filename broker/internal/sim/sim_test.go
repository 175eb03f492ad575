package sim

import (
	"testing"
	"time"
)

// boundedSeeds is what a plain `go test` simulates; `make sim` does more.
const boundedSeeds = 40

// TestSeeds simulates seeds, each from start to a quiet end.
func TestSeeds(t *testing.T) {
	if planted {
		t.Skip("a bug is planted; see TestPlantedBugIsCaught")
	}
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

// TestSameSeedSameTrace catches map order, clocks and hidden randomness.
func TestSameSeedSameTrace(t *testing.T) {
	for seed := uint64(1); seed <= 3; seed++ {
		cfg := Config{Faults: 4 * time.Second}
		a, b := Run(seed, cfg), Run(seed, cfg)
		if a.Hash != b.Hash {
			for i := range a.Tail {
				if i < len(b.Tail) && a.Tail[i] != b.Tail[i] {
					t.Errorf("seed %d: first difference in the tails:\n%s\n%s", seed, a.Tail[i], b.Tail[i])
					break
				}
			}
			t.Errorf("seed %d: hash %016x, then %016x", seed, a.Hash, b.Hash)
		}
	}
}
