package controlplane

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/ister-mq/ister/broker/internal/metadata"
	"github.com/ister-mq/ister/broker/internal/model"
	"github.com/ister-mq/ister/broker/internal/peer"
	"github.com/ister-mq/ister/broker/internal/refusal"
)

// Each test here leaves a change of membership between two of its steps, as a
// crash would, and expects the controller to finish it.

// TestAdmissionIsFinishedAfterACrash: the node has an id and was told nothing.
func TestAdmissionIsFinishedAfterACrash(t *testing.T) {
	t.Parallel()
	nodes := cluster(t, 3)
	n, err := start(t, reserve(t, 1)[0], joining)
	must(t, n, err)
	i := n.Info()
	if _, err := nodes[0].Propose(t.Context(), &metadata.AddNode{Node: metadata.NewNode{Incarnation: i.Incarnation, Endpoints: i.Endpoints}}); err != nil {
		t.Fatal(err)
	}
	allReady(t, n)
	if id(n) != 4 {
		t.Errorf("node id %v, want 4", id(n))
	}
	eventually(t, "it is a learner", func() bool {
		return slices.ContainsFunc(controllerOf(t, nodes...).Status(t.Context()).Members, func(m Member) bool { return m.Node == 4 && !m.Voter })
	})
}

// TestRemovalIsFinishedAfterACrash: the mark is set and nothing else done.
func TestRemovalIsFinishedAfterACrash(t *testing.T) {
	t.Parallel()
	nodes := cluster(t, 3)
	n := joined(t, nodes)
	if err := nodes[0].PromoteNode(t.Context(), 4); err != nil {
		t.Fatal(err)
	}
	if _, err := nodes[0].Propose(t.Context(), &metadata.SetNodeState{ID: 4, State: metadata.NodeLeaving}); err != nil {
		t.Fatal(err)
	}
	if e := <-n.removed; e.ExitStatus != ExitRemoved {
		t.Errorf("told %v", e)
	}
	if got := voters(controllerOf(t, nodes...)); len(got) != 3 {
		t.Errorf("voters %v", got)
	}
}

// TestTombstonedMemberLeavesTheQuorum: the metadata forgot the node before the
// quorum did.
func TestTombstonedMemberLeavesTheQuorum(t *testing.T) {
	t.Parallel()
	nodes := cluster(t, 3)
	n := joined(t, nodes)
	if err := nodes[0].PromoteNode(t.Context(), 4); err != nil {
		t.Fatal(err)
	}
	if _, err := nodes[0].Propose(t.Context(), &metadata.RemoveNode{ID: 4}); err != nil {
		t.Fatal(err)
	}
	if e := <-n.removed; e.Code != CodeNodeRemoved {
		t.Errorf("told %v", e)
	}
	eventually(t, "the quorum has three members", func() bool {
		return len(controllerOf(t, nodes...).Status(t.Context()).Members) == 3
	})
}

// TestFormingIsFinishedAfterACrash: the first seed wrote the intent and told
// nobody.
func TestFormingIsFinishedAfterACrash(t *testing.T) {
	t.Parallel()
	addresses := reserve(t, 2)
	slices.Sort(addresses)
	var idle []*node
	for _, a := range addresses {
		n, err := start(t, a, seeds(slices.Clone(addresses)...), func(c *Config) { c.Join = true })
		idle = append(idle, must(t, n, err)) // --join keeps them from forming by themselves
	}
	first, second := idle[0], idle[1]
	members := []metadata.NewNode{first.newNode(1), second.newNode(2)}
	for _, n := range idle {
		n.stopNode()
		n.cfg.Join = false
	}
	s, err := openIdentity(first.cfg.DataDir)
	if err != nil {
		t.Fatal(err)
	}
	err = s.update(func(i *identity) { i.Cluster, i.Node, i.State, i.Forming = "c", 1, StateForming, members })
	if err != nil || s.close() != nil {
		t.Fatal(err)
	}
	for _, n := range idle {
		if err := n.run(); err != nil {
			t.Fatal(err)
		}
	}
	allReady(t, idle...)
	if second.Info().Cluster != "c" || id(second) != 2 {
		t.Errorf("second seed: %+v", second.Info())
	}
}

