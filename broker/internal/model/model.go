// Package model holds the words of the system: the distinct identifier types
// that every other package speaks in. Two identifiers of different meaning have
// different types, so that mixing them does not compile.
package model

import (
	"encoding/hex"
	"fmt"
	"sort"
	"strconv"
	"strings"
)

// NodeID is the permanent number of one node of a cluster, from 1 up. It is
// given once and never reused. Zero means "no node".
type NodeID int32

// NoNode is the absent NodeID.
const NoNode NodeID = 0

// String prints the plain number.
func (n NodeID) String() string { return strconv.FormatInt(int64(n), 10) }

// ClusterID is the UUID of a cluster, in its canonical text form.
type ClusterID string

// Incarnation is the UUID written when a data directory is formatted. A wiped
// disk therefore has another incarnation.
type Incarnation string

// NodeEpoch is the revision of a node's registration: new at each start, and
// growing. Kafka calls it the broker epoch (KIP-903).
type NodeEpoch int64

// LeaderEpoch fences one partition leadership; it grows by one at each change
// of leader (KIP-101).
type LeaderEpoch int32

// NoEpoch is the absent leader epoch.
const NoEpoch LeaderEpoch = -1

// PartitionEpoch grows by one at each change of a partition's record.
type PartitionEpoch int32

// Offset is a position in a partition log. Offsets are positions: nothing but
// records takes one.
type Offset int64

// Revision is a position of the metadata log: the number of batches applied.
type Revision uint64

// Term is a raft term.
type Term uint64

// Index is a raft log index.
type Index uint64

// ProducerID identifies an idempotent producer (KIP-98).
type ProducerID int64

// NoProducer is the producer id of a batch that is not idempotent.
const NoProducer ProducerID = -1

// ProducerEpoch fences older instances of one producer id.
type ProducerEpoch int16

// OperationID names a durable operation. Zero means "no operation".
type OperationID uint64

// String prints the id as people see it: op-17.
func (o OperationID) String() string { return "op-" + strconv.FormatUint(uint64(o), 10) }

// ParseOperationID reads "op-17" or "17".
func ParseOperationID(s string) (OperationID, error) {
	n, err := strconv.ParseUint(strings.TrimPrefix(s, "op-"), 10, 64)
	if err != nil || n == 0 {
		return 0, fmt.Errorf("operation id %q: expected op-N with N of 1 or more, as printed by `cluster operations list`", s)
	}
	return OperationID(n), nil
}

// TopicID is the UUID of a topic. A topic deleted and created again under the
// same name has another id.
type TopicID [16]byte

// IsZero reports the absent topic id.
func (t TopicID) IsZero() bool { return t == TopicID{} }

// String prints 32 hexadecimal digits, which is also the directory name.
func (t TopicID) String() string { return hex.EncodeToString(t[:]) }

// ParseTopicID reads what String printed.
func ParseTopicID(s string) (TopicID, error) {
	var t TopicID
	raw, err := hex.DecodeString(s)
	if err != nil || len(raw) != len(t) {
		return t, fmt.Errorf("topic id %q: expected 32 hexadecimal digits", s)
	}
	copy(t[:], raw)
	return t, nil
}

// MarshalText implements encoding.TextMarshaler.
func (t TopicID) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (t *TopicID) UnmarshalText(b []byte) error {
	p, err := ParseTopicID(string(b))
	*t = p
	return err
}

// Partition names one partition of one topic.
type Partition struct {
	Topic TopicID `json:"topic"`
	Index int32   `json:"index"`
}

// String prints topic-index, which is also the directory name.
func (p Partition) String() string { return p.Topic.String() + "-" + strconv.Itoa(int(p.Index)) }

// ParsePartition reads what String printed.
func ParsePartition(s string) (Partition, error) {
	var p Partition
	id, index, ok := strings.Cut(s, "-")
	if !ok {
		return p, fmt.Errorf("partition %q: expected TOPICID-INDEX", s)
	}
	t, err := ParseTopicID(id)
	if err != nil {
		return p, err
	}
	n, err := strconv.ParseInt(index, 10, 32)
	if err != nil || n < 0 {
		return p, fmt.Errorf("partition %q: expected an index of 0 or more", s)
	}
	return Partition{Topic: t, Index: int32(n)}, nil
}

// MarshalText implements encoding.TextMarshaler, so that a Partition can key a
// JSON object.
func (p Partition) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (p *Partition) UnmarshalText(b []byte) error {
	q, err := ParsePartition(string(b))
	*p = q
	return err
}

// Compare orders partitions by topic id, then index.
func (p Partition) Compare(q Partition) int {
	if c := strings.Compare(string(p.Topic[:]), string(q.Topic[:])); c != 0 {
		return c
	}
	return int(p.Index) - int(q.Index)
}

// SortNodes sorts ids in place, ascending, and returns them.
func SortNodes(ids []NodeID) []NodeID {
	sort.Slice(ids, func(i, j int) bool { return ids[i] < ids[j] })
	return ids
}

// HasNode reports whether ids holds id.
func HasNode(ids []NodeID, id NodeID) bool {
	for _, n := range ids {
		if n == id {
			return true
		}
	}
	return false
}

// WithoutNode returns a copy of ids without id.
func WithoutNode(ids []NodeID, id NodeID) []NodeID {
	out := make([]NodeID, 0, len(ids))
	for _, n := range ids {
		if n != id {
			out = append(out, n)
		}
	}
	return out
}
