package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ister-mq/ister/broker/internal/model"
)

// offsetForLeaderEpoch answers OffsetForLeaderEpoch: how consumers find out that
// the log they read was truncated (KIP-320).
func offsetForLeaderEpoch(ctx context.Context, l *listener, req *kmsg.OffsetForLeaderEpochRequest, resp *kmsg.OffsetForLeaderEpochResponse) {
	im := l.backend.View().Image
	var queries []EpochQuery
	var targets []*kmsg.OffsetForLeaderEpochResponseTopicPartition
	resp.Topics = make([]kmsg.OffsetForLeaderEpochResponseTopic, len(req.Topics))
	for i, t := range req.Topics {
		topic := im.TopicByKafkaName(t.Topic)
		resp.Topics[i].Topic = t.Topic
		parts := make([]kmsg.OffsetForLeaderEpochResponseTopicPartition, len(t.Partitions))
		resp.Topics[i].Partitions = parts
		for j, p := range t.Partitions {
			out := &parts[j]
			out.Partition, out.LeaderEpoch, out.EndOffset = p.Partition, int32(model.NoEpoch), -1
			if topic == nil || p.Partition < 0 || int(p.Partition) >= len(topic.Partitions) {
				out.ErrorCode = kerr.UnknownTopicOrPartition.Code
				continue
			}
			queries = append(queries, EpochQuery{
				ID:           model.Partition{Topic: topic.ID, Index: p.Partition},
				CurrentEpoch: epoch(p.CurrentLeaderEpoch),
				Epoch:        epoch(p.LeaderEpoch),
			})
			targets = append(targets, out)
		}
	}
	if len(queries) == 0 {
		return
	}
	for i, a := range l.backend.OffsetForLeaderEpoch(ctx, queries) {
		out := targets[i]
		if out.ErrorCode = dataCodeOf(a.Err); out.ErrorCode == 0 {
			out.LeaderEpoch, out.EndOffset = int32(a.Epoch), int64(a.End)
		}
	}
}
