package operation

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ister-mq/ister/broker/internal/metadata"
	"github.com/ister-mq/ister/broker/internal/model"
	"github.com/ister-mq/ister/broker/internal/placement"
	"github.com/ister-mq/ister/broker/internal/refusal"
)

// world is a toy cluster: the real metadata, and replicas that are a number each,
// how much of the partition they hold. Nothing in it moves by itself; tests tick.
type world struct {
	t      testing.TB
	image  *metadata.Image
	now    time.Time
	limits Limits
	uuids  byte
	twice  bool // propose every command of Step twice

	down map[model.NodeID]bool
	// written is how much was committed per partition, held what each node has.
	written map[model.Partition]int
	held    map[model.Partition]map[model.NodeID]int
	slow    bool // adding replicas do not catch up
}

func newWorld(t testing.TB, nodes int) *world {
	w := &world{
		t: t, image: metadata.Empty(), now: time.Unix(1_700_000_000, 0).UTC(), down: map[model.NodeID]bool{},
		written: map[model.Partition]int{}, held: map[model.Partition]map[model.NodeID]int{},
	}
	form := &metadata.FormCluster{Cluster: "c1"}
	for i := 1; i <= nodes; i++ {
		form.Nodes = append(form.Nodes, newNode(model.NodeID(i)))
	}
	w.must(form)
	for i := 1; i <= nodes; i++ {
		w.start(model.NodeID(i))
	}
	return w
}

func newNode(id model.NodeID) metadata.NewNode {
	return metadata.NewNode{ID: id, Incarnation: model.Incarnation("inc-" + id.String()), Endpoints: metadata.Endpoints{
		Kafka: fmt.Sprintf("h%d:6650", id), Admin: fmt.Sprintf("h%d:50051", id), Raft: fmt.Sprintf("h%d:7650", id),
	}}
}

func (w *world) propose(cmd metadata.Command) (any, error) {
	d, err := metadata.Decide(w.image, cmd, metadata.Env{Now: w.now, NewUUID: func() [16]byte {
		w.uuids++
		return [16]byte{15: w.uuids}
	}})
	if err != nil {
		return nil, err
	}
	if len(d.Records) > 0 {
		im, ok := w.image.Apply(metadata.Batch{Base: w.image.Revision, Records: d.Records})
		if !ok {
			w.t.Fatal("batch was stale")
		}
		w.image = im
		w.check(cmd)
	}
	return d.Result, nil
}

func (w *world) must(cmd metadata.Command) any {
	w.t.Helper()
	result, err := w.propose(cmd)
	if err != nil {
		w.t.Fatalf("%T: %v", cmd, err)
	}
	return result
}

// check asserts the safety invariants: whoever is in the ISR holds everything
// that was committed, and only such a replica leads.
func (w *world) check(cmd metadata.Command) {
	for _, p := range w.image.SortedPartitions() {
		if len(p.ISR) == 0 {
			w.t.Fatalf("%s: the ISR is empty after %T", p.ID, cmd)
		}
		for _, id := range p.ISR {
			if w.written[p.ID] > 0 && w.held[p.ID][id] < w.written[p.ID] {
				w.t.Fatalf("%s: node %d is in the ISR with %d of %d after %T %+v", p.ID, id, w.held[p.ID][id], w.written[p.ID], cmd, cmd)
			}
		}
		if p.Leader != model.NoNode && (!model.HasNode(p.ISR, p.Leader) || w.image.Nodes[p.Leader].Fenced) {
			w.t.Fatalf("%s: leader %d, isr %v", p.ID, p.Leader, p.ISR)
		}
	}
}

func (w *world) start(id model.NodeID) {
	delete(w.down, id)
	n := newNode(id)
	w.must(&metadata.RegisterNode{ID: id, Cluster: "c1", Incarnation: n.Incarnation, Endpoints: n.Endpoints, Clean: true})
	w.must(&metadata.UnfenceNode{ID: id, Epoch: w.image.Nodes[id].Epoch})
}

func (w *world) kill(id model.NodeID) {
	w.down[id] = true
	w.must(&metadata.FenceNode{ID: id, Epoch: w.image.Nodes[id].Epoch, Reason: "killed"})
}

