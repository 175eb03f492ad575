package placement

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/ister-mq/ister/broker/internal/metadata"
	"github.com/ister-mq/ister/broker/internal/model"
)

// stage is a cluster that tests describe in lines, and the latest plan on it.
type stage struct {
	t     testing.TB
	world World
	plan  Plan
}

func newStage(t testing.TB) *stage {
	return &stage{t: t, world: World{
		Image: metadata.Empty(), Bytes: map[model.Partition]int64{}, Disk: map[model.NodeID]Disk{},
	}}
}

func (s *stage) put(records ...metadata.Record) {
	im, ok := s.world.Image.Apply(metadata.Batch{Base: s.world.Image.Revision, Records: records})
	if !ok {
		s.t.Fatal("batch was stale")
	}
	s.world.Image = im
}

func (s *stage) node(id model.NodeID, change func(*metadata.Node)) {
	n := metadata.Node{ID: id, State: metadata.NodeActive, Epoch: 1}
	if was := s.world.Image.Nodes[id]; was != nil {
		n = *was
	}
	change(&n)
	s.put(&metadata.NodeChanged{Node: &n})
}

// topic adds a topic whose partition i has the replicas assignment[i], all in
// sync, the first one leading.
func (s *stage) topic(name string, assignment [][]model.NodeID, change func(*metadata.Topic)) *metadata.Topic {
	var id model.TopicID
	id[15] = byte(len(s.world.Image.Topics) + 1)
	id[14] = byte((len(s.world.Image.Topics) + 1) >> 8)
	t := &metadata.Topic{
		ID: id, Name: model.TopicName{Namespace: "default", Topic: name}, Dispatch: metadata.Reliable,
		DesiredReplicas: len(assignment[0]), Config: map[string]string{},
	}
	for i, replicas := range assignment {
		t.Partitions = append(t.Partitions, &metadata.Partition{
			ID: model.Partition{Topic: id, Index: int32(i)}, Replicas: replicas,
			ISR: model.SortNodes(slices.Clone(replicas)), Leader: replicas[0],
		})
	}
	if change != nil {
		change(t)
	}
	s.put(&metadata.TopicCreated{Topic: t})
	return t
}

// apply puts the plan's end state in place: what an operation reaches when every
// node answers.
func (s *stage) apply(p Plan) {
	for _, m := range p.Moves {
		c := *s.world.Image.Partition(m.Partition)
		old := c.ISR
		c.Replicas, c.ISR = m.To, nil
		for _, id := range m.To {
			if !model.HasNode(m.From, id) || model.HasNode(old, id) {
				c.ISR = append(c.ISR, id)
			}
		}
		model.SortNodes(c.ISR)
		if m.Leader != model.NoNode {
			c.Leader = m.Leader
		}
		s.put(&metadata.PartitionChanged{Partition: &c})
	}
	if p.Node != model.NoNode {
		s.node(p.Node, func(n *metadata.Node) { n.State = metadata.NodeDrained })
	}
}

func TestStories(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		s := newStage(t)
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			s.t = t
			out := ""
			for _, line := range strings.Split(d.Input, "\n") {
				out += s.line(d.Cmd, strings.Fields(line))
			}
			if out == "" {
				return "ok\n"
			}
			return out
		})
	})
}

// line runs one line. Commands: nodes (N.., key=value), topic, disk, plan, apply,
// start (the plan becomes an operation under way), balance.
func (s *stage) line(cmd string, fields []string) string {
	args := map[string]string{}
	var words []string
	for _, f := range fields {
		if k, v, ok := strings.Cut(f, "="); ok {
			args[k] = v
		} else {
			words = append(words, f)
		}
	}
	switch cmd {
	case "nodes":
		for _, id := range nodeIDs(words[0]) {
			s.node(id, func(n *metadata.Node) {
				if v, ok := args["state"]; ok {
					n.State = metadata.NodeState(v)
				}
				if v, ok := args["rack"]; ok {
					n.Rack = v
				}
				n.Fenced = args["fenced"] == "true"
			})
		}
	case "topic":
		s.topicLine(words, args)
	case "disk":
		for _, id := range nodeIDs(words[0]) {
			s.world.Disk[id] = Disk{TotalBytes: number(args["total"]), FreeBytes: number(args["free"]), Known: true}
		}
	case "plan":
		return s.planLine(words, args)
	case "start":
		o := &metadata.Operation{ID: s.world.Image.NextOperation, Kind: s.plan.Kind, State: metadata.OpRunning, Key: s.plan.Subject, Moves: s.plan.Moves, Node: s.plan.Node}
		if v, ok := args["state"]; ok {
			o.State = metadata.OperationState(v)
		}
		s.put(&metadata.OperationStarted{Operation: o})
	case "apply":
		s.apply(s.plan)
		return balanceLine("now   ", Measure(s.world.Image))
	case "balance":
		return balanceLine("now   ", MeasureWorld(s.world))
	default:
		s.t.Fatalf("command %q is not known", cmd)
	}
	return ""
}

