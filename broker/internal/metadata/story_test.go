package metadata

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/ister-mq/ister/broker/internal/model"
)

// story runs commands against one image. Each line of input is a command; the
// output is what changed, or the refusal. Partitions are written topic/index,
// printed as: replicas | isr | leader@epoch, with +adding -removing ~retiring.
type story struct {
	t     *testing.T
	image *Image
	uuids byte
}

func (s *story) env() Env {
	return Env{
		Now: time.Unix(1_700_000_000+int64(s.image.Revision), 0).UTC(),
		NewUUID: func() [16]byte {
			s.uuids++
			return [16]byte{15: s.uuids}
		},
	}
}

// fence is none, or with stale one of a placement before the present one.
func (s *story) fence(args map[string]string) model.Revision {
	if args["stale"] == "" {
		return 0
	}
	return s.image.PlacementRevision - 1
}

func (s *story) propose(cmd Command) string {
	raw, err := EncodeCommand(cmd)
	if err != nil {
		s.t.Fatal(err)
	}
	if cmd, err = DecodeCommand(raw); err != nil {
		s.t.Fatal(err)
	}
	d, err := Decide(s.image, cmd, s.env())
	if err != nil {
		return err.Error() + "\n"
	}
	if len(d.Records) == 0 {
		return "nothing to write\n"
	}
	raw, err = EncodeBatches([]Batch{{Base: s.image.Revision, Records: d.Records}})
	if err != nil {
		s.t.Fatal(err)
	}
	batches, err := DecodeBatches(raw)
	if err != nil {
		s.t.Fatal(err)
	}
	before := s.image
	after, ok := before.Apply(batches[0])
	if !ok {
		s.t.Fatal("batch was stale")
	}
	if _, again := after.Apply(batches[0]); again {
		s.t.Fatal("a batch applied twice")
	}
	s.image = after
	checkImage(s.t, after)
	return s.diff(before)
}

// checkImage asserts what doc.go says must hold.
func checkImage(t testing.TB, im *Image) {
	t.Helper()
	for _, p := range im.SortedPartitions() {
		if len(p.ISR) == 0 {
			t.Fatalf("%s: the ISR is empty", p.ID)
		}
		if p.Leader != model.NoNode && !model.HasNode(p.ISR, p.Leader) {
			t.Fatalf("%s: leader %d is not in the ISR %v", p.ID, p.Leader, p.ISR)
		}
		if p.Leader != model.NoNode && !im.Unfenced(p.Leader) {
			t.Fatalf("%s: leader %d is fenced", p.ID, p.Leader)
		}
		for _, n := range p.ISR {
			if !model.HasNode(p.Replicas, n) {
				t.Fatalf("%s: ISR member %d is not a replica %v", p.ID, n, p.Replicas)
			}
		}
	}
}

func (s *story) diff(before *Image) string {
	var b strings.Builder
	c := s.image.ChangedSince(before)
	for _, id := range c.Nodes {
		fmt.Fprintf(&b, "node %d: %s\n", id, s.node(id))
	}
	for _, id := range c.Partitions {
		if p := s.image.Partition(id); p != nil {
			fmt.Fprintf(&b, "%s\n", s.partition(p))
		} else {
			fmt.Fprintf(&b, "partition of a deleted topic gone\n")
		}
	}
	for _, id := range c.Operations {
		if o := s.image.Operations[id]; o != nil {
			fmt.Fprintf(&b, "%s %s: %s %s\n", o.ID, o.Kind, o.State, moveStates(o))
		}
	}
	if s.image.PlacementRevision != before.PlacementRevision {
		b.WriteString("placement changed\n")
	}
	if b.Len() == 0 {
		return "ok\n"
	}
	return b.String()
}

func moveStates(o *Operation) string {
	states := make([]string, len(o.Moves))
	for i, m := range o.Moves {
		states[i] = string(m.State)
	}
	return "[" + strings.Join(states, " ") + "]"
}

func (s *story) node(id model.NodeID) string {
	n := s.image.Nodes[id]
	if n == nil {
		return "removed"
	}
	out := string(n.State)
	if n.Fenced {
		out += " fenced"
	}
	return fmt.Sprintf("%s epoch %d", out, n.Epoch)
}

