package dataplane

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ister-mq/ister/broker/internal/kafka"
	"github.com/ister-mq/ister/broker/internal/metadata"
	"github.com/ister-mq/ister/broker/internal/model"
	"github.com/ister-mq/ister/broker/internal/peer"
	"github.com/ister-mq/ister/broker/internal/record"
	"github.com/ister-mq/ister/broker/internal/refusal"
	"github.com/ister-mq/ister/broker/internal/vfs"
)

func TestProduceIsOnEveryReplicaAndReadBack(t *testing.T) {
	c := newCluster(t, 3, nil)
	id := c.topic("orders", nil, 1, 2, 3)
	for i := range 20 {
		if base := c.send(id, fmt.Sprint("a", i), fmt.Sprint("b", i)); base != model.Offset(2*i) {
			t.Fatalf("batch %d has base offset %d", i, base)
		}
	}
	if got := c.nodes[0].values(t, id, 0); len(got) != 40 || got[0] != "a0" || got[39] != "b19" {
		t.Fatalf("read %d records: %v", len(got), got)
	}
	for _, m := range c.nodes {
		eventually(t, "every replica holds all", func() bool { return m.plane.local(id).log.LogEnd() == 40 })
	}
	// Followers do not serve.
	wantRefusal(t, c.nodes[1].produce(id, kafka.AcksAll, batch("x")).Err, refusal.NotLeader)
}

func TestAckWaitsForTheSlowestInSyncReplicaAndIsNotGivenTwice(t *testing.T) {
	c := newCluster(t, 3, func(cfg *Config) { cfg.LagMax = time.Hour })
	id := c.topic("orders", nil, 1, 2, 3)
	c.send(id, "first")
	c.nodes[2].endpoint.Close() // it neither fetches nor serves any more
	c.nodes[2].plane.FailWaiters()
	waiting := c.nodes[0].produceLater(id, kafka.AcksAll, 200*time.Millisecond, batch("second"))
	result := <-waiting
	wantRefusal(t, result.Err, refusal.OutcomeUnknown)
	if got := c.nodes[0].values(t, id, 0); len(got) != 1 {
		t.Fatalf("an uncommitted record was read: %v", got)
	}
	// acks=1 needs the leader's own disk only.
	if result := c.nodes[0].produce(id, kafka.AcksLeader, batch("third")); result.Err != nil || result.Base != 2 {
		t.Fatalf("acks=1: %+v", result)
	}
	c.must(&metadata.FenceNode{ID: 3, Epoch: c.nodes[2].epoch, Reason: "dead"})
	eventually(t, "the rest commits without it", func() bool { return len(c.nodes[0].values(t, id, 0)) == 3 })
}

func TestNothingIsConfirmedWithoutALease(t *testing.T) {
	c := newCluster(t, 3, func(cfg *Config) { cfg.LagMax = time.Hour })
	id := c.topic("orders", nil, 1, 2, 3)
	c.send(id, "first")
	c.nodes[2].endpoint.Close()
	c.nodes[2].plane.FailWaiters()
	waiting := c.nodes[0].produceLater(id, kafka.AcksAll, time.Hour, batch("second"))
	c.nodes[0].lease.Store(false) // after the append, before the commit
	c.must(&metadata.FenceNode{ID: 3, Epoch: c.nodes[2].epoch, Reason: "dead"})
	wantRefusal(t, (<-waiting).Err, refusal.OutcomeUnknown)
	c.nodes[0].lease.Store(true)
	if got := c.nodes[0].values(t, id, 0); len(got) != 2 {
		t.Fatalf("the record is committed all the same, read %v", got)
	}
}

