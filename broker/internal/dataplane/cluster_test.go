package dataplane

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ister-mq/ister/broker/internal/kafka"
	"github.com/ister-mq/ister/broker/internal/metadata"
	"github.com/ister-mq/ister/broker/internal/model"
	"github.com/ister-mq/ister/broker/internal/peer"
	"github.com/ister-mq/ister/broker/internal/record"
	"github.com/ister-mq/ister/broker/internal/refusal"
	"github.com/ister-mq/ister/broker/internal/vfs"
)

// quorum stands in for raft: one image, one writer, every node sees each change
// at once. Decide and Apply are the real ones.
type quorum struct {
	t  testing.TB
	mu sync.Mutex
	im *metadata.Image
	on []func(old, new *metadata.Image)
}

func (q *quorum) image() *metadata.Image {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.im
}

func (q *quorum) propose(cmd metadata.Command) (any, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	d, err := metadata.Decide(q.im, cmd, metadata.Env{Now: time.Now(), NewUUID: func() (b [16]byte) { rand.Read(b[:]); return b }})
	if err != nil || len(d.Records) == 0 {
		return d.Result, err
	}
	next, ok := q.im.Apply(metadata.Batch{Base: q.im.Revision, Records: d.Records})
	if !ok {
		return nil, errors.New("stale batch")
	}
	old := q.im
	q.im = next
	for _, f := range q.on {
		f(old, next)
	}
	return d.Result, nil
}

func (q *quorum) must(cmd metadata.Command) any {
	q.t.Helper()
	result, err := q.propose(cmd)
	if err != nil {
		q.t.Fatalf("%T: %v", cmd, err)
	}
	return result
}

// testNode is one node of a test cluster. Its disk outlives its planes.
type testNode struct {
	q        *quorum
	id       model.NodeID
	fs       *vfs.Faulty
	memory   *vfs.Memory
	cfg      Config
	epoch    model.NodeEpoch
	lease    atomic.Bool
	listener net.Listener
	endpoint *peer.Endpoint
	plane    *Plane
}

func (m *testNode) Image() *metadata.Image { return m.q.image() }
func (m *testNode) OnImage(f func(old, new *metadata.Image)) {
	m.q.mu.Lock()
	defer m.q.mu.Unlock()
	m.q.on = append(m.q.on, f)
	f(nil, m.q.im)
}
func (m *testNode) Propose(_ context.Context, cmd metadata.Command) (any, error) {
	return m.q.propose(cmd)
}
func (m *testNode) Self() (model.NodeID, model.NodeEpoch) { return m.id, m.epoch }
func (m *testNode) LeaseValid() bool                      { return m.lease.Load() }
func (m *testNode) Controller() (model.NodeID, bool)      { return 1, true }

// cluster is n nodes with real planes, logs in memory and real connections.
type cluster struct {
	*quorum
	nodes []*testNode // nodes[i] has id i+1
}

const testCluster = model.ClusterID("test-cluster")

func newCluster(t testing.TB, n int, change func(*Config)) *cluster {
	t.Helper()
	c := &cluster{quorum: &quorum{t: t, im: metadata.Empty()}}
	form := &metadata.FormCluster{Cluster: testCluster}
	for i := range n {
		m := c.newMember(i+1, change)
		form.Nodes = append(form.Nodes, m.asNew())
	}
	c.must(form)
	for _, m := range c.nodes {
		c.start(m, false)
	}
	t.Cleanup(func() {
		for _, m := range c.nodes {
			c.stop(m)
		}
	})
	return c
}

func (c *cluster) newMember(id int, change func(*Config)) *testNode {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		c.t.Fatal(err)
	}
	memory := vfs.NewMemory()
	m := &testNode{q: c.quorum, id: model.NodeID(id), memory: memory, fs: vfs.NewFaulty(memory), listener: l}
	m.lease.Store(true)
	m.cfg = Config{FS: m.fs, Dir: "/data", FetchWait: 50 * time.Millisecond, LagMax: 300 * time.Millisecond}
	if os.Getenv("ISTER_TEST_LOG") != "" {
		m.cfg.Logger = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug})).With("on", id)
	}
	if change != nil {
		change(&m.cfg)
	}
	c.nodes = append(c.nodes, m)
	return m
}

