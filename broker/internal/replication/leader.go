package replication

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ister-mq/ister/broker/internal/model"
)

// Assignment is one partition as the metadata has it, with what its leader must
// know of the nodes.
type Assignment struct {
	Replicas       []model.NodeID // those being added included
	ISR            []model.NodeID
	LeaderEpoch    model.LeaderEpoch
	PartitionEpoch model.PartitionEpoch
	MinISR         int // in force
	// Eligible maps the unfenced nodes to their epochs.
	Eligible map[model.NodeID]model.NodeEpoch
}

// Leader is what the leader of a partition knows during one leader epoch. Its
// String is one line for traces:
//
//	epoch 3 from 10 | hw 8 | log 12 counted 11 | isr 1,2 min 2 | 2:8 3:? | proposed 1,2,3
//
// where 2:8 is follower 2 with log end 8, "?" one that has not asked yet, and a
// "~" follows a follower that does not keep up.
type Leader struct {
	self       model.NodeID
	lagMax     time.Duration
	assigned   Assignment
	epochStart model.Offset // log end when the epoch began

	logEnd    model.Offset
	counted   model.Offset // own log end as it counts for the high watermark
	watermark model.Offset
	followers map[model.NodeID]*follower

	proposed  *Proposal // in flight
	uncertain []model.NodeID
	notBefore time.Time // of the next proposal
}

// follower is the progress of one other replica. Zero node epoch: it has not
// asked under this leader epoch.
type follower struct {
	epoch      model.NodeEpoch
	end        model.Offset
	caughtUpAt time.Time // when it last had all that the leader had
	askedAt    time.Time
	askedEnd   model.Offset // the leader's log end at askedAt
}

// NewLeader begins a leader epoch on a log that ends at logEnd, of which counted
// counts, with the high watermark known from before. Followers of the ISR get
// lagMax to show up; others count for nothing until they have caught up.
func NewLeader(self model.NodeID, lagMax time.Duration, a Assignment, logEnd, counted, watermark model.Offset, now time.Time) *Leader {
	l := &Leader{
		self: self, lagMax: lagMax, assigned: a,
		epochStart: logEnd, logEnd: logEnd, counted: min(counted, logEnd), watermark: min(watermark, logEnd),
		followers: map[model.NodeID]*follower{},
	}
	l.meetFollowers(now)
	l.advance(now)
	return l
}

// Assign takes newer metadata of the same leader epoch. Progress of followers
// that remain is kept, also when the replica set changes (KAFKA-13790). It
// reports whether the high watermark moved.
func (l *Leader) Assign(a Assignment, now time.Time) bool {
	if a.LeaderEpoch != l.assigned.LeaderEpoch {
		panic(fmt.Sprintf("replication: leader of epoch %d assigned epoch %d", l.assigned.LeaderEpoch, a.LeaderEpoch))
	}
	if a.PartitionEpoch > l.assigned.PartitionEpoch {
		// Proposals name the partition epoch they were made on. Those of the old
		// one were accepted, and are in a.ISR, or never can be.
		l.proposed, l.uncertain, l.notBefore = nil, nil, time.Time{}
	}
	l.assigned = a
	l.meetFollowers(now)
	return l.advance(now)
}

func (l *Leader) meetFollowers(now time.Time) {
	for id := range l.followers {
		if !model.HasNode(l.assigned.Replicas, id) {
			delete(l.followers, id)
		}
	}
	for _, id := range l.assigned.Replicas {
		if id == l.self || l.followers[id] != nil {
			continue
		}
		f := &follower{}
		if model.HasNode(l.assigned.ISR, id) {
			f.caughtUpAt = now
		}
		// One outside the ISR has kept up with nothing yet: a new copy that starts
		// at zero must not hold the high watermark back.
		l.followers[id] = f
	}
}

// Appended notes that the own log now ends at end.
func (l *Leader) Appended(end model.Offset, now time.Time) {
	for _, f := range l.followers {
		if f.epoch != 0 && f.end >= l.logEnd {
			f.caughtUpAt = now // it had everything until this moment
		}
	}
	l.logEnd = max(l.logEnd, end)
}

// Counted notes that the own log counts up to end. It reports whether the high
// watermark moved.
func (l *Leader) Counted(end model.Offset, now time.Time) bool {
	l.counted = max(l.counted, min(end, l.logEnd))
	return l.advance(now)
}

// Fetched notes that a follower, at this epoch of its node, holds this leader's
// log up to end. The caller has checked that (Judge). Within one leader epoch
// such a log only grows, so a late request cannot take progress back. It reports
// whether the high watermark moved.
func (l *Leader) Fetched(node model.NodeID, epoch model.NodeEpoch, end model.Offset, now time.Time) bool {
	f := l.followers[node]
	if f == nil || epoch < f.epoch {
		return false
	}
	if epoch > f.epoch {
		again := follower{epoch: epoch}
		if model.HasNode(l.assigned.ISR, node) {
			again.caughtUpAt = f.caughtUpAt
		}
		*f = again
	}
	f.end = max(f.end, min(end, l.logEnd))
	switch {
	case f.end >= l.logEnd:
		f.caughtUpAt = now
	case !f.askedAt.IsZero() && f.end >= f.askedEnd:
		f.caughtUpAt = f.askedAt // a moving log end is chased, never reached
	}
	f.askedAt, f.askedEnd = now, l.logEnd
	return l.advance(now)
}

