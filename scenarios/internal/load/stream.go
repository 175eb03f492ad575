package load

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ister-mq/ister/scenarios/internal/history"
)

// Stream is what a scenario writes step by step: each Send adds records to its
// topics, readers take some of them, Read reads everything. One goroutine uses
// it. Its topics hold nothing else, or the judge finds records nobody sent.
type Stream struct {
	id       string
	recorder *history.Recorder
	topics   []string         // in order of their first Send
	next     map[string]int64 // number of the next record, by topic
	readers  map[string]*position
	reads    int
}

// position is how far a reader has come.
type position struct {
	next    map[history.Slot]int64 // offset to read next
	session int
}

// NewStream makes an empty one.
func NewStream(id string, recorder *history.Recorder) *Stream {
	return &Stream{id: id, recorder: recorder, next: map[string]int64{}, readers: map[string]*position{}}
}

// Topics are those that were sent to.
func (s *Stream) Topics() []string { return s.topics }

// Shapes of records.
const (
	ShapePlain = "plain"
	// ShapeMixed goes through everything a record may lack or hold: no key, an
	// empty key, no value, an empty value, no header, one with and one without a
	// value, two of one name.
	ShapeMixed = "mixed"
)

// Batch is one Send.
type Batch struct {
	Bootstrap []string
	Topics    []string
	Count     int64 // records to each topic
	Size      int   // bytes of a value, at least what the uid needs
	// FillBatch, when not 0, makes each record so large that the batch that holds
	// it alone has so many bytes.
	FillBatch int
	Codec     string // none, gzip, snappy, lz4 or zstd
	Keys      int    // keys per topic; 0: records without a key
	Headers   int
	Shape     string
	Leader    bool // acknowledged by the leader alone
	// Once: each record is tried once, without numbering, so that a refusal is
	// seen and not waited out.
	Once bool
	// First and Step give the times of the records; zero First: now.
	First time.Time
	Step  time.Duration
}

// Sent is what became of a Batch.
type Sent struct {
	Sent, Acked, Refused, Unknown int64
	// Errors are the distinct errors, by number; FirstError the first one.
	Errors     map[string]int64
	FirstError string
	Bytes      int64 // keys and values
	Partitions int   // that took a record
	// FirstOffset and LastOffset span what was acknowledged; -1: nothing was.
	FirstOffset, LastOffset int64
}

// codecs of batches, by name.
var codecs = map[string]kgo.CompressionCodec{
	"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(), "lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
}

// codecNames are the codecs by the number that a batch carries.
var codecNames = []string{"none", "gzip", "snappy", "lz4", "zstd"}

// streamBatchMax lets the broker, not the client, refuse what is too large.
const streamBatchMax = 64 << 20

// Send gives the records to a producer and waits for every answer. Refusals are
// told in what it returns; the error is for a Batch that could not be tried.
func (s *Stream) Send(ctx context.Context, b Batch) (Sent, error) {
	out := Sent{Errors: map[string]int64{}, FirstOffset: -1, LastOffset: -1}
	codec, ok := codecs[b.Codec]
	if !ok {
		return out, fmt.Errorf("codec %q: expected one of %s", b.Codec, strings.Join(codecNames, ", "))
	}
	options := append(clientOptions(b.Bootstrap), kgo.ProducerBatchCompression(codec), kgo.ProducerBatchMaxBytes(streamBatchMax), kgo.ProducerLinger(5*time.Millisecond),
		kgo.ProduceRequestTimeout(5*time.Second), kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)), kgo.MaxBufferedRecords(pendingMax))
	switch {
	case b.Once:
		options = append(options, kgo.DisableIdempotentWrite(), kgo.RecordRetries(0), kgo.UnknownTopicRetries(0))
	case b.Leader:
		options = append(options, kgo.DisableIdempotentWrite())
	}
	if b.Leader {
		options = append(options, kgo.RequiredAcks(kgo.LeaderAck()))
	}
	producer, err := kgo.NewClient(options...)
	if err != nil {
		return out, fmt.Errorf("make a producer: %w", err)
	}
	defer producer.Close()
	s.give(ctx, producer, b, &out)
	if err := producer.Flush(ctx); err != nil {
		producer.Close() // ends what is left as unknown
		return out, fmt.Errorf("stream %s: %d of %d records had no answer: %w", s.id, out.Sent-out.Acked-out.Refused-out.Unknown, out.Sent, err)
	}
	return out, nil
}

