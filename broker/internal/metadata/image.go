package metadata

import (
	"time"

	"github.com/ister-mq/ister/broker/internal/model"
)

// Image is the whole control-plane state at one revision. It is immutable once
// published: Apply copies what it changes. Every node holds one.
type Image struct {
	Cluster  model.ClusterID `json:"cluster"`
	Revision model.Revision  `json:"revision"`
	// PlacementRevision is the revision of the last change to replica sets, node
	// states, node membership or topic existence. Plans are fenced on it.
	PlacementRevision model.Revision `json:"placement_revision"`

	NextNode      model.NodeID      `json:"next_node"`
	NextProducer  model.ProducerID  `json:"next_producer"`
	NextOperation model.OperationID `json:"next_operation"`

	Nodes      map[model.NodeID]*Node           `json:"nodes"`
	Tombstones map[model.NodeID]*Tombstone      `json:"tombstones"`
	Namespaces map[string]*Namespace            `json:"namespaces"`
	Topics     map[model.TopicID]*Topic         `json:"topics"`
	Operations map[model.OperationID]*Operation `json:"operations"`

	// Derived from Topics: by full name and by the name Kafka clients use.
	topicByName  map[model.TopicName]model.TopicID
	topicByKafka map[string]model.TopicID
}

// NodeState is a node's place in its life. It says nothing of liveness (Fenced)
// or of quorum membership (which raft's configuration holds).
type NodeState string

// The states, in order of life.
const (
	NodeJoining  NodeState = "joining"  // admitted; takes no replicas yet
	NodeActive   NodeState = "active"   // takes replicas and leads
	NodeCordoned NodeState = "cordoned" // keeps what it has, takes no new replica
	NodeDraining NodeState = "draining" // an unload is moving its leaders and replicas away
	NodeDrained  NodeState = "drained"  // unloaded; still a member
	NodeLeaving  NodeState = "leaving"  // being decommissioned or removed
)

// Node is one registered member.
type Node struct {
	ID          model.NodeID      `json:"id"`
	Incarnation model.Incarnation `json:"incarnation"`
	// Epoch is the revision of its latest registration; 0 before the first.
	Epoch model.NodeEpoch `json:"epoch"`
	State NodeState       `json:"state"`
	// Fenced: may not lead nor be in a new ISR. Nodes start fenced and are
	// unfenced when they heartbeat with their current epoch.
	Fenced bool `json:"fenced"`
	// Reason is the text given with the last state change.
	Reason string `json:"reason,omitempty"`

	Endpoints Endpoints `json:"endpoints"`
	Rack      string    `json:"rack,omitempty"`
	Version   string    `json:"version,omitempty"`
}

// Endpoints are a node's advertised addresses, each host:port. Metrics may be
// empty.
type Endpoints struct {
	Kafka   string `json:"kafka"`
	Admin   string `json:"admin"`
	Raft    string `json:"raft"` // all node-to-node traffic
	Metrics string `json:"metrics,omitempty"`
}

// Tombstone remembers a removed node for ever.
type Tombstone struct {
	ID          model.NodeID      `json:"id"`
	Incarnation model.Incarnation `json:"incarnation"`
	RemovedAt   time.Time         `json:"removed_at"`
	Reason      string            `json:"reason,omitempty"`
}

// Namespace groups topics.
type Namespace struct {
	Name      string    `json:"name"`
	CreatedAt time.Time `json:"created_at"`
}

// Dispatch is a topic's durability class.
type Dispatch string

// The dispatch strategies. See docs: reliable is RF 3, min ISR 2, fsync before
// ack; non_reliable is RF 1 in the page cache.
const (
	Reliable    Dispatch = "reliable"
	NonReliable Dispatch = "non_reliable"
)

// Topic is one topic with its partitions, which are indexed by partition index.
type Topic struct {
	ID       model.TopicID   `json:"id"`
	Name     model.TopicName `json:"name"`
	Dispatch Dispatch        `json:"dispatch"`
	// DesiredReplicas is the wanted replication factor; a cluster too small for
	// it at creation is healed when it grows.
	DesiredReplicas int               `json:"desired_replicas"`
	Config          map[string]string `json:"config"` // explicit settings only
	CreatedAt       time.Time         `json:"created_at"`
	Partitions      []*Partition      `json:"partitions"`
}

