package kafka

import (
	"context"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/ister-mq/ister/broker/internal/metadata"
	"github.com/ister-mq/ister/broker/internal/model"
	"github.com/ister-mq/ister/broker/internal/record"
	"github.com/ister-mq/ister/broker/internal/refusal"
)

// Versions of Produce that change what is done, not only how it is encoded.
const (
	produceV2Batches    = 3  // before: message formats 0 and 1 only
	produceZstd         = 7  // KIP-110
	produceLeaderHints  = 10 // KIP-951
	produceErrorMessage = 8  // KIP-467
	produceFlexible     = 9
)

// produceCall is a produce request with its answer. It is pooled apart from
// call for its slices.
type produceCall struct {
	transactional bool
	topics        []produceTopic
	parts         []producePart // of all topics, in order
	req           ProduceRequest
	done          func()
	call          *call

	view View // at its arrival
}

// produceTopic is one topic of the request; its parts follow those of the topic
// before. name aliases the request.
type produceTopic struct {
	name  string
	parts int
}

// producePart is one partition: handed to the backend as req.Partitions[slot],
// or refused before (slot -1).
type producePart struct {
	index   int32
	slot    int
	code    int16
	message string
	records []byte
}

var produceCalls = sync.Pool{New: func() any {
	p := new(produceCall)
	p.done = func() { p.call.connection.queue.complete(p.call) }
	return p
}}

func (p *produceCall) recycle() {
	clear(p.topics)
	clear(p.parts)
	clear(p.req.Partitions)
	clear(p.req.Results)
	*p = produceCall{
		topics: p.topics[:0], parts: p.parts[:0], done: p.done,
		req: ProduceRequest{Partitions: p.req.Partitions[:0], Results: p.req.Results[:0]},
	}
	produceCalls.Put(p)
}

// startProduce hands the request to the backend and returns at once; the answer
// comes by complete.
func (c *connection) startProduce(ctx context.Context, k *call, body []byte) error {
	p := produceCalls.Get().(*produceCall)
	k.produce, p.call = p, k
	if err := p.decode(body, k.header.version); err != nil {
		defer c.finish(k)
		return c.refuse(k.header, "body is malformed")
	}
	p.view = c.backend.View()
	p.req.Timeout = min(p.req.Timeout, c.cfg.WaitMax)
	p.resolve(k.header.version)
	if len(p.req.Partitions) == 0 {
		return c.pushAnswered(ctx, k)
	}
	if err := c.push(ctx, k); err != nil {
		return err
	}
	c.backend.Produce(&p.req, p.done)
	return nil
}

// decode reads the body. Everything aliases it.
func (p *produceCall) decode(body []byte, version int16) error {
	flexible := version >= produceFlexible
	c := cursor{b: body}
	if version >= produceV2Batches {
		_, p.transactional = c.optionalString(flexible)
	}
	p.req.Acks = Acks(c.int16())
	p.req.Timeout = time.Duration(max(0, c.int32())) * time.Millisecond
	for topics := c.arrayLength(flexible, topicBytesMin); topics > 0 && !c.bad; topics-- {
		t := produceTopic{name: c.string(flexible)}
		t.parts = c.arrayLength(flexible, partitionBytesMin)
		if len(p.topics)+len(p.parts)+t.parts > producePartsMax {
			return errMalformed
		}
		for n := t.parts; n > 0 && !c.bad; n-- {
			p.parts = append(p.parts, producePart{index: c.int32(), records: c.nullableBytes(flexible), slot: -1})
			c.tags(flexible)
		}
		c.tags(flexible)
		p.topics = append(p.topics, t)
	}
	c.tags(flexible)
	if c.bad {
		return errMalformed
	}
	return nil
}

const (
	// The fewest bytes that a topic and a partition take in a request.
	topicBytesMin     = 2
	partitionBytesMin = 5
	// producePartsMax bounds the topics and partitions of one request, which take
	// more memory than they take bytes.
	producePartsMax = 100_000
)

// resolve judges each partition and gives the good ones to the backend's request.
func (p *produceCall) resolve(version int16) {
	refused, message := p.refused(version)
	parts := p.parts
	for _, t := range p.topics {
		topic := p.view.Image.TopicByKafkaName(t.name)
		for i := range parts[:t.parts] {
			part := &parts[i]
			switch {
			case refused != nil:
				part.refuse(refused, message)
			case topic == nil || part.index < 0 || int(part.index) >= len(topic.Partitions):
				part.refuse(kerr.UnknownTopicOrPartition, "")
			default:
				p.admit(part, topic, version)
			}
		}
		parts = parts[t.parts:]
	}
	p.req.Results = append(p.req.Results, make([]ProduceResult, len(p.req.Partitions))...)
}

