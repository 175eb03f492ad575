package kafka

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ister-mq/ister/broker/internal/metadata"
	"github.com/ister-mq/ister/broker/internal/model"
	"github.com/ister-mq/ister/broker/internal/record"
	"github.com/ister-mq/ister/broker/internal/refusal"
)

// fakeCluster is a whole cluster in memory: one image and one log for each
// partition, served by as many listeners as it has nodes. Only a partition's
// leader answers for it. An append is committed at once, unless held.
type fakeCluster struct {
	mu      sync.Mutex
	im      *metadata.Image
	logs    map[model.Partition]*fakeLog
	changed chan struct{} // closed and replaced at each append and image change
	held    []func()      // done callbacks kept back while holding
	holding bool
	refuse  error // what every produce, fetch and offset query is refused with
	uuids   byte
	lastAck Acks
	count   int // produces seen
	polling int // fetches that wait
}

type fakeLog struct {
	batches [][]byte
	start   model.Offset
	end     model.Offset
	// produced has the batches of each producer by their first sequence.
	produced map[model.ProducerID]map[int32]model.Offset
}

// fakeNode is the Backend of one node.
type fakeNode struct {
	*fakeCluster
	id model.NodeID
}

// startCluster serves n nodes on free ports until the test ends. It returns the
// cluster and the nodes' addresses.
func startCluster(t testing.TB, n int, cfg Config) (*fakeCluster, []string) {
	t.Helper()
	f := &fakeCluster{im: metadata.Empty(), logs: map[model.Partition]*fakeLog{}, changed: make(chan struct{})}
	form := &metadata.FormCluster{Cluster: "8b2a4e51-3c9f-4b0e-9f1d-0a6f5e7c1d2b"}
	var addrs []string
	var listeners []net.Listener
	for i := range n {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		listeners = append(listeners, ln)
		addrs = append(addrs, ln.Addr().String())
		form.Nodes = append(form.Nodes, metadata.NewNode{
			ID: model.NodeID(i + 1), Incarnation: model.Incarnation(fmt.Sprint("incarnation-", i)), Rack: fmt.Sprint("rack-", i),
			Endpoints: metadata.Endpoints{Kafka: ln.Addr().String(), Admin: fmt.Sprint("a", i, ":1"), Raft: fmt.Sprint("r", i, ":1")},
		})
	}
	f.must(t, form)
	for _, node := range form.Nodes {
		r := f.must(t, &metadata.RegisterNode{ID: node.ID, Cluster: form.Cluster, Incarnation: node.Incarnation,
			Endpoints: node.Endpoints, Rack: node.Rack, Clean: true}).(*metadata.NodeResult)
		f.must(t, &metadata.UnfenceNode{ID: r.ID, Epoch: r.Epoch})
	}
	ctx, cancel := context.WithCancel(context.Background())
	var serving sync.WaitGroup
	for i, ln := range listeners {
		serving.Go(func() {
			if err := Serve(ctx, ln, &fakeNode{fakeCluster: f, id: model.NodeID(i + 1)}, cfg); err != nil {
				t.Errorf("Serve: %v", err)
			}
		})
	}
	t.Cleanup(func() {
		cancel()
		f.release()
		serving.Wait()
	})
	return f, addrs
}

func (f *fakeCluster) must(t testing.TB, cmd metadata.Command) any {
	t.Helper()
	r, err := f.Propose(context.Background(), cmd)
	if err != nil {
		t.Fatalf("propose %T: %v", cmd, err)
	}
	return r
}

// topic creates a topic with one replica, or more when nodes are given.
func (f *fakeCluster) topic(t testing.TB, name string, partitions int, nodes ...model.NodeID) *metadata.Topic {
	t.Helper()
	cmd := &metadata.CreateTopic{Name: topicName(f.image(), name), Partitions: partitions, Replicas: 1}
	if len(nodes) > 0 {
		cmd.Replicas = 0
		for range partitions {
			cmd.Assignment = append(cmd.Assignment, nodes)
		}
	}
	return f.must(t, cmd).(*metadata.TopicResult).Topic
}

// fill appends batches of 1 MiB to the first partition of a topic.
func (f *fakeCluster) fill(topic *metadata.Topic, batches int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	log := &fakeLog{produced: map[model.ProducerID]map[int32]model.Offset{}}
	f.logs[topic.Partitions[0].ID] = log
	b := batch(strings.Repeat("x", 1<<20))
	for range batches {
		log.append(b, 0) // clones it
	}
}

