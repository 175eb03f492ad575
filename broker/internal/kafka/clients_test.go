package kafka

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ister-mq/ister/broker/internal/metadata"
	"github.com/ister-mq/ister/broker/internal/model"
	"github.com/ister-mq/ister/broker/internal/refusal"
)

// These tests drive Serve with franz-go, a real client.

func client(t *testing.T, addr string, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(addr), kgo.MetadataMinAge(10 * time.Millisecond),
		kgo.RetryBackoffFn(func(int) time.Duration { return 5 * time.Millisecond })}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

func testContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// consume reads n records from the start of a topic's partitions.
func consume(t *testing.T, cl *kgo.Client, n int) []*kgo.Record {
	t.Helper()
	ctx := testContext(t)
	var out []*kgo.Record
	for len(out) < n {
		fetches := cl.PollFetches(ctx)
		if errs := fetches.Errors(); len(errs) > 0 {
			t.Fatalf("poll after %d of %d records: %v", len(out), n, errs)
		}
		out = append(out, fetches.Records()...)
	}
	return out
}

func TestProduceAndConsumeWithEveryCodec(t *testing.T) {
	f, addrs := startCluster(t, 1, Config{})
	codecs := map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	}
	for name, codec := range codecs {
		t.Run(name, func(t *testing.T) {
			f.topic(t, name, 1)
			cl := client(t, addrs[0], kgo.DefaultProduceTopic(name), kgo.ProducerBatchCompression(codec))
			var want []string
			var recs []*kgo.Record
			for i := range 300 {
				value := fmt.Sprintf("record %d %s", i, strings.Repeat("x", 100))
				want, recs = append(want, value), append(recs, kgo.StringRecord(value))
			}
			if err := cl.ProduceSync(testContext(t), recs...).FirstErr(); err != nil {
				t.Fatal(err)
			}
			reader := client(t, addrs[0], kgo.ConsumeTopics(name), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
			for i, r := range consume(t, reader, len(want)) {
				if string(r.Value) != want[i] || r.Offset != int64(i) {
					t.Fatalf("record %d: offset %d, value %q", i, r.Offset, r.Value)
				}
			}
		})
	}
}

