package controlplane

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/ister-mq/ister/broker/internal/metadata"
	"github.com/ister-mq/ister/broker/internal/model"
	"github.com/ister-mq/ister/broker/internal/operation"
)

// TestGrownClusterHealsItself: a topic made on one node wants three replicas;
// when three nodes are active the controller starts raising it by itself.
func TestGrownClusterHealsItself(t *testing.T) {
	t.Parallel()
	nodes := cluster(t, 1)
	topic(t, nodes[0], "small")
	for i := range 2 {
		n, err := start(t, reserve(t, 1)[0], joining)
		must(t, n, err)
		info, err := nodes[0].AddNode(t.Context(), n.admin.URL, false)
		if err != nil {
			t.Fatal(err)
		}
		allReady(t, n)
		if i == 0 && len(nodes[0].Image().LiveOperations()) != 0 {
			t.Error("healing was started for a node that takes no replicas yet")
		}
		if _, err := n.Propose(t.Context(), &metadata.SetNodeState{ID: info.Node, State: metadata.NodeActive}); err != nil {
			t.Fatal(err)
		}
		nodes = append(nodes, n)
	}
	var op *metadata.Operation
	eventually(t, "healing was started", func() bool {
		for _, one := range nodes[1].Image().LiveOperations() {
			op = one
		}
		return op != nil
	})
	if op.Kind != metadata.OpHeal || op.Actor != "system" {
		t.Errorf("operation %+v, want a heal by the system", op)
	}
	// Its moves are stepped: the new replicas are being added.
	eventually(t, "replicas are added", func() bool {
		return slices.ContainsFunc(nodes[2].Image().SortedPartitions(), func(p *metadata.Partition) bool { return len(p.Adding) > 0 })
	})
}

func TestReportsBecomeObservations(t *testing.T) {
	o := deskOffice()
	p, q := model.Partition{Index: 1}, model.Partition{Index: 2}
	o.contacts[1] = &contact{report: Report{
		Known: true, Disk: Disk{TotalBytes: 10, FreeBytes: 4, Known: true}, Bytes: map[model.Partition]int64{p: 7, q: 1},
		Progress: []Progress{{Partition: p, Node: 2, LogEnd: 5, LeaderLogEnd: 9, InSync: true}},
	}}
	o.contacts[2] = &contact{report: Report{Known: true, Bytes: map[model.Partition]int64{p: 3}}}
	o.contacts[3] = &contact{report: Report{Bytes: map[model.Partition]int64{q: 99}}} // unknown health counts for nothing
	got := o.observations().Progress[p][2]
	if got.LogEnd != 5 || got.LeaderLogEnd != 9 || got.Bytes != 3 || !got.InSync {
		t.Errorf("progress %+v", got)
	}
	w := o.world()
	if w.Bytes[p] != 7 || w.Bytes[q] != 1 || w.Disk[1].FreeBytes != 4 || !w.Disk[1].Known || w.Disk[2].Known {
		t.Errorf("world: bytes %v, disks %v", w.Bytes, w.Disk)
	}
	if _, known := w.Disk[3]; known {
		t.Error("a report of unknown health became a disk")
	}
}

func TestGivenUpCopiesAreRecorded(t *testing.T) {
	o := deskOffice()
	im := *o.plane.Image()
	id := model.TopicID{7}
	kept := &metadata.Partition{ID: model.Partition{Topic: id, Index: 0}, Replicas: []model.NodeID{1}, ISR: []model.NodeID{1}, Leader: 1, Retiring: []model.NodeID{2}}
	held := &metadata.Partition{ID: model.Partition{Topic: id, Index: 1}, Replicas: []model.NodeID{1, 2}, ISR: []model.NodeID{1, 2}, Leader: 1}
	im.Topics = map[model.TopicID]*metadata.Topic{id: {ID: id, Partitions: []*metadata.Partition{kept, held}}}
	im.Nodes = map[model.NodeID]*metadata.Node{1: {ID: 1}, 2: {ID: 2, Epoch: 4}}
	o.plane.machine.set(&im)
	report := Report{Known: true, Retired: []model.Partition{kept.ID, held.ID}}
	o.contacts[2] = &contact{epoch: 3, report: report} // of an older process
	o.retire(t.Context())
	if len(o.queue) != 0 {
		t.Error("the word of an older process was taken")
	}
	o.contacts[2] = &contact{epoch: 4, report: report}
	done := make(chan struct{})
	go func() { defer close(done); o.retire(t.Context()) }()
	r := <-o.queue
	cmd, ok := r.cmd.(*metadata.ReplicaRetired)
	if !ok || cmd.Node != 2 || cmd.Epoch != 4 || !slices.Equal(cmd.Partitions, []model.Partition{kept.ID}) {
		t.Errorf("command %+v, want the retiring copy only", r.cmd)
	}
	r.reply <- outcome{}
	<-done
}

func TestImageSurvivesASnapshot(t *testing.T) {
	o := deskOffice()
	commit(o.plane.machine, o, &metadata.CreateNamespace{Name: "kept"})
	b, err := o.plane.machine.Snapshot()()
	if err != nil {
		t.Fatal(err)
	}
	m := newMachine()
	if err := m.Restore(b); err != nil {
		t.Fatal(err)
	}
	im := m.current.Load()
	if im.Revision != o.plane.Image().Revision || im.Namespaces["kept"] == nil || im.Cluster != "c" {
		t.Errorf("restored revision %d, cluster %q", im.Revision, im.Cluster)
	}
	if err := m.Restore(b[:len(b)-1]); err == nil {
		t.Error("a cut snapshot was restored")
	}
}

// TestLeadershipGoesBack: a leadership that left its preferred node, which is in
// sync, is handed back after a while.
func TestLeadershipGoesBack(t *testing.T) {
	t.Parallel()
	nodes := cluster(t, 3, func(c *Config) { c.Timing.Prefer = time.Second })
	topic(t, nodes[0], "away")
	p := nodes[0].Image().SortedPartitions()[0]
	if _, err := nodes[1].Propose(t.Context(), &metadata.ElectLeaders{Elections: []metadata.Election{{Partition: p.ID, Leader: p.Replicas[1]}}}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the preferred node leads again", func() bool {
		now := nodes[2].Image().Partition(p.ID)
		return now.LeaderEpoch == p.LeaderEpoch+2 && now.Leader == p.Replicas[0]
	})
}

func TestReportsTellOfFullDisks(t *testing.T) {
	o := deskOffice()
	im := o.plane.Image()
	for id := model.NodeID(1); id <= 5; id++ {
		im.Nodes[id] = &metadata.Node{ID: id, Epoch: 7}
		o.contacts[id] = &contact{epoch: 7, report: Report{Known: true}}
	}
	o.contacts[2].report.Disk.Full = true
	o.contacts[3].epoch = 6 // its word is of an earlier life
	o.contacts[3].report.Disk.Full = true
	o.contacts[4].report.Known = false
	delete(o.contacts, 5)
	want := operation.Disks{1: operation.DiskHasRoom, 2: operation.DiskIsFull}
	if got := o.disks(); !maps.Equal(got, want) {
		t.Errorf("disks %v, want %v", got, want)
	}
}