// A leader that is cut off from the others hears of no successor. Its clients
// must hear of it, and not wait for their timeout, before they look for another.
func TestLeaderWhoseLeaseIsOutLetsItsClientsGo(t *testing.T) {
	c := newCluster(t, 3, func(cfg *Config) { cfg.LagMax = time.Hour })
	id := c.topic("orders", nil, 1, 2, 3)
	c.send(id, "first")
	for _, other := range c.nodes[1:] {
		other.endpoint.Close()
		other.plane.FailWaiters()
	}
	waiting := c.nodes[0].produceLater(id, kafka.AcksAll, time.Hour, batch("second"))
	eventually(t, "it was appended", func() bool { return c.nodes[0].plane.local(id).waiting.Load() == 1 })
	c.nodes[0].lease.Store(false)
	select {
	case result := <-waiting:
		wantRefusal(t, result.Err, refusal.OutcomeUnknown)
	case <-time.After(10 * time.Second):
		t.Fatal("its client is kept waiting")
	}
}

func TestLeaderMovesAndNothingIsLost(t *testing.T) {
	c := newCluster(t, 3, nil)
	id := c.topic("orders", nil, 1, 2, 3)
	var sent []string
	for i := range 30 {
		value := fmt.Sprint("v", i)
		c.send(id, value)
		sent = append(sent, value)
		if i%5 == 4 {
			to := model.NodeID(i/5%3 + 1)
			c.elect(id, to)
		}
	}
	last := c.leader(id)
	eventually(t, "all of it is committed", func() bool { return len(last.values(t, id, 0)) == len(sent) })
	if got := last.values(t, id, 0); strings.Join(got, " ") != strings.Join(sent, " ") {
		t.Fatalf("read %v", got)
	}
}

func TestWaitersFailWhenTheLeaderStepsDown(t *testing.T) {
	c := newCluster(t, 3, func(cfg *Config) { cfg.LagMax = time.Hour })
	id := c.topic("orders", nil, 1, 2, 3)
	c.send(id, "first")
	c.nodes[2].endpoint.Close()
	c.nodes[2].plane.FailWaiters()
	waiting := c.nodes[0].produceLater(id, kafka.AcksAll, time.Hour, batch("second"))
	c.elect(id, 2)
	wantRefusal(t, (<-waiting).Err, refusal.NotLeader)
}

// At a hand-over a client can be sent to the new leader before the image is there.
func TestProduceThatComesBeforeTheNewsIsServedInOrder(t *testing.T) {
	c := newCluster(t, 3, nil)
	id := c.topic("orders", nil, 1, 2, 3)
	c.send(id, "v0")
	build := func(sequence int32) record.Checked {
		return checked(record.Build(record.BuildOptions{Producer: &record.Producer{ID: 7, Epoch: 0, Sequence: sequence}}, record.Rec{Timestamp: 1, Value: []byte("v")}))
	}
	var waiting []chan kafka.ProduceResult
	for i := range int32(20) {
		waiting = append(waiting, c.nodes[1].produceLater(id, kafka.AcksAll, time.Hour, build(i)))
		if i == 10 {
			c.must(&metadata.ElectLeaders{Elections: []metadata.Election{{Partition: id, Leader: 2}}})
		}
	}
	for i, w := range waiting {
		if r := <-w; r.Err != nil || r.Base != model.Offset(i+1) {
			t.Fatalf("produce %d: %+v", i, r)
		}
	}
}

func TestOldLeaderRefusesAtOnce(t *testing.T) {
	c := newCluster(t, 2, nil)
	id := c.topic("orders", nil, 1, 2)
	c.send(id, "first")
	c.elect(id, 2)
	l := c.nodes[0].plane.local(id)
	eventually(t, "node 1 steps down", func() bool { return !l.leads.Load() && l.steppedDown.Load() != 0 })
	answered := false
	request := &kafka.ProduceRequest{Acks: kafka.AcksAll, Partitions: []kafka.ProducePartition{{ID: id, Batch: batch("x")}}, Results: make([]kafka.ProduceResult, 1)}
	c.nodes[0].plane.Produce(request, func() { answered = true })
	if !answered {
		t.Fatal("the client of an old leader is kept waiting")
	}
	wantRefusal(t, request.Results[0].Err, refusal.NotLeader)
}

func TestLeaderWithoutLeaseAcknowledgesNothing(t *testing.T) {
	c := newCluster(t, 1, nil)
	id := c.topic("orders", nil, 1)
	c.nodes[0].lease.Store(false)
	wantRefusal(t, c.nodes[0].produce(id, kafka.AcksAll, batch("x")).Err, refusal.LeaseExpired)
}

