package record

import (
	"encoding/binary"
	"fmt"

	"github.com/ister-mq/ister/broker/internal/model"
)

// minRecordBody is the least a record's body can be: attributes, timestamp delta,
// offset delta, key length, value length and header count, one byte each.
const minRecordBody = 6

// KV is a record header: a key and an opaque value.
type KV struct {
	Key   string
	Value []byte
}

// Rec is one record. A nil Key or Value is Kafka's null.
type Rec struct {
	Offset    model.Offset // absolute; ignored by Build
	Timestamp int64        // milliseconds since the Unix epoch
	Key       []byte
	Value     []byte
	Headers   []KV
}

// Decode checks the first batch of b and returns its records. maxBytes bounds the
// decompressed size. Keys and values alias b, or the decompressed copy. Refusals:
// CORRUPT_BATCH, UNSUPPORTED_FORMAT.
func Decode(b []byte, maxBytes int) ([]Rec, error) {
	h, err := Check(b)
	if err != nil {
		return nil, err
	}
	body := b[HeaderSize:h.Size()]
	if h.Compressed() {
		if body, err = decompress(h.Codec(), body, maxBytes); err != nil {
			return nil, corrupt(fmt.Sprintf("the records do not unpack (codec %d): %v", h.Codec(), err))
		}
	}
	// The count comes from the wire: what the bytes can hold bounds the allocation.
	recs := make([]Rec, 0, min(int(h.Records), len(body)/(minRecordBody+1)+1))
	for i := int32(0); i < h.Records; i++ {
		rec, rest, err := decodeRecord(body, h)
		if err != nil {
			return nil, corrupt(fmt.Sprintf("record %d of %d: %v", i, h.Records, err))
		}
		recs, body = append(recs, rec), rest
	}
	if len(body) != 0 {
		return nil, corrupt(fmt.Sprintf("%d bytes follow the last record", len(body)))
	}
	return recs, nil
}

// reader walks a record body; the first failure sticks.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) varint() int64 {
	v, n := binary.Varint(r.b)
	if n <= 0 {
		r.bad = true
		return 0
	}
	r.b = r.b[n:]
	return v
}

// bytes reads a length and that many bytes; a negative length is null.
func (r *reader) bytes() []byte {
	n := r.varint()
	if r.bad || n < 0 {
		return nil
	}
	if n > int64(len(r.b)) {
		r.bad = true
		return nil
	}
	out := r.b[:n:n]
	r.b = r.b[n:]
	return out
}

func decodeRecord(b []byte, h Header) (Rec, []byte, error) {
	size, n := binary.Varint(b)
	if n <= 0 || size < minRecordBody || size > int64(len(b)-n) {
		return Rec{}, nil, fmt.Errorf("it does not fit its batch")
	}
	r := reader{b: b[n+1 : n+int(size)]} // past the attributes byte, unused in format 2
	rec := Rec{}
	rec.Timestamp = h.FirstTimestamp + r.varint()
	if h.LogAppendTime() {
		rec.Timestamp = h.MaxTimestamp
	}
	rec.Offset = h.BaseOffset + model.Offset(r.varint())
	rec.Key = r.bytes()
	rec.Value = r.bytes()
	for count := r.varint(); count > 0 && !r.bad; count-- {
		rec.Headers = append(rec.Headers, KV{Key: string(r.bytes()), Value: r.bytes()})
	}
	if r.bad || len(r.b) != 0 {
		return Rec{}, nil, fmt.Errorf("its fields do not add up to its length of %d", size)
	}
	return rec, b[n+int(size):], nil
}
