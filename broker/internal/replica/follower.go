package replica

import (
	"fmt"
	"time"

	"github.com/ister-mq/ister/broker/internal/model"
	"github.com/ister-mq/ister/broker/internal/refusal"
	"github.com/ister-mq/ister/broker/internal/replication"
)

// FetchPosition is what to ask the leader next; the caller adds NodeEpoch, which
// its registration gave it, and MaxBytes. False:
// not a follower, or (with FlushSync) what was appended is not synced yet; ask
// again after Flushed.
func (r *Replica) FetchPosition() (FetchFrom, bool) {
	if r.role != RoleFollower || r.counted() < r.log.LogEnd() {
		return FetchFrom{}, false
	}
	return FetchFrom{
		Node: r.cfg.Self, LeaderEpoch: r.partition.LeaderEpoch,
		Offset: r.log.LogEnd(), LastFetchedEpoch: r.log.LastEpoch(),
	}, true
}

// NeedsSync reports that FetchPosition waits for a sync: after a start, or when
// FollowerAppend said so.
func (r *Replica) NeedsSync() bool { return r.counted() < r.log.LogEnd() }

// FollowerAppend takes the leader's answer. An answer to another question than
// FetchPosition now asks is ignored. NeedSync: the log has to be synced, and
// Flushed called, before FetchPosition goes on. An error is a fault of the log,
// or INTERNAL when the leader lacks what this replica knows to be committed:
// then nothing was changed, and somebody has to look.
func (r *Replica) FollowerAppend(d FetchData, _ time.Time) (needSync bool, err error) {
	if r.role != RoleFollower || d.LeaderEpoch != r.partition.LeaderEpoch ||
		d.From != r.log.LogEnd() || d.FromEpoch != r.log.LastEpoch() {
		return false, nil
	}
	switch {
	case d.LogStart > d.From:
		return false, r.restart(d.LogStart)
	case d.Diverging:
		return r.NeedsSync(), r.truncate(d)
	}
	if len(d.Batches) > 0 {
		if _, err := r.log.AppendFollower(d.Batches); err != nil {
			return false, fmt.Errorf("append to %s at %d: %w", r.id, d.From, err)
		}
	}
	r.watermark = max(r.watermark, min(d.HighWatermark, r.log.LogEnd()))
	if d.LogStart > r.log.LogStart() {
		if err := r.log.DeleteTo(d.LogStart); err != nil {
			return false, fmt.Errorf("advance the log start of %s to %d: %w", r.id, d.LogStart, err)
		}
	}
	return r.NeedsSync(), nil
}

// truncate drops what the leader does not have.
func (r *Replica) truncate(d FetchData) error {
	divergence := replication.Divergence{Epoch: d.DivergingEpoch, End: d.DivergingEnd}
	to, restart := replication.Repair(r.log, d.LogStart, divergence)
	if r.cfg.FlushSync && (to < r.watermark && !restart || d.DivergingEnd < r.log.LogStart()) {
		return refusal.New(refusal.InternalInconsistency, r.id.String(),
			fmt.Sprintf("the leader of epoch %d shares nothing from offset %d on, but all below %d was committed", d.LeaderEpoch, min(to, d.DivergingEnd), r.watermark),
			"keep the data directories of all replicas and compare them with `ister admin verify`")
	}
	if restart {
		return r.restart(d.LogStart)
	}
	if err := r.log.TruncateTo(to); err != nil {
		return fmt.Errorf("truncate %s to %d: %w", r.id, to, err)
	}
	r.watermark = min(r.watermark, to)
	return nil
}

// restart empties the log and goes on at the leader's log start: all that the
// log held is below it or not the leader's.
func (r *Replica) restart(at model.Offset) error {
	if err := r.log.ResetTo(at); err != nil {
		return fmt.Errorf("restart %s at %d: %w", r.id, at, err)
	}
	r.watermark = at
	return nil
}
