package verb

import (
	"context"
	"fmt"
	"sort"
	"strings"
	"time"

	"github.com/ister-mq/ister/scenarios/internal/load"
	"github.com/ister-mq/ister/scenarios/internal/spec"
	"github.com/ister-mq/ister/scenarios/internal/verdict"
)

type produceInputs struct {
	Stream    string        `json:"stream" required:"true" doc:"name of the stream in the history; made by its first use"`
	Topics    []string      `json:"topics" required:"true" doc:"topics, as Kafka clients name them; nothing else may write to them"`
	Count     int64         `json:"count" default:"100" min:"1" max:"1000000" doc:"records to each topic"`
	Size      int64         `json:"size" default:"100" min:"1" max:"33554432" doc:"bytes of a value, at least what the record's name in the history needs"`
	FillBatch int64         `json:"fill_batch" default:"0" min:"0" max:"33554432" doc:"when not 0, a record fills a batch of so many bytes by itself"`
	Codecs    []string      `json:"codecs" doc:"compression of the batches: none, gzip, snappy, lz4, zstd; count records with each; default: none"`
	Keys      int64         `json:"keys" default:"8" min:"0" max:"1000000" doc:"keys per topic; 0: records without a key"`
	Headers   int64         `json:"headers" default:"0" min:"0" max:"100" doc:"headers of each record"`
	Shape     string        `json:"shape" default:"plain" enum:"plain|mixed" doc:"mixed: keys and values that are absent or empty, headers without a value or a name, two of one name"`
	Acks      string        `json:"acks" default:"all" enum:"all|leader" doc:"who has to have a record before it is acknowledged"`
	Once      bool          `json:"once" default:"false" doc:"try each record once, without numbering, so that a refusal is seen and not waited out"`
	FirstMS   int64         `json:"first_ms" default:"0" min:"0" doc:"time of the first record in ms since 1970; 0: now"`
	Step      time.Duration `json:"step" default:"0s" doc:"from each record's time to the next"`
	Via       string        `json:"via" doc:"name of the broker that the client is told; default: all"`
}

type produceOutputs struct {
	Stream      string   `json:"stream" doc:"name of the stream"`
	Sent        int64    `json:"sent" doc:"records given to the client"`
	Acked       int64    `json:"acked" doc:"acknowledged"`
	Refused     int64    `json:"refused" doc:"refused for certain"`
	Unknown     int64    `json:"unknown" doc:"of unknown outcome"`
	Error       string   `json:"error" doc:"the first error by its Kafka name, none without"`
	Errors      []string `json:"errors" doc:"the distinct errors"`
	Partitions  int64    `json:"partitions" doc:"partitions that took a record"`
	FirstOffset int64    `json:"first_offset" doc:"smallest offset acknowledged, -1 without"`
	LastOffset  int64    `json:"last_offset" doc:"largest offset acknowledged, -1 without"`
	Bytes       int64    `json:"bytes" doc:"bytes of keys and values"`
	TookMS      float64  `json:"took_ms" doc:"until every record had its answer"`
}

type consumeInputs struct {
	Stream string `json:"stream" required:"true" doc:"name of the stream"`
	Reader string `json:"reader" required:"true" doc:"name of the reader; one that was used before goes on where it ended, with a new client"`
	From   string `json:"from" default:"earliest" enum:"earliest|latest" doc:"where a new reader begins"`
	Max    int64  `json:"max" default:"0" min:"0" doc:"records to take; 0: all up to the high watermark"`
	Via    string `json:"via" doc:"name of the broker that the client is told; default: all"`
}

type consumeOutputs struct {
	Received  int64   `json:"received" doc:"records received"`
	Resumed   bool    `json:"resumed" doc:"the reader went on where it had ended"`
	First     int64   `json:"first_offset" doc:"smallest offset received, -1 without"`
	Last      int64   `json:"last_offset" doc:"largest offset received, -1 without"`
	Behind    int64   `json:"behind" doc:"records left up to the high watermark"`
	Positions []int64 `json:"positions" doc:"offset to read next, by topic and partition"`
	TookMS    float64 `json:"took_ms" doc:"until they were received"`
}