// TestNodeKeepsItsIDOnAnotherAddress is E7: a rolling restart on other addresses.
func TestNodeKeepsItsIDOnAnotherAddress(t *testing.T) {
	t.Parallel()
	nodes := cluster(t, 3)
	for _, n := range nodes {
		n.stopNode()
		n.raft = reserve(t, 1)[0]
		n.cfg.Endpoints.Raft = n.raft
		n.cfg.SeedNodes = nil
		if err := n.run(); err != nil {
			t.Fatal(err)
		}
		allReady(t, nodes...)
	}
	status := controllerOf(t, nodes...).Status(t.Context())
	if len(status.Members) != 3 {
		t.Fatalf("members %+v", status.Members)
	}
	for i, m := range status.Members {
		if !m.Voter || m.Node != model.NodeID(i+1) || m.Address != nodes[i].raft {
			t.Errorf("member %+v, want voter %d at %s", m, i+1, nodes[i].raft)
		}
	}
	// All at once: nobody is there to tell the new addresses.
	for _, n := range nodes {
		n.stopNode()
	}
	for _, n := range nodes {
		if err := n.run(); err != nil {
			t.Fatal(err)
		}
	}
	allReady(t, nodes...)
}

// TestDuplicateEndpointIsRefused is E3.
func TestDuplicateEndpointIsRefused(t *testing.T) {
	t.Parallel()
	nodes := cluster(t, 1)
	n, err := start(t, reserve(t, 1)[0], joining, func(c *Config) { c.Endpoints.Kafka = nodes[0].cfg.Endpoints.Kafka })
	must(t, n, err)
	if _, err := nodes[0].AddNode(t.Context(), n.admin.URL, false); !refusal.Is(err, refusal.EndpointInUse) {
		t.Errorf("same kafka address: %v", err)
	}
	wrong, err := start(t, reserve(t, 1)[0], joining, func(c *Config) { c.Endpoints.Raft = nodes[0].raft })
	must(t, wrong, err)
	if _, err := nodes[0].AddNode(t.Context(), wrong.admin.URL, false); !refusal.Is(err, refusal.EndpointInUse) {
		t.Errorf("raft address of another node: %v", err)
	}
	if _, err := nodes[0].AddNode(t.Context(), "127.0.0.1:1", false); !refusal.Is(err, refusal.NodeUnreachable) {
		t.Errorf("nobody there: %v", err)
	}
}

// TestClusterGrowsAndShrinksAnyway is B3 and B19: 1 -> 2 -> 3 -> 2 -> 1 voters.
func TestClusterGrowsAndShrinksAnyway(t *testing.T) {
	t.Parallel()
	nodes := cluster(t, 1)
	for range 2 {
		n, err := start(t, reserve(t, 1)[0], joining)
		must(t, n, err)
		info, err := nodes[0].AddNode(t.Context(), n.admin.URL, false)
		if err != nil {
			t.Fatal(err)
		}
		allReady(t, n)
		if err := nodes[0].PromoteNode(t.Context(), info.Node); err != nil {
			t.Fatal(err)
		}
		nodes = append(nodes, n)
	}
	for i := 2; i > 0; i-- {
		who := id(nodes[i])
		if err := nodes[0].RemoveNode(t.Context(), who, RemoveOptions{}); err != nil {
			t.Fatal(err)
		}
		<-nodes[i].removed
	}
	if got := voters(nodes[0]); len(got) != 1 {
		t.Errorf("voters %v", got)
	}
	if err := nodes[0].RemoveNode(t.Context(), 1, RemoveOptions{}); err == nil {
		t.Error("the last node was removed")
	}
}

