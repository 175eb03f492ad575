package sim

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ister-mq/ister/broker/internal/metadata"
	"github.com/ister-mq/ister/broker/internal/model"
	"github.com/ister-mq/ister/broker/internal/refusal"
	"github.com/ister-mq/ister/broker/internal/replica"
	"github.com/ister-mq/ister/broker/internal/segment"
	"github.com/ister-mq/ister/broker/internal/vfs"
)

// node is one simulated node: a disk that outlives crashes, and one life of a
// process after another.
type node struct {
	s           *Sim
	id          model.NodeID
	incarnation model.Incarnation
	voter       bool
	disk        *vfs.Memory
	slow        int                              // disk syncs take this many times longer
	clean       bool                             // the last stop was orderly
	marks       map[model.Partition]model.Offset // checkpointed high watermarks

	life     int // grows at each start and stop; odd while up
	pausedTo time.Time
	removed  bool

	// Of the present life.
	applied    int // batches of the metadata log
	image      *metadata.Image
	epoch      model.NodeEpoch // as the controller answered; 0: not registered
	serving    bool            // the image shows this registration
	leaseUntil time.Time
	replicas   map[model.Partition]*local
	control    *control // while this node believes to be the controller
	retired    map[model.Partition]bool
	hearing    bool // a delivery of metadata is scheduled
	asking     bool // a registration is under way
}

// local is one replica on a node.
type local struct {
	node    *node
	replica *replica.Replica
	log     *segment.Log
	sync    bool // flush.policy=sync
	minISR  int

	syncing, again bool   // a sync is under way; another one is wanted
	asked          uint64 // number of the fetch that is waited for, 0: none
	proposing      bool
	waiters        []*waiter
	shadow         *shadow
}

func newNode(s *Sim, id model.NodeID) *node {
	disk := vfs.NewMemory()
	if err := errors.Join(disk.MkdirAll(dataDir), disk.SyncDir("/")); err != nil {
		panic(err)
	}
	return &node{
		s: s, id: id, incarnation: model.Incarnation(fmt.Sprintf("incarnation-%d", id)), voter: true,
		disk: disk, marks: map[model.Partition]model.Offset{}, slow: 1, clean: true, image: metadata.Empty(),
		replicas: map[model.Partition]*local{}, retired: map[model.Partition]bool{},
	}
}

func (n *node) endpoints() metadata.Endpoints {
	return metadata.Endpoints{
		Kafka: fmt.Sprintf("n%d:6650", n.id), Admin: fmt.Sprintf("n%d:50051", n.id), Raft: fmt.Sprintf("n%d:7650", n.id),
	}
}

func (n *node) up() bool { return n.life%2 == 1 }

func (n *node) running() bool { return n.up() && !n.s.now.Before(n.pausedTo) }

// after schedules something in this life of the node; while it is paused, it
// waits.
func (n *node) after(d time.Duration, do func()) {
	life := n.life
	var run func()
	run = func() {
		if n.life != life {
			return
		}
		if n.s.now.Before(n.pausedTo) {
			n.s.after(n.pausedTo.Sub(n.s.now), run)
			return
		}
		do()
	}
	n.s.after(d, run)
}

// every repeats do in this life, at uneven intervals.
func (n *node) every(d time.Duration, do func()) {
	n.after(n.s.between(d*9/10, d*11/10), func() {
		do()
		n.every(d, do)
	})
}

// boot starts a life: the metadata on its disk may be old, its logs are opened
// once it has registered.
func (n *node) boot() {
	n.life++
	n.pausedTo = time.Time{}
	n.epoch, n.serving, n.control = 0, false, nil
	n.leaseUntil = time.Time{}
	n.replicas = map[model.Partition]*local{}
	n.hearing, n.asking = false, false
	if n.applied > 0 && n.s.oneIn(2) {
		n.applied = n.s.random.IntN(n.applied + 1) // snapshot and log replay
	}
	n.image = n.s.quorum.images[n.applied]
	n.s.tracef("node %d starts, clean=%v, metadata at %d", n.id, n.clean, n.applied)
	n.register()
	n.every(heartbeatEvery, n.heartbeat)
	n.every(50*time.Millisecond, n.hear)
	n.every(100*time.Millisecond, n.maintain)
}

// ask sends a command to the node that this one takes for the controller.
func (n *node) ask(cmd metadata.Command, done func(result any, err error)) {
	n.s.propose(n, cmd, done)
}

// propose sends a command from a node, or from a client (nil), to the controller.
// Done is called once; OUTCOME_UNKNOWN when no answer came.
func (s *Sim) propose(from *node, cmd metadata.Command, done func(result any, err error)) {
	unknown := refusal.New(refusal.OutcomeUnknown, "", "no answer from the controller", "look, then retry")
	to := s.node(s.quorum.controller)
	// Sometimes an older controller is asked.
	if s.oneIn(8) {
		if other := s.anyNode(func(m *node) bool { return m.control != nil }); other != nil {
			to = other
		}
	}
	s.links.call(from, to, proposeTimeout, func(answer func(func())) {
		if to.control == nil {
			answer(func() { done(nil, refusal.New(refusal.NotController, "", "not the controller", "retry")) })
			return
		}
		to.control.submit(cmd, func(result any, err error) { answer(func() { done(result, err) }) })
		if s.oneIn(50) && !s.healed {
			// A forwarder tries again, perhaps much later and at another controller.
			s.after(s.between(time.Millisecond, 2*time.Second), func() {
				if again := s.node(s.quorum.controller); again.control != nil && again.running() {
					again.control.submit(cmd, nil)
				}
			})
		}
	}, func(ok bool) {
		if !ok {
			done(nil, unknown)
		}
	})
}

