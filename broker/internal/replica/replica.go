package replica

import (
	"fmt"
	"time"

	"github.com/ister-mq/ister/broker/internal/metadata"
	"github.com/ister-mq/ister/broker/internal/model"
	"github.com/ister-mq/ister/broker/internal/refusal"
	"github.com/ister-mq/ister/broker/internal/replication"
	"github.com/ister-mq/ister/broker/internal/segment"
)

// Defaults of Config.
const (
	DefaultLagMax        = 2 * time.Second
	DefaultMaxBatchBytes = 1<<20 + 12 // Kafka's message.max.bytes
)

// Config is what a replica needs to know of its node and topic.
type Config struct {
	Self model.NodeID
	// FlushSync: a record counts only once it is synced (flush.policy=sync).
	FlushSync bool
	// MinISR is min.insync.replicas as set on the topic; what is in force is
	// lowered to the replication factor, as metadata.Image.MinISR does. Default 1.
	MinISR int
	// LagMax is how long a follower may be behind before it leaves the ISR.
	// Default DefaultLagMax.
	LagMax time.Duration
	// MaxBatchBytes bounds one produced batch, in bytes. Default
	// DefaultMaxBatchBytes.
	MaxBatchBytes int
	// HighWatermark is the checkpointed one, 0 when unknown. It is trusted only
	// up to the log end.
	HighWatermark model.Offset
}

// Role is what a node is for one partition.
type Role uint8

// The roles.
const (
	RoleNone     Role = iota // not a replica, or no assignment yet
	RoleLeader               // takes produce requests, serves followers and consumers
	RoleFollower             // copies from the leader
	RoleOffline              // a replica that can do neither: no leader, or metadata older than its log
)

// String names the role.
func (r Role) String() string {
	return [...]string{"none", "leader", "follower", "offline"}[r]
}

// Replica is one partition on one node. Not safe for concurrent use: one lock or
// goroutine around it.
type Replica struct {
	cfg Config
	id  model.Partition
	log *segment.Log

	role      Role
	partition *metadata.Partition // the newest, nil before the first Assign and once deleted
	watermark model.Offset        // while not leading; the leader has its own

	leader *replication.Leader // while RoleLeader
	// leadingSince is the first epoch of an unbroken run of epochs that this node
	// led: what it appended in any of them is still where it was.
	leadingSince model.LeaderEpoch
}

// New makes a replica over an open log. It has no role until Assign.
func New(cfg Config, id model.Partition, log *segment.Log) *Replica {
	if cfg.LagMax == 0 {
		cfg.LagMax = DefaultLagMax
	}
	if cfg.MaxBatchBytes == 0 {
		cfg.MaxBatchBytes = DefaultMaxBatchBytes
	}
	cfg.MinISR = max(1, cfg.MinISR)
	return &Replica{cfg: cfg, id: id, log: log, watermark: clamp(cfg.HighWatermark, log.LogStart(), log.LogEnd())}
}

func clamp(off, low, high model.Offset) model.Offset { return max(low, min(off, high)) }

// Partition is the partition's name.
func (r *Replica) Partition() model.Partition { return r.id }

// Role is what the latest assignment made of this node.
func (r *Replica) Role() Role { return r.role }

// Leader is the partition's leader by the latest assignment, or NoNode.
func (r *Replica) Leader() model.NodeID {
	if r.partition == nil {
		return model.NoNode
	}
	return r.partition.Leader
}

// LeaderEpoch is that of the latest assignment, NoEpoch before the first.
func (r *Replica) LeaderEpoch() model.LeaderEpoch {
	if r.partition == nil {
		return model.NoEpoch
	}
	return r.partition.LeaderEpoch
}

// HighWatermark is the first offset not known to be committed.
func (r *Replica) HighWatermark() model.Offset {
	if r.leader != nil {
		return r.leader.HighWatermark()
	}
	return r.watermark
}

// LogStart is the oldest offset kept.
func (r *Replica) LogStart() model.Offset { return r.log.LogStart() }

// LogEnd is the next offset to be written.
func (r *Replica) LogEnd() model.Offset { return r.log.LogEnd() }

// Log is the replica's log, for reads that need no decision.
func (r *Replica) Log() *segment.Log { return r.log }

// counted is the end of the own log as it counts for the high watermark.
func (r *Replica) counted() model.Offset {
	if !r.cfg.FlushSync || replication.PlantAckEarly {
		return r.log.LogEnd()
	}
	return min(r.log.Durable(), r.log.LogEnd())
}

// Change is what an assignment did.
type Change struct {
	Before, After Role
	// NewEpoch: the leader epoch differs. Waiters of produce requests and long
	// polls of earlier epochs have to be looked at again (Committed tells).
	NewEpoch bool
	// Leader to fetch from when After is RoleFollower.
	Leader model.NodeID
	// HighWatermarkChanged: readers and waiters may go on.
	HighWatermarkChanged bool
}