// give hands every record to the producer. The promises run on the producer's
// goroutines, hence the lock; Flush or Close waits for them.
func (s *Stream) give(ctx context.Context, producer *kgo.Client, b Batch, out *Sent) {
	var mu sync.Mutex
	partitions := map[history.Slot]bool{}
	at := b.First
	if at.IsZero() {
		at = time.Now()
	}
	for n := range b.Count {
		for _, topic := range b.Topics {
			record, send := s.record(b, topic, at.Add(time.Duration(n)*b.Step))
			handle := s.recorder.BeginSend(send)
			mu.Lock()
			out.Sent++
			out.Bytes += int64(len(record.Key) + len(record.Value))
			mu.Unlock()
			producer.Produce(ctx, record, func(r *kgo.Record, err error) {
				outcome := classifyOnce(err, b.Once)
				partition := r.Partition
				if outcome != history.OK {
					partition = -1
				}
				s.recorder.EndSend(handle, outcome, partition, r.Offset, -1, -1, err)
				mu.Lock()
				defer mu.Unlock()
				out.count(outcome, r, err)
				if outcome == history.OK {
					partitions[history.Slot{Topic: topic, Partition: partition}] = true
					out.Partitions = len(partitions)
				}
			})
		}
	}
}

func (out *Sent) count(outcome history.Outcome, r *kgo.Record, err error) {
	switch outcome {
	case history.OK:
		out.Acked++
		if out.FirstOffset < 0 || r.Offset < out.FirstOffset {
			out.FirstOffset = r.Offset
		}
		out.LastOffset = max(out.LastOffset, r.Offset)
		return
	case history.Failed:
		out.Refused++
	default:
		out.Unknown++
	}
	name := errorName(err)
	out.Errors[name]++
	if out.FirstError == "" {
		out.FirstError = name
	}
}

// errorName is a Kafka error's own name, or the text of another one.
func errorName(err error) string {
	var known *kerr.Error
	if errors.As(err, &known) {
		return known.Message
	}
	return err.Error()
}

// refusedOnce are the errors after which a record that was tried once was not
// written for certain.
var refusedOnce = []error{kerr.NotEnoughReplicas, kerr.UnknownTopicOrPartition, kerr.NotLeaderForPartition}

func classifyOnce(err error, once bool) history.Outcome {
	if once {
		for _, refused := range refusedOnce {
			if errors.Is(err, refused) {
				return history.Failed
			}
		}
	}
	return classify(err)
}

// uidHeader carries the uid of a record whose value has no room for it.
const uidHeader = "ister-uid"

// record makes the next record of a topic, and what the history says of it.
func (s *Stream) record(b Batch, topic string, at time.Time) (*kgo.Record, history.Send) {
	seq, known := s.next[topic]
	if !known {
		s.topics = append(s.topics, topic)
	}
	s.next[topic] = seq + 1
	uid := fmt.Sprintf("%s/%s/%d", s.id, topic, seq)
	r := &kgo.Record{Topic: topic, Timestamp: at.Truncate(time.Millisecond)}
	if b.Keys > 0 {
		r.Key = fmt.Appendf(nil, "k%d", seq%int64(b.Keys))
	}
	for i := range b.Headers {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: fmt.Sprintf("h%d", i), Value: []byte(uid)})
	}
	r.Value = append([]byte(uid), '\n')
	size := b.Size
	if b.FillBatch > 0 {
		size = valueThatFills(r, b.FillBatch)
	}
	for i := 0; len(r.Value) < size; i++ {
		r.Value = append(r.Value, uid[i%len(uid)])
	}
	if b.Shape == ShapeMixed {
		mix(r, uid, seq)
	}
	return r, history.Send{
		Slot: history.Slot{Topic: topic, Partition: -1}, Load: s.id, Producer: s.id, UID: uid, Key: keyText(r, uid), Seq: seq, CRC: checksum(r), Idempotent: !b.Once && !b.Leader,
	}
}

