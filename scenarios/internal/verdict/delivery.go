package verdict

import (
	"sort"

	"github.com/ister-mq/ister/scenarios/internal/history"
)

// delivery runs the checks of what consumers were given.
func (j *judge) delivery() {
	plain := map[string][]*history.Receive{}  // by consumer
	shared := map[string][]*history.Receive{} // by subscription
	for i := range j.h.Receives {
		r := &j.h.Receives[i]
		if r.Subscription == "" {
			plain[r.Consumer] = append(plain[r.Consumer], r)
		} else {
			shared[r.Subscription] = append(shared[r.Subscription], r)
		}
	}
	for _, name := range sortedKeys(plain) {
		j.sessions(name, plain[name])
		j.delivered(name, plain[name])
	}
	acks := map[string][]*history.Ack{}
	for i := range j.h.Acks {
		a := &j.h.Acks[i]
		acks[a.Subscription] = append(acks[a.Subscription], a)
	}
	for _, name := range sortedKeys(shared) {
		j.subscription(name, shared[name], acks[name])
		j.delivered(name, shared[name])
	}
}

// sessions checks that within one session a plain reader's offsets go up by 1.
func (j *judge) sessions(consumer string, receives []*history.Receive) {
	type lane struct {
		slot    history.Slot
		session int
	}
	last := map[lane]int64{}
	for _, r := range receives {
		at := lane{r.Slot, r.Session}
		if before, seen := last[at]; seen && r.Offset != before+1 {
			j.found(ConsumerSkip, r.Slot, r.Offset, "%s went from offset %d to %d of %s in one session", consumer, before, r.Offset, slotName(r.Slot))
		}
		last[at] = r.Offset
	}
}

// delivered checks that everything in the log was given to the reader. It says
// something only for a drained read.
func (j *judge) delivered(reader string, receives []*history.Receive) {
	if !j.read.Drained {
		return
	}
	got := map[place]bool{}
	for _, r := range receives {
		got[place{r.Slot, r.Offset}] = true
	}
	for _, slot := range j.slots {
		for _, r := range j.log[slot] {
			if !got[place{slot, r.Offset}] {
				j.found(NeverDelivered, slot, r.Offset, "offset %d of %s was never given to %s", r.Offset, slotName(slot), reader)
			}
		}
	}
}

// subscription checks deliveries against the acknowledgements of the consumers
// that share it.
func (j *judge) subscription(name string, receives []*history.Receive, acks []*history.Ack) {
	given := map[place][]*history.Receive{}
	for _, r := range receives {
		at := place{r.Slot, r.Offset}
		given[at] = append(given[at], r)
	}
	ackedAt := map[place]int64{}  // first ack
	nackedAt := map[place]int64{} // last nack
	for _, a := range acks {
		at := place{a.Slot, a.Offset}
		if a.Nack {
			nackedAt[at] = max(nackedAt[at], a.At)
		} else if first, ok := ackedAt[at]; !ok || a.At < first {
			ackedAt[at] = a.At
		}
	}
	places := make([]place, 0, len(given))
	for at := range given {
		places = append(places, at)
	}
	sort.Slice(places, func(a, b int) bool {
		if places[a].slot != places[b].slot {
			return slotLess(places[a].slot, places[b].slot)
		}
		return places[a].offset < places[b].offset
	})
	for _, at := range places {
		deliveries := given[at]
		for i, r := range deliveries {
			if i > 0 && !r.Redelivered {
				j.found(DeliveryDuplicate, at.slot, at.offset, "offset %d of %s was given to %s again without the redelivery mark", at.offset, slotName(at.slot), name)
			}
			if acked, ok := ackedAt[at]; ok && r.At > acked {
				j.found(AckedRedelivered, at.slot, at.offset, "offset %d of %s was acknowledged by %s and given to it again", at.offset, slotName(at.slot), name)
			}
		}
		_, acked := ackedAt[at]
		if j.read.Drained && !acked {
			last := deliveries[len(deliveries)-1].At
			if nacked, ok := nackedAt[at]; !ok || nacked >= last {
				j.found(NotRedelivered, at.slot, at.offset, "offset %d of %s was not acknowledged by %s and never given to it again", at.offset, slotName(at.slot), name)
			}
		}
	}
}
