package metadata

import (
	"github.com/ister-mq/ister/broker/internal/model"
)

// Command is a change somebody asks for. Decide turns it into records or a
// refusal. Commands are plain JSON values, since any node may send one to the
// controller; EncodeCommand and DecodeCommand add the type name.
type Command interface{ command() }

// FormCluster writes the first image: the cluster id and the nodes that form
// it, all active (fenced until they register).
type FormCluster struct {
	Cluster model.ClusterID `json:"cluster"`
	Nodes   []NewNode       `json:"nodes"`
}

// NewNode is a node to be admitted.
type NewNode struct {
	// ID 0 asks for the next free one. A tombstoned or taken id is refused.
	ID          model.NodeID      `json:"id,omitempty"`
	Incarnation model.Incarnation `json:"incarnation"`
	Endpoints   Endpoints         `json:"endpoints"`
	Rack        string            `json:"rack,omitempty"`
	Version     string            `json:"version,omitempty"`
}

// AddNode admits a node in state joining. Repeating it with the same
// incarnation returns the same id. Result: NodeResult.
type AddNode struct{ Node NewNode }

// RegisterNode is what every node sends at each start. It gives a new epoch.
// Unless Clean, the node leaves the ISR of partitions whose topic does not sync
// before ack, except where it is the last member. It starts fenced.
// Result: NodeResult.
type RegisterNode struct {
	ID          model.NodeID      `json:"id"`
	Cluster     model.ClusterID   `json:"cluster"`
	Incarnation model.Incarnation `json:"incarnation"`
	Endpoints   Endpoints         `json:"endpoints"`
	Rack        string            `json:"rack,omitempty"`
	Version     string            `json:"version,omitempty"`
	Clean       bool              `json:"clean"` // the last stop was orderly
}

// FenceNode takes a node out of leadership and of every ISR where it is not the
// last member, and elects new leaders, in one batch. No-op when already fenced
// or when Epoch is not current. StopLeading alone (controlled shutdown) does the
// same for a live node.
type FenceNode struct {
	ID     model.NodeID    `json:"id"`
	Epoch  model.NodeEpoch `json:"epoch"`
	Reason string          `json:"reason"`
}

// UnfenceNode lets a node with this epoch lead and join ISRs; offline
// partitions whose ISR holds it get it as leader.
type UnfenceNode struct {
	ID    model.NodeID    `json:"id"`
	Epoch model.NodeEpoch `json:"epoch"`
}

// SetNodeState activates, cordons or marks a node. Refused where the present
// state does not allow it.
type SetNodeState struct {
	ID     model.NodeID `json:"id"`
	State  NodeState    `json:"state"`
	Reason string       `json:"reason,omitempty"`
}

// RemoveNode tombstones a node. Refused, with each blocker named, while it
// holds a replica, leads, is retiring a copy or has a live operation.
// PlacementRevision, when not zero, must be current.
type RemoveNode struct {
	ID                model.NodeID   `json:"id"`
	PlacementRevision model.Revision `json:"placement_revision,omitempty"`
	Reason            string         `json:"reason,omitempty"`
}

// CreateNamespace and DeleteNamespace manage namespaces. The default namespace
// cannot be deleted, nor one that holds topics.
type CreateNamespace struct {
	Name string `json:"name"`
}

// DeleteNamespace removes an empty namespace. PlacementRevision, when not zero,
// must be current.
type DeleteNamespace struct {
	Name              string         `json:"name"`
	PlacementRevision model.Revision `json:"placement_revision,omitempty"`
}

// CreateTopic makes a topic and places its partitions. Result: TopicResult.
type CreateTopic struct {
	Name       model.TopicName `json:"name"`
	Partitions int             `json:"partitions"` // 0: 1
	// Replicas 0 means the dispatch default (3 or 1) lowered to the number of
	// eligible nodes, with the default kept as DesiredReplicas; an explicit
	// number above the eligible nodes is refused.
	Replicas int               `json:"replicas"`
	Dispatch Dispatch          `json:"dispatch,omitempty"` // "": reliable
	Config   map[string]string `json:"config,omitempty"`
	// Assignment, when given, is the replica list of each partition.
	Assignment [][]model.NodeID `json:"assignment,omitempty"`
	// ValidateOnly decides and writes nothing.
	ValidateOnly bool `json:"validate_only,omitempty"`
}

// DeleteTopic removes a topic, its partitions and its part of running moves.
// PlacementRevision, when not zero, must be current.
type DeleteTopic struct {
	Name              model.TopicName `json:"name,omitzero"`
	ID                model.TopicID   `json:"id,omitzero"` // instead of Name
	PlacementRevision model.Revision  `json:"placement_revision,omitempty"`
}

// AlterISR is how a leader proposes ISR changes (KIP-497, KIP-903). Each change
// succeeds or is refused alone. Result: AlterISRResult.
type AlterISR struct {
	Leader  model.NodeID    `json:"leader"`
	Epoch   model.NodeEpoch `json:"epoch"` // of the leader's node
	Changes []ISRChange     `json:"changes"`
}