func (f *fakeCluster) image() *metadata.Image {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.im
}

// hold keeps the answers of produces back until release.
func (f *fakeCluster) hold() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.holding = true
}

// release answers held produces, the newest first, and holds no more.
func (f *fakeCluster) release() {
	f.mu.Lock()
	held := f.held
	f.held, f.holding = nil, false
	f.mu.Unlock()
	for i := len(held) - 1; i >= 0; i-- {
		held[i]()
	}
}

// waitHeld waits until n produces are held.
func (f *fakeCluster) waitHeld(t testing.TB, n int) {
	t.Helper()
	f.await(t, fmt.Sprint(n, " held produces"), func() bool { return len(f.held) >= n })
}

// await waits until a condition, which is looked at under mu, holds.
func (f *fakeCluster) await(t testing.TB, what string, holds func() bool) {
	t.Helper()
	deadline := time.After(10 * time.Second)
	for {
		f.mu.Lock()
		ok, changed := holds(), f.changed
		f.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-changed:
		case <-deadline:
			t.Fatalf("waited 10 s for %s", what)
		}
	}
}

func (f *fakeCluster) produces() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.count
}

func (f *fakeCluster) setRefusal(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refuse = err
}

func (f *fakeCluster) announce() {
	close(f.changed)
	f.changed = make(chan struct{})
}

func (f *fakeCluster) Propose(_ context.Context, cmd metadata.Command) (any, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	d, err := metadata.Decide(f.im, cmd, metadata.Env{Now: time.Unix(0, 0), NewUUID: func() [16]byte {
		f.uuids++
		return [16]byte{15: f.uuids}
	}})
	if err != nil {
		return nil, err
	}
	if len(d.Records) > 0 {
		im, ok := f.im.Apply(metadata.Batch{Base: f.im.Revision, Records: d.Records})
		if !ok {
			panic("stale base")
		}
		f.im = im
		f.announce()
	}
	return d.Result, nil
}

func (f *fakeCluster) AllocateProducerID(ctx context.Context) (model.ProducerID, error) {
	r, err := f.Propose(ctx, &metadata.AllocateProducers{Node: 1, Count: 1})
	if err != nil {
		return 0, err
	}
	return r.(*metadata.ProducersResult).First, nil
}

func (n *fakeNode) View() View { return View{Image: n.image(), Self: n.id, Controller: 1} }

// leading finds a partition's log, or says why this node does not answer for it.
// It needs mu.
func (n *fakeNode) leading(id model.Partition, known model.LeaderEpoch) (*fakeLog, *metadata.Partition, error) {
	if n.refuse != nil {
		return nil, nil, n.refuse
	}
	p := n.im.Partition(id)
	switch {
	case p == nil:
		return nil, nil, refusal.New(refusal.PartitionNotFound, id.String(), "no such partition", "")
	case known != model.NoEpoch && known < p.LeaderEpoch:
		return nil, nil, refusal.New(refusal.FencedLeaderEpoch, id.String(), "an older leader epoch", "")
	case known > p.LeaderEpoch:
		return nil, nil, refusal.New(refusal.UnknownLeaderEpoch, id.String(), "a newer leader epoch", "")
	case p.Leader != n.id:
		return nil, nil, refusal.New(refusal.NotLeader, id.String(), "another node leads", "")
	}
	if n.logs[id] == nil {
		n.logs[id] = &fakeLog{produced: map[model.ProducerID]map[int32]model.Offset{}}
	}
	return n.logs[id], p, nil
}

func (n *fakeNode) Produce(req *ProduceRequest, done func()) {
	n.mu.Lock()
	n.lastAck = req.Acks
	n.count++
	for i, part := range req.Partitions {
		log, p, err := n.leading(part.ID, model.NoEpoch)
		if err != nil {
			req.Results[i].Err = err
			continue
		}
		req.Results[i] = log.append(part.Batch.Bytes(), p.LeaderEpoch)
	}
	holding := n.holding
	if holding {
		n.held = append(n.held, done)
	}
	n.announce()
	n.mu.Unlock()
	if !holding {
		done()
	}
}

