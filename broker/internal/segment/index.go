package segment

import (
	"math"
	"sort"

	"github.com/ister-mq/ister/broker/internal/model"
)

// noTimestamp is the maximum over no batch.
const noTimestamp = math.MinInt64

// indexEntry says that the batch at Position begins with offset base+Relative, and
// that the batches before it in the segment have timestamps up to MaxBefore.
type indexEntry struct {
	Relative  uint32
	Position  uint32
	MaxBefore int64
}

const indexEntrySize = 16

// index is a segment's sparse index, and the summary of the bytes it covers. As a
// file it also proves that those bytes were durable, since it is written after
// they were synced, and removed before they are cut.
type index struct {
	Base         model.Offset
	Next         model.Offset // offset after the covered bytes
	Size         int64        // position after the covered bytes
	MaxTimestamp int64
	Epochs       epochs // of the covered batches
	Entries      []indexEntry
}

func (x index) encode() []byte {
	b := le.AppendUint64(nil, uint64(x.Base))
	b = le.AppendUint64(b, uint64(x.Next))
	b = le.AppendUint64(b, uint64(x.Size))
	b = le.AppendUint64(b, uint64(x.MaxTimestamp))
	b = x.Epochs.append(b)
	b = le.AppendUint32(b, uint32(len(x.Entries)))
	for _, e := range x.Entries {
		b = le.AppendUint32(b, e.Relative)
		b = le.AppendUint32(b, e.Position)
		b = le.AppendUint64(b, uint64(e.MaxBefore))
	}
	return encodeFrame(indexMagic, b)
}

func decodeIndex(name string, base model.Offset, b []byte) (index, error) {
	payload, err := decodeFrame(indexMagic, name, b)
	if err != nil {
		return index{}, err
	}
	c := cursor{b: payload}
	x := index{Base: model.Offset(c.u64()), Next: model.Offset(c.u64()), Size: int64(c.u64()), MaxTimestamp: int64(c.u64())}
	x.Epochs = c.epochs()
	n := c.count(indexEntrySize)
	x.Entries = make([]indexEntry, 0, n)
	for i := 0; i < n; i++ {
		x.Entries = append(x.Entries, indexEntry{c.u32(), c.u32(), int64(c.u64())})
	}
	if c.short || len(c.b) != 0 || x.Base != base || x.Next < base || x.Size < segmentHeader {
		return index{}, damaged(name + ": its fields do not add up")
	}
	return x, nil
}

// floor is the position to look for off from: that of the last indexed batch that
// does not begin after it.
func floor(entries []indexEntry, base, off model.Offset) int64 {
	i := sort.Search(len(entries), func(i int) bool { return base+model.Offset(entries[i].Relative) > off })
	if i == 0 {
		return segmentHeader
	}
	return int64(entries[i-1].Position)
}
