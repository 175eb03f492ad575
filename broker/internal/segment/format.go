package segment

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"path"
	"strconv"
	"strings"

	"github.com/ister-mq/ister/broker/internal/model"
	"github.com/ister-mq/ister/broker/internal/record"
	"github.com/ister-mq/ister/broker/internal/refusal"
)

// The formats are described, with diagrams, in docs/formats/segment.md.
const (
	formatVersion = 1

	segmentMagic   = "ISTERSEG"
	indexMagic     = "ISTERIDX"
	producersMagic = "ISTERPRD"
	checkMagic     = "ISTERCHK"

	segmentHeader = 128 // bytes before the first batch
	markSlot0     = 64
	markSize      = 32
	markSlots     = 2

	frameHeader = 20
	// maxFrameBytes bounds what is read of a derived file.
	maxFrameBytes = 256 << 20
)

// File names.
const (
	segmentSuffix   = ".log"
	indexSuffix     = ".index"
	producersSuffix = ".producers"
	temporarySuffix = ".tmp"
	checkpointName  = "checkpoint"
	damagedName     = "damaged" // its text says why the log may not be opened
)

func segmentName(base model.Offset) string { return fmt.Sprintf("%020d%s", int64(base), segmentSuffix) }
func indexName(base model.Offset) string   { return fmt.Sprintf("%020d%s", int64(base), indexSuffix) }
func producersName(off model.Offset) string {
	return fmt.Sprintf("%020d%s", int64(off), producersSuffix)
}
func (l *Log) path(name string) string { return path.Join(l.cfg.Dir, name) }
func isTemporary(name string) bool     { return strings.HasSuffix(name, temporarySuffix) }
func offsetOf(name, suffix string) (model.Offset, bool) {
	digits, ok := strings.CutSuffix(name, suffix)
	if !ok || len(digits) != 20 {
		return 0, false
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n < 0 {
		return 0, false
	}
	return model.Offset(n), true
}

var le = binary.LittleEndian

// damaged is what a derived file gets for bytes that are not what was written. It
// is never fatal: derived files are rebuilt.
type damaged string

func (d damaged) Error() string { return string(d) }

func newerVersion(what string, version uint16) error {
	return refusal.New(refusal.UnsupportedFormat, what,
		fmt.Sprintf("%s has format version %d; this binary reads up to %d", what, version, formatVersion),
		"run the release that wrote it, or a later one")
}

// encodeFrame wraps the payload of a derived file: magic, version, length,
// checksum, in that order.
func encodeFrame(magic string, payload []byte) []byte {
	b := make([]byte, frameHeader, frameHeader+len(payload))
	copy(b, magic)
	le.PutUint16(b[8:], formatVersion)
	le.PutUint32(b[12:], uint32(len(payload)))
	le.PutUint32(b[16:], record.CRC32C(0, payload))
	return append(b, payload...)
}

// decodeFrame returns the payload, a damaged error, or a refusal for a newer
// version.
func decodeFrame(magic, name string, b []byte) ([]byte, error) {
	if len(b) < frameHeader || string(b[:8]) != magic {
		return nil, damaged(name + ": not a file of this kind")
	}
	if v := le.Uint16(b[8:]); v > formatVersion {
		return nil, newerVersion(name, v)
	} else if v != formatVersion {
		return nil, damaged(fmt.Sprintf("%s: format version %d", name, v))
	}
	payload := b[frameHeader:]
	if n := le.Uint32(b[12:]); uint64(n) != uint64(len(payload)) {
		return nil, damaged(fmt.Sprintf("%s: %d bytes where %d were written", name, len(payload), n))
	}
	if record.CRC32C(0, payload) != le.Uint32(b[16:]) {
		return nil, damaged(name + ": the checksum does not match")
	}
	return payload, nil
}

// identity tells one log from another that had the same name before it, or the same
// log before it was reset. The journal's entries carry it.
type identity uint64

func newIdentity() identity {
	for {
		if id := identity(rand.Uint64()); id != 0 {
			return id
		}
	}
}

// encodeHeader makes the first bytes of a segment, with no mark.
func encodeHeader(base model.Offset, id identity) []byte {
	b := make([]byte, segmentHeader)
	copy(b, segmentMagic)
	le.PutUint16(b[8:], formatVersion)
	le.PutUint16(b[10:], segmentHeader)
	le.PutUint64(b[16:], uint64(base))
	le.PutUint64(b[24:], uint64(id))
	le.PutUint32(b[12:], headerSum(b))
	return b
}

// headerSum covers bytes 0..12 and 16..64 of the header: all but itself and the
// marks, which change.
func headerSum(b []byte) uint32 {
	return record.CRC32C(record.CRC32C(0, b[:12]), b[16:markSlot0])
}

// checkHeader judges a segment's header: nil, a damaged error, or a refusal for a
// newer version.
func checkHeader(b []byte, base model.Offset, name string) error {
	if len(b) < segmentHeader {
		return damaged(fmt.Sprintf("%s: the header is cut short at %d bytes", name, len(b)))
	}
	if string(b[:8]) != segmentMagic {
		return damaged(name + ": not a segment file")
	}
	if v := le.Uint16(b[8:]); v > formatVersion {
		return newerVersion(name, v)
	}
	if n := le.Uint16(b[10:]); n != segmentHeader {
		return damaged(fmt.Sprintf("%s: header length %d", name, n))
	}
	if le.Uint32(b[12:]) != headerSum(b) {
		return damaged(name + ": the header's checksum does not match")
	}
	if got := model.Offset(le.Uint64(b[16:])); got != base {
		return damaged(fmt.Sprintf("%s: the header says base offset %d", name, got))
	}
	return nil
}

// mark states that everything in the log before Next, which in this segment means
// the bytes before Position, was durable when the mark was written. Recovery may
// drop what follows a mark, never what precedes one.
type mark struct {
	Position int64
	Next     model.Offset
	Serial   uint64 // the valid slot with the highest serial counts; 0 is no mark
}

func (m mark) encode() []byte {
	b := make([]byte, markSize)
	copy(b, "MARK")
	le.PutUint64(b[8:], uint64(m.Position))
	le.PutUint64(b[16:], uint64(m.Next))
	le.PutUint64(b[24:], m.Serial)
	le.PutUint32(b[4:], record.CRC32C(0, b[8:]))
	return b
}

// slot is where the mark goes: the slots alternate, so that a torn write of one
// leaves the other.
func (m mark) slot() int64 { return markSlot0 + int64(m.Serial%markSlots)*markSize }

// newestMark reads the marks of a segment's header; the zero mark when there is
// none.
func newestMark(header []byte) mark {
	var newest mark
	for i := 0; i < markSlots; i++ {
		if len(header) < markSlot0+(i+1)*markSize {
			break
		}
		b := header[markSlot0+i*markSize:][:markSize]
		if string(b[:4]) != "MARK" || le.Uint32(b[4:]) != record.CRC32C(0, b[8:]) {
			continue
		}
		m := mark{int64(le.Uint64(b[8:])), model.Offset(le.Uint64(b[16:])), le.Uint64(b[24:])}
		if m.Serial > newest.Serial {
			newest = m
		}
	}
	return newest
}

// cursor reads fixed-width fields; running out sticks as short.
type cursor struct {
	b     []byte
	short bool
}

func (c *cursor) take(n int) []byte {
	if c.short || len(c.b) < n {
		c.short = true
		return make([]byte, n)
	}
	out := c.b[:n]
	c.b = c.b[n:]
	return out
}

func (c *cursor) u8() uint8   { return c.take(1)[0] }
func (c *cursor) u16() uint16 { return le.Uint16(c.take(2)) }
func (c *cursor) u32() uint32 { return le.Uint32(c.take(4)) }
func (c *cursor) u64() uint64 { return le.Uint64(c.take(8)) }

// count reads an element count and checks that the rest can hold it.
func (c *cursor) count(elementSize int) int {
	n := int(c.u32())
	if c.short || n < 0 || n > len(c.b)/elementSize {
		c.short = true
		return 0
	}
	return n
}
