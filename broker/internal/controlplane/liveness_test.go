package controlplane

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/ister-mq/ister/broker/internal/metadata"
	"github.com/ister-mq/ister/broker/internal/model"
	"github.com/ister-mq/ister/broker/internal/refusal"
)

// fencedAt waits until an image has the node fenced.
func fencedAt(t testing.TB, n *node, who model.NodeID) time.Time {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
	defer cancel()
	if !n.until(ctx, func(im *metadata.Image) bool { return im.Nodes[who] != nil && im.Nodes[who].Fenced }) {
		t.Fatalf("node %v was not fenced", who)
	}
	return time.Now()
}

func TestKilledNodeIsFencedAtOnce(t *testing.T) {
	nodes := cluster(t, 3)
	topic(t, nodes[0], "led")
	c := controllerOf(t, nodes...)
	victim := others(nodes, c)[0]
	start := time.Now()
	victim.kill()
	took := fencedAt(t, c, id(victim)).Sub(start)
	t.Logf("abrupt kill of a node to its fence: %v", took)
	if took > 500*time.Millisecond {
		t.Errorf("took %v, want well under 500ms", took)
	}
	for _, p := range c.Image().SortedPartitions() {
		if p.Leader == id(victim) || p.Leader == model.NoNode {
			t.Errorf("partition %v has leader %v", p.ID, p.Leader)
		}
	}
	// It comes back under a new epoch and is unfenced.
	old := c.Image().Nodes[id(victim)].Epoch
	if err := victim.run(); err != nil {
		t.Fatal(err)
	}
	allReady(t, victim)
	if _, epoch := victim.Self(); epoch <= old {
		t.Errorf("epoch %d after the restart, want more than %d", epoch, old)
	}
	if got := voters(c); len(got) != 3 {
		t.Errorf("voters %v: a restart must not change them", got)
	}
}

func TestKilledControllerIsReplacedAndFenced(t *testing.T) {
	nodes := cluster(t, 3)
	topic(t, nodes[0], "led")
	old := controllerOf(t, nodes...)
	left := others(nodes, old)
	start := time.Now()
	old.kill()
	next := controllerOf(t, left...)
	office := time.Since(start)
	fenced := fencedAt(t, next, id(old)).Sub(start)
	if _, err := left[0].Propose(t.Context(), &metadata.CreateNamespace{Name: "after"}); err != nil {
		t.Errorf("propose after the failover: %v", err)
	}
	t.Logf("abrupt kill of the controller: new one in office after %v, the old one fenced after %v", office, fenced)
	if office > 2*time.Second || fenced > office+300*time.Millisecond {
		t.Errorf("in office after %v and fenced after %v, want about 0.5s and little more", office, fenced)
	}
	for _, p := range next.Image().SortedPartitions() {
		if p.Leader == id(old) {
			t.Errorf("partition %v is still led by the dead node", p.ID)
		}
	}
	if old.LeaseValid() {
		// The dead node's own view, had it lived on: its lease must end.
		eventually(t, "the lease ends", func() bool { return !old.LeaseValid() })
	}
}

func TestSilentNodeIsFencedWhenItsLeaseIsOut(t *testing.T) {
	nodes := cluster(t, 3)
	c := controllerOf(t, nodes...)
	silent := others(nodes, c)[0]
	lease := c.timing.Lease
	silent.stepped.Store(true) // it lives and answers, but sends no heartbeat
	start := time.Now()
	var ended time.Time
	eventually(t, "its own lease ends", func() bool { ended = time.Now(); return !silent.LeaseValid() })
	fenced := fencedAt(t, c, id(silent))
	if fenced.Before(ended) && silent.LeaseValid() {
		t.Error("the controller fenced a node whose lease was good")
	}
	if took := fenced.Sub(start); took < lease/2 || took > 2*lease {
		t.Errorf("fenced after %v, want about the lease of %v", took, lease)
	}
	if got := voters(c); len(got) != 3 {
		t.Errorf("voters %v: silence must not change them", got)
	}
	silent.stepped.Store(false)
	allReady(t, silent)
}

func TestStepDownFencesAtOnce(t *testing.T) {
	nodes := cluster(t, 3)
	topic(t, nodes[0], "led")
	c := controllerOf(t, nodes...)
	leaving := others(nodes, c)[0]
	if err := leaving.StepDown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !c.Image().Nodes[id(leaving)].Fenced {
		t.Error("not fenced")
	}
	// And stays so, although its last heartbeat is fresh.
	_, epoch := leaving.Self()
	o := c.office.Load()
	_, _ = o.hear(heartbeat{Node: id(leaving), Epoch: epoch, Revision: c.Image().Revision})
	o.look(t.Context(), c.Image().Nodes[id(leaving)])
	o.mu.Lock()
	if o.contact(id(leaving)).changed {
		t.Error("the node that stops is being unfenced")
	}
	o.mu.Unlock()
	for _, p := range c.Image().SortedPartitions() {
		if p.Leader == id(leaving) {
			t.Errorf("partition %v is still led by the node that stops", p.ID)
		}
	}
}

