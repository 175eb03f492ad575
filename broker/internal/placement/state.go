package placement

import (
	"slices"

	"github.com/ister-mq/ister/broker/internal/metadata"
	"github.com/ister-mq/ister/broker/internal/model"
)

// state is a planner's scratch copy of the cluster: partitions as they will be
// once moves under way and those planned so far are done.
type state struct {
	world World
	image *metadata.Image
	nodes []*node // by id
	byID  map[model.NodeID]*node
	parts []*part // by topic name and index

	perTopic map[model.TopicID]map[model.NodeID]int // replicas

	findings []Finding
}

// node is one node's planned load.
type node struct {
	*metadata.Node
	// target: may take replicas and leaderships (active, not fenced).
	target   bool
	leaders  int
	replicas int
	arriving int64 // bytes to be copied to it, under way and planned
	full     bool  // a replica was kept away because of its disk
}

// part is one partition.
type part struct {
	*metadata.Partition
	topic *metadata.Topic
	bytes int64
	// locked: an operation under way owns it.
	locked bool

	// As it will be: replicas in order, its leader, and who will be in sync.
	replicas []model.NodeID
	leader   model.NodeID
	insync   []model.NodeID
	minISR   int
}

func (p *part) label() string { return p.topic.Name.String() + "-" + itoa(p.ID.Index) }

// on reports whether node will hold a replica.
func (p *part) on(n model.NodeID) bool { return model.HasNode(p.replicas, n) }

// endangered: replicas are missing from the ISR and one more loss would stop
// (or has stopped) commits. Such a partition is left alone unless a move helps.
func (p *part) endangered() bool {
	return len(p.Partition.ISR) < len(p.Partition.Replicas)-len(p.Partition.Adding) && len(p.Partition.ISR) <= p.minISR
}

// sourceless: no live replica has all committed records.
func (p *part) sourceless() bool { return p.Leader == model.NoNode }

// relocated reports whether the set of replicas will differ.
func (p *part) relocated() bool {
	if len(p.replicas) != len(p.Replicas) {
		return true
	}
	return slices.ContainsFunc(p.replicas, func(n model.NodeID) bool { return !model.HasNode(p.Replicas, n) })
}

func newState(w World) *state {
	s := &state{world: w, image: w.Image, byID: map[model.NodeID]*node{}, perTopic: map[model.TopicID]map[model.NodeID]int{}}
	for _, n := range w.Image.SortedNodes() {
		sn := &node{Node: n, target: w.Image.CanPlace(n.ID)}
		s.nodes = append(s.nodes, sn)
		s.byID[n.ID] = sn
	}
	live := liveMoves(w.Image)
	for _, t := range w.Image.SortedTopics() {
		s.perTopic[t.ID] = map[model.NodeID]int{}
		for _, p := range t.Partitions {
			s.add(t, p, live[p.ID])
		}
	}
	return s
}

// liveMove is an unfinished move of a live operation.
type liveMove struct {
	*metadata.Move
	reverting bool // its operation is being cancelled
}

func liveMoves(im *metadata.Image) map[model.Partition]*liveMove {
	out := map[model.Partition]*liveMove{}
	for _, o := range im.LiveOperations() {
		for _, m := range o.Moves {
			if !m.State.Done() {
				out[m.Partition] = &liveMove{Move: m, reverting: o.State == metadata.OpCancelling}
			}
		}
	}
	return out
}

// add puts one partition in, with what is under way counted as done.
func (s *state) add(t *metadata.Topic, ref *metadata.Partition, m *liveMove) {
	p := &part{
		Partition: ref, topic: t, bytes: s.world.Bytes[ref.ID],
		replicas: slices.Clone(ref.Replicas), leader: ref.Leader, insync: slices.Clone(ref.ISR), minISR: s.image.MinISR(ref),
	}
	switch {
	case m != nil && m.reverting && m.State != metadata.MoveSwitched:
		p.locked, p.replicas = true, slices.Clone(m.From)
	case m != nil:
		p.locked, p.replicas = true, slices.Clone(m.To)
		if m.Leader != model.NoNode {
			p.leader = m.Leader
		}
	case len(ref.Target) > 0:
		p.locked, p.replicas = true, slices.Clone(ref.Target)
	}
	if p.locked && p.leader != model.NoNode && !p.on(p.leader) && len(p.replicas) > 0 {
		p.leader = p.replicas[0]
	}
	s.parts = append(s.parts, p)
	for _, r := range p.replicas {
		s.perTopic[t.ID][r]++
		if n := s.byID[r]; n != nil {
			n.replicas++
			if !model.HasNode(ref.Replicas, r) || model.HasNode(ref.Adding, r) {
				n.arriving += p.bytes
			}
		}
	}
	if n := s.byID[p.leader]; n != nil {
		n.leaders++
	}
}

// place puts a replica of p on node in, and takes the one on node out away;
// either may be NoNode. The new replica takes the old one's place in the order.
func (s *state) place(p *part, out, in model.NodeID) {
	if in != model.NoNode {
		if i := slices.Index(p.replicas, out); out != model.NoNode && i >= 0 {
			p.replicas[i] = in
		} else {
			p.replicas = append(p.replicas, in)
		}
		s.perTopic[p.ID.Topic][in]++
		s.byID[in].replicas++
		if !model.HasNode(p.Replicas, in) {
			s.byID[in].arriving += p.bytes
		}
		if !model.HasNode(p.Replicas, in) || model.HasNode(p.ISR, in) {
			p.insync = append(p.insync, in)
		}
	}
	if out != model.NoNode {
		p.replicas = model.WithoutNode(p.replicas, out)
		p.insync = model.WithoutNode(p.insync, out)
		s.perTopic[p.ID.Topic][out]--
		if n := s.byID[out]; n != nil {
			n.replicas--
			if !model.HasNode(p.Replicas, out) {
				n.arriving -= p.bytes
			}
		}
	}
}

// lead makes node n the leader of p.
func (s *state) lead(p *part, n model.NodeID) {
	if was := s.byID[p.leader]; was != nil {
		was.leaders--
	}
	p.leader = n
	if now := s.byID[n]; now != nil {
		now.leaders++
	}
}

// targets are the nodes that may take replicas and leaderships.
func (s *state) targets() []*node {
	return slices.DeleteFunc(slices.Clone(s.nodes), func(n *node) bool { return !n.target })
}

// measure is the balance once everything planned and under way is done; without
// the node that is being emptied, which is not active by then.
func (s *state) measure(emptied model.NodeID) Balance {
	t := newTally(s.image)
	for _, p := range s.parts {
		t.count(p.leader, p.replicas, p.bytes)
	}
	t.nodes = slices.DeleteFunc(t.nodes, func(n NodeBalance) bool { return n.Node == emptied })
	return t.balance()
}