func (m *testNode) asNew() metadata.NewNode {
	address := m.listener.Addr().String()
	return metadata.NewNode{
		ID: m.id, Incarnation: model.Incarnation(fmt.Sprintf("incarnation-%d", m.id)),
		Endpoints: metadata.Endpoints{Kafka: fmt.Sprintf("kafka-%d:1", m.id), Admin: fmt.Sprintf("admin-%d:1", m.id), Raft: address},
	}
}

// start opens the plane, registers and unfences.
func (c *cluster) start(m *testNode, clean bool) {
	c.t.Helper()
	if m.listener == nil {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			c.t.Fatal(err)
		}
		m.listener = l
	}
	plane, err := Open(m.cfg)
	if err != nil {
		c.t.Fatal(err)
	}
	if plane.Clean() != clean {
		c.t.Fatalf("node %d: clean marker %v, want %v", m.id, plane.Clean(), clean)
	}
	n := m.asNew()
	result := c.must(&metadata.RegisterNode{ID: m.id, Cluster: testCluster, Incarnation: n.Incarnation, Endpoints: n.Endpoints, Clean: clean}).(*metadata.NodeResult)
	m.epoch, m.plane = result.Epoch, plane
	m.endpoint = peer.New(peer.Config{Listener: m.listener, Logger: slog.New(slog.DiscardHandler)})
	m.endpoint.SetIdentity(peer.Identity{Cluster: testCluster, Node: m.id, Incarnation: n.Incarnation, Epoch: m.epoch})
	m.endpoint.HandleFetch(plane)
	m.endpoint.Start()
	plane.Run(m, m.endpoint)
	c.must(&metadata.UnfenceNode{ID: m.id, Epoch: m.epoch})
	eventually(c.t, "node opens its replicas", plane.Ready)
}

// stop ends a node in order.
func (c *cluster) stop(m *testNode) {
	if m.plane == nil {
		return
	}
	m.plane.FailWaiters()
	m.endpoint.Close()
	if err := m.plane.Close(); err != nil {
		c.t.Errorf("close node %d: %v", m.id, err)
	}
	m.plane, m.listener = nil, nil
}

// crash ends a node at once and fences it; what its disk had not synced may be
// gone, by the seed.
func (c *cluster) crash(m *testNode, seed uint64) {
	c.cutPower(m, seed)
	c.must(&metadata.FenceNode{ID: m.id, Epoch: m.epoch, Reason: "crashed"})
}

// cutPower is a crash that nobody lives to see.
func (c *cluster) cutPower(m *testNode, seed uint64) {
	m.plane.FailWaiters()
	m.endpoint.Close()
	m.plane.Abandon()
	m.plane, m.listener = nil, nil
	m.memory = m.memory.CrashClone(seed)
	m.fs = vfs.NewFaulty(m.memory)
	m.cfg.FS = m.fs
}

// topic makes a topic with one partition on the given nodes and waits for it.
func (c *cluster) topic(name string, config map[string]string, nodes ...model.NodeID) model.Partition {
	c.t.Helper()
	result := c.must(&metadata.CreateTopic{
		Name: model.TopicName{Namespace: "default", Topic: name}, Config: config, Assignment: [][]model.NodeID{nodes},
	}).(*metadata.TopicResult)
	id := model.Partition{Topic: result.Topic.ID}
	eventually(c.t, "leader serves", func() bool {
		l := c.leader(id).plane.local(id)
		return l != nil && l.leads.Load()
	})
	return id
}

func (c *cluster) leader(id model.Partition) *testNode {
	c.t.Helper()
	p := c.image().Partition(id)
	if p == nil || p.Leader == model.NoNode {
		c.t.Fatalf("%s has no leader", id)
	}
	return c.nodes[p.Leader-1]
}

