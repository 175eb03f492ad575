package operation

import (
	"github.com/ister-mq/ister/broker/internal/metadata"
	"github.com/ister-mq/ister/broker/internal/model"
	"github.com/ister-mq/ister/broker/internal/placement"
)

// Certificate counts what a node still has. It is taken from one image.
type Certificate struct {
	Node     model.NodeID
	Revision model.Revision // of the image it was taken from
	Leaders  int            // partitions it leads
	Replicas int            // replicas it holds, those being added included
	Movable  int            // of Replicas, those that have another home and are not moving
	LastCopy int            // of Replicas, those that no other in-sync replica exists of
	Moves    int            // unfinished moves that touch it
	Retiring int            // copies it left and has not confirmed to have given up
	// Drained: no leader, no unfinished move, nothing retiring, no last copy, and
	// no replica that has another home.
	Drained bool
	// Empty: Drained and no replica at all. What a removal needs.
	Empty bool
}

// CertificateOf counts what node still has in im. Copies that a fenced node has
// not confirmed to have given up count, but do not keep it from being drained:
// nothing will ever be confirmed by a dead node.
func CertificateOf(im *metadata.Image, node model.NodeID) Certificate {
	c := Certificate{Node: node, Revision: im.Revision}
	for _, p := range im.SortedPartitions() {
		if p.Leader == node {
			c.Leaders++
		}
		if model.HasNode(p.Replicas, node) {
			c.Replicas++
			if len(p.ISR) == 1 && p.ISR[0] == node {
				c.LastCopy++
			}
		}
		if model.HasNode(p.Retiring, node) {
			c.Retiring++
		}
	}
	for _, o := range im.LiveOperations() {
		for _, m := range o.Moves {
			if !m.State.Done() && touches(im, m, node) {
				c.Moves++
			}
		}
	}
	if c.Replicas > 0 {
		c.Movable = len(placement.Movable(placement.World{Image: im}, node))
	}
	c.Drained = c.Leaders == 0 && c.Moves == 0 && c.LastCopy == 0 && c.Movable == 0 &&
		(c.Retiring == 0 || !im.Unfenced(node))
	c.Empty = c.Drained && c.Replicas == 0
	return c
}

// touches reports whether a move changes what node holds or leads.
func touches(im *metadata.Image, m *metadata.Move, node model.NodeID) bool {
	if model.HasNode(m.From, node) != model.HasNode(m.To, node) || m.Leader == node {
		return true
	}
	p := im.Partition(m.Partition)
	return m.Leader != model.NoNode && p != nil && p.Leader == node
}