func TestLaggardLeavesTheISRAndComesBack(t *testing.T) {
	c := newCluster(t, 3, nil)
	id := c.topic("orders", nil, 1, 2, 3)
	c.send(id, "first")
	c.crash(c.nodes[2], 1)
	c.isr(id, 1, 2)
	c.send(id, "second")
	c.start(c.nodes[2], false)
	c.isr(id, 1, 2, 3)
	eventually(t, "it holds all", func() bool { return c.nodes[2].plane.local(id).log.LogEnd() == 2 })
}

func TestWholeClusterCrashKeepsWhatWasAcknowledged(t *testing.T) {
	for seed := range uint64(5) {
		t.Run(fmt.Sprint("seed", seed), func(t *testing.T) {
			c := newCluster(t, 3, nil)
			id := c.topic("orders", nil, 1, 2, 3)
			for i := range 10 {
				c.send(id, fmt.Sprint("v", i))
			}
			c.leader(id).produceLater(id, kafka.AcksAll, time.Hour, batch("perhaps"))
			for i, m := range c.nodes {
				c.crash(m, seed*10+uint64(i))
			}
			for _, m := range c.nodes {
				c.start(m, false)
			}
			eventually(t, "the acknowledged records are there", func() bool {
				m := c.leader(id)
				return m.plane.local(id).leads.Load() && len(m.values(t, id, 0)) >= 10
			})
			got := c.leader(id).values(t, id, 0)
			for i := range 10 {
				if got[i] != fmt.Sprint("v", i) {
					t.Fatalf("record %d is %q", i, got[i])
				}
			}
			if base := c.send(id, "after"); base != model.Offset(len(got)) {
				t.Fatalf("the next record has offset %d after %d records", base, len(got))
			}
		})
	}
}

func TestCleanStopLeavesTheMarker(t *testing.T) {
	c := newCluster(t, 1, nil)
	id := c.topic("orders", nil, 1)
	c.send(id, "first")
	c.stop(c.nodes[0])
	c.start(c.nodes[0], true)
	eventually(t, "it leads again", func() bool { return c.nodes[0].plane.local(id).leads.Load() })
	if got := c.nodes[0].values(t, id, 0); len(got) != 1 {
		t.Fatalf("read %v", got)
	}
}

func TestLongPollWakesOnCommitAndOnLeaderChange(t *testing.T) {
	c := newCluster(t, 2, nil)
	id := c.topic("orders", nil, 1, 2)
	fetch := func(from model.Offset) chan kafka.FetchResult {
		out := make(chan kafka.FetchResult, 1)
		go func() {
			response := c.nodes[0].plane.Fetch(context.Background(), &kafka.FetchRequest{
				MaxWait: time.Hour, MinBytes: 1, MaxBytes: 1 << 20,
				Partitions: []kafka.FetchPartition{{ID: id, Offset: from, LeaderEpoch: model.NoEpoch, LastFetchedEpoch: model.NoEpoch, MaxBytes: 1 << 20}},
			})
			out <- response.Partitions[0]
		}()
		l := c.nodes[0].plane.local(id)
		eventually(t, "the poll waits", func() bool { l.mu.Lock(); defer l.mu.Unlock(); return len(l.polls) == 1 })
		return out
	}
	waiting := fetch(0)
	c.send(id, "first")
	if got := <-waiting; got.Err != nil || len(got.Records) == 0 || got.HighWatermark != 1 {
		t.Fatalf("got %+v", got)
	}
	waiting = fetch(1)
	c.elect(id, 2)
	wantRefusal(t, (<-waiting).Err, refusal.NotLeader)
}

