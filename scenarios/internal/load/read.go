package load

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"sync"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ister-mq/ister/scenarios/internal/history"
)

// receiveOf is what a fetched record tells.
func receiveOf(load string, r *kgo.Record) history.Receive {
	return history.Receive{
		Slot: history.Slot{Topic: r.Topic, Partition: r.Partition}, Load: load, Offset: r.Offset, UID: uidOf(r.Value), Key: string(r.Key),
		CRC: crc32.Checksum(r.Value, castagnoli), Epoch: r.LeaderEpoch, ProducerID: r.ProducerID, ProducerEpoch: r.ProducerEpoch,
	}
}

// follower is a reader that follows a load from the beginning, through every
// change of leader.
type follower struct {
	client   *kgo.Client
	recorder *history.Recorder
	load     string
	done     chan struct{}

	mu    sync.Mutex
	next  map[history.Slot]int64 // guarded by mu: the offset after the last one received
	moved chan struct{}          // guarded by mu: closed and replaced at each receive
}

func follow(config Config, recorder *history.Recorder) (*follower, error) {
	client, err := kgo.NewClient(append(clientOptions(config.Bootstrap), kgo.ConsumeTopics(config.Topics...),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))...)
	if err != nil {
		return nil, fmt.Errorf("make a reader: %w", err)
	}
	f := &follower{client: client, recorder: recorder, load: config.ID, done: make(chan struct{}), next: map[history.Slot]int64{}, moved: make(chan struct{})}
	go f.run()
	return f, nil
}

func (f *follower) run() {
	defer close(f.done)
	session := 1
	for {
		fetches := f.client.PollFetches(context.Background())
		if fetches.IsClientClosed() {
			return
		}
		// The client goes on after an error by itself. Where it had to reset its
		// position, offsets may jump, and the judge is told by a new session; an
		// ack that was lost with them still shows.
		fetches.EachError(func(_ string, _ int32, err error) {
			var loss *kgo.ErrDataLoss
			if errors.As(err, &loss) {
				session++
			}
		})
		f.mu.Lock()
		fetches.EachRecord(func(r *kgo.Record) {
			rec := receiveOf(f.load, r)
			rec.Consumer, rec.Session = f.load+"-reader", session
			f.recorder.Receive(rec)
			f.next[rec.Slot] = r.Offset + 1
		})
		close(f.moved)
		f.moved = make(chan struct{})
		f.mu.Unlock()
	}
}

// waitFor waits until everything below the marks was received.
func (f *follower) waitFor(ctx context.Context, marks []history.Mark) error {
	for {
		f.mu.Lock()
		moved, behind := f.moved, ""
		for _, m := range marks {
			if m.HighWatermark > m.From && f.next[m.Slot] < m.HighWatermark {
				behind = fmt.Sprintf("%s/%d is read to %d of %d", m.Topic, m.Partition, f.next[m.Slot], m.HighWatermark)
			}
		}
		f.mu.Unlock()
		if behind == "" {
			return nil
		}
		select {
		case <-moved:
		case <-f.done:
			return errors.New("the reader is closed")
		case <-ctx.Done():
			return fmt.Errorf("the reader of load %s: %s: %w", f.load, behind, ctx.Err())
		}
	}
}

func (f *follower) close() {
	f.client.Close()
	<-f.done
}

// Read reads every partition of the load from the start to the high watermark
// with a fresh client, and records it. After Stop the read is a drained one: the
// following reader must then have been given everything, for which it is waited
// until ctx ends. The id of the read is returned.
func (l *Load) Read(ctx context.Context, bootstrap []string) (string, error) {
	l.reads++
	read := history.Read{ID: fmt.Sprintf("%s-read-%d", l.config.ID, l.reads), Load: l.config.ID, Begin: l.recorder.Now()}
	client, err := kgo.NewClient(clientOptions(bootstrap)...)
	if err != nil {
		return "", fmt.Errorf("make a reader: %w", err)
	}
	defer client.Close()
	if read.Marks, err = marksOf(ctx, client, l.config.Topics); err != nil {
		return "", err
	}
	err = drain(ctx, client, l.config.ID, read.Marks, func(r *kgo.Record) { read.Records = append(read.Records, receiveOf(l.config.ID, r)) })
	if err != nil {
		return "", err
	}
	if l.stopped && l.follower != nil {
		read.Drained = true
		// One that is late is judged as it is: what it did not get shows there.
		_ = l.follower.waitFor(ctx, read.Marks)
	}
	read.End = l.recorder.Now()
	l.recorder.Read(read)
	return read.ID, nil
}

// marksOf asks for the extent of every partition until each has answered.
func marksOf(ctx context.Context, client *kgo.Client, topics []string) ([]history.Mark, error) {
	admin := kadm.NewClient(client)
	for attempt := 0; ; attempt++ {
		marks, err := tryMarks(ctx, admin, topics)
		if err == nil {
			return marks, nil
		}
		if waitErr := pause(ctx, attempt); waitErr != nil {
			return nil, fmt.Errorf("list offsets: %w", err)
		}
	}
}

func tryMarks(ctx context.Context, admin *kadm.Client, topics []string) ([]history.Mark, error) {
	starts, err := admin.ListStartOffsets(ctx, topics...)
	if err == nil {
		err = starts.Error()
	}
	if err != nil {
		return nil, err
	}
	ends, err := admin.ListEndOffsets(ctx, topics...)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return nil, err
	}
	var marks []history.Mark
	for _, topic := range topics {
		partitions := ends[topic]
		if len(partitions) == 0 {
			return nil, fmt.Errorf("topic %s has no partition in the answer", topic)
		}
		for p := range int32(len(partitions)) {
			start, ok := starts.Lookup(topic, p)
			end, found := ends.Lookup(topic, p)
			if !ok || !found {
				return nil, fmt.Errorf("partition %s/%d is not in the answer", topic, p)
			}
			marks = append(marks, history.Mark{Slot: history.Slot{Topic: topic, Partition: p}, From: start.Offset, HighWatermark: end.Offset})
		}
	}
	return marks, nil
}

// drain reads from each mark's start to its high watermark, and gives each record
// in between to take.
func drain(ctx context.Context, client *kgo.Client, load string, marks []history.Mark, take func(*kgo.Record)) error {
	assignment := map[string]map[int32]kgo.Offset{}
	end := map[history.Slot]int64{}
	for _, m := range marks {
		if m.HighWatermark == m.From {
			continue
		}
		if assignment[m.Topic] == nil {
			assignment[m.Topic] = map[int32]kgo.Offset{}
		}
		assignment[m.Topic][m.Partition] = kgo.NewOffset().At(m.From)
		end[m.Slot] = m.HighWatermark
	}
	client.AddConsumePartitions(assignment)
	for len(end) > 0 {
		fetches := client.PollFetches(ctx)
		if ctx.Err() != nil {
			return fmt.Errorf("read of load %s: %d partitions are not read to their high watermark: %w", load, len(end), ctx.Err())
		}
		fetches.EachRecord(func(r *kgo.Record) {
			slot := history.Slot{Topic: r.Topic, Partition: r.Partition}
			limit, open := end[slot]
			if open && r.Offset < limit {
				take(r)
			}
			if r.Offset >= limit-1 {
				delete(end, slot)
			}
		})
	}
	return nil
}
