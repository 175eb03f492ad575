package replica

import (
	"fmt"
	"time"

	"github.com/ister-mq/ister/broker/internal/metadata"
	"github.com/ister-mq/ister/broker/internal/model"
	"github.com/ister-mq/ister/broker/internal/record"
	"github.com/ister-mq/ister/broker/internal/refusal"
	"github.com/ister-mq/ister/broker/internal/replication"
)

// proposalPause is the least time between an ISR proposal that did not succeed
// and the next.
const proposalPause = 50 * time.Millisecond

// ProduceResult is an accepted append: not yet durable, not yet committed.
type ProduceResult struct {
	First, Last model.Offset
	LogStart    model.Offset
	// Epoch to give to Committed.
	Epoch model.LeaderEpoch
	// Duplicate: the batch was in the log before; First and Last are where. It
	// is acknowledged like a new one, once Committed says so.
	Duplicate bool
	// HighWatermarkChanged: the append itself moved the high watermark (one
	// replica, no sync).
	HighWatermarkChanged bool
}

// Produce appends one record batch as the leader; the batch is stamped in place.
// Refusals: NOT_LEADER, LEASE_EXPIRED, NOT_ENOUGH_REPLICAS (the ISR is below min
// ISR, so nothing could be committed), BATCH_TOO_LARGE, and those of the producer's
// sequence check.
func (r *Replica) Produce(batch record.Checked, leaseValid bool, now time.Time) (ProduceResult, error) {
	if r.role != RoleLeader {
		return ProduceResult{}, notLeader(r.id, r.Leader())
	}
	if err := r.judgeProduce(batch.Size(), leaseValid); err != nil {
		return ProduceResult{}, err
	}
	header := batch.Header()
	result := ProduceResult{LogStart: r.log.LogStart(), Epoch: r.partition.LeaderEpoch}
	if header.Idempotent() {
		duplicate, first, err := r.log.CheckSequence(header)
		if err != nil {
			return ProduceResult{}, r.unknownProducer(header, err)
		}
		if duplicate {
			result.First, result.Last, result.Duplicate = first, first+model.Offset(header.LastOffsetDelta), true
			return result, nil
		}
	}
	var err error
	result.First, result.Last, err = r.log.AppendLeader(batch, r.partition.LeaderEpoch)
	if err != nil {
		return ProduceResult{}, fmt.Errorf("append to %s: %w", r.id, err)
	}
	r.leader.Appended(r.log.LogEnd(), now)
	result.HighWatermarkChanged = r.leader.Counted(r.counted(), now)
	return result, nil
}

// unknownProducer tells a producer of which nothing is left from one whose earlier
// batch is still under way. Both arrive with a sequence that is not next. Where
// the start of the log was deleted, what the producer sent may have gone with it
// (with the snapshot, too, after a crash or on a new replica), and no retry would
// ever succeed: it has to begin anew (KIP-360).
func (r *Replica) unknownProducer(h record.Header, err error) error {
	if r.log.LogStart() == 0 || !refusal.Is(err, refusal.OutOfOrderSequence) {
		return err
	}
	// Any producer that the log remembers has an epoch of at least 0.
	h.ProducerEpoch, h.BaseSequence = -1, 0
	if _, _, known := r.log.CheckSequence(h); known != nil {
		return err
	}
	return refusal.New(refusal.UnknownProducer, fmt.Sprintf("producer %d", h.ProducerID),
		fmt.Sprintf("nothing of producer %d is left in a log that starts at %d", h.ProducerID, r.log.LogStart()),
		"start its sequence again at 0 with a new producer epoch")
}

func (r *Replica) judgeProduce(size int, leaseValid bool) error {
	switch {
	case !leaseValid:
		return refusal.New(refusal.LeaseExpired, r.id.String(), "the leader has not heard from the controller for too long", "retry")
	case r.leader.UnderMinISR():
		return refusal.New(refusal.NotEnoughReplicas, r.id.String(),
			fmt.Sprintf("%d replicas are in sync, fewer than min.insync.replicas", len(r.partition.ISR)),
			"retry; bring the missing nodes back if it stays so")
	case size > r.cfg.MaxBatchBytes:
		return refusal.New(refusal.BatchTooLarge, r.id.String(),
			fmt.Sprintf("the batch has %d bytes, at most %d are allowed", size, r.cfg.MaxBatchBytes),
			"send smaller batches, or raise max.message.bytes on the topic")
	}
	return nil
}

// Flushed says that the own log was synced, up to durable or further. It reports
// whether the high watermark moved. A completion that a truncation overtook is
// harmless: what counts is what the log itself holds durable.
func (r *Replica) Flushed(_ model.Offset, now time.Time) (highWatermarkChanged bool) {
	return r.leader != nil && r.leader.Counted(r.counted(), now)
}

