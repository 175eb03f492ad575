package sim

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"
)

var (
	seeds = flag.Int("seeds", 0, "number of seeds to simulate; 0: the bounded default")
	seed  = flag.Uint64("seed", 0, "simulate this seed alone and print its trace")
	first = flag.Uint64("first", 1, "the first of the seeds")
)

// boundedSeeds is what a plain `go test` runs.
const boundedSeeds = 40

// TestSeeds simulates many seeds, each from start to a quiet end, and prints
// what they did. `make sim SEEDS=200`, `make sim SEED=7`.
func TestSeeds(t *testing.T) {
	if planted {
		t.Skip("a bug is planted; see TestPlantedBugIsCaught")
	}
	if *seed != 0 {
		r := Run(*seed, Config{TraceTo: func(line string) { fmt.Println(line) }})
		if r.Violation != nil {
			t.Fatalf("seed %d: %v", *seed, r.Violation)
		}
		t.Logf("seed %d: hash %016x, %+v", *seed, r.Hash, r.Counts)
		return
	}
	n := boundedSeeds
	if *seeds > 0 {
		n = *seeds
	}
	began := time.Now()
	var total Counts
	failed := 0
	for r := range runAll(*first, n, Config{}) {
		total.add(r.Counts)
		if r.Violation != nil {
			if failed++; failed <= 3 {
				t.Errorf("%s", r.Report())
			} else {
				t.Errorf("seed %d: %v", r.Seed, r.Violation)
			}
		}
	}
	fmt.Fprintf(os.Stderr, "sim: %d seeds in %v, %d failed: %+v\n", n, time.Since(began).Round(time.Millisecond), failed, total)
	if failed == 0 && (total.Acked == 0 || total.Elections == 0 || total.Crashes == 0 || total.Truncations == 0 || total.Duplicates == 0 || total.Terms < 2*n) {
		t.Errorf("the seeds did not exercise enough: %+v", total)
	}
}

// runAll simulates seeds first.. in parallel, and gives results in order.
func runAll(first uint64, n int, cfg Config) func(func(Result) bool) {
	return func(yield func(Result) bool) {
		results := make([]chan Result, n)
		for i := range results {
			results[i] = make(chan Result, 1)
		}
		next := make(chan int)
		var workers sync.WaitGroup
		stop := make(chan struct{})
		for range runtime.GOMAXPROCS(0) {
			workers.Go(func() {
				for i := range next {
					results[i] <- Run(first+uint64(i), cfg)
				}
			})
		}
		workers.Go(func() {
			defer close(next)
			for i := range n {
				select {
				case next <- i:
				case <-stop:
					return
				}
			}
		})
		for i := range n {
			if !yield(<-results[i]) {
				break
			}
		}
		close(stop)
		workers.Wait()
	}
}

func (c *Counts) add(d Counts) {
	c.Events += d.Events
	c.Revisions += d.Revisions
	c.Elections += d.Elections
	c.Crashes += d.Crashes
	c.Moves += d.Moves
	c.Acked += d.Acked
	c.Duplicates += d.Duplicates
	c.Truncations += d.Truncations
	c.Consumed += d.Consumed
	c.Terms += d.Terms
	c.Virtual += d.Virtual
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
