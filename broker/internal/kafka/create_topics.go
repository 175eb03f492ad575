package kafka

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ister-mq/ister/broker/internal/metadata"
	"github.com/ister-mq/ister/broker/internal/model"
	"github.com/ister-mq/ister/broker/internal/refusal"
)

// createTopics creates each topic by itself, one after the other, so that
// placement follows the order asked for.
func createTopics(ctx context.Context, l *listener, req *kmsg.CreateTopicsRequest, resp *kmsg.CreateTopicsResponse) {
	ctx, cancel := l.adminContext(ctx, req.TimeoutMillis)
	defer cancel()
	count := make(map[string]int, len(req.Topics))
	for _, t := range req.Topics {
		count[t.Topic]++
	}
	for _, t := range req.Topics {
		out := kmsg.NewCreateTopicsResponseTopic()
		out.Topic, out.ReplicationFactor = t.Topic, -1
		switch n := count[t.Topic]; {
		case n == 0: // answered already
			continue
		case n > 1:
			message := "the request names this topic more than once"
			out.ErrorCode, out.ErrorMessage = kerr.InvalidRequest.Code, &message
		default:
			l.createTopic(ctx, t, req.ValidateOnly, &out)
		}
		count[t.Topic] = 0
		resp.Topics = append(resp.Topics, out)
	}
}

func (l *listener) createTopic(ctx context.Context, t kmsg.CreateTopicsRequestTopic, validateOnly bool, out *kmsg.CreateTopicsResponseTopic) {
	cmd, err := createTopicCommand(l.backend.View().Image, t)
	if err == nil {
		cmd.ValidateOnly = validateOnly
		var result any
		if result, err = l.backend.Propose(ctx, cmd); err == nil {
			describeCreated(out, result)
			return
		}
	}
	out.ErrorCode, out.ErrorMessage = codeOf(err), messageOf(err)
	if err == errAssignment {
		out.ErrorCode = kerr.InvalidReplicaAssignment.Code
	}
}

func describeCreated(out *kmsg.CreateTopicsResponseTopic, result any) {
	r, ok := result.(*metadata.TopicResult)
	if !ok || r.Topic == nil {
		panic(fmt.Sprintf("kafka: creating a topic gave %T, want *metadata.TopicResult", result))
	}
	t := r.Topic
	out.TopicID = t.ID
	out.NumPartitions = int32(len(t.Partitions))
	if len(t.Partitions) > 0 {
		out.ReplicationFactor = int16(len(t.Partitions[0].Replicas))
	}
	for _, key := range metadata.ConfigKeys {
		value, explicit := t.Setting(key.Name)
		c := kmsg.NewCreateTopicsResponseTopicConfig()
		c.Name, c.Value, c.Source = key.Name, &value, int8(settingSource(explicit))
		out.Configs = append(out.Configs, c)
	}
}

// errAssignment has a Kafka error of its own.
var errAssignment = refusal.New(refusal.InvalidArgument, "replica assignment",
	"the assignment must name partitions 0 to n-1 once each, and excludes a partition count and a replication factor",
	"list each partition once, and leave both numbers at -1")

// createTopicCommand translates one topic. It checks what the protocol encodes;
// the rest is judged where topics are decided.
func createTopicCommand(im *metadata.Image, t kmsg.CreateTopicsRequestTopic) (*metadata.CreateTopic, error) {
	cmd := &metadata.CreateTopic{Name: topicName(im, t.Topic), Config: map[string]string{}}
	for _, c := range t.Configs {
		if c.Value != nil { // null: the default
			cmd.Config[c.Name] = *c.Value
		}
	}
	if len(t.ReplicaAssignment) > 0 {
		if t.NumPartitions != -1 || t.ReplicationFactor != -1 {
			return nil, errAssignment
		}
		cmd.Assignment = make([][]model.NodeID, len(t.ReplicaAssignment))
		for _, a := range t.ReplicaAssignment {
			if a.Partition < 0 || int(a.Partition) >= len(cmd.Assignment) || cmd.Assignment[a.Partition] != nil || len(a.Replicas) == 0 {
				return nil, errAssignment
			}
			for _, id := range a.Replicas {
				cmd.Assignment[a.Partition] = append(cmd.Assignment[a.Partition], model.NodeID(id))
			}
		}
		cmd.Partitions = len(cmd.Assignment)
		return cmd, nil
	}
	switch {
	case t.NumPartitions == 0 || t.NumPartitions < -1:
		return nil, refusal.New(refusal.InvalidPartition, t.Topic,
			fmt.Sprintf("%d partitions were asked for", t.NumPartitions), "ask for 1 or more, or -1 for the default")
	case t.ReplicationFactor == 0 || t.ReplicationFactor < -1:
		return nil, refusal.New(refusal.InvalidReplicas, t.Topic,
			fmt.Sprintf("a replication factor of %d was asked for", t.ReplicationFactor), "ask for 1 or more, or -1 for the default")
	}
	cmd.Partitions = max(0, int(t.NumPartitions))
	cmd.Replicas = max(0, int(t.ReplicationFactor))
	return cmd, nil
}

// topicName is the full name for a new topic that a Kafka client calls name:
// "namespace.topic" where that namespace exists, else a topic of the default
// namespace.
func topicName(im *metadata.Image, name string) model.TopicName {
	namespace, topic, ok := strings.Cut(name, ".")
	if ok && namespace != model.DefaultNamespace && im.Namespaces[namespace] != nil {
		return model.TopicName{Namespace: namespace, Topic: topic}
	}
	return model.TopicName{Namespace: model.DefaultNamespace, Topic: name}
}

// adminContext bounds a topic change by the client's timeout, and by ours.
func (l *listener) adminContext(ctx context.Context, timeoutMillis int32) (context.Context, context.CancelFunc) {
	timeout := l.cfg.WaitMax
	if timeoutMillis > 0 {
		timeout = min(timeout, time.Duration(timeoutMillis)*time.Millisecond)
	}
	return context.WithTimeout(ctx, timeout)
}