// Tick lets time pass: call it with ISRProposal. It reports whether the high
// watermark moved.
func (r *Replica) Tick(now time.Time) (highWatermarkChanged bool) {
	return r.leader != nil && r.leader.Tick(now)
}

// Committed reports whether the record at last, appended under epoch by this
// node, is committed: then and only then may it be acknowledged. It is refused
// with NOT_LEADER once another node may have led since: the record may then be
// gone or another one be in its place, and the outcome is unknown.
func (r *Replica) Committed(last model.Offset, epoch model.LeaderEpoch) (bool, error) {
	if replication.PlantStaleEpochAck {
		return r.HighWatermark() > last, nil
	}
	if r.role != RoleLeader || epoch < r.leadingSince || epoch > r.partition.LeaderEpoch {
		return false, notLeader(r.id, r.Leader())
	}
	return r.leader.HighWatermark() > last, nil
}

// FetchFrom is where a follower stands. Offset is the end of its log, and is
// durable there when the topic syncs before ack.
type FetchFrom struct {
	Node             model.NodeID
	NodeEpoch        model.NodeEpoch
	LeaderEpoch      model.LeaderEpoch
	Offset           model.Offset
	LastFetchedEpoch model.LeaderEpoch // of its last record; NoEpoch when it has none
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
	// waiters and consumers may go on. Not for the wire.
	HighWatermarkChanged bool
}

// LeaderFetch answers a follower: it notes its progress and returns batches up
// to the log end. Refusals: NOT_LEADER, FENCED_LEADER_EPOCH (the follower's
// metadata is older), UNKNOWN_LEADER_EPOCH (it is newer), STALE_NODE_EPOCH,
// INELIGIBLE_REPLICA (no replica by the metadata known here: retry).
func (r *Replica) LeaderFetch(f FetchFrom, now time.Time) (FetchData, error) {
	if err := r.judgeFetch(f); err != nil {
		return FetchData{}, err
	}
	d := FetchData{
		LeaderEpoch: f.LeaderEpoch, From: f.Offset, FromEpoch: f.LastFetchedEpoch, LogStart: r.log.LogStart(),
	}
	verdict, divergence := replication.Judge(r.log, f.Offset, f.LastFetchedEpoch)
	if verdict == replication.Diverges {
		d.Diverging, d.DivergingEpoch, d.DivergingEnd = true, divergence.Epoch, divergence.End
	}
	if verdict == replication.Prefix {
		d.HighWatermarkChanged = r.leader.Fetched(f.Node, f.NodeEpoch, f.Offset, now)
		if f.Offset < r.log.LogEnd() && f.MaxBytes > 0 {
			var err error
			if d.Batches, err = r.log.Read(f.Offset, f.MaxBytes, r.log.LogEnd(), true); err != nil {
				return d, fmt.Errorf("read %s for node %d: %w", r.id, f.Node, err)
			}
		}
	}
	d.HighWatermark = r.leader.HighWatermark()
	return d, nil
}

func (r *Replica) judgeFetch(f FetchFrom) error {
	mine := r.LeaderEpoch()
	switch {
	case r.partition == nil || !model.HasNode(r.partition.Replicas, r.cfg.Self):
		return notLeader(r.id, r.Leader())
	case f.LeaderEpoch < mine:
		return refusal.New(refusal.FencedLeaderEpoch, r.id.String(),
			fmt.Sprintf("leader epoch is %d, got %d", mine, f.LeaderEpoch), "wait for newer metadata")
	case f.LeaderEpoch > mine:
		return refusal.New(refusal.UnknownLeaderEpoch, r.id.String(),
			fmt.Sprintf("leader epoch %d is not known here yet, only %d", f.LeaderEpoch, mine), "retry")
	case r.role != RoleLeader:
		return notLeader(r.id, r.Leader())
	case f.Node == r.cfg.Self || !model.HasNode(r.partition.Replicas, f.Node):
		return refusal.New(refusal.IneligibleReplica, r.id.String(),
			fmt.Sprintf("node %d is no follower by the metadata known here", f.Node), "retry")
	case f.NodeEpoch < r.leader.KnownEpoch(f.Node):
		return refusal.New(refusal.StaleNodeEpoch, r.id.String(),
			fmt.Sprintf("node %d has fetched at epoch %d, got %d", f.Node, r.leader.KnownEpoch(f.Node), f.NodeEpoch), "register again")
	case f.LastFetchedEpoch > f.LeaderEpoch || f.Offset < 0:
		return refusal.New(refusal.InvalidArgument, r.id.String(),
			fmt.Sprintf("node %d asks from offset %d after epoch %d in leader epoch %d", f.Node, f.Offset, f.LastFetchedEpoch, f.LeaderEpoch), "")
	}
	return nil
}

