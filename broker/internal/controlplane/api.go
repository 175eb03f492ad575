package controlplane

import (
	"context"
	"log/slog"
	"time"

	"github.com/ister-mq/ister/broker/internal/metadata"
	"github.com/ister-mq/ister/broker/internal/model"
	"github.com/ister-mq/ister/broker/internal/peer"
)

// Config of a Plane.
type Config struct {
	DataDir string
	NodeID  model.NodeID // asked for by --node-id; 0: from the identity file, else given
	// SeedNodes are raft addresses of the nodes that form the cluster together.
	// Empty without Join: a cluster of one.
	SeedNodes []string
	Join      bool               // wait to be added to an existing cluster
	Endpoints metadata.Endpoints // advertised
	Rack      string
	Version   string
	// Clean says that the last stop was orderly (the data plane's marker).
	Clean bool
	Peer  *peer.Endpoint // started by Start, closed by the caller after Close
	// Report is asked for at each report interval, from one goroutine. Nil: an
	// empty report of unknown health.
	Report func() Report
	// OnRemoved is called once, from its own goroutine, when the node learns
	// that it was removed. The error says what to print and exit with.
	OnRemoved func(*Error)
	Logger    *slog.Logger
	Timing    Timing
}

// Timing holds the intervals; zero fields take the default.
type Timing struct {
	Heartbeat time.Duration // 100 ms
	Lease     time.Duration // 1.5 s: fenced without a heartbeat for so long
	Tick      time.Duration // 100 ms: operations are stepped while they live
}

// Report is what a node tells the controller about itself.
type Report struct {
	Disk     Disk                      `json:"disk"`
	Bytes    map[model.Partition]int64 `json:"bytes,omitempty"`    // of each local replica
	Progress []Progress                `json:"progress,omitempty"` // from leaders: followers of partitions under reassignment or behind
	// Retired are copies given up after a switch, repeated until the image no
	// longer lists them as retiring.
	Retired []model.Partition `json:"retired,omitempty"`
	// Known is false while the data plane cannot tell (starting, stopping).
	Known bool `json:"known"`
}

// Disk is the state of the data directory's file system, in bytes.
type Disk struct {
	TotalBytes int64 `json:"total_bytes"`
	FreeBytes  int64 `json:"free_bytes"`
	Known      bool  `json:"known"`
}

// Progress is how far one follower is, as its leader sees it.
type Progress struct {
	Partition    model.Partition `json:"partition"`
	Node         model.NodeID    `json:"node"`
	LogStart     model.Offset    `json:"log_start"`
	LogEnd       model.Offset    `json:"log_end"`
	LeaderLogEnd model.Offset    `json:"leader_log_end"`
	BytesBehind  int64           `json:"bytes_behind"`
	InSync       bool            `json:"in_sync"` // in the ISR
	CaughtUp     bool            `json:"caught_up"`
}

// State is where the node stands with its cluster.
type State string

// The states of a node's identity.
const (
	StateFresh   State = "fresh"   // formatted; in no cluster
	StateForming State = "forming" // a seed that was told its place, not yet in a quorum
	StateMember  State = "member"
	StateRemoved State = "removed" // for ever
)

// NodeInfo is what GET /ister/node answers.
type NodeInfo struct {
	Cluster     model.ClusterID    `json:"cluster,omitempty"`
	Node        model.NodeID       `json:"node_id,omitempty"`
	Wanted      model.NodeID       `json:"wanted_node_id,omitempty"` // --node-id of a node not yet admitted
	Incarnation model.Incarnation  `json:"incarnation"`
	State       State              `json:"state"`
	Endpoints   metadata.Endpoints `json:"endpoints"`
	Rack        string             `json:"rack,omitempty"`
	Version     string             `json:"version,omitempty"`
}

// Member is one member of the quorum.
type Member struct {
	Node        model.NodeID      `json:"node"`
	Incarnation model.Incarnation `json:"incarnation"`
	Address     string            `json:"address"`
	Voter       bool              `json:"voter"`
}

