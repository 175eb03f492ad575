package record

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/ister-mq/ister/broker/internal/model"
	"github.com/ister-mq/ister/broker/internal/refusal"
)

// HeaderSize is the size of a batch's header in bytes; the records follow it.
const HeaderSize = 61

// MaxBatchBytes bounds one batch, header included. A larger length field is taken
// for corruption, so that a flipped bit cannot ask for gigabytes.
const MaxBatchBytes = 128 << 20

// Positions of the header's fields.
const (
	atBaseOffset      = 0
	atLength          = 8
	atLeaderEpoch     = 12
	atMagic           = 16
	atCRC             = 17
	atAttributes      = 21 // the CRC covers everything from here on
	atLastOffsetDelta = 23
	atFirstTimestamp  = 27
	atMaxTimestamp    = 35
	atProducerID      = 43
	atProducerEpoch   = 51
	atBaseSequence    = 53
	atRecords         = 57

	lengthPrefix = 12 // base offset and length: what the length field leaves out
)

// Attribute bits.
const (
	attrCodecMask     = 0x07
	attrLogAppendTime = 0x08
	attrTransactional = 0x10
	attrControl       = 0x20
)

// ErrShort reports that the slice ends before the batch does. It is no judgement
// on the bytes that are there.
var ErrShort = errors.New("record: the batch is cut short")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Header is the fixed part of a batch, decoded.
type Header struct {
	BaseOffset      model.Offset
	Length          int32 // bytes after the length field itself
	LeaderEpoch     model.LeaderEpoch
	Magic           int8
	CRC             uint32
	Attributes      int16
	LastOffsetDelta int32
	FirstTimestamp  int64 // milliseconds since the Unix epoch
	MaxTimestamp    int64 // milliseconds since the Unix epoch
	ProducerID      model.ProducerID
	ProducerEpoch   model.ProducerEpoch
	BaseSequence    int32
	Records         int32
}

// Size is the whole batch in bytes, header included.
func (h Header) Size() int { return int(h.Length) + lengthPrefix }

// LastOffset is the offset of the batch's last record.
func (h Header) LastOffset() model.Offset { return h.BaseOffset + model.Offset(h.LastOffsetDelta) }

// NextOffset is the offset that follows the batch.
func (h Header) NextOffset() model.Offset { return h.LastOffset() + 1 }

// Codec is the compression of the records.
func (h Header) Codec() Codec { return Codec(h.Attributes & attrCodecMask) }

// Compressed reports whether the records are compressed.
func (h Header) Compressed() bool { return h.Codec() != None }

// IsControl reports a control batch (transaction markers).
func (h Header) IsControl() bool { return h.Attributes&attrControl != 0 }

// IsTransactional reports a batch that belongs to a transaction.
func (h Header) IsTransactional() bool { return h.Attributes&attrTransactional != 0 }

// LogAppendTime reports that MaxTimestamp was set by a broker.
func (h Header) LogAppendTime() bool { return h.Attributes&attrLogAppendTime != 0 }

// Idempotent reports that the batch carries a producer id and sequence (KIP-98).
func (h Header) Idempotent() bool { return h.ProducerID >= 0 }

// LastSequence is the sequence of the last record; sequences wrap from the largest
// int32 to 0.
func (h Header) LastSequence() int32 { return AddSequence(h.BaseSequence, h.LastOffsetDelta) }

// AddSequence adds n (0 or more) to a producer sequence, wrapping past the largest
// int32 to 0, as clients do.
func AddSequence(sequence, n int32) int32 {
	return int32((int64(sequence) + int64(n)) & 0x7fffffff)
}

func corrupt(message string) error {
	return refusal.New(refusal.CorruptBatch, "batch", message, "send the batch again")
}

