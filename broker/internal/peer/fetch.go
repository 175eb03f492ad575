package peer

import (
	"context"
	"time"

	"github.com/ister-mq/ister/broker/internal/model"
	"github.com/ister-mq/ister/broker/internal/refusal"
)

// A fetch session is one connection from a follower node to a leader node. The
// leader remembers the follower's position in each partition, so that a request
// names only the partitions that changed and a response only those with news:
// its cost follows the active partitions, not all of them (KIP-227). One request
// is in flight at a time. A broken connection ends the session; the next one
// starts with every partition in Changed.

// Bounds of one session.
const (
	// FetchPartitionsMax bounds the partitions of one request or response.
	FetchPartitionsMax = 1 << 20
	// FetchBytesMax bounds the batches of one response, in bytes. The reader
	// refuses more; the leader must stay below it, one oversized batch included.
	FetchBytesMax = 256 << 20
)

// FetchRequest asks for records. The zero Changed and Removed repeat the
// positions of the request before.
type FetchRequest struct {
	MaxBytes int           // of all batches of the response; one batch may exceed it
	MaxWait  time.Duration // how long the leader may hold the request when there is no news; whole milliseconds
	Changed  []FetchPosition
	Removed  []model.Partition
}

// FetchPosition is where a follower stands in one partition. Offset is durable
// on the follower when the topic syncs before ack.
type FetchPosition struct {
	Partition        model.Partition
	LeaderEpoch      model.LeaderEpoch // the epoch the follower knows (KIP-320)
	LastFetchedEpoch model.LeaderEpoch // of its last batch; NoEpoch when the log is empty
	Offset           model.Offset      // next to fetch
	LogStart         model.Offset
	MaxBytes         int32 // of this partition
}

// FetchResponse has only partitions with batches, a changed high watermark or
// log start, a divergence or a refusal.
type FetchResponse struct {
	Partitions []FetchResult
}

// FetchResult is the news of one partition. Reason "" is success.
type FetchResult struct {
	Partition     model.Partition
	LeaderEpoch   model.LeaderEpoch // of the leader
	HighWatermark model.Offset
	LogStart      model.Offset
	// Diverging: the follower's log is not a prefix of the leader's; it must
	// truncate to the end of DivergingEpoch, at most DivergingEnd (KIP-595).
	Diverging      bool
	DivergingEpoch model.LeaderEpoch
	DivergingEnd   model.Offset
	Reason         refusal.Reason
	Batches        []byte
}

// FetchHandler is the leader's side, which the data plane implements.
type FetchHandler interface {
	// OpenSession begins a session for a follower whose identity was checked.
	// An error refuses it; a *refusal.Refusal reaches the follower as such.
	OpenSession(from Identity) (FetchSession, error)
}

// FetchSession answers the requests of one follower, one at a time, always
// called from one goroutine.
type FetchSession interface {
	// Fetch fills response (given empty, its slice reused) and may block up to
	// request.MaxWait. Context ends when the connection breaks. Batches must stay
	// unchanged until Sent is called, which happens after each Fetch that
	// returned nil, whether or not the write succeeded. The request and its
	// slices are the endpoint's and must not be kept. An error ends the session.
	Fetch(ctx context.Context, request *FetchRequest, response *FetchResponse) error
	Sent(response *FetchResponse)
	Close()
}
