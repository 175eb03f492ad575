package kafka

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
)

// Calls complete in any order on many goroutines and are taken in order; a drop in
// the middle hands out each of the rest once.
func TestQueueHandsOutEachCallOnceInOrder(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 0))
		const n = 500
		calls := make([]*call, n)
		for i := range calls {
			calls[i] = &call{header: header{correlation: int32(i)}}
		}
		q := newQueue(1 + r.IntN(64))
		dropAt := r.IntN(2 * n) // beyond n: never
		var completing sync.WaitGroup
		var mu sync.Mutex
		finished := map[int32]int{}
		ctx, cancel := context.WithCancel(context.Background())
		pushed := make(chan int, 1)
		go func() {
			count := 0
			for _, k := range calls {
				if q.push(ctx, k) != nil {
					break
				}
				count++
				completing.Go(func() { q.complete(k) })
			}
			q.end()
			pushed <- count
		}()
		taken := 0
		for {
			out, done := q.take(make([]*call, 0, 1+r.IntN(8)))
			for _, k := range out {
				if int(k.header.correlation) != taken {
					t.Fatalf("seed %d: took call %d, want %d", seed, k.header.correlation, taken)
				}
				taken++
			}
			if taken >= dropAt {
				q.drop(func(k *call) {
					mu.Lock()
					defer mu.Unlock()
					finished[k.header.correlation]++
				})
				cancel()
				break
			}
			if done {
				break
			}
			if len(out) == 0 {
				<-q.wake
			}
		}
		count := <-pushed
		completing.Wait()
		cancel()
		if taken+len(finished) != count {
			t.Fatalf("seed %d: %d taken and %d finished of %d", seed, taken, len(finished), count)
		}
		for i, times := range finished {
			if times != 1 || int(i) < taken {
				t.Fatalf("seed %d: call %d was handed out again", seed, i)
			}
		}
	}
}
