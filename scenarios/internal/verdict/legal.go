package verdict

import (
	"fmt"
	"math/rand/v2"

	"github.com/ister-mq/ister/scenarios/internal/history"
)

// legalLoad is the load of generated histories, legalRead their last read.
const (
	legalLoad = "load"
	legalRead = "final"
)

// Legal generates a history that a correct broker and correct clients could
// have left. It covers: several topics, partitions and producers; pipelined
// sends; leader changes; sends of unknown outcome that are written or not; sends
// refused for certain; clients that send again under a new producer epoch;
// readers that start over; a subscription with acknowledgements, negative ones
// and redeliveries; a read in the middle; sends that go on during the last read.
func Legal(seed uint64) *history.History {
	g := &generator{rng: rand.New(rand.NewPCG(seed, 77)), h: &history.History{}, logs: map[history.Slot]*legalLog{}, seq: map[string]int64{}}
	for topic := range 1 + g.rng.IntN(2) {
		for partition := range 1 + g.rng.IntN(3) {
			slot := history.Slot{Topic: fmt.Sprintf("t%d", topic), Partition: int32(partition)}
			g.slots = append(g.slots, slot)
			g.logs[slot] = &legalLog{epoch: int32(g.rng.IntN(5))}
		}
	}
	for range 60 + g.rng.IntN(120) {
		g.send()
	}
	g.readers()
	g.subscription()
	g.reads()
	return g.h
}

type generator struct {
	rng   *rand.Rand
	h     *history.History
	now   int64
	slots []history.Slot
	logs  map[history.Slot]*legalLog
	seq   map[string]int64
}

// legalLog is one partition as the broker has it.
type legalLog struct {
	epoch     int32
	last      int64 // instant of the last append
	records   []history.Receive
	appended  []int64 // instants
	committed []int64 // instants from which readers may see each record
}

func (g *generator) chance(percent int) bool { return g.rng.IntN(100) < percent }

func (g *generator) pause(most int64) int64 { return 1 + g.rng.Int64N(most) }

func (g *generator) send() {
	g.now += g.pause(int64(2 * millisecond))
	slot := g.slots[g.rng.IntN(len(g.slots))]
	producer := fmt.Sprintf("p%d", g.rng.IntN(2))
	lane := producer + slot.Topic
	s := history.Send{
		Slot: slot, Load: legalLoad, Producer: producer, Seq: g.seq[lane], Call: g.now, Idempotent: true, Offset: -1, Epoch: -1, Broker: -1,
		Key: fmt.Sprintf("%s-k%d", slotName(slot), g.rng.IntN(3)), CRC: g.rng.Uint32(),
	}
	g.seq[lane]++
	s.UID = fmt.Sprintf("%s-%s-%d", producer, slot.Topic, s.Seq)
	log := g.logs[slot]
	at := max(log.last, g.now) + g.pause(int64(millisecond))
	if g.chance(5) {
		log.epoch++ // a new leader
	}
	s.Return = at + g.pause(int64(3*millisecond))
	switch {
	case g.chance(4):
		s.Outcome, s.Error = history.Failed, "MESSAGE_TOO_LARGE"
	case g.chance(10):
		s.Outcome, s.Error = history.Unknown, "timeout"
		if g.chance(50) {
			log.add(&s, at, 0)
		}
	default:
		s.Outcome = history.OK
		s.Offset = log.add(&s, at, 0)
		if g.chance(3) { // the answer was lost; the client began a new epoch and sent again
			s.Offset = log.add(&s, at+g.pause(int64(millisecond)), 1)
			s.Return = log.last + g.pause(int64(millisecond))
		}
		if g.chance(50) {
			s.Epoch = log.epoch
		}
	}
	g.h.Sends = append(g.h.Sends, s)
}

func (l *legalLog) add(s *history.Send, at int64, producerEpoch int16) int64 {
	l.last = at
	offset := int64(len(l.records))
	l.records = append(l.records, history.Receive{
		Slot: s.Slot, Load: legalLoad, Offset: offset, UID: s.UID, Key: s.Key, CRC: s.CRC, Epoch: l.epoch,
		ProducerID: int64(len(s.Producer)), ProducerEpoch: producerEpoch,
	})
	l.appended = append(l.appended, at)
	l.committed = append(l.committed, at+int64(millisecond)/2)
	return offset
}

// readers gives every record to two plain readers, which now and then start over
// from an earlier offset.
func (g *generator) readers() {
	for n := range 2 {
		for _, slot := range g.slots {
			log, session, at := g.logs[slot], 1, int64(0)
			for offset := 0; offset < len(log.records); offset++ {
				if offset > 0 && g.chance(2) {
					session++
					offset -= g.rng.IntN(offset + 1)
				}
				r := log.records[offset]
				at = max(at, log.committed[offset]) + g.pause(int64(millisecond)/4)
				r.Consumer, r.Session, r.At = fmt.Sprintf("reader-%d", n), session, at
				g.h.Receives = append(g.h.Receives, r)
			}
		}
	}
}

// subscription gives every record to one subscription, with redeliveries of what
// was not acknowledged.
func (g *generator) subscription() {
	for _, slot := range g.slots {
		log, at := g.logs[slot], int64(0)
		for offset := range log.records {
			for again := 0; ; again++ {
				r := log.records[offset]
				at = max(at, log.committed[offset]) + g.pause(int64(millisecond)/4)
				r.Consumer, r.Subscription, r.At, r.Redelivered = "worker", "jobs", at, again > 0
				g.h.Receives = append(g.h.Receives, r)
				ack := history.Ack{Slot: slot, Load: legalLoad, Consumer: "worker", Subscription: "jobs", Offset: r.Offset}
				at += g.pause(int64(millisecond) / 4)
				ack.At = at
				if again < 3 && g.chance(5) {
					ack.Nack = true
					g.h.Acks = append(g.h.Acks, ack)
					continue
				}
				if again < 3 && g.chance(5) {
					continue // its consumer was lost
				}
				g.h.Acks = append(g.h.Acks, ack)
				break
			}
		}
	}
}

// reads adds a read in the middle and the last one, during which the last sends
// may still be going on.
func (g *generator) reads() {
	g.read("middle", g.now/2, g.now/2+g.pause(int64(5*millisecond)), false)
	if g.chance(50) { // quiescent: everything was answered and delivered
		end := g.now
		for _, s := range g.h.Sends {
			end = max(end, s.Return)
		}
		for _, r := range g.h.Receives {
			end = max(end, r.At)
		}
		for _, a := range g.h.Acks {
			end = max(end, a.At)
		}
		g.read(legalRead, end+1, end+g.pause(int64(5*millisecond)), true)
		return
	}
	begin := g.now - int64(millisecond)
	end := begin + g.pause(int64(5*millisecond))
	g.read(legalRead, begin, end, false)
	for i := range g.h.Sends {
		if s := &g.h.Sends[i]; s.Return > end {
			s.Return, s.Outcome, s.Offset, s.Epoch, s.Error = 0, history.Pending, -1, -1, ""
		}
	}
}

func (g *generator) read(id string, begin, end int64, drained bool) {
	read := history.Read{ID: id, Load: legalLoad, Begin: begin, End: end, Drained: drained}
	for _, slot := range g.slots {
		log, n := g.logs[slot], 0
		for n < len(log.records) && log.appended[n] <= begin {
			n++
		}
		// What was acknowledged or seen by then is committed, so it is read.
		read.Marks = append(read.Marks, history.Mark{Slot: slot, HighWatermark: int64(n)})
		read.Records = append(read.Records, log.records[:n]...)
	}
	g.h.Reads = append(g.h.Reads, read)
}
