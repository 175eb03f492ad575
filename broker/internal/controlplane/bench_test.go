package controlplane

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ister-mq/ister/broker/internal/metadata"
)

// BenchmarkPropose measures a whole command, decided, committed on three disks
// and applied where it was asked for.
func BenchmarkPropose(b *testing.B) {
	nodes := cluster(b, 3)
	c := controllerOf(b, nodes...)
	f := others(nodes, c)[0]
	var next atomic.Int64
	for _, one := range []struct {
		name    string
		node    *node
		callers int
	}{{"controller/callers=1", c, 1}, {"follower/callers=1", f, 1}, {"follower/callers=64", f, 32}} {
		b.Run(one.name, func(b *testing.B) {
			took := make(chan time.Duration, b.N+1)
			b.SetParallelism(one.callers)
			once := func() {
				start := time.Now()
				if _, err := one.node.Propose(b.Context(), &metadata.AllocateProducers{Node: 1, Count: 1}); err != nil {
					b.Error(err)
				}
				next.Add(1)
				took <- time.Since(start)
			}
			b.ResetTimer()
			if one.callers == 1 {
				for range b.N {
					once()
				}
			} else {
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						once()
					}
				})
			}
			b.StopTimer()
			close(took)
			var all []time.Duration
			for d := range took {
				all = append(all, d)
			}
			slices.Sort(all)
			b.ReportMetric(float64(len(all))/b.Elapsed().Seconds(), "ops/s")
			b.ReportMetric(float64(all[len(all)/2].Microseconds()), "p50-µs")
			b.ReportMetric(float64(all[len(all)*99/100].Microseconds()), "p99-µs")
		})
	}
	if c.Image().NextProducer == 0 {
		b.Error(fmt.Sprint("nothing was allocated in ", next.Load()))
	}
}
