package placement

import (
	"cmp"
	"fmt"
	"math/rand"
	"reflect"
	"slices"
	"testing"

	"github.com/ister-mq/ister/broker/internal/metadata"
	"github.com/ister-mq/ister/broker/internal/model"
)

// randomStage builds a cluster of 1 to 7 nodes with up to 40 partitions, some
// nodes fenced or not active, some replicas out of sync. What is drawn depends on
// the seed alone.
func randomStage(t testing.TB, seed int64) *stage {
	r := rand.New(rand.NewSource(seed))
	s := newStage(t)
	n := 1 + r.Intn(7)
	racks := 1 + r.Intn(4)
	for id := range n {
		s.node(model.NodeID(id+1), func(node *metadata.Node) {
			if racks > 1 {
				node.Rack = fmt.Sprintf("r%d", r.Intn(racks))
			}
			if r.Intn(8) == 0 {
				node.Fenced = true
			}
			if r.Intn(6) == 0 {
				node.State = []metadata.NodeState{metadata.NodeCordoned, metadata.NodeDrained, metadata.NodeJoining}[r.Intn(3)]
			}
		})
	}
	for i := range r.Intn(15) {
		rf := 1 + r.Intn(min(3, n))
		var assignment [][]model.NodeID
		for range 1 + r.Intn(4) {
			var replicas []model.NodeID
			for _, k := range r.Perm(n)[:rf] {
				// Skewed towards the low ids, so that there is work to do.
				id := model.NodeID(k/2 + 1)
				if model.HasNode(replicas, id) {
					id = model.NodeID(k + 1)
				}
				if !model.HasNode(replicas, id) {
					replicas = append(replicas, id)
				}
			}
			for id := model.NodeID(1); len(replicas) < rf; id++ {
				if !model.HasNode(replicas, id) {
					replicas = append(replicas, id)
				}
			}
			assignment = append(assignment, replicas)
		}
		topic := s.topic(fmt.Sprintf("t%02d", i), assignment, func(topic *metadata.Topic) {
			topic.DesiredReplicas = rf + r.Intn(2)
			for _, p := range topic.Partitions {
				p.ISR, p.Leader = nil, model.NoNode
				for _, id := range p.Replicas {
					if !s.world.Image.Nodes[id].Fenced && r.Intn(10) > 0 {
						p.ISR = append(p.ISR, id)
					}
				}
				if len(p.ISR) > 0 {
					p.Leader = p.ISR[r.Intn(len(p.ISR))]
				} else {
					p.ISR = p.Replicas[:1]
					p.Leader = model.NoNode
				}
				model.SortNodes(p.ISR)
			}
		})
		for _, p := range topic.Partitions {
			s.world.Bytes[p.ID] = int64(r.Intn(1000))
		}
	}
	return s
}

// plans makes one plan of each kind.
func (s *stage) plans(seed int64) map[string]Plan {
	out := map[string]Plan{}
	keep := func(name string, p Plan, err error) {
		if err == nil {
			out[name] = p
		}
	}
	r := rand.New(rand.NewSource(seed))
	node := model.NodeID(1 + r.Intn(len(s.world.Image.Nodes)))
	p, err := Rebalance(s.world, Options{})
	keep("rebalance", p, err)
	p, err = Rebalance(s.world, Options{MaxMoves: 2})
	keep("rebalance max 2", p, err)
	p, err = Unload(s.world, node)
	keep("unload", p, err)
	p, err = Heal(s.world)
	keep("heal", p, err)
	for _, t := range s.world.Image.SortedTopics()[:min(1, len(s.world.Image.Topics))] {
		p, err = MoveTopic(s.world, t.Name, 0, true)
		keep("move", p, err)
	}
	return out
}

const seeds = 700

// Every plan keeps the hard goals, whatever the world looks like.
func TestPlansKeepTheHardGoals(t *testing.T) {
	for seed := range int64(seeds) {
		s := randomStage(t, seed)
		for name, p := range s.plans(seed) {
			if err := s.check(p); err != nil {
				t.Fatalf("seed %d, %s: %v\n%s", seed, name, err, s.print(p))
			}
		}
	}
}

func (s *stage) check(plan Plan) error {
	im := s.world.Image
	seen := map[model.Partition]bool{}
	for _, m := range plan.Moves {
		p := im.Partition(m.Partition)
		switch {
		case seen[m.Partition]:
			return fmt.Errorf("partition %s twice", m.Partition)
		case !slices.Equal(m.From, p.Replicas):
			return fmt.Errorf("from %v is not %v", m.From, p.Replicas)
		case len(m.To) < len(m.From):
			return fmt.Errorf("replicas fall from %v to %v", m.From, m.To)
		case len(m.To) != len(m.From) && plan.Kind != metadata.OpHeal:
			return fmt.Errorf("replicas grow from %v to %v", m.From, m.To)
		case len(racksOf(im, m.To)) < len(racksOf(im, m.From)):
			return fmt.Errorf("racks fall from %v to %v", m.From, m.To)
		case p.Leader == model.NoNode:
			return fmt.Errorf("an offline partition is moved")
		case m.Leader != model.NoNode && (!model.HasNode(m.To, m.Leader) || m.To[0] != m.Leader || im.Nodes[m.Leader].Fenced):
			return fmt.Errorf("leader %d of %v", m.Leader, m.To)
		}
		seen[m.Partition] = true
		distinct := map[model.NodeID]bool{}
		live := 0
		for _, id := range m.To {
			if distinct[id] {
				return fmt.Errorf("node %d twice in %v", id, m.To)
			}
			distinct[id] = true
			arrives := !model.HasNode(m.From, id)
			if arrives && !im.CanPlace(id) {
				return fmt.Errorf("new replica on node %d, which cannot take it", id)
			}
			if arrives || model.HasNode(p.ISR, id) {
				live++
			}
		}
		if live < min(len(p.ISR), im.MinISR(p)) {
			return fmt.Errorf("%v leaves %d in sync", m.To, live)
		}
	}
	return nil
}

