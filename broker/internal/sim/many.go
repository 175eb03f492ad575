package sim

import (
	"fmt"
	"iter"
	"runtime"
	"sync"
)

// RunMany simulates n seeds from first on, several at a time, and gives the
// results in order of seed.
func RunMany(first uint64, n int, cfg Config) iter.Seq[Result] {
	return func(yield func(Result) bool) {
		results := make([]chan Result, n)
		for i := range results {
			results[i] = make(chan Result, 1)
		}
		next, stop := make(chan int), make(chan struct{})
		var workers sync.WaitGroup
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

// Add sums counts.
func (c *Counts) Add(d Counts) {
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

// String is one line.
func (c Counts) String() string {
	return fmt.Sprintf("%v virtual, %d events, %d revisions, %d terms, %d elections, %d crashes, %d switches, %d batches acknowledged, %d duplicates answered, %d records consumed, %d truncations",
		c.Virtual, c.Events, c.Revisions, c.Terms, c.Elections, c.Crashes, c.Moves, c.Acked, c.Duplicates, c.Consumed, c.Truncations)
}
