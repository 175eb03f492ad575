package segment

import (
	"fmt"
	"sort"
	"time"

	"github.com/ister-mq/ister/broker/internal/model"
	"github.com/ister-mq/ister/broker/internal/record"
	"github.com/ister-mq/ister/broker/internal/refusal"
)

const (
	// keptBatches is how many batches per producer are remembered: what a client
	// may have in flight at once (KIP-98).
	keptBatches = 5
	// maxProducers bounds the producers remembered per log; the longest idle go
	// first.
	maxProducers = 100_000
)

// producedBatch is one remembered batch of a producer.
type producedBatch struct {
	FirstSequence int32
	LastSequence  int32
	FirstOffset   model.Offset
	LastOffset    model.Offset
}

// producer is what the log knows of one producer id. An expired one keeps only its
// epoch, so that a client that wakes up is told UNKNOWN_PRODUCER, which it can
// recover from, rather than OUT_OF_ORDER_SEQUENCE.
type producer struct {
	Epoch    model.ProducerEpoch
	Expired  bool
	LastSeen int64 // local milliseconds since the Unix epoch
	Batches  []producedBatch
}

// producers is the idempotence state of a log (KIP-98). It belongs to the log's
// owner: nothing here locks.
type producers struct {
	byID map[model.ProducerID]*producer
	last model.Offset // largest offset of a batch taken in; -1 for none
}

func newProducers() *producers {
	return &producers{byID: map[model.ProducerID]*producer{}, last: -1}
}

// take records a batch that is in the log. It never judges: followers and recovery
// repeat what a leader decided (KAFKA-6003), even when the head of the producer's
// history has been deleted.
func (p *producers) take(h record.Header, now time.Time) {
	if !h.Idempotent() {
		return
	}
	p.last = max(p.last, h.LastOffset())
	one := p.byID[h.ProducerID]
	if one == nil {
		if len(p.byID) >= maxProducers {
			p.dropOldest()
		}
		one = &producer{Epoch: h.ProducerEpoch}
		p.byID[h.ProducerID] = one
	}
	if h.ProducerEpoch < one.Epoch && !one.Expired {
		return // a straggler of a fenced instance; its batch is in the log all the same
	}
	if h.ProducerEpoch != one.Epoch || one.Expired {
		one.Epoch, one.Expired, one.Batches = h.ProducerEpoch, false, one.Batches[:0]
	}
	one.LastSeen = now.UnixMilli()
	if len(one.Batches) == keptBatches {
		copy(one.Batches, one.Batches[1:])
		one.Batches = one.Batches[:keptBatches-1]
	}
	one.Batches = append(one.Batches, producedBatch{h.BaseSequence, h.LastSequence(), h.BaseOffset, h.LastOffset()})
}

func (p *producers) dropOldest() {
	var oldest model.ProducerID
	var seen int64
	found := false
	for id, one := range p.byID {
		if !found || one.LastSeen < seen || one.LastSeen == seen && id < oldest {
			oldest, seen, found = id, one.LastSeen, true
		}
	}
	delete(p.byID, oldest)
}

// check judges a batch that a client sent to the leader.
func (p *producers) check(h record.Header, now time.Time, expiry time.Duration) (duplicate bool, first model.Offset, err error) {
	if !h.Idempotent() {
		return false, 0, nil
	}
	one := p.byID[h.ProducerID]
	if one == nil {
		if h.BaseSequence != 0 {
			// The batch before this one is still under way, or got lost: the client
			// sends both again, in order (KAFKA-15591).
			return false, 0, outOfOrder(h, 0)
		}
		return false, 0, nil
	}
	switch {
	case h.ProducerEpoch < one.Epoch:
		return false, 0, refusal.New(refusal.InvalidProducerEpoch, fmt.Sprintf("producer %d", h.ProducerID),
			fmt.Sprintf("producer epoch %d is fenced by epoch %d", h.ProducerEpoch, one.Epoch), "start the producer again")
	case h.ProducerEpoch > one.Epoch:
		if h.BaseSequence != 0 {
			return false, 0, outOfOrder(h, 0)
		}
		return false, 0, nil
	case one.Expired || now.UnixMilli()-one.LastSeen > expiry.Milliseconds():
		if h.BaseSequence != 0 {
			return false, 0, refusal.New(refusal.UnknownProducer, fmt.Sprintf("producer %d", h.ProducerID),
				fmt.Sprintf("producer %d was idle for more than %s and is no longer remembered", h.ProducerID, expiry),
				"start its sequence again at 0 with a new producer epoch")
		}
		return false, 0, nil
	}
	for _, b := range one.Batches {
		if b.FirstSequence == h.BaseSequence && b.LastSequence == h.LastSequence() {
			return true, b.FirstOffset, nil
		}
	}
	want := record.AddSequence(one.Batches[len(one.Batches)-1].LastSequence, 1)
	if h.BaseSequence != want {
		return false, 0, outOfOrder(h, want)
	}
	return false, 0, nil
}

func outOfOrder(h record.Header, want int32) error {
	return refusal.New(refusal.OutOfOrderSequence, fmt.Sprintf("producer %d", h.ProducerID),
		fmt.Sprintf("sequence %d of producer %d arrived where %d is next", h.BaseSequence, h.ProducerID, want),
		"send the earlier batch first, or this one again after it")
}

