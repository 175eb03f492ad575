package sim

import (
	"testing"
	"time"
)

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