func TestProduceReachesTheLeaderOfEachPartition(t *testing.T) {
	f, addrs := startCluster(t, 3, Config{})
	f.topic(t, "spread", 6)
	cl := client(t, addrs[0], kgo.DefaultProduceTopic("spread"), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	for p := range int32(6) {
		r := kgo.StringRecord("x")
		r.Partition = p
		if err := cl.ProduceSync(testContext(t), r).FirstErr(); err != nil {
			t.Fatalf("partition %d: %v", p, err)
		}
	}
}

func TestProducerFollowsALeaderThatMoved(t *testing.T) {
	f, addrs := startCluster(t, 3, Config{})
	topic := f.topic(t, "moving", 1, 1, 2, 3)
	// The client would not look again by itself within the test.
	cl := client(t, addrs[0], kgo.DefaultProduceTopic("moving"), kgo.MetadataMinAge(time.Minute), kgo.MetadataMaxAge(10*time.Minute))
	produce := func(want int64) {
		t.Helper()
		r, err := cl.ProduceSync(testContext(t), kgo.StringRecord("x")).First()
		if err != nil || r.Offset != want {
			t.Fatalf("offset %d, error %v; want offset %d", r.Offset, err, want)
		}
	}
	produce(0)
	for i, leader := range []model.NodeID{2, 3, 1} {
		f.must(t, &metadata.ElectLeaders{Elections: []metadata.Election{{Partition: topic.Partitions[0].ID, Leader: leader}}})
		produce(int64(i + 1))
	}
}

func TestConsumerLongPollsUntilRecordsCome(t *testing.T) {
	f, addrs := startCluster(t, 1, Config{})
	f.topic(t, "poll", 1)
	reader := client(t, addrs[0], kgo.ConsumeTopics("poll"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchMaxWait(20*time.Second), kgo.FetchMinBytes(1))
	got := make(chan *kgo.Record, 1)
	go func() {
		fetches := reader.PollFetches(context.Background())
		for _, r := range fetches.Records() {
			got <- r
		}
	}()
	writer := client(t, addrs[0], kgo.DefaultProduceTopic("poll"))
	if err := writer.ProduceSync(testContext(t), kgo.StringRecord("late")).FirstErr(); err != nil {
		t.Fatal(err)
	}
	select {
	case r := <-got:
		if string(r.Value) != "late" {
			t.Fatalf("read %q", r.Value)
		}
	case <-testContext(t).Done():
		t.Fatal("the long poll did not return")
	}
}

func TestProduceWithoutAcknowledgement(t *testing.T) {
	f, addrs := startCluster(t, 1, Config{})
	f.topic(t, "fire", 1)
	cl := client(t, addrs[0], kgo.DefaultProduceTopic("fire"), kgo.RequiredAcks(kgo.NoAck()), kgo.DisableIdempotentWrite())
	for range 10 {
		if err := cl.ProduceSync(testContext(t), kgo.StringRecord("x")).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	reader := client(t, addrs[0], kgo.ConsumeTopics("fire"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	consume(t, reader, 10)
}

func TestAcksReachTheBackend(t *testing.T) {
	f, addrs := startCluster(t, 1, Config{})
	f.topic(t, "acks", 1)
	for acks, opt := range map[Acks]kgo.Acks{AcksLeader: kgo.LeaderAck(), AcksAll: kgo.AllISRAcks()} {
		cl := client(t, addrs[0], kgo.DefaultProduceTopic("acks"), kgo.RequiredAcks(opt), kgo.DisableIdempotentWrite())
		if err := cl.ProduceSync(testContext(t), kgo.StringRecord("x")).FirstErr(); err != nil {
			t.Fatal(err)
		}
		f.mu.Lock()
		got := f.lastAck
		f.mu.Unlock()
		if got != acks {
			t.Errorf("backend saw acks %d, want %d", got, acks)
		}
	}
}

func TestProducerSurvivesRetriableRefusals(t *testing.T) {
	f, addrs := startCluster(t, 1, Config{})
	f.topic(t, "bumpy", 1)
	cl := client(t, addrs[0], kgo.DefaultProduceTopic("bumpy"))
	for _, err := range []error{
		refusal.New(refusal.NotEnoughReplicas, "p", "too few", ""),
		refusal.New(refusal.LeaseExpired, "p", "no lease", ""),
		refusal.New(refusal.OutcomeUnknown, "p", "timed out", ""),
		refusal.New(refusal.Overloaded, "p", "busy", ""),
		refusal.New(refusal.DiskFull, "p", "full", ""),
		errors.New("write segment: input/output error"),
	} {
		f.setRefusal(err)
		before := f.produces()
		done := make(chan error, 1)
		cl.Produce(testContext(t), kgo.StringRecord("x"), func(_ *kgo.Record, err error) { done <- err })
		f.await(t, "a second try", func() bool { return f.count >= before+2 })
		f.setRefusal(nil)
		if got := <-done; got != nil {
			t.Errorf("after %v the client gave up: %v", err, got)
		}
	}
}

func TestTopicAdministration(t *testing.T) {
	f, addrs := startCluster(t, 3, Config{})
	f.must(t, &metadata.CreateNamespace{Name: "billing"})
	adm := kadm.NewClient(client(t, addrs[1]))
	ctx := testContext(t)
	created, err := adm.CreateTopics(ctx, 4, 3, map[string]*string{"retention.ms": kadm.StringPtr("60000")}, "plain", "dotted.name", "billing.orders")
	if err != nil || created.Error() != nil {
		t.Fatal(err, created.Error())
	}
	if c := created["plain"]; c.NumPartitions != 4 || c.ReplicationFactor != 3 || *c.Configs["retention.ms"].Value != "60000" {
		t.Errorf("created %+v", c)
	}
	for name, want := range map[string]string{"plain": "/default/plain", "dotted.name": "/default/dotted.name", "billing.orders": "/billing/orders"} {
		topic := f.image().TopicByKafkaName(name)
		if topic == nil || topic.Name.String() != want {
			t.Errorf("%s became %v, want %s", name, topic, want)
		}
	}
	listed, err := adm.ListTopics(ctx)
	if err != nil || !slices.Equal(listed.Names(), []string{"billing.orders", "dotted.name", "plain"}) {
		t.Fatalf("listed %v, %v", listed.Names(), err)
	}
	if ids := listed.TopicsSet(); len(ids["plain"]) != 4 {
		t.Errorf("plain has partitions %v", ids["plain"])
	}
	again, err := adm.CreateTopics(ctx, 1, 1, nil, "plain", "no/slash")
	if err != nil || !errors.Is(again["plain"].Err, kerr.TopicAlreadyExists) || !errors.Is(again["no/slash"].Err, kerr.InvalidTopicException) {
		t.Errorf("again: %v, %v", again, err)
	}
	for name, bad := range map[string]struct {
		partitions int32
		replicas   int16
		config     map[string]*string
		want       error
	}{
		"too-wide":   {1, 4, nil, kerr.InvalidReplicationFactor},
		"no-parts":   {0, 1, nil, kerr.InvalidPartitions},
		"no-copies":  {1, 0, nil, kerr.InvalidReplicationFactor},
		"bad-config": {1, 1, map[string]*string{"retention.ms": kadm.StringPtr("soon")}, kerr.InvalidConfig},
		"odd-config": {1, 1, map[string]*string{"colour": kadm.StringPtr("red")}, kerr.InvalidConfig},
	} {
		r, err := adm.CreateTopic(ctx, bad.partitions, bad.replicas, bad.config, name)
		if !errors.Is(err, bad.want) || r.ErrMessage == "" {
			t.Errorf("%s: error %v with message %q, want %v", name, err, r.ErrMessage, bad.want)
		}
	}
	checked, err := adm.ValidateCreateTopics(ctx, 1, 1, nil, "only-checked")
	if err != nil || checked.Error() != nil || f.image().TopicByKafkaName("only-checked") != nil {
		t.Errorf("validate only: %v %v", checked, err)
	}
	deleted, err := adm.DeleteTopics(ctx, "plain", "nowhere")
	if err != nil || deleted["plain"].Err != nil || !errors.Is(deleted["nowhere"].Err, kerr.UnknownTopicOrPartition) {
		t.Errorf("deleted %v, %v", deleted, err)
	}
	if f.image().TopicByKafkaName("plain") != nil {
		t.Error("plain is still there")
	}
}

func TestDescribeConfigs(t *testing.T) {
	f, addrs := startCluster(t, 1, Config{})
	f.topic(t, "settings", 1)
	adm := kadm.NewClient(client(t, addrs[0]))
	ctx := testContext(t)
	got, err := adm.DescribeTopicConfigs(ctx, "settings", "nowhere")
	if err != nil {
		t.Fatal(err)
	}
	topic, err := got.On("settings", nil)
	if err != nil || topic.Err != nil || len(topic.Configs) != len(metadata.ConfigKeys) {
		t.Fatalf("%+v, %v", topic, err)
	}
	if missing, _ := got.On("nowhere", nil); !errors.Is(missing.Err, kerr.UnknownTopicOrPartition) {
		t.Errorf("nowhere: %v", missing.Err)
	}
	brokers, err := adm.DescribeBrokerConfigs(ctx, 1)
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]string{}
	for _, c := range brokers[0].Configs {
		values[c.Key] = *c.Value
	}
	if values["auto.create.topics.enable"] != "false" || values["broker.id"] != "1" || values["message.max.bytes"] == "" {
		t.Errorf("broker settings: %v", values)
	}
}

func TestMetadataOfNodesThatAreNotAlive(t *testing.T) {
	f, addrs := startCluster(t, 3, Config{})
	topic := f.topic(t, "partly", 1, 3)
	f.must(t, &metadata.FenceNode{ID: 3, Epoch: f.image().Nodes[3].Epoch, Reason: "test"})
	adm := kadm.NewClient(client(t, addrs[0]))
	m, err := adm.Metadata(testContext(t), "partly", "nowhere")
	if err != nil {
		t.Fatal(err)
	}
	if got := m.Brokers.NodeIDs(); !slices.Equal(got, []int32{1, 2}) || m.Controller != 1 || m.Cluster != string(f.image().Cluster) {
		t.Errorf("brokers %v, controller %d, cluster %q", got, m.Controller, m.Cluster)
	}
	p := m.Topics["partly"].Partitions[0]
	if p.Leader != -1 || !errors.Is(p.Err, kerr.LeaderNotAvailable) || !slices.Equal(p.OfflineReplicas, []int32{3}) {
		t.Errorf("partition %+v", p)
	}
	if m.Topics["partly"].ID != kadm.TopicID(topic.ID) {
		t.Errorf("topic id %v", m.Topics["partly"].ID)
	}
	if !errors.Is(m.Topics["nowhere"].Err, kerr.UnknownTopicOrPartition) {
		t.Errorf("nowhere: %v", m.Topics["nowhere"].Err)
	}
}

func TestListOffsets(t *testing.T) {
	f, addrs := startCluster(t, 1, Config{})
	f.topic(t, "times", 1)
	cl := client(t, addrs[0], kgo.DefaultProduceTopic("times"))
	for _, ms := range []int64{1000, 3000, 2000} {
		if err := cl.ProduceSync(testContext(t), &kgo.Record{Value: []byte("x"), Timestamp: time.UnixMilli(ms)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	adm := kadm.NewClient(cl)
	ctx := testContext(t)
	check := func(what string, got kadm.ListedOffsets, err error, offset int64) {
		t.Helper()
		o, _ := got.Lookup("times", 0)
		if err != nil || o.Err != nil || o.Offset != offset {
			t.Errorf("%s: %+v, %v; want offset %d", what, o, err, offset)
		}
	}
	got, err := adm.ListStartOffsets(ctx, "times")
	check("start", got, err, 0)
	got, err = adm.ListEndOffsets(ctx, "times")
	check("end", got, err, 3)
	got, err = adm.ListMaxTimestampOffsets(ctx, "times")
	check("max timestamp", got, err, 1)
	got, err = adm.ListOffsetsAfterMilli(ctx, 1500, "times")
	check("after 1500", got, err, 1)
	got, err = adm.ListOffsetsAfterMilli(ctx, 9000, "times")
	check("after 9000: the end", got, err, 3)

	f.setRefusal(refusal.New(refusal.OffsetNotAvailable, "p", "the high watermark lags", ""))
	for version, want := range map[int16]int16{4: kerr.LeaderNotAvailable.Code, 5: kerr.OffsetNotAvailable.Code, 10: kerr.OffsetNotAvailable.Code} {
		req := kmsg.NewPtrListOffsetsRequest()
		p := kmsg.NewListOffsetsRequestTopicPartition()
		p.Timestamp = -1
		req.Topics = []kmsg.ListOffsetsRequestTopic{{Topic: "times", Partitions: []kmsg.ListOffsetsRequestTopicPartition{p}}}
		resp := dial(t, addrs[0]).request(req, version).(*kmsg.ListOffsetsResponse)
		if got := resp.Topics[0].Partitions[0]; got.ErrorCode != want || got.Offset != -1 {
			t.Errorf("version %d: %+v, want error %d", version, got, want)
		}
	}
}

func TestTransactionsAndGroupsAreRefusedClearly(t *testing.T) {
	f, addrs := startCluster(t, 1, Config{})
	f.topic(t, "t", 1)
	cl := client(t, addrs[0], kgo.DefaultProduceTopic("t"), kgo.TransactionalID("tx"))
	err := cl.BeginTransaction()
	if err == nil {
		err = cl.ProduceSync(testContext(t), kgo.StringRecord("x")).FirstErr()
	}
	if !errors.Is(err, kerr.TransactionalIDAuthorizationFailed) {
		t.Errorf("a transactional produce ended with %v", err)
	}
	c := dial(t, addrs[0])
	for version := int16(0); version <= 6; version++ {
		req := kmsg.NewPtrFindCoordinatorRequest()
		req.CoordinatorKey, req.CoordinatorKeys = "g", []string{"g", "h"}
		resp := c.request(req, version).(*kmsg.FindCoordinatorResponse)
		code, message := resp.ErrorCode, resp.ErrorMessage
		if version >= 4 {
			if len(resp.Coordinators) != 2 || resp.Coordinators[1].Key != "h" {
				t.Fatalf("version %d: %+v", version, resp)
			}
			code, message = resp.Coordinators[0].ErrorCode, resp.Coordinators[0].ErrorMessage
		}
		if code != kerr.CoordinatorNotAvailable.Code || version >= 1 && (message == nil || *message == "") {
			t.Errorf("version %d: %+v", version, resp)
		}
	}
}

func TestInitProducerIDGivesFreshIDs(t *testing.T) {
	_, addrs := startCluster(t, 1, Config{})
	c := dial(t, addrs[0])
	seen := map[int64]bool{}
	for version := int16(0); version <= 5; version++ {
		resp := c.request(kmsg.NewPtrInitProducerIDRequest(), version).(*kmsg.InitProducerIDResponse)
		if resp.ErrorCode != 0 || resp.ProducerEpoch != 0 || resp.ProducerID < 0 || seen[resp.ProducerID] {
			t.Errorf("version %d: %+v", version, resp)
		}
		seen[resp.ProducerID] = true
		req := kmsg.NewPtrInitProducerIDRequest()
		req.TransactionalID = kmsg.StringPtr("tx")
		if resp := c.request(req, version).(*kmsg.InitProducerIDResponse); resp.ErrorCode != kerr.TransactionalIDAuthorizationFailed.Code {
			t.Errorf("version %d with a transactional id: %+v", version, resp)
		}
	}
}

func TestServeEndsCleanly(t *testing.T) {
	f, _ := startCluster(t, 1, Config{})
	f.topic(t, "end", 1)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, ln, &fakeNode{fakeCluster: f, id: 1}, Config{}) }()

	// One connection idle, one in a long poll, one with an open produce.
	idle := dial(t, ln.Addr().String())
	idle.request(kmsg.NewPtrMetadataRequest(), 9)
	polling := dial(t, ln.Addr().String())
	polling.send(fetchRequest("end", 0, 60_000), 12)
	f.hold()
	producing := dial(t, ln.Addr().String())
	producing.send(produceRequest("end", batch("x")), 9)
	f.waitHeld(t, 1)
	cancel()
	f.release()
	resp := producing.receive(kmsg.NewPtrProduceRequest(), 9).(*kmsg.ProduceResponse)
	if code := resp.Topics[0].Partitions[0].ErrorCode; code != 0 {
		t.Errorf("the open produce was answered with %d", code)
	}
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("Serve: %v", err)
		}
	case <-testContext(t).Done():
		t.Fatal("Serve did not end")
	}
}
