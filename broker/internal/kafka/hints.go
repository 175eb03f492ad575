package kafka

import (
	"net"
	"slices"
	"strconv"

	"github.com/ister-mq/ister/broker/internal/metadata"
	"github.com/ister-mq/ister/broker/internal/model"
)

// leaderHint tells a client where a partition's leader now is (KIP-951), which
// saves it the metadata request. nil: no hint.
type leaderHint struct {
	leader model.NodeID
	epoch  model.LeaderEpoch
}

// hints collects the nodes that the hints of one answer name. They are taken from
// the newest view when the answer is written: the leader can have changed since
// the request came.
type hints struct {
	backend Backend
	view    View
	looked  bool
	nodes   []*metadata.Node
}

// add returns the hint for a partition, nil unless another live node leads it. A
// hint at the answering node itself would only send the client in a circle.
func (h *hints) add(id model.Partition) *leaderHint {
	if !h.looked {
		h.view, h.looked = h.backend.View(), true
	}
	v := &h.view
	p := v.Image.Partition(id)
	if p == nil || p.Leader == model.NoNode || p.Leader == v.Self || !v.Image.Unfenced(p.Leader) {
		return nil
	}
	node := v.Image.Nodes[p.Leader]
	if _, _, ok := hostPort(node); !ok {
		return nil
	}
	if !slices.Contains(h.nodes, node) {
		h.nodes = append(h.nodes, node)
	}
	return &leaderHint{leader: p.Leader, epoch: p.LeaderEpoch}
}

// leaderHintBytes is the encoded size of a hint with its own empty tags.
const leaderHintBytes = 4 + 4 + 1

// appendTag writes a tag section with the hint as its only tag, or an empty one.
func (l *leaderHint) appendTag(b []byte, tag byte) []byte {
	if l == nil {
		return append(b, 0)
	}
	b = append(b, 1, tag, leaderHintBytes)
	b = appendInt32(b, int32(l.leader))
	b = appendInt32(b, int32(l.epoch))
	return append(b, 0)
}

// appendNodes writes the tag section that ends an answer: the nodes named, as
// tag 0, or nothing.
func (h *hints) appendNodes(b []byte) []byte {
	if len(h.nodes) == 0 {
		return append(b, 0)
	}
	nodes := appendLength(nil, len(h.nodes), true)
	for _, n := range h.nodes {
		host, port, _ := hostPort(n)
		nodes = appendInt32(nodes, int32(n.ID))
		nodes = appendString(nodes, host, true)
		nodes = appendInt32(nodes, port)
		nodes = appendNullableString(nodes, n.Rack, true)
		nodes = append(nodes, 0)
	}
	b = append(b, 1, 0)
	b = appendUvarint(b, len(nodes))
	return append(b, nodes...)
}

// hostPort splits a node's advertised Kafka address; false when it has none that
// clients could use.
func hostPort(n *metadata.Node) (host string, port int32, ok bool) {
	host, text, err := net.SplitHostPort(n.Endpoints.Kafka)
	if err != nil || host == "" {
		return "", 0, false
	}
	number, err := strconv.ParseUint(text, 10, 16)
	if err != nil || number == 0 {
		return "", 0, false
	}
	return host, int32(number), true
}
