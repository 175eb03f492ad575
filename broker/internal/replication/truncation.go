package replication

import "github.com/ister-mq/ister/broker/internal/model"

// Epochs is a log's record of which offsets each leader epoch wrote.
type Epochs interface {
	LogStart() model.Offset
	LogEnd() model.Offset
	// EndOffsetFor returns the largest epoch known that is not above epoch, and
	// where it ends: the start of the next epoch, or the log end. NoEpoch when
	// every known epoch is above (KIP-320).
	EndOffsetFor(epoch model.LeaderEpoch) (found model.LeaderEpoch, end model.Offset)
}

// Verdict is a leader's judgment of a follower's log.
type Verdict uint8

// The verdicts.
const (
	Prefix   Verdict = iota // it is a prefix of the leader's log: serve from its end
	TooOld                  // it ends below the leader's log start: start anew there
	Diverges                // it is no prefix: truncate, then ask again
)

// Divergence names the last epoch of the leader's log that the follower may
// share, and where that epoch ends in the leader's log. Epoch NoEpoch: they share
// none, and nothing at or above End is the leader's.
type Divergence struct {
	Epoch model.LeaderEpoch
	End   model.Offset
}

// Judge compares a follower's log, which ends at end with a record of epoch last
// (NoEpoch when it is empty), with the leader's log.
func Judge(leader Epochs, end model.Offset, last model.LeaderEpoch) (Verdict, Divergence) {
	if end < leader.LogStart() {
		return TooOld, Divergence{}
	}
	if last == model.NoEpoch {
		// Nothing to compare. It started anew at an offset that a leader gave it.
		if end > leader.LogEnd() {
			return Diverges, Divergence{Epoch: model.NoEpoch, End: leader.LogEnd()}
		}
		return Prefix, Divergence{}
	}
	found, foundEnd := leader.EndOffsetFor(last)
	if found == model.NoEpoch {
		// All that the leader kept is of later epochs than what the follower ends
		// with, so they agree at most below the leader's log start.
		if end == leader.LogStart() {
			return Prefix, Divergence{}
		}
		return Diverges, Divergence{Epoch: model.NoEpoch, End: leader.LogStart()}
	}
	if found < last || foundEnd < end {
		return Diverges, Divergence{Epoch: found, End: foundEnd}
	}
	return Prefix, Divergence{}
}

// Repair is what a follower does to its own log on a divergence from a leader
// whose log starts at leaderStart: truncate to an offset, or (restart) drop
// everything and start anew at leaderStart, where the two share nothing. Where it
// lacks the named epoch it drops everything later and asks again with an older
// one, so each round names an older epoch or ends the search (KIP-279).
// Truncating at the log end is no no-op: it forgets epochs that wrote nothing
// (KAFKA-10706).
func Repair(own Epochs, leaderStart model.Offset, d Divergence) (to model.Offset, restart bool) {
	to = d.End
	if d.Epoch != model.NoEpoch {
		found, end := own.EndOffsetFor(d.Epoch)
		switch found {
		case d.Epoch:
			to = min(end, d.End)
		case model.NoEpoch:
			to = own.LogStart()
		default:
			to = end
		}
	}
	if to < leaderStart || d.End < own.LogStart() {
		return leaderStart, true
	}
	return max(min(to, own.LogEnd()), own.LogStart()), false
}