// Parse reads the header of the first batch of b and the size of that batch.
// Errors: ErrShort when b ends before the batch; refusals CORRUPT_BATCH (impossible
// length or counts) and UNSUPPORTED_FORMAT (magic other than 2). It checks bounds
// and counts, not the checksum.
func Parse(b []byte) (Header, int, error) {
	if len(b) <= atMagic {
		return Header{}, 0, ErrShort
	}
	if magic := int8(b[atMagic]); magic != 2 {
		return Header{}, 0, refusal.New(refusal.UnsupportedFormat, "batch",
			fmt.Sprintf("the batch has message format %d; only format 2 is supported", magic),
			"use a client that speaks Kafka 0.11 or later")
	}
	length := int32(binary.BigEndian.Uint32(b[atLength:]))
	if length < HeaderSize-lengthPrefix || length > MaxBatchBytes-lengthPrefix {
		return Header{}, 0, corrupt(fmt.Sprintf("the batch's length field is %d bytes", length))
	}
	size := int(length) + lengthPrefix
	if len(b) < HeaderSize {
		return Header{}, 0, ErrShort
	}
	h := decodeHeader(b)
	if h.Records < 0 || h.LastOffsetDelta < 0 || h.BaseOffset < 0 || h.LastOffset() < h.BaseOffset {
		return Header{}, 0, corrupt(fmt.Sprintf("the batch counts %d records, last offset delta %d, base offset %d",
			h.Records, h.LastOffsetDelta, h.BaseOffset))
	}
	if len(b) < size {
		return h, size, ErrShort
	}
	return h, size, nil
}

func decodeHeader(b []byte) Header {
	_ = b[HeaderSize-1]
	return Header{
		BaseOffset:      model.Offset(binary.BigEndian.Uint64(b[atBaseOffset:])),
		Length:          int32(binary.BigEndian.Uint32(b[atLength:])),
		LeaderEpoch:     model.LeaderEpoch(binary.BigEndian.Uint32(b[atLeaderEpoch:])),
		Magic:           int8(b[atMagic]),
		CRC:             binary.BigEndian.Uint32(b[atCRC:]),
		Attributes:      int16(binary.BigEndian.Uint16(b[atAttributes:])),
		LastOffsetDelta: int32(binary.BigEndian.Uint32(b[atLastOffsetDelta:])),
		FirstTimestamp:  int64(binary.BigEndian.Uint64(b[atFirstTimestamp:])),
		MaxTimestamp:    int64(binary.BigEndian.Uint64(b[atMaxTimestamp:])),
		ProducerID:      model.ProducerID(binary.BigEndian.Uint64(b[atProducerID:])),
		ProducerEpoch:   model.ProducerEpoch(binary.BigEndian.Uint16(b[atProducerEpoch:])),
		BaseSequence:    int32(binary.BigEndian.Uint32(b[atBaseSequence:])),
		Records:         int32(binary.BigEndian.Uint32(b[atRecords:])),
	}
}

// Check is Parse and the CRC32C over the first batch of b. The errors are Parse's,
// and CORRUPT_BATCH when the checksum does not match.
func Check(b []byte) (Header, error) {
	h, size, err := Parse(b)
	if err != nil {
		return h, err
	}
	if sum := crc32.Checksum(b[atAttributes:size], castagnoli); sum != h.CRC {
		return h, corrupt(fmt.Sprintf("the batch's CRC32C is %08x, its bytes give %08x", h.CRC, sum))
	}
	return h, nil
}

// Next splits the first batch off b, checking bounds but not the checksum. An empty
// b gives an empty batch and no error, which ends a loop.
func Next(b []byte) (batch, rest []byte, h Header, err error) {
	if len(b) == 0 {
		return nil, nil, Header{}, nil
	}
	h, size, err := Parse(b)
	if err != nil {
		return nil, b, h, err
	}
	return b[:size:size], b[size:], h, nil
}

// Stamp writes base offset and leader epoch into the first batch of b, in place.
// Both lie outside the checksum. b must hold a header.
func Stamp(b []byte, base model.Offset, epoch model.LeaderEpoch) {
	binary.BigEndian.PutUint64(b[atBaseOffset:], uint64(base))
	binary.BigEndian.PutUint32(b[atLeaderEpoch:], uint32(epoch))
}

// CRC32C continues the Castagnoli checksum over b; start with 0.
func CRC32C(sum uint32, b []byte) uint32 { return crc32.Update(sum, castagnoli, b) }
