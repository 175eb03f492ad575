package sim

import (
	"fmt"
	"time"

	"github.com/ister-mq/ister/broker/internal/metadata"
	"github.com/ister-mq/ister/broker/internal/model"
	"github.com/ister-mq/ister/broker/internal/operation"
	"github.com/ister-mq/ister/broker/internal/placement"
)

// admin is the operator: it makes topics, adds nodes, and starts, cancels and
// finishes operations, at random times and regardless of faults.
type admin struct {
	s      *Sim
	topics int
	known  map[model.Partition]bool // partitions that have clients
	// leaving is the node on its way out.
	leaving model.NodeID
}

// topicsMax and nodesMax bound the cluster.
const (
	topicsMax = 4
	nodesMax  = 5
)

func (a *admin) begin() {
	a.known = map[model.Partition]bool{}
	a.s.after(300*time.Millisecond, a.createTopic)
	a.s.after(400*time.Millisecond, a.createTopic)
	a.s.after(500*time.Millisecond, a.clients)
	a.s.after(time.Second, a.act)
}

func (a *admin) image() *metadata.Image {
	if n := a.s.anyNode(func(n *node) bool { return n.running() && n.serving }); n != nil {
		return n.image
	}
	return a.s.quorum.image()
}

func (a *admin) propose(cmd metadata.Command) {
	a.s.propose(nil, cmd, func(result any, err error) {
		a.s.tracef("admin %T: %v %v", cmd, result != nil, err)
	})
}

func (a *admin) createTopic() {
	if a.topics >= topicsMax {
		return
	}
	a.topics++
	c := &metadata.CreateTopic{
		Name: model.TopicName{Namespace: model.DefaultNamespace, Topic: fmt.Sprintf("t%d", a.topics)}, Partitions: 1 + a.s.random.IntN(2),
	}
	switch a.s.random.IntN(8) {
	case 0:
		c.Dispatch = metadata.NonReliable
	case 1:
		c.Config = map[string]string{metadata.KeyFlushPolicy: metadata.FlushOS}
	case 2:
		c.Replicas = 2
	case 3:
		c.Replicas = 1
	}
	a.s.propose(nil, c, func(_ any, err error) {
		if err != nil {
			a.topics--
			a.s.after(200*time.Millisecond, a.createTopic)
		}
	})
}

// clients gives every new partition its producers and consumer.
func (a *admin) clients() {
	a.s.after(100*time.Millisecond, a.clients)
	im := a.s.quorum.image()
	for _, p := range im.SortedPartitions() {
		if !a.known[p.ID] {
			a.known[p.ID] = true
			a.s.addProducer(p.ID, true)
			a.s.addProducer(p.ID, a.s.oneIn(2))
			a.s.addConsumer(p.ID)
		}
	}
	for _, c := range a.s.producers {
		c.gone = im.Partition(c.partition) == nil
	}
	for _, c := range a.s.consumers {
		c.gone = im.Partition(c.partition) == nil
	}
}

// act does one thing.
func (a *admin) act() {
	if a.s.healed {
		return
	}
	a.s.after(a.s.between(a.s.pace/3, a.s.pace*5/3), a.act)
	im := a.image()
	switch a.s.random.IntN(13) {
	case 0:
		a.createTopic()
	case 1:
		a.addNode()
	case 2, 3:
		a.start(placement.Rebalance(placement.World{Image: im}, placement.Options{MaxMoves: a.s.random.IntN(3)}))
	case 4, 5:
		a.moveTopic(im)
	case 6:
		if n := a.anyActive(im); n != model.NoNode && len(im.ActiveNodes()) > 1 {
			a.start(placement.Unload(placement.World{Image: im}, n))
		}
	case 7:
		if live := im.LiveOperations(); len(live) > 0 {
			a.propose(&metadata.CancelOperation{Operation: live[a.s.random.IntN(len(live))].ID, Actor: "sim"})
		}
	case 8:
		a.tend(im)
	case 9, 10:
		a.electAny(im)
	case 12:
		if a.s.oneIn(12) && len(im.Topics) > 1 {
			topics := im.SortedTopics()
			a.propose(&metadata.DeleteTopic{Name: topics[a.s.random.IntN(len(topics))].Name})
		} else {
			a.start(placement.Heal(placement.World{Image: im}))
		}
	case 11:
		a.meddle(im)
	}
}

