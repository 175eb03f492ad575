package operation

import (
	"github.com/ister-mq/ister/broker/internal/metadata"
	"github.com/ister-mq/ister/broker/internal/model"
)

// DiskState says whether a node takes records.
type DiskState int

// The states. A node that has not reported is at the zero value.
const (
	DiskUnknown DiskState = iota
	DiskHasRoom
	DiskIsFull
)

// Disks is the state of each node's disk, by its latest report.
type Disks map[model.NodeID]DiskState

// anyFull reports that some node takes no records.
func (d Disks) anyFull() bool {
	for _, state := range d {
		if state == DiskIsFull {
			return true
		}
	}
	return false
}

// Relief lists the hand-overs that take partitions off leaders whose disk is full:
// such a leader takes no record until somebody frees the disk, while a member of
// the ISR with room can. Where no other member is known to have room, the leader
// stays, so that full nodes do not hand over to each other; and so does one that a
// live operation wants to lead.
func Relief(im *metadata.Image, disks Disks) []metadata.Election {
	if !disks.anyFull() {
		return nil
	}
	wanted := map[model.Partition]model.NodeID{}
	for _, o := range im.LiveOperations() {
		for _, m := range o.Moves {
			if !m.State.Done() {
				wanted[m.Partition] = m.Leader
			}
		}
	}
	var out []metadata.Election
	for _, p := range im.SortedPartitions() {
		if disks[p.Leader] != DiskIsFull || wanted[p.ID] == p.Leader {
			continue
		}
		able := *p
		able.ISR = nil
		for _, id := range p.ISR {
			if disks[id] == DiskHasRoom {
				able.ISR = append(able.ISR, id)
			}
		}
		if leader := im.ChooseLeader(&able); leader != model.NoNode {
			out = append(out, metadata.Election{Partition: p.ID, Leader: leader})
		}
	}
	return out
}
