package kafka

import (
	"context"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ister-mq/ister/broker/internal/metadata"
	"github.com/ister-mq/ister/broker/internal/model"
)

// fetchCall is a fetch request with its answer. Fetch sessions (KIP-227) are not
// kept: the answer's session id is 0, which tells clients to send every partition
// each time.
type fetchCall struct {
	wire  kmsg.FetchRequest // its strings alias the request
	parts []fetchPart       // of all topics, in order
	req   FetchRequest
	resp  FetchResponse
	code  int16 // of the whole answer
	view  View  // at its arrival
}

// fetchPart is one partition: req.Partitions[slot], or refused before (slot -1).
type fetchPart struct {
	slot int
	code int16
}

var fetchCalls = sync.Pool{New: func() any { return new(fetchCall) }}

func (f *fetchCall) recycle() {
	if f.resp.Release != nil {
		f.resp.Release()
	}
	*f = fetchCall{parts: f.parts[:0], req: FetchRequest{Partitions: f.req.Partitions[:0]}}
	fetchCalls.Put(f)
}

// startFetch starts the long poll and returns at once. A second fetch of the
// connection waits here until the answer to the first is written; meanwhile the
// reader does not see a client that hangs up, for Config.WaitMax at most.
func (c *connection) startFetch(ctx context.Context, k *call, body []byte) error {
	select {
	case c.fetchSlot <- struct{}{}:
		k.holdsFetchSlot = true
	case <-ctx.Done():
		c.finish(k)
		return ctx.Err()
	}
	f := fetchCalls.Get().(*fetchCall)
	k.fetch = f
	f.wire.SetVersion(k.header.version)
	if err := f.wire.UnsafeReadFrom(body); err != nil {
		defer c.finish(k)
		return c.refuse(k.header, "body is malformed")
	}
	f.view = c.backend.View()
	f.resolve(c.cfg)
	if len(f.req.Partitions) == 0 {
		return c.pushAnswered(ctx, k)
	}
	if err := c.push(ctx, k); err != nil {
		return err
	}
	c.fetches.Go(func() {
		f.resp = c.backend.Fetch(ctx, &f.req)
		c.queue.complete(k)
	})
	return nil
}

// resolve judges the request and each partition, and fills the backend's request.
func (f *fetchCall) resolve(cfg Config) {
	w := &f.wire
	if w.SessionID != 0 && w.SessionEpoch > 0 {
		// A session of a broker that was here before: the client then starts anew
		// with every partition.
		f.code = kerr.FetchSessionIDNotFound.Code
		w.Topics = nil
		return
	}
	f.req.MaxWait = min(time.Duration(max(0, w.MaxWaitMillis))*time.Millisecond, cfg.WaitMax)
	f.req.MinBytes = max(0, int(w.MinBytes))
	f.req.MaxBytes = min(max(0, int(w.MaxBytes)), cfg.FetchBytesMax)
	for i := range w.Topics {
		t := &w.Topics[i]
		topic, code := f.topic(t)
		for j := range t.Partitions {
			f.addPartition(topic, code, &t.Partitions[j])
		}
	}
}

// topic finds a requested topic, by id from version 13 on.
func (f *fetchCall) topic(t *kmsg.FetchRequestTopic) (*metadata.Topic, int16) {
	if f.wire.Version >= fetchTopicIDs {
		return f.view.Image.Topics[t.TopicID], kerr.UnknownTopicID.Code
	}
	return f.view.Image.TopicByKafkaName(t.Topic), kerr.UnknownTopicOrPartition.Code
}

// addPartition adds one partition; code is for a topic of nil. An error answers
// the whole fetch at once.
func (f *fetchCall) addPartition(topic *metadata.Topic, code int16, p *kmsg.FetchRequestTopicPartition) {
	part := fetchPart{slot: -1}
	switch {
	case topic == nil:
		part.code = code
	case p.Partition < 0 || int(p.Partition) >= len(topic.Partitions):
		part.code = kerr.UnknownTopicOrPartition.Code
	default:
		part.slot = len(f.req.Partitions)
		f.req.Partitions = append(f.req.Partitions, FetchPartition{
			ID:               model.Partition{Topic: topic.ID, Index: p.Partition},
			Offset:           model.Offset(p.FetchOffset),
			LeaderEpoch:      epoch(p.CurrentLeaderEpoch),
			LastFetchedEpoch: epoch(p.LastFetchedEpoch),
			MaxBytes:         max(0, int(p.PartitionMaxBytes)),
		})
	}
	if part.slot < 0 {
		f.req.MinBytes = 0
	}
	f.parts = append(f.parts, part)
}

// epoch reads a leader epoch; any negative number is none.
func epoch(e int32) model.LeaderEpoch { return model.LeaderEpoch(max(e, int32(model.NoEpoch))) }
