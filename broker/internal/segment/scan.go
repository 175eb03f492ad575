package segment

import (
	"errors"
	"fmt"
	"io"

	"github.com/ister-mq/ister/broker/internal/record"
	"github.com/ister-mq/ister/broker/internal/refusal"
)

const scanBytes = 256 << 10

// errScanEnd ends a scan at its limit, on a batch boundary.
var errScanEnd = errors.New("segment: end of scan")

// scanner walks the batches of one file between two positions, in file order.
type scanner struct {
	f     io.ReaderAt
	at    int64 // of the next batch
	limit int64
	buf   []byte
	from  int64 // position of buf[0]
}

func newScanner(f io.ReaderAt, from, limit int64) *scanner {
	return &scanner{f: f, at: from, limit: limit, from: from}
}

// window returns what is buffered from s.at on, at least n bytes of it unless the
// limit is nearer.
func (s *scanner) window(n int64) ([]byte, error) {
	n = min(n, s.limit-s.at)
	if skip := s.at - s.from; skip <= int64(len(s.buf)) && int64(len(s.buf))-skip >= n {
		return s.buf[skip:], nil
	}
	want := min(max(n, scanBytes), s.limit-s.at)
	if int64(cap(s.buf)) < want {
		s.buf = make([]byte, want)
	}
	s.buf, s.from = s.buf[:want], s.at
	got, err := s.f.ReadAt(s.buf, s.at)
	s.buf = s.buf[:got]
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read at byte %d: %w", s.at, err)
	}
	return s.buf, nil
}

// badBatch is what a scan meets where no whole, sound batch stands.
type badBatch struct{ err error }

func (b *badBatch) Error() string {
	if r := refusal.As(b.err); r != nil {
		return r.Message // the advice is for clients
	}
	return b.err.Error()
}
func (b *badBatch) Unwrap() error { return b.err }

// next returns the next batch, its checksum verified when check is set, and moves
// on. The batch is valid until the following call. Errors: errScanEnd, *badBatch,
// or a fault of the disk.
func (s *scanner) next(check bool) (record.Header, []byte, error) {
	if s.at >= s.limit {
		return record.Header{}, nil, errScanEnd
	}
	b, err := s.window(record.HeaderSize)
	if err != nil {
		return record.Header{}, nil, err
	}
	h, size, err := record.Parse(b)
	if errors.Is(err, record.ErrShort) && size > len(b) {
		if check || int64(size) > s.limit-s.at {
			if b, err = s.window(int64(size)); err != nil {
				return record.Header{}, nil, err
			}
			h, size, err = record.Parse(b)
		} else {
			// The header is enough: the records are skipped unread.
			s.at += int64(size)
			return h, b, nil
		}
	}
	if err == nil && check {
		_, err = record.Check(b)
	}
	if err != nil {
		return h, nil, &badBatch{err}
	}
	s.at += int64(size)
	return h, b[:size:size], nil
}
