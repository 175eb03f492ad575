package broker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ister-mq/ister/admin/adminv1"
	"github.com/ister-mq/ister/admin/client"
)

// These tests run whole clusters in this process: real ports on 127.0.0.1, real
// files, real Kafka clients and the admin API. They wait for conditions only.

// testNode is one place of a cluster: its settings and ports outlive restarts.
type testNode struct {
	config Config
	broker *Broker
}

type testCluster struct {
	t     *testing.T
	nodes []*testNode
	admin *client.Client
}

// newTestCluster forms a cluster of n nodes and waits until all are ready.
func newTestCluster(t *testing.T, n int) *testCluster {
	t.Helper()
	c := &testCluster{t: t}
	dir := t.TempDir()
	ports := freePorts(t, 3*n)
	var seeds []string
	for i := range n {
		seeds = append(seeds, ports[3*i+2])
	}
	for i := range n {
		c.nodes = append(c.nodes, &testNode{config: testConfig(t, dir, i+1, ports[3*i:3*i+3], map[string]string{"seed-nodes": strings.Join(seeds, ",")})})
	}
	c.finish()
	var wait sync.WaitGroup
	for _, node := range c.nodes {
		wait.Add(1)
		go func() { defer wait.Done(); node.start(t) }()
	}
	wait.Wait()
	if t.Failed() {
		t.FailNow()
	}
	for _, node := range c.nodes {
		node.ready(t)
	}
	return c
}

func (c *testCluster) finish() {
	var endpoints []string
	for _, node := range c.nodes {
		endpoints = append(endpoints, node.config.AdminAddr)
	}
	admin, err := client.New(client.Options{Endpoints: endpoints, UnreachableFor: 10 * time.Second})
	if err != nil {
		c.t.Fatal(err)
	}
	c.admin = admin
	c.t.Cleanup(func() {
		admin.Close()
		for _, node := range c.nodes {
			node.kill()
		}
	})
}

func testConfig(t *testing.T, dir string, id int, ports []string, extra map[string]string) Config {
	t.Helper()
	values := map[string]string{
		"data-dir": filepath.Join(dir, fmt.Sprint("n", id)), "broker-addr": ports[0], "admin-addr": ports[1], "raft-addr": ports[2],
		"disk-reserve-bytes": "0", "retired-grace": "100ms",
	}
	for k, v := range extra {
		values[k] = v
	}
	config, err := Load(Sources{Flag: func(name string) (string, bool) { v, ok := values[name]; return v, ok }})
	if err != nil {
		t.Fatal(err)
	}
	return config
}

func freePorts(t *testing.T, n int) []string {
	t.Helper()
	out := make([]string, n)
	for i := range out {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		out[i] = l.Addr().String()
	}
	return out
}

// start starts the node. A port that another process took for a moment is tried
// again.
func (n *testNode) start(t *testing.T) {
	t.Helper()
	var w io.Writer = io.Discard
	if os.Getenv("ISTER_TEST_LOG") != "" {
		w = os.Stderr
	}
	logger := slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelDebug})).With("on", n.config.RaftAddr)
	eventually(t, "node starts", func() bool {
		b, err := New(n.config, Options{Version: "test", Logger: logger})
		if ExitStatus(err) == ExitAddressInUse {
			return false
		}
		if err != nil {
			t.Errorf("start node: %v", err)
			return true
		}
		n.broker = b
		return true
	})
}

func (n *testNode) ready(t *testing.T) {
	t.Helper()
	eventually(t, "node is ready", func() bool { ready, _ := n.broker.Ready(); return ready })
}

func (n *testNode) kill() {
	if n.broker != nil {
		n.broker.node.Kill()
		n.broker = nil
	}
}

func (n *testNode) stop(t *testing.T) {
	t.Helper()
	if err := n.broker.Stop(); err != nil {
		t.Errorf("stop: %v", err)
	}
	n.broker = nil
}

func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	deadline := time.NewTimer(30 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !condition() {
		select {
		case <-deadline.C:
			t.Fatalf("in vain: %s", what)
		case <-tick.C:
		}
	}
}

func (c *testCluster) bootstrap() []string {
	var out []string
	for _, n := range c.nodes {
		out = append(out, n.config.BrokerAddr)
	}
	return out
}

func (c *testCluster) context() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	c.t.Cleanup(cancel)
	return ctx
}

// topics creates reliable topics of one partition.
func (c *testCluster) topics(n int) []string {
	c.t.Helper()
	var names []string
	for i := range n {
		name := fmt.Sprint("t", i)
		if _, err := c.admin.Topics.CreateTopic(c.context(), &adminv1.CreateTopicRequest{Name: "/default/" + name, Partitions: 1}); err != nil {
			c.t.Fatal(err)
		}
		names = append(names, name)
	}
	return names
}

// wait follows an operation to its end.
func (c *testCluster) wait(op *adminv1.Operation) {
	c.t.Helper()
	if op == nil {
		return
	}
	done, err := c.admin.WaitOperation(c.context(), op.OperationId, nil)
	if err != nil || done.State != adminv1.Operation_SUCCEEDED {
		c.t.Fatalf("operation %v: %v", done, err)
	}
}

// leader is the node index that leads partition 0 of a topic, -1 for none.
func (c *testCluster) leader(topic string) int {
	for _, n := range c.nodes {
		if n.broker == nil {
			continue
		}
		im := n.broker.node.Image()
		t := im.TopicByKafkaName(topic)
		if t == nil || im.Nodes[t.Partitions[0].Leader] == nil {
			continue
		}
		address := im.Nodes[t.Partitions[0].Leader].Endpoints.Kafka
		for i, other := range c.nodes {
			if other.config.BrokerAddr == address {
				return i
			}
		}
	}
	return -1
}

