package metadata

import (
	"fmt"
	"maps"
	"slices"

	"github.com/ister-mq/ister/broker/internal/model"
)

// Empty is the image before the cluster is formed.
func Empty() *Image {
	return &Image{
		NextNode: 1, NextProducer: 1, NextOperation: 1,
		Nodes:        map[model.NodeID]*Node{},
		Tombstones:   map[model.NodeID]*Tombstone{},
		Namespaces:   map[string]*Namespace{},
		Topics:       map[model.TopicID]*Topic{},
		Operations:   map[model.OperationID]*Operation{},
		topicByName:  map[model.TopicName]model.TopicID{},
		topicByKafka: map[string]model.TopicID{},
	}
}

// Apply returns the image after the batch. A batch decided on another revision
// changes nothing, and Apply reports false. The receiver stays as it was.
func (im *Image) Apply(b Batch) (*Image, bool) {
	if b.Base != im.Revision {
		return im, false
	}
	d := newDraft(im)
	d.image.Revision++
	for _, r := range b.Records {
		d.apply(r)
	}
	return d.image, true
}

// draft is an image under construction. Each map is copied at its first change;
// each topic too.
type draft struct {
	base  *Image
	image *Image

	nodes, tombstones, namespaces, topics, operations bool
	topicOwned                                        map[model.TopicID]bool
	operationOwned                                    map[model.OperationID]bool
}

func newDraft(im *Image) *draft {
	copied := *im
	return &draft{base: im, image: &copied, topicOwned: map[model.TopicID]bool{}, operationOwned: map[model.OperationID]bool{}}
}

func own[K comparable, V any](owned *bool, m *map[K]V) map[K]V {
	if !*owned {
		*m, *owned = maps.Clone(*m), true
	}
	return *m
}

func (d *draft) placementChanged() { d.image.PlacementRevision = d.image.Revision }

func (d *draft) apply(r Record) {
	im := d.image
	switch r := r.(type) {
	case *ClusterFormed:
		im.Cluster = r.Cluster
	case *NodeChanged:
		old := im.Nodes[r.Node.ID]
		own(&d.nodes, &im.Nodes)[r.Node.ID] = r.Node
		im.NextNode = max(im.NextNode, r.Node.ID+1)
		if old == nil || old.State != r.Node.State {
			d.placementChanged()
		}
	case *NodeRemoved:
		delete(own(&d.nodes, &im.Nodes), r.Tombstone.ID)
		own(&d.tombstones, &im.Tombstones)[r.Tombstone.ID] = r.Tombstone
		d.placementChanged()
	case *NamespaceCreated:
		own(&d.namespaces, &im.Namespaces)[r.Namespace.Name] = r.Namespace
	case *NamespaceDeleted:
		delete(own(&d.namespaces, &im.Namespaces), r.Name)
	case *TopicCreated:
		d.ownTopics()[r.Topic.ID] = r.Topic
		im.topicByName[r.Topic.Name] = r.Topic.ID
		im.topicByKafka[r.Topic.Name.Kafka()] = r.Topic.ID
		d.topicOwned[r.Topic.ID] = false
		d.placementChanged()
	case *TopicDeleted:
		if t := im.Topics[r.ID]; t != nil {
			delete(d.ownTopics(), r.ID)
			delete(im.topicByName, t.Name)
			delete(im.topicByKafka, t.Name.Kafka())
			d.placementChanged()
		}
	case *PartitionChanged:
		d.partition(r.Partition)
	case *ProducersAllocated:
		im.NextProducer = r.Next
	case *OperationStarted:
		own(&d.operations, &im.Operations)[r.Operation.ID] = r.Operation
		d.operationOwned[r.Operation.ID] = false
		im.NextOperation = max(im.NextOperation, r.Operation.ID+1)
	case *OperationChanged:
		if o := d.ownOperation(r.ID); o != nil {
			o.State, o.Reason, o.Message = r.State, r.Reason, r.Message
			o.UpdatedAt, o.EndedAt = r.UpdatedAt, r.EndedAt
		}
	case *MoveChanged:
		if o := d.ownOperation(r.Operation); o != nil {
			o.setMove(r)
		}
	case *OperationForgotten:
		delete(own(&d.operations, &im.Operations), r.ID)
	default:
		panic(fmt.Sprintf("metadata: apply: record %T is not known", r))
	}
}

func (d *draft) ownTopics() map[model.TopicID]*Topic {
	if !d.topics {
		d.image.topicByName = maps.Clone(d.image.topicByName)
		d.image.topicByKafka = maps.Clone(d.image.topicByKafka)
	}
	return own(&d.topics, &d.image.Topics)
}

func (d *draft) partition(p *Partition) {
	t := d.image.Topics[p.ID.Topic]
	if t == nil || int(p.ID.Index) >= len(t.Partitions) {
		return
	}
	old := t.Partitions[p.ID.Index]
	if !d.topicOwned[t.ID] {
		copied := *t
		copied.Partitions = slices.Clone(t.Partitions)
		t = &copied
		d.ownTopics()[t.ID] = t
		d.topicOwned[t.ID] = true
	}
	t.Partitions[p.ID.Index] = p
	if !slices.Equal(old.Replicas, p.Replicas) || !slices.Equal(old.Target, p.Target) {
		d.placementChanged()
	}
}

func (d *draft) ownOperation(id model.OperationID) *Operation {
	o := d.image.Operations[id]
	if o == nil || d.operationOwned[id] {
		return o
	}
	copied := *o
	copied.Moves = slices.Clone(o.Moves)
	own(&d.operations, &d.image.Operations)[id] = &copied
	d.operationOwned[id] = true
	return &copied
}

func (o *Operation) setMove(r *MoveChanged) {
	for i, m := range o.Moves {
		if m.Partition == r.Partition {
			changed := *m
			changed.State, changed.Reason = r.State, r.Reason
			o.Moves[i] = &changed
			o.UpdatedAt = r.UpdatedAt
			return
		}
	}
}