// mix gives a record the shape that its number asks for.
func mix(r *kgo.Record, uid string, seq int64) {
	r.Headers = append(r.Headers, kgo.RecordHeader{Key: uidHeader, Value: []byte(uid)})
	switch seq % 7 {
	case 0:
		r.Key = nil
	case 1:
		r.Key = []byte{}
	case 2:
		r.Value = nil
	case 3:
		r.Value = []byte{}
	case 4:
		r.Key, r.Value = nil, nil
	case 5:
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: "empty", Value: []byte{}}, kgo.RecordHeader{Key: "none"})
	case 6:
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: "twice", Value: []byte("first")}, kgo.RecordHeader{Key: "twice", Value: []byte{0, 255, 10}}, kgo.RecordHeader{Key: "", Value: []byte("no name")})
	}
}

// The bytes of a batch around its records.
const batchHeadBytes = 61

// valueThatFills is the size of the value with which a batch that holds only r has
// so many bytes.
func valueThatFills(r *kgo.Record, batchBytes int) int {
	size := batchBytes - batchHeadBytes
	for ; size > 0; size-- { // a shorter value may also need a shorter length
		body := 1 + 1 + 1 + bytesLength(len(r.Key), r.Key == nil) + varintLength(int64(size)) + size + varintLength(int64(len(r.Headers)))
		for _, h := range r.Headers {
			body += bytesLength(len(h.Key), false) + bytesLength(len(h.Value), h.Value == nil)
		}
		if batchHeadBytes+varintLength(int64(body))+body <= batchBytes {
			break
		}
	}
	return size
}

func varintLength(n int64) int { return len(binary.AppendVarint(nil, n)) }

func bytesLength(n int, null bool) int {
	if null {
		return varintLength(-1)
	}
	return varintLength(int64(n)) + n
}

// keyText is a record's key in the history. Records without a key may be on any
// partition in any order, which is told by a key of their own for each.
func keyText(r *kgo.Record, uid string) string {
	if r.Key == nil {
		return "no key: " + uid
	}
	if len(r.Key) == 0 {
		return "empty key"
	}
	return string(r.Key)
}

// checksum covers all that a record holds, and whether a key or value is absent
// or empty.
func checksum(r *kgo.Record) uint32 {
	var all bytes.Buffer
	part := func(data []byte) {
		length := int64(len(data))
		if data == nil {
			length = -1
		}
		all.Write(binary.AppendVarint(nil, length))
		all.Write(data)
	}
	part(r.Key)
	part(r.Value)
	for _, h := range r.Headers {
		part([]byte(h.Key))
		part(h.Value)
	}
	all.Write(binary.AppendVarint(nil, r.Timestamp.UnixMilli()))
	return crc32.Checksum(all.Bytes(), castagnoli)
}

// Kinds counts what records were like.
type Kinds struct {
	NullKeys, EmptyKeys, NullValues, EmptyValues, Headers int64
	LargestBytes                                          int64
	Codecs                                                []string // of their batches, by number
	seen                                                  map[string]bool
}

func (k *Kinds) look(r *kgo.Record) {
	if r.Key == nil {
		k.NullKeys++
	} else if len(r.Key) == 0 {
		k.EmptyKeys++
	}
	if r.Value == nil {
		k.NullValues++
	} else if len(r.Value) == 0 {
		k.EmptyValues++
	}
	k.Headers += int64(len(r.Headers))
	k.LargestBytes = max(k.LargestBytes, int64(len(r.Value)))
	name := "unknown"
	if c := int(r.Attrs.CompressionType()); c < len(codecNames) {
		name = codecNames[c]
	}
	if !k.seen[name] {
		if k.seen == nil {
			k.seen = map[string]bool{}
		}
		k.seen[name] = true
		k.Codecs = append(k.Codecs, name)
		sort.Slice(k.Codecs, func(a, b int) bool { return codecNumber(k.Codecs[a]) < codecNumber(k.Codecs[b]) })
	}
}

func codecNumber(name string) int {
	for i, known := range codecNames {
		if name == known {
			return i
		}
	}
	return len(codecNames)
}