// ISRChange is the wanted ISR of one partition with the node epoch of each
// member, fenced on leader epoch and partition epoch.
type ISRChange struct {
	Partition      model.Partition      `json:"partition"`
	LeaderEpoch    model.LeaderEpoch    `json:"leader_epoch"`
	PartitionEpoch model.PartitionEpoch `json:"partition_epoch"`
	ISR            []ISRMember          `json:"isr"`
}

// ISRMember is a node at the epoch under which the leader saw it fetch.
type ISRMember struct {
	Node  model.NodeID    `json:"node"`
	Epoch model.NodeEpoch `json:"epoch"`
}

// ElectLeaders hands partition leaderships over. Each is refused alone unless
// the wanted leader is an unfenced member of the ISR. Result: ElectResult.
type ElectLeaders struct {
	Elections []Election `json:"elections"`
}

// Election is one wanted hand-over. Leader NoNode means the best choice by
// itself (preferred first).
type Election struct {
	Partition model.Partition `json:"partition"`
	Leader    model.NodeID    `json:"leader"`
}

// AllocateProducers reserves a block of producer ids for a node.
// Result: ProducersResult.
type AllocateProducers struct {
	Node  model.NodeID `json:"node"`
	Count int          `json:"count"`
}

// StartOperation makes a plan durable. A live operation with the same Key is
// returned instead (Attached). Fenced on PlacementRevision. An unload also sets
// the node draining. Result: OperationResult.
type StartOperation struct {
	Kind              OperationKind  `json:"kind"`
	Subject           string         `json:"subject,omitempty"`
	Actor             string         `json:"actor,omitempty"`
	Key               string         `json:"key"`
	Node              model.NodeID   `json:"node,omitempty"`
	Moves             []*Move        `json:"moves,omitempty"`
	PlacementRevision model.Revision `json:"placement_revision"`
}

// AdvanceMove takes one move one stage on: planned -> adding (or the hand-over),
// adding -> switched (one record; needs every adding node in the ISR and
// |ISR minus removing| >= min ISR), switched -> done (when Retiring is empty).
// Refused, unchanged, when the conditions do not hold.
type AdvanceMove struct {
	Operation model.OperationID `json:"operation"`
	Partition model.Partition   `json:"partition"`
	To        MoveState         `json:"to"` // adding, switched, done, cancelled or failed
	Reason    string            `json:"reason,omitempty"`
}

// FinishOperation sets a final or blocked state (or running again). An unload
// that succeeds also sets its node drained.
type FinishOperation struct {
	Operation model.OperationID `json:"operation"`
	State     OperationState    `json:"state"`
	Reason    string            `json:"reason,omitempty"`
	Message   string            `json:"message,omitempty"`
}

// CancelOperation asks a live operation to stop: planned moves are dropped,
// adding ones reverted, switched ones finish.
type CancelOperation struct {
	Operation model.OperationID `json:"operation"`
	Actor     string            `json:"actor,omitempty"`
}

// ReplicaRetired is a node's word that it gave up its copies after a switch.
type ReplicaRetired struct {
	Node       model.NodeID      `json:"node"`
	Epoch      model.NodeEpoch   `json:"epoch"`
	Partitions []model.Partition `json:"partitions"`
}

// Results. A command without one returns nil.
type (
	// NodeResult is the node as admitted or registered.
	NodeResult struct {
		ID    model.NodeID    `json:"id"`
		Epoch model.NodeEpoch `json:"epoch"`
	}
	// TopicResult is the created topic. On ValidateOnly the topic is as it would be.
	TopicResult struct {
		Topic *Topic `json:"topic"`
	}
	// OperationResult is the operation, attached to or new.
	OperationResult struct {
		ID       model.OperationID `json:"id"`
		Attached bool              `json:"attached"`
	}
	// AlterISRResult has one entry per change, in order; Refusal nil is success.
	AlterISRResult struct {
		Changes []ISRChangeResult `json:"changes"`
	}
	// ISRChangeResult is the partition as it now stands, or why not.
	ISRChangeResult struct {
		Partition model.Partition `json:"partition"`
		State     *Partition      `json:"state,omitempty"`
		Refusal   string          `json:"refusal,omitempty"` // a refusal.Reason
	}
	// ElectResult has one reason per election, in order; "" is success.
	ElectResult struct {
		Refusals []string `json:"refusals"`
	}
	// ProducersResult is the reserved block [First, First+Count).
	ProducersResult struct {
		First model.ProducerID `json:"first"`
		Count int              `json:"count"`
	}
)

func (*FormCluster) command()       {}
func (*AddNode) command()           {}
func (*RegisterNode) command()      {}
func (*FenceNode) command()         {}
func (*UnfenceNode) command()       {}
func (*SetNodeState) command()      {}
func (*RemoveNode) command()        {}
func (*CreateNamespace) command()   {}
func (*DeleteNamespace) command()   {}
func (*CreateTopic) command()       {}
func (*DeleteTopic) command()       {}
func (*AlterISR) command()          {}
func (*ElectLeaders) command()      {}
func (*AllocateProducers) command() {}
func (*StartOperation) command()    {}
func (*AdvanceMove) command()       {}
func (*FinishOperation) command()   {}
func (*CancelOperation) command()   {}
func (*ReplicaRetired) command()    {}