func (s *story) partition(p *Partition) string {
	name := s.image.Topics[p.ID.Topic].Name.Topic
	out := fmt.Sprintf("%s/%d: %s | isr %s | leader %d@%d", name, p.ID.Index, ids(p.Replicas), ids(p.ISR), p.Leader, p.LeaderEpoch)
	for _, part := range []struct {
		sign  string
		nodes []model.NodeID
	}{{"+", p.Adding}, {"-", p.Removing}, {"~", p.Retiring}} {
		if len(part.nodes) > 0 {
			out += " " + part.sign + ids(part.nodes)
		}
	}
	return out
}

func ids(nodes []model.NodeID) string {
	parts := make([]string, len(nodes))
	for i, n := range nodes {
		parts[i] = n.String()
	}
	return strings.Join(parts, ",")
}

func parseIDs(v string) []model.NodeID {
	var out []model.NodeID
	for _, f := range strings.FieldsFunc(v, func(r rune) bool { return r == ',' }) {
		n, _ := strconv.Atoi(f)
		out = append(out, model.NodeID(n))
	}
	return out
}

func (s *story) partitionID(v string) model.Partition {
	name, index, _ := strings.Cut(v, "/")
	i, _ := strconv.Atoi(index)
	t := s.image.Topic(model.TopicName{Namespace: "default", Topic: name})
	if t == nil {
		return model.Partition{Index: int32(i)}
	}
	return model.Partition{Topic: t.ID, Index: int32(i)}
}

func endpoints(n int) Endpoints {
	return Endpoints{Kafka: fmt.Sprintf("h%d:6650", n), Admin: fmt.Sprintf("h%d:50051", n), Raft: fmt.Sprintf("h%d:7650", n)}
}

func incarnation(n int) model.Incarnation { return model.Incarnation(fmt.Sprintf("inc-%d", n)) }

// line turns one line into a command and runs it.
func (s *story) line(line string) string {
	f := strings.Fields(line)
	args := map[string]string{}
	var words []string
	for _, w := range f[1:] {
		if k, v, ok := strings.Cut(w, "="); ok {
			args[k] = v
		} else {
			words = append(words, w)
		}
	}
	number := func(v string) int { n, _ := strconv.Atoi(v); return n }
	first := func() int { return number(words[0]) }
	id := func() model.NodeID { return model.NodeID(first()) }
	epoch := func(n model.NodeID) model.NodeEpoch {
		if v, ok := args["epoch"]; ok {
			return model.NodeEpoch(number(v))
		}
		if node := s.image.Nodes[n]; node != nil {
			return node.Epoch
		}
		return 0
	}
	switch f[0] {
	case "form":
		c := &FormCluster{Cluster: "c1"}
		for i := 1; i <= first(); i++ {
			c.Nodes = append(c.Nodes, NewNode{ID: model.NodeID(i), Incarnation: incarnation(i), Endpoints: endpoints(i)})
		}
		return s.propose(c)
	case "up": // register and unfence each
		out := ""
		for _, n := range parseIDs(words[0]) {
			s.propose(&RegisterNode{ID: n, Cluster: "c1", Incarnation: incarnation(int(n)), Endpoints: endpoints(int(n)), Clean: true})
			out += s.propose(&UnfenceNode{ID: n, Epoch: s.image.Nodes[n].Epoch})
		}
		return out
	case "add":
		return s.propose(&AddNode{Node: NewNode{ID: model.NodeID(number(args["id"])), Incarnation: incarnation(first()), Endpoints: endpoints(first())}})
	case "register":
		inc, cluster := first(), "c1"
		if v, ok := args["inc"]; ok {
			inc = number(v)
		}
		if v, ok := args["cluster"]; ok {
			cluster = v
		}
		return s.propose(&RegisterNode{ID: id(), Cluster: model.ClusterID(cluster), Incarnation: incarnation(inc), Endpoints: endpoints(first()), Clean: args["clean"] == "true"})
	case "unfence":
		return s.propose(&UnfenceNode{ID: id(), Epoch: epoch(id())})
	case "fence":
		return s.propose(&FenceNode{ID: id(), Epoch: epoch(id())})
	case "state":
		return s.propose(&SetNodeState{ID: id(), State: NodeState(words[1])})
	case "remove":
		return s.propose(&RemoveNode{ID: id()})
	case "namespace":
		if words[0] == "delete" {
			return s.propose(&DeleteNamespace{Name: words[1], PlacementRevision: s.fence(args)})
		}
		return s.propose(&CreateNamespace{Name: words[1]})
	case "create":
		n, err := model.ParseTopicName(words[0])
		if err != nil {
			return err.Error() + "\n"
		}
		c := &CreateTopic{Name: n, Partitions: number(args["p"]), Replicas: number(args["rf"]), Dispatch: Dispatch(args["dispatch"]), Config: map[string]string{}}
		for k, v := range args {
			if strings.Contains(k, ".") {
				c.Config[k] = v
			}
		}
		return s.propose(c)
	case "delete":
		n, _ := model.ParseTopicName(words[0])
		return s.propose(&DeleteTopic{Name: n, PlacementRevision: s.fence(args)})
	case "isr":
		return s.alterISR(words, args)
	case "elect":
		return s.propose(&ElectLeaders{Elections: []Election{{Partition: s.partitionID(words[0]), Leader: model.NodeID(number(args["leader"]))}}})
	case "move":
		return s.startMove(words, args)
	case "advance":
		return s.propose(&AdvanceMove{Operation: model.OperationID(first()), Partition: s.partitionID(words[1]), To: MoveState(words[2])})
	case "finish":
		return s.propose(&FinishOperation{Operation: model.OperationID(first()), State: OperationState(words[1]), Message: args["why"]})
	case "cancel":
		return s.propose(&CancelOperation{Operation: model.OperationID(first()), Actor: "test"})
	case "retired":
		return s.propose(&ReplicaRetired{Node: id(), Epoch: epoch(id()), Partitions: []model.Partition{s.partitionID(words[1])}})
	case "show":
		var b strings.Builder
		for _, n := range s.image.SortedNodes() {
			fmt.Fprintf(&b, "node %d: %s\n", n.ID, s.node(n.ID))
		}
		for _, p := range s.image.SortedPartitions() {
			fmt.Fprintf(&b, "%s\n", s.partition(p))
		}
		return b.String()
	}
	s.t.Fatalf("command %q is not known", f[0])
	return ""
}

