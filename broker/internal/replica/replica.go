package replica

import (
	"time"

	"github.com/ister-mq/ister/broker/internal/metadata"
	"github.com/ister-mq/ister/broker/internal/model"
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
	// Default 2 s.
	LagMax time.Duration
	// MaxBatchBytes bounds one produced batch, in bytes. Default 1 MiB plus 12.
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
	RoleOffline              // a replica of a partition that has no leader now
)

// String names the role.
func (r Role) String() string {
	return [...]string{"none", "leader", "follower", "offline"}[r]
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

// ProduceResult is an accepted append: not yet durable, not yet committed.
type ProduceResult struct {
	First, Last model.Offset
	LogStart    model.Offset
	// Epoch to give to Committed.
	Epoch model.LeaderEpoch
	// Duplicate: the batch was in the log before; First and Last are where. It
	// is acknowledged like a new one, once Committed says so.
	Duplicate bool
}

// FetchFrom is where a follower stands. Offset is the end of its log, and is
// durable there when the topic syncs before ack.
type FetchFrom struct {
	Node             model.NodeID
	NodeEpoch        model.NodeEpoch
	LeaderEpoch      model.LeaderEpoch
	Offset           model.Offset
	LastFetchedEpoch model.LeaderEpoch
	MaxBytes         int
}

// FetchData is a leader's answer. LeaderEpoch, From and FromEpoch repeat the
// request: a follower uses them to drop an answer that it no longer waits for.
type FetchData struct {
	LeaderEpoch   model.LeaderEpoch
	From          model.Offset
	FromEpoch     model.LeaderEpoch
	HighWatermark model.Offset
	// LogStart of the leader. Above From, the follower starts anew there.
	LogStart model.Offset
	// Diverging: the follower's log is no prefix of the leader's; it truncates
	// to the end of DivergingEpoch, at most DivergingEnd, and asks again.
	Diverging      bool
	DivergingEpoch model.LeaderEpoch
	DivergingEnd   model.Offset
	Batches        []byte
	// HighWatermarkChanged: this fetch moved the leader's high watermark, so
	// waiters and consumers may go on.
	HighWatermarkChanged bool
}

// ReplicaProgress is how far a follower is, as its leader sees it.
type ReplicaProgress struct {
	Node         model.NodeID
	LogEnd       model.Offset // durable there when FlushSync; 0 when not Known
	LeaderLogEnd model.Offset
	Known        bool // it asked under this leader epoch
	InISR        bool
	CaughtUp     bool
}

// New makes a replica over an open log. It has no role until Assign.
// Not safe for concurrent use: one lock or goroutine around it.
func New(cfg Config, id model.Partition, log Log) *Replica {
	return &Replica{cfg: cfg, id: id, log: log}
}

// Replica is one partition on one node.
type Replica struct {
	cfg Config
	id  model.Partition
	log Log
}

// Role is what the latest assignment made of this node.
func (r *Replica) Role() Role { return RoleNone }

// Leader is the partition's leader by the latest assignment, or NoNode.
func (r *Replica) Leader() model.NodeID { return model.NoNode }

// LeaderEpoch is that of the latest assignment, NoEpoch before the first.
func (r *Replica) LeaderEpoch() model.LeaderEpoch { return model.NoEpoch }

// HighWatermark is the first offset not known to be committed.
func (r *Replica) HighWatermark() model.Offset { return 0 }

// LogStart is the oldest offset kept.
func (r *Replica) LogStart() model.Offset { return 0 }

// LogEnd is the next offset to be written.
func (r *Replica) LogEnd() model.Offset { return 0 }

// Assign takes the newest metadata of the partition. Epochs are the node epochs
// of the nodes that may be in an ISR: see EligibleEpochs. It may be called again
// with the same partition when only they changed. Nil p means that the
// partition was deleted. An older partition epoch is ignored.
func (r *Replica) Assign(p *metadata.Partition, epochs map[model.NodeID]model.NodeEpoch, now time.Time) (Change, error) {
	return Change{}, nil
}

// EligibleEpochs maps the unfenced nodes of an image to their epochs.
func EligibleEpochs(im *metadata.Image) map[model.NodeID]model.NodeEpoch { return nil }

// Produce appends one record batch as the leader. The log takes ownership of
// batch and stamps it. Refusals: NOT_LEADER, LEASE_EXPIRED, NOT_ENOUGH_REPLICAS,
// BATCH_TOO_LARGE, those of record.CheckProduce and of the sequence check.
func (r *Replica) Produce(batch []byte, leaseValid bool, now time.Time) (ProduceResult, error) {
	return ProduceResult{}, nil
}

// Flushed says that the own log was synced up to durable.
func (r *Replica) Flushed(durable model.Offset, now time.Time) (highWatermarkChanged bool) {
	return false
}

// Committed reports whether the record at last, appended under epoch by this
// node, is committed: then and only then may it be acknowledged. It is refused
// with NOT_LEADER once the node does not lead under that epoch any more, for
// then the outcome is unknown.
func (r *Replica) Committed(last model.Offset, epoch model.LeaderEpoch) (bool, error) {
	return false, nil
}

// LeaderFetch answers a follower: it notes its progress and returns batches up
// to the log end. Refusals: NOT_LEADER, FENCED_LEADER_EPOCH,
// UNKNOWN_LEADER_EPOCH, STALE_NODE_EPOCH, INELIGIBLE_REPLICA (no replica by the
// metadata known here).
func (r *Replica) LeaderFetch(f FetchFrom, now time.Time) (FetchData, error) { return FetchData{}, nil }

// FetchPosition is what to ask the leader next. False: not a follower, or (with
// FlushSync) what was appended is not synced yet; ask after Flushed.
func (r *Replica) FetchPosition() (FetchFrom, bool) { return FetchFrom{}, false }

// FollowerAppend takes the leader's answer. An answer to another question than
// FetchPosition now asks is ignored. NeedSync: the log has to be synced, and
// Flushed called, before FetchPosition goes on.
func (r *Replica) FollowerAppend(d FetchData, now time.Time) (needSync bool, err error) {
	return false, nil
}

// ISRProposal is the ISR change that the leader wants now. At most one is in
// flight; call ISRProposalDone with its outcome. To be asked for after each
// fetch that may expand the ISR, and at least each LagMax/2.
func (r *Replica) ISRProposal(now time.Time) (metadata.ISRChange, bool) {
	return metadata.ISRChange{}, false
}

// ISRProposalDone takes the outcome of a proposal: the partition as the
// controller now has it, or why not. An err that is not a definite refusal
// (OUTCOME_UNKNOWN, a fault) leaves its additions counted until the partition
// epoch moves.
func (r *Replica) ISRProposalDone(change metadata.ISRChange, state *metadata.Partition, err error, now time.Time) (highWatermarkChanged bool) {
	return false
}

// Read returns whole batches below the high watermark for a consumer, from the
// one that holds from, about maxBytes of them (at least one). Empty when from is
// not yet committed. Refusals: NOT_LEADER, OFFSET_OUT_OF_RANGE.
func (r *Replica) Read(from model.Offset, maxBytes int) ([]byte, error) { return nil, nil }

// LatestOffset is the high watermark for ListOffsets. Refused with
// OFFSET_NOT_AVAILABLE after an election until it has reached the start of the
// leader's epoch, since it could go back otherwise (KIP-207).
func (r *Replica) LatestOffset() (model.Offset, error) { return 0, nil }

// DeleteTo advances the leader's log start, at most to the high watermark.
// Followers take it over from their fetches.
func (r *Replica) DeleteTo(off model.Offset) error { return nil }

// Progress lists the followers as the leader sees them, by node id; nil when
// not leading.
func (r *Replica) Progress() []ReplicaProgress { return nil }
