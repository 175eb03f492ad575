package kafka

import (
	"encoding/binary"
	"net"
)

const (
	// flushBytes is when the writer stops collecting answers.
	flushBytes = 256 << 10
	// inlineRecordBytes is up to where records are copied among the encoded
	// bytes; longer ones are written from where they are.
	inlineRecordBytes = 2 << 10
	// keptOutputBytes bounds what an idle connection keeps of its output buffer.
	keptOutputBytes = 256 << 10
)

// output collects encoded answers for one vectored write. Records are not
// copied: cuts say where they go between the encoded bytes.
type output struct {
	encoded []byte
	cuts    []cut
	outside int // bytes of all cuts
	vector  net.Buffers
}

// cut is a place in encoded where records are to be inserted.
type cut struct {
	at      int
	records []byte
}

func (o *output) empty() bool { return len(o.encoded) == 0 }
func (o *output) size() int   { return len(o.encoded) + o.outside }
func (o *output) full() bool  { return o.size() >= flushBytes }

// insert adds records, aliased unless they are short.
func (o *output) insert(records []byte) {
	if len(records) <= inlineRecordBytes {
		o.encoded = append(o.encoded, records...)
		return
	}
	o.cuts = append(o.cuts, cut{at: len(o.encoded), records: records})
	o.outside += len(records)
}

// add encodes one call's answer: the length, the response header and the body.
// hangup asks for the connection to be closed instead of an answer.
func (o *output) add(k *call) (hangup bool) {
	if k.silent() {
		return k.failed()
	}
	start, outside := len(o.encoded), o.outside
	o.encoded = appendInt32(o.encoded, 0)
	o.encoded = appendInt32(o.encoded, k.header.correlation)
	if k.flexibleHeader {
		o.encoded = append(o.encoded, 0)
	}
	k.encode(o)
	size := len(o.encoded) - start - 4 + o.outside - outside
	binary.BigEndian.PutUint32(o.encoded[start:], uint32(size))
	return false
}

// writeTo writes everything and empties the output.
func (o *output) writeTo(nc net.Conn) error {
	defer o.reset()
	if len(o.cuts) == 0 {
		_, err := nc.Write(o.encoded)
		return err
	}
	from := 0
	vector := o.vector[:0]
	for _, c := range o.cuts {
		if c.at > from {
			vector = append(vector, o.encoded[from:c.at])
		}
		vector = append(vector, c.records)
		from = c.at
	}
	if from < len(o.encoded) {
		vector = append(vector, o.encoded[from:])
	}
	// WriteTo consumes its receiver; the array stays for the next write.
	o.vector = vector
	_, err := o.vector.WriteTo(nc)
	clear(vector)
	o.vector = vector[:0]
	return err
}

func (o *output) reset() {
	if cap(o.encoded) > keptOutputBytes {
		o.encoded = nil
	}
	o.encoded = o.encoded[:0]
	clear(o.cuts)
	o.cuts = o.cuts[:0]
	o.outside = 0
}
