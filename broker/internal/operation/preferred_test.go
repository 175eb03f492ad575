package operation

import (
	"testing"

	"github.com/ister-mq/ister/broker/internal/metadata"
	"github.com/ister-mq/ister/broker/internal/model"
)

func TestPreferredLeadersTakeBackWhatTheyMay(t *testing.T) {
	node := func(id model.NodeID, state metadata.NodeState, fenced bool) *metadata.Node {
		return &metadata.Node{ID: id, State: state, Fenced: fenced, Epoch: 1}
	}
	partition := func(p metadata.Partition) *metadata.Image {
		im := metadata.Empty()
		im.Nodes = map[model.NodeID]*metadata.Node{
			1: node(1, metadata.NodeActive, false), 2: node(2, metadata.NodeActive, false),
			3: node(3, metadata.NodeActive, true), 4: node(4, metadata.NodeDrained, false),
			5: node(5, metadata.NodeActive, false), 6: node(6, metadata.NodeActive, false),
		}
		im.Topics[p.ID.Topic] = &metadata.Topic{Partitions: []*metadata.Partition{&p}}
		return im
	}
	nodes := func(ids ...model.NodeID) []model.NodeID { return ids }
	disks := Disks{1: DiskHasRoom, 2: DiskHasRoom, 3: DiskHasRoom, 4: DiskHasRoom, 5: DiskIsFull}
	for name, c := range map[string]struct {
		p    metadata.Partition
		want model.NodeID
	}{
		"back and in sync":     {metadata.Partition{Replicas: nodes(1, 2), ISR: nodes(1, 2), Leader: 2}, 1},
		"its disk is full":     {metadata.Partition{Replicas: nodes(5, 2), ISR: nodes(2, 5), Leader: 2}, 0},
		"nothing is known":     {metadata.Partition{Replicas: nodes(6, 2), ISR: nodes(2, 6), Leader: 2}, 0},
		"leads already":        {metadata.Partition{Replicas: nodes(1, 2), ISR: nodes(1, 2), Leader: 1}, 0},
		"not in sync":          {metadata.Partition{Replicas: nodes(1, 2), ISR: nodes(2), Leader: 2}, 0},
		"fenced":               {metadata.Partition{Replicas: nodes(3, 2), ISR: nodes(2, 3), Leader: 2}, 0},
		"drained":              {metadata.Partition{Replicas: nodes(4, 2), ISR: nodes(2, 4), Leader: 2}, 0},
		"moving":               {metadata.Partition{Replicas: nodes(1, 2), ISR: nodes(1, 2), Leader: 2, Target: nodes(1, 2)}, 0},
		"offline: not by this": {metadata.Partition{Replicas: nodes(1, 2), ISR: nodes(1, 2)}, 0},
	} {
		got := PreferredLeaders(partition(c.p), disks)
		switch {
		case c.want == 0 && len(got) != 0:
			t.Errorf("%s: elects %d, want nothing", name, got[0].Leader)
		case c.want != 0 && (len(got) != 1 || got[0].Leader != c.want):
			t.Errorf("%s: got %v, want node %d", name, got, c.want)
		}
	}
	busy := partition(metadata.Partition{Replicas: nodes(1, 2), ISR: nodes(1, 2), Leader: 2})
	busy.Operations[1] = &metadata.Operation{ID: 1, State: metadata.OpRunning}
	if got := PreferredLeaders(busy, disks); len(got) != 0 {
		t.Errorf("elects %v while an operation lives", got)
	}
}
