package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ister-mq/ister/broker/internal/model"
)

// Special timestamps for tiered storage (KIP-405, KIP-1005), which is not there.
const (
	timestampEarliestLocal int64 = -4 // what is local is everything
	timestampLatestTiered  int64 = -5 // nothing is tiered
)

// listOffsets answers ListOffsets. Both isolation levels read the same, since there
// are no transactions.
func listOffsets(ctx context.Context, l *listener, req *kmsg.ListOffsetsRequest, resp *kmsg.ListOffsetsResponse) {
	im := l.backend.View().Image
	var queries []OffsetQuery
	var targets []*kmsg.ListOffsetsResponseTopicPartition
	resp.Topics = make([]kmsg.ListOffsetsResponseTopic, len(req.Topics))
	for i, t := range req.Topics {
		topic := im.TopicByKafkaName(t.Topic)
		resp.Topics[i].Topic = t.Topic
		parts := make([]kmsg.ListOffsetsResponseTopicPartition, len(t.Partitions))
		resp.Topics[i].Partitions = parts
		for j, p := range t.Partitions {
			parts[j] = kmsg.NewListOffsetsResponseTopicPartition()
			out := &parts[j]
			out.Partition, out.Offset, out.Timestamp, out.LeaderEpoch = p.Partition, -1, -1, int32(model.NoEpoch)
			q := OffsetQuery{Timestamp: p.Timestamp, LeaderEpoch: epoch(p.CurrentLeaderEpoch)}
			if q.Timestamp == timestampEarliestLocal {
				q.Timestamp = TimestampEarliest
			}
			switch {
			case topic == nil || p.Partition < 0 || int(p.Partition) >= len(topic.Partitions):
				out.ErrorCode = kerr.UnknownTopicOrPartition.Code
			case q.Timestamp == timestampLatestTiered:
			case q.Timestamp < TimestampMax:
				out.ErrorCode = kerr.UnsupportedVersion.Code
			default:
				q.ID = model.Partition{Topic: topic.ID, Index: p.Partition}
				queries, targets = append(queries, q), append(targets, out)
			}
		}
	}
	if len(queries) == 0 {
		return
	}
	for i, a := range l.backend.ListOffsets(ctx, queries) {
		out := targets[i]
		if out.ErrorCode = offsetsCode(a.Err, req.Version); out.ErrorCode == 0 {
			out.Offset, out.Timestamp, out.LeaderEpoch = int64(a.Offset), a.Timestamp, int32(a.LeaderEpoch)
		}
	}
}

// offsetsCode maps an outcome. OFFSET_NOT_AVAILABLE is known to clients from
// version 5 on (KIP-207); older ones retry on LEADER_NOT_AVAILABLE.
func offsetsCode(err error, version int16) int16 {
	code := dataCodeOf(err)
	if code == kerr.OffsetNotAvailable.Code && version < 5 {
		return kerr.LeaderNotAvailable.Code
	}
	return code
}
