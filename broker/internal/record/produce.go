package record

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/ister-mq/ister/broker/internal/model"
	"github.com/ister-mq/ister/broker/internal/refusal"
)

// Checked is one whole batch that CheckProduce accepted. Nothing else makes one, so
// whoever holds one need not look again. It aliases the bytes that were checked,
// which must not change but by Stamp. The zero value has no batch.
type Checked struct {
	bytes  []byte
	header Header
}

// Bytes is the batch.
func (c Checked) Bytes() []byte { return c.bytes }

// Size is the batch in bytes, header included.
func (c Checked) Size() int { return len(c.bytes) }

// Header is the batch's header as it was checked.
func (c Checked) Header() Header { return c.header }

// Stamp writes base offset and leader epoch into the batch and returns the header
// that it has now. Both lie outside the checksum.
func (c Checked) Stamp(base model.Offset, epoch model.LeaderEpoch) Header {
	Stamp(c.bytes, base, epoch)
	h := c.header
	h.BaseOffset, h.LeaderEpoch = base, epoch
	return h
}

// CheckProduce judges what a client sent for one partition: exactly one whole
// batch of format 2 with a matching checksum, record counts that agree, and for
// uncompressed batches record lengths that add up and offset deltas 0..n-1. Records
// inside a compressed batch are not looked at, since that would cost a leader more
// than everything else it does; their count is bounded by what the header states,
// and consumers check what they unpack. Refusals: CORRUPT_BATCH,
// UNSUPPORTED_FORMAT.
func CheckProduce(b []byte) (Checked, error) {
	h, err := Check(b)
	if err == nil {
		err = checkClient(b, h)
	} else if errors.Is(err, ErrShort) {
		err = corrupt(fmt.Sprintf("the batch is cut short at %d bytes", len(b)))
	}
	if err != nil {
		return Checked{}, err
	}
	return Checked{bytes: b, header: h}, nil
}

// checkClient judges what the checksum cannot.
func checkClient(b []byte, h Header) error {
	switch {
	case len(b) != h.Size():
		return corrupt(fmt.Sprintf("%d bytes follow the first batch; a produce request holds one batch per partition", len(b)-h.Size()))
	case h.Records < 1 || h.LastOffsetDelta != h.Records-1:
		return corrupt(fmt.Sprintf("the batch counts %d records but its last offset delta is %d", h.Records, h.LastOffsetDelta))
	case h.IsControl():
		return corrupt("clients may not send control batches")
	case h.IsTransactional():
		return refusal.New(refusal.UnsupportedFormat, "batch", "transactional batches are not supported",
			"produce without a transactional id; idempotence works")
	case h.Codec() > Zstd:
		return refusal.New(refusal.UnsupportedFormat, "batch", fmt.Sprintf("compression codec %d is unknown", h.Codec()),
			"use none, gzip, snappy, lz4 or zstd")
	case h.Idempotent() && (h.ProducerEpoch < 0 || h.BaseSequence < 0):
		return corrupt(fmt.Sprintf("producer %d sent epoch %d and sequence %d", h.ProducerID, h.ProducerEpoch, h.BaseSequence))
	case h.Compressed():
		if len(b) == HeaderSize {
			return corrupt("the compressed batch is empty")
		}
		return nil
	}
	return checkLayout(b[HeaderSize:], h.Records)
}

// checkLayout walks record lengths and offset deltas without touching keys, values
// or headers.
func checkLayout(b []byte, records int32) error {
	for i := int32(0); i < records; i++ {
		size, n := binary.Varint(b)
		if n <= 0 || size < minRecordBody || size > int64(len(b)-n) {
			return corrupt(fmt.Sprintf("record %d does not fit its batch", i))
		}
		body := b[n : n+int(size)]
		_, m := binary.Varint(body[1:])
		if m <= 0 {
			return corrupt(fmt.Sprintf("record %d has a broken timestamp", i))
		}
		delta, m2 := binary.Varint(body[1+m:])
		if m2 <= 0 || delta != int64(i) {
			return corrupt(fmt.Sprintf("record %d has offset delta %d", i, delta))
		}
		b = b[n+int(size):]
	}
	if len(b) != 0 {
		return corrupt(fmt.Sprintf("%d bytes follow the last record", len(b)))
	}
	return nil
}
