package kafka

import (
	"context"
	"time"

	"github.com/ister-mq/ister/broker/internal/metadata"
	"github.com/ister-mq/ister/broker/internal/model"
	"github.com/ister-mq/ister/broker/internal/record"
)

// Backend is what the listener serves: one node's view of the cluster, its
// replicas, and the way to the controller. All methods are safe for concurrent
// use. An error is a *refusal.Refusal where the system says no, else a fault,
// which clients see as UNKNOWN_SERVER_ERROR.
type Backend interface {
	// View returns the newest state this node knows. It must be cheap: it is
	// called once for each request.
	View() View

	// Produce appends req's batches in order, fills req.Results, and then calls
	// done exactly once, from any goroutine, possibly before Produce returns.
	//
	// It is called on the connection's reading goroutine, which does not wait for
	// done: it must not wait for disks to sync nor for followers. Requests of one
	// connection come in order, and their appends to one partition must happen in
	// call order; up to Config.RequestsInFlightMax of them are open at a time.
	// req and all it points to belong to the backend until it calls done, and
	// must not be touched afterwards.
	Produce(req *ProduceRequest, done func())

	// Fetch reads below the high watermark. It waits (a long poll) until MinBytes
	// can be returned, MaxWait has passed, a partition has an error or diverges,
	// or ctx ends; it then returns one result per partition, in request order.
	// It runs on its own goroutine, one per connection.
	Fetch(ctx context.Context, req *FetchRequest) FetchResponse

	// ListOffsets answers one result per query, in order.
	ListOffsets(ctx context.Context, queries []OffsetQuery) []OffsetAnswer

	// OffsetForLeaderEpoch answers one result per query, in order (KIP-320).
	OffsetForLeaderEpoch(ctx context.Context, queries []EpochQuery) []EpochAnswer

	// AllocateProducerID returns an id that no producer of this cluster ever had.
	AllocateProducerID(ctx context.Context) (model.ProducerID, error)

	// Propose hands a command to the controller, wherever it is, and returns its
	// result once it is applied on this node.
	Propose(ctx context.Context, cmd metadata.Command) (any, error)
}

// View is the cluster as one node sees it at one moment.
type View struct {
	// Image is never nil; metadata.Empty() before the first revision.
	Image *metadata.Image
	// Self is the node that serves the listener.
	Self model.NodeID
	// Controller is the active controller, model.NoNode when not known.
	Controller model.NodeID
}

// Acks is how many confirmations a producer waits for.
type Acks int16

// The acknowledgement levels. AcksLeader is confirmed when the leader's own
// append is durable as its topic's flush.policy says; AcksAll when the batch is
// below the high watermark, hence on at least min.insync.replicas nodes. Readers
// never see a record above the high watermark, whatever its producer asked for.
const (
	AcksNone   Acks = 0
	AcksLeader Acks = 1
	AcksAll    Acks = -1
)

// ProduceRequest is a produce call on partitions whose topics exist in the view.
type ProduceRequest struct {
	Acks Acks
	// Timeout bounds the wait for AcksAll; 0 means do not wait. When it passes the
	// batch stays in the log and the result is an OUTCOME_UNKNOWN refusal, which
	// clients see as REQUEST_TIMED_OUT.
	Timeout    time.Duration
	Partitions []ProducePartition
	// Results has the length of Partitions; the backend fills it.
	Results []ProduceResult
}

// ProducePartition is one batch for one partition.
type ProducePartition struct {
	ID model.Partition
	// Batch aliases the request buffer. The backend may stamp offset and leader
	// epoch in place.
	Batch record.Checked
}

// ProduceResult is the outcome for one partition.
type ProduceResult struct {
	// Base is the offset of the batch's first record; of the original one when
	// the batch is a duplicate (KIP-98).
	Base     model.Offset
	LogStart model.Offset
	// Err nil is success. With AcksNone it tells only whether the batch was
	// taken.
	Err error
}

// FetchRequest is a consumer's fetch of partitions whose topics exist in the view.
type FetchRequest struct {
	// MaxWait bounds the long poll; 0 answers at once.
	MaxWait time.Duration
	// MinBytes is the total to wait for; 0 answers at once.
	MinBytes int
	// MaxBytes bounds the total of Records. The first non-empty partition is
	// answered with at least one whole batch even if that is larger.
	MaxBytes   int
	Partitions []FetchPartition
}

// FetchPartition is the position of one partition to fetch from.
type FetchPartition struct {
	ID     model.Partition
	Offset model.Offset
	// LeaderEpoch is the epoch the client knows; model.NoEpoch: not checked.
	// Older: FENCED_LEADER_EPOCH; newer: UNKNOWN_LEADER_EPOCH.
	LeaderEpoch model.LeaderEpoch
	// LastFetchedEpoch is the epoch of the last record the client has
	// (KIP-595); model.NoEpoch: no check for divergence.
	LastFetchedEpoch model.LeaderEpoch
	MaxBytes         int
}

// FetchResponse has one result per requested partition, in order.
type FetchResponse struct {
	Partitions []FetchResult
	// Release, when not nil, is called once when the Records are no longer used.
	Release func()
}

// FetchResult is what one partition answered.
type FetchResult struct {
	HighWatermark model.Offset
	LogStart      model.Offset
	// Records are whole batches below the high watermark, the first one holding
	// the requested offset. They stay unchanged until Release.
	Records []byte
	// Diverging, when not nil, says where the client's log leaves this one.
	Diverging *Divergence
	// Err nil is success. HighWatermark and LogStart are used with an
	// OFFSET_OUT_OF_RANGE too.
	Err error
}

// Divergence is the largest epoch not above the client's, and its end offset.
type Divergence struct {
	Epoch model.LeaderEpoch
	End   model.Offset
}

// Special timestamps of an OffsetQuery.
const (
	TimestampLatest   int64 = -1 // the high watermark
	TimestampEarliest int64 = -2 // the log start offset
	TimestampMax      int64 = -3 // the record with the largest timestamp (KIP-734)
)

// OffsetQuery asks for the first offset at or after a time.
type OffsetQuery struct {
	ID model.Partition
	// Timestamp is in milliseconds since 1970, or one of the special values.
	Timestamp   int64
	LeaderEpoch model.LeaderEpoch // as in FetchPartition
}

// OffsetAnswer answers an OffsetQuery. No such record: Offset -1, Timestamp -1.
// For latest and earliest, Timestamp is -1. A leader whose high watermark has not
// reached the start of its own epoch refuses TimestampLatest and a time lookup
// with OFFSET_NOT_AVAILABLE (KIP-207).
type OffsetAnswer struct {
	Offset      model.Offset
	Timestamp   int64
	LeaderEpoch model.LeaderEpoch // epoch of the record; model.NoEpoch: none
	Err         error
}

// EpochQuery asks where a leader epoch ended.
type EpochQuery struct {
	ID           model.Partition
	CurrentEpoch model.LeaderEpoch // what the client knows, as in FetchPartition.LeaderEpoch
	Epoch        model.LeaderEpoch
}

// EpochAnswer is the largest epoch not above the asked one, and the offset after
// its last record; model.NoEpoch and -1 when there is none.
type EpochAnswer struct {
	Epoch model.LeaderEpoch
	End   model.Offset
	Err   error
}
