package kafka

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ister-mq/ister/broker/internal/metadata"
	"github.com/ister-mq/ister/broker/internal/model"
	"github.com/ister-mq/ister/broker/internal/record"
	"github.com/ister-mq/ister/broker/internal/refusal"
)

// Produce and Fetch on the raw wire.

func TestProduceRefusesBadBatches(t *testing.T) {
	f, addrs := startCluster(t, 1, Config{})
	f.topic(t, "strict", 1)
	change := func(at int, value byte, seal bool) []byte {
		b := batch("x")
		b[at] = value
		if seal {
			record.Seal(b)
		}
		return b
	}
	zstd := record.Build(record.BuildOptions{Codec: record.Zstd}, record.Rec{Value: []byte("x")})
	for name, c := range map[string]struct {
		records []byte
		version int16
		want    *kerr.Error
	}{
		"null":            {nil, 9, kerr.InvalidRecord},
		"empty":           {[]byte{}, 9, kerr.InvalidRecord},
		"cut":             {batch("x")[:65], 9, kerr.InvalidRecord},
		"two batches":     {append(batch("x"), batch("y")...), 9, kerr.InvalidRecord},
		"trailing byte":   {append(batch("x"), 0), 9, kerr.InvalidRecord},
		"magic 0":         {change(16, 0, false), 9, kerr.UnsupportedForMessageFormat},
		"magic 1":         {change(16, 1, false), 9, kerr.UnsupportedForMessageFormat},
		"magic 3":         {change(16, 3, false), 9, kerr.UnsupportedForMessageFormat},
		"bad checksum":    {change(66, 0xff, false), 9, kerr.CorruptMessage},
		"bad layout":      {change(61, 0x7f, true), 9, kerr.CorruptMessage},
		"control":         {change(22, 0x20, true), 9, kerr.InvalidRecord},
		"transactional":   {change(22, 0x10, true), 9, kerr.InvalidTxnState},
		"log append time": {change(22, 0x08, true), 9, kerr.InvalidTimestamp},
		"codec 7":         {change(22, 0x07, true), 9, kerr.UnsupportedForMessageFormat},
		"zstd in v6":      {zstd, 6, kerr.UnsupportedCompressionType},
		"too large":       {batch(strings.Repeat("x", 1<<21)), 9, kerr.MessageTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			resp := dial(t, addrs[0]).request(produceRequest("strict", c.records), c.version).(*kmsg.ProduceResponse)
			p := resp.Topics[0].Partitions[0]
			if p.ErrorCode != c.want.Code || p.BaseOffset != -1 || c.version >= 8 && (p.ErrorMessage == nil || *p.ErrorMessage == "") {
				t.Errorf("got %+v, want %v", p, c.want)
			}
		})
	}
	if resp := dial(t, addrs[0]).request(produceRequest("strict", zstd), 7).(*kmsg.ProduceResponse); resp.Topics[0].Partitions[0].ErrorCode != 0 {
		t.Errorf("zstd in version 7: %+v", resp)
	}
	req := produceRequest("strict", batch("x"))
	req.Acks = 2
	if resp := dial(t, addrs[0]).request(req, 9).(*kmsg.ProduceResponse); resp.Topics[0].Partitions[0].ErrorCode != kerr.InvalidRequiredAcks.Code {
		t.Errorf("acks 2: %+v", resp)
	}
	req = produceRequest("strict", batch("x"))
	req.TransactionID = kmsg.StringPtr("tx")
	if resp := dial(t, addrs[0]).request(req, 9).(*kmsg.ProduceResponse); resp.Topics[0].Partitions[0].ErrorCode != kerr.TransactionalIDAuthorizationFailed.Code {
		t.Errorf("transactional: %+v", resp)
	}
}