func TestFetchAnswersBeyondTheLogAndForStaleEpochs(t *testing.T) {
	c := newCluster(t, 1, nil)
	id := c.topic("orders", nil, 1)
	c.send(id, "first")
	c.stop(c.nodes[0])
	c.start(c.nodes[0], true) // the second epoch
	eventually(t, "it leads again", func() bool { return c.nodes[0].plane.local(id).leads.Load() })
	epoch := c.image().Partition(id).LeaderEpoch
	for _, q := range []struct {
		offset model.Offset
		epoch  model.LeaderEpoch
		want   refusal.Reason
	}{
		{2, model.NoEpoch, refusal.OffsetOutOfRange},
		{0, epoch - 1, refusal.FencedLeaderEpoch},
		{0, epoch + 1, refusal.UnknownLeaderEpoch},
	} {
		got := c.nodes[0].plane.Fetch(context.Background(), &kafka.FetchRequest{MaxBytes: 100, Partitions: []kafka.FetchPartition{{
			ID: id, Offset: q.offset, LeaderEpoch: q.epoch, LastFetchedEpoch: model.NoEpoch, MaxBytes: 100,
		}}})
		wantRefusal(t, got.Partitions[0].Err, q.want)
	}
	unknown := c.nodes[0].plane.Fetch(context.Background(), &kafka.FetchRequest{Partitions: []kafka.FetchPartition{{LeaderEpoch: model.NoEpoch}}})
	wantRefusal(t, unknown.Partitions[0].Err, refusal.NotLeader)
}

