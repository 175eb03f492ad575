package metadata

import (
	"maps"
	"slices"
	"strings"

	"github.com/ister-mq/ister/broker/internal/model"
)

// Topic finds a topic by full name, or nil.
func (im *Image) Topic(name model.TopicName) *Topic {
	id, ok := im.topicByName[name]
	if !ok {
		return nil
	}
	return im.Topics[id]
}

// TopicByKafkaName finds a topic by the name Kafka clients use, or nil.
func (im *Image) TopicByKafkaName(name string) *Topic {
	id, ok := im.topicByKafka[name]
	if !ok {
		return nil
	}
	return im.Topics[id]
}

// Partition finds a partition, or nil.
func (im *Image) Partition(id model.Partition) *Partition {
	t := im.Topics[id.Topic]
	if t == nil || id.Index < 0 || int(id.Index) >= len(t.Partitions) {
		return nil
	}
	return t.Partitions[id.Index]
}

// SortedTopics lists the topics by full name.
func (im *Image) SortedTopics() []*Topic {
	out := slices.Collect(maps.Values(im.Topics))
	slices.SortFunc(out, func(a, b *Topic) int {
		if c := strings.Compare(a.Name.Namespace, b.Name.Namespace); c != 0 {
			return c
		}
		return strings.Compare(a.Name.Topic, b.Name.Topic)
	})
	return out
}

// SortedPartitions lists every partition, by topic name and index.
func (im *Image) SortedPartitions() []*Partition {
	var out []*Partition
	for _, t := range im.SortedTopics() {
		out = append(out, t.Partitions...)
	}
	return out
}

// SortedNodes lists the nodes by id.
func (im *Image) SortedNodes() []*Node {
	out := slices.Collect(maps.Values(im.Nodes))
	slices.SortFunc(out, func(a, b *Node) int { return int(a.ID) - int(b.ID) })
	return out
}

// SortedOperations lists the operations, oldest first.
func (im *Image) SortedOperations() []*Operation {
	out := slices.Collect(maps.Values(im.Operations))
	slices.SortFunc(out, func(a, b *Operation) int {
		if a.ID < b.ID {
			return -1
		}
		return 1
	})
	return out
}

// LiveOperations lists the operations that are not done, oldest first.
func (im *Image) LiveOperations() []*Operation {
	return slices.DeleteFunc(im.SortedOperations(), func(o *Operation) bool { return o.State.Done() })
}

// ActiveNodes lists the nodes in state active, by id, fenced or not.
func (im *Image) ActiveNodes() []*Node {
	return slices.DeleteFunc(im.SortedNodes(), func(n *Node) bool { return n.State != NodeActive })
}

// CanPlace reports whether a node may take a new replica now.
func (im *Image) CanPlace(id model.NodeID) bool {
	n := im.Nodes[id]
	return n != nil && n.State == NodeActive && !n.Fenced
}

// Unfenced reports whether a node may lead.
func (im *Image) Unfenced(id model.NodeID) bool {
	n := im.Nodes[id]
	return n != nil && !n.Fenced
}

// Load is what one node holds.
type Load struct {
	Leaders  int
	Replicas int
	Retiring int // copies not yet given up after a switch
}

// NodeLoad counts what a node holds.
func (im *Image) NodeLoad(id model.NodeID) Load {
	var l Load
	for _, t := range im.Topics {
		for _, p := range t.Partitions {
			if p.Leader == id {
				l.Leaders++
			}
			if model.HasNode(p.Replicas, id) {
				l.Replicas++
			}
			if model.HasNode(p.Retiring, id) {
				l.Retiring++
			}
		}
	}
	return l
}

// NodeEpochs maps each node to its current epoch.
func (im *Image) NodeEpochs() map[model.NodeID]model.NodeEpoch {
	out := make(map[model.NodeID]model.NodeEpoch, len(im.Nodes))
	for id, n := range im.Nodes {
		out[id] = n.Epoch
	}
	return out
}

// MinISR is the in-sync count that a partition of this topic needs before it
// commits: the topic's min.insync.replicas, lowered to the number of replicas
// that the partition has had before any running move adds to it.
func (im *Image) MinISR(p *Partition) int {
	t := im.Topics[p.ID.Topic]
	if t == nil {
		return 1
	}
	return max(1, min(t.MinISR(), len(p.Replicas)-len(p.Adding)))
}

// Change is what differs between two images.
type Change struct {
	Partitions []model.Partition // changed, created or deleted; sorted
	Nodes      []model.NodeID    // changed, added or removed; sorted
	Operations []model.OperationID
	Topics     bool // a topic was created or deleted
}

// ChangedSince compares by identity: a value that Apply did not touch is the
// same pointer. An old image of nil counts as empty.
func (im *Image) ChangedSince(old *Image) Change {
	if old == nil {
		old = Empty()
	}
	var c Change
	for id, t := range im.Topics {
		was := old.Topics[id]
		if was == t {
			continue
		}
		c.Topics = c.Topics || was == nil
		for i, p := range t.Partitions {
			if was == nil || i >= len(was.Partitions) || was.Partitions[i] != p {
				c.Partitions = append(c.Partitions, p.ID)
			}
		}
	}
	for id, was := range old.Topics {
		if im.Topics[id] == nil {
			c.Topics = true
			for _, p := range was.Partitions {
				c.Partitions = append(c.Partitions, p.ID)
			}
		}
	}
	slices.SortFunc(c.Partitions, model.Partition.Compare)
	c.Nodes = changedKeys(old.Nodes, im.Nodes)
	c.Operations = changedKeys(old.Operations, im.Operations)
	return c
}

func changedKeys[K interface{ ~int32 | ~uint64 }, V any](old, now map[K]*V) []K {
	var out []K
	for k, v := range now {
		if old[k] != v {
			out = append(out, k)
		}
	}
	for k := range old {
		if now[k] == nil {
			out = append(out, k)
		}
	}
	slices.Sort(out)
	return out
}