type compareInputs struct {
	Stream  string `json:"stream" required:"true" doc:"name of the stream"`
	Via     string `json:"via" doc:"name of the broker that the client is told; default: all"`
	Drained bool   `json:"drained" default:"false" doc:"every reader of the stream was given everything by now: judge that too"`
}

type compareOutputs struct {
	Acked          int64    `json:"acked" doc:"records acknowledged so far"`
	Failed         int64    `json:"failed" doc:"refused for certain"`
	Unknown        int64    `json:"unknown" doc:"of unknown outcome"`
	InLog          int64    `json:"in_log" doc:"records read from the log"`
	Partitions     int64    `json:"partitions" doc:"partitions read"`
	Offsets        string   `json:"offsets" doc:"offsets read, 0..199 for one partition without gaps"`
	Missing        int64    `json:"acked_missing" doc:"acknowledged, and not in the log"`
	Foreign        int64    `json:"phantom_or_corrupt" doc:"records that nobody sent, or that differ from what was sent by a byte, a header or their time"`
	FailedVisible  int64    `json:"failed_visible" doc:"refused, and in the log"`
	Duplicates     int64    `json:"duplicates" doc:"records twice in the log, whoever wrote them twice"`
	OffsetGaps     int64    `json:"offset_gaps" doc:"gaps in the offsets"`
	OffsetErrors   int64    `json:"offset_errors" doc:"at another offset than acknowledged, or one offset acknowledged twice"`
	OrderBreaks    int64    `json:"order_breaks" doc:"breaks of the order of a producer, a key, real time or leader epochs"`
	ReaderErrors   int64    `json:"reader_errors" doc:"readers that skipped, repeated, or saw something that is not in the log"`
	Violations     int64    `json:"violations" doc:"all of these together"`
	FirstViolation string   `json:"first_violation" doc:"the gravest, in words"`
	Codecs         []string `json:"codecs" doc:"compression of the batches in the log"`
	CodecCount     int64    `json:"codec_count" doc:"how many different ones"`
	NullKeys       int64    `json:"null_keys" doc:"records without a key"`
	EmptyKeys      int64    `json:"empty_keys" doc:"records with an empty key"`
	NullValues     int64    `json:"null_values" doc:"records without a value"`
	EmptyValues    int64    `json:"empty_values" doc:"records with an empty value"`
	Headers        int64    `json:"headers" doc:"headers in all"`
	Largest        int64    `json:"largest_bytes" doc:"bytes of the largest value"`
	TookMS         float64  `json:"took_ms" doc:"until everything was read"`
}

type repeatInputs struct {
	Topic   string `json:"topic" required:"true" doc:"an empty topic, as Kafka clients name it"`
	Batches int64  `json:"batches" default:"8" min:"6" max:"1000" doc:"batches that are sent first"`
	Records int64  `json:"records" default:"3" min:"1" max:"1000" doc:"records of a batch"`
}

type repeatOutputs struct {
	Written    int64  `json:"written" doc:"records in the batches that were sent first"`
	SameOffset bool   `json:"same_offset" doc:"each of the last five batches, sent again, was acknowledged at its first offset"`
	OldError   string `json:"old_error" doc:"answer to a batch from before those, by its Kafka name"`
	GapError   string `json:"gap_error" doc:"answer to a batch whose number leaves a gap"`
	EpochError string `json:"epoch_error" doc:"answer to a batch of an older producer epoch"`
	LogEnd     int64  `json:"log_end" doc:"log end offset afterwards"`
}

