package kafka

import (
	"encoding/binary"
	"errors"
	"unsafe"
)

var errMalformed = errors.New("malformed request")

// cursor reads Kafka's primitive types. The first short or impossible read makes
// it bad, and every later read returns zero: callers check once, at the end.
// What it returns aliases the input.
type cursor struct {
	b   []byte
	bad bool
}

func (c *cursor) take(n int) []byte {
	if c.bad || n < 0 || n > len(c.b) {
		c.bad = true
		return nil
	}
	out := c.b[:n:n]
	c.b = c.b[n:]
	return out
}

func (c *cursor) int16() int16 {
	if b := c.take(2); b != nil {
		return int16(binary.BigEndian.Uint16(b))
	}
	return 0
}

func (c *cursor) int32() int32 {
	if b := c.take(4); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

// uvarint reads an unsigned varint of at most 32 bits.
func (c *cursor) uvarint() int {
	v, n := binary.Uvarint(c.b)
	if c.bad || n <= 0 || n > binary.MaxVarintLen32 || v > 1<<31-1 {
		c.bad = true
		return 0
	}
	c.b = c.b[n:]
	return int(v)
}

// bytesLength reads the length of a compact (flexible) or classic field; -1 is null.
func (c *cursor) bytesLength(flexible bool) int {
	if flexible {
		return c.uvarint() - 1
	}
	return int(c.int32())
}

// arrayLength reads an array's length and rejects one that the rest of the input
// cannot hold at elementMin bytes an element. Null counts as 0.
func (c *cursor) arrayLength(flexible bool, elementMin int) int {
	n := c.bytesLength(flexible)
	if n > len(c.b)/elementMin {
		c.bad = true
	}
	if c.bad || n < 0 {
		return 0
	}
	return n
}

// optionalString reports false for null. The string aliases the input.
func (c *cursor) optionalString(flexible bool) (string, bool) {
	n := 0
	if flexible {
		n = c.uvarint() - 1
	} else {
		n = int(c.int16())
	}
	if c.bad || n < 0 {
		return "", false
	}
	return aliasString(c.take(n)), true
}

// string refuses null. The string aliases the input.
func (c *cursor) string(flexible bool) string {
	s, ok := c.optionalString(flexible)
	c.bad = c.bad || !ok
	return s
}

// nullableBytes returns nil for null; it aliases the input.
func (c *cursor) nullableBytes(flexible bool) []byte {
	n := c.bytesLength(flexible)
	if c.bad || n < 0 {
		return nil
	}
	return c.take(n)
}

// tags skips a tag section.
func (c *cursor) tags(flexible bool) {
	if !flexible {
		return
	}
	for n := c.uvarint(); n > 0 && !c.bad; n-- {
		c.uvarint()
		c.take(c.uvarint())
	}
}

// aliasString views b as a string, which holds only while b does not change.
func aliasString(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// header is what precedes every request body.
type header struct {
	key, version int16
	correlation  int32
}

// headerMin is the part of the header that no version changes.
const headerMin = 8

// parseHeaderStart reads the fixed part. It needs headerMin bytes.
func parseHeaderStart(b []byte) header {
	return header{
		key:         int16(binary.BigEndian.Uint16(b)),
		version:     int16(binary.BigEndian.Uint16(b[2:])),
		correlation: int32(binary.BigEndian.Uint32(b[4:])),
	}
}

// skipHeaderRest passes over the client id and, in a flexible version, the tags.
// It returns the body.
func skipHeaderRest(b []byte, flexible bool) ([]byte, error) {
	c := cursor{b: b}
	c.optionalString(false)
	c.tags(flexible)
	if c.bad {
		return nil, errMalformed
	}
	return c.b, nil
}

func appendInt16(b []byte, v int16) []byte { return binary.BigEndian.AppendUint16(b, uint16(v)) }
func appendInt32(b []byte, v int32) []byte { return binary.BigEndian.AppendUint32(b, uint32(v)) }
func appendInt64(b []byte, v int64) []byte { return binary.BigEndian.AppendUint64(b, uint64(v)) }

func appendUvarint(b []byte, v int) []byte { return binary.AppendUvarint(b, uint64(v)) }

// appendLength writes the length of an array or of bytes; -1 is null.
func appendLength(b []byte, n int, flexible bool) []byte {
	if flexible {
		return appendUvarint(b, n+1)
	}
	return appendInt32(b, int32(n))
}

func appendString(b []byte, s string, flexible bool) []byte {
	if flexible {
		return append(appendUvarint(b, len(s)+1), s...)
	}
	return append(appendInt16(b, int16(len(s))), s...)
}

// appendNullableString writes "" as null.
func appendNullableString(b []byte, s string, flexible bool) []byte {
	if s != "" {
		return appendString(b, s, flexible)
	}
	if flexible {
		return append(b, 0)
	}
	return appendInt16(b, -1)
}

// appendNoTags ends a structure of a flexible version.
func appendNoTags(b []byte, flexible bool) []byte {
	if flexible {
		return append(b, 0)
	}
	return b
}
