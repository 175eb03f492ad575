package peer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/ister-mq/ister/broker/internal/model"
	"github.com/ister-mq/ister/broker/internal/refusal"
)

// The bytes of a fetch session, all big endian. Each message is
//
//	head: length of meta u32 · length of body u32 · sequence u32 · status u8
//	meta: the entries below          body: the batches, in the order of meta
//
//	request meta:  max bytes u32 · max wait ms u32 · changed u32 · removed u32
//	               changed × (topic 16 · index u32 · leader epoch u32 ·
//	                          last fetched epoch u32 · offset u64 · log start u64 ·
//	                          max bytes u32)
//	               removed × (topic 16 · index u32)
//	response meta: partitions u32
//	               × (topic 16 · index u32 · leader epoch u32 · high watermark u64 ·
//	                  log start u64 · diverging epoch u32 · diverging end u64 ·
//	                  flags u8 · reason length u8 · batches length u32 · reason)
//	               status 1: the meta is a refusal in JSON, and the session ends
//
// The batches carry their own checksums.
const (
	fetchHeadSize     = 13
	fetchMetaMax      = 64 << 20
	positionSize      = 20 + 4 + 4 + 8 + 8 + 4
	removedSize       = 20
	resultSize        = 20 + 4 + 8 + 8 + 4 + 8 + 1 + 1 + 4
	fetchStatusOK     = 0
	fetchStatusEnd    = 1
	flagDiverging     = 1
	fetchWaitMax      = 5 * time.Minute
	fetchReadGrace    = 10 * time.Second // on top of MaxWait, for the answer to arrive
	fetchWriteTimeout = 30 * time.Second
)

var errFetchFrame = errors.New("fetch message is malformed")

type fetchHead struct {
	meta, body uint32
	sequence   uint32
	status     byte
}

func (h fetchHead) append(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, h.meta)
	b = binary.BigEndian.AppendUint32(b, h.body)
	b = binary.BigEndian.AppendUint32(b, h.sequence)
	return append(b, h.status)
}

func parseFetchHead(b []byte) (fetchHead, error) {
	h := fetchHead{
		meta:     binary.BigEndian.Uint32(b),
		body:     binary.BigEndian.Uint32(b[4:]),
		sequence: binary.BigEndian.Uint32(b[8:]),
		status:   b[12],
	}
	if h.meta > fetchMetaMax {
		return h, fmt.Errorf("%w: %d bytes of entries, at most %d", errFetchFrame, h.meta, fetchMetaMax)
	}
	if h.body > FetchBytesMax {
		return h, fmt.Errorf("%w: %d bytes of batches, at most %d", errFetchFrame, h.body, FetchBytesMax)
	}
	return h, nil
}

// appendRequest appends head and meta of a request.
func appendRequest(b []byte, sequence uint32, r *FetchRequest) ([]byte, error) {
	if len(r.Changed)+len(r.Removed) > FetchPartitionsMax {
		return nil, fmt.Errorf("fetch of %d partitions, at most %d", len(r.Changed)+len(r.Removed), FetchPartitionsMax)
	}
	if r.MaxBytes < 0 || r.MaxBytes > FetchBytesMax || r.MaxWait < 0 || r.MaxWait > fetchWaitMax {
		return nil, fmt.Errorf("fetch with max bytes %d and max wait %v is out of bounds", r.MaxBytes, r.MaxWait)
	}
	meta := 16 + len(r.Changed)*positionSize + len(r.Removed)*removedSize
	b = fetchHead{meta: uint32(meta), sequence: sequence}.append(b)
	b = binary.BigEndian.AppendUint32(b, uint32(r.MaxBytes))
	b = binary.BigEndian.AppendUint32(b, uint32(r.MaxWait.Milliseconds()))
	b = binary.BigEndian.AppendUint32(b, uint32(len(r.Changed)))
	b = binary.BigEndian.AppendUint32(b, uint32(len(r.Removed)))
	for i := range r.Changed {
		p := &r.Changed[i]
		b = appendPartition(b, p.Partition)
		b = binary.BigEndian.AppendUint32(b, uint32(p.LeaderEpoch))
		b = binary.BigEndian.AppendUint32(b, uint32(p.LastFetchedEpoch))
		b = binary.BigEndian.AppendUint64(b, uint64(p.Offset))
		b = binary.BigEndian.AppendUint64(b, uint64(p.LogStart))
		b = binary.BigEndian.AppendUint32(b, uint32(p.MaxBytes))
	}
	for _, p := range r.Removed {
		b = appendPartition(b, p)
	}
	return b, nil
}