func TestListOffsets(t *testing.T) {
	c := newCluster(t, 1, nil)
	id := c.topic("orders", nil, 1)
	for _, at := range []int64{1000, 3000, 2000} {
		b := checked(record.Build(record.BuildOptions{}, record.Rec{Timestamp: at, Value: []byte("v")}))
		if r := c.nodes[0].produce(id, kafka.AcksAll, b); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	for _, q := range []struct {
		at   int64
		want model.Offset
	}{{kafka.TimestampEarliest, 0}, {kafka.TimestampLatest, 3}, {kafka.TimestampMax, 1}, {1500, 1}, {9999, -1}} {
		got := c.nodes[0].plane.ListOffsets(context.Background(), []kafka.OffsetQuery{{ID: id, Timestamp: q.at, LeaderEpoch: model.NoEpoch}})[0]
		if got.Err != nil || got.Offset != q.want {
			t.Errorf("at %d: got %+v, want offset %d", q.at, got, q.want)
		}
	}
}

func TestMoveCopiesSwitchesAndGivesUp(t *testing.T) {
	c := newCluster(t, 4, func(cfg *Config) { cfg.RetiredGrace = time.Millisecond })
	id := c.topic("orders", nil, 1, 2, 3)
	for i := range 50 {
		c.send(id, fmt.Sprint("v", i))
	}
	op := c.startMove(id)
	c.must(&metadata.AdvanceMove{Operation: op, Partition: id, To: metadata.MoveSwitched})
	eventually(t, "node 1 reports that it gave the copy up", func() bool {
		r := c.nodes[0].plane.Report()
		return len(r.Retired) == 1 && r.Retired[0] == id
	})
	c.must(&metadata.ReplicaRetired{Node: 1, Epoch: c.nodes[0].epoch, Partitions: []model.Partition{id}})
	eventually(t, "the report ends when the metadata knows", func() bool { return len(c.nodes[0].plane.Report().Retired) == 0 })
	eventually(t, "the directory is purged", func() bool {
		names, err := c.nodes[0].memory.List("/data/logs")
		return err == nil && len(names) == 0
	})
	eventually(t, "the target leads", func() bool { return c.nodes[3].plane.local(id).leads.Load() })
	c.send(id, "after")
	if got := c.leader(id).values(t, id, 0); len(got) != 51 || got[50] != "after" {
		t.Fatalf("read %d records", len(got))
	}
}

func TestMoveThrottleBoundsOnlyReplicasOutsideTheISR(t *testing.T) {
	c := newCluster(t, 3, func(cfg *Config) { cfg.MoveBytesPerSecond = 40_000 })
	id := c.topic("orders", nil, 1, 2)
	big := strings.Repeat("x", 10_000)
	for range 5 {
		c.send(id, big) // replicas in the ISR are not held up
	}
	op := c.must(&metadata.StartOperation{
		Kind: metadata.OpMoveTopic, Key: "move", PlacementRevision: c.image().PlacementRevision,
		Moves: []*metadata.Move{{Partition: id, From: []model.NodeID{1, 2}, To: []model.NodeID{1, 3}, State: metadata.MovePlanned}},
	}).(*metadata.OperationResult)
	started := time.Now()
	c.must(&metadata.AdvanceMove{Operation: op.ID, Partition: id, To: metadata.MoveAdding})
	c.isr(id, 1, 2, 3)
	if took := time.Since(started); took < 300*time.Millisecond {
		t.Fatalf("50 kB at 40 kB/s took %v", took)
	}
}

func TestDeletedTopicGoesAndUnknownDirectoriesStay(t *testing.T) {
	c := newCluster(t, 1, func(cfg *Config) { cfg.RetiredGrace = time.Millisecond })
	id := c.topic("orders", nil, 1)
	c.send(id, "first")
	c.stop(c.nodes[0])
	stray := model.Partition{Topic: model.TopicID{9, 9}, Index: 3}
	if err := c.nodes[0].memory.MkdirAll("/data/logs/" + stray.String()); err != nil {
		t.Fatal(err)
	}
	c.start(c.nodes[0], true)
	names, err := c.nodes[0].memory.List("/data/logs")
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(names, " "); !strings.Contains(got, stray.String()+".quarantined-") || !strings.Contains(got, id.String()) {
		t.Fatalf("directories %s", got)
	}
	c.must(&metadata.DeleteTopic{ID: id.Topic})
	eventually(t, "the topic's directory is purged, the quarantined one kept", func() bool {
		names, err := c.nodes[0].memory.List("/data/logs")
		return err == nil && len(names) == 1 && strings.HasPrefix(names[0], stray.String())
	})
	wantRefusal(t, c.nodes[0].produce(id, kafka.AcksAll, batch("x")).Err, refusal.NotLeader)
}

// A log that is corrupt in the middle must not lead, although the ISR still lists
// its node: what was acknowledged would be gone.
func TestCorruptReplicaIsSetAsideAndRebuiltBeforeItMayLead(t *testing.T) {
	c := newCluster(t, 3, nil)
	id := c.topic("orders", map[string]string{metadata.KeySegmentBytes: "16384"}, 1, 2, 3)
	big := strings.Repeat("x", 6000)
	for range 12 {
		c.send(id, big)
	}
	eventually(t, "node 3 holds all", func() bool { return c.nodes[2].plane.local(id).log.LogEnd() == 12 })
	c.crash(c.nodes[2], 1)
	damageFirstSegment(t, c.nodes[2].memory, "/data/logs/"+id.String())
	c.start(c.nodes[2], false)
	eventually(t, "its copy is rebuilt", func() bool {
		l := c.nodes[2].plane.local(id)
		l.mu.Lock()
		defer l.mu.Unlock()
		return !l.rebuilding && l.log.LogEnd() == 12
	})
	c.isr(id, 1, 2, 3)
	c.elect(id, 3)
	eventually(t, "it leads with all records", func() bool {
		return c.nodes[2].plane.local(id).leads.Load() && len(c.nodes[2].values(t, id, 0)) == 12
	})
}

// A client knows of a new leader before the new leader does: what it asks waits
// for the news.
func TestReadsWaitForTheNewsOfTheirLeaderEpoch(t *testing.T) {
	c := newCluster(t, 2, func(cfg *Config) { cfg.NewsWait = 30 * time.Second })
	id := c.topic("orders", map[string]string{metadata.KeyMinISR: "1"}, 1, 2)
	c.send(id, "x")
	c.isr(id, 1, 2)
	next := c.image().Partition(id).LeaderEpoch + 1
	node := c.nodes[1].plane
	outcomes := make(chan error, 3)
	go func() {
		outcomes <- node.OffsetForLeaderEpoch(t.Context(), []kafka.EpochQuery{{ID: id, CurrentEpoch: next, Epoch: next - 1}})[0].Err
	}()
	go func() {
		outcomes <- node.ListOffsets(t.Context(), []kafka.OffsetQuery{{ID: id, LeaderEpoch: next, Timestamp: kafka.TimestampEarliest}})[0].Err
	}()
	go func() {
		outcomes <- node.Fetch(t.Context(), &kafka.FetchRequest{MaxBytes: 1 << 20, Partitions: []kafka.FetchPartition{{
			ID: id, LeaderEpoch: next, LastFetchedEpoch: model.NoEpoch, MaxBytes: 1 << 20,
		}}}).Partitions[0].Err
	}()
	c.elect(id, 2)
	for range 3 {
		if err := <-outcomes; err != nil {
			t.Errorf("refused: %v", err)
		}
	}
	if got := c.image().Partition(id).LeaderEpoch; got != next {
		t.Fatalf("leader epoch %d, want %d", got, next)
	}
}

func TestReadsOfAnEpochThatNeverComesAreRefused(t *testing.T) {
	c := newCluster(t, 1, func(cfg *Config) { cfg.NewsWait = time.Millisecond })
	id := c.topic("orders", nil, 1)
	err := c.nodes[0].plane.OffsetForLeaderEpoch(t.Context(), []kafka.EpochQuery{{ID: id, CurrentEpoch: 99, Epoch: 1}})[0].Err
	wantRefusal(t, err, refusal.UnknownLeaderEpoch)
}

// All nodes lost power at once, so that the ISR lists all of them, and somebody
// removed the directory of a log meanwhile. Its node leads by the rules; an empty
// copy that leads would make the others drop what is committed.
func TestCopyThatLostCommittedRecordsLeadsNothing(t *testing.T) {
	c := newCluster(t, 3, nil)
	id := c.topic("orders", nil, 3, 1, 2)
	for range 12 {
		c.send(id, "x")
	}
	c.isr(id, 1, 2, 3)
	lost := c.nodes[2]
	if err := lost.plane.writeMarks(true); err != nil {
		t.Fatal(err)
	}
	for i, m := range c.nodes {
		c.cutPower(m, uint64(i))
	}
	if err := lost.memory.RemoveAll("/data/logs/" + id.String()); err != nil {
		t.Fatal(err)
	}
	for _, m := range []*testNode{lost, c.nodes[0], c.nodes[1]} {
		c.start(m, false)
	}
	eventually(t, "a node with all records leads", func() bool {
		leader := c.image().Partition(id).Leader
		return leader != model.NoNode && leader != lost.id && c.nodes[leader-1].plane.local(id).leads.Load() && len(c.nodes[leader-1].values(t, id, 0)) == 12
	})
	c.isr(id, 1, 2, 3)
	c.elect(id, 3)
	if got := len(lost.values(t, id, 0)); got != 12 {
		t.Fatalf("the copy that was made anew holds %d records, want 12", got)
	}
}

// damageFirstSegment flips a byte in the oldest log file of a directory.
func damageFirstSegment(t *testing.T, fs vfs.FS, dir string) {
	t.Helper()
	names, err := fs.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if !strings.HasSuffix(name, ".log") {
			continue
		}
		f, err := fs.Open(dir + "/" + name)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		b := make([]byte, 1)
		if _, err := f.ReadAt(b, 5000); err != nil {
			t.Fatal(err)
		}
		b[0] ^= 0xff
		if _, err := f.WriteAt(b, 5000); err != nil {
			t.Fatal(err)
		}
		if err := f.Sync(); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Fatalf("no segment in %v", names)
}

func TestSyncErrorTakesOneReplicaOfflineAndHandsItOver(t *testing.T) {
	c := newCluster(t, 2, nil)
	broken, fine := c.topic("broken", map[string]string{metadata.KeyMinISR: "1"}, 1, 2), c.topic("fine", map[string]string{metadata.KeyMinISR: "1"}, 1, 2)
	c.send(broken, "first")
	c.send(fine, "first")
	c.isr(broken, 1, 2)
	c.nodes[0].fs.Fail(func(op vfs.Op, name string) error {
		if (op == vfs.OpSync || op == vfs.OpWrite) && strings.Contains(name, broken.String()) {
			return syscall.EIO
		}
		return nil
	})
	if r := c.nodes[0].produce(broken, kafka.AcksAll, batch("second")); r.Err == nil {
		t.Fatal("a batch that could not be written was acknowledged")
	}
	eventually(t, "node 2 takes over", func() bool { return c.nodes[1].plane.local(broken).leads.Load() })
	c.isr(broken, 2)
	c.send(broken, "third")
	if r := c.nodes[0].produce(fine, kafka.AcksAll, batch("second")); r.Err != nil {
		t.Fatalf("another replica of the node suffers: %v", r.Err)
	}
}

func TestFullDiskRefusesAppendsAndRecovers(t *testing.T) {
	c := newCluster(t, 1, func(cfg *Config) { cfg.DiskReserveBytes = 1 << 20 })
	id := c.topic("orders", nil, 1)
	c.send(id, "first")
	c.nodes[0].memory.SetFree(1000)
	eventually(t, "appends are refused", func() bool {
		return refusal.Is(c.nodes[0].produce(id, kafka.AcksAll, batch("x")).Err, refusal.DiskFull)
	})
	if got := c.nodes[0].values(t, id, 0); len(got) == 0 {
		t.Fatal("reads do not work on a full disk")
	}
	c.nodes[0].memory.SetFree(1 << 30)
	eventually(t, "appends work again", func() bool { return c.nodes[0].produce(id, kafka.AcksAll, batch("y")).Err == nil })
}

func TestRetentionDeletesWholeSegmentsOnEveryReplica(t *testing.T) {
	c := newCluster(t, 2, func(cfg *Config) { cfg.RetentionInterval = 10 * time.Millisecond })
	id := c.topic("orders", map[string]string{metadata.KeySegmentBytes: "16384", metadata.KeyRetentionBytes: "40000"}, 1, 2)
	big := strings.Repeat("x", 6000)
	for range 30 {
		c.send(id, big)
	}
	for _, m := range c.nodes {
		eventually(t, "the log start moves", func() bool {
			log := m.plane.local(id).log
			return log.LogStart() > 10 && log.Bytes() < 80_000
		})
	}
	got := c.nodes[0].plane.Fetch(context.Background(), &kafka.FetchRequest{MaxBytes: 100, Partitions: []kafka.FetchPartition{{
		ID: id, LeaderEpoch: model.NoEpoch, LastFetchedEpoch: model.NoEpoch, MaxBytes: 100,
	}}})
	wantRefusal(t, got.Partitions[0].Err, refusal.OffsetOutOfRange)
	if start := got.Partitions[0].LogStart; start <= 10 {
		t.Fatalf("log start %d is not told with the refusal", start)
	}
}

func TestIdempotentRetryAfterLeaderChangeIsADuplicate(t *testing.T) {
	c := newCluster(t, 3, nil)
	id := c.topic("orders", nil, 1, 2, 3)
	build := func(sequence int32) record.Checked {
		return checked(record.Build(record.BuildOptions{Producer: &record.Producer{ID: 7, Epoch: 0, Sequence: sequence}}, record.Rec{Timestamp: 1, Value: []byte("v")}))
	}
	for i := range int32(3) {
		if r := c.nodes[0].produce(id, kafka.AcksAll, build(i)); r.Err != nil || r.Base != model.Offset(i) {
			t.Fatalf("batch %d: %+v", i, r)
		}
	}
	c.elect(id, 2)
	eventually(t, "node 2 leads", func() bool { return c.nodes[1].plane.local(id).leads.Load() })
	if r := c.nodes[1].produce(id, kafka.AcksAll, build(2)); r.Err != nil || r.Base != 2 {
		t.Fatalf("a retry got %+v, want the offset of the first", r)
	}
	wantRefusal(t, c.nodes[1].produce(id, kafka.AcksAll, build(5)).Err, refusal.OutOfOrderSequence)
}

func TestProducerIDsAreUniqueOverNodes(t *testing.T) {
	c := newCluster(t, 2, nil)
	seen := map[model.ProducerID]bool{}
	for range producerBlock + 5 {
		for _, m := range c.nodes {
			id, err := m.plane.AllocateProducerID(context.Background())
			if err != nil || seen[id] {
				t.Fatalf("id %d: %v, seen before: %v", id, err, seen[id])
			}
			seen[id] = true
		}
	}
}

// startMove begins to move a partition of three replicas from node 1 to node 4 and
// brings it to the switch.
func (c *cluster) startMove(id model.Partition) model.OperationID {
	c.t.Helper()
	op := c.must(&metadata.StartOperation{
		Kind: metadata.OpMoveTopic, Key: "move", PlacementRevision: c.image().PlacementRevision,
		Moves: []*metadata.Move{{Partition: id, From: []model.NodeID{1, 2, 3}, To: []model.NodeID{4, 2, 3}, Leader: 4, State: metadata.MovePlanned}},
	}).(*metadata.OperationResult)
	c.must(&metadata.AdvanceMove{Operation: op.ID, Partition: id, To: metadata.MoveAdding})
	c.isr(id, 1, 2, 3, 4)
	return op.ID
}

func TestCopyIsReportedRetiredOnlyOnceItsDirectoryIsRenamed(t *testing.T) {
	c := newCluster(t, 4, nil)
	id := c.topic("orders", nil, 1, 2, 3)
	c.send(id, "first")
	op := c.startMove(id)
	failed := make(chan struct{}, 1)
	c.nodes[0].fs.Fail(func(called vfs.Op, name string) error {
		if called == vfs.OpRename && strings.Contains(name, id.String()) {
			kick(failed)
			return syscall.EIO
		}
		return nil
	})
	c.must(&metadata.AdvanceMove{Operation: op, Partition: id, To: metadata.MoveSwitched})
	<-failed
	<-failed // and again
	if r := c.nodes[0].plane.Report(); len(r.Retired) != 0 {
		t.Fatalf("reported retired: %v", r.Retired)
	}
	c.nodes[0].fs.Fail(nil)
	eventually(t, "it is given up after all", func() bool { return len(c.nodes[0].plane.Report().Retired) == 1 })
}

func TestCopyMovedAwayWhileTheNodeWasDownIsGivenUpAtItsStart(t *testing.T) {
	c := newCluster(t, 4, nil)
	id := c.topic("orders", nil, 1, 2, 3)
	c.send(id, "first")
	op := c.startMove(id)
	c.elect(id, 4)
	c.crash(c.nodes[0], 1)
	c.must(&metadata.AdvanceMove{Operation: op, Partition: id, To: metadata.MoveSwitched})
	c.start(c.nodes[0], false)
	if r := c.nodes[0].plane.Report(); len(r.Retired) != 1 || r.Retired[0] != id {
		t.Fatalf("reported retired: %v", r.Retired)
	}
	names, err := c.nodes[0].memory.List("/data/logs")
	if err != nil || len(names) != 1 || !strings.Contains(names[0], ".deleted-") {
		t.Fatalf("directories %v, %v", names, err)
	}
}

// A follower can hear of a new leader before the leader itself does.
func TestFollowerAheadOfItsLeaderIsAnsweredWhenTheNewsArrives(t *testing.T) {
	c := newCluster(t, 2, nil)
	id := c.topic("orders", nil, 1, 2)
	c.send(id, "first")
	epoch := c.image().Partition(id).LeaderEpoch
	s, err := c.nodes[0].plane.OpenSession(peer.Identity{Node: 2, Epoch: c.nodes[1].epoch})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	answer := make(chan peer.FetchResponse, 1)
	go func() {
		var response peer.FetchResponse
		_ = s.Fetch(context.Background(), &peer.FetchRequest{MaxBytes: 1 << 20, MaxWait: time.Hour, Changed: []peer.FetchPosition{{
			Partition: id, LeaderEpoch: epoch + 2, LastFetchedEpoch: model.NoEpoch, MaxBytes: 1 << 20,
		}}}, &response)
		answer <- response
	}()
	l := c.nodes[0].plane.local(id)
	eventually(t, "the session waits for the news", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, f := range l.follows {
			if f.ahead {
				return true
			}
		}
		return false
	})
	c.elect(id, 2)
	c.elect(id, 1)
	if got := <-answer; len(got.Partitions) != 1 || got.Partitions[0].Reason != "" || len(got.Partitions[0].Batches) == 0 {
		t.Fatalf("got %+v", got)
	}
}