func TestIdentityFileIsCheckedInOrder(t *testing.T) {
	good, err := encodeIdentity(identity{Cluster: "c", Node: 3, Incarnation: "i", State: StateMember, Fellows: []fellow{{Node: 1, Address: "a:1"}}})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := decodeIdentity(good); err != nil || got.Node != 3 || len(got.Fellows) != 1 {
		t.Errorf("round trip: %+v, %v", got, err)
	}
	change := func(at int, to byte) []byte {
		b := slices.Clone(good)
		b[at] = to
		return b
	}
	lacking, _ := encodeIdentity(identity{Incarnation: "i", State: StateMember})
	odd, _ := encodeIdentity(identity{Incarnation: "i", State: "odd"})
	for name, b := range map[string][]byte{
		"empty": nil, "magic": change(0, 'X'), "newer version": change(5, 9), "length": change(11, 1),
		"checksum": change(12, good[12]+1), "body": change(20, 'X'), "cut": good[:len(good)-1],
		"member without cluster": lacking, "unknown state": odd,
	} {
		if _, err := decodeIdentity(b); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// TestIdentityV1IsRead keeps the format readable: testdata/v1 was written by the
// first version.
func TestIdentityV1IsRead(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("testdata", "v1", "identity"))
	if err != nil {
		t.Fatal(err)
	}
	got, err := decodeIdentity(b)
	want := identity{Cluster: "5f0c7b3e-0b5e-4c57-9a5e-1d2a6b0f7c11", Node: 3, Incarnation: "0e9d4c0a-6b0c-4f7e-8b7e-3a1f5c2d9e42", State: StateMember,
		Fellows: []fellow{{Node: 1, Address: "10.0.0.1:7650"}, {Node: 2, Address: "10.0.0.2:7651"}}}
	if err != nil || got.Cluster != want.Cluster || got.Node != want.Node || got.Incarnation != want.Incarnation || got.State != want.State || !equalFellows(got.Fellows, want.Fellows) {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
}

func FuzzIdentity(f *testing.F) {
	good, _ := encodeIdentity(identity{Incarnation: "i", State: StateFresh})
	f.Add(good)
	f.Fuzz(func(t *testing.T, b []byte) {
		if id, err := decodeIdentity(b); err == nil && id.Incarnation == "" {
			t.Error("an identity without incarnation was accepted")
		}
	})
}

func TestVerifierRefusesByType(t *testing.T) {
	p := &Plane{machine: newMachine()}
	im := metadata.Empty()
	im.Cluster = "c"
	im.Nodes[1] = &metadata.Node{ID: 1, Incarnation: "i1", Epoch: 9}
	im.Tombstones[2] = &metadata.Tombstone{ID: 2, Incarnation: "i2"}
	p.machine.set(im)
	for _, c := range []struct {
		from peer.Identity
		want refusal.Reason
	}{
		{peer.Identity{Node: 1, Incarnation: "i1", Epoch: 9}, ""},
		{peer.Identity{Node: 1, Incarnation: "i1"}, ""},            // not registered in this process yet
		{peer.Identity{Node: 1, Incarnation: "i1", Epoch: 10}, ""}, // this node lags
		{peer.Identity{Node: model.NodeID(8), Incarnation: "i8"}, ""},
		{peer.Identity{Node: 1, Incarnation: "i1", Epoch: 8}, refusal.StaleNodeEpoch},
		{peer.Identity{Node: 1, Incarnation: "wiped", Epoch: 9}, refusal.WrongIncarnation},
		{peer.Identity{Node: 2, Incarnation: "i2", Epoch: 3}, refusal.NodeRemoved},
	} {
		got := refusal.Reason("")
		if r := p.verify(c.from); r != nil {
			got = r.Reason
		}
		if got != c.want {
			t.Errorf("%+v: %q, want %q", c.from, got, c.want)
		}
	}
}
