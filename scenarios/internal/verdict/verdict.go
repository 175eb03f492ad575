package verdict

import (
	"fmt"
	"sort"

	"github.com/ister-mq/ister/scenarios/internal/history"
)

// Check names one thing that must never happen.
type Check string

// The checks.
const (
	AckedLost         Check = "acked_lost"          // acknowledged, and not in the log
	OffsetMismatch    Check = "offset_mismatch"     // read at another offset than acknowledged
	Divergence        Check = "divergence"          // two observers saw different records at one offset
	OffsetGap         Check = "offset_gap"          // offsets are not exactly first..first+n-1
	LogDuplicate      Check = "log_duplicate"       // one record twice in the log, by the broker's fault
	ClientDuplicate   Check = "client_duplicate"    // one record twice, sent again by its client under a new producer epoch
	Phantom           Check = "phantom"             // a record that nobody sent
	Corrupt           Check = "corrupt"             // a record with other bytes than were sent
	FailedVisible     Check = "failed_visible"      // a send that was refused for certain is in the log
	ProducerOrder     Check = "producer_order"      // a producer's records are out of order on a partition
	KeyOrder          Check = "key_order"           // records of one key are out of order, or on two partitions
	RealTimeOrder     Check = "real_time_order"     // a send begun after an ack got a smaller offset
	ConsumerSkip      Check = "consumer_skip"       // a session's offsets did not go up by 1
	DeliveryDuplicate Check = "delivery_duplicate"  // delivered again without the redelivery mark
	AckedRedelivered  Check = "acked_redelivered"   // delivered again after it was acknowledged
	NotRedelivered    Check = "not_redelivered"     // neither acknowledged nor delivered again
	NeverDelivered    Check = "never_delivered"     // in the log, and given to no consumer
	EpochRegress      Check = "epoch_regress"       // leader epochs go back along the log
	StaleEpochAck     Check = "stale_epoch_ack"     // acknowledged under an old epoch after a newer one acknowledged
	OffsetReused      Check = "offset_acked_twice"  // two records acknowledged at one offset
	HighWatermarkBack Check = "high_watermark_back" // a later read ended before an earlier one
)

// Checks lists every check, in the order of reports.
var Checks = []Check{
	AckedLost, OffsetMismatch, OffsetReused, Divergence, OffsetGap, LogDuplicate, ClientDuplicate, Phantom, Corrupt,
	FailedVisible, ProducerOrder, KeyOrder, RealTimeOrder, EpochRegress, StaleEpochAck, HighWatermarkBack,
	ConsumerSkip, DeliveryDuplicate, AckedRedelivered, NotRedelivered, NeverDelivered,
}

// samplesMax bounds the findings kept per check; counts go on.
const samplesMax = 5

// Finding is one violation, with enough to look it up in the history.
type Finding struct {
	Check   Check        `json:"check"`
	Slot    history.Slot `json:"slot"`
	Offset  int64        `json:"offset"`
	Message string       `json:"message"`
}

// Verdict is what a read of a load showed.
type Verdict struct {
	Load string `json:"load"`
	Read string `json:"read"`

	Sent    int `json:"sent"`
	Acked   int `json:"acked"`
	Failed  int `json:"failed"`
	Unknown int `json:"unknown"`
	// UnknownVisible counts sends of unknown outcome that turned out written.
	UnknownVisible int `json:"unknown_visible"`
	InLog          int `json:"in_log"`
	Received       int `json:"received"`
	Partitions     int `json:"partitions"`
	// Extent per partition, "0..199"; with gaps "0..5,7..199".
	Extent map[string]string `json:"extent"`

	Counts   map[Check]int `json:"counts"`
	Findings []Finding     `json:"findings"`
}

// Violations is the sum over all checks.
func (v *Verdict) Violations() int {
	total := 0
	for _, n := range v.Counts {
		total += n
	}
	return total
}

// Judge judges one load of a history by its read with the given id. It returns
// an error only when there is no such read.
func Judge(h *history.History, load, readID string) (*Verdict, error) {
	own := h.Of(load)
	at := -1
	for i := range own.Reads {
		if own.Reads[i].ID == readID {
			at = i
		}
	}
	if at < 0 {
		return nil, fmt.Errorf("load %s has no read %s", load, readID)
	}
	j := &judge{
		h: own, read: &own.Reads[at], earlier: own.Reads[:at],
		v: &Verdict{Load: load, Read: readID, Counts: map[Check]int{}, Extent: map[string]string{}},
	}
	j.index()
	j.safety()
	j.delivery()
	sort.SliceStable(j.v.Findings, func(a, b int) bool {
		return rank(j.v.Findings[a].Check) < rank(j.v.Findings[b].Check)
	})
	return j.v, nil
}

func rank(c Check) int {
	for i, known := range Checks {
		if c == known {
			return i
		}
	}
	return len(Checks)
}

// judge holds the indexes of one judgement.
type judge struct {
	h       *history.History
	read    *history.Read
	earlier []history.Read
	v       *Verdict

	sends map[string]*history.Send // by uid
	marks map[history.Slot]history.Mark
	log   map[history.Slot][]*history.Receive // the read, by offset
	slots []history.Slot                      // sorted
}

func (j *judge) found(check Check, slot history.Slot, offset int64, format string, args ...any) {
	j.v.Counts[check]++
	if j.v.Counts[check] <= samplesMax {
		j.v.Findings = append(j.v.Findings, Finding{check, slot, offset, fmt.Sprintf(format, args...)})
	}
}

// index sorts the history into maps. Sends begun after the read ended are left
// out: nothing can be said of them.
func (j *judge) index() {
	j.sends = map[string]*history.Send{}
	j.marks = map[history.Slot]history.Mark{}
	j.log = map[history.Slot][]*history.Receive{}
	for _, m := range j.read.Marks {
		j.marks[m.Slot] = m
		j.slots = append(j.slots, m.Slot)
	}
	for i := range j.h.Sends {
		s := &j.h.Sends[i]
		if s.Call > j.read.End {
			continue
		}
		j.sends[s.UID] = s
		j.v.Sent++
		switch s.Outcome {
		case history.OK:
			if !j.later(s) {
				j.v.Acked++
			}
		case history.Failed:
			j.v.Failed++
		default:
			j.v.Unknown++
		}
	}
	for i := range j.read.Records {
		r := &j.read.Records[i]
		j.log[r.Slot] = append(j.log[r.Slot], r)
	}
	sort.Slice(j.slots, func(a, b int) bool { return slotLess(j.slots[a], j.slots[b]) })
	for _, records := range j.log {
		sort.SliceStable(records, func(a, b int) bool { return records[a].Offset < records[b].Offset })
	}
	j.v.Partitions, j.v.InLog, j.v.Received = len(j.slots), len(j.read.Records), len(j.h.Receives)
}

func slotLess(a, b history.Slot) bool {
	if a.Topic != b.Topic {
		return a.Topic < b.Topic
	}
	return a.Partition < b.Partition
}

func slotName(s history.Slot) string { return fmt.Sprintf("%s/%d", s.Topic, s.Partition) }