func TestEmptyFetchHasRecordsOfLengthZero(t *testing.T) {
	f, addrs := startCluster(t, 1, Config{})
	topic := f.topic(t, "empty", 1)
	for version := int16(4); version <= 17; version++ {
		req := fetchRequest("empty", 0, 0)
		req.Topics[0].TopicID = topic.ID
		resp := dial(t, addrs[0]).request(req, version).(*kmsg.FetchResponse)
		if p := resp.Topics[0].Partitions[0]; p.ErrorCode != 0 || p.RecordBatches == nil || len(p.RecordBatches) != 0 {
			t.Errorf("version %d: %+v", version, p)
		}
	}
}

func TestFetchSessionsAreNotKept(t *testing.T) {
	f, addrs := startCluster(t, 1, Config{})
	f.topic(t, "sessionless", 1)
	for _, c := range []struct {
		session, epoch int32
		want           *kerr.Error
	}{{0, 0, nil}, {0, -1, nil}, {7, 0, nil}, {7, -1, nil}, {7, 3, kerr.FetchSessionIDNotFound}} {
		req := fetchRequest("sessionless", 0, 0)
		req.SessionID, req.SessionEpoch = c.session, c.epoch
		resp := dial(t, addrs[0]).request(req, 12).(*kmsg.FetchResponse)
		want, topics := int16(0), 1
		if c.want != nil {
			want, topics = c.want.Code, 0
		}
		if resp.ErrorCode != want || resp.SessionID != 0 || len(resp.Topics) != topics {
			t.Errorf("session %d epoch %d: %+v", c.session, c.epoch, resp)
		}
	}
}

func TestFetchReturnsAWholeBatchOverItsBounds(t *testing.T) {
	f, addrs := startCluster(t, 1, Config{})
	f.topic(t, "big", 1)
	c := dial(t, addrs[0])
	big := batch(strings.Repeat("x", 5000))
	c.request(produceRequest("big", bytes.Clone(big)), 9)
	c.request(produceRequest("big", bytes.Clone(big)), 9)
	req := fetchRequest("big", 0, 0)
	req.MaxBytes, req.Topics[0].Partitions[0].PartitionMaxBytes = 1, 1
	if p := c.request(req, 12).(*kmsg.FetchResponse).Topics[0].Partitions[0]; len(p.RecordBatches) != len(big) {
		t.Errorf("got %d bytes, want the one batch of %d", len(p.RecordBatches), len(big))
	}
}

func TestFetchErrors(t *testing.T) {
	f, addrs := startCluster(t, 2, Config{})
	topic := f.topic(t, "errors", 1, 1, 2)
	c := dial(t, addrs[0])
	one := func(version int16, change func(*kmsg.FetchRequest)) kmsg.FetchResponseTopicPartition {
		t.Helper()
		req := fetchRequest("errors", 0, 60_000)
		req.Topics[0].TopicID = topic.ID
		change(req)
		return c.request(req, version).(*kmsg.FetchResponse).Topics[0].Partitions[0]
	}
	for _, e := range []struct {
		name    string
		version int16
		change  func(*kmsg.FetchRequest)
		want    *kerr.Error
	}{
		{"out of range", 12, func(r *kmsg.FetchRequest) { r.Topics[0].Partitions[0].FetchOffset = 9 }, kerr.OffsetOutOfRange},
		{"no topic", 12, func(r *kmsg.FetchRequest) { r.Topics[0].Topic = "nowhere" }, kerr.UnknownTopicOrPartition},
		{"no topic id", 13, func(r *kmsg.FetchRequest) { r.Topics[0].TopicID = model.TopicID{9} }, kerr.UnknownTopicID},
		{"no partition", 13, func(r *kmsg.FetchRequest) { r.Topics[0].Partitions[0].Partition = 1 }, kerr.UnknownTopicOrPartition},
		{"negative partition", 12, func(r *kmsg.FetchRequest) { r.Topics[0].Partitions[0].Partition = -1 }, kerr.UnknownTopicOrPartition},
		{"newer epoch", 12, func(r *kmsg.FetchRequest) { r.Topics[0].Partitions[0].CurrentLeaderEpoch = 99 }, kerr.UnknownLeaderEpoch},
	} {
		if p := one(e.version, e.change); p.ErrorCode != e.want.Code || p.RecordBatches == nil {
			t.Errorf("%s: %+v, want %v", e.name, p, e.want)
		}
	}
	f.setRefusal(errors.New("read segment: input/output error"))
	if p := one(12, func(*kmsg.FetchRequest) {}); p.ErrorCode != kerr.KafkaStorageError.Code {
		t.Errorf("a fault: %+v", p)
	}
}