// load is an idempotent producer that writes 0, 1, 2, ... to each topic and keeps
// what was acknowledged.
type load struct {
	t      *testing.T
	client *kgo.Client
	topics []string
	stop   chan struct{}
	ended  sync.WaitGroup

	mu    sync.Mutex
	acked map[string]map[int64]int // topic -> offset -> value
	sent  map[string]int
	last  time.Time
	gap   time.Duration // longest time without an acknowledgement
}

// startLoad begins; it returns once every topic has an acknowledgement.
func (c *testCluster) startLoad(topics []string) *load {
	c.t.Helper()
	producer, err := kgo.NewClient(kgo.SeedBrokers(c.bootstrap()...), kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0), kgo.MaxBufferedRecords(10_000),
		kgo.RetryBackoffFn(func(int) time.Duration { return 20 * time.Millisecond }), kgo.MetadataMinAge(10*time.Millisecond),
		kgo.RecordDeliveryTimeout(25*time.Second), kgo.ProduceRequestTimeout(5*time.Second),
		kgo.AlwaysRetryEOF()) // nodes end in the middle of handshakes here
	if err != nil {
		c.t.Fatal(err)
	}
	l := &load{t: c.t, client: producer, topics: topics, stop: make(chan struct{}), acked: map[string]map[int64]int{}, sent: map[string]int{}, last: time.Now()}
	for _, topic := range topics {
		l.acked[topic] = map[int64]int{}
		l.ended.Add(1)
		go l.run(topic)
	}
	l.progress()
	return l
}

// run sends one record after the other to a topic, a few in flight.
func (l *load) run(topic string) {
	defer l.ended.Done()
	slots := make(chan struct{}, 8)
	for value := 0; ; value++ {
		select {
		case <-l.stop:
			for range cap(slots) {
				slots <- struct{}{}
			}
			return
		case slots <- struct{}{}:
		}
		l.mu.Lock()
		l.sent[topic]++
		l.mu.Unlock()
		l.client.Produce(context.Background(), &kgo.Record{Topic: topic, Value: []byte(strconv.Itoa(value))}, func(r *kgo.Record, err error) {
			defer func() { <-slots }() // last: the end of the load waits for it
			l.mu.Lock()
			defer l.mu.Unlock()
			if err != nil {
				l.t.Errorf("produce %s to %s: %v", r.Value, topic, err)
				return
			}
			if before, taken := l.acked[topic][r.Offset]; taken {
				l.t.Errorf("%s: offset %d was acknowledged for %d and for %s", topic, r.Offset, before, r.Value)
			}
			l.acked[topic][r.Offset] = value
			l.gap = max(l.gap, time.Since(l.last))
			l.last = time.Now()
		})
	}
}

// progress waits until every topic has acknowledgements newer than now.
func (l *load) progress() {
	l.t.Helper()
	count := func() map[string]int {
		l.mu.Lock()
		defer l.mu.Unlock()
		out := map[string]int{}
		for _, topic := range l.topics {
			out[topic] = len(l.acked[topic])
		}
		return out
	}
	before := count()
	eventually(l.t, "the load goes on", func() bool {
		for topic, n := range count() {
			if n < before[topic]+20 {
				return false
			}
		}
		return true
	})
}

// finish ends the load and reads everything back: each topic must hold exactly
// what was acknowledged, at the acknowledged offsets, in order and without a gap.
func (l *load) finish(c *testCluster) {
	l.t.Helper()
	close(l.stop)
	l.ended.Wait()
	l.client.Close()
	for _, topic := range l.topics {
		values := c.read(topic, len(l.acked[topic]))
		if len(values) != len(l.acked[topic]) || len(values) != l.sent[topic] {
			l.t.Errorf("%s: %d sent, %d acknowledged, %d read", topic, l.sent[topic], len(l.acked[topic]), len(values))
		}
		for offset, value := range values {
			if value != offset || l.acked[topic][int64(offset)] != value {
				l.t.Fatalf("%s: offset %d holds %d, acknowledged was %d", topic, offset, value, l.acked[topic][int64(offset)])
			}
		}
	}
	l.t.Logf("longest time without an acknowledgement: %v", l.gap.Round(time.Millisecond))
}

// read reads partition 0 of a topic from its start until n values came, or the
// high watermark is reached by a fresh client.
func (c *testCluster) read(topic string, n int) []int {
	c.t.Helper()
	consumer, err := kgo.NewClient(kgo.SeedBrokers(c.bootstrap()...), kgo.FetchMaxWait(100*time.Millisecond), kgo.MetadataMinAge(10*time.Millisecond),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}}))
	if err != nil {
		c.t.Fatal(err)
	}
	defer consumer.Close()
	ctx := c.context()
	var out []int
	for {
		fetches := consumer.PollFetches(ctx)
		if err := fetches.Err0(); err != nil && !errors.Is(err, context.DeadlineExceeded) {
			c.t.Fatal(err)
		}
		end := int64(-1)
		fetches.EachPartition(func(p kgo.FetchTopicPartition) {
			end = max(end, p.HighWatermark)
			for _, r := range p.Records {
				if int(r.Offset) != len(out) {
					c.t.Fatalf("%s: offset %d follows %d", topic, r.Offset, len(out)-1)
				}
				value, err := strconv.Atoi(string(r.Value))
				if err != nil {
					c.t.Fatal(err)
				}
				out = append(out, value)
			}
		})
		if ctx.Err() != nil || len(out) >= n && int64(len(out)) >= end {
			return out
		}
	}
}
