package segment

import (
	"sort"

	"github.com/ister-mq/ister/broker/internal/model"
)

// EpochStart says where a leader epoch begins in the log (KIP-101).
type EpochStart struct {
	Epoch model.LeaderEpoch
	Start model.Offset
}

// epochs is the leader-epoch history, strictly ascending in both fields. Only the
// last entry can be without data: an epoch that begins where the one before it
// began supersedes it.
type epochs []EpochStart

func (e epochs) last() model.LeaderEpoch {
	if len(e) == 0 {
		return model.NoEpoch
	}
	return e[len(e)-1].Epoch
}

// assign records that epoch begins at start, dropping entries that this makes
// impossible: those of the same or later epochs at or after start.
func (e epochs) assign(epoch model.LeaderEpoch, start model.Offset) epochs {
	if e.last() == epoch {
		return e
	}
	for len(e) > 0 && (e[len(e)-1].Epoch >= epoch || e[len(e)-1].Start >= start) {
		e = e[:len(e)-1]
	}
	return append(e, EpochStart{epoch, start})
}

// truncateTo drops the epochs that begin at or after end.
func (e epochs) truncateTo(end model.Offset) epochs {
	for len(e) > 0 && e[len(e)-1].Start >= end {
		e = e[:len(e)-1]
	}
	return e
}

// deleteTo drops the epochs that end at or before start; the one that spans it
// begins there now.
func (e epochs) deleteTo(start model.Offset) epochs {
	first := 0
	for first+1 < len(e) && e[first+1].Start <= start {
		first++
	}
	out := append(epochs{}, e[first:]...)
	if len(out) > 0 && out[0].Start < start {
		out[0].Start = start
	}
	return out
}

// at is the epoch of the record at off, NoEpoch when off precedes them all.
func (e epochs) at(off model.Offset) model.LeaderEpoch {
	i := sort.Search(len(e), func(i int) bool { return e[i].Start > off })
	if i == 0 {
		return model.NoEpoch
	}
	return e[i-1].Epoch
}

// endOffset answers OffsetForLeaderEpoch (KIP-320): the largest epoch not above the
// asked one, and the offset where it ends. For the latest epoch that is the log
// end. NoEpoch and -1 when the log knows nothing of it, that is, for an epoch later
// than the last. An epoch before the first gives itself and the first start.
func (e epochs) endOffset(epoch model.LeaderEpoch, logEnd model.Offset) (model.LeaderEpoch, model.Offset) {
	i := sort.Search(len(e), func(i int) bool { return e[i].Epoch > epoch })
	switch {
	case epoch == e.last() && len(e) > 0:
		return epoch, logEnd
	case i == len(e):
		return model.NoEpoch, -1
	case i == 0:
		return epoch, e[0].Start
	}
	return e[i-1].Epoch, e[i].Start
}

// between lists the epochs with records in [from, to): the one in force at from,
// then those that begin inside.
func (e epochs) between(from, to model.Offset) epochs {
	var out epochs
	for i, entry := range e {
		if entry.Start >= to {
			break
		}
		if i+1 < len(e) && e[i+1].Start <= from {
			continue
		}
		entry.Start = max(entry.Start, from)
		out = append(out, entry)
	}
	return out
}

func (e epochs) append(b []byte) []byte {
	b = le.AppendUint32(b, uint32(len(e)))
	for _, entry := range e {
		b = le.AppendUint32(b, uint32(entry.Epoch))
		b = le.AppendUint64(b, uint64(entry.Start))
	}
	return b
}

func (c *cursor) epochs() epochs {
	n := c.count(12)
	out := make(epochs, 0, n)
	for i := 0; i < n; i++ {
		out = append(out, EpochStart{model.LeaderEpoch(c.u32()), model.Offset(c.u64())})
	}
	return out
}

// checkpoint is the small file of what cannot be derived from the segments.
type checkpoint struct {
	Start  model.Offset // log start offset
	Reset  bool         // a ResetTo was under way: everything in the directory is void
	Epochs epochs       // the whole history; only a last epoch without data is news
}

func (c checkpoint) encode() []byte {
	b := le.AppendUint64(nil, uint64(c.Start))
	var flags uint32
	if c.Reset {
		flags = 1
	}
	b = le.AppendUint32(b, flags)
	return encodeFrame(checkMagic, c.Epochs.append(b))
}

func decodeCheckpoint(b []byte) (checkpoint, error) {
	payload, err := decodeFrame(checkMagic, checkpointName, b)
	if err != nil {
		return checkpoint{}, err
	}
	c := cursor{b: payload}
	out := checkpoint{Start: model.Offset(c.u64()), Reset: c.u32() != 0, Epochs: c.epochs()}
	if c.short || len(c.b) != 0 || out.Start < 0 {
		return checkpoint{}, damaged(checkpointName + ": its fields do not add up")
	}
	return out, nil
}
