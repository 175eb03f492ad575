// Package segment is the partition log. This file holds the interface while the
// engine is being written.
package segment

import (
	"errors"
	"time"

	"github.com/ister-mq/ister/broker/internal/model"
	"github.com/ister-mq/ister/broker/internal/record"
	"github.com/ister-mq/ister/broker/internal/vfs"
)

var errWIP = errors.New("segment: being written")

type Config struct {
	FS                 vfs.FS
	Dir                string // of this log: <data>/<partition>
	SegmentBytes       int64  // default 128 MiB
	IndexIntervalBytes int    // default 16 KiB
	ProducerExpiry     time.Duration
	Now                func() time.Time // required: local time of appends, for producer expiry
}

type Recovery struct {
	LogStart, LogEnd model.Offset
	TruncatedBytes   int64
	TruncatedBatches int
	RemovedSegments  int
	ScannedBytes     int64
	Quarantined      bool // Open also returns a REPLICA_QUARANTINED refusal and no log
	Segment          string
	Position         int64
	Offset           model.Offset
	Reason           string
}

type Log struct{}

func Open(cfg Config) (*Log, Recovery, error) { return nil, Recovery{}, errWIP }

func (l *Log) AppendLeader(batches []byte, epoch model.LeaderEpoch) (first, last model.Offset, err error) {
	return 0, 0, errWIP
}
func (l *Log) AppendFollower(batches []byte) (last model.Offset, err error) { return 0, errWIP }
func (l *Log) Read(from model.Offset, maxBytes int, upTo model.Offset, atLeastOne bool) ([]byte, error) {
	return nil, errWIP
}

// ReadInto is Read into buf (grown when too small); the result aliases the returned buffer.
func (l *Log) ReadInto(buf []byte, from model.Offset, maxBytes int, upTo model.Offset, atLeastOne bool) ([]byte, error) {
	return nil, errWIP
}
func (l *Log) LogStart() model.Offset                                        { return 0 }
func (l *Log) LogEnd() model.Offset                                          { return 0 }
func (l *Log) Durable() model.Offset                                         { return 0 }
func (l *Log) Sync() error                                                   { return errWIP }
func (l *Log) TruncateTo(off model.Offset) error                             { return errWIP }
func (l *Log) ResetTo(off model.Offset) error                                { return errWIP }
func (l *Log) DeleteTo(off model.Offset) error                               { return errWIP }
func (l *Log) AssignEpoch(epoch model.LeaderEpoch, start model.Offset) error { return errWIP }
func (l *Log) LastEpoch() model.LeaderEpoch                                  { return model.NoEpoch }
func (l *Log) EpochAt(off model.Offset) model.LeaderEpoch                    { return model.NoEpoch }
func (l *Log) EndOffsetFor(e model.LeaderEpoch) (model.LeaderEpoch, model.Offset) {
	return model.NoEpoch, -1
}
func (l *Log) OffsetForTime(ms int64) (off model.Offset, ts int64, epoch model.LeaderEpoch, ok bool, err error) {
	return 0, 0, 0, false, errWIP
}
func (l *Log) CheckSequence(h record.Header) (dup bool, firstOffset model.Offset, err error) {
	return false, 0, errWIP
}
func (l *Log) Bytes() int64                              { return 0 }
func (l *Log) Dir() string                               { return "" }
func (l *Log) CRC(from, to model.Offset) (uint32, error) { return 0, errWIP }

// Segments describes the files, oldest first, for retention: a segment may go
// (DeleteTo(its Next)) when it is not the last.
func (l *Log) Segments() []SegmentInfo { return nil }

type SegmentInfo struct {
	Base, Next   model.Offset
	Bytes        int64
	MaxTimestamp int64
}

// Failed returns the fault that poisoned the log, or nil.
func (l *Log) Failed() error          { return nil }
func (l *Log) Close(clean bool) error { return errWIP }

// MarkDeleted renames a log's directory to <dir>.deleted-<n>; Purge removes such directories later.
func MarkDeleted(fsys vfs.FS, dir string) (renamed string, err error) { return "", errWIP }

// Quarantine renames a log's directory to <dir>.quarantined-<n>, keeping every byte.
func Quarantine(fsys vfs.FS, dir string) (renamed string, err error) { return "", errWIP }

// Purge removes the directories below parent that MarkDeleted renamed.
func Purge(fsys vfs.FS, parent string) (removed []string, err error) { return nil, errWIP }

type FlusherConfig struct {
	FS       vfs.FS
	Dir      string // holds the journal files
	LogsDir  string // parent of the logs' directories
	Parallel int    // concurrent fdatasync calls; default 16
}

// NewFlusher replays what a journal holds into the logs below LogsDir, so it must
// be called before any of them is opened.
func NewFlusher(cfg FlusherConfig) (*Flusher, error) { return nil, errWIP }

type Flusher struct{}

func (f *Flusher) Attach(l *Log)                                                                {}
func (f *Flusher) Detach(l *Log)                                                                {}
func (f *Flusher) Request(l *Log, end model.Offset, done func(durable model.Offset, err error)) {}
func (f *Flusher) Close() error                                                                 { return nil }