func (w *world) topic(name string, assignment [][]model.NodeID) {
	w.must(&metadata.CreateTopic{Name: model.TopicName{Namespace: "default", Topic: name}, Assignment: assignment})
}

// serve lets one tick pass on the nodes: leaders commit one more record where the
// ISR allows it, live replicas catch up and join the ISR, removed copies are
// given up. It reports whether the metadata changed.
func (w *world) serve() bool {
	before := w.image.Revision
	for _, p := range w.image.SortedPartitions() {
		id := p.ID
		if w.held[id] == nil {
			w.held[id] = map[model.NodeID]int{}
			for _, n := range p.Replicas {
				w.held[id][n] = 0
			}
		}
		if p.Leader != model.NoNode && len(p.ISR) >= w.image.MinISR(p) {
			w.written[id]++
			for _, n := range p.ISR {
				w.held[id][n] = w.written[id]
			}
		}
		w.catchUp(p)
		for _, n := range w.image.Partition(id).Retiring {
			if w.down[n] {
				continue
			}
			if !model.HasNode(w.image.Partition(id).Replicas, n) {
				delete(w.held[id], n)
			}
			w.must(&metadata.ReplicaRetired{Node: n, Epoch: w.image.Nodes[n].Epoch, Partitions: []model.Partition{id}})
		}
	}
	return w.image.Revision != before
}

// catchUp has the leader propose every live replica for the ISR.
func (w *world) catchUp(p *metadata.Partition) {
	if p.Leader == model.NoNode {
		return
	}
	change := metadata.ISRChange{Partition: p.ID, LeaderEpoch: p.LeaderEpoch, PartitionEpoch: p.PartitionEpoch}
	for _, n := range p.Replicas {
		late := w.slow && model.HasNode(p.Adding, n) && !model.HasNode(p.ISR, n)
		if w.down[n] || late {
			continue
		}
		w.held[p.ID][n] = w.written[p.ID]
		change.ISR = append(change.ISR, metadata.ISRMember{Node: n, Epoch: w.image.Nodes[n].Epoch})
	}
	if len(change.ISR) == len(p.ISR) && !slices.ContainsFunc(change.ISR, func(m metadata.ISRMember) bool { return !model.HasNode(p.ISR, m.Node) }) {
		return
	}
	w.must(&metadata.AlterISR{Leader: p.Leader, Epoch: w.image.Nodes[p.Leader].Epoch, Changes: []metadata.ISRChange{change}})
}

func (w *world) observations() Observations { return Observations{Now: w.now, Limits: w.limits} }

// step proposes what Step says and returns it. Between proposals the image is the
// one that the command before left.
func (w *world) step() []metadata.Command {
	commands := Step(w.image, w.observations())
	for _, c := range commands {
		before := minISRMargins(w.image)
		if _, err := w.propose(c); err != nil {
			w.t.Fatalf("%T %+v was refused: %v", c, c, err)
		}
		for id, margin := range minISRMargins(w.image) {
			if was, ok := before[id]; ok && margin < 0 && margin < was && !gaveUp(c) {
				w.t.Fatalf("%s: a step took the ISR below min ISR: %+v", id, c)
			}
		}
		if w.twice {
			_, _ = w.propose(c) // a second time is refused or changes nothing that matters
		}
	}
	w.checkSlots(commands)
	return commands
}

// gaveUp: a cancel that waited its time for a dead node may go back below min ISR.
func gaveUp(c metadata.Command) bool {
	a, ok := c.(*metadata.AdvanceMove)
	return ok && a.To == metadata.MoveCancelled && a.Reason == string(refusal.NotEnoughReplicas)
}

// checkSlots asserts that a step started no move beyond the limits. (A target
// that comes back from the dead may take the count above them.)
func (w *world) checkSlots(commands []metadata.Command) {
	limits := w.limits.withDefaults()
	for _, c := range commands {
		advance, ok := c.(*metadata.AdvanceMove)
		if !ok || advance.To != metadata.MoveAdding {
			continue
		}
		if n := copying(w.image, model.NoNode); n > limits.MovesTotal {
			w.t.Fatalf("%d moves copy at the same time", n)
		}
		for _, id := range w.image.Partition(advance.Partition).Adding {
			if n := copying(w.image, id); n > limits.MovesPerNode {
				w.t.Fatalf("%d moves copy to node %d at the same time", n, id)
			}
		}
	}
}