// refused is why no partition of the request can be taken, or nil.
func (p *produceCall) refused(version int16) (*kerr.Error, string) {
	switch {
	case version < produceV2Batches:
		return kerr.UnsupportedForMessageFormat, "message formats 0 and 1 are not supported; use Produce version 3 or later"
	case p.req.Acks != AcksNone && p.req.Acks != AcksLeader && p.req.Acks != AcksAll:
		return kerr.InvalidRequiredAcks, "acks must be 0, 1 or -1 (all)"
	case p.transactional:
		return kerr.TransactionalIDAuthorizationFailed, noTransactions
	}
	return nil, ""
}

const noTransactions = "this cluster has no transactions; produce without a transactional id"

// admit checks one partition's records. The batch's own errors are found here,
// on the reading goroutine, before any lock of the partition.
func (p *produceCall) admit(part *producePart, topic *metadata.Topic, version int16) {
	b := part.records
	switch {
	case len(b) == 0:
		part.refuse(kerr.InvalidRecord, "a produce needs exactly one record batch for each partition")
		return
	case len(b) > magicAt && b[magicAt] < 2:
		part.refuse(kerr.UnsupportedForMessageFormat, "message formats 0 and 1 are not supported")
		return
	case len(b) > topic.MaxMessageBytes():
		part.refuse(kerr.MessageTooLarge, "the record batch is larger than the topic's "+metadata.KeyMaxMessage)
		return
	}
	h, size, err := record.Parse(b)
	switch {
	case err != nil && refusal.As(err) == nil, err == nil && size != len(b):
		part.refuse(kerr.InvalidRecord, "a produce needs exactly one whole record batch for each partition")
		return
	case err != nil:
		part.code, part.message = codeOf(err), *messageOf(err)
		return
	case h.IsControl():
		part.refuse(kerr.InvalidRecord, "clients may not write control records")
		return
	case h.IsTransactional():
		part.refuse(kerr.InvalidTxnState, noTransactions)
		return
	case h.LogAppendTime():
		part.refuse(kerr.InvalidTimestamp, "log append time is set by brokers only")
		return
	case h.Codec() == record.Zstd && version < produceZstd:
		part.refuse(kerr.UnsupportedCompressionType, "zstd needs Produce version 7 or later")
		return
	}
	checked, err := record.CheckProduce(b)
	if err != nil {
		part.code, part.message = codeOf(err), *messageOf(err)
		return
	}
	part.slot = len(p.req.Partitions)
	p.req.Partitions = append(p.req.Partitions, ProducePartition{
		ID:    model.Partition{Topic: topic.ID, Index: part.index},
		Batch: checked,
	})
}

// magicAt is where every message format keeps its number.
const magicAt = 16

func (part *producePart) refuse(code *kerr.Error, message string) {
	part.code, part.message = code.Code, message
}

// failed reports that a partition was refused, here or by the backend.
func (p *produceCall) failed() bool {
	for i := range p.parts {
		if part := &p.parts[i]; part.slot < 0 || p.req.Results[part.slot].Err != nil {
			return true
		}
	}
	return false
}

// appendResponse encodes the answer's body.
func (p *produceCall) appendResponse(b []byte, version int16, backend Backend) []byte {
	flexible := version >= produceFlexible
	hints := hints{backend: backend}
	b = appendLength(b, len(p.topics), flexible)
	parts := p.parts
	for _, t := range p.topics {
		b = appendString(b, t.name, flexible)
		b = appendLength(b, t.parts, flexible)
		for i := range parts[:t.parts] {
			b = p.appendPartition(b, &parts[i], version, &hints)
		}
		parts = parts[t.parts:]
		b = appendNoTags(b, flexible)
	}
	if version >= 1 {
		b = appendInt32(b, 0) // throttle
	}
	if flexible {
		b = hints.appendNodes(b)
	}
	return b
}

func (p *produceCall) appendPartition(b []byte, part *producePart, version int16, hints *hints) []byte {
	code, message := part.code, part.message
	base, logStart := model.Offset(-1), model.Offset(-1)
	var hint *leaderHint
	if part.slot >= 0 {
		r := &p.req.Results[part.slot]
		if r.Err != nil {
			code, message = dataCodeOf(r.Err), *messageOf(r.Err)
			if version >= produceLeaderHints && code == kerr.NotLeaderForPartition.Code {
				hint = hints.add(p.req.Partitions[part.slot].ID)
			}
		} else {
			base, logStart = r.Base, r.LogStart
		}
	}
	b = appendInt32(b, part.index)
	b = appendInt16(b, code)
	b = appendInt64(b, int64(base))
	if version >= 2 {
		b = appendInt64(b, -1) // the time is the producer's
	}
	if version >= 5 {
		b = appendInt64(b, int64(logStart))
	}
	if version >= produceErrorMessage {
		flexible := version >= produceFlexible
		b = appendLength(b, 0, flexible) // no errors of single records
		b = appendNullableString(b, message, flexible)
	}
	if version >= produceFlexible {
		b = hint.appendTag(b, 0)
	}
	return b
}
