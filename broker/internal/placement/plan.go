package placement

import (
	"math"
	"slices"

	"github.com/ister-mq/ister/broker/internal/metadata"
	"github.com/ister-mq/ister/broker/internal/model"
	"github.com/ister-mq/ister/broker/internal/refusal"
)

// World is everything the planner looks at: the image and what nodes reported
// about their disks. Bytes and Disk may lack entries; a plan made without them
// says so in its findings.
type World struct {
	Image *metadata.Image
	// Bytes is the size of one replica of each partition, in bytes.
	Bytes map[model.Partition]int64
	Disk  map[model.NodeID]Disk
}

// Disk is a node's data disk as it last reported it. Known false means that no
// usable report exists; the other fields are then ignored.
type Disk struct {
	TotalBytes int64
	FreeBytes  int64
	Known      bool
}

// Options bound a rebalance.
type Options struct {
	// MaxMoves is the most partitions that the plan touches; 0 means no bound.
	MaxMoves int
}

// Plan is a computed change that has not started: a value. It holds at most one
// move per partition. Accepting it (metadata.StartOperation, fenced on
// PlacementRevision) makes an operation of it.
type Plan struct {
	Kind metadata.OperationKind
	// Subject is a node id or a topic's full name; "" for a rebalance or a heal.
	Subject string
	// Node is the node that an unload empties; otherwise NoNode.
	Node model.NodeID

	Moves []*metadata.Move // in the order to run them

	Before, After     Balance
	PlacementRevision model.Revision
	Findings          []Finding // errors first, then warnings, then information

	ReplicaMoves int   // replicas that get a new home
	LeaderMoves  int   // partitions that get another leader
	BytesMoved   int64 // to copy, as far as sizes are known
}

// Empty reports a plan with nothing to do.
func (p Plan) Empty() bool { return len(p.Moves) == 0 }

// Has reports whether a finding of this severity is in the plan.
func (p Plan) Has(s Severity) bool {
	for _, f := range p.Findings {
		if f.Severity == s {
			return true
		}
	}
	return false
}

// Severity says how much a finding matters.
type Severity string

// The severities. An error means that part of what was asked cannot be done.
const (
	SeverityError   Severity = "error"
	SeverityWarning Severity = "warning"
	SeverityInfo    Severity = "info"
)

// Codes that only findings use; errors use the codes of package refusal.
const (
	// LeadersOnly: an unload hands leadership away but keeps replicas for want of
	// another home.
	LeadersOnly refusal.Reason = "LEADERS_ONLY"
	// PlanTruncated: MaxMoves cut the plan short.
	PlanTruncated refusal.Reason = "PLAN_TRUNCATED"
	// Uneven: nothing that keeps the goals would even things out any further.
	Uneven refusal.Reason = "UNEVEN"
)

// Finding is one thing that a planner or a preflight noticed.
type Finding struct {
	Code     refusal.Reason
	Severity Severity
	Object   string // "node 4", "topic /default/orders", "partition /default/orders-0"
	Message  string // one sentence
	Remedy   string // what to do about it; "" when nothing needs doing
}

// Balance is how leaders and replicas lie over the active nodes, fenced ones
// included. Replicas still being added do not count, those about to be removed
// do; in a plan's After, moves under way and planned count as done.
type Balance struct {
	Nodes []NodeBalance // one per active node, ascending by id

	// The coefficients of variation: population standard deviation over mean, of
	// the counts per active node. Nil when there is no value: no active node or
	// nothing placed on them, and for bytes also when no sizes are known.
	LeaderCV  *float64
	ReplicaCV *float64
	ByteCV    *float64
}

// NodeBalance is one node's share.
type NodeBalance struct {
	Node     model.NodeID
	Fenced   bool
	Leaders  int
	Replicas int
	Bytes    int64 // 0 when sizes are unknown
}

// Measure returns the present balance by leaders and replicas.
func Measure(im *metadata.Image) Balance { return MeasureWorld(World{Image: im}) }

// MeasureWorld is Measure with bytes where w.Bytes knows them.
func MeasureWorld(w World) Balance {
	t := newTally(w.Image)
	for _, p := range w.Image.SortedPartitions() {
		settled := slices.DeleteFunc(slices.Clone(p.Replicas), func(n model.NodeID) bool { return model.HasNode(p.Adding, n) })
		t.count(p.Leader, settled, w.Bytes[p.ID])
	}
	return t.balance()
}

// tally counts per node.
type tally struct {
	nodes []NodeBalance
	at    map[model.NodeID]int // index into nodes
}

func newTally(im *metadata.Image) *tally {
	t := &tally{at: map[model.NodeID]int{}}
	for i, n := range im.ActiveNodes() {
		t.nodes = append(t.nodes, NodeBalance{Node: n.ID, Fenced: n.Fenced})
		t.at[n.ID] = i
	}
	return t
}

func (t *tally) count(leader model.NodeID, replicas []model.NodeID, bytes int64) {
	if i, ok := t.at[leader]; ok {
		t.nodes[i].Leaders++
	}
	for _, r := range replicas {
		if i, ok := t.at[r]; ok {
			t.nodes[i].Replicas++
			t.nodes[i].Bytes += bytes
		}
	}
}

func (t *tally) balance() Balance {
	var leaders, replicas, bytes []float64
	for _, n := range t.nodes {
		leaders = append(leaders, float64(n.Leaders))
		replicas = append(replicas, float64(n.Replicas))
		bytes = append(bytes, float64(n.Bytes))
	}
	return Balance{Nodes: t.nodes, LeaderCV: variation(leaders), ReplicaCV: variation(replicas), ByteCV: variation(bytes)}
}

// variation is the population standard deviation over the mean, nil when the
// mean is zero or there is nothing to average.
func variation(counts []float64) *float64 {
	if len(counts) == 0 {
		return nil
	}
	sum := 0.0
	for _, c := range counts {
		sum += c
	}
	mean := sum / float64(len(counts))
	if mean == 0 {
		return nil
	}
	squares := 0.0
	for _, c := range counts {
		squares += (c - mean) * (c - mean)
	}
	cv := math.Sqrt(squares/float64(len(counts))) / mean
	return &cv
}