// QuorumStatus is the state of the metadata quorum as this node sees it. Absent
// pointers are unknown, never zero.
type QuorumStatus struct {
	Self       model.NodeID             `json:"self"`
	Cluster    model.ClusterID          `json:"cluster"`
	State      State                    `json:"state"`
	Controller model.NodeID             `json:"controller"` // NoNode: none known
	Term       *model.Term              `json:"term"`
	LastIndex  *model.Index             `json:"last_index"`
	Applied    *model.Index             `json:"applied"`
	Revision   model.Revision           `json:"revision"`
	Members    []Member                 `json:"members"`         // sorted by node
	Pending    bool                     `json:"pending"`         // a membership change is not yet committed
	Lag        map[model.NodeID]*uint64 `json:"lag,omitempty"`   // entries behind the controller; only on the controller
	Alive      map[model.NodeID]*bool   `json:"alive,omitempty"` // only on the controller
}

// ExitStatus values of an Error, stable for scripts.
const (
	ExitRemoved       = 10 // the node was removed from its cluster
	ExitWrongIdentity = 11 // the data directory belongs elsewhere
	ExitDataDirInUse  = 12 // another process has the data directory
	ExitAddressInUse  = 13 // a port is taken (used by node)
)

// Error is why a node cannot start or go on, with advice and an exit status.
type Error struct {
	Code       string // stable, UPPER_SNAKE
	Message    string
	Advice     string
	ExitStatus int
	Err        error // underlying fault, may be nil
}

// Error implements error.
func (e *Error) Error() string {
	s := e.Code + ": " + e.Message
	if e.Advice != "" {
		s += "; " + e.Advice
	}
	return s
}

// Unwrap gives the underlying fault.
func (e *Error) Unwrap() error { return e.Err }

// RemoveOptions of RemoveNode.
type RemoveOptions struct {
	PlacementRevision model.Revision `json:"placement_revision,omitempty"` // fence, 0: none
	Reason            string         `json:"reason,omitempty"`
	DryRun            bool           `json:"dry_run,omitempty"`
}

// Plane is one node's part of the control plane.
type Plane struct{}

// Start opens the data directory, forms, joins or restarts, and returns as soon
// as the node's place is decided locally; Ready tells when it serves. A Join node
// returns at once and waits in the background to be admitted.
func Start(ctx context.Context, cfg Config) (*Plane, error) { return &Plane{}, nil }

// Close leaves the quorum process (not the membership) in order.
func (p *Plane) Close() error { return nil }

// Image is the newest metadata this node has applied. Never nil.
func (p *Plane) Image() *metadata.Image { return nil }

// OnImage registers a listener, called from one goroutine in order of revision,
// first with (nil, current).
func (p *Plane) OnImage(f func(old, new *metadata.Image)) {}

// Propose has the controller decide a command, from any node.
func (p *Plane) Propose(ctx context.Context, cmd metadata.Command) (any, error) { return nil, nil }

// Self is this node's id and epoch; zero while not admitted or not registered.
func (p *Plane) Self() (model.NodeID, model.NodeEpoch) { return 0, 0 }

// LeaseValid reports whether this node may act as a partition leader now: the
// controller acknowledged a heartbeat within the lease (monotonic clock).
func (p *Plane) LeaseValid() bool { return false }

// Controller is the node that leads the metadata quorum, if one is known.
func (p *Plane) Controller() (model.NodeID, bool) { return 0, false }

// Ready reports whether the node serves, and what it waits for when not.
func (p *Plane) Ready() (bool, []string) { return false, nil }

// Info is what GET /ister/node answers.
func (p *Plane) Info() NodeInfo { return NodeInfo{} }

// Status is the quorum as this node sees it.
func (p *Plane) Status(ctx context.Context) QuorumStatus { return QuorumStatus{} }

// AddNode admits the node whose admin endpoint is given as a learner.
func (p *Plane) AddNode(ctx context.Context, adminAddress string, dryRun bool) (NodeInfo, error) {
	return NodeInfo{}, nil
}

// PromoteNode makes a learner a voter.
func (p *Plane) PromoteNode(ctx context.Context, node model.NodeID) error { return nil }

// DemoteNode makes a voter a learner.
func (p *Plane) DemoteNode(ctx context.Context, node model.NodeID) error { return nil }

// RemoveNode takes an empty node out of the quorum and the cluster for ever.
func (p *Plane) RemoveNode(ctx context.Context, node model.NodeID, opts RemoveOptions) error {
	return nil
}

// TransferLeadership makes a voter the controller; NoNode: any.
func (p *Plane) TransferLeadership(ctx context.Context, to model.NodeID) (model.NodeID, error) {
	return 0, nil
}
