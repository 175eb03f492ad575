package operation

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/ister-mq/ister/broker/internal/metadata"
	"github.com/ister-mq/ister/broker/internal/model"
	"github.com/ister-mq/ister/broker/internal/placement"
)

// Stories run lines against a toy cluster. `step` prints the commands of one
// Step, `serve` lets the nodes work for one tick, `run` does both until nothing
// changes. Partitions print as: replicas | isr | leader, +adding -removing
// ~retiring.
func TestStories(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		var w *world
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd == "cluster" {
				n, _ := strconv.Atoi(strings.TrimSpace(d.Input))
				w = newWorld(t, n)
				return "ok\n"
			}
			w.t = t
			out := ""
			for _, line := range strings.Split(d.Input, "\n") {
				if line != "" {
					out += w.line(strings.Fields(line))
				}
			}
			if out == "" {
				return "ok\n"
			}
			return out
		})
	})
}

func (w *world) line(fields []string) string {
	args := map[string]string{}
	var words []string
	for _, f := range fields[1:] {
		if k, v, ok := strings.Cut(f, "="); ok {
			args[k] = v
		} else {
			words = append(words, f)
		}
	}
	node := func() model.NodeID { return nodeIDs(words[0])[0] }
	switch fields[0] {
	case "topic": // NAME REPLICAS/REPLICAS..
		var assignment [][]model.NodeID
		for _, p := range strings.Split(words[1], "/") {
			assignment = append(assignment, nodeIDs(p))
		}
		w.topic(words[0], assignment)
		w.serve()
	case "delete":
		w.must(&metadata.DeleteTopic{Name: model.TopicName{Namespace: "default", Topic: words[0]}})
	case "kill":
		w.kill(node())
	case "start":
		w.start(node())
	case "add":
		w.must(&metadata.AddNode{Node: newNode(node())})
		w.start(node())
		w.must(&metadata.SetNodeState{ID: node(), State: metadata.NodeActive})
	case "cordon":
		w.must(&metadata.SetNodeState{ID: node(), State: metadata.NodeCordoned})
	case "slow":
		w.slow = words[0] == "on"
	case "limits":
		n, _ := strconv.Atoi(args["node"])
		total, _ := strconv.Atoi(args["total"])
		w.limits = Limits{MovesPerNode: n, MovesTotal: total}
	case "sleep":
		d, _ := time.ParseDuration(words[0])
		w.now = w.now.Add(d)
	case "rebalance":
		return w.beginLine(placement.Rebalance(w.plan(), placement.Options{}))
	case "unload":
		return w.beginLine(placement.Unload(w.plan(), node()))
	case "move":
		n, _ := strconv.Atoi(args["to"])
		return w.beginLine(placement.MoveTopic(w.plan(), model.TopicName{Namespace: "default", Topic: words[0]}, model.NodeID(n), args["replicas"] == "true"))
	case "heal":
		return w.beginLine(placement.Heal(w.plan()))
	case "cancel":
		n, _ := strconv.Atoi(words[0])
		if _, err := w.propose(&metadata.CancelOperation{Operation: model.OperationID(n), Actor: "test"}); err != nil {
			return err.Error() + "\n"
		}
	case "activate":
		if _, err := w.propose(&metadata.SetNodeState{ID: node(), State: metadata.NodeActive}); err != nil {
			return err.Error() + "\n"
		}
	case "step":
		w.now = w.now.Add(time.Second)
		commands := w.step()
		if len(commands) == 0 {
			return "nothing to do\n"
		}
		return w.commands(commands)
	case "serve":
		w.serve()
	case "run":
		w.run()
		return w.operations()
	case "show":
		return w.describe()
	case "certificate":
		return fmt.Sprintf("%+v\n", CertificateOf(w.image, node()))
	case "remove?", "promote?", "preflight":
		return w.judge(fields[0], words, args)
	default:
		w.t.Fatalf("command %q is not known", fields[0])
	}
	return ""
}

func (w *world) beginLine(p placement.Plan, err error) string {
	if err == nil {
		_, err = w.begin(p)
	}
	if err != nil {
		return err.Error() + "\n"
	}
	return ""
}

// judge reads: NODE voters=1,2,3 [unknown=2] [dead=3] [pending=true] [lag=N]
// [learners=4] [min=N] [controller=1].
func (w *world) judge(what string, words []string, args map[string]string) string {
	var q QuorumView
	if v := nodeIDs(args["voters"]); len(v) > 0 {
		q = w.quorum(v)
	}
	for _, id := range nodeIDs(args["learners"]) {
		lag, _ := strconv.ParseUint(args["lag"], 10, 64)
		q.Learners = append(q.Learners, Member{Node: id, Known: true, Alive: !w.down[id], AppliedLag: lag})
	}
	for _, members := range [][]Member{q.Voters, q.Learners} {
		for i := range members {
			members[i].Known = !slices.Contains(nodeIDs(args["unknown"]), members[i].Node)
			members[i].Alive = members[i].Alive && !slices.Contains(nodeIDs(args["dead"]), members[i].Node)
		}
	}
	q.Pending = args["pending"] == "true"
	q.MinVoters, _ = strconv.Atoi(args["min"])
	if v, ok := args["controller"]; ok {
		q.Controller = append(nodeIDs(v), model.NoNode)[0]
	}
	var findings []Finding
	safe, out := false, ""
	switch what {
	case "remove?":
		safe, findings = SafeToRemove(w.image, nodeIDs(words[0])[0], q)
		out = fmt.Sprintf("safe %v\n", safe)
	case "promote?":
		safe, findings = SafeToPromote(w.image, nodeIDs(words[0])[0], q)
		out = fmt.Sprintf("safe %v\n", safe)
	default:
		req := Request{Kind: metadata.OperationKind(words[0]), Replicas: args["replicas"] == "true"}
		if v := nodeIDs(args["node"]); len(v) > 0 {
			req.Node = v[0]
		}
		req.Topic = model.TopicName{Namespace: "default", Topic: args["topic"]}
		var plan placement.Plan
		plan, findings = Preflight(w.plan(), q, req)
		out = fmt.Sprintf("%d moves\n", len(plan.Moves))
	}
	for _, f := range findings {
		out += fmt.Sprintf("%s %s %s: %s", f.Severity, f.Code, f.Object, f.Message)
		if f.Remedy != "" {
			out += " | " + f.Remedy
		}
		out += "\n"
	}
	return out
}

func (w *world) commands(commands []metadata.Command) string {
	var b strings.Builder
	name := func(id model.Partition) string {
		return strings.TrimPrefix(partitionName(w.image, id), "/default/")
	}
	for _, c := range commands {
		switch c := c.(type) {
		case *metadata.AdvanceMove:
			fmt.Fprintf(&b, "%s %s -> %s", c.Operation, name(c.Partition), c.To)
			if c.Reason != "" {
				fmt.Fprintf(&b, " %s", c.Reason)
			}
		case *metadata.ElectLeaders:
			b.WriteString("elect")
			for _, e := range c.Elections {
				fmt.Fprintf(&b, " %s: %d", name(e.Partition), e.Leader)
			}
		case *metadata.FinishOperation:
			fmt.Fprintf(&b, "%s is %s %s", c.Operation, c.State, strings.TrimSpace(c.Reason+" "+c.Message))
		}
		b.WriteString("\n")
	}
	return b.String()
}

func nodeIDs(v string) []model.NodeID {
	var out []model.NodeID
	for _, f := range strings.FieldsFunc(v, func(r rune) bool { return r == ',' }) {
		n, _ := strconv.Atoi(f)
		out = append(out, model.NodeID(n))
	}
	return out
}
