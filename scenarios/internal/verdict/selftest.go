package verdict

import (
	"fmt"

	"github.com/ister-mq/ister/scenarios/internal/history"
)

// LegalHistories is how many legal histories the self-test judges.
const LegalHistories = 2000

// SelfTestRow is one planted anomaly, and whether it was caught.
type SelfTestRow struct {
	Anomaly string `json:"anomaly"`
	Want    string `json:"want"` // the check, or the measure, that must tell
	Caught  bool   `json:"caught"`
	Got     string `json:"got"`
}

// SelfTestResult is what the self-test found.
type SelfTestResult struct {
	Rows        []SelfTestRow `json:"rows"`
	Legal       int           `json:"legal"`
	FalseAlarms []string      `json:"false_alarms"` // seed and first finding
	// ClientDuplicates told apart in the legal histories.
	ClientDuplicates int `json:"client_duplicates"`
}

// Passed reports that every anomaly was caught and no legal history raised an
// alarm.
func (r SelfTestResult) Passed() bool {
	for _, row := range r.Rows {
		if !row.Caught {
			return false
		}
	}
	return len(r.FalseAlarms) == 0 && r.Legal > 0
}

// SelfTest plants every anomaly into a good history, and judges legal histories
// of so many seeds.
func SelfTest(legal int) SelfTestResult {
	result := SelfTestResult{Legal: legal}
	for _, a := range anomalies {
		result.Rows = append(result.Rows, a.try())
	}
	for seed := range legal {
		v, err := Judge(Legal(uint64(seed)), legalLoad, legalRead)
		if err != nil {
			result.FalseAlarms = append(result.FalseAlarms, fmt.Sprintf("seed %d: %v", seed, err))
			continue
		}
		result.ClientDuplicates += v.Counts[ClientDuplicate]
		if alarms := v.Violations() - v.Counts[ClientDuplicate]; alarms > 0 {
			result.FalseAlarms = append(result.FalseAlarms, fmt.Sprintf("seed %d: %s: %s", seed, v.Findings[0].Check, v.Findings[0].Message))
		}
	}
	return result
}

// anomaly is one way in which a history can be wrong. plant changes a good
// history; want is the check that must tell. not, when set, must stay silent.
type anomaly struct {
	name  string
	want  Check
	not   Check
	plant func(*specimen)
}

func (a anomaly) try() SelfTestRow {
	s := newSpecimen()
	a.plant(s)
	v, err := Judge(s.h, legalLoad, legalRead)
	if err != nil {
		return SelfTestRow{a.name, string(a.want), false, err.Error()}
	}
	row := SelfTestRow{Anomaly: a.name, Want: string(a.want), Caught: v.Counts[a.want] > 0 && (a.not == "" || v.Counts[a.not] == 0)}
	for _, c := range Checks {
		if v.Counts[c] > 0 {
			row.Got += fmt.Sprintf("%s=%d ", c, v.Counts[c])
		}
	}
	if a.want == "" {
		row = a.measured(s.h)
	}
	return row
}

// measured judges the anomalies that are no violation but a measure: a stall,
// and a run in which nothing was tested.
func (a anomaly) measured(h *history.History) SelfTestRow {
	d := h.Disturbances[0]
	w := Observe(h, legalLoad, d.Start, d.End, int64(1000*millisecond))
	row := SelfTestRow{Anomaly: a.name, Want: "produce_gap_ms >= 30000", Got: fmt.Sprintf("produce_gap_ms=%.0f in_flight=%d", w.ProduceGapMS, w.InFlight), Caught: w.ProduceGapMS >= 30000}
	if a.name == noTraffic {
		row.Want, row.Caught = "in_flight == 0", w.InFlight == 0
	}
	return row
}

const noTraffic = "no traffic during the move"

// specimen is a small good history with known contents: one partition, 12
// records by one producer under keys a and b, acknowledged in order, read by a
// plain reader and a subscription. u-unknown was not written, u-failed was
// refused. The disturbance overlaps the sends 5 and 6.
type specimen struct{ h *history.History }

var specimenSlot = history.Slot{Topic: "t", Partition: 0}

