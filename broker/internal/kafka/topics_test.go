package kafka

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Topics and offsets on the raw wire.

func TestDeleteTopicsByID(t *testing.T) {
	f, addrs := startCluster(t, 1, Config{})
	topic := f.topic(t, "gone", 1)
	c := dial(t, addrs[0])
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.Topics = []kmsg.DeleteTopicsRequestTopic{
		{TopicID: topic.ID}, {TopicID: [16]byte{1}}, {Topic: kmsg.StringPtr("gone"), TopicID: topic.ID},
	}
	resp := c.request(req, 6).(*kmsg.DeleteTopicsResponse)
	if r := resp.Topics[0]; r.ErrorCode != 0 || *r.Topic != "gone" || r.TopicID != topic.ID {
		t.Errorf("by id: %+v", r)
	}
	if r := resp.Topics[1]; r.ErrorCode != kerr.UnknownTopicID.Code {
		t.Errorf("unknown id: %+v", r)
	}
	if r := resp.Topics[2]; r.ErrorCode != kerr.InvalidRequest.Code {
		t.Errorf("both: %+v", r)
	}
}

func TestMetadataByIDAndAll(t *testing.T) {
	f, addrs := startCluster(t, 1, Config{})
	a := f.topic(t, "a", 2)
	f.topic(t, "b", 1)
	c := dial(t, addrs[0])
	for version := int16(0); version <= 13; version++ {
		req := kmsg.NewPtrMetadataRequest() // null, or empty in version 0: all
		if resp := c.request(req, version).(*kmsg.MetadataResponse); len(resp.Topics) != 2 {
			t.Errorf("version %d, all: %+v", version, resp.Topics)
		}
		if version == 0 {
			continue
		}
		req.Topics = []kmsg.MetadataRequestTopic{}
		if resp := c.request(req, version).(*kmsg.MetadataResponse); len(resp.Topics) != 0 || len(resp.Brokers) != 1 {
			t.Errorf("version %d, none: %+v", version, resp.Topics)
		}
	}
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = []kmsg.MetadataRequestTopic{{TopicID: a.ID}, {TopicID: [16]byte{7}}, {TopicID: a.ID}, {Topic: kmsg.StringPtr("no/slash")}}
	resp := c.request(req, 13).(*kmsg.MetadataResponse)
	if len(resp.Topics) != 3 || *resp.Topics[0].Topic != "a" || resp.Topics[1].ErrorCode != kerr.UnknownTopicID.Code || resp.Topics[2].ErrorCode != kerr.InvalidTopicException.Code {
		t.Errorf("by id: %+v", resp.Topics)
	}
}

func TestOffsetForLeaderEpoch(t *testing.T) {
	f, addrs := startCluster(t, 1, Config{})
	f.topic(t, "epochs", 1)
	c := dial(t, addrs[0])
	c.request(produceRequest("epochs", batch("x", "y")), 9)
	for version := int16(2); version <= 4; version++ {
		req := kmsg.NewPtrOffsetForLeaderEpochRequest()
		p, missing := kmsg.NewOffsetForLeaderEpochRequestTopicPartition(), kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
		missing.Partition = 5
		req.Topics = []kmsg.OffsetForLeaderEpochRequestTopic{{Topic: "epochs", Partitions: []kmsg.OffsetForLeaderEpochRequestTopicPartition{p, missing}}}
		got := c.request(req, version).(*kmsg.OffsetForLeaderEpochResponse).Topics[0].Partitions
		if got[0].ErrorCode != 0 || got[0].EndOffset != 2 || got[1].ErrorCode != kerr.UnknownTopicOrPartition.Code {
			t.Errorf("version %d: %+v", version, got)
		}
	}
}

func TestCreateTopicsWithAnAssignment(t *testing.T) {
	f, addrs := startCluster(t, 3, Config{})
	c := dial(t, addrs[0])
	topic := func(name string, partitions int32, assigned ...[]int32) kmsg.CreateTopicsRequestTopic {
		out := kmsg.NewCreateTopicsRequestTopic()
		out.Topic, out.NumPartitions, out.ReplicationFactor = name, partitions, -1
		for i, nodes := range assigned {
			out.ReplicaAssignment = append(out.ReplicaAssignment, kmsg.CreateTopicsRequestTopicReplicaAssignment{Partition: int32(i), Replicas: nodes})
		}
		return out
	}
	twice := topic("twice", -1, []int32{1}, []int32{1})
	twice.ReplicaAssignment[1].Partition = 0
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Topics = []kmsg.CreateTopicsRequestTopic{
		topic("placed", -1, []int32{3, 1}, []int32{2, 3}), topic("both", 2, []int32{1}), twice,
		topic("same", 1), topic("same", 1),
	}
	resp := c.request(req, 7).(*kmsg.CreateTopicsResponse)
	want := []int16{0, kerr.InvalidReplicaAssignment.Code, kerr.InvalidReplicaAssignment.Code, kerr.InvalidRequest.Code}
	if len(resp.Topics) != len(want) {
		t.Fatalf("got %+v", resp.Topics)
	}
	for i, r := range resp.Topics {
		if r.ErrorCode != want[i] {
			t.Errorf("%s: error %d %v, want %d", r.Topic, r.ErrorCode, r.ErrorMessage, want[i])
		}
	}
	placed := f.image().TopicByKafkaName("placed")
	if placed == nil || placed.Partitions[0].Replicas[0] != 3 || placed.Partitions[1].Leader != 2 {
		t.Errorf("placed: %+v", placed)
	}
}
