package operation

import (
	"fmt"
	"math/rand"
	"testing"
	"time"

	"github.com/ister-mq/ister/broker/internal/metadata"
	"github.com/ister-mq/ister/broker/internal/model"
	"github.com/ister-mq/ister/broker/internal/placement"
)

// randomWorld is a healthy cluster of 2 to 6 nodes whose topics lie on the first
// few of them. The seed alone decides.
func randomWorld(t testing.TB, r *rand.Rand) *world {
	n := 2 + r.Intn(5)
	w := newWorld(t, n)
	w.limits = Limits{MovesPerNode: 1 + r.Intn(4), MovesTotal: 1 + r.Intn(6)}
	old := 1 + r.Intn(n)
	for i := range 1 + r.Intn(6) {
		rf := 1 + r.Intn(min(3, old))
		var assignment [][]model.NodeID
		for range 1 + r.Intn(3) {
			var replicas []model.NodeID
			for _, k := range r.Perm(old)[:rf] {
				replicas = append(replicas, model.NodeID(k+1))
			}
			assignment = append(assignment, replicas)
		}
		w.topic(fmt.Sprintf("t%d", i), assignment)
	}
	w.serve()
	return w
}

// Whole operations run to their end with every command proposed twice; then the
// same plan is empty and nothing more is written.
func TestOperationsRunToTheirEnd(t *testing.T) {
	for seed := range int64(150) {
		r := rand.New(rand.NewSource(seed))
		w := randomWorld(t, r)
		w.twice = true
		node := model.NodeID(1 + r.Intn(len(w.image.Nodes)))
		make := map[string]func() (placement.Plan, error){
			"rebalance": func() (placement.Plan, error) { return placement.Rebalance(w.plan(), placement.Options{}) },
			"unload":    func() (placement.Plan, error) { return placement.Unload(w.plan(), node) },
			"heal":      func() (placement.Plan, error) { return placement.Heal(w.plan()) },
		}
		for _, kind := range []string{"rebalance", "unload", "rebalance", "heal"} {
			p, err := make[kind]()
			if err != nil {
				t.Fatal(err)
			}
			id, err := w.begin(p)
			if err != nil {
				t.Fatalf("seed %d: %s: %v", seed, kind, err)
			}
			w.run()
			// A drain from which leadership cannot leave stays blocked.
			o := w.image.Operations[id]
			stuck := kind == "unload" && p.Has(placement.SeverityError) && o.State == metadata.OpBlocked
			if o.State != metadata.OpSucceeded && !stuck {
				t.Fatalf("seed %d: %s ended as %s %s %s\n%s", seed, kind, o.State, o.Reason, o.Message, w.describe())
			}
			if again, _ := make[kind](); !again.Empty() && !stuck {
				t.Fatalf("seed %d: %s plans again\n%s", seed, kind, w.describe())
			}
			if c := CertificateOf(w.image, node); kind == "unload" && !stuck && (!c.Drained || w.image.Nodes[node].State != metadata.NodeDrained) {
				t.Fatalf("seed %d: not drained: %+v", seed, c)
			}
			w.quiet(seed)
			if stuck {
				w.must(&metadata.CancelOperation{Operation: id, Actor: "test"})
				w.run()
			}
		}
	}
}

// quiet asserts that an idle cluster writes nothing (A25).
func (w *world) quiet(seed int64) {
	before := w.image.Revision
	for range 50 {
		w.now = w.now.Add(time.Minute)
		if commands := w.step(); len(commands) > 0 {
			w.t.Fatalf("seed %d: an idle cluster still proposes %T %+v\n%s", seed, commands[0], commands[0], w.describe())
		}
		w.serve()
	}
	if w.image.Revision != before {
		w.t.Fatalf("seed %d: the metadata log grew while idle", seed)
	}
}

// Unload, cancel and activate in any order and at any time, while nodes die and
// come back: nothing in sync is ever lost, and once all nodes are back the state
// is that of the last command accepted (A7).
func TestFlipFlopEndsAsLastAccepted(t *testing.T) {
	for seed := range int64(150) {
		r := rand.New(rand.NewSource(seed))
		w := randomWorld(t, r)
		w.twice = seed%2 == 0
		node := model.NodeID(1 + r.Intn(len(w.image.Nodes)))
		last := ""
		var unload model.OperationID
		for range 200 {
			w.now = w.now.Add(time.Second)
			switch r.Intn(8) {
			case 0:
				p, err := placement.Unload(w.plan(), node)
				if err != nil {
					t.Fatal(err)
				}
				if id, err := w.begin(p); err == nil {
					if o := w.image.Operations[id]; o.State != metadata.OpCancelling {
						last, unload = "unload", id
					}
				}
			case 1:
				if unload != 0 {
					if _, err := w.propose(&metadata.CancelOperation{Operation: unload, Actor: "test"}); err == nil {
						last = "cancel"
					}
				}
			case 2:
				if _, err := w.propose(&metadata.SetNodeState{ID: node, State: metadata.NodeActive}); err == nil {
					last = "activate"
				}
			case 3:
				if victim := model.NodeID(1 + r.Intn(len(w.image.Nodes))); len(w.down) == 0 {
					w.kill(victim)
				}
			case 4:
				for id := range w.down {
					w.start(id)
				}
			case 5:
				w.slow = !w.slow
			default:
				w.step()
				w.serve()
			}
		}
		for id := range w.down {
			w.start(id)
		}
		w.slow = false
		w.run()
		w.endsAs(seed, last, node, unload)
		w.quiet(seed)
	}
}

func (w *world) endsAs(seed int64, last string, node model.NodeID, unload model.OperationID) {
	state := w.image.Nodes[node].State
	want := map[string]metadata.NodeState{"": metadata.NodeActive, "activate": metadata.NodeActive, "cancel": metadata.NodeActive, "unload": metadata.NodeDrained}[last]
	if last == "unload" {
		o := w.image.Operations[unload]
		switch {
		case o.State == metadata.OpBlocked: // nowhere to go: says so and stays draining
			if c := CertificateOf(w.image, node); c.Leaders == 0 {
				w.t.Fatalf("seed %d: blocked although nothing is in the way\n%s", seed, w.describe())
			}
			return
		case o.State == metadata.OpFailed: // targets died on the way: says to unload again
			want = metadata.NodeCordoned
		}
	}
	if state != want {
		w.t.Fatalf("seed %d: node %d is %s after %q\n%s", seed, node, state, last, w.describe())
	}
	for _, p := range w.image.SortedPartitions() {
		if p.Leader == model.NoNode {
			w.t.Fatalf("seed %d: %s has no leader\n%s", seed, p.ID, w.describe())
		}
		if len(p.Adding)+len(p.Removing)+len(p.Retiring) > 0 {
			w.t.Fatalf("seed %d: %s is left half moved\n%s", seed, p.ID, w.describe())
		}
	}
}