func (n *node) register() {
	cmd := &metadata.RegisterNode{
		ID: n.id, Cluster: "sim", Incarnation: n.incarnation, Endpoints: n.endpoints(), Clean: n.clean,
	}
	if n.asking {
		return
	}
	n.asking = true
	n.ask(cmd, func(result any, err error) {
		n.asking = false
		switch r := result.(type) {
		case *metadata.NodeResult:
			n.epoch, n.clean = r.Epoch, false
			n.s.tracef("node %d registered at epoch %d", n.id, n.epoch)
			n.begin()
		default:
			if refusal.Is(err, refusal.NodeRemoved) {
				n.s.tracef("node %d learns that it was removed", n.id)
				n.removed = true
				n.stop(true)
				return
			}
			n.after(n.s.between(50*time.Millisecond, 150*time.Millisecond), n.register)
		}
	})
}

func (n *node) heartbeat() {
	if n.epoch == 0 || n.removed {
		return
	}
	to := n.s.node(n.s.quorum.controller)
	epoch, sent := n.epoch, n.s.now
	if !n.serving {
		return // has not caught up with its registration
	}
	n.s.links.call(n, to, heartbeatEvery*3, func(answer func(func())) {
		if to.control == nil {
			return
		}
		to.control.heartbeat(n.id, epoch)
		answer(func() {
			if until := sent.Add(leaseFor); until.After(n.leaseUntil) {
				n.leaseUntil = until
				for _, l := range n.sorted() {
					l.settle()
				}
			}
		})
	}, func(bool) {})
}

func (n *node) leaseValid() bool { return n.s.now.Before(n.leaseUntil) }

// hear lets committed metadata arrive, after a while.
func (n *node) hear() {
	if !n.up() || n.hearing || n.removed {
		return
	}
	n.hearing = true
	lag := n.s.between(500*time.Microsecond, 4*time.Millisecond)
	if n.s.oneIn(n.s.lateMetadata) && !n.s.healed {
		lag = n.s.between(100*time.Millisecond, 1500*time.Millisecond)
	}
	n.after(lag, func() {
		n.hearing = false
		if n.applied == len(n.s.quorum.batches) || !n.s.links.connected(n.id, n.s.quorum.controller) {
			return
		}
		if n.s.oneIn(2) {
			n.catchUp()
		} else {
			n.advance(n.applied + 1)
			n.hear()
		}
	})
}

func (n *node) catchUp() { n.advance(len(n.s.quorum.batches)) }

// advance applies the metadata log up to a position.
func (n *node) advance(to int) {
	if to <= n.applied {
		return
	}
	before := n.image
	n.applied, n.image = to, n.s.quorum.images[to]
	if n.image.Tombstones[n.id] != nil {
		n.s.tracef("node %d sees that it was removed", n.id)
		n.removed = true
		n.stop(true)
		return
	}
	if !n.serving {
		n.begin()
		return
	}
	if me := n.image.Nodes[n.id]; me.Epoch > n.epoch && !n.asking {
		// An earlier request to register, thought lost, was decided after the one
		// that was answered. This life has to register again.
		n.s.tracef("node %d at epoch %d sees itself at %d", n.id, n.epoch, me.Epoch)
		n.epoch, n.leaseUntil = 0, time.Time{}
		n.register()
	}
	change := n.image.ChangedSince(before)
	partitions := change.Partitions
	if len(change.Nodes) > 0 {
		for _, l := range n.sorted() {
			if !slices.Contains(partitions, l.replica.Partition()) {
				partitions = append(partitions, l.replica.Partition())
			}
		}
	}
	eligible := replica.EligibleEpochs(n.image)
	for _, id := range partitions {
		n.place(id, eligible)
	}
}

// begin serves once the image shows this registration, or a later one: older
// metadata says nothing about this life.
func (n *node) begin() {
	me := n.image.Nodes[n.id]
	if n.epoch == 0 || me == nil || me.Epoch < n.epoch {
		return
	}
	if me.Epoch > n.epoch {
		n.epoch = 0
		n.register()
	}
	if n.serving {
		return
	}
	n.serving = true
	n.s.tracef("node %d serves", n.id)
	eligible := replica.EligibleEpochs(n.image)
	for _, p := range n.image.SortedPartitions() {
		n.place(p.ID, eligible)
	}
	n.heartbeat()
}