// parseRequest reads the meta of a request into r, reusing its slices.
func parseRequest(b []byte, r *FetchRequest) error {
	if len(b) < 16 {
		return fmt.Errorf("%w: request of %d bytes", errFetchFrame, len(b))
	}
	r.MaxBytes = int(min(binary.BigEndian.Uint32(b), FetchBytesMax))
	r.MaxWait = min(time.Duration(binary.BigEndian.Uint32(b[4:]))*time.Millisecond, fetchWaitMax)
	changed, removed := uint64(binary.BigEndian.Uint32(b[8:])), uint64(binary.BigEndian.Uint32(b[12:]))
	b = b[16:]
	if changed+removed > FetchPartitionsMax || uint64(len(b)) != changed*positionSize+removed*removedSize {
		return fmt.Errorf("%w: %d changed and %d removed partitions in %d bytes", errFetchFrame, changed, removed, len(b))
	}
	r.Changed, r.Removed = r.Changed[:0], r.Removed[:0]
	for ; changed > 0; changed-- {
		r.Changed = append(r.Changed, FetchPosition{
			Partition:        partitionAt(b),
			LeaderEpoch:      model.LeaderEpoch(binary.BigEndian.Uint32(b[20:])),
			LastFetchedEpoch: model.LeaderEpoch(binary.BigEndian.Uint32(b[24:])),
			Offset:           model.Offset(binary.BigEndian.Uint64(b[28:])),
			LogStart:         model.Offset(binary.BigEndian.Uint64(b[36:])),
			MaxBytes:         int32(binary.BigEndian.Uint32(b[44:])),
		})
		b = b[positionSize:]
	}
	for ; removed > 0; removed-- {
		r.Removed = append(r.Removed, partitionAt(b))
		b = b[removedSize:]
	}
	return nil
}

// appendResponse appends head and meta of a response; the batches follow it on
// the connection, unframed.
func appendResponse(b []byte, sequence uint32, r *FetchResponse) ([]byte, error) {
	if len(r.Partitions) > FetchPartitionsMax {
		return nil, fmt.Errorf("fetch response of %d partitions, at most %d", len(r.Partitions), FetchPartitionsMax)
	}
	meta, body := 4, 0
	for i := range r.Partitions {
		p := &r.Partitions[i]
		if len(p.Reason) > 255 {
			return nil, fmt.Errorf("fetch response: reason of %d bytes", len(p.Reason))
		}
		meta += resultSize + len(p.Reason)
		body += len(p.Batches)
	}
	if body > FetchBytesMax || meta > fetchMetaMax {
		return nil, fmt.Errorf("fetch response of %d bytes, at most %d", body, FetchBytesMax)
	}
	b = fetchHead{meta: uint32(meta), body: uint32(body), sequence: sequence}.append(b)
	b = binary.BigEndian.AppendUint32(b, uint32(len(r.Partitions)))
	for i := range r.Partitions {
		p := &r.Partitions[i]
		var flags byte
		if p.Diverging {
			flags |= flagDiverging
		}
		b = appendPartition(b, p.Partition)
		b = binary.BigEndian.AppendUint32(b, uint32(p.LeaderEpoch))
		b = binary.BigEndian.AppendUint64(b, uint64(p.HighWatermark))
		b = binary.BigEndian.AppendUint64(b, uint64(p.LogStart))
		b = binary.BigEndian.AppendUint32(b, uint32(p.DivergingEpoch))
		b = binary.BigEndian.AppendUint64(b, uint64(p.DivergingEnd))
		b = append(b, flags, byte(len(p.Reason)))
		b = binary.BigEndian.AppendUint32(b, uint32(len(p.Batches)))
		b = append(b, p.Reason...)
	}
	return b, nil
}

// parseResponse reads meta into r, reusing its slice; batches are cut from body.
func parseResponse(meta, body []byte, r *FetchResponse) error {
	if len(meta) < 4 {
		return fmt.Errorf("%w: response of %d bytes", errFetchFrame, len(meta))
	}
	n := binary.BigEndian.Uint32(meta)
	b := meta[4:]
	if n > FetchPartitionsMax || uint64(len(b)) < uint64(n)*resultSize {
		return fmt.Errorf("%w: %d partitions in %d bytes", errFetchFrame, n, len(b))
	}
	r.Partitions = r.Partitions[:0]
	for ; n > 0; n-- {
		if len(b) < resultSize {
			return fmt.Errorf("%w: response ends inside an entry", errFetchFrame)
		}
		reason, batches := int(b[53]), int(binary.BigEndian.Uint32(b[54:]))
		if len(b) < resultSize+reason || len(body) < batches {
			return fmt.Errorf("%w: response ends inside an entry", errFetchFrame)
		}
		r.Partitions = append(r.Partitions, FetchResult{
			Partition:      partitionAt(b),
			LeaderEpoch:    model.LeaderEpoch(binary.BigEndian.Uint32(b[20:])),
			HighWatermark:  model.Offset(binary.BigEndian.Uint64(b[24:])),
			LogStart:       model.Offset(binary.BigEndian.Uint64(b[32:])),
			DivergingEpoch: model.LeaderEpoch(binary.BigEndian.Uint32(b[40:])),
			DivergingEnd:   model.Offset(binary.BigEndian.Uint64(b[44:])),
			Diverging:      b[52]&flagDiverging != 0,
			Reason:         refusal.Reason(b[resultSize : resultSize+reason]),
			Batches:        body[:batches:batches],
		})
		b, body = b[resultSize+reason:], body[batches:]
	}
	if len(b) != 0 || len(body) != 0 {
		return fmt.Errorf("%w: %d and %d bytes left over", errFetchFrame, len(b), len(body))
	}
	return nil
}

func appendPartition(b []byte, p model.Partition) []byte {
	b = append(b, p.Topic[:]...)
	return binary.BigEndian.AppendUint32(b, uint32(p.Index))
}

func partitionAt(b []byte) model.Partition {
	return model.Partition{Topic: model.TopicID(b[:16]), Index: int32(binary.BigEndian.Uint32(b[16:]))}
}