// EligibleEpochs maps the unfenced nodes of an image to their epochs.
func EligibleEpochs(im *metadata.Image) map[model.NodeID]model.NodeEpoch {
	out := make(map[model.NodeID]model.NodeEpoch, len(im.Nodes))
	for id, n := range im.Nodes {
		if !n.Fenced {
			out[id] = n.Epoch
		}
	}
	return out
}

// Assign takes the newest metadata of the partition. Epochs are the node epochs
// of the nodes that may be in an ISR (EligibleEpochs); the map is kept and must
// not change. Assign may be called again with the same partition when only they
// changed. Nil p means that the partition was deleted. Of an older partition
// only the epochs are taken. An error is a fault of the log; the replica is then
// offline.
func (r *Replica) Assign(p *metadata.Partition, epochs map[model.NodeID]model.NodeEpoch, now time.Time) (Change, error) {
	c := Change{Before: r.role}
	if p != nil && r.partition != nil && p.PartitionEpoch < r.partition.PartitionEpoch {
		p = r.partition
	}
	before := r.partition
	r.partition = p
	c.NewEpoch = p == nil || before == nil || before.LeaderEpoch != p.LeaderEpoch
	watermark := r.HighWatermark()

	r.role = r.roleIn(p, before, c.Before)
	if r.role != RoleLeader {
		r.resign()
	} else if err := r.lead(before, epochs, now); err != nil {
		r.resign()
		r.role = RoleOffline
		c.After = r.role
		return c, fmt.Errorf("lead %s in epoch %d: %w", r.id, p.LeaderEpoch, err)
	}
	c.After, c.Leader = r.role, r.Leader()
	c.HighWatermarkChanged = r.HighWatermark() != watermark
	return c, nil
}

func (r *Replica) roleIn(p, before *metadata.Partition, now Role) Role {
	if p == nil || !model.HasNode(p.Replicas, r.cfg.Self) {
		return RoleNone
	}
	same := before != nil && before.LeaderEpoch == p.LeaderEpoch
	last := r.log.LastEpoch()
	switch {
	case p.Leader == model.NoNode || last > p.LeaderEpoch:
		return RoleOffline
	case p.Leader != r.cfg.Self:
		return RoleFollower
	case now == RoleLeader && same:
		return RoleLeader
	case last == p.LeaderEpoch:
		// Some earlier life of this node led this epoch, and may have lost the
		// end of what it gave to followers: two logs of one epoch would differ.
		// The controller ends such an epoch when the node registers.
		return RoleOffline
	}
	return RoleLeader
}

// lead begins or continues to lead r.partition.
func (r *Replica) lead(before *metadata.Partition, epochs map[model.NodeID]model.NodeEpoch, now time.Time) error {
	p, a := r.partition, r.assignment(epochs)
	if r.leader != nil && before.LeaderEpoch == p.LeaderEpoch {
		r.leader.Assign(a, now)
		return nil
	}
	// The epoch is recorded before anything of it is served, also without data
	// (KIP-101, KAFKA-7415).
	if err := r.log.AssignEpoch(p.LeaderEpoch, r.log.LogEnd()); err != nil {
		return err
	}
	if r.leader == nil || before.LeaderEpoch+1 != p.LeaderEpoch {
		r.leadingSince = p.LeaderEpoch
	}
	r.leader = replication.NewLeader(r.cfg.Self, r.cfg.LagMax, a, r.log.LogEnd(), r.counted(), r.HighWatermark(), now)
	return nil
}

func (r *Replica) assignment(epochs map[model.NodeID]model.NodeEpoch) replication.Assignment {
	p := r.partition
	return replication.Assignment{
		Replicas: p.Replicas, ISR: p.ISR, LeaderEpoch: p.LeaderEpoch, PartitionEpoch: p.PartitionEpoch,
		MinISR: max(1, min(r.cfg.MinISR, len(p.Replicas)-len(p.Adding))), Eligible: epochs,
	}
}

// resign keeps the high watermark and drops what only a leader has.
func (r *Replica) resign() {
	if r.leader != nil {
		r.watermark = r.leader.HighWatermark()
		r.leader = nil
	}
}

// String is one line for traces: role, epoch, offsets, and a leader's view.
func (r *Replica) String() string {
	return fmt.Sprintf("%s epoch %d | hw %d | log %d..%d durable %d", r.role, r.LeaderEpoch(),
		r.HighWatermark(), r.log.LogStart(), r.log.LogEnd(), r.log.Durable())
}

func notLeader(id model.Partition, leader model.NodeID) error {
	advice := "refresh the metadata and retry"
	if leader != model.NoNode {
		advice = fmt.Sprintf("ask node %d", leader)
	}
	return refusal.New(refusal.NotLeader, id.String(), "this node does not lead the partition", advice)
}