// ISRProposal is the ISR change that the leader wants now. At most one is in
// flight: call ISRProposalDone with its outcome. To be asked for after each
// fetch, and at least each LagMax/2.
func (r *Replica) ISRProposal(now time.Time) (metadata.ISRChange, bool) {
	if r.leader == nil {
		return metadata.ISRChange{}, false
	}
	p, ok := r.leader.Propose(now)
	if !ok {
		return metadata.ISRChange{}, false
	}
	change := metadata.ISRChange{Partition: r.id, LeaderEpoch: p.LeaderEpoch, PartitionEpoch: p.PartitionEpoch}
	for _, m := range p.ISR {
		change.ISR = append(change.ISR, metadata.ISRMember{Node: m.Node, Epoch: m.Epoch})
	}
	return change, true
}

// ISRProposalDone takes the outcome of a proposal: the partition as the
// controller now has it, or why not. Whatever the error says, the additions stay
// counted until the partition epoch moves: the request may still be accepted. It
// reports whether the high watermark moved.
func (r *Replica) ISRProposalDone(change metadata.ISRChange, state *metadata.Partition, err error, now time.Time) (highWatermarkChanged bool) {
	if r.leader == nil {
		return false
	}
	newer := err == nil && state != nil && state.LeaderEpoch == r.partition.LeaderEpoch && state.PartitionEpoch > r.partition.PartitionEpoch
	if !newer { // or newer metadata was here first
		p := replication.Proposal{LeaderEpoch: change.LeaderEpoch, PartitionEpoch: change.PartitionEpoch}
		return r.leader.Failed(p, proposalPause, now)
	}
	before := r.leader.HighWatermark()
	r.partition = state
	r.leader.Assign(r.assignment(r.leader.Eligible()), now)
	return r.leader.HighWatermark() != before
}

// Read returns whole batches below the high watermark for a consumer, from the
// one that holds from, about maxBytes of them (at least one). Empty when from is
// not yet committed. Refusals: NOT_LEADER, OFFSET_OUT_OF_RANGE.
func (r *Replica) Read(from model.Offset, maxBytes int) ([]byte, error) {
	switch {
	case r.role != RoleLeader:
		return nil, notLeader(r.id, r.Leader())
	case from < r.log.LogStart() || from > r.log.LogEnd():
		return nil, refusal.New(refusal.OffsetOutOfRange, r.id.String(),
			fmt.Sprintf("offset %d is not within %d to %d", from, r.log.LogStart(), r.log.LogEnd()), "start from the earliest or latest offset")
	case from >= r.leader.HighWatermark():
		return nil, nil
	}
	return r.log.Read(from, maxBytes, r.leader.HighWatermark(), true)
}

// LatestOffset is the high watermark for ListOffsets. Refused with
// OFFSET_NOT_AVAILABLE after an election until it has reached the start of the
// leader's epoch, since it could go back otherwise (KIP-207).
func (r *Replica) LatestOffset() (model.Offset, error) {
	if r.role != RoleLeader {
		return 0, notLeader(r.id, r.Leader())
	}
	latest, ok := r.leader.Latest()
	if !ok {
		return 0, refusal.New(refusal.OffsetNotAvailable, r.id.String(), "the new leader does not know the latest offset yet", "retry")
	}
	return latest, nil
}

// DeleteTo advances the leader's log start, at most to the high watermark, and
// back to the start of a batch: a follower that starts anew at the log start is
// given whole batches. Followers take it over from their fetches.
func (r *Replica) DeleteTo(off model.Offset) error {
	if r.role != RoleLeader {
		return notLeader(r.id, r.Leader())
	}
	if off = min(off, r.leader.HighWatermark()); off <= r.log.LogStart() {
		return nil
	}
	if off < r.log.LogEnd() {
		batch, err := r.log.Read(off, 1, r.log.LogEnd(), true)
		if err != nil {
			return fmt.Errorf("find the batch at %d of %s: %w", off, r.id, err)
		}
		header, _, err := record.Parse(batch)
		if err != nil {
			return fmt.Errorf("find the batch at %d of %s: %w", off, r.id, err)
		}
		if off = header.BaseOffset; off <= r.log.LogStart() {
			return nil
		}
	}
	return r.log.DeleteTo(off)
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

// Progress lists the followers as the leader sees them, by node id; nil when
// not leading.
func (r *Replica) Progress(now time.Time) []ReplicaProgress {
	if r.leader == nil {
		return nil
	}
	var out []ReplicaProgress
	for _, p := range r.leader.Progress(now) {
		out = append(out, ReplicaProgress{
			Node: p.Node, LogEnd: p.End, LeaderLogEnd: r.log.LogEnd(), Known: p.Known, InISR: p.InISR, CaughtUp: p.KeepsUp,
		})
	}
	return out
}

// Describe is String and, when leading, the view of the followers.
func (r *Replica) Describe(now time.Time) string {
	if r.leader == nil {
		return r.String()
	}
	return r.String() + " | " + r.leader.Describe(now)
}
