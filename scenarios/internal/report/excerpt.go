package report

import (
	"fmt"
	"sort"

	"github.com/ister-mq/ister/scenarios/internal/history"
	"github.com/ister-mq/ister/scenarios/internal/verdict"
)

// The bounds of excerpts.
const (
	aroundOffsets = 2  // how far from a violation an excerpt goes
	entriesMax    = 60 // lines of one excerpt
	excerptsMax   = 40
)

// Excerpt is a violation with what the history has around it, in order of time.
type Excerpt struct {
	Message string
	Where   string // the partition
	Entries []Entry
	Left    int // entries left out
}

// Entry is one line of a history. Texts are empty where it has no such thing.
type Entry struct {
	At       string // seconds since the history began
	What     string
	UID, Key string
	Seq      string
	Offset   string
	Epoch    string
	Outcome  string
	Subject  bool // at the offset of the violation

	at int64
}

// violations judges every complete read again, and excerpts what it found.
func violations(h *history.History) (excerpts []Excerpt, left int, err error) {
	for i := range h.Reads {
		read := &h.Reads[i]
		v, err := verdict.Judge(h, read.Load, read.ID)
		if err != nil {
			return nil, 0, fmt.Errorf("judge for the report: %w", err)
		}
		for _, f := range v.Findings {
			if len(excerpts) == excerptsMax {
				left++
				continue
			}
			e := Excerpt{Message: fmt.Sprintf("%s: %s", f.Check, f.Message), Where: fmt.Sprintf("%s/%d, offsets %d to %d, as of %s", f.Slot.Topic, f.Slot.Partition, max(0, f.Offset-aroundOffsets), f.Offset+aroundOffsets, read.ID)}
			e.Entries, e.Left = around(h, read, f)
			excerpts = append(excerpts, e)
		}
	}
	return excerpts, left, nil
}

// around lists what the history has near a violation.
func around(h *history.History, read *history.Read, f verdict.Finding) (entries []Entry, left int) {
	near := func(s history.Slot, offset int64) bool {
		return s == f.Slot && offset >= f.Offset-aroundOffsets && offset <= f.Offset+aroundOffsets
	}
	for i := range h.Sends {
		if s := &h.Sends[i]; s.Load == read.Load && s.Outcome == history.OK && near(s.Slot, s.Offset) {
			entries = append(entries, entryOf(s), ackOf(s))
		}
	}
	for i := range h.Receives {
		if r := &h.Receives[i]; r.Load == read.Load && near(r.Slot, r.Offset) {
			entries = append(entries, received(r, r.At, "delivered to "+r.Consumer))
		}
	}
	found := map[int64]bool{}
	for i := range read.Records {
		if r := &read.Records[i]; near(r.Slot, r.Offset) {
			found[r.Offset] = true
			entries = append(entries, received(r, read.End, "read by "+read.ID))
		}
	}
	for _, m := range read.Marks {
		for offset := max(m.From, f.Offset-aroundOffsets); m.Slot == f.Slot && offset <= f.Offset+aroundOffsets && offset < m.HighWatermark; offset++ {
			if !found[offset] {
				entries = append(entries, Entry{at: read.End, At: stamp(read.End), What: "read by " + read.ID, Offset: fmt.Sprint(offset), Outcome: "no record here"})
			}
		}
	}
	sort.SliceStable(entries, func(a, b int) bool { return entries[a].at < entries[b].at })
	for i := range entries {
		entries[i].Subject = entries[i].Offset == fmt.Sprint(f.Offset)
	}
	if len(entries) > entriesMax {
		left, entries = len(entries)-entriesMax, entries[:entriesMax]
	}
	return entries, left
}

func stamp(at int64) string { return fmt.Sprintf("%.4f", float64(at)/1e9) }

func known(n int32) string {
	if n < 0 {
		return ""
	}
	return fmt.Sprint(n)
}

// entryOf is the call of a send.
func entryOf(s *history.Send) Entry {
	return Entry{at: s.Call, At: stamp(s.Call), What: "send by " + s.Producer, UID: s.UID, Key: s.Key, Seq: fmt.Sprint(s.Seq)}
}

// ackOf is the answer to a send.
func ackOf(s *history.Send) Entry {
	e := entryOf(s)
	e.at, e.At, e.What, e.Offset, e.Epoch = s.Return, stamp(s.Return), "answer", fmt.Sprint(s.Offset), known(s.Epoch)
	e.Outcome = fmt.Sprintf("%s after %s", s.Outcome, duration(float64(s.Return-s.Call)/1e6))
	if s.Broker >= 0 {
		e.What = fmt.Sprintf("answer of node %d", s.Broker)
	}
	return e
}

func received(r *history.Receive, at int64, what string) Entry {
	return Entry{at: at, At: stamp(at), What: what, UID: r.UID, Key: r.Key, Offset: fmt.Sprint(r.Offset), Epoch: known(r.Epoch)}
}

// unanswered are sends of unknown outcome, with what the reads say of them.
func unanswered(h *history.History) (entries []Entry, left int) {
	open := map[string]int{} // entry by uid
	for i := range h.Sends {
		s := &h.Sends[i]
		if s.Outcome != history.Unknown && s.Outcome != history.Pending {
			continue
		}
		if len(entries) == unansweredMax {
			left++
			continue
		}
		e := entryOf(s)
		e.What = fmt.Sprintf("send by %s to %s", s.Producer, s.Topic)
		e.Outcome = "in no read"
		if s.Return > s.Call {
			e.Outcome = "given up after " + duration(float64(s.Return-s.Call)/1e6) + "; in no read"
		}
		if s.Error != "" {
			e.Outcome += ": " + s.Error
		}
		open[s.UID] = len(entries)
		entries = append(entries, e)
	}
	for i := range h.Reads {
		for k := range h.Reads[i].Records {
			r := &h.Reads[i].Records[k]
			if at, ok := open[r.UID]; ok {
				entries[at].Offset, entries[at].Epoch, entries[at].Outcome = fmt.Sprint(r.Offset), known(r.Epoch), "written after all, as "+h.Reads[i].ID+" saw"
			}
		}
	}
	return entries, left
}
