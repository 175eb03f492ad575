package kafka

import (
	"bytes"
	"math/rand/v2"
	"net"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ister-mq/ister/broker/internal/metadata"
	"github.com/ister-mq/ister/broker/internal/model"
	"github.com/ister-mq/ister/broker/internal/refusal"
)

// kmsg, which is generated from Kafka's own schemas, is the reference for what is
// encoded and decoded by hand.

// bytesOf writes the output through a real connection, vectors and all.
func bytesOf(t *testing.T, o *output) []byte {
	t.Helper()
	a, b := net.Pipe()
	defer b.Close()
	failed := make(chan error, 1)
	go func() {
		failed <- o.writeTo(a)
		a.Close()
	}()
	var got bytes.Buffer
	if _, err := got.ReadFrom(b); err != nil {
		t.Fatal(err)
	}
	if err := <-failed; err != nil {
		t.Fatal(err)
	}
	return got.Bytes()
}

// hintBackend has one partition led by node 2, seen from node 1.
func hintBackend(topic model.TopicID) Backend {
	p := &metadata.Partition{ID: model.Partition{Topic: topic}, Leader: 2, LeaderEpoch: 7}
	im := metadata.Empty()
	im.Nodes[2] = &metadata.Node{ID: 2, Endpoints: metadata.Endpoints{Kafka: "[::1]:6651"}, Rack: "r"}
	im.Topics[topic] = &metadata.Topic{ID: topic, Name: model.TopicName{Namespace: "default", Topic: "t"}, Partitions: []*metadata.Partition{p}}
	return &instantBackend{view: View{Image: im, Self: 1}}
}

var noise = func() []byte {
	b := make([]byte, 40_000)
	rand.NewChaCha8([32]byte{}).Read(b)
	return b
}()

func randomRecords(r *rand.Rand) []byte {
	n := []int{0, 1, 100, inlineRecordBytes, inlineRecordBytes + 1, 30_000}[r.IntN(6)]
	from := r.IntN(len(noise) - n)
	return noise[from : from+n : from+n]
}

// randomFetch is a fetch answer in our form and in kmsg's.
func randomFetch(r *rand.Rand, version int16) (*fetchCall, *kmsg.FetchResponse) {
	id := model.TopicID{1}
	f := &fetchCall{}
	want := kmsg.NewPtrFetchResponse()
	want.SetVersion(version)
	if version >= fetchSessions && r.IntN(8) == 0 {
		f.code, want.ErrorCode = kerr.FetchSessionIDNotFound.Code, kerr.FetchSessionIDNotFound.Code
		return f, want
	}
	hinted := false
	for range r.IntN(4) {
		topic, wantTopic := kmsg.NewFetchRequestTopic(), kmsg.NewFetchResponseTopic()
		topic.Topic, topic.TopicID = "t", id
		wantTopic.Topic, wantTopic.TopicID = "t", id
		for range r.IntN(4) {
			p, wp := kmsg.NewFetchRequestTopicPartition(), kmsg.NewFetchResponseTopicPartition()
			wp.HighWatermark, wp.LastStableOffset, wp.LogStartOffset, wp.RecordBatches = -1, -1, -1, []byte{}
			part := fetchPart{slot: len(f.req.Partitions)}
			result := FetchResult{HighWatermark: 50, LogStart: 3}
			switch r.IntN(6) {
			case 0: // refused before the backend
				part = fetchPart{slot: -1, code: kerr.UnknownTopicOrPartition.Code}
				p.Partition, wp.ErrorCode = 9, part.code
			case 1:
				result.Err = refusal.New(refusal.NotLeader, "p", "m", "")
				wp.ErrorCode = kerr.NotLeaderForPartition.Code
				wp.CurrentLeader.LeaderID, wp.CurrentLeader.LeaderEpoch = 2, 7
				hinted = true
			case 2:
				result.Err = refusal.New(refusal.OffsetOutOfRange, "p", "m", "")
				wp.ErrorCode = kerr.OffsetOutOfRange.Code
				wp.HighWatermark, wp.LastStableOffset, wp.LogStartOffset = 50, 50, 3
			case 3:
				result.Diverging = &Divergence{Epoch: 4, End: 33}
				wp.DivergingEpoch.Epoch, wp.DivergingEpoch.EndOffset = 4, 33
				wp.HighWatermark, wp.LastStableOffset, wp.LogStartOffset = 50, 50, 3
			default:
				result.Records = randomRecords(r)
				wp.HighWatermark, wp.LastStableOffset, wp.LogStartOffset, wp.RecordBatches = 50, 50, 3, result.Records
			}
			wp.Partition = p.Partition
			if part.slot >= 0 {
				f.req.Partitions = append(f.req.Partitions, FetchPartition{ID: model.Partition{Topic: id, Index: p.Partition}})
				f.resp.Partitions = append(f.resp.Partitions, result)
			}
			f.parts = append(f.parts, part)
			topic.Partitions, wantTopic.Partitions = append(topic.Partitions, p), append(wantTopic.Partitions, wp)
		}
		f.wire.Topics, want.Topics = append(f.wire.Topics, topic), append(want.Topics, wantTopic)
	}
	if hinted && version >= fetchNodeEndpoints {
		want.Brokers = []kmsg.FetchResponseBroker{{NodeID: 2, Host: "::1", Port: 6651, Rack: kmsg.StringPtr("r")}}
	}
	return f, want
}

