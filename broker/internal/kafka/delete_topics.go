package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ister-mq/ister/broker/internal/metadata"
	"github.com/ister-mq/ister/broker/internal/model"
)

// deleteTopicsByID is the version from which topics are named by id or name.
const deleteTopicsByID = 6

func deleteTopics(ctx context.Context, l *listener, req *kmsg.DeleteTopicsRequest, resp *kmsg.DeleteTopicsResponse) {
	ctx, cancel := l.adminContext(ctx, req.TimeoutMillis)
	defer cancel()
	asked := req.Topics
	if req.Version < deleteTopicsByID {
		asked = nil
		for _, name := range req.TopicNames {
			asked = append(asked, kmsg.DeleteTopicsRequestTopic{Topic: kmsg.StringPtr(name)})
		}
	}
	for _, t := range asked {
		out := kmsg.NewDeleteTopicsResponseTopic()
		out.Topic, out.TopicID = t.Topic, t.TopicID
		l.deleteTopic(ctx, t, &out)
		resp.Topics = append(resp.Topics, out)
	}
}

func (l *listener) deleteTopic(ctx context.Context, t kmsg.DeleteTopicsRequestTopic, out *kmsg.DeleteTopicsResponseTopic) {
	im := l.backend.View().Image
	var topic *metadata.Topic
	missing := kerr.UnknownTopicOrPartition
	switch id := model.TopicID(t.TopicID); {
	case t.Topic != nil && !id.IsZero():
		message := "a topic is named by its name or by its id, not both"
		out.ErrorCode, out.ErrorMessage = kerr.InvalidRequest.Code, &message
		return
	case t.Topic != nil:
		topic = im.TopicByKafkaName(*t.Topic)
	default:
		topic, missing = im.Topics[id], kerr.UnknownTopicID
	}
	if topic == nil {
		out.ErrorCode, out.ErrorMessage = missing.Code, &missing.Description
		return
	}
	name := topic.Name.Kafka()
	out.Topic, out.TopicID = &name, topic.ID
	// By id: a topic created anew under the name meanwhile is another one.
	_, err := l.backend.Propose(ctx, &metadata.DeleteTopic{ID: topic.ID})
	out.ErrorCode, out.ErrorMessage = codeOf(err), messageOf(err)
}
