package operation

import (
	"time"

	"github.com/ister-mq/ister/broker/internal/metadata"
	"github.com/ister-mq/ister/broker/internal/model"
	"github.com/ister-mq/ister/broker/internal/placement"
)

// Observations are what the controller knows beyond the image when it steps the
// operations. Step reads no clock: Now is the present.
type Observations struct {
	Now time.Time
	// Progress is the latest report per partition and replica, for whoever shows
	// an operation. Step does not look at it: it decides on the image alone, where
	// a replica in the ISR is one that the leader saw caught up.
	Progress map[model.Partition]map[model.NodeID]ReplicaProgress
	Limits   Limits
}

// ReplicaProgress is how far one replica has copied.
type ReplicaProgress struct {
	LogEnd       model.Offset
	LeaderLogEnd model.Offset
	Bytes        int64 // held by the replica
	InSync       bool
}

// Limits bound how many replica moves run at the same time, over all operations.
type Limits struct {
	MovesPerNode int // moves that touch one node, as source or target; 0 means DefaultMovesPerNode
	MovesTotal   int // 0 means DefaultMovesTotal
	// TargetGrace is how long an operation that waits for nothing else waits for
	// a fenced target before it gives the move up; 0 means DefaultTargetGrace.
	TargetGrace time.Duration
}

// The default limits.
const (
	DefaultMovesPerNode = 10
	DefaultMovesTotal   = 50
	DefaultTargetGrace  = 30 * time.Second
)

func (l Limits) withDefaults() Limits {
	if l.MovesPerNode <= 0 {
		l.MovesPerNode = DefaultMovesPerNode
	}
	if l.MovesTotal <= 0 {
		l.MovesTotal = DefaultMovesTotal
	}
	if l.TargetGrace <= 0 {
		l.TargetGrace = DefaultTargetGrace
	}
	return l
}

// Finding is a finding of a preflight, as a plan has them.
type Finding = placement.Finding

// Blocker is a finding that keeps a node from being removed or promoted; its
// severity is always error.
type Blocker = placement.Finding

// QuorumView is what the controller knows about the metadata quorum. The zero
// value knows nothing, and nothing is safe under it.
type QuorumView struct {
	Controller model.NodeID // NoNode when unknown
	Voters     []Member
	Learners   []Member
	// Pending: a membership change is not committed yet.
	Pending bool
	// MinVoters is the fewest voters the operator allows; 0 means no explicit
	// floor (then going below 3 is a warning and every voter left must be live).
	MinVoters int
}

// Member is one member of the quorum as the controller sees it.
type Member struct {
	Node model.NodeID
	// Known: the controller has a current opinion on Alive. False is never safe.
	Known       bool
	Alive       bool          // answered within its lease, seen from the controller
	LastContact time.Duration // since the latest answer
	AppliedLag  uint64        // metadata entries it is behind the commit index
}

// Request is what a preflight judges.
type Request struct {
	Kind     metadata.OperationKind
	Node     model.NodeID    // unload, promote, remove
	Topic    model.TopicName // move
	To       model.NodeID    // move; 0: best other node
	Replicas bool            // move: replica data and not only leadership
	MaxMoves int             // rebalance
}