func (s *story) alterISR(words []string, args map[string]string) string {
	p := s.image.Partition(s.partitionID(words[0]))
	change := ISRChange{Partition: p.ID, LeaderEpoch: p.LeaderEpoch, PartitionEpoch: p.PartitionEpoch}
	if v, ok := args["leader_epoch"]; ok {
		n, _ := strconv.Atoi(v)
		change.LeaderEpoch = model.LeaderEpoch(n)
	}
	if args["stale"] == "true" {
		change.PartitionEpoch--
	}
	for _, n := range parseIDs(args["to"]) {
		m := ISRMember{Node: n}
		if node := s.image.Nodes[n]; node != nil {
			m.Epoch = node.Epoch
		}
		if args["old"] == n.String() {
			m.Epoch--
		}
		change.ISR = append(change.ISR, m)
	}
	leader := p.Leader
	if v, ok := args["by"]; ok {
		leader = parseIDs(v)[0]
	}
	cmd := &AlterISR{Leader: leader, Epoch: s.image.Nodes[leader].Epoch, Changes: []ISRChange{change}}
	d, err := Decide(s.image, cmd, s.env())
	if err == nil {
		if r := d.Result.(*AlterISRResult).Changes[0]; r.Refusal != "" {
			return "refused " + r.Refusal + "\n"
		}
	}
	return s.propose(cmd)
}

func (s *story) startMove(words []string, args map[string]string) string {
	p := s.image.Partition(s.partitionID(words[0]))
	m := &Move{Partition: p.ID, From: p.Replicas, To: parseIDs(args["to"])}
	if v, ok := args["leader"]; ok {
		m.Leader = parseIDs(v)[0]
	}
	c := &StartOperation{Kind: OpMoveTopic, Subject: words[0], Actor: "test", Key: "move " + words[0], Moves: []*Move{m}, PlacementRevision: s.image.PlacementRevision}
	if v, ok := args["unload"]; ok {
		c.Kind, c.Node, c.Key = OpUnload, parseIDs(v)[0], "unload "+v
	}
	if args["stale"] == "true" {
		c.PlacementRevision--
	}
	return s.propose(c)
}

func TestStories(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		s := &story{t: t, image: Empty()}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			s.t = t
			var out strings.Builder
			for _, line := range strings.Split(strings.TrimSpace(d.Input), "\n") {
				got := s.line(line)
				if strings.Count(d.Input, "\n") > 0 {
					fmt.Fprintf(&out, "> %s\n", line)
				}
				out.WriteString(got)
			}
			return out.String()
		})
		raw, err := s.image.Encode()
		if err != nil {
			t.Fatal(err)
		}
		back, err := DecodeImage(raw)
		if err != nil {
			t.Fatal(err)
		}
		again, _ := back.Encode()
		if !slices.Equal(raw, again) {
			t.Fatal("the image changed over its encoding")
		}
	})
}