func TestFetchAnswerAgainstReference(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, version := range everyVersion(kmsg.Fetch) {
		for range 40 {
			f, resp := randomFetch(r, version)
			k := &call{connection: &connection{listener: &listener{backend: hintBackend(model.TopicID{1})}}, header: header{key: 1, version: version, correlation: 77}, flexibleHeader: version >= fetchFlexible, fetch: f}
			want := appendNoTags(appendInt32(nil, 77), k.flexibleHeader)
			want = resp.AppendTo(want)
			want = append(appendInt32(nil, int32(len(want))), want...)
			// Twice, as when answers are written together.
			var o output
			o.add(k)
			o.add(k)
			want = append(want, want...)
			if o.size() != len(want) {
				t.Fatalf("version %d: size %d, want %d", version, o.size(), len(want))
			}
			if got := bytesOf(t, &o); !bytes.Equal(got, want) {
				t.Fatalf("version %d:\n got %.300x\nwant %.300x\n%+v", version, got, want, resp)
			}
		}
	}
}

func everyVersion(key kmsg.Key) []int16 {
	var out []int16
	v := versionsOf(key.Int16())
	for version := v.min; version <= v.max; version++ {
		out = append(out, version)
	}
	return out
}

func randomProduce(r *rand.Rand, version int16) *kmsg.ProduceRequest {
	req := kmsg.NewPtrProduceRequest()
	req.SetVersion(version)
	req.Acks, req.TimeoutMillis = int16(r.IntN(3)-1), int32(r.IntN(1000))
	if r.IntN(4) == 0 {
		req.TransactionID = kmsg.StringPtr("tx")
	}
	for range r.IntN(4) {
		topic := kmsg.NewProduceRequestTopic()
		topic.Topic = []string{"", "t", "a-longer-name"}[r.IntN(3)]
		for range r.IntN(4) {
			p := kmsg.NewProduceRequestTopicPartition()
			p.Partition = int32(r.IntN(100))
			if r.IntN(4) > 0 {
				p.Records = randomRecords(r)
			}
			if version >= produceFlexible && r.IntN(4) == 0 {
				p.UnknownTags.Set(5, []byte("later"))
			}
			topic.Partitions = append(topic.Partitions, p)
		}
		req.Topics = append(req.Topics, topic)
	}
	return req
}