// place brings one partition in line with the image.
func (n *node) place(id model.Partition, eligible map[model.NodeID]model.NodeEpoch) {
	p := n.image.Partition(id)
	l := n.replicas[id]
	if p == nil || !model.HasNode(p.Replicas, n.id) {
		if l != nil {
			l.assign(p, eligible)
			n.drop(l)
		}
		if p != nil && model.HasNode(p.Retiring, n.id) {
			n.retire(id)
		} else if p == nil {
			n.erase(id)
		}
		return
	}
	if l == nil {
		if l = n.open(id); l == nil {
			return
		}
	}
	l.assign(p, eligible)
}

// dataDir is durable from the start, as a formatted data directory is.
const dataDir = "/data"

func (n *node) dir(id model.Partition) string { return dataDir + "/" + id.String() }

// segmentBytes is small, so that logs have many files.
const segmentBytes = 4 << 10

func (n *node) open(id model.Partition) *local {
	topic := n.image.Topics[id.Topic]
	log, recovery, err := segment.Open(segment.Config{
		FS: n.disk, Dir: n.dir(id), SegmentBytes: segmentBytes, IndexIntervalBytes: 512, Now: func() time.Time { return n.s.now },
	})
	if err != nil {
		n.s.fail("durable-survives", "node %d cannot open %s: %v (%+v)", n.id, short(id), err, recovery)
		return nil
	}
	l := &local{node: n, log: log, sync: topic.FlushSync(), minISR: topic.MinISR()}
	l.replica = replica.New(replica.Config{
		Self: n.id, FlushSync: l.sync, MinISR: l.minISR, LagMax: n.s.lagMax, HighWatermark: n.marks[id],
	}, id, log)
	n.replicas[id] = l
	n.s.tracef("node %d opens %s: %d..%d durable %d, dropped %d bytes", n.id, short(id), log.LogStart(), log.LogEnd(), log.Durable(), recovery.TruncatedBytes)
	n.s.check.opened(l)
	if l.replica.NeedsSync() {
		l.flush()
	}
	return l
}

// drop closes a replica that this node has no more.
func (n *node) drop(l *local) {
	id := l.replica.Partition()
	delete(n.replicas, id)
	if err := l.log.Close(true); err != nil {
		n.s.fail("durable-survives", "node %d closes %s: %v", n.id, short(id), err)
	}
	n.s.check.forget(l)
}

// erase removes the files. Only called where a committed record says so.
func (n *node) erase(id model.Partition) {
	if _, err := n.disk.Stat(n.dir(id)); vfs.IsNotExist(err) {
		return
	}
	if _, err := segment.MarkDeleted(n.disk, n.dir(id)); err != nil {
		n.s.fail("durable-survives", "node %d gives up %s: %v", n.id, short(id), err)
		return
	}
	if _, err := segment.Purge(n.disk, dataDir); err != nil {
		n.s.fail("durable-survives", "node %d purges: %v", n.id, err)
	}
	delete(n.marks, id)
	n.s.check.erased(n.id, id)
}

// retire gives up a copy, and says so until the image shows that it was heard.
func (n *node) retire(id model.Partition) {
	n.erase(id)
	n.retired[id] = true
}

// maintain runs often, as timers would.
func (n *node) maintain() {
	if !n.serving || n.removed {
		return
	}
	var retired []model.Partition
	for id := range n.retired {
		if p := n.image.Partition(id); p != nil && model.HasNode(p.Retiring, n.id) && !model.HasNode(p.Replicas, n.id) {
			retired = append(retired, id)
		} else {
			delete(n.retired, id)
		}
	}
	slices.SortFunc(retired, model.Partition.Compare)
	if len(retired) > 0 {
		n.ask(&metadata.ReplicaRetired{Node: n.id, Epoch: n.epoch, Partitions: retired}, func(any, error) {})
	}
	for _, l := range n.sorted() {
		l.maintain()
		if n.s.oneIn(30) {
			n.marks[l.id()] = l.replica.HighWatermark()
		}
	}
}

// sorted lists the replicas in an order that does not change between runs.
func (n *node) sorted() []*local {
	out := make([]*local, 0, len(n.replicas))
	for _, l := range n.replicas {
		out = append(out, l)
	}
	slices.SortFunc(out, func(a, b *local) int { return a.replica.Partition().Compare(b.replica.Partition()) })
	return out
}

// stop ends this life; the outcome of requests that wait stays unknown. Unclean:
// what was not synced may be gone.
func (n *node) stop(clean bool) {
	if !n.up() {
		return
	}
	n.s.tracef("node %d stops, clean=%v", n.id, clean)
	for _, l := range n.sorted() {
		n.s.check.stopped(l, clean)
		if clean {
			if err := l.log.Close(true); err != nil {
				n.s.fail("durable-survives", "node %d closes %s: %v", n.id, short(l.replica.Partition()), err)
			}
		}
	}
	n.life++
	n.serving = false
	n.control = nil
	n.replicas = map[model.Partition]*local{}
	n.clean = clean
	if !clean {
		n.s.counts.Crashes++
		n.disk = n.disk.CrashClone(n.s.random.Uint64())
	}
}
