package controlplane

import (
	"time"

	"github.com/ister-mq/ister/broker/internal/metadata"
	"github.com/ister-mq/ister/broker/internal/model"
)

// Report is what a node tells the controller about itself.
type Report struct {
	Disk     Disk                      `json:"disk"`
	Bytes    map[model.Partition]int64 `json:"bytes,omitempty"`    // of each local replica
	Progress []Progress                `json:"progress,omitempty"` // from leaders: followers under reassignment or behind
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
	// Full: appends are refused for want of room.
	Full bool `json:"full,omitempty"`
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
	StateForming State = "forming" // a seed that knows its place, before the cluster exists
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

// Member is one member of the quorum. Lag is how many entries it is behind the
// controller and Alive whether it answers; nil is unknown, and known on the
// controller only.
type Member struct {
	Node        model.NodeID      `json:"node"`
	Incarnation model.Incarnation `json:"incarnation"`
	Address     string            `json:"address"`
	Voter       bool              `json:"voter"`
	Lag         *uint64           `json:"lag,omitempty"`
	Alive       *bool             `json:"alive,omitempty"`
}

// QuorumStatus is the state of the metadata quorum as this node sees it. Absent
// pointers are unknown, never zero.
type QuorumStatus struct {
	Self       model.NodeID    `json:"self"`
	Cluster    model.ClusterID `json:"cluster"`
	State      State           `json:"state"`
	Controller model.NodeID    `json:"controller"` // NoNode: none known
	Term       *model.Term     `json:"term"`
	LastIndex  *model.Index    `json:"last_index"`
	Applied    *model.Index    `json:"applied"`
	Revision   model.Revision  `json:"revision"`
	Members    []Member        `json:"members"` // sorted by node
	Pending    bool            `json:"pending"` // a membership change is not yet committed
	// RestoreAlarms counts restores of one snapshot again and again; not 0 needs
	// a person (see quorum).
	RestoreAlarms uint64 `json:"restore_alarms"`
}

// Timing holds the intervals; zero fields take the default.
type Timing struct {
	Heartbeat time.Duration // 100 ms
	Lease     time.Duration // 1.5 s: a node is fenced after so long without a heartbeat
	Tick      time.Duration // 100 ms: operations are stepped while they live
	Report    time.Duration // 500 ms: between reports while nothing moves
	// Prefer, 30 s: how long leaderships must have been away from preferred nodes
	// that are in sync before they are handed back, so that a node that keeps
	// failing does not get them.
	Prefer time.Duration
}

func (t Timing) withDefaults() Timing {
	set := func(d *time.Duration, fallback time.Duration) {
		if *d <= 0 {
			*d = fallback
		}
	}
	set(&t.Heartbeat, 100*time.Millisecond)
	set(&t.Lease, 1500*time.Millisecond)
	set(&t.Tick, 100*time.Millisecond)
	set(&t.Report, 500*time.Millisecond)
	set(&t.Prefer, 30*time.Second)
	return t
}

// ExitStatus values of an Error, stable for scripts.
const (
	ExitUsage         = 2  // the settings contradict each other
	ExitRemoved       = 10 // the node was removed from its cluster
	ExitWrongIdentity = 11 // the data directory belongs elsewhere
	ExitDataDirInUse  = 12 // another process has the data directory
	ExitAddressInUse  = 13 // a port is taken (used by node)
)

// Codes of an Error, stable.
const (
	CodeNodeRemoved    = "NODE_REMOVED"
	CodeWrongCluster   = "WRONG_CLUSTER"
	CodeWrongIdentity  = "WRONG_IDENTITY"
	CodeDiskWiped      = "DISK_WIPED"
	CodeDataDirInUse   = "DATA_DIR_IN_USE"
	CodeDataDirDamaged = "DATA_DIR_DAMAGED"
	CodeDataDirForeign = "DATA_DIR_FOREIGN"
	CodeSeedMismatch   = "SEED_MISMATCH"
	CodeAddressInUse   = "ADDRESS_IN_USE"
)

// Error is why a node cannot start or go on, with advice and an exit status.
type Error struct {
	Code       string
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
	// PlacementRevision, when not 0, must be current when the removal starts.
	PlacementRevision model.Revision `json:"placement_revision,omitempty"`
	Reason            string         `json:"reason,omitempty"`
}