func TestProduceRequestAgainstReference(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, version := range everyVersion(kmsg.Produce) {
		for range 40 {
			want := randomProduce(r, version)
			body := want.AppendTo(nil)
			var p produceCall
			if err := p.decode(body, version); err != nil {
				t.Fatalf("version %d: %v", version, err)
			}
			if int16(p.req.Acks) != want.Acks || p.req.Timeout.Milliseconds() != int64(want.TimeoutMillis) ||
				p.transactional != (version >= 3 && want.TransactionID != nil) || len(p.topics) != len(want.Topics) {
				t.Fatalf("version %d: got %+v, want %+v", version, p, want)
			}
			parts := p.parts
			for i, topic := range p.topics {
				if topic.name != want.Topics[i].Topic || topic.parts != len(want.Topics[i].Partitions) {
					t.Fatalf("version %d: topic %+v, want %+v", version, topic, want.Topics[i])
				}
				for j, wp := range want.Topics[i].Partitions {
					if parts[j].index != wp.Partition || !bytes.Equal(parts[j].records, wp.Records) || (parts[j].records == nil) != (wp.Records == nil) {
						t.Fatalf("version %d: partition %+v, want %+v", version, parts[j], wp)
					}
				}
				parts = parts[topic.parts:]
			}
			// Every strict prefix is refused, or, where only the end is missing, never
			// read past.
			for n := range min(len(body), 64) {
				var cut produceCall
				if err := cut.decode(body[:n], version); err == nil {
					t.Fatalf("version %d: a body cut at %d of %d bytes was taken", version, n, len(body))
				}
			}
		}
	}
}

func TestProduceAnswerAgainstReference(t *testing.T) {
	id := model.TopicID{1}
	r := rand.New(rand.NewPCG(5, 6))
	for _, version := range everyVersion(kmsg.Produce) {
		for range 40 {
			p := &produceCall{}
			want := kmsg.NewPtrProduceResponse()
			want.SetVersion(version)
			for range r.IntN(4) {
				wantTopic := kmsg.NewProduceResponseTopic()
				wantTopic.Topic = "t"
				topic := produceTopic{name: "t", parts: r.IntN(4)}
				for range topic.parts {
					wp := kmsg.NewProduceResponseTopicPartition()
					wp.BaseOffset, wp.LogAppendTime, wp.LogStartOffset = -1, -1, -1
					part := producePart{slot: len(p.req.Partitions)}
					var result ProduceResult
					switch r.IntN(3) {
					case 0:
						part = producePart{index: 9, slot: -1}
						part.refuse(kerr.InvalidRecord, "no batch")
						wp.Partition, wp.ErrorCode, wp.ErrorMessage = 9, kerr.InvalidRecord.Code, kmsg.StringPtr("no batch")
					case 1:
						result.Err = refusal.New(refusal.NotLeader, "p", "moved", "look again")
						wp.ErrorCode, wp.ErrorMessage = kerr.NotLeaderForPartition.Code, kmsg.StringPtr(result.Err.Error())
						if version >= produceLeaderHints {
							wp.CurrentLeader.LeaderID, wp.CurrentLeader.LeaderEpoch = 2, 7
							want.Brokers = []kmsg.ProduceResponseBroker{{NodeID: 2, Host: "::1", Port: 6651, Rack: kmsg.StringPtr("r")}}
						}
					default:
						result = ProduceResult{Base: 41, LogStart: 5}
						wp.BaseOffset, wp.LogStartOffset = 41, 5
					}
					if part.slot >= 0 {
						p.req.Partitions = append(p.req.Partitions, ProducePartition{ID: model.Partition{Topic: id}})
						p.req.Results = append(p.req.Results, result)
					}
					p.parts = append(p.parts, part)
					wantTopic.Partitions = append(wantTopic.Partitions, wp)
				}
				p.topics = append(p.topics, topic)
				want.Topics = append(want.Topics, wantTopic)
			}
			if got, want := p.appendResponse(nil, version, hintBackend(id)), want.AppendTo(nil); !bytes.Equal(got, want) {
				t.Fatalf("version %d:\n got %x\nwant %x", version, got, want)
			}
		}
	}
}