// isr waits for the ISR to be exactly the given nodes.
func (c *cluster) isr(id model.Partition, nodes ...model.NodeID) {
	c.t.Helper()
	eventually(c.t, fmt.Sprintf("isr is %v", nodes), func() bool {
		got := c.image().Partition(id).ISR
		if len(got) != len(nodes) {
			return false
		}
		for _, n := range nodes {
			if !model.HasNode(got, n) {
				return false
			}
		}
		return true
	})
}

// elect hands a partition over, once the target is in sync, and waits until it
// leads.
func (c *cluster) elect(id model.Partition, to model.NodeID) {
	c.t.Helper()
	eventually(c.t, fmt.Sprintf("node %d is elected", to), func() bool {
		result := c.must(&metadata.ElectLeaders{Elections: []metadata.Election{{Partition: id, Leader: to}}}).(*metadata.ElectResult)
		return result.Refusals[0] == "" || c.image().Partition(id).Leader == to
	})
	eventually(c.t, "the new leader leads", func() bool { return c.nodes[to-1].plane.local(id).leads.Load() })
}

// produce sends one batch and waits for the answer.
func (m *testNode) produce(id model.Partition, acks kafka.Acks, batch record.Checked) kafka.ProduceResult {
	return <-m.produceLater(id, acks, 10*time.Second, batch)
}

func (m *testNode) produceLater(id model.Partition, acks kafka.Acks, timeout time.Duration, batch record.Checked) chan kafka.ProduceResult {
	request := &kafka.ProduceRequest{
		Acks: acks, Timeout: timeout,
		Partitions: []kafka.ProducePartition{{ID: id, Batch: batch}}, Results: make([]kafka.ProduceResult, 1),
	}
	out := make(chan kafka.ProduceResult, 1)
	m.plane.Produce(request, func() { out <- request.Results[0] })
	return out
}

// must produces and returns the base offset.
func (c *cluster) send(id model.Partition, values ...string) model.Offset {
	c.t.Helper()
	result := c.leader(id).produce(id, kafka.AcksAll, batch(values...))
	if result.Err != nil {
		c.t.Fatalf("produce: %v", result.Err)
	}
	return result.Base
}

func batch(values ...string) record.Checked {
	recs := make([]record.Rec, len(values))
	for i, v := range values {
		recs[i] = record.Rec{Timestamp: time.Now().UnixMilli(), Value: []byte(v)}
	}
	return checked(record.Build(record.BuildOptions{}, recs...))
}

// checked is a batch as the edge hands it on.
func checked(b []byte) record.Checked {
	out, err := record.CheckProduce(b)
	if err != nil {
		panic(err)
	}
	return out
}

// values reads a partition on a node from an offset, as a consumer would.
func (m *testNode) values(t *testing.T, id model.Partition, from model.Offset) []string {
	t.Helper()
	var out []string
	for {
		response := m.plane.Fetch(context.Background(), &kafka.FetchRequest{MaxBytes: 1 << 20, Partitions: []kafka.FetchPartition{{
			ID: id, Offset: from, LeaderEpoch: model.NoEpoch, LastFetchedEpoch: model.NoEpoch, MaxBytes: 1 << 20,
		}}})
		part := response.Partitions[0]
		if part.Err != nil {
			t.Fatalf("fetch at %d: %v", from, part.Err)
		}
		if len(part.Records) == 0 {
			return out
		}
		for rest := part.Records; len(rest) > 0; {
			one, more, h, err := record.Next(rest)
			if err != nil {
				t.Fatal(err)
			}
			recs, err := record.Decode(one, 1<<20)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range recs {
				out = append(out, string(r.Value))
			}
			rest, from = more, h.NextOffset()
		}
	}
}

// eventually waits for a condition.
func eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	deadline := time.NewTimer(15 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !condition() {
		select {
		case <-deadline.C:
			t.Fatalf("in vain: %s", what)
		case <-tick.C:
		}
	}
}

func wantRefusal(t *testing.T, err error, reason refusal.Reason) {
	t.Helper()
	if !refusal.Is(err, reason) {
		t.Fatalf("got %v, want %s", err, reason)
	}
}
