//go:build !race

package kafka

import (
	"context"
	"testing"

	"golang.org/x/sync/semaphore"
)

// The hot paths allocate nothing of their own. (Pools drop values at random under
// the race detector.)

func TestProduceAllocatesNothing(t *testing.T) {
	f, _ := startCluster(t, 1, Config{})
	f.topic(t, "lean", 1)
	n := &fakeNode{fakeCluster: f, id: 1}
	l := &listener{backend: &instantBackend{fakeNode: n, view: n.View()}, cfg: Config{}.withDefaults(), bytes: semaphore.NewWeighted(1 << 30)}
	conn := newConnection(l, nil)
	wire := frame(produceRequest("lean", batch("x")), 9, 1)[4:]
	taken := make([]*call, 0, takeMax)
	allocs := testing.AllocsPerRun(200, func() {
		buf := getBuffer(len(wire))
		copy(buf.b, wire)
		if err := conn.dispatch(context.Background(), buf); err != nil {
			t.Fatal(err)
		}
		taken, _ = conn.queue.take(taken[:0])
		for _, k := range taken {
			conn.out.add(k)
			conn.finish(k)
		}
		conn.out.reset()
	})
	if allocs > 0 {
		t.Errorf("%v allocations for each produce, want none", allocs)
	}
}

func TestFetchEncodeAllocatesNothing(t *testing.T) {
	k := &call{connection: &connection{listener: &listener{backend: &instantBackend{}}}, header: header{key: 1, version: 12}, flexibleHeader: true, fetch: benchFetch(10, 64<<10)}
	var o output
	allocs := testing.AllocsPerRun(200, func() {
		o.add(k)
		if err := o.writeTo(discard{}); err != nil {
			t.Fatal(err)
		}
	})
	if allocs > 0 {
		t.Errorf("%v allocations for each fetch answer, want none", allocs)
	}
}
