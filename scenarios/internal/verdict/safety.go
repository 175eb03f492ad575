package verdict

import (
	"fmt"
	"sort"
	"strings"

	"github.com/ister-mq/ister/scenarios/internal/history"
)

// safety runs every check of the log itself.
func (j *judge) safety() {
	for _, slot := range j.slots {
		j.extent(slot)
		j.epochs(slot)
	}
	copies := j.content()
	j.duplicates(copies)
	j.acknowledged(copies)
	j.order(copies)
	j.realTime()
	j.observers()
	j.earlierReads()
}

// extent checks that the offsets read are exactly the range of the mark.
func (j *judge) extent(slot history.Slot) {
	mark := j.marks[slot]
	next := mark.From
	var ranges []string
	start := next
	closeRange := func(end int64) {
		if end > start {
			ranges = append(ranges, fmt.Sprintf("%d..%d", start, end-1))
		}
	}
	for _, r := range j.log[slot] {
		switch {
		case r.Offset == next:
			next++
		case r.Offset > next:
			j.found(OffsetGap, slot, next, "offsets %d..%d of %s are missing", next, r.Offset-1, slotName(slot))
			closeRange(next)
			start, next = r.Offset, r.Offset+1
		default:
			j.found(OffsetGap, slot, r.Offset, "offset %d of %s was read twice", r.Offset, slotName(slot))
		}
	}
	closeRange(next)
	if next < mark.HighWatermark {
		j.found(OffsetGap, slot, next, "offsets %d..%d of %s, below the high watermark, are missing", next, mark.HighWatermark-1, slotName(slot))
	}
	j.v.Extent[slotName(slot)] = strings.Join(ranges, ",")
}

func (j *judge) epochs(slot history.Slot) {
	highest := int32(-1)
	for _, r := range j.log[slot] {
		if r.Epoch < 0 {
			continue
		}
		if r.Epoch < highest {
			j.found(EpochRegress, slot, r.Offset, "offset %d of %s has epoch %d after epoch %d", r.Offset, slotName(slot), r.Epoch, highest)
		}
		highest = max(highest, r.Epoch)
	}
}

// content checks each record against the send it claims to be, and returns the
// places of each uid in the log, in slot and offset order.
func (j *judge) content() map[string][]*history.Receive {
	copies := map[string][]*history.Receive{}
	for _, slot := range j.slots {
		for _, r := range j.log[slot] {
			s, known := j.sends[r.UID]
			if !known {
				j.found(Phantom, slot, r.Offset, "offset %d of %s holds %q, which nobody sent", r.Offset, slotName(slot), r.UID)
				continue
			}
			j.compare(r, s)
			copies[r.UID] = append(copies[r.UID], r)
			if s.Outcome == history.Failed {
				j.found(FailedVisible, slot, r.Offset, "%s was refused (%s) and is at offset %d of %s", r.UID, s.Error, r.Offset, slotName(slot))
			}
		}
	}
	for uid := range copies {
		if s := j.sends[uid]; s.Outcome == history.Unknown || s.Outcome == history.Pending {
			j.v.UnknownVisible++
		}
	}
	for i := range j.h.Receives {
		r := &j.h.Receives[i]
		if r.At > j.read.End {
			continue
		}
		if s, known := j.sends[r.UID]; known {
			j.compare(r, s)
		} else {
			j.found(Phantom, r.Slot, r.Offset, "%s received %q at offset %d of %s, which nobody sent", r.Consumer, r.UID, r.Offset, slotName(r.Slot))
		}
	}
	return copies
}

func (j *judge) compare(r *history.Receive, s *history.Send) {
	if r.CRC != s.CRC || r.Key != s.Key || r.Topic != s.Topic {
		j.found(Corrupt, r.Slot, r.Offset, "offset %d of %s: %s has crc %08x and key %q, sent with crc %08x and key %q to %s",
			r.Offset, slotName(r.Slot), r.UID, r.CRC, r.Key, s.CRC, s.Key, s.Topic)
	}
}

// duplicates tells the broker's second copies from a client's. A broker drops a
// batch that it has under the same producer id and epoch; a client that had to
// begin a new epoch may send again what was written under the old one.
func (j *judge) duplicates(copies map[string][]*history.Receive) {
	for _, uid := range sortedKeys(copies) {
		places := copies[uid]
		for i := 1; i < len(places); i++ {
			check := ClientDuplicate
			for _, before := range places[:i] {
				same := before.ProducerID == places[i].ProducerID && before.ProducerEpoch == places[i].ProducerEpoch
				if j.sends[uid].Idempotent && (same || places[i].ProducerID < 0) {
					check = LogDuplicate
				}
			}
			j.found(check, places[i].Slot, places[i].Offset, "%s is at offset %d of %s and again at offset %d of %s", uid,
				places[0].Offset, slotName(places[0].Slot), places[i].Offset, slotName(places[i].Slot))
		}
	}
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}