// copying counts moves with live targets that copy, to one node or to any.
func copying(im *metadata.Image, to model.NodeID) int {
	n := 0
	for _, p := range im.SortedPartitions() {
		live := len(p.Adding) > 0
		for _, id := range p.Adding {
			live = live && im.Unfenced(id)
		}
		if live && (to == model.NoNode || model.HasNode(p.Adding, to)) {
			n++
		}
	}
	return n
}

// minISRMargins is by how much each ISR is above what commits need.
func minISRMargins(im *metadata.Image) map[model.Partition]int {
	out := map[model.Partition]int{}
	for _, p := range im.SortedPartitions() {
		out[p.ID] = len(p.ISR) - im.MinISR(p)
	}
	return out
}

// run ticks until nothing changes any more and returns how many ticks it took.
func (w *world) run() int {
	for tick := range 500 {
		w.now = w.now.Add(time.Second)
		changed := len(w.step()) > 0
		if !w.serve() && !changed {
			return tick
		}
	}
	w.t.Fatalf("still changing after 500 ticks: %v", Step(w.image, w.observations()))
	return 0
}

// begin starts the plan as an operation.
func (w *world) begin(p placement.Plan) (model.OperationID, error) {
	result, err := w.propose(&metadata.StartOperation{
		Kind: p.Kind, Subject: p.Subject, Key: string(p.Kind) + " " + p.Subject, Actor: "test", Node: p.Node,
		Moves: p.Moves, PlacementRevision: p.PlacementRevision,
	})
	if err != nil {
		return 0, err
	}
	return result.(*metadata.OperationResult).ID, nil
}

func (w *world) plan() placement.World { return placement.World{Image: w.image} }

// quorum is a view in which the voters are all nodes, alive when not down.
func (w *world) quorum(voters []model.NodeID) QuorumView {
	q := QuorumView{Controller: voters[0]}
	for _, id := range voters {
		q.Voters = append(q.Voters, Member{Node: id, Known: true, Alive: !w.down[id]})
	}
	return q
}

func (w *world) describe() string {
	var b strings.Builder
	for _, n := range w.image.SortedNodes() {
		fmt.Fprintf(&b, "node %d: %s", n.ID, n.State)
		if n.Fenced {
			b.WriteString(" fenced")
		}
		b.WriteString("\n")
	}
	for _, p := range w.image.SortedPartitions() {
		fmt.Fprintf(&b, "%s: %s | isr %s | leader %d", strings.TrimPrefix(partitionName(w.image, p.ID), "/default/"), join(p.Replicas), join(p.ISR), p.Leader)
		for _, part := range []struct {
			sign  string
			nodes []model.NodeID
		}{{"+", p.Adding}, {"-", p.Removing}, {"~", p.Retiring}} {
			if len(part.nodes) > 0 {
				b.WriteString(" " + part.sign + join(part.nodes))
			}
		}
		b.WriteString("\n")
	}
	return b.String() + w.operations()
}

func (w *world) operations() string {
	var b strings.Builder
	for _, o := range w.image.SortedOperations() {
		states := map[metadata.MoveState]int{}
		for _, m := range o.Moves {
			states[m.State]++
		}
		var parts []string
		for state, n := range states {
			parts = append(parts, fmt.Sprintf("%d %s", n, state))
		}
		slices.Sort(parts)
		fmt.Fprintf(&b, "%s %s %s: %s [%s]", o.ID, o.Kind, o.Subject, o.State, strings.Join(parts, ", "))
		if o.Reason != "" || o.Message != "" {
			fmt.Fprintf(&b, " %s %s", o.Reason, o.Message)
		}
		b.WriteString("\n")
	}
	return b.String()
}

func join(ids []model.NodeID) string {
	parts := make([]string, len(ids))
	for i, id := range ids {
		parts[i] = id.String()
	}
	return strings.Join(parts, ",")
}