// Partition is the placement and leadership of one partition. Replicas[0] is the
// preferred leader.
type Partition struct {
	ID             model.Partition      `json:"id"`
	Replicas       []model.NodeID       `json:"replicas"` // includes Adding and Removing while a move runs
	ISR            []model.NodeID       `json:"isr"`      // sorted; never empty once created
	Leader         model.NodeID         `json:"leader"`   // NoNode: offline
	LeaderEpoch    model.LeaderEpoch    `json:"leader_epoch"`
	PartitionEpoch model.PartitionEpoch `json:"partition_epoch"`

	// A running reassignment. Target is the wanted final replica set in order
	// (Target[0] the preferred leader); Adding = Target minus the old set;
	// Removing = the old set minus Target. All empty when none runs.
	Target    []model.NodeID    `json:"target,omitempty"`
	Adding    []model.NodeID    `json:"adding,omitempty"`
	Removing  []model.NodeID    `json:"removing,omitempty"`
	Operation model.OperationID `json:"operation,omitempty"`

	// Retiring are nodes that left the replica set by a SWITCH and have not yet
	// confirmed that they gave up their copy.
	Retiring []model.NodeID `json:"retiring,omitempty"`
}

// OperationKind names what an operation does.
type OperationKind string

// The kinds.
const (
	OpRebalance  OperationKind = "rebalance"   // spread leaders and replicas
	OpUnload     OperationKind = "unload"      // drain a node
	OpMoveTopic  OperationKind = "move_topic"  // relocate or hand over one topic
	OpAddNode    OperationKind = "add_node"    // learner admission
	OpPromote    OperationKind = "promote"     // learner to voter
	OpRemoveNode OperationKind = "remove_node" // leave the quorum, tombstone
	OpHeal       OperationKind = "heal"        // raise a topic to its desired replicas
)

// OperationState is where an operation stands.
type OperationState string

// The states. Running, Blocked and Cancelling are live.
const (
	OpRunning    OperationState = "running"
	OpBlocked    OperationState = "blocked" // cannot go on; Reason says why; resumes by itself
	OpCancelling OperationState = "cancelling"
	OpSucceeded  OperationState = "succeeded"
	OpFailed     OperationState = "failed"
	OpCancelled  OperationState = "cancelled"
)

// Done reports a final state.
func (s OperationState) Done() bool {
	return s == OpSucceeded || s == OpFailed || s == OpCancelled
}

// Operation is an accepted plan under way: durable, resumable, cancellable.
type Operation struct {
	ID    model.OperationID `json:"id"`
	Kind  OperationKind     `json:"kind"`
	State OperationState    `json:"state"`
	// Subject is what it is about: a node id or a topic's full name.
	Subject string `json:"subject,omitempty"`
	// Actor says who asked (cli, mcp, scenario, kafka, system) and, after a
	// colon, any name given.
	Actor string `json:"actor,omitempty"`
	// Key makes a re-sent request attach to the running operation: same kind,
	// subject and arguments give the same key.
	Key string `json:"key"`
	// Node is the node an unload, promote or remove is about.
	Node model.NodeID `json:"node,omitempty"`

	Moves []*Move `json:"moves,omitempty"`

	Reason    string         `json:"reason,omitempty"` // reason code of Blocked or Failed, e.g. NO_PLACEMENT
	Message   string         `json:"message,omitempty"`
	StartedAt time.Time      `json:"started_at"`
	UpdatedAt time.Time      `json:"updated_at"`
	EndedAt   time.Time      `json:"ended_at,omitzero"`
	Revision  model.Revision `json:"revision"` // revision of its creation
}

// MoveState is one partition's stage inside an operation.
type MoveState string

// The stages. A pure leader hand-over goes planned -> done.
const (
	MovePlanned   MoveState = "planned"
	MoveAdding    MoveState = "adding"    // new replicas copy
	MoveSwitched  MoveState = "switched"  // replica set changed; removed nodes give up their copies
	MoveDone      MoveState = "done"      //
	MoveCancelled MoveState = "cancelled" // reverted before the switch
	MoveFailed    MoveState = "failed"    // Reason says why
)

// Done reports a final stage.
func (s MoveState) Done() bool { return s == MoveDone || s == MoveCancelled || s == MoveFailed }

// Move is the planned change of one partition: its replica set From -> To (both
// in order), and its leader afterwards.
type Move struct {
	Partition model.Partition `json:"partition"`
	From      []model.NodeID  `json:"from"`
	To        []model.NodeID  `json:"to"`
	// Leader is the leader wanted afterwards; NoNode keeps the present one if it
	// stays a replica.
	Leader model.NodeID `json:"leader,omitempty"`
	State  MoveState    `json:"state"`
	Reason string       `json:"reason,omitempty"`
}

// ReplicasChange reports whether the move changes the replica set rather than
// only the leader or the order.
func (m *Move) ReplicasChange() bool {
	if len(m.From) != len(m.To) {
		return true
	}
	for _, n := range m.To {
		if !model.HasNode(m.From, n) {
			return true
		}
	}
	return false
}