func newSpecimen() *specimen {
	h := &history.History{}
	s := &specimen{h}
	ms := int64(millisecond)
	final := history.Read{ID: legalRead, Load: legalLoad, Begin: 1000 * ms, End: 1010 * ms, Drained: true}
	middle := history.Read{ID: "middle", Load: legalLoad, Begin: 44 * ms, End: 46 * ms}
	for i := range int64(12) {
		send := history.Send{
			Slot: specimenSlot, Load: legalLoad, Producer: "p", UID: fmt.Sprintf("u%d", i), Key: string(rune('a' + i%2)), Seq: i, CRC: uint32(100 + i),
			Call: 10 * i * ms, Return: (10*i + 5) * ms, Outcome: history.OK, Offset: i, Epoch: int32(1 + i/6), Broker: 1, Idempotent: true,
		}
		r := history.Receive{Slot: specimenSlot, Load: legalLoad, Offset: i, UID: send.UID, Key: send.Key, CRC: send.CRC, Epoch: send.Epoch, ProducerID: 9}
		final.Records = append(final.Records, r)
		if i < 4 {
			middle.Records = append(middle.Records, r)
		}
		r.At = (10*i + 6) * ms
		r.Consumer, r.Session = "reader", 1
		h.Sends, h.Receives = append(h.Sends, send), append(h.Receives, r)
		r.Consumer, r.Subscription = "worker", "jobs"
		h.Receives = append(h.Receives, r)
		h.Acks = append(h.Acks, history.Ack{Slot: specimenSlot, Load: legalLoad, Consumer: "worker", Subscription: "jobs", Offset: i, At: r.At + ms})
	}
	for _, outcome := range []history.Outcome{history.Unknown, history.Failed} {
		h.Sends = append(h.Sends, history.Send{
			Slot: specimenSlot, Load: legalLoad, Producer: "q", UID: "u-" + string(outcome), Key: "q", Call: 20 * ms, Return: 25 * ms, Outcome: outcome,
			Offset: -1, Epoch: -1, Broker: -1, CRC: 7, Idempotent: true, Error: "planted",
		})
	}
	final.Marks = []history.Mark{{Slot: specimenSlot, HighWatermark: 12}}
	middle.Marks = []history.Mark{{Slot: specimenSlot, HighWatermark: 4}}
	h.Reads = []history.Read{middle, final}
	h.Disturbances = []history.Disturbance{{Step: "move", Kind: "topic.move", Start: 52 * ms, End: 63 * ms}}
	return s
}

func (s *specimen) final() *history.Read { return &s.h.Reads[1] }

// record and reader return what the final read and the plain reader have at an
// offset of the untouched specimen.
func (s *specimen) record(offset int) *history.Receive { return &s.final().Records[offset] }
func (s *specimen) reader(offset int) *history.Receive { return &s.h.Receives[2*offset] }

// add puts one more record at the end of the log, and gives it to the readers.
func (s *specimen) add(r history.Receive) {
	mark := &s.final().Marks[0]
	r.Offset, r.Epoch = mark.HighWatermark, 2
	mark.HighWatermark++
	s.final().Records = append(s.final().Records, r)
	r.At = int64(500 * millisecond)
	r.Consumer, r.Session, r.Subscription = "reader", 1, ""
	s.h.Receives = append(s.h.Receives, r)
	r.Consumer, r.Subscription = "worker", "jobs"
	s.h.Receives = append(s.h.Receives, r)
	s.h.Acks = append(s.h.Acks, history.Ack{Slot: r.Slot, Load: legalLoad, Consumer: "worker", Subscription: "jobs", Offset: r.Offset, At: r.At + 1})
}

// swap exchanges the places of two records everywhere: in the log, in what the
// readers got, and in the acks. Only the order is then wrong.
func (s *specimen) swap(a, b int) {
	exchange := func(x, y *history.Receive) {
		x.UID, y.UID, x.Key, y.Key, x.CRC, y.CRC = y.UID, x.UID, y.Key, x.Key, y.CRC, x.CRC
	}
	for i := range s.h.Reads {
		if records := s.h.Reads[i].Records; b < len(records) {
			exchange(&records[a], &records[b])
		}
	}
	exchange(&s.h.Receives[2*a], &s.h.Receives[2*b])
	exchange(&s.h.Receives[2*a+1], &s.h.Receives[2*b+1])
	s.h.Sends[a].Offset, s.h.Sends[b].Offset = s.h.Sends[b].Offset, s.h.Sends[a].Offset
}

func (s *specimen) sent(outcome history.Outcome) history.Receive {
	return history.Receive{Slot: specimenSlot, Load: legalLoad, UID: "u-" + string(outcome), Key: "q", CRC: 7, ProducerID: 10}
}

