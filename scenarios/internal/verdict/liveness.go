package verdict

import (
	"sort"

	"github.com/ister-mq/ister/scenarios/internal/history"
)

// Window tells how a load fared between two instants. Times are in ms.
type Window struct {
	StartNS, EndNS int64

	Sent  int `json:"sent"`  // sends begun in the window
	Acked int `json:"acked"` // sends acknowledged in the window
	// InFlight counts sends whose call or wait overlapped the window.
	InFlight int `json:"in_flight"`
	// AckedBefore and AckedAfter count acknowledged sends that ended before, and
	// began after it.
	AckedBefore int `json:"acked_before"`
	AckedAfter  int `json:"acked_after"`
	// ProduceGapMS is the longest time, on any partition, in which a send waited
	// and none was acknowledged, within the window and SettleNS after it.
	ProduceGapMS float64 `json:"produce_gap_ms"`
	// ConsumeGapMS is the longest time between a record's ack and its delivery.
	ConsumeGapMS float64 `json:"consume_gap_ms"`
	P50MS        float64 `json:"p50_ms"`
	P99MS        float64 `json:"p99_ms"`
	P999MS       float64 `json:"p999_ms"`
	Errors       int     `json:"errors"` // sends that ended without an ack
}

const millisecond = 1e6

// Observe measures the window [start, end] of one load; gaps are looked for
// until end+settle. end 0 stands for the end of the history.
func Observe(h *history.History, load string, start, end, settle int64) Window {
	own := h.Of(load)
	if end == 0 {
		end = lastInstant(own)
	}
	w := Window{StartNS: start, EndNS: end}
	var latencies []float64
	bySlot := map[history.Slot][]*history.Send{}
	for i := range own.Sends {
		s := &own.Sends[i]
		ended := s.Return
		if s.Outcome == history.Pending {
			ended = lastInstant(own)
		}
		overlaps := s.Call <= end && ended >= start
		if overlaps {
			w.InFlight++
		}
		if s.Call >= start && s.Call <= end {
			w.Sent++
		}
		if s.Outcome == history.OK {
			bySlot[s.Slot] = append(bySlot[s.Slot], s)
			if s.Return >= start && s.Return <= end {
				w.Acked++
			}
			if s.Return < start {
				w.AckedBefore++
			}
			if s.Call > end {
				w.AckedAfter++
			}
			if overlaps {
				latencies = append(latencies, float64(s.Return-s.Call)/millisecond)
			}
		} else if overlaps && s.Outcome != history.Pending {
			w.Errors++
		}
	}
	for _, sends := range bySlot {
		w.ProduceGapMS = max(w.ProduceGapMS, produceGap(sends, start, end+settle))
	}
	w.ConsumeGapMS = consumeGap(own, start, end+settle)
	sort.Float64s(latencies)
	w.P50MS, w.P99MS, w.P999MS = quantile(latencies, 0.50), quantile(latencies, 0.99), quantile(latencies, 0.999)
	return w
}

func lastInstant(h *history.History) int64 {
	last := int64(0)
	for i := range h.Sends {
		last = max(last, h.Sends[i].Call, h.Sends[i].Return)
	}
	return last
}

// produceGap finds the longest wait between two acks of one partition while a
// send was outstanding. Sends still outstanding do not count; they show as such.
func produceGap(sends []*history.Send, from, to int64) float64 {
	sort.Slice(sends, func(a, b int) bool { return sendLess(sends[a].Return, sends[b].Return, sends[a], sends[b]) })
	// earliest[i] is the earliest call among sends that returned at i or later.
	earliest := make([]int64, len(sends))
	for i := len(sends) - 1; i >= 0; i-- {
		earliest[i] = sends[i].Call
		if i+1 < len(sends) {
			earliest[i] = min(earliest[i], earliest[i+1])
		}
	}
	longest, before := int64(0), int64(0)
	for i, s := range sends {
		waitedFrom := max(before, earliest[i])
		before = s.Return
		if s.Return < from || waitedFrom > to {
			continue
		}
		longest = max(longest, s.Return-waitedFrom)
	}
	return float64(longest) / millisecond
}

// consumeGap finds the longest time from an ack to the first delivery of its
// record to a plain reader.
func consumeGap(h *history.History, from, to int64) float64 {
	ackedAt := map[place]int64{}
	for i := range h.Sends {
		if s := &h.Sends[i]; s.Outcome == history.OK && s.Return >= from && s.Return <= to {
			ackedAt[place{s.Slot, s.Offset}] = s.Return
		}
	}
	longest := int64(0)
	for i := range h.Receives {
		r := &h.Receives[i]
		at := place{r.Slot, r.Offset}
		if acked, ok := ackedAt[at]; ok && r.Subscription == "" {
			longest = max(longest, r.At-acked)
			delete(ackedAt, at)
		}
	}
	return float64(longest) / millisecond
}

// quantile is the nearest-rank quantile of sorted values; 0 of none.
func quantile(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	i := int(q * float64(len(sorted)))
	return sorted[min(i, len(sorted)-1)]
}

// Baseline is the window from a load's first send to the first disturbance after
// it, or to the end of the history when there was none.
func Baseline(h *history.History, load string) Window {
	own := h.Of(load)
	first, end := lastInstant(own), lastInstant(own)
	for i := range own.Sends {
		first = min(first, own.Sends[i].Call)
	}
	for _, d := range own.Disturbances {
		if d.Start > first {
			end = min(end, d.Start)
		}
	}
	return Observe(h, load, first, end, 0)
}
