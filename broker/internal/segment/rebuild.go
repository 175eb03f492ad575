package segment

import (
	"fmt"
	"sort"

	"github.com/ister-mq/ister/broker/internal/model"
	"github.com/ister-mq/ister/broker/internal/record"
	"github.com/ister-mq/ister/broker/internal/refusal"
	"github.com/ister-mq/ister/broker/internal/vfs"
)

// loadProducers takes the newest sound snapshot and repeats the batches after it.
func (r *recoverer) loadProducers() error {
	l := r.log
	from, state, err := l.newestSnapshot(r.snapshotsAscending, l.end)
	if err != nil {
		return err
	}
	l.producers = state
	if from >= r.scanned {
		now := l.cfg.Now()
		for _, h := range r.pending {
			if h.BaseOffset >= from {
				l.producers.take(h, now)
			}
		}
		return nil
	}
	return l.replayProducers(from)
}

// newestSnapshot loads the newest sound producer snapshot that is not beyond end:
// the offset that it holds for, and the state. Without one, the state is empty as
// of the log start.
func (l *Log) newestSnapshot(ascending []model.Offset, end model.Offset) (model.Offset, *producers, error) {
	for i := len(ascending) - 1; i >= 0; i-- {
		off := ascending[i]
		if off > end {
			continue
		}
		b, err := vfs.ReadFile(l.cfg.FS, l.path(producersName(off)), maxFrameBytes)
		if err != nil {
			continue
		}
		state, err := decodeProducers(producersName(off), off, b)
		if err == nil {
			if off < l.start {
				// What came between is deleted: sequences may have gone on since.
				state.expireAll()
			}
			return off, state, nil
		}
		if refusal.As(err) != nil {
			return 0, nil, err
		}
	}
	return l.start, newProducers(), nil
}

// replayProducers repeats the batches from an offset on, reading headers only.
func (l *Log) replayProducers(from model.Offset) error {
	now := l.cfg.Now()
	i := sort.Search(len(l.segments), func(i int) bool { return l.segments[i].next > from })
	for ; i < len(l.segments); i++ {
		s := l.segments[i]
		h, err := l.acquire(s)
		if err != nil {
			return err
		}
		err = replaySegment(h.file, floor(s.entries, s.base, from), s.size, from, func(h record.Header) {
			l.producers.take(h, now)
		})
		l.release(h)
		if err != nil {
			return fmt.Errorf("rebuild producer state from %s: %w", segmentName(s.base), err)
		}
	}
	return nil
}

func replaySegment(f vfs.File, at, limit int64, from model.Offset, each func(record.Header)) error {
	for sc := newScanner(f, at, limit); ; {
		h, _, err := sc.next(false)
		if err == errScanEnd {
			return nil
		}
		if err != nil {
			return err
		}
		if h.BaseOffset >= from {
			each(h)
		}
	}
}
