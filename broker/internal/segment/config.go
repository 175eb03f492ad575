package segment

import (
	"fmt"
	"time"

	"github.com/ister-mq/ister/broker/internal/model"
	"github.com/ister-mq/ister/broker/internal/vfs"
)

// Bounds and defaults of Config.
const (
	defaultSegmentBytes       = 128 << 20
	minSegmentBytes           = 1 << 10
	maxSegmentBytes           = 2 << 30 // index positions are 32 bits wide
	defaultIndexIntervalBytes = 16 << 10
	defaultProducerExpiry     = 7 * 24 * time.Hour
)

// Config describes one log.
type Config struct {
	// FS is the file system. Required.
	FS vfs.FS
	// Dir is the log's own directory; it is made when missing. Required.
	Dir string
	// SegmentBytes is the size at which a new segment file is begun. An append is
	// never split, so a file may exceed it by one append. Default 128 MiB, at
	// least 1 KiB, at most 2 GiB.
	SegmentBytes int64
	// IndexIntervalBytes is the distance between index entries. Default 16 KiB.
	IndexIntervalBytes int
	// ProducerExpiry is how long an idle idempotent producer is remembered, in
	// local time of its last append. Default 7 days.
	ProducerExpiry time.Duration
	// Now is the local clock, used for producer expiry alone. Default time.Now.
	Now func() time.Time
}

func (c *Config) complete() error {
	if c.FS == nil || c.Dir == "" {
		return fmt.Errorf("segment: config needs FS and Dir")
	}
	if c.SegmentBytes == 0 {
		c.SegmentBytes = defaultSegmentBytes
	}
	c.SegmentBytes = min(max(c.SegmentBytes, minSegmentBytes), maxSegmentBytes)
	if c.IndexIntervalBytes <= 0 {
		c.IndexIntervalBytes = defaultIndexIntervalBytes
	}
	if c.ProducerExpiry <= 0 {
		c.ProducerExpiry = defaultProducerExpiry
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return nil
}

// Recovery says what Open found and did.
type Recovery struct {
	LogStart model.Offset
	LogEnd   model.Offset

	// Clean: the log was closed cleanly, so nothing had to be scanned.
	Clean bool
	// ScannedBytes were read and checked.
	ScannedBytes int64
	// TruncatedBytes and TruncatedBatches were dropped from the tail; none of it
	// had been reported durable. Batches counts those that were whole.
	TruncatedBytes   int64
	TruncatedBatches int
	// RemovedSegments are files of the tail that followed the first bad batch.
	RemovedSegments int
	// RepairedHeaders counts segment headers that had to be written again.
	RepairedHeaders int

	// Quarantined: durable data is damaged or missing. Open then also returns a
	// REPLICA_QUARANTINED refusal and no log, and has changed nothing.
	Quarantined bool
	// Segment (file name), Position (bytes), Offset and Reason say where and what,
	// for a truncation or a quarantine.
	Segment  string
	Position int64
	Offset   model.Offset
	Reason   string
}

// SegmentInfo describes one segment file.
type SegmentInfo struct {
	Base         model.Offset
	Next         model.Offset // offset that follows the segment's last record
	Bytes        int64        // of batches, without the file header
	MaxTimestamp int64        // milliseconds since the Unix epoch; the smallest int64 when empty
}

// CorruptError reports that bytes that were read back do not form the batch that
// was written there. The replica must be quarantined.
type CorruptError struct {
	Segment  string
	Position int64
	Offset   model.Offset
	Err      error
}

// Error implements error.
func (e *CorruptError) Error() string {
	return fmt.Sprintf("read segment %s at byte %d (offset %d): %v", e.Segment, e.Position, e.Offset, e.Err)
}

// Unwrap returns what was wrong with the batch.
func (e *CorruptError) Unwrap() error { return e.Err }