// place is an acknowledged offset.
type place struct {
	slot   history.Slot
	offset int64
}

// later reports that a record was acknowledged after the read began and lies
// beyond what it set out to read: the read says nothing of it.
func (j *judge) later(s *history.Send) bool {
	mark, read := j.marks[s.Slot]
	return s.Return > j.read.Begin && !(read && s.Offset < mark.HighWatermark)
}

// acknowledged checks that each acknowledged send is where the ack said. A send
// acknowledged before the read began must be there; one acknowledged later only
// when its offset is below the end of the read.
func (j *judge) acknowledged(copies map[string][]*history.Receive) {
	owner := map[place]string{}
	for _, uid := range sortedKeys(j.sends) {
		s := j.sends[uid]
		if s.Outcome != history.OK {
			continue
		}
		at := place{s.Slot, s.Offset}
		if other, taken := owner[at]; taken {
			j.found(OffsetReused, s.Slot, s.Offset, "%s and %s were both acknowledged at offset %d of %s", other, uid, s.Offset, slotName(s.Slot))
		}
		owner[at] = uid
		mark, read := j.marks[s.Slot]
		if read && s.Offset < mark.From {
			continue // retention took it
		}
		if j.later(s) {
			continue
		}
		places := copies[uid]
		switch {
		case len(places) == 0:
			j.found(AckedLost, s.Slot, s.Offset, "%s was acknowledged at offset %d of %s and is not in the log", uid, s.Offset, slotName(s.Slot))
		case !anyAt(places, at):
			j.found(OffsetMismatch, s.Slot, s.Offset, "%s was acknowledged at offset %d of %s and is at offset %d of %s", uid, s.Offset, slotName(s.Slot),
				places[0].Offset, slotName(places[0].Slot))
		}
	}
}

func anyAt(places []*history.Receive, at place) bool {
	for _, p := range places {
		if p.Slot == at.slot && p.Offset == at.offset {
			return true
		}
	}
	return false
}

// order checks, over the first copies, that each producer's records and each
// key's records stand in the order of their sends.
func (j *judge) order(copies map[string][]*history.Receive) {
	type lane struct{ topic, producer, key string }
	lastSeq := map[lane]int64{}
	home := map[lane]history.Slot{}
	for _, slot := range j.slots {
		bySender := map[string]int64{}
		for _, r := range j.log[slot] {
			s, known := j.sends[r.UID]
			if !known || copies[r.UID][0] != r {
				continue
			}
			if last, seen := bySender[s.Producer]; seen && s.Seq < last {
				j.found(ProducerOrder, slot, r.Offset, "%s: producer %s's record %d comes after its record %d", slotName(slot), s.Producer, s.Seq, last)
			}
			bySender[s.Producer] = max(bySender[s.Producer], s.Seq)
			at := lane{s.Topic, s.Producer, s.Key}
			if other, seen := home[at]; seen && other != slot {
				j.found(KeyOrder, slot, r.Offset, "key %q of producer %s is on %s and on %s", s.Key, s.Producer, slotName(other), slotName(slot))
			} else if last, seen := lastSeq[at]; seen && s.Seq < last {
				j.found(KeyOrder, slot, r.Offset, "%s: key %q has record %d after record %d", slotName(slot), s.Key, s.Seq, last)
			}
			home[at], lastSeq[at] = slot, max(lastSeq[at], s.Seq)
		}
	}
}

// realTime checks that a send begun after an ack got a larger offset, and that
// no epoch acknowledges once a newer one has.
func (j *judge) realTime() {
	bySlot := map[history.Slot][]*history.Send{}
	for _, s := range j.sends {
		if s.Outcome == history.OK {
			bySlot[s.Slot] = append(bySlot[s.Slot], s)
		}
	}
	for _, slot := range sortedSlots(bySlot) {
		sends := bySlot[slot]
		calls := append([]*history.Send(nil), sends...)
		sort.Slice(calls, func(a, b int) bool { return sendLess(calls[a].Call, calls[b].Call, calls[a], calls[b]) })
		returns := append([]*history.Send(nil), sends...)
		sort.Slice(returns, func(a, b int) bool { return sendLess(returns[a].Return, returns[b].Return, returns[a], returns[b]) })
		epochOf := j.ackEpochs(slot)
		var ackedTo *history.Send // the highest offset acknowledged so far
		highestEpoch := int32(-1)
		next := 0
		for _, s := range calls {
			for ; next < len(returns) && returns[next].Return < s.Call; next++ {
				if ackedTo == nil || returns[next].Offset > ackedTo.Offset {
					ackedTo = returns[next]
				}
				highestEpoch = max(highestEpoch, epochOf(returns[next]))
			}
			if ackedTo != nil && s.Offset <= ackedTo.Offset {
				j.found(RealTimeOrder, slot, s.Offset, "%s was begun after %s was acknowledged at offset %d, and got offset %d", s.UID, ackedTo.UID, ackedTo.Offset, s.Offset)
			}
			if epoch := epochOf(s); epoch >= 0 && epoch < highestEpoch {
				j.found(StaleEpochAck, slot, s.Offset, "%s was begun after an ack under epoch %d, and acknowledged under epoch %d", s.UID, highestEpoch, epoch)
			}
		}
	}
}

