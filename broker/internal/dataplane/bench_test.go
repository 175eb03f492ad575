package dataplane

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ister-mq/ister/broker/internal/kafka"
	"github.com/ister-mq/ister/broker/internal/metadata"
	"github.com/ister-mq/ister/broker/internal/model"
	"github.com/ister-mq/ister/broker/internal/record"
)

// quick makes a node and a topic whose produces are answered before Produce
// returns: one replica, no sync.
func quick(t testing.TB) (*testNode, model.Partition) {
	c := newCluster(t, 1, nil)
	return c.nodes[0], c.topic("quick", map[string]string{metadata.KeyFlushPolicy: metadata.FlushOS}, 1)
}

// The cost of a produce in allocations must not follow its records.
func TestProduceAllocatesPerRequestOnly(t *testing.T) {
	node, id := quick(t)
	perRequest := func(records int) float64 {
		recs := make([]record.Rec, records)
		for i := range recs {
			recs[i] = record.Rec{Value: []byte("v")}
		}
		b := record.Build(record.BuildOptions{}, recs...)
		request := &kafka.ProduceRequest{Acks: kafka.AcksAll, Partitions: []kafka.ProducePartition{{ID: id, Batch: checked(b)}}, Results: make([]kafka.ProduceResult, 1)}
		return testing.AllocsPerRun(100, func() {
			node.plane.Produce(request, func() {})
			if request.Results[0].Err != nil {
				t.Fatal(request.Results[0].Err)
			}
		})
	}
	one, many := perRequest(1), perRequest(500)
	if many > one+2 || one > 20 {
		t.Fatalf("%v allocations for one record, %v for 500", one, many)
	}
}

func BenchmarkProduce(b *testing.B) {
	for _, size := range []int{100, 16 << 10} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			node, id := quick(b)
			batch := checked(record.Build(record.BuildOptions{}, record.Rec{Value: []byte(strings.Repeat("v", size))}))
			request := &kafka.ProduceRequest{Acks: kafka.AcksAll, Partitions: []kafka.ProducePartition{{ID: id, Batch: batch}}, Results: make([]kafka.ProduceResult, 1)}
			b.SetBytes(int64(batch.Size()))
			b.ReportAllocs()
			for b.Loop() {
				node.plane.Produce(request, func() {})
			}
		})
	}
}
