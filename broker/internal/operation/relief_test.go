package operation

import (
	"testing"

	"github.com/ister-mq/ister/broker/internal/metadata"
	"github.com/ister-mq/ister/broker/internal/model"
)

func TestReliefTakesPartitionsOffFullDisks(t *testing.T) {
	nodes := func(ids ...model.NodeID) []model.NodeID { return ids }
	led := func(leader model.NodeID, isr ...model.NodeID) metadata.Partition {
		return metadata.Partition{Replicas: nodes(1, 2, 3), ISR: isr, Leader: leader}
	}
	const full, room = DiskIsFull, DiskHasRoom
	for name, c := range map[string]struct {
		p      metadata.Partition
		disks  Disks
		fenced model.NodeID
		leaves model.NodeID // a node that is drained
		wanted model.NodeID // by an operation
		want   model.NodeID
	}{
		"the leader is full":              {p: led(1, 1, 2, 3), disks: Disks{1: full, 2: room, 3: room}, want: 2},
		"so is the next":                  {p: led(1, 1, 2, 3), disks: Disks{1: full, 2: full, 3: room}, want: 3},
		"all are full":                    {p: led(1, 1, 2, 3), disks: Disks{1: full, 2: full, 3: full}},
		"a follower is full":              {p: led(1, 1, 2, 3), disks: Disks{1: room, 2: full, 3: room}},
		"who has room is not in sync":     {p: led(1, 1, 2), disks: Disks{1: full, 2: full, 3: room}},
		"alone in sync":                   {p: led(1, 1), disks: Disks{1: full, 2: room, 3: room}},
		"nothing is known of the others":  {p: led(1, 1, 2, 3), disks: Disks{1: full}},
		"who has room is fenced":          {p: led(1, 1, 2, 3), disks: Disks{1: full, 2: room, 3: full}, fenced: 2},
		"rather one that stays":           {p: led(1, 1, 2, 3), disks: Disks{1: full, 2: room, 3: room}, leaves: 2, want: 3},
		"one that leaves, before nobody":  {p: led(1, 1, 2), disks: Disks{1: full, 2: room, 3: room}, leaves: 2, want: 2},
		"an operation wants it there":     {p: led(1, 1, 2, 3), disks: Disks{1: full, 2: room, 3: room}, wanted: 1},
		"an operation moves it elsewhere": {p: led(1, 1, 2, 3), disks: Disks{1: full, 2: room, 3: room}, wanted: 3, want: 2},
		"no leader":                       {p: led(0, 1, 2, 3), disks: Disks{1: full, 2: room, 3: room}},
	} {
		im := metadata.Empty()
		for id := model.NodeID(1); id <= 3; id++ {
			n := &metadata.Node{ID: id, State: metadata.NodeActive, Epoch: 1, Fenced: id == c.fenced}
			if id == c.leaves {
				n.State = metadata.NodeDrained
			}
			im.Nodes[id] = n
		}
		im.Topics[c.p.ID.Topic] = &metadata.Topic{Partitions: []*metadata.Partition{&c.p}}
		if c.wanted != 0 {
			im.Operations[1] = &metadata.Operation{ID: 1, State: metadata.OpRunning, Moves: []*metadata.Move{{Partition: c.p.ID, Leader: c.wanted, State: metadata.MoveSwitched}}}
		}
		got := Relief(im, c.disks)
		switch {
		case c.want == 0 && len(got) != 0:
			t.Errorf("%s: elects %d, want nothing", name, got[0].Leader)
		case c.want != 0 && (len(got) != 1 || got[0].Leader != c.want):
			t.Errorf("%s: got %v, want node %d", name, got, c.want)
		}
	}
}
