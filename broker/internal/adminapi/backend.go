package adminapi

import (
	"context"

	"github.com/ister-mq/ister/broker/internal/metadata"
	"github.com/ister-mq/ister/broker/internal/model"
	"github.com/ister-mq/ister/broker/internal/operation"
	"github.com/ister-mq/ister/broker/internal/placement"
)

// Backend is the node behind the API. Its methods may be called from many
// goroutines. Errors that mean "no" are *refusal.Refusal; any other error is a
// fault. Methods that change something are called on the controller only, except
// in the short time in which a node has just stopped to be it; they then return
// NOT_CONTROLLER, having changed nothing.
type Backend interface {
	// Info is the node's identity; it answers also before admission.
	Info() NodeInfo
	// Self is the node's id and epoch, zero before admission.
	Self() (model.NodeID, model.NodeEpoch)
	// Image is the newest metadata applied on this node, never nil.
	Image() *metadata.Image
	// Controller is the controller as known here.
	Controller() (model.NodeID, bool)
	// Ready reports whether the node serves, and what it waits for when not.
	Ready() (bool, []string)
	// Status is the metadata quorum as this node sees it.
	Status(ctx context.Context) QuorumStatus

	// Propose has a command decided. The result is the one the command documents.
	Propose(ctx context.Context, cmd metadata.Command) (any, error)
	// AddNode admits the node whose admin address (host:port) is given, as a
	// learner. On a dry run everything is checked and the id stays zero unless
	// the node is a member.
	AddNode(ctx context.Context, adminAddress string, dryRun bool) (NodeInfo, error)
	PromoteNode(ctx context.Context, node model.NodeID) error
	DemoteNode(ctx context.Context, node model.NodeID) error
	// RemoveNode checks again what a dry run showed.
	RemoveNode(ctx context.Context, node model.NodeID, options RemoveOptions) error
	// TransferLeadership makes a voter the controller (NoNode: any other) and
	// returns the new one, NoNode when it is not known yet.
	TransferLeadership(ctx context.Context, t Transfer) (model.NodeID, error)

	// StartOperation plans and, unless on a dry run, starts.
	StartOperation(ctx context.Context, request OperationRequest) (OperationStarted, error)
	// World is what the planner would look at now. Complete on the controller only.
	World() placement.World
	// Observations are the latest reports. Complete on the controller only.
	Observations() operation.Observations
}

// NodeInfo is a node's identity as GET /ister/node answers it: what the
// controller reads of a node that is to be added.
type NodeInfo struct {
	Cluster model.ClusterID `json:"cluster,omitempty"`
	Node    model.NodeID    `json:"node_id,omitempty"` // 0: not admitted
	// Wanted is the id asked for at the start of a node not yet admitted.
	Wanted      model.NodeID      `json:"wanted_node_id,omitempty"`
	Incarnation model.Incarnation `json:"incarnation"`
	// State is fresh, forming, member or removed.
	State     string             `json:"state"`
	Endpoints metadata.Endpoints `json:"endpoints"`
	Rack      string             `json:"rack,omitempty"`
	Version   string             `json:"version,omitempty"`
}

// QuorumStatus is the metadata quorum as one node sees it. Absent pointers are
// unknown, never zero.
type QuorumStatus struct {
	Controller model.NodeID // NoNode: none known
	Term       *model.Term
	LastIndex  *model.Index
	Applied    *model.Index
	Members    []Member // sorted by node
	Pending    bool     // a membership change is not committed yet
	MinVoters  int      // explicit floor; 0: none
}

// Member is one member of the quorum.
type Member struct {
	Node        model.NodeID
	Incarnation model.Incarnation
	Address     string
	Voter       bool
	// Lag is how many entries it is behind the controller; Alive whether it
	// answers. Known on the controller only.
	Lag   *uint64
	Alive *bool
}

// RemoveOptions of RemoveNode.
type RemoveOptions struct {
	// PlacementRevision, when not 0, must still be current.
	PlacementRevision model.Revision
	Reason            string
}

// OperationRequest asks for a plan, and for an operation unless DryRun.
type OperationRequest struct {
	Kind     metadata.OperationKind // rebalance, unload or move_topic
	Node     model.NodeID           // of an unload
	Topic    model.TopicName        // of a move
	To       model.NodeID           // of a move; NoNode: any other
	Replicas bool                   // of a move: relocate a copy, not only leadership
	MaxMoves int                    // of a rebalance; 0: no bound
	Actor    string
	DryRun   bool
	// PlacementRevision, when not 0, must still be current.
	PlacementRevision model.Revision
}

// Transfer of the controller role.
type Transfer struct {
	To   model.NodeID // NoNode: any other voter
	From model.NodeID // when not NoNode, must still be the controller
}

// OperationStarted is a plan and what became of it. Operation is nil on a dry run
// and when there is nothing to do.
type OperationStarted struct {
	Plan      placement.Plan
	Operation *metadata.Operation
	Attached  bool // it was running before
}