func init() {
	define(meta{
		name: "message.produce", risk: spec.Additive, doc: "Write records to topics, wait for every answer, and note each in the history. Refusals are outputs, not a failure of the step.",
		command: "<a Kafka client producing {count} records of {size} bytes to each of {topics}, acks={acks}>",
	}, messageProduce, nil)
	define(meta{
		name: "message.consume", risk: spec.ReadOnly, doc: "Let a reader with a client of its own receive records of a stream; it goes on where it ended when it is used again.",
		command: "<a Kafka client reading on from the offset that {reader} had reached>",
	}, messageConsume, nil)
	define(meta{
		name: "message.compare", risk: spec.ReadOnly, doc: "Read all that is in a stream's topics with a fresh reader, to the high watermark of every partition, and judge it against what was sent and received.",
		command: "<read every topic of {stream} from the beginning and compare>",
	}, messageCompare, nil)
	define(meta{
		name: "message.repeat", risk: spec.Additive, doc: "Send numbered batches, then the last of them again as an idempotent producer does whose answers got lost, then batches that must be refused.",
		command: "<an idempotent producer that sends its last batches to {topic} again>",
	}, messageRepeat, nil)
}

// stream finds a stream, or makes it.
func (e *Env) stream(id string, make bool) (*load.Stream, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if s, ok := e.streams[id]; ok {
		return s, nil
	}
	if !make {
		var known []string
		for name := range e.streams {
			known = append(known, name)
		}
		sort.Strings(known)
		return nil, fmt.Errorf("no stream is called %s (there are: %s)", id, strings.Join(known, ", "))
	}
	if e.streams == nil {
		e.streams = map[string]*load.Stream{}
	}
	s := load.NewStream(id, e.Recorder)
	e.streams[id] = s
	return s, nil
}

// bootstrapOf lists the Kafka addresses of one broker, or of all that run.
func (e *Env) bootstrapOf(via string) ([]string, error) {
	if via == "" {
		addresses := e.bootstrap()
		if len(addresses) == 0 {
			return nil, fmt.Errorf("no broker runs")
		}
		return addresses, nil
	}
	b, err := e.broker(via)
	return []string{b.Kafka}, err
}

func messageProduce(ctx context.Context, env *Env, in produceInputs) (produceOutputs, error) {
	out := produceOutputs{Stream: in.Stream, Error: "none", Errors: []string{}, FirstOffset: -1, LastOffset: -1}
	bootstrap, err := env.bootstrapOf(in.Via)
	if err != nil {
		return out, err
	}
	s, err := env.stream(in.Stream, true)
	if err != nil {
		return out, err
	}
	if len(in.Codecs) == 0 {
		in.Codecs = []string{"none"}
	}
	start := time.Now()
	errors := map[string]int64{}
	for _, codec := range in.Codecs {
		batch := load.Batch{
			Bootstrap: bootstrap, Topics: in.Topics, Count: in.Count, Size: int(in.Size), FillBatch: int(in.FillBatch), Codec: codec, Keys: int(in.Keys),
			Headers: int(in.Headers), Shape: in.Shape, Leader: in.Acks == "leader", Once: in.Once, Step: in.Step,
		}
		if in.FirstMS > 0 {
			batch.First = time.UnixMilli(in.FirstMS)
		}
		sent, err := s.Send(ctx, batch)
		out.add(sent, errors)
		if err != nil {
			return out, err
		}
	}
	for name, count := range errors {
		out.Errors = append(out.Errors, fmt.Sprintf("%s (%d)", name, count))
	}
	sort.Strings(out.Errors)
	out.TookMS = since(start)
	return out, nil
}

func (out *produceOutputs) add(sent load.Sent, errors map[string]int64) {
	out.Sent, out.Acked, out.Refused, out.Unknown, out.Bytes = out.Sent+sent.Sent, out.Acked+sent.Acked, out.Refused+sent.Refused, out.Unknown+sent.Unknown, out.Bytes+sent.Bytes
	out.Partitions = max(out.Partitions, int64(sent.Partitions))
	if sent.FirstOffset >= 0 && (out.FirstOffset < 0 || sent.FirstOffset < out.FirstOffset) {
		out.FirstOffset = sent.FirstOffset
	}
	out.LastOffset = max(out.LastOffset, sent.LastOffset)
	if out.Error == "none" && sent.FirstError != "" {
		out.Error = sent.FirstError
	}
	for name, count := range sent.Errors {
		errors[name] += count
	}
}