// topicLine reads: NAME replicas=1,2,3/2,3,1 [isr=..] [leader=N] [desired=N]
// [min=N] [bytes=N]; or NAMES x COUNT to make several, their replicas rotated.
func (s *stage) topicLine(words []string, args map[string]string) {
	var assignment [][]model.NodeID
	for _, p := range strings.Split(args["replicas"], "/") {
		assignment = append(assignment, nodeIDs(p))
	}
	names := []string{words[0]}
	if len(words) == 3 {
		names = nil
		for i := range number(words[2]) {
			names = append(names, fmt.Sprintf("%s%02d", words[0], i+1))
		}
	}
	for i, name := range names {
		rotated := make([][]model.NodeID, len(assignment))
		for j, a := range assignment {
			k := i % len(a)
			rotated[j] = append(slices.Clone(a[k:]), a[:k]...)
		}
		t := s.topic(name, rotated, func(t *metadata.Topic) {
			if v, ok := args["desired"]; ok {
				t.DesiredReplicas = int(number(v))
			}
			if v, ok := args["min"]; ok {
				t.Config[metadata.KeyMinISR] = v
			}
			for _, p := range t.Partitions {
				if v, ok := args["isr"]; ok {
					p.ISR = nodeIDs(v)
				}
				if v, ok := args["leader"]; ok {
					p.Leader = model.NodeID(number(v))
				}
			}
		})
		for _, p := range t.Partitions {
			if v, ok := args["bytes"]; ok {
				s.world.Bytes[p.ID] = number(v)
			}
		}
	}
}

func (s *stage) planLine(words []string, args map[string]string) string {
	var err error
	switch words[0] {
	case "rebalance":
		s.plan, err = Rebalance(s.world, Options{MaxMoves: int(number(args["max"]))})
	case "unload":
		s.plan, err = Unload(s.world, nodeIDs(words[1])[0])
	case "move":
		s.plan, err = MoveTopic(s.world, model.TopicName{Namespace: "default", Topic: words[1]}, model.NodeID(number(args["to"])), args["replicas"] == "true")
	case "heal":
		s.plan, err = Heal(s.world)
	}
	if err != nil {
		return err.Error() + "\n"
	}
	return s.print(s.plan)
}

func (s *stage) print(p Plan) string {
	var b strings.Builder
	if !p.Empty() {
		b.WriteString(balanceLine("before", p.Before))
		b.WriteString(balanceLine("after ", p.After))
	}
	for i, m := range p.Moves {
		fmt.Fprintf(&b, "%d. %s-%d: %s -> %s", i+1, s.world.Image.Topics[m.Partition.Topic].Name.Topic, m.Partition.Index, join(m.From), join(m.To))
		if m.Leader != model.NoNode {
			fmt.Fprintf(&b, " leader %d", m.Leader)
		}
		b.WriteString("\n")
	}
	fmt.Fprintf(&b, "%d replica moves, %d leader moves, %d bytes\n", p.ReplicaMoves, p.LeaderMoves, p.BytesMoved)
	for _, f := range p.Findings {
		fmt.Fprintf(&b, "%s %s %s: %s", f.Severity, f.Code, f.Object, f.Message)
		if f.Remedy != "" {
			fmt.Fprintf(&b, " | %s", f.Remedy)
		}
		b.WriteString("\n")
	}
	return b.String()
}

func balanceLine(title string, b Balance) string {
	var leaders, replicas []string
	for _, n := range b.Nodes {
		leaders = append(leaders, strconv.Itoa(n.Leaders))
		replicas = append(replicas, strconv.Itoa(n.Replicas))
	}
	return fmt.Sprintf("%s leaders %s (cv %s) replicas %s (cv %s)\n", title,
		strings.Join(leaders, ","), cv(b.LeaderCV), strings.Join(replicas, ","), cv(b.ReplicaCV))
}

func cv(v *float64) string {
	if v == nil {
		return "none"
	}
	return fmt.Sprintf("%.2f", *v)
}

func join(ids []model.NodeID) string {
	parts := make([]string, len(ids))
	for i, id := range ids {
		parts[i] = id.String()
	}
	return strings.Join(parts, ",")
}

func nodeIDs(v string) []model.NodeID {
	var out []model.NodeID
	for _, f := range strings.FieldsFunc(v, func(r rune) bool { return r == ',' }) {
		out = append(out, model.NodeID(number(f)))
	}
	return out
}

func number(v string) int64 {
	n, _ := strconv.ParseInt(v, 10, 64)
	return n
}