func TestLeaderHints(t *testing.T) {
	f, addrs := startCluster(t, 2, Config{})
	topic := f.topic(t, "hints", 1, 1)
	c := dial(t, addrs[1]) // does not lead
	leaderEpoch := int32(topic.Partitions[0].LeaderEpoch)
	for version := int16(9); version <= 12; version++ {
		resp := c.request(produceRequest("hints", batch("x")), version).(*kmsg.ProduceResponse)
		p := resp.Topics[0].Partitions[0]
		if p.ErrorCode != kerr.NotLeaderForPartition.Code {
			t.Fatalf("version %d: %+v", version, p)
		}
		hinted := p.CurrentLeader.LeaderID == 1 && p.CurrentLeader.LeaderEpoch == leaderEpoch && len(resp.Brokers) == 1 && resp.Brokers[0].NodeID == 1
		if hinted != (version >= 10) {
			t.Errorf("produce version %d: leader %+v, nodes %+v", version, p.CurrentLeader, resp.Brokers)
		}
	}
	for version := int16(11); version <= 17; version++ {
		req := fetchRequest("hints", 0, 0)
		req.Topics[0].TopicID = topic.ID
		resp := c.request(req, version).(*kmsg.FetchResponse)
		leader := resp.Topics[0].Partitions[0].CurrentLeader
		if hinted := leader.LeaderID == 1 && leader.LeaderEpoch == leaderEpoch; hinted != (version >= 12) {
			t.Errorf("fetch version %d: leader %+v", version, leader)
		}
		if named := len(resp.Brokers) == 1; named != (version >= 16) {
			t.Errorf("fetch version %d: nodes %+v", version, resp.Brokers)
		}
	}
	// The leader itself, refusing, must not name itself.
	f.setRefusal(refusal.New(refusal.LeaseExpired, "p", "no lease", ""))
	resp := dial(t, addrs[0]).request(produceRequest("hints", batch("x")), 12).(*kmsg.ProduceResponse)
	if p := resp.Topics[0].Partitions[0]; p.ErrorCode != kerr.NotLeaderForPartition.Code || p.CurrentLeader.LeaderID != -1 || len(resp.Brokers) != 0 {
		t.Errorf("the leader named itself: %+v", resp)
	}
}

// A fetch that waits while the leader changes names the new one: what was known
// when it came names nobody.
func TestFetchThatWaitedHintsAtTheNewLeader(t *testing.T) {
	f, addrs := startCluster(t, 2, Config{})
	topic := f.topic(t, "hints", 1, 1, 2)
	id := model.Partition{Topic: topic.ID}
	c := dial(t, addrs[0])
	answer := make(chan *kmsg.FetchResponse, 1)
	go func() {
		req := fetchRequest("hints", 0, 60_000)
		req.Topics[0].TopicID = topic.ID
		answer <- c.request(req, 17).(*kmsg.FetchResponse)
	}()
	f.await(t, "the fetch waits", func() bool { return f.polling > 0 })
	f.must(t, &metadata.ElectLeaders{Elections: []metadata.Election{{Partition: id, Leader: 2}}})
	resp := <-answer
	p := resp.Topics[0].Partitions[0]
	if want := int32(f.image().Partition(id).LeaderEpoch); p.ErrorCode != kerr.NotLeaderForPartition.Code || p.CurrentLeader.LeaderID != 2 || p.CurrentLeader.LeaderEpoch != want || len(resp.Brokers) != 1 {
		t.Errorf("error %d, leader %+v, nodes %+v: want node 2 at epoch %d", p.ErrorCode, p.CurrentLeader, resp.Brokers, want)
	}
}
