package dataplane

import (
	"maps"
	"testing"
	"time"

	"github.com/ister-mq/ister/broker/internal/kafka"
	"github.com/ister-mq/ister/broker/internal/model"
	"github.com/ister-mq/ister/broker/internal/refusal"
)

func TestCheckpointRoundTripAndDamage(t *testing.T) {
	marks := map[model.Partition]model.Offset{
		{Topic: model.TopicID{1}, Index: 0}: 5, {Topic: model.TopicID{1}, Index: 1}: 0, {Topic: model.TopicID{2}, Index: 7}: 1 << 40,
	}
	b := encodeMarks(marks)
	got := decodeMarks(b)
	if len(got) != len(marks) {
		t.Fatalf("got %v", got)
	}
	for id, offset := range marks {
		if got[id] != offset {
			t.Errorf("%s: got %d, want %d", id, got[id], offset)
		}
	}
	for i := range b {
		damaged := append([]byte{}, b...)
		damaged[i] ^= 1
		if decodeMarks(damaged) != nil {
			t.Fatalf("damage at byte %d goes unseen", i)
		}
		if decodeMarks(b[:i]) != nil {
			t.Fatalf("a file cut at %d is trusted", i)
		}
	}
}

func FuzzCheckpoint(f *testing.F) {
	f.Add(encodeMarks(map[model.Partition]model.Offset{{Index: 1}: 2}))
	f.Add([]byte(marksMagic))
	f.Fuzz(func(t *testing.T, b []byte) {
		got := decodeMarks(b)
		if got != nil && !maps.Equal(decodeMarks(encodeMarks(got)), got) {
			t.Fatalf("%v changed over its encoding", got)
		}
	})
}

func TestThrottleSpendsItsRateAndPaysBack(t *testing.T) {
	now := time.Unix(0, 0)
	th := throttle{rate: 1000}
	if got := th.take(5000, now); got != 250 {
		t.Fatalf("a fresh bucket gives %d, want a quarter of a second", got)
	}
	th.spend(1250) // one batch larger than what was there
	if got := th.take(1, now.Add(500*time.Millisecond)); got != 0 {
		t.Fatalf("the overdraft is not paid back: %d", got)
	}
	if got := th.take(1, now.Add(1100*time.Millisecond)); got != 1 {
		t.Fatalf("paid back, yet %d", got)
	}
	free := throttle{}
	if got := free.take(7, now); got != 7 {
		t.Fatalf("no bound gives %d", got)
	}
}

func TestWaitQueueKeepsOrderAndExpires(t *testing.T) {
	call := &produceCall{request: &kafka.ProduceRequest{}}
	at := time.Unix(100, 0)
	var q waitQueue
	for i := range 300 {
		q.push(waiter{call: call, last: model.Offset(i), deadline: at.Add(time.Duration(i%2) * time.Hour)})
	}
	expired := q.expire(at.Add(time.Minute), true, nil)
	if len(expired) != 150 {
		t.Fatalf("%d expired", len(expired))
	}
	for _, w := range expired {
		if !refusal.Is(w.err, refusal.OutcomeUnknown) || w.last%2 != 0 {
			t.Fatalf("expired %+v", w)
		}
	}
	for want := 1; want < 300; want += 2 {
		w, ok := q.front()
		if !ok || w.last != model.Offset(want) {
			t.Fatalf("front is %d, want %d", w.last, want)
		}
		q.pop()
		q.push(waiter{call: call, last: model.Offset(1000 + want)})
	}
	if w, _ := q.front(); w.last != 1001 {
		t.Fatalf("front is %d after the old ones", w.last)
	}
}