func TestOrderlyStopOfTheControllerHandsOver(t *testing.T) {
	nodes := cluster(t, 3)
	old := controllerOf(t, nodes...)
	left := others(nodes, old)
	start := time.Now()
	old.stopNode()
	controllerOf(t, left...)
	if _, err := left[0].Propose(t.Context(), &metadata.CreateNamespace{Name: "x"}); err != nil {
		t.Fatal(err)
	}
	t.Logf("orderly stop of the controller until a change is made by the next: %v", time.Since(start))
}

// TestProposalsSurviveControllerChanges sends commands from every node while the
// office moves: each is carried out exactly once, refused, or said to be unknown.
func TestProposalsSurviveControllerChanges(t *testing.T) {
	nodes := cluster(t, 3)
	const each = 40
	var wait sync.WaitGroup
	type sent struct {
		name    string
		unknown bool
	}
	results := make(chan sent, each*len(nodes))
	for i, n := range nodes {
		wait.Go(func() {
			for j := range each {
				name := string(rune('a'+i)) + "-" + string(rune('a'+j/26)) + string(rune('a'+j%26))
				_, err := n.Propose(t.Context(), &metadata.CreateNamespace{Name: name})
				if err != nil && !refusal.Is(err, refusal.OutcomeUnknown) {
					t.Errorf("%s: %v", name, err)
				}
				results <- sent{name, err != nil}
			}
		})
	}
	for range 4 {
		c := controllerOf(t, nodes...)
		if _, err := c.TransferLeadership(t.Context(), Transfer{}); err != nil {
			t.Errorf("transfer: %v", err)
		}
	}
	wait.Wait()
	close(results)
	c := controllerOf(t, nodes...)
	unknown := 0
	for r := range results {
		if r.unknown {
			unknown++
		} else if c.Image().Namespaces[r.name] == nil {
			t.Errorf("%s was acknowledged and is lost", r.name)
		}
	}
	t.Logf("%d of %d outcomes unknown", unknown, each*len(nodes))
}

func TestProposeWithoutAControllerSaysSo(t *testing.T) {
	nodes := cluster(t, 3)
	for _, n := range nodes[1:] {
		n.kill()
	}
	eventually(t, "node 1 knows that it does not lead", func() bool { return nodes[0].office.Load() == nil })
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err := nodes[0].Propose(ctx, &metadata.CreateNamespace{Name: "n"})
	if !refusal.Is(err, refusal.NoController) && !refusal.Is(err, refusal.OutcomeUnknown) {
		t.Errorf("got %v", err)
	}
}

func TestOperationGoesOnAfterAControllerChange(t *testing.T) {
	nodes := cluster(t, 3)
	topic(t, nodes[0], "moved")
	leader := func(n *node) model.NodeID { return n.Image().SortedPartitions()[0].Leader }
	first := leader(nodes[0])
	owner := nodes[slices.IndexFunc(nodes, func(n *node) bool { return id(n) == first })]
	// The unload of a node of three with RF 3 moves leaderships only. The office
	// changes before and while it runs.
	c := controllerOf(t, nodes...)
	r := OperationRequest{Kind: metadata.OpUnload, Node: first, Actor: "test"}
	plan, err := nodes[0].StartOperation(t.Context(), OperationRequest{Kind: metadata.OpUnload, Node: first, DryRun: true})
	if err != nil || plan.Operation != nil || plan.Plan.Empty() {
		t.Fatalf("dry run: %+v, %v", plan, err)
	}
	late := r
	late.PlacementRevision = plan.Plan.PlacementRevision - 1
	if _, err := nodes[1].StartOperation(t.Context(), late); !refusal.Is(err, refusal.StaleRevision) {
		t.Fatalf("a plan of another placement was carried out: %v", err)
	}
	r.PlacementRevision = plan.Plan.PlacementRevision
	if _, err := c.TransferLeadership(t.Context(), Transfer{}); err != nil {
		t.Fatal(err)
	}
	started, err := owner.StartOperation(t.Context(), r)
	if err != nil || started.Operation == nil {
		t.Fatalf("start: %+v, %v", started, err)
	}
	controllerOf(t, nodes...).kill()
	alive := slices.DeleteFunc(slices.Clone(nodes), func(n *node) bool { return n.Plane.closed })
	eventually(t, "the operation ends", func() bool {
		op := alive[0].Image().Operations[started.Operation.ID]
		return op != nil && op.State == metadata.OpSucceeded
	})
	if got := leader(alive[0]); got == first || got == model.NoNode {
		t.Errorf("leader %v, want neither the unloaded node %v nor none", got, first)
	}
}
