package load

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// numberedWindow is how many of its last batches a partition remembers of each
// producer.
const numberedWindow = 5

// Repeated is what became of batches that were sent again.
type Repeated struct {
	Offsets []int64 // base offset of each batch when it was first sent
	// SameOffset: each repeat of a batch that the partition remembers was
	// acknowledged at its first offset.
	SameOffset bool
	// OldError is the answer to a batch older than those, GapError to one whose
	// number leaves a gap, EpochError to one of an older producer epoch.
	OldError, GapError, EpochError string
	LogEnd                         int64 // of the partition afterwards
}

// Repeat acts as an idempotent producer whose answers get lost: it sends batches
// of records to partition 0 of a topic, then the last ones again as they were,
// then some that must be refused. It writes requests itself, since a client
// library never does this when it is asked to.
func Repeat(ctx context.Context, bootstrap []string, topic string, batches, records int) (Repeated, error) {
	var out Repeated
	if batches <= numberedWindow {
		return out, fmt.Errorf("%d batches: more than the %d that a partition remembers are needed", batches, numberedWindow)
	}
	client, err := kgo.NewClient(append(clientOptions(bootstrap), kgo.DisableIdempotentWrite())...)
	if err != nil {
		return out, fmt.Errorf("make a producer: %w", err)
	}
	defer client.Close()
	p := &numbered{client: client, topic: topic, records: records}
	if err := p.begin(ctx); err != nil {
		return out, err
	}
	for i := range batches {
		base, code, err := p.send(ctx, p.epoch, i)
		if err == nil {
			err = kerr.ErrorForCode(code)
		}
		if err != nil {
			return out, fmt.Errorf("batch %d: %w", i, err)
		}
		out.Offsets = append(out.Offsets, base)
	}
	out.SameOffset = true
	for i := batches - numberedWindow; i < batches; i++ {
		base, code, err := p.send(ctx, p.epoch, i)
		if err != nil {
			return out, fmt.Errorf("batch %d again: %w", i, err)
		}
		out.SameOffset = out.SameOffset && code == 0 && base == out.Offsets[i]
	}
	if out.OldError, err = p.answer(ctx, p.epoch, 0); err != nil {
		return out, err
	}
	if out.GapError, err = p.answer(ctx, p.epoch, batches+3); err != nil {
		return out, err
	}
	if out.EpochError, err = p.answer(ctx, p.epoch-1, batches); err != nil {
		return out, err
	}
	marks, err := marksOf(ctx, client, []string{topic})
	if err == nil {
		out.LogEnd = marks[0].HighWatermark
	}
	return out, err
}

// numbered is a producer that numbers its batches.
type numbered struct {
	client  *kgo.Client
	topic   string
	topicID [16]byte
	records int
	id      int64
	epoch   int16
	leader  int32
}

// begin gets a producer id and finds the leader. The epoch is raised once, so
// that there is an older one.
func (p *numbered) begin(ctx context.Context) error {
	request := kmsg.NewPtrInitProducerIDRequest()
	request.ProducerID, request.ProducerEpoch = -1, -1
	answer, err := request.RequestWith(ctx, p.client)
	if err == nil {
		err = kerr.ErrorForCode(answer.ErrorCode)
	}
	if err != nil {
		return fmt.Errorf("get a producer id: %w", err)
	}
	p.id, p.epoch = answer.ProducerID, answer.ProducerEpoch+1
	metadata := kmsg.NewPtrMetadataRequest()
	wanted := kmsg.NewMetadataRequestTopic()
	wanted.Topic = kmsg.StringPtr(p.topic)
	metadata.Topics = append(metadata.Topics, wanted)
	found, err := metadata.RequestWith(ctx, p.client)
	if err == nil && len(found.Topics) == 1 {
		err = kerr.ErrorForCode(found.Topics[0].ErrorCode)
	}
	if err != nil || len(found.Topics) != 1 || len(found.Topics[0].Partitions) == 0 {
		return fmt.Errorf("find the leader of %s: %w", p.topic, err)
	}
	p.topicID = found.Topics[0].TopicID
	for _, part := range found.Topics[0].Partitions {
		if part.Partition == 0 {
			p.leader = part.Leader
		}
	}
	return nil
}

func (p *numbered) answer(ctx context.Context, epoch int16, number int) (string, error) {
	_, code, err := p.send(ctx, epoch, number)
	if err != nil {
		return "", fmt.Errorf("batch %d: %w", number, err)
	}
	if code == 0 {
		return "none", nil
	}
	return kerr.TypedErrorForCode(code).Message, nil
}

// send sends batch number n as it is sent each time.
func (p *numbered) send(ctx context.Context, epoch int16, n int) (base int64, code int16, err error) {
	request := kmsg.NewPtrProduceRequest()
	request.Acks, request.TimeoutMillis = -1, 5000
	part := kmsg.NewProduceRequestTopicPartition()
	part.Records = p.batch(epoch, n)
	topic := kmsg.NewProduceRequestTopic()
	topic.Topic, topic.TopicID = p.topic, p.topicID
	topic.Partitions = append(topic.Partitions, part)
	request.Topics = append(request.Topics, topic)
	response, err := p.client.Broker(int(p.leader)).RetriableRequest(ctx, request)
	if err != nil {
		return -1, 0, err
	}
	answer, ok := response.(*kmsg.ProduceResponse)
	if !ok || len(answer.Topics) != 1 || len(answer.Topics[0].Partitions) != 1 {
		return -1, 0, fmt.Errorf("the answer is not about one partition")
	}
	got := answer.Topics[0].Partitions[0]
	return got.BaseOffset, got.ErrorCode, nil
}

func (p *numbered) batch(epoch int16, n int) []byte {
	const base = int64(1_700_000_000_000) // the same bytes each time
	var body []byte
	for i := range p.records {
		value := fmt.Appendf(nil, "batch %d record %d", n, i)
		record := []byte{0}                            // attributes
		record = binary.AppendVarint(record, int64(i)) // time
		record = binary.AppendVarint(record, int64(i)) // offset
		record = binary.AppendVarint(record, -1)       // no key
		record = binary.AppendVarint(record, int64(len(value)))
		record = append(record, value...)
		record = binary.AppendVarint(record, 0) // headers
		body = append(binary.AppendVarint(body, int64(len(record))), record...)
	}
	batch := kmsg.RecordBatch{
		PartitionLeaderEpoch: -1, Magic: 2, LastOffsetDelta: int32(p.records - 1), FirstTimestamp: base, MaxTimestamp: base + int64(p.records-1),
		ProducerID: p.id, ProducerEpoch: epoch, FirstSequence: int32(n * p.records), NumRecords: int32(p.records), Records: body,
	}
	// The length and the checksum stand before what they cover.
	raw := batch.AppendTo(nil)
	batch.Length = int32(len(raw) - 12)
	batch.CRC = int32(crc32.Checksum(raw[21:], castagnoli))
	return batch.AppendTo(nil)
}
