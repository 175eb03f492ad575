package record

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// Codec is the compression of a batch's records.
type Codec int16

// The codecs of format 2.
const (
	None Codec = iota
	Gzip
	Snappy
	LZ4
	Zstd
)

var errTooLarge = errors.New("the unpacked records are larger than allowed")

// xerialMagic opens the framing of the Java snappy library: 16 bytes of header,
// then blocks of a big-endian length and raw snappy.
var xerialMagic = []byte{0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0}

const xerialHeader = 16

// decompress unpacks b, failing once more than maxBytes come out.
func decompress(c Codec, b []byte, maxBytes int) ([]byte, error) {
	switch c {
	case None:
		return b, nil
	case Gzip:
		r, err := gzip.NewReader(bytes.NewReader(b))
		if err != nil {
			return nil, err
		}
		return readBounded(r, maxBytes)
	case Snappy:
		if bytes.HasPrefix(b, xerialMagic) {
			return unsnapXerial(b, maxBytes)
		}
		return unsnap(nil, b, maxBytes)
	case LZ4:
		return readBounded(lz4.NewReader(bytes.NewReader(b)), maxBytes)
	case Zstd:
		r, err := zstd.NewReader(bytes.NewReader(b), zstd.WithDecoderConcurrency(1),
			zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxMemory(uint64(maxBytes)+1<<20))
		if err != nil {
			return nil, err
		}
		defer r.Close()
		return readBounded(r, maxBytes)
	}
	return nil, fmt.Errorf("compression codec %d is unknown", c)
}

func readBounded(r io.Reader, maxBytes int) ([]byte, error) {
	out, err := io.ReadAll(io.LimitReader(r, int64(maxBytes)+1))
	if err != nil {
		return nil, err
	}
	if len(out) > maxBytes {
		return nil, errTooLarge
	}
	return out, nil
}

// unsnap appends one raw snappy block to dst.
func unsnap(dst, b []byte, maxBytes int) ([]byte, error) {
	n, err := snappy.DecodedLen(b)
	if err != nil {
		return nil, err
	}
	if n > maxBytes-len(dst) {
		return nil, errTooLarge
	}
	out, err := snappy.Decode(nil, b)
	if err != nil {
		return nil, err
	}
	return append(dst, out...), nil
}

func unsnapXerial(b []byte, maxBytes int) ([]byte, error) {
	if len(b) < xerialHeader {
		return nil, io.ErrUnexpectedEOF
	}
	var out []byte
	for b = b[xerialHeader:]; len(b) > 0; {
		if len(b) < 4 {
			return nil, io.ErrUnexpectedEOF
		}
		n := binary.BigEndian.Uint32(b)
		if uint64(n) > uint64(len(b)-4) {
			return nil, io.ErrUnexpectedEOF
		}
		var err error
		if out, err = unsnap(out, b[4:4+n], maxBytes); err != nil {
			return nil, err
		}
		b = b[4+n:]
	}
	return out, nil
}

// compress packs b; Build uses it. It fails on an unknown codec only.
func compress(c Codec, b []byte) ([]byte, error) {
	var buf bytes.Buffer
	var w io.WriteCloser
	switch c {
	case None:
		return b, nil
	case Gzip:
		w = gzip.NewWriter(&buf)
	case Snappy:
		return snappy.Encode(nil, b), nil
	case LZ4:
		w = lz4.NewWriter(&buf)
	case Zstd:
		z, err := zstd.NewWriter(&buf, zstd.WithEncoderConcurrency(1))
		if err != nil {
			return nil, err
		}
		w = z
	default:
		return nil, fmt.Errorf("compression codec %d is unknown", c)
	}
	if _, err := w.Write(b); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}
