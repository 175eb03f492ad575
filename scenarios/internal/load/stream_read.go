package load

import (
	"context"
	"fmt"
	"sort"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ister-mq/ister/scenarios/internal/history"
)

// streamReceive is what a fetched record of a stream tells.
func (s *Stream) receive(r *kgo.Record) history.Receive {
	rec := receiveOf(s.id, r)
	for _, h := range r.Headers {
		if h.Key == uidHeader {
			rec.UID = string(h.Value)
		}
	}
	rec.Key, rec.CRC = keyText(r, rec.UID), checksum(r)
	return rec
}

// Read reads every partition of the stream's topics from the start to the high
// watermark with a fresh client, and records it. drained says that every reader
// was given everything by now, which is then judged too.
func (s *Stream) Read(ctx context.Context, bootstrap []string, drained bool) (id string, kinds Kinds, err error) {
	if len(s.topics) == 0 {
		return "", kinds, fmt.Errorf("stream %s has sent nothing yet", s.id)
	}
	s.reads++
	read := history.Read{ID: fmt.Sprintf("%s-read-%d", s.id, s.reads), Load: s.id, Begin: s.recorder.Now(), Drained: drained}
	client, err := kgo.NewClient(clientOptions(bootstrap)...)
	if err != nil {
		return "", kinds, fmt.Errorf("make a reader: %w", err)
	}
	defer client.Close()
	if read.Marks, err = marksOf(ctx, client, s.topics); err != nil {
		return "", kinds, err
	}
	err = drain(ctx, client, s.id, read.Marks, func(r *kgo.Record) {
		kinds.look(r)
		read.Records = append(read.Records, s.receive(r))
	})
	if err != nil {
		return "", kinds, err
	}
	read.End = s.recorder.Now()
	s.recorder.Read(read)
	return read.ID, kinds, nil
}

// Where a reader begins that was never there before.
const (
	FromEarliest = "earliest"
	FromLatest   = "latest"
)

// Taken is what one Take gave.
type Taken struct {
	Received int64
	Resumed  bool  // the reader went on where it had ended
	First    int64 // smallest and largest offset received, -1 without any
	Last     int64
	Behind   int64 // records left up to the high watermark
}

// Take lets a reader of the stream, by name, receive up to most records (0: all)
// up to the high watermark, with a client of its own that is closed afterwards.
// The next Take of that reader goes on at the offset after the last one it
// received, as a consumer that keeps its position does.
func (s *Stream) Take(ctx context.Context, bootstrap []string, reader, from string, most int64) (Taken, error) {
	out := Taken{First: -1, Last: -1}
	client, err := kgo.NewClient(clientOptions(bootstrap)...)
	if err != nil {
		return out, fmt.Errorf("make a reader: %w", err)
	}
	defer client.Close()
	marks, err := marksOf(ctx, client, s.topics)
	if err != nil {
		return out, err
	}
	at, known := s.readers[reader]
	if !known {
		at = &position{next: map[history.Slot]int64{}, session: 1}
		s.readers[reader] = at
	}
	out.Resumed = known
	for i, m := range marks {
		next, placed := at.next[m.Slot]
		if !placed {
			next = m.From
			if from == FromLatest {
				next = m.HighWatermark
			}
			at.next[m.Slot] = next
		}
		marks[i].From = next
	}
	err = s.take(ctx, client, reader, at, marks, most, &out)
	for _, m := range marks {
		out.Behind += m.HighWatermark - at.next[m.Slot]
	}
	return out, err
}

func (s *Stream) take(ctx context.Context, client *kgo.Client, reader string, at *position, marks []history.Mark, most int64, out *Taken) error {
	bounded, stop := context.WithCancel(ctx)
	defer stop()
	err := drain(bounded, client, s.id, marks, func(r *kgo.Record) {
		if most > 0 && out.Received >= most {
			return
		}
		rec := s.receive(r)
		rec.Consumer, rec.Session = s.id+"-"+reader, at.session
		s.recorder.Receive(rec)
		at.next[rec.Slot] = r.Offset + 1
		if out.Received == 0 || r.Offset < out.First {
			out.First = r.Offset
		}
		out.Last = max(out.Last, r.Offset)
		if out.Received++; out.Received == most {
			stop()
		}
	})
	if most > 0 && out.Received == most && ctx.Err() == nil {
		return nil
	}
	return err
}

// Positions are where a reader goes on, in order of topics and partitions.
func (s *Stream) Positions(reader string) []int64 {
	at := s.readers[reader]
	if at == nil {
		return nil
	}
	slots := make([]history.Slot, 0, len(at.next))
	for slot := range at.next {
		slots = append(slots, slot)
	}
	sort.Slice(slots, func(a, b int) bool {
		if slots[a].Topic != slots[b].Topic {
			return slots[a].Topic < slots[b].Topic
		}
		return slots[a].Partition < slots[b].Partition
	})
	out := make([]int64, len(slots))
	for i, slot := range slots {
		out[i] = at.next[slot]
	}
	return out
}
