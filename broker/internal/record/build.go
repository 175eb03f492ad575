package record

import (
	"encoding/binary"

	"github.com/ister-mq/ister/broker/internal/model"
)

// Producer is the idempotent producer's part of a batch (KIP-98).
type Producer struct {
	ID       model.ProducerID
	Epoch    model.ProducerEpoch
	Sequence int32 // of the first record
}

// BuildOptions says what Build puts into the header; the zero value is a plain
// uncompressed batch at offset 0 of leader epoch 0.
type BuildOptions struct {
	BaseOffset    model.Offset
	LeaderEpoch   model.LeaderEpoch
	Codec         Codec
	Producer      *Producer // nil: not idempotent
	Control       bool
	Transactional bool
}

// Build makes one batch of the records, for tests, the simulator and tools. The
// first record's timestamp is the batch's first. It panics when the codec is
// unknown or there is no record, since those are the caller's bugs.
func Build(opts BuildOptions, records ...Rec) []byte {
	if len(records) == 0 {
		panic("record: Build without a record")
	}
	var body []byte
	first, last := records[0].Timestamp, records[0].Timestamp
	for i, rec := range records {
		body = appendRecord(body, rec, rec.Timestamp-first, int64(i))
		last = max(last, rec.Timestamp)
	}
	body, err := compress(opts.Codec, body)
	if err != nil {
		panic("record: " + err.Error())
	}
	b := make([]byte, HeaderSize, HeaderSize+len(body))
	b = append(b, body...)
	attributes := int16(opts.Codec)
	if opts.Control {
		attributes |= attrControl
	}
	if opts.Transactional {
		attributes |= attrTransactional
	}
	producer := Producer{ID: model.NoProducer, Epoch: -1, Sequence: -1}
	if opts.Producer != nil {
		producer = *opts.Producer
	}
	binary.BigEndian.PutUint32(b[atLength:], uint32(len(b)-lengthPrefix))
	b[atMagic] = 2
	binary.BigEndian.PutUint16(b[atAttributes:], uint16(attributes))
	binary.BigEndian.PutUint32(b[atLastOffsetDelta:], uint32(len(records)-1))
	binary.BigEndian.PutUint64(b[atFirstTimestamp:], uint64(first))
	binary.BigEndian.PutUint64(b[atMaxTimestamp:], uint64(last))
	binary.BigEndian.PutUint64(b[atProducerID:], uint64(producer.ID))
	binary.BigEndian.PutUint16(b[atProducerEpoch:], uint16(producer.Epoch))
	binary.BigEndian.PutUint32(b[atBaseSequence:], uint32(producer.Sequence))
	binary.BigEndian.PutUint32(b[atRecords:], uint32(len(records)))
	Seal(b)
	Stamp(b, opts.BaseOffset, opts.LeaderEpoch)
	return b
}

// Seal computes the checksum of the one whole batch in b and writes it. Only Build
// and tests that tamper with a header need it.
func Seal(b []byte) {
	binary.BigEndian.PutUint32(b[atCRC:], CRC32C(0, b[atAttributes:]))
}

func appendRecord(b []byte, rec Rec, timestampDelta, offsetDelta int64) []byte {
	body := []byte{0} // attributes
	body = binary.AppendVarint(body, timestampDelta)
	body = binary.AppendVarint(body, offsetDelta)
	body = appendBytes(body, rec.Key)
	body = appendBytes(body, rec.Value)
	body = binary.AppendVarint(body, int64(len(rec.Headers)))
	for _, h := range rec.Headers {
		body = appendBytes(body, append([]byte{}, h.Key...))
		body = appendBytes(body, h.Value)
	}
	b = binary.AppendVarint(b, int64(len(body)))
	return append(b, body...)
}

// appendBytes writes a length and the bytes; nil is Kafka's null.
func appendBytes(b, v []byte) []byte {
	if v == nil {
		return binary.AppendVarint(b, -1)
	}
	b = binary.AppendVarint(b, int64(len(v)))
	return append(b, v...)
}
