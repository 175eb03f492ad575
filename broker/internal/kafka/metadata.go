package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ister-mq/ister/broker/internal/metadata"
	"github.com/ister-mq/ister/broker/internal/model"
)

// describeMetadata answers Metadata. Topics are never created by it, whatever
// allow_auto_topic_creation says.
func describeMetadata(_ context.Context, l *listener, req *kmsg.MetadataRequest, resp *kmsg.MetadataResponse) {
	v := l.backend.View()
	if v.Image.Cluster != "" {
		cluster := string(v.Image.Cluster)
		resp.ClusterID = &cluster
	}
	resp.ControllerID = controllerID(v)
	for _, n := range liveNodes(v.Image) {
		host, port, _ := hostPort(n)
		b := kmsg.NewMetadataResponseBroker()
		b.NodeID, b.Host, b.Port, b.Rack = int32(n.ID), host, port, rackOf(n)
		resp.Brokers = append(resp.Brokers, b)
	}
	// Version 0 has no null: an empty list asks for all.
	if req.Topics == nil || req.Version == 0 && len(req.Topics) == 0 {
		for _, t := range v.Image.SortedTopics() {
			resp.Topics = append(resp.Topics, describeTopic(v.Image, t))
		}
		return
	}
	seen := make(map[kmsgTopic]bool, len(req.Topics))
	for _, t := range req.Topics {
		asked := kmsgTopic{id: t.TopicID}
		if t.Topic != nil {
			asked.name = *t.Topic
		}
		if !seen[asked] {
			seen[asked] = true
			resp.Topics = append(resp.Topics, describeAskedTopic(v.Image, asked))
		}
	}
}

// kmsgTopic is a topic as asked for: by name, or by id where there is no name.
type kmsgTopic struct {
	name string
	id   model.TopicID
}

func describeAskedTopic(im *metadata.Image, asked kmsgTopic) kmsg.MetadataResponseTopic {
	missing := kmsg.NewMetadataResponseTopic()
	if asked.name == "" && !asked.id.IsZero() {
		if t := im.Topics[asked.id]; t != nil {
			return describeTopic(im, t)
		}
		missing.TopicID, missing.ErrorCode = asked.id, kerr.UnknownTopicID.Code
		return missing
	}
	if t := im.TopicByKafkaName(asked.name); t != nil {
		return describeTopic(im, t)
	}
	missing.Topic, missing.ErrorCode = &asked.name, kerr.UnknownTopicOrPartition.Code
	if (model.TopicName{Namespace: model.DefaultNamespace, Topic: asked.name}).Check() != nil {
		missing.ErrorCode = kerr.InvalidTopicException.Code
	}
	return missing
}

func describeTopic(im *metadata.Image, t *metadata.Topic) kmsg.MetadataResponseTopic {
	name := t.Name.Kafka()
	out := kmsg.NewMetadataResponseTopic()
	out.Topic, out.TopicID = &name, t.ID
	out.Partitions = make([]kmsg.MetadataResponseTopicPartition, len(t.Partitions))
	for i, p := range t.Partitions {
		out.Partitions[i] = describePartition(im, p)
	}
	return out
}

// describePartition names a leader only where clients can reach it: a leader of
// -1 with LEADER_NOT_AVAILABLE makes them ask again.
func describePartition(im *metadata.Image, p *metadata.Partition) kmsg.MetadataResponseTopicPartition {
	out := kmsg.NewMetadataResponseTopicPartition()
	out.Partition, out.Leader, out.LeaderEpoch = p.ID.Index, int32(p.Leader), int32(p.LeaderEpoch)
	if !isListed(im.Nodes[p.Leader]) {
		out.Leader, out.ErrorCode = -1, kerr.LeaderNotAvailable.Code
	}
	out.Replicas, out.ISR = nodeIDs(p.Replicas), nodeIDs(p.ISR)
	out.OfflineReplicas = []int32{}
	for _, id := range p.Replicas {
		if !im.Unfenced(id) {
			out.OfflineReplicas = append(out.OfflineReplicas, int32(id))
		}
	}
	return out
}

func nodeIDs(ids []model.NodeID) []int32 {
	out := make([]int32, len(ids))
	for i, id := range ids {
		out[i] = int32(id)
	}
	return out
}

// isListed reports whether clients are told of a node: registered, alive, and
// with an address.
func isListed(n *metadata.Node) bool {
	if n == nil || n.Fenced {
		return false
	}
	_, _, ok := hostPort(n)
	return ok
}

// liveNodes lists the nodes that clients are told of, by id.
func liveNodes(im *metadata.Image) []*metadata.Node {
	var out []*metadata.Node
	for _, n := range im.SortedNodes() {
		if isListed(n) {
			out = append(out, n)
		}
	}
	return out
}

// controllerID is where clients send topic changes: the controller, or, while it
// is not known or not listed, this node, which forwards to it; -1 when this node
// is not listed either.
func controllerID(v View) int32 {
	for _, id := range []model.NodeID{v.Controller, v.Self} {
		if isListed(v.Image.Nodes[id]) {
			return int32(id)
		}
	}
	return -1
}

func rackOf(n *metadata.Node) *string {
	if n.Rack == "" {
		return nil
	}
	return &n.Rack
}