func sendLess(x, y int64, a, b *history.Send) bool {
	if x != y {
		return x < y
	}
	return a.UID < b.UID
}

func sortedSlots[V any](m map[history.Slot]V) []history.Slot {
	slots := make([]history.Slot, 0, len(m))
	for s := range m {
		slots = append(slots, s)
	}
	sort.Slice(slots, func(a, b int) bool { return slotLess(slots[a], slots[b]) })
	return slots
}

// ackEpochs tells under which leader epoch a send was acknowledged: as its
// client heard, or else as its record in the log says; -1 unknown.
func (j *judge) ackEpochs(slot history.Slot) func(*history.Send) int32 {
	inLog := map[string]int32{}
	for _, r := range j.log[slot] {
		if s, ok := j.sends[r.UID]; ok && s.Offset == r.Offset {
			inLog[r.UID] = r.Epoch
		}
	}
	return func(s *history.Send) int32 {
		if s.Epoch >= 0 {
			return s.Epoch
		}
		if epoch, ok := inLog[s.UID]; ok {
			return epoch
		}
		return -1
	}
}

// observers checks that nobody saw another record at an offset than the read
// did, and that nothing seen has gone.
func (j *judge) observers() {
	inLog := map[place]string{}
	for _, slot := range j.slots {
		for _, r := range j.log[slot] {
			at := place{slot, r.Offset}
			if other, taken := inLog[at]; taken && other != r.UID {
				j.found(Divergence, slot, r.Offset, "the read saw %s and %s at offset %d of %s", other, r.UID, r.Offset, slotName(slot))
			}
			inLog[at] = r.UID
		}
	}
	seen := map[place]string{}
	for i := range j.h.Receives {
		r := &j.h.Receives[i]
		at := place{r.Slot, r.Offset}
		if other, known := seen[at]; known && other != r.UID {
			j.found(Divergence, r.Slot, r.Offset, "%s saw %s at offset %d of %s, another consumer saw %s", r.Consumer, r.UID, r.Offset, slotName(r.Slot), other)
		}
		seen[at] = r.UID
		mark, read := j.marks[r.Slot]
		if !read || r.Offset < mark.From {
			continue
		}
		uid, present := inLog[at]
		switch {
		case present && uid != r.UID:
			j.found(Divergence, r.Slot, r.Offset, "%s saw %s at offset %d of %s, the read saw %s", r.Consumer, r.UID, r.Offset, slotName(r.Slot), uid)
		case !present && r.At <= j.read.Begin:
			j.found(Divergence, r.Slot, r.Offset, "%s saw %s at offset %d of %s, and the read did not", r.Consumer, r.UID, r.Offset, slotName(r.Slot))
		}
	}
}

// earlierReads checks this read against those before it.
func (j *judge) earlierReads() {
	for i := range j.earlier {
		before := &j.earlier[i]
		for _, m := range before.Marks {
			if now, ok := j.marks[m.Slot]; ok && now.HighWatermark < m.HighWatermark {
				j.found(HighWatermarkBack, m.Slot, now.HighWatermark, "%s ended at %d in read %s and at %d in read %s", slotName(m.Slot),
					m.HighWatermark, before.ID, now.HighWatermark, j.read.ID)
			}
		}
		was := map[place]string{}
		for k := range before.Records {
			was[place{before.Records[k].Slot, before.Records[k].Offset}] = before.Records[k].UID
		}
		for k := range j.read.Records {
			r := &j.read.Records[k]
			if uid, ok := was[place{r.Slot, r.Offset}]; ok && uid != r.UID {
				j.found(Divergence, r.Slot, r.Offset, "offset %d of %s was %s in read %s and is %s in read %s", r.Offset, slotName(r.Slot), uid, before.ID, r.UID, j.read.ID)
			}
		}
	}
}
