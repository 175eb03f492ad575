// Package history is the record of everything that clients saw during a run:
// every send with its outcome, every receive, every acknowledgement of a
// consumer, every disturbance, and every complete read at the end. It is judged
// by package verdict, during the run and again offline.
//
// Times are monotonic nanoseconds since the history began. Unknown outcomes stay
// unknown: a send whose answer was lost is neither ok nor failed.
package history

// Outcome of a send, as its client knows it.
type Outcome string

// The outcomes. Pending sends had no answer when the history was taken; they are
// judged as unknown.
const (
	OK      Outcome = "ok"
	Failed  Outcome = "failed"  // refused for certain: must never be visible
	Unknown Outcome = "unknown" // may be visible 0 or 1 times
	Pending Outcome = "pending"
)

// Slot is one partition of one topic, as clients name it.
type Slot struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
}

// Send is one record given to a producer.
type Send struct {
	Slot
	Load     string `json:"load"`
	Producer string `json:"producer"`
	UID      string `json:"uid"` // unique in the history
	Key      string `json:"key"`
	// Seq counts the producer's records on this topic from 0.
	Seq  int64  `json:"seq"`
	CRC  uint32 `json:"crc"`
	Call int64  `json:"call"`
	// Return is 0 while pending.
	Return  int64   `json:"return"`
	Outcome Outcome `json:"outcome"`
	Offset  int64   `json:"offset"` // when ok, else -1
	// Epoch and Broker are the leader epoch and broker of the ack, -1 unknown.
	Epoch  int32  `json:"epoch"`
	Broker int32  `json:"broker"`
	Error  string `json:"error,omitempty"`
	// Idempotent: the producer numbered its batches, so a second copy under the
	// same producer id and epoch is the broker's fault.
	Idempotent bool `json:"idempotent"`
}

// Receive is one record delivered to a consumer.
type Receive struct {
	Slot
	Load     string `json:"load"`
	Consumer string `json:"consumer"`
	// Subscription names the readers that share deliveries and acknowledge them;
	// "" is a plain reader of the log.
	Subscription string `json:"subscription,omitempty"`
	// Session changes when the consumer starts over; a plain reader's offsets
	// within one session go up by 1.
	Session int    `json:"session"`
	Offset  int64  `json:"offset"`
	UID     string `json:"uid"`
	Key     string `json:"key"`
	CRC     uint32 `json:"crc"`
	Epoch   int32  `json:"epoch"`
	At      int64  `json:"at"`
	// ProducerID and ProducerEpoch come from the batch; -1 when not idempotent.
	ProducerID    int64 `json:"producer_id"`
	ProducerEpoch int16 `json:"producer_epoch"`
	// Redelivered marks a delivery that the broker flagged as a repeat.
	Redelivered bool `json:"redelivered,omitempty"`
}

// Ack is a consumer's word about one delivery.
type Ack struct {
	Slot
	Load         string `json:"load"`
	Consumer     string `json:"consumer"`
	Subscription string `json:"subscription"`
	Offset       int64  `json:"offset"`
	At           int64  `json:"at"`
	// Nack asks for the record again.
	Nack bool `json:"nack,omitempty"`
}

// Disturbance is something the run did to the cluster.
type Disturbance struct {
	Step   string `json:"step"`
	Kind   string `json:"kind"` // the verb
	Target string `json:"target,omitempty"`
	Start  int64  `json:"start"`
	End    int64  `json:"end"` // 0 while it lasts
}

// Read is one complete read of a load's topics by a fresh reader.
type Read struct {
	ID    string `json:"id"`
	Load  string `json:"load"`
	Begin int64  `json:"begin"`
	End   int64  `json:"end"`
	// Marks say from where to where each partition was read.
	Marks []Mark `json:"marks"`
	// Records are what was read, in any order across partitions.
	Records []Receive `json:"records"`
	// Drained: consumers of this load had stopped sending acks and were given
	// everything, so that what was never delivered counts.
	Drained bool `json:"drained"`
}

// Mark is the extent of a read on one partition: [From, HighWatermark).
type Mark struct {
	Slot
	From          int64 `json:"from"`
	HighWatermark int64 `json:"high_watermark"`
}

// History is the whole record.
type History struct {
	// Partial: it was read from a journal, whose runner ended before the run did.
	// A violation in it is one; that there is none says nothing.
	Partial      bool
	Sends        []Send
	Receives     []Receive
	Acks         []Ack
	Disturbances []Disturbance
	Reads        []Read
}

// Of returns the part that belongs to one load; disturbances belong to all.
func (h *History) Of(load string) *History {
	out := &History{Partial: h.Partial, Disturbances: h.Disturbances}
	for _, s := range h.Sends {
		if s.Load == load {
			out.Sends = append(out.Sends, s)
		}
	}
	for _, r := range h.Receives {
		if r.Load == load {
			out.Receives = append(out.Receives, r)
		}
	}
	for _, a := range h.Acks {
		if a.Load == load {
			out.Acks = append(out.Acks, a)
		}
	}
	for _, r := range h.Reads {
		if r.Load == load {
			out.Reads = append(out.Reads, r)
		}
	}
	return out
}