var anomalies = []anomaly{
	{"acked record lost", AckedLost, "", func(s *specimen) {
		s.final().Records = append(s.final().Records[:7:7], s.final().Records[8:]...)
	}},
	{"acked record lost at the end", AckedLost, OffsetGap, func(s *specimen) {
		s.final().Records, s.final().Marks[0].HighWatermark = s.final().Records[:11], 11
	}},
	{"acked record lost, its offset used again", AckedLost, OffsetGap, func(s *specimen) {
		r := s.sent(history.Unknown)
		r.Offset, r.Epoch = 7, 2
		*s.record(7) = r
	}},
	{"record at another offset than acknowledged", OffsetMismatch, "", func(s *specimen) { s.h.Sends[4].Offset = 3 }},
	{"one offset acknowledged twice", OffsetReused, "", func(s *specimen) { s.h.Sends[4].Offset = 3 }},
	{"two brokers disagree about a record", Divergence, "", func(s *specimen) { s.reader(5).UID = "u-unknown" }},
	{"a record was seen, and is gone", Divergence, "", func(s *specimen) {
		r := s.sent(history.Unknown)
		r.Offset, r.Consumer, r.Session, r.At = 12, "reader", 1, 1
		s.h.Receives = append(s.h.Receives, r)
	}},
	{"history rewritten between two reads", Divergence, "", func(s *specimen) { s.h.Reads[0].Records[2].UID = "u-unknown" }},
	{"log shorter than before", HighWatermarkBack, "", func(s *specimen) { s.h.Reads[0].Marks[0].HighWatermark = 13 }},
	{"offset skipped", OffsetGap, AckedLost, func(s *specimen) {
		for i := 8; i < 12; i++ {
			s.record(i).Offset++
			s.h.Sends[i].Offset++
		}
		s.final().Marks[0].HighWatermark++
	}},
	{"duplicate append on a retry", LogDuplicate, ClientDuplicate, func(s *specimen) { s.add(*s.record(11)) }},
	{"sent again by its client in a new epoch", ClientDuplicate, LogDuplicate, func(s *specimen) {
		r := *s.record(11)
		r.ProducerEpoch++
		s.add(r)
	}},
	{"phantom record", Phantom, "", func(s *specimen) {
		r := s.sent(history.Unknown)
		r.UID = "nobody"
		s.add(r)
	}},
	{"phantom delivery", Phantom, "", func(s *specimen) { s.reader(3).UID = "nobody" }},
	{"corrupt record", Corrupt, "", func(s *specimen) { s.record(3).CRC++ }},
	{"corrupt delivery", Corrupt, "", func(s *specimen) { s.reader(3).CRC++ }},
	{"refused send is visible", FailedVisible, "", func(s *specimen) { s.add(s.sent(history.Failed)) }},
	{"producer's records out of order", ProducerOrder, "", func(s *specimen) { s.swap(7, 8) }},
	{"key's records out of order", KeyOrder, "", func(s *specimen) { s.swap(7, 9) }},
	{"key on two partitions", KeyOrder, "", func(s *specimen) {
		other := history.Slot{Topic: "t", Partition: 1}
		s.final().Marks = append(s.final().Marks, history.Mark{Slot: other, HighWatermark: 1})
		r := *s.record(11)
		r.Slot, r.Offset = other, 0
		s.final().Records[11] = r
		s.h.Sends[11].Slot, s.h.Sends[11].Offset = other, 0
	}},
	{"real-time order broken", RealTimeOrder, ProducerOrder, func(s *specimen) {
		for i := range s.h.Sends[:12] { // another producer each, so that only time orders them
			s.h.Sends[i].Producer = fmt.Sprintf("p%d", i)
		}
		s.swap(7, 8)
	}},
	{"epoch goes back along the log", EpochRegress, "", func(s *specimen) { s.record(9).Epoch = 1 }},
	{"old owner acknowledges after the move", StaleEpochAck, "", func(s *specimen) { s.h.Sends[9].Epoch = 1 }},
	{"reader skips a record", ConsumerSkip, "", func(s *specimen) {
		s.h.Receives = append(s.h.Receives[:14:14], s.h.Receives[15:]...)
	}},
	{"record never delivered", NeverDelivered, "", func(s *specimen) {
		s.h.Receives = append(s.h.Receives[:22:22], s.h.Receives[23:]...)
	}},
	{"delivered twice without a mark", DeliveryDuplicate, "", func(s *specimen) {
		s.h.Receives = append(s.h.Receives, s.h.Receives[23])
	}},
	{"acknowledged and delivered again", AckedRedelivered, DeliveryDuplicate, func(s *specimen) {
		r := s.h.Receives[11]
		r.At, r.Redelivered = int64(900*millisecond), true
		s.h.Receives = append(s.h.Receives, r)
	}},
	{"not acknowledged and not delivered again", NotRedelivered, "", func(s *specimen) {
		s.h.Acks = append(s.h.Acks[:5:5], s.h.Acks[6:]...)
	}},
	{"rejected and not delivered again", NotRedelivered, "", func(s *specimen) { s.h.Acks[5].Nack = true }},
	{"stall of 30 s", "", "", func(s *specimen) {
		for i := 6; i < 12; i++ {
			s.h.Sends[i].Return += int64(30000 * millisecond)
		}
	}},
	{noTraffic, "", "", func(s *specimen) {
		s.h.Disturbances[0].Start, s.h.Disturbances[0].End = int64(200*millisecond), int64(300*millisecond)
	}},
}
