package metadata

import (
	"time"

	"github.com/ister-mq/ister/broker/internal/model"
)

// Record is one replicated fact. Facts carry the whole new value of the thing
// they are about, so that replay needs no rule: Apply only puts values in place.
type Record interface{ record() }

// ClusterFormed opens the log of a new cluster.
type ClusterFormed struct {
	Cluster model.ClusterID `json:"cluster"`
}

// NodeChanged is a node admitted or changed.
type NodeChanged struct {
	Node *Node `json:"node"`
}

// NodeRemoved retires a node id for ever.
type NodeRemoved struct {
	Tombstone *Tombstone `json:"tombstone"`
}

// NamespaceCreated is a new namespace.
type NamespaceCreated struct {
	Namespace *Namespace `json:"namespace"`
}

// NamespaceDeleted removes an empty namespace.
type NamespaceDeleted struct {
	Name string `json:"name"`
}

// TopicCreated is a new topic with all its partitions.
type TopicCreated struct {
	Topic *Topic `json:"topic"`
}

// TopicDeleted removes a topic. Only after this fact may its data be deleted.
type TopicDeleted struct {
	ID model.TopicID `json:"id"`
}

// PartitionChanged is a partition's new placement or leadership.
type PartitionChanged struct {
	Partition *Partition `json:"partition"`
}

// ProducersAllocated moves the next free producer id.
type ProducersAllocated struct {
	Next model.ProducerID `json:"next"`
}

// OperationStarted is a new operation with all its moves.
type OperationStarted struct {
	Operation *Operation `json:"operation"`
}

// OperationChanged is an operation's new state.
type OperationChanged struct {
	ID        model.OperationID `json:"id"`
	State     OperationState    `json:"state"`
	Reason    string            `json:"reason,omitempty"`
	Message   string            `json:"message,omitempty"`
	UpdatedAt time.Time         `json:"updated_at"`
	EndedAt   time.Time         `json:"ended_at,omitzero"`
}

// MoveChanged is one move's new stage.
type MoveChanged struct {
	Operation model.OperationID `json:"operation"`
	Partition model.Partition   `json:"partition"`
	State     MoveState         `json:"state"`
	Reason    string            `json:"reason,omitempty"`
	UpdatedAt time.Time         `json:"updated_at"`
}

// OperationForgotten drops a finished operation from the image; it stays in
// each node's log of events.
type OperationForgotten struct {
	ID model.OperationID `json:"id"`
}

func (*ClusterFormed) record()      {}
func (*NodeChanged) record()        {}
func (*NodeRemoved) record()        {}
func (*NamespaceCreated) record()   {}
func (*NamespaceDeleted) record()   {}
func (*TopicCreated) record()       {}
func (*TopicDeleted) record()       {}
func (*PartitionChanged) record()   {}
func (*ProducersAllocated) record() {}
func (*OperationStarted) record()   {}
func (*OperationChanged) record()   {}
func (*MoveChanged) record()        {}
func (*OperationForgotten) record() {}

// Batch is the unit of change: records decided on one base revision. Apply
// drops a batch whose base is not current, and the controller decides again.
type Batch struct {
	Base    model.Revision
	Records []Record
}