func messageConsume(ctx context.Context, env *Env, in consumeInputs) (consumeOutputs, error) {
	out := consumeOutputs{First: -1, Last: -1, Positions: []int64{}}
	bootstrap, err := env.bootstrapOf(in.Via)
	if err != nil {
		return out, err
	}
	s, err := env.stream(in.Stream, false)
	if err != nil {
		return out, err
	}
	start := time.Now()
	taken, err := s.Take(ctx, bootstrap, in.Reader, in.From, in.Max)
	out.Received, out.Resumed, out.First, out.Last, out.Behind, out.TookMS = taken.Received, taken.Resumed, taken.First, taken.Last, taken.Behind, since(start)
	out.Positions = append(out.Positions, s.Positions(in.Reader)...)
	return out, err
}

func messageCompare(ctx context.Context, env *Env, in compareInputs) (compareOutputs, error) {
	out := compareOutputs{Codecs: []string{}}
	bootstrap, err := env.bootstrapOf(in.Via)
	if err != nil {
		return out, err
	}
	s, err := env.stream(in.Stream, false)
	if err != nil {
		return out, err
	}
	start := time.Now()
	read, kinds, err := s.Read(ctx, bootstrap, in.Drained)
	if err != nil {
		return out, err
	}
	v, err := verdict.Judge(env.Recorder.Snapshot(), in.Stream, read)
	if err != nil {
		return out, err
	}
	count := func(checks ...verdict.Check) (sum int64) {
		for _, c := range checks {
			sum += int64(v.Counts[c])
		}
		return sum
	}
	out = compareOutputs{
		Acked: int64(v.Acked), Failed: int64(v.Failed), Unknown: int64(v.Unknown), InLog: int64(v.InLog), Partitions: int64(v.Partitions), Offsets: extents(v),
		Missing: count(verdict.AckedLost), Foreign: count(verdict.Phantom, verdict.Corrupt), FailedVisible: count(verdict.FailedVisible),
		Duplicates: count(verdict.LogDuplicate, verdict.ClientDuplicate), OffsetGaps: count(verdict.OffsetGap), OffsetErrors: count(verdict.OffsetMismatch, verdict.OffsetReused),
		OrderBreaks:  count(verdict.ProducerOrder, verdict.KeyOrder, verdict.RealTimeOrder, verdict.EpochRegress, verdict.StaleEpochAck),
		ReaderErrors: count(verdict.Divergence, verdict.ConsumerSkip, verdict.NeverDelivered, verdict.HighWatermarkBack), Violations: int64(v.Violations()), FirstViolation: "none",
		Codecs: append([]string{}, kinds.Codecs...), CodecCount: int64(len(kinds.Codecs)), NullKeys: kinds.NullKeys, EmptyKeys: kinds.EmptyKeys, NullValues: kinds.NullValues,
		EmptyValues: kinds.EmptyValues, Headers: kinds.Headers, Largest: kinds.LargestBytes, TookMS: since(start),
	}
	if len(v.Findings) > 0 {
		out.FirstViolation = v.Findings[0].Message
	}
	return out, nil
}

func messageRepeat(ctx context.Context, env *Env, in repeatInputs) (repeatOutputs, error) {
	out := repeatOutputs{Written: in.Batches * in.Records, LogEnd: -1}
	bootstrap, err := env.bootstrapOf("")
	if err != nil {
		return out, err
	}
	r, err := load.Repeat(ctx, bootstrap, in.Topic, int(in.Batches), int(in.Records))
	out.SameOffset, out.OldError, out.GapError, out.EpochError, out.LogEnd = r.SameOffset, r.OldError, r.GapError, r.EpochError, r.LogEnd
	return out, err
}