func (l *fakeLog) append(batch []byte, epoch model.LeaderEpoch) ProduceResult {
	h, err := record.Check(batch)
	if err != nil {
		return ProduceResult{Err: err}
	}
	r := ProduceResult{Base: l.end, LogStart: l.start}
	if h.Idempotent() {
		seen := l.produced[h.ProducerID]
		if seen == nil {
			seen = map[int32]model.Offset{}
			l.produced[h.ProducerID] = seen
		}
		if first, ok := seen[h.BaseSequence]; ok {
			r.Base = first
			return r
		}
		seen[h.BaseSequence] = l.end
	}
	record.Stamp(batch, l.end, epoch)
	l.batches = append(l.batches, bytes.Clone(batch))
	l.end += model.Offset(h.LastOffsetDelta) + 1
	return r
}

func (n *fakeNode) Fetch(ctx context.Context, req *FetchRequest) FetchResponse {
	wait := time.NewTimer(req.MaxWait)
	defer wait.Stop()
	counted := false
	for {
		n.mu.Lock()
		resp, total, failed := n.read(req)
		done := failed || total >= req.MinBytes
		if !done && !counted {
			counted = true
			n.polling++
			n.announce()
		}
		changed := n.changed
		n.mu.Unlock()
		if done {
			return resp
		}
		select {
		case <-changed:
		case <-wait.C:
			return resp
		case <-ctx.Done():
			return resp
		}
	}
}

func (n *fakeNode) read(req *FetchRequest) (resp FetchResponse, total int, failed bool) {
	for _, p := range req.Partitions {
		log, _, err := n.leading(p.ID, p.LeaderEpoch)
		if err != nil {
			resp.Partitions = append(resp.Partitions, FetchResult{Err: err})
			failed = true
			continue
		}
		r := FetchResult{HighWatermark: log.end, LogStart: log.start}
		if p.Offset < log.start || p.Offset > log.end {
			r.Err = refusal.New(refusal.OffsetOutOfRange, p.ID.String(), "not in the log", "")
			failed = true
		} else {
			r.Records = log.read(p.Offset, min(p.MaxBytes, req.MaxBytes-total), total == 0)
		}
		total += len(r.Records)
		resp.Partitions = append(resp.Partitions, r)
	}
	return resp, total, failed
}

func (l *fakeLog) read(from model.Offset, maxBytes int, atLeastOne bool) []byte {
	var out []byte
	for _, b := range l.batches {
		h, _, err := record.Parse(b)
		if err != nil {
			panic(err)
		}
		if h.LastOffset() < from {
			continue
		}
		if len(out)+len(b) > maxBytes && !(atLeastOne && len(out) == 0) {
			break
		}
		out = append(out, b...)
	}
	return out
}

func (n *fakeNode) ListOffsets(_ context.Context, queries []OffsetQuery) []OffsetAnswer {
	n.mu.Lock()
	defer n.mu.Unlock()
	out := make([]OffsetAnswer, len(queries))
	for i, q := range queries {
		log, p, err := n.leading(q.ID, q.LeaderEpoch)
		if err != nil {
			out[i].Err = err
			continue
		}
		out[i] = OffsetAnswer{Offset: -1, Timestamp: -1, LeaderEpoch: p.LeaderEpoch}
		switch q.Timestamp {
		case TimestampLatest:
			out[i].Offset = log.end
		case TimestampEarliest:
			out[i].Offset = log.start
		default:
			log.find(q.Timestamp, &out[i])
		}
	}
	return out
}

func (l *fakeLog) find(timestamp int64, out *OffsetAnswer) {
	for _, b := range l.batches {
		recs, err := record.Decode(b, 1<<20)
		if err != nil {
			panic(err)
		}
		h, _, _ := record.Parse(b)
		for i, r := range recs {
			better := timestamp == TimestampMax && r.Timestamp > out.Timestamp
			first := timestamp >= 0 && r.Timestamp >= timestamp && out.Offset < 0
			if better || first {
				out.Offset, out.Timestamp = h.BaseOffset+model.Offset(i), r.Timestamp
			}
		}
	}
}

func (n *fakeNode) OffsetForLeaderEpoch(_ context.Context, queries []EpochQuery) []EpochAnswer {
	n.mu.Lock()
	defer n.mu.Unlock()
	out := make([]EpochAnswer, len(queries))
	for i, q := range queries {
		log, p, err := n.leading(q.ID, q.CurrentEpoch)
		switch {
		case err != nil:
			out[i].Err = err
		case q.Epoch > p.LeaderEpoch:
			out[i] = EpochAnswer{Epoch: model.NoEpoch, End: -1}
		default:
			out[i] = EpochAnswer{Epoch: p.LeaderEpoch, End: log.end}
		}
	}
	return out
}