// KnownEpoch is the node epoch under which a follower last asked, 0 when it has
// not or is no follower.
func (l *Leader) KnownEpoch(node model.NodeID) model.NodeEpoch {
	if f := l.followers[node]; f != nil {
		return f.epoch
	}
	return 0
}

// Tick moves the high watermark where only time held it: a follower outside the
// ISR that stopped keeping up is not waited for any more.
func (l *Leader) Tick(now time.Time) bool { return l.advance(now) }

func (l *Leader) keepsUp(f *follower, now time.Time) bool {
	return f.epoch != 0 && f.end >= l.logEnd || now.Sub(f.caughtUpAt) <= l.lagMax
}

func (l *Leader) eligible(id model.NodeID, f *follower) bool {
	return f.epoch != 0 && l.assigned.Eligible[id] == f.epoch
}

// advance moves the high watermark forward to the smallest counted end over the
// maximal ISR.
func (l *Leader) advance(now time.Time) bool {
	if l.UnderMinISR() && !PlantWatermarkBelowMinISR {
		return false
	}
	lowest := l.counted
	for id, f := range l.followers {
		if l.counts(id, f, now) {
			lowest = min(lowest, f.end)
		}
	}
	if lowest <= l.watermark {
		return false
	}
	l.watermark = lowest
	return true
}

// counts reports whether a follower is in the maximal ISR: it is a member, it
// may have become one by a proposal, or it would be proposed any moment.
func (l *Leader) counts(id model.NodeID, f *follower, now time.Time) bool {
	return model.HasNode(l.assigned.ISR, id) ||
		l.proposed != nil && l.proposed.has(id) ||
		model.HasNode(l.uncertain, id) ||
		l.eligible(id, f) && l.keepsUp(f, now)
}

// UnderMinISR reports whether nothing can be committed now.
func (l *Leader) UnderMinISR() bool { return len(l.assigned.ISR) < l.assigned.MinISR }

// HighWatermark is the first offset not committed.
func (l *Leader) HighWatermark() model.Offset { return l.watermark }

// Latest is the high watermark, and whether it may be told to clients as the
// latest offset. It may not until it has reached the start of the epoch, since
// the leader before may have told more (KIP-207).
func (l *Leader) Latest() (model.Offset, bool) { return l.watermark, l.watermark >= l.epochStart }

// EpochStart is the log end when the epoch began.
func (l *Leader) EpochStart() model.Offset { return l.epochStart }

// Progress is how far one follower is.
type Progress struct {
	Node    model.NodeID
	End     model.Offset
	Known   bool // it has asked under this leader epoch
	InISR   bool
	KeepsUp bool
}

// Progress lists the followers by node id.
func (l *Leader) Progress(now time.Time) []Progress {
	out := make([]Progress, 0, len(l.followers))
	for id, f := range l.followers {
		out = append(out, Progress{
			Node: id, End: f.end, Known: f.epoch != 0,
			InISR: model.HasNode(l.assigned.ISR, id), KeepsUp: f.epoch != 0 && l.keepsUp(f, now),
		})
	}
	slices.SortFunc(out, func(a, b Progress) int { return int(a.Node) - int(b.Node) })
	return out
}

// Describe is the one-line state at a time.
func (l *Leader) Describe(now time.Time) string {
	var b strings.Builder
	fmt.Fprintf(&b, "epoch %d from %d | hw %d | log %d counted %d | isr %s min %d |",
		l.assigned.LeaderEpoch, l.epochStart, l.watermark, l.logEnd, l.counted, nodeList(l.assigned.ISR), l.assigned.MinISR)
	for _, p := range l.Progress(now) {
		fmt.Fprintf(&b, " %d:", p.Node)
		if p.Known {
			fmt.Fprintf(&b, "%d", p.End)
		} else {
			b.WriteString("?")
		}
		if !l.keepsUp(l.followers[p.Node], now) {
			b.WriteString("~")
		}
	}
	if l.proposed != nil {
		fmt.Fprintf(&b, " | proposed %s", nodeList(l.proposed.nodes()))
	}
	if len(l.uncertain) > 0 {
		fmt.Fprintf(&b, " | uncertain %s", nodeList(l.uncertain))
	}
	return b.String()
}

func nodeList(ids []model.NodeID) string {
	words := make([]string, len(ids))
	for i, id := range ids {
		words[i] = id.String()
	}
	return strings.Join(words, ",")
}

// Eligible is the map of the latest assignment.
func (l *Leader) Eligible() map[model.NodeID]model.NodeEpoch { return l.assigned.Eligible }
