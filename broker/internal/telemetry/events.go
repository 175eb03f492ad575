package telemetry

import (
	"context"
	"log/slog"
	"time"

	"github.com/ister-mq/ister/broker/internal/model"
)

// Event is something that happened on this node. Describe gives its level, its
// constant message and its keys.
type Event interface {
	Describe() (slog.Level, string, []slog.Attr)
}

// Log writes an event. A nil logger drops it.
func Log(logger *slog.Logger, e Event) {
	if logger == nil {
		return
	}
	level, message, attrs := e.Describe()
	logger.LogAttrs(context.Background(), level, message, attrs...)
}

// BecameLeader: a replica here leads its partition.
type BecameLeader struct {
	Partition model.Partition
	Epoch     model.LeaderEpoch
	LogEnd    model.Offset
}

// Describe implements Event.
func (e BecameLeader) Describe() (slog.Level, string, []slog.Attr) {
	return slog.LevelDebug, "partition leadership taken", []slog.Attr{partition(e.Partition), epoch(e.Epoch), offset(e.LogEnd)}
}

// BecameFollower: a replica here follows Leader (0: nobody leads).
type BecameFollower struct {
	Partition model.Partition
	Epoch     model.LeaderEpoch
	Leader    model.NodeID
}

// Describe implements Event.
func (e BecameFollower) Describe() (slog.Level, string, []slog.Attr) {
	return slog.LevelDebug, "partition followed", []slog.Attr{partition(e.Partition), epoch(e.Epoch), slog.Int("node", int(e.Leader))}
}

// ReplicaOpened: a log was opened and recovered.
type ReplicaOpened struct {
	Partition model.Partition
	LogEnd    model.Offset
	Truncated int64 // bytes cut from the tail
	Took      time.Duration
}

// Describe implements Event.
func (e ReplicaOpened) Describe() (slog.Level, string, []slog.Attr) {
	level := slog.LevelDebug
	if e.Truncated > 0 {
		level = slog.LevelWarn
	}
	return level, "replica opened", []slog.Attr{partition(e.Partition), offset(e.LogEnd), slog.Int64("truncated_bytes", e.Truncated), slog.Duration("took", e.Took)}
}

// ReplicaOffline: a fault took a replica out of service on this node only.
type ReplicaOffline struct {
	Partition model.Partition
	Reason    string
	Err       error
}

// Describe implements Event.
func (e ReplicaOffline) Describe() (slog.Level, string, []slog.Attr) {
	return slog.LevelError, "replica went offline", []slog.Attr{partition(e.Partition), slog.String("reason", e.Reason), slog.Any("error", e.Err)}
}

// ReplicaInconsistent: this copy and its leader's disagree on what is committed;
// nothing was changed.
type ReplicaInconsistent struct {
	Partition model.Partition
	Err       error
}

// Describe implements Event.
func (e ReplicaInconsistent) Describe() (slog.Level, string, []slog.Attr) {
	return slog.LevelError, "replica disagreed with its leader", []slog.Attr{partition(e.Partition), slog.Any("error", e.Err)}
}

// ReplicaQuarantined: a directory was set aside, not deleted.
type ReplicaQuarantined struct {
	Name   string // directory name as found
	To     string // where it is now
	Reason string
}

// Describe implements Event.
func (e ReplicaQuarantined) Describe() (slog.Level, string, []slog.Attr) {
	return slog.LevelWarn, "replica directory quarantined", []slog.Attr{slog.String("name", e.Name), slog.String("to", e.To), slog.String("reason", e.Reason)}
}

// ReplicaLostData: a log ends below what was committed in it. It leads nothing
// until it has been copied anew.
type ReplicaLostData struct {
	Partition             model.Partition
	LogEnd, HighWatermark model.Offset
}

// Describe implements Event.
func (e ReplicaLostData) Describe() (slog.Level, string, []slog.Attr) {
	return slog.LevelError, "replica lost committed records", []slog.Attr{partition(e.Partition), slog.Int64("offset", int64(e.LogEnd)), slog.Int64("high_watermark", int64(e.HighWatermark))}
}

// ReplicaDropped: the metadata said that this node's copy is not needed any
// more; the directory was renamed and will be deleted after the grace period.
type ReplicaDropped struct {
	Partition model.Partition
	Reason    string // retired, or topic deleted
}

// Describe implements Event.
func (e ReplicaDropped) Describe() (slog.Level, string, []slog.Attr) {
	return slog.LevelInfo, "replica given up", []slog.Attr{partition(e.Partition), slog.String("reason", e.Reason)}
}

// ReplicaNotDropped: a copy that is not needed could not be given up yet.
type ReplicaNotDropped struct {
	Partition model.Partition
	Err       error
}

// Describe implements Event.
func (e ReplicaNotDropped) Describe() (slog.Level, string, []slog.Attr) {
	return slog.LevelWarn, "replica could not be given up yet", []slog.Attr{partition(e.Partition), slog.Any("error", e.Err)}
}

// ISRProposalRefused: the controller declined a change of ISR.
type ISRProposalRefused struct {
	Partition model.Partition
	Reason    string
}

// Describe implements Event.
func (e ISRProposalRefused) Describe() (slog.Level, string, []slog.Attr) {
	return slog.LevelDebug, "isr proposal refused", []slog.Attr{partition(e.Partition), slog.String("reason", e.Reason)}
}

// DiskFilled and DiskRecovered bracket the time in which appends are refused.
type DiskFilled struct{ FreeBytes, ReserveBytes int64 }

// Describe implements Event.
func (e DiskFilled) Describe() (slog.Level, string, []slog.Attr) {
	return slog.LevelError, "disk filled up, appends refused", []slog.Attr{slog.Int64("free_bytes", e.FreeBytes), slog.Int64("reserve_bytes", e.ReserveBytes)}
}

// DiskRecovered ends DiskFilled.
type DiskRecovered struct{ FreeBytes int64 }

// Describe implements Event.
func (e DiskRecovered) Describe() (slog.Level, string, []slog.Attr) {
	return slog.LevelInfo, "disk has room again", []slog.Attr{slog.Int64("free_bytes", e.FreeBytes)}
}

// FetchInterrupted: the fetch session with a leader broke and will be opened
// again.
type FetchInterrupted struct {
	Leader model.NodeID
	Err    error
}

// Describe implements Event.
func (e FetchInterrupted) Describe() (slog.Level, string, []slog.Attr) {
	return slog.LevelWarn, "fetch session interrupted", []slog.Attr{slog.Int("node", int(e.Leader)), slog.Any("error", e.Err)}
}

func partition(p model.Partition) slog.Attr { return slog.String("partition", p.String()) }
func epoch(e model.LeaderEpoch) slog.Attr   { return slog.Int("leader_epoch", int(e)) }
func offset(o model.Offset) slog.Attr       { return slog.Int64("offset", int64(o)) }
