package verb

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ister-mq/ister/scenarios/internal/spec"
)

type offsetsInputs struct {
	Topic  string `json:"topic" required:"true" doc:"topic, as Kafka clients name it"`
	At     string `json:"at" default:"latest" enum:"earliest|latest|max_timestamp|timestamp" doc:"which offset of each partition"`
	TimeMS int64  `json:"time_ms" default:"0" min:"0" doc:"for timestamp: the first record at or after it, in ms since 1970"`
	Via    string `json:"via" doc:"name of the broker that the client is told; default: all"`
}

type offsetsOutputs struct {
	Offsets    []int64  `json:"offsets" doc:"offset of each partition, -1 where no record is so late"`
	Epochs     []int64  `json:"epochs" doc:"leader epoch of that offset, -1 unknown"`
	Times      []int64  `json:"times_ms" doc:"time of the record at that offset, -1 where the answer has none"`
	Partitions int64    `json:"partitions" doc:"partitions that answered"`
	Sum        int64    `json:"sum" doc:"sum of the offsets"`
	Errors     []string `json:"errors" doc:"partitions that refused, and why"`
}

type epochEndInputs struct {
	Topic     string `json:"topic" required:"true" doc:"topic, as Kafka clients name it"`
	Partition int64  `json:"partition" default:"0" min:"0" doc:"partition"`
	Epoch     int64  `json:"epoch" required:"true" min:"0" doc:"leader epoch that is asked about"`
}

type epochEndOutputs struct {
	End   int64  `json:"end_offset" doc:"first offset after that epoch, -1 when the broker does not know it"`
	Epoch int64  `json:"epoch" doc:"the largest epoch at or before it that has records, -1 without"`
	Error string `json:"error" doc:"refusal by its Kafka name, none without"`
}

func init() {
	define(meta{
		name: "offsets.list", risk: spec.ReadOnly, doc: "Ask the leader of each partition of a topic for an offset.",
		command: "<ListOffsets of {topic}: {at}>",
	}, offsetsList, nil)
	define(meta{
		name: "offsets.epoch", risk: spec.ReadOnly, doc: "Ask a partition's leader where a leader epoch ended, as a client does that looks for truncation.",
		command: "<OffsetForLeaderEpoch of {topic}/{partition}, epoch {epoch}>",
	}, offsetsEpoch, nil)
}

func (e *Env) kafka(via string) (*kgo.Client, error) {
	bootstrap, err := e.bootstrapOf(via)
	if err != nil {
		return nil, err
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(bootstrap...), kgo.ClientID("ister-scenario"))
	if err != nil {
		return nil, fmt.Errorf("make a Kafka client: %w", err)
	}
	return client, nil
}

func offsetsList(ctx context.Context, env *Env, in offsetsInputs) (offsetsOutputs, error) {
	out := offsetsOutputs{Offsets: []int64{}, Epochs: []int64{}, Times: []int64{}, Errors: []string{}}
	client, err := env.kafka(in.Via)
	if err != nil {
		return out, err
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	var listed kadm.ListedOffsets
	switch in.At {
	case "earliest":
		listed, err = admin.ListStartOffsets(ctx, in.Topic)
	case "latest":
		listed, err = admin.ListEndOffsets(ctx, in.Topic)
	case "max_timestamp":
		listed, err = admin.ListMaxTimestampOffsets(ctx, in.Topic)
	default:
		return out, offsetsAt(ctx, admin, in, &out)
	}
	if err != nil {
		return out, fmt.Errorf("list offsets of %s: %w", in.Topic, err)
	}
	out.add(listed[in.Topic])
	return out, nil
}

// offsetsAt asks for the first record at or after a time. The library would put
// the end of the log where there is none, which is another answer.
func offsetsAt(ctx context.Context, admin *kadm.Client, in offsetsInputs, out *offsetsOutputs) error {
	ends, err := admin.ListEndOffsets(ctx, in.Topic)
	if err != nil {
		return fmt.Errorf("list offsets of %s: %w", in.Topic, err)
	}
	listed, err := admin.ListOffsetsAfterMilli(ctx, in.TimeMS, in.Topic)
	if err != nil {
		return fmt.Errorf("list offsets of %s: %w", in.Topic, err)
	}
	for partition, o := range listed[in.Topic] {
		if end, ok := ends.Lookup(in.Topic, partition); ok && o.Err == nil && o.Timestamp < 0 && o.Offset == end.Offset {
			o.Offset = -1
			listed[in.Topic][partition] = o
		}
	}
	out.add(listed[in.Topic])
	return nil
}

func (out *offsetsOutputs) add(partitions map[int32]kadm.ListedOffset) {
	for p := range int32(len(partitions)) {
		o := partitions[p]
		if o.Err != nil {
			out.Errors = append(out.Errors, fmt.Sprintf("%d: %v", p, o.Err))
			continue
		}
		out.Partitions++
		out.Offsets, out.Epochs, out.Times = append(out.Offsets, o.Offset), append(out.Epochs, int64(o.LeaderEpoch)), append(out.Times, o.Timestamp)
		out.Sum += o.Offset
	}
}

func offsetsEpoch(ctx context.Context, env *Env, in epochEndInputs) (epochEndOutputs, error) {
	out := epochEndOutputs{End: -1, Epoch: -1, Error: "none"}
	client, err := env.kafka("")
	if err != nil {
		return out, err
	}
	defer client.Close()
	part := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
	part.Partition, part.CurrentLeaderEpoch, part.LeaderEpoch = int32(in.Partition), -1, int32(in.Epoch)
	topic := kmsg.NewOffsetForLeaderEpochRequestTopic()
	topic.Topic = in.Topic
	topic.Partitions = append(topic.Partitions, part)
	request := kmsg.NewPtrOffsetForLeaderEpochRequest()
	request.ReplicaID = -1
	request.Topics = append(request.Topics, topic)
	answer, err := request.RequestWith(ctx, client)
	if err != nil {
		return out, fmt.Errorf("ask where epoch %d of %s/%d ended: %w", in.Epoch, in.Topic, in.Partition, err)
	}
	for _, t := range answer.Topics {
		for _, p := range t.Partitions {
			out.End, out.Epoch = p.EndOffset, int64(p.LeaderEpoch)
			if p.ErrorCode != 0 {
				out.Error = kerr.TypedErrorForCode(p.ErrorCode).Message
			}
		}
	}
	return out, nil
}