// expire forgets the batches of producers that have been idle for longer than
// expiry, and all of a producer that has been idle for twice as long.
func (p *producers) expire(now time.Time, expiry time.Duration) {
	for id, one := range p.byID {
		switch idle := now.UnixMilli() - one.LastSeen; {
		case idle > 2*expiry.Milliseconds():
			delete(p.byID, id)
		case idle > expiry.Milliseconds():
			one.Expired, one.Batches = true, nil
		}
	}
}

// expireAll forgets every batch but keeps the epochs.
func (p *producers) expireAll() {
	for _, one := range p.byID {
		one.Expired, one.Batches = true, nil
	}
}

// ids lists the producers in ascending order.
func (p *producers) ids() []model.ProducerID {
	out := make([]model.ProducerID, 0, len(p.byID))
	for id := range p.byID {
		out = append(out, id)
	}
	sort.Slice(out, func(i, j int) bool { return out[i] < out[j] })
	return out
}

// encode makes a snapshot: the state after every batch before end.
func (p *producers) encode(end model.Offset) []byte {
	b := le.AppendUint64(nil, uint64(end))
	b = le.AppendUint64(b, uint64(p.last))
	b = le.AppendUint32(b, uint32(len(p.byID)))
	for _, id := range p.ids() {
		one := p.byID[id]
		flags := byte(0)
		if one.Expired {
			flags = 1
		}
		b = le.AppendUint64(b, uint64(id))
		b = le.AppendUint16(b, uint16(one.Epoch))
		b = append(b, flags, byte(len(one.Batches)))
		b = le.AppendUint64(b, uint64(one.LastSeen))
		for _, batch := range one.Batches {
			b = le.AppendUint32(b, uint32(batch.FirstSequence))
			b = le.AppendUint32(b, uint32(batch.LastSequence))
			b = le.AppendUint64(b, uint64(batch.FirstOffset))
			b = le.AppendUint64(b, uint64(batch.LastOffset))
		}
	}
	return encodeFrame(producersMagic, b)
}

const (
	minProducerBytes   = 20
	producedBatchBytes = 24
)

func decodeProducers(name string, end model.Offset, b []byte) (*producers, error) {
	payload, err := decodeFrame(producersMagic, name, b)
	if err != nil {
		return nil, err
	}
	c := cursor{b: payload}
	p := newProducers()
	got := model.Offset(c.u64())
	p.last = model.Offset(c.u64())
	for n := c.count(minProducerBytes); n > 0 && !c.short; n-- {
		id := model.ProducerID(c.u64())
		one := &producer{Epoch: model.ProducerEpoch(c.u16()), Expired: c.u8() != 0}
		batches := int(c.u8())
		one.LastSeen = int64(c.u64())
		if batches > keptBatches || batches*producedBatchBytes > len(c.b) || batches == 0 && !one.Expired {
			c.short = true
			break
		}
		for ; batches > 0; batches-- {
			one.Batches = append(one.Batches, producedBatch{
				int32(c.u32()), int32(c.u32()), model.Offset(c.u64()), model.Offset(c.u64())})
		}
		p.byID[id] = one
	}
	if c.short || len(c.b) != 0 || got != end {
		return nil, damaged(name + ": its fields do not add up")
	}
	return p, nil
}

// ProducerInfo describes an idempotent producer that the log remembers.
type ProducerInfo struct {
	ID           model.ProducerID
	Epoch        model.ProducerEpoch
	LastSequence int32 // -1 when its batches have expired
	LastOffset   model.Offset
	LastSeen     time.Time
}

// Producers lists the remembered producers by id. For the log's owner only.
func (l *Log) Producers() []ProducerInfo {
	out := make([]ProducerInfo, 0, len(l.producers.byID))
	for _, id := range l.producers.ids() {
		one := l.producers.byID[id]
		info := ProducerInfo{ID: id, Epoch: one.Epoch, LastSequence: -1, LastOffset: -1, LastSeen: time.UnixMilli(one.LastSeen)}
		if n := len(one.Batches); n > 0 {
			info.LastSequence, info.LastOffset = one.Batches[n-1].LastSequence, one.Batches[n-1].LastOffset
		}
		out = append(out, info)
	}
	return out
}

// CheckSequence judges an idempotent batch that a client sent to the leader
// (KIP-98), before it is appended. A duplicate of one of the producer's last five
// batches gives true and the offset that its first record got. Refusals:
// INVALID_PRODUCER_EPOCH for a fenced producer; OUT_OF_ORDER_SEQUENCE for a gap, and
// for a first batch that does not begin at sequence 0 (retriable: KAFKA-15591);
// UNKNOWN_PRODUCER when the producer's state has expired. For the log's owner only.
func (l *Log) CheckSequence(h record.Header) (duplicate bool, first model.Offset, err error) {
	return l.producers.check(h, l.cfg.Now(), l.cfg.ProducerExpiry)
}

// ExpireProducers forgets producers that have been idle for longer than
// Config.ProducerExpiry. Cheap enough for once a minute. For the log's owner only.
func (l *Log) ExpireProducers() { l.producers.expire(l.cfg.Now(), l.cfg.ProducerExpiry) }