func racksOf(im *metadata.Image, ids []model.NodeID) map[string]bool {
	out := map[string]bool{}
	for _, id := range ids {
		out[im.Nodes[id].Rack] = true
	}
	return out
}

// The same world gives the same plan.
func TestPlansAreDeterministic(t *testing.T) {
	for seed := range int64(seeds / 5) {
		a, b := randomStage(t, seed).plans(seed), randomStage(t, seed).plans(seed)
		if !reflect.DeepEqual(a, b) {
			t.Fatalf("seed %d: two plans of one world differ", seed)
		}
	}
}

// Planning again after a plan has run gives an empty plan.
func TestReplanningIsEmpty(t *testing.T) {
	for seed := range int64(seeds) {
		for _, name := range []string{"rebalance", "unload", "heal"} {
			s := randomStage(t, seed)
			p, ok := s.plans(seed)[name]
			if !ok {
				continue
			}
			s.apply(p)
			if again := s.plans(seed)[name]; !again.Empty() {
				t.Fatalf("seed %d: after this %s\n%s it still plans\n%s", seed, name, s.print(p), s.print(again))
			}
		}
	}
}

// Each bounded rebalance makes the spread better, and repeating it ends.
func TestBoundedRebalanceConverges(t *testing.T) {
	for seed := range int64(seeds / 5) {
		s := randomStage(t, seed)
		for round := 0; ; round++ {
			p, err := Rebalance(s.world, Options{MaxMoves: 2})
			if err != nil {
				t.Fatal(err)
			}
			if p.Empty() {
				break
			}
			if round > 200 {
				t.Fatalf("seed %d: still planning after %d rounds\n%s", seed, round, s.print(p))
			}
			if cmp.Or(
				cmp.Compare(squares(p.After, replicasOf), squares(p.Before, replicasOf)),
				cmp.Compare(squares(p.After, leadersOf), squares(p.Before, leadersOf)),
			) >= 0 {
				t.Fatalf("seed %d: a prefix evens nothing out\n%s", seed, s.print(p))
			}
			s.apply(p)
		}
	}
}

func replicasOf(n NodeBalance) int { return n.Replicas }
func leadersOf(n NodeBalance) int  { return n.Leaders }

func squares(b Balance, of func(NodeBalance) int) int {
	sum := 0
	for _, n := range b.Nodes {
		sum += of(n) * of(n)
	}
	return sum
}

// A healthy cluster without racks ends with leaders and replicas that differ by
// one at most, with no more moves than the surplus (D5, D7).
func TestHealthyClusterBecomesEven(t *testing.T) {
	for seed := range int64(400) {
		r := rand.New(rand.NewSource(seed))
		s := newStage(t)
		n := 2 + r.Intn(5)
		for id := range n {
			s.node(model.NodeID(id+1), func(*metadata.Node) {})
		}
		old := 1 + r.Intn(n) // nodes that hold everything before
		for i := range 1 + r.Intn(20) {
			var replicas []model.NodeID
			for _, k := range r.Perm(old)[:1+r.Intn(min(3, old))] {
				replicas = append(replicas, model.NodeID(k+1))
			}
			s.topic(fmt.Sprintf("t%02d", i), [][]model.NodeID{replicas}, nil)
		}
		p, err := Rebalance(s.world, Options{})
		if err != nil {
			t.Fatal(err)
		}
		surplus, total := 0, 0
		for _, b := range p.Before.Nodes {
			total += b.Replicas
		}
		for _, b := range p.Before.Nodes {
			surplus += max(0, b.Replicas-total/n)
		}
		low, high := p.After.Nodes[0], p.After.Nodes[0]
		for _, b := range p.After.Nodes {
			low.Leaders, high.Leaders = min(low.Leaders, b.Leaders), max(high.Leaders, b.Leaders)
			low.Replicas, high.Replicas = min(low.Replicas, b.Replicas), max(high.Replicas, b.Replicas)
		}
		if high.Leaders-low.Leaders > 1 || high.Replicas-low.Replicas > 1 {
			t.Fatalf("seed %d: stays uneven\n%s", seed, s.print(p))
		}
		if p.ReplicaMoves > surplus+2 { // a swap for the sake of leaders costs two
			t.Fatalf("seed %d: %d replica moves for a surplus of %d\n%s", seed, p.ReplicaMoves, surplus, s.print(p))
		}
	}
}

func BenchmarkRebalanceThousandPartitions(b *testing.B) {
	s := newStage(b)
	for id := range 4 {
		s.node(model.NodeID(id+1), func(*metadata.Node) {})
	}
	for i := range 1000 {
		s.topic(fmt.Sprintf("t%04d", i), [][]model.NodeID{{model.NodeID(i%3 + 1), model.NodeID((i+1)%3 + 1), model.NodeID((i+2)%3 + 1)}}, nil)
	}
	for b.Loop() {
		if p, _ := Rebalance(s.world, Options{}); p.ReplicaMoves != 750 {
			b.Fatal(p.ReplicaMoves)
		}
	}
}
