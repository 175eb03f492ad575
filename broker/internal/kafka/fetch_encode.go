package kafka

import (
	"github.com/twmb/franz-go/pkg/kerr"
)

// Versions of Fetch that change the answer.
const (
	fetchLogStart      = 5
	fetchSessions      = 7
	fetchReadReplica   = 11
	fetchFlexible      = 12 // also diverging epoch and current leader
	fetchTopicIDs      = 13
	fetchNodeEndpoints = 16
)

// encode writes the answer's body by hand, so that records go to the connection
// from where they are. A test compares it with kmsg's encoding in each version.
func (f *fetchCall) encode(o *output, version int16, backend Backend) {
	flexible := version >= fetchFlexible
	hints := hints{backend: backend}
	o.encoded = appendInt32(o.encoded, 0) // throttle
	if version >= fetchSessions {
		o.encoded = appendInt16(o.encoded, f.code)
		o.encoded = appendInt32(o.encoded, 0) // session id
	}
	o.encoded = appendLength(o.encoded, len(f.wire.Topics), flexible)
	parts := f.parts
	for i := range f.wire.Topics {
		t := &f.wire.Topics[i]
		if version >= fetchTopicIDs {
			o.encoded = append(o.encoded, t.TopicID[:]...)
		} else {
			o.encoded = appendString(o.encoded, t.Topic, flexible)
		}
		o.encoded = appendLength(o.encoded, len(t.Partitions), flexible)
		for j := range t.Partitions {
			f.encodePartition(o, version, t.Partitions[j].Partition, parts[j], &hints)
		}
		parts = parts[len(t.Partitions):]
		o.encoded = appendNoTags(o.encoded, flexible)
	}
	if flexible {
		if version < fetchNodeEndpoints {
			hints.nodes = nil
		}
		o.encoded = hints.appendNodes(o.encoded)
	}
}

// encodePartition writes one partition's part of the answer. Records are never
// null, since librdkafka takes null for a broken answer.
func (f *fetchCall) encodePartition(o *output, version int16, index int32, part fetchPart, hints *hints) {
	r := FetchResult{HighWatermark: -1, LogStart: -1}
	code := part.code
	var hint *leaderHint
	if part.slot >= 0 {
		r = f.resp.Partitions[part.slot]
		code = dataCodeOf(r.Err)
		if isStaleLeader(code) {
			hint = hints.add(f.req.Partitions[part.slot].ID)
		}
		if code != 0 {
			r.Records = nil
			if code != kerr.OffsetOutOfRange.Code {
				r.HighWatermark, r.LogStart = -1, -1
			}
		}
	}
	flexible := version >= fetchFlexible
	b := appendInt32(o.encoded, index)
	b = appendInt16(b, code)
	b = appendInt64(b, int64(r.HighWatermark))
	b = appendInt64(b, int64(r.HighWatermark)) // last stable offset: no transactions
	if version >= fetchLogStart {
		b = appendInt64(b, int64(r.LogStart))
	}
	b = appendLength(b, -1, flexible) // no aborted transactions
	if version >= fetchReadReplica {
		b = appendInt32(b, -1) // no preferred read replica
	}
	o.encoded = appendLength(b, len(r.Records), flexible)
	o.insert(r.Records)
	if flexible {
		o.encoded = appendPartitionTags(o.encoded, r.Diverging, hint)
	}
}

// isStaleLeader reports an error that a leader hint helps with (KIP-951).
func isStaleLeader(code int16) bool {
	return code == kerr.NotLeaderForPartition.Code || code == kerr.FencedLeaderEpoch.Code
}

// divergenceBytes is the encoded size of a divergence with its own empty tags.
const divergenceBytes = 4 + 8 + 1

// appendPartitionTags writes a partition's tag section: the divergence as tag 0,
// the leader hint as tag 1.
func appendPartitionTags(b []byte, d *Divergence, hint *leaderHint) []byte {
	if d == nil {
		return hint.appendTag(b, 1)
	}
	// A partition that diverges is led here, so that there is no hint with it.
	b = append(b, 1, 0, divergenceBytes)
	b = appendInt32(b, int32(d.Epoch))
	b = appendInt64(b, int64(d.End))
	return append(b, 0)
}
