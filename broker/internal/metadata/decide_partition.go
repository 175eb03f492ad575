package metadata

import (
	"fmt"
	"slices"

	"github.com/ister-mq/ister/broker/internal/model"
	"github.com/ister-mq/ister/broker/internal/refusal"
)

// clone copies the partition for change, one partition epoch on. Its slices are
// replaced, never written.
func (p *Partition) clone() *Partition {
	c := *p
	c.PartitionEpoch++
	return &c
}

// ChooseLeader picks the leader for a partition: the first unfenced ISR member,
// Target before the rest while a move runs, and nodes that are not on their way
// out before those that are. NoNode when there is none: a replica outside the
// ISR is never chosen.
func (im *Image) ChooseLeader(p *Partition) model.NodeID {
	order := append(slices.Clone(p.Target), p.Replicas...)
	second := model.NoNode
	for _, id := range order {
		if !model.HasNode(p.ISR, id) || !im.Unfenced(id) {
			continue
		}
		if staying(im.Nodes[id].State) && !model.HasNode(p.Removing, id) {
			return id
		}
		if second == model.NoNode {
			second = id
		}
	}
	return second
}

func staying(s NodeState) bool {
	return s == NodeActive || s == NodeCordoned || s == NodeJoining
}

// elected is the partition under this leader, one leader epoch on if it differs.
func (im *Image) elected(p *Partition, leader model.NodeID) *Partition {
	c := p.clone()
	if c.Leader != leader {
		c.Leader = leader
		c.LeaderEpoch++
	}
	return c
}

// afterFence is the partition once a node is fenced, or nil when nothing
// changes. The node leaves the ISR when asked and when it is not the last
// member.
func (im *Image) afterFence(p *Partition, id model.NodeID, leaveISR bool) *Partition {
	inISR := model.HasNode(p.ISR, id)
	shrink := leaveISR && inISR && len(p.ISR) > 1
	if !shrink && p.Leader != id {
		return nil
	}
	c := p.clone()
	if shrink {
		c.ISR = model.WithoutNode(p.ISR, id)
	}
	if c.Leader == id {
		c.Leader = im.ChooseLeader(c)
		c.LeaderEpoch++
	}
	return c
}

func decideAlterISR(im *Image, c *AlterISR) (Decision, error) {
	n := im.Nodes[c.Leader]
	if n == nil {
		return Decision{}, nodeNotFound(c.Leader)
	}
	if n.Epoch != c.Epoch {
		return Decision{}, refusal.New(refusal.StaleNodeEpoch, c.Leader.String(),
			fmt.Sprintf("node %d is at epoch %d, got %d", c.Leader, n.Epoch, c.Epoch), "register again")
	}
	var d Decision
	result := &AlterISRResult{}
	done := map[model.Partition]bool{}
	for _, change := range c.Changes {
		p := im.Partition(change.Partition)
		r := ISRChangeResult{Partition: change.Partition}
		if reason := judgeISR(im, c.Leader, p, change); reason != "" {
			r.Refusal = string(reason)
		} else if done[change.Partition] {
			r.Refusal = string(refusal.StalePartitionEpoch)
		} else {
			// Also when the ISR is as it was: the partition epoch moves on, so that
			// an earlier proposal of the leader, whose answer it never got, cannot
			// be accepted any more.
			np := p.clone()
			np.ISR = memberIDs(change.ISR)
			d.Records = append(d.Records, &PartitionChanged{Partition: np})
			r.State = np
			done[change.Partition] = true
		}
		result.Changes = append(result.Changes, r)
	}
	d.Result = result
	return d, nil
}

func memberIDs(members []ISRMember) []model.NodeID {
	ids := make([]model.NodeID, len(members))
	for i, m := range members {
		ids[i] = m.Node
	}
	return model.SortNodes(ids)
}

// judgeISR says why an ISR change is refused, or "".
func judgeISR(im *Image, leader model.NodeID, p *Partition, c ISRChange) refusal.Reason {
	switch {
	case p == nil:
		return refusal.PartitionNotFound
	case c.LeaderEpoch < p.LeaderEpoch:
		return refusal.FencedLeaderEpoch
	case c.LeaderEpoch > p.LeaderEpoch:
		return refusal.UnknownLeaderEpoch
	case p.Leader != leader:
		return refusal.NotLeader
	case c.PartitionEpoch != p.PartitionEpoch:
		return refusal.StalePartitionEpoch
	}
	seen := map[model.NodeID]bool{}
	for _, m := range c.ISR {
		n := im.Nodes[m.Node]
		if seen[m.Node] || n == nil || n.Fenced || n.Epoch != m.Epoch || !model.HasNode(p.Replicas, m.Node) {
			return refusal.IneligibleReplica
		}
		seen[m.Node] = true
	}
	if !seen[leader] {
		return refusal.InvalidArgument
	}
	return ""
}

func decideElect(im *Image, c *ElectLeaders) (Decision, error) {
	var d Decision
	result := &ElectResult{}
	done := map[model.Partition]bool{}
	for _, e := range c.Elections {
		p := im.Partition(e.Partition)
		reason := refusal.Reason("")
		switch {
		case p == nil:
			reason = refusal.PartitionNotFound
		case done[e.Partition]:
			reason = refusal.StalePartitionEpoch
		default:
			leader := e.Leader
			if leader == model.NoNode {
				leader = im.ChooseLeader(p)
			}
			switch {
			case leader == model.NoNode, !model.HasNode(p.ISR, leader), !im.Unfenced(leader):
				reason = refusal.NotInSync
			case leader != p.Leader:
				d.Records = append(d.Records, &PartitionChanged{Partition: im.elected(p, leader)})
				done[e.Partition] = true
			}
		}
		result.Refusals = append(result.Refusals, string(reason))
	}
	d.Result = result
	return d, nil
}

func decideRetired(im *Image, c *ReplicaRetired) (Decision, error) {
	n := im.Nodes[c.Node]
	if n == nil {
		return Decision{}, nodeNotFound(c.Node)
	}
	if n.Epoch != c.Epoch {
		return Decision{}, refusal.New(refusal.StaleNodeEpoch, c.Node.String(),
			fmt.Sprintf("node %d is at epoch %d, got %d", c.Node, n.Epoch, c.Epoch), "register again")
	}
	var d Decision
	done := map[model.Partition]bool{}
	for _, id := range c.Partitions {
		p := im.Partition(id)
		if p == nil || done[id] || !model.HasNode(p.Retiring, c.Node) || model.HasNode(p.Replicas, c.Node) {
			continue
		}
		np := p.clone()
		np.Retiring = model.WithoutNode(p.Retiring, c.Node)
		d.Records = append(d.Records, &PartitionChanged{Partition: np})
		done[id] = true
	}
	return d, nil
}