// meddle asks for any next stage of a running move, as a controller on an old
// image or a hand at the API might: only what is safe may be granted.
func (a *admin) meddle(im *metadata.Image) {
	stages := []metadata.MoveState{metadata.MoveAdding, metadata.MoveSwitched, metadata.MoveSwitched, metadata.MoveSwitched, metadata.MoveDone, metadata.MoveCancelled}
	for _, o := range im.LiveOperations() {
		for _, m := range o.Moves {
			if !m.State.Done() {
				a.propose(&metadata.AdvanceMove{Operation: o.ID, Partition: m.Partition, To: stages[a.s.random.IntN(len(stages))], Reason: "sim"})
			}
		}
	}
}

func (a *admin) anyActive(im *metadata.Image) model.NodeID {
	active := im.ActiveNodes()
	if len(active) == 0 {
		return model.NoNode
	}
	return active[a.s.random.IntN(len(active))].ID
}

// start makes an operation of a plan.
func (a *admin) start(plan placement.Plan, err error) {
	if err != nil || plan.Empty() && plan.Kind != metadata.OpUnload {
		return
	}
	a.propose(&metadata.StartOperation{
		Kind: plan.Kind, Subject: plan.Subject, Actor: "sim", Key: string(plan.Kind) + plan.Subject, Node: plan.Node,
		Moves: plan.Moves, PlacementRevision: plan.PlacementRevision,
	})
}

func (a *admin) moveTopic(im *metadata.Image) {
	topics := im.SortedTopics()
	if len(topics) == 0 {
		return
	}
	to := model.NoNode
	if a.s.oneIn(2) {
		to = a.anyActive(im)
	}
	a.start(placement.MoveTopic(placement.World{Image: im}, topics[a.s.random.IntN(len(topics))].Name, to, !a.s.oneIn(3)))
}

func (a *admin) electAny(im *metadata.Image) {
	partitions := im.SortedPartitions()
	if len(partitions) == 0 {
		return
	}
	p := partitions[a.s.random.IntN(len(partitions))]
	a.propose(&metadata.ElectLeaders{Elections: []metadata.Election{{Partition: p.ID, Leader: p.ISR[a.s.random.IntN(len(p.ISR))]}}})
}

// addNode admits and starts another node.
func (a *admin) addNode() {
	if len(a.s.nodes) >= nodesMax {
		return
	}
	id := a.s.nodes[len(a.s.nodes)-1].id + 1
	n := newNode(a.s, id)
	n.voter = false
	a.s.nodes = append(a.s.nodes, n)
	var admit func()
	admit = func() {
		cmd := &metadata.AddNode{Node: metadata.NewNode{ID: id, Incarnation: n.incarnation, Endpoints: n.endpoints()}}
		a.s.propose(nil, cmd, func(_ any, err error) {
			switch {
			case err != nil:
				a.s.after(100*time.Millisecond, admit)
			case n.life == 0:
				n.boot()
			}
		})
	}
	admit()
}

// tend activates nodes that wait for it, and finishes a scale-in.
func (a *admin) tend(im *metadata.Image) {
	for _, n := range im.SortedNodes() {
		node := a.s.node(n.ID)
		switch {
		case n.State == metadata.NodeJoining && !n.Fenced:
			a.propose(&metadata.SetNodeState{ID: n.ID, State: metadata.NodeActive, Reason: "sim"})
			node.voter = true
		case n.State == metadata.NodeDrained && operation.CertificateOf(im, n.ID).Empty && len(im.ActiveNodes()) >= 3 && a.s.oneIn(2):
			a.propose(&metadata.RemoveNode{ID: n.ID, PlacementRevision: im.PlacementRevision, Reason: "sim"})
		case n.State == metadata.NodeDrained && a.s.oneIn(2):
			a.propose(&metadata.SetNodeState{ID: n.ID, State: metadata.NodeActive, Reason: "sim"})
		}
	}
}
