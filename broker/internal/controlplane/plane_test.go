package controlplane

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ister-mq/ister/broker/internal/metadata"
	"github.com/ister-mq/ister/broker/internal/model"
	"github.com/ister-mq/ister/broker/internal/peer"
	"github.com/ister-mq/ister/broker/internal/refusal"
)

// node is one plane with its endpoint and its admin endpoint, in this process.
type node struct {
	*Plane
	t       testing.TB
	cfg     Config
	raft    string
	admin   *httptest.Server
	holder  atomic.Pointer[Plane]
	removed chan *Error
}

func testLog(name string) *slog.Logger {
	if os.Getenv("ISTER_TEST_LOG") == "" {
		return slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug})).With("at", name)
}

// reserved counts the ports looked at, from anywhere.
var reserved = func() *atomic.Int64 {
	var n atomic.Int64
	n.Store(rand.Int64N(20_000))
	return &n
}()

// reserve finds free addresses. They lie below the ports that the system gives to
// outgoing connections, which could otherwise take one before its node listens, and
// no two calls look at the same ones.
func reserve(t testing.TB, n int) []string {
	t.Helper()
	var out []string
	for range 1000 {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 10_000+reserved.Add(1)%20_000))
		if err != nil {
			continue
		}
		defer func() { _ = l.Close() }()
		if out = append(out, l.Addr().String()); len(out) == n {
			return out
		}
	}
	t.Fatalf("found %d of %d free ports", len(out), n)
	return nil
}

type option func(*Config)

func seeds(s ...string) option { return func(c *Config) { c.SeedNodes = s } }
func joining(c *Config)        { c.Join = true }
func dataDir(d string) option  { return func(c *Config) { c.DataDir = d } }
func wants(id model.NodeID) option {
	return func(c *Config) { c.NodeID = id }
}

// start runs a node on a raft address.
func start(t testing.TB, raft string, opts ...option) (*node, error) {
	t.Helper()
	n := &node{t: t, raft: raft, removed: make(chan *Error, 1)}
	n.admin = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p := n.holder.Load()
		if p == nil || r.URL.Path != InfoPath {
			http.NotFound(w, r)
			return
		}
		_ = json.NewEncoder(w).Encode(p.Info())
	}))
	t.Cleanup(n.admin.Close)
	n.cfg = Config{
		Endpoints: metadata.Endpoints{Raft: raft, Admin: n.admin.Listener.Addr().String(), Kafka: "kafka." + raft},
		Report: func() Report {
			return Report{Known: true, Disk: Disk{TotalBytes: 1 << 40, FreeBytes: 1 << 39, Known: true}}
		},
		OnRemoved: func(e *Error) { n.removed <- e },
		Logger:    testLog(raft),
		// Kept in the test of its own; elsewhere a slow machine must not fence.
		Timing: Timing{Heartbeat: 50 * time.Millisecond},
	}
	for _, o := range opts {
		o(&n.cfg)
	}
	if n.cfg.DataDir == "" {
		n.cfg.DataDir = t.TempDir()
	}
	return n, n.run()
}

// run starts the node's process, again too.
func (n *node) run() error {
	l, err := net.Listen("tcp", n.raft)
	if err != nil {
		return err
	}
	n.cfg.Peer = peer.New(peer.Config{Listener: l, Logger: n.cfg.Logger})
	endpoint := n.cfg.Peer
	p, err := Start(context.Background(), n.cfg)
	if err != nil {
		_ = endpoint.Close()
		return err
	}
	n.Plane = p
	n.holder.Store(p)
	n.t.Cleanup(func() { _ = p.Close(); _ = endpoint.Close() })
	return nil
}

// kill ends the process as abruptly as one process can do it to a part of
// itself: connections first, no hand-over.
func (n *node) kill() {
	n.t.Helper()
	_ = n.cfg.Peer.Close()
	n.Plane.mu.Lock()
	n.Plane.closed = true
	n.Plane.mu.Unlock()
	if err := n.Plane.stop(); err != nil {
		n.t.Log(err)
	}
}

// stop ends the process in order.
func (n *node) stopNode() {
	n.t.Helper()
	if err := n.Close(); err != nil {
		n.t.Fatal(err)
	}
	if err := n.cfg.Peer.Close(); err != nil {
		n.t.Fatal(err)
	}
}

func must(t testing.TB, n *node, err error) *node {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(15 * time.Second)
	for !cond() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("timed out waiting until %s", what)
		}
	}
}

func (n *node) ready() bool { ok, _ := n.Ready(); return ok }

// cluster starts nodes that form one and waits until all are ready.
func cluster(t testing.TB, size int, opts ...option) []*node {
	t.Helper()
	addresses := reserve(t, size)
	slices.Sort(addresses)
	var nodes []*node
	for _, a := range addresses {
		n, err := start(t, a, append(opts, seeds(addresses...))...)
		nodes = append(nodes, must(t, n, err))
	}
	allReady(t, nodes...)
	return nodes
}

func allReady(t testing.TB, nodes ...*node) {
	t.Helper()
	for _, n := range nodes {
		eventually(t, "node "+n.raft+" is ready", n.ready)
	}
}

// controllerOf is the node in office that the others follow.
func controllerOf(t testing.TB, nodes ...*node) *node {
	t.Helper()
	var found *node
	eventually(t, "a controller is in office", func() bool {
		for _, n := range nodes {
			if n.office.Load() != nil {
				found = n
				return true
			}
		}
		return false
	})
	return found
}

func others(nodes []*node, not *node) []*node {
	return slices.DeleteFunc(slices.Clone(nodes), func(n *node) bool { return n == not })
}

func id(n *node) model.NodeID { i, _ := n.Self(); return i }

func voters(n *node) []model.NodeID {
	var out []model.NodeID
	for _, m := range n.Status(context.Background()).Members {
		if m.Voter {
			out = append(out, m.Node)
		}
	}
	return out
}

func topic(t testing.TB, n *node, name string) {
	t.Helper()
	parsed, err := model.ParseTopicName(name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := n.Propose(t.Context(), &metadata.CreateTopic{Name: parsed, Partitions: 2}); err != nil {
		t.Fatal(err)
	}
}

func TestSingleNodeIsAClusterOfOne(t *testing.T) {
	t.Parallel()
	n, err := start(t, reserve(t, 1)[0])
	must(t, n, err)
	allReady(t, n)
	topic(t, n, "a")
	if got := id(n); got != 1 {
		t.Errorf("node id %v, want 1", got)
	}
	cluster, epoch := n.Info().Cluster, int64(0)
	_, e := n.Self()
	epoch = int64(e)
	n.stopNode()
	if err := n.run(); err != nil {
		t.Fatal(err)
	}
	allReady(t, n)
	_, e = n.Self()
	if n.Info().Cluster != cluster || int64(e) <= epoch || n.Image().TopicByKafkaName("a") == nil {
		t.Errorf("after the restart: cluster %s epoch %d, want %s and more than %d, and the topic", n.Info().Cluster, e, cluster, epoch)
	}
}

func TestSeedsFormOneClusterAndRestart(t *testing.T) {
	t.Parallel()
	nodes := cluster(t, 3)
	for i, n := range nodes {
		if id(n) != model.NodeID(i+1) {
			t.Errorf("node at %s has id %v, want %d: ids follow the sorted seeds", n.raft, id(n), i+1)
		}
		if got := voters(n); len(got) != 3 {
			t.Errorf("node %d sees voters %v", i+1, got)
		}
	}
	// Forward from every node.
	for i, n := range nodes {
		topic(t, n, fmt.Sprintf("t%d", i))
		if n.Image().TopicByKafkaName(fmt.Sprintf("t%d", i)) == nil {
			t.Errorf("node %d does not see what it proposed", i+1)
		}
	}
	_, err := nodes[1].Propose(t.Context(), &metadata.CreateNamespace{Name: "default"})
	if !refusal.Is(err, refusal.NamespaceExists) {
		t.Errorf("refusal through a follower: %v", err)
	}
	// All down, all up, faster than any lease: nobody is lost (B15, B17).
	for _, n := range nodes {
		n.stopNode()
	}
	for _, n := range nodes {
		if err := n.run(); err != nil {
			t.Fatal(err)
		}
	}
	allReady(t, nodes...)
	if got := voters(nodes[2]); len(got) != 3 || nodes[0].Image().TopicByKafkaName("t2") == nil {
		t.Errorf("after the restart: voters %v, topics %d", got, len(nodes[0].Image().Topics))
	}
}

func TestFormingWaitsForEverySeed(t *testing.T) {
	t.Parallel()
	addresses := reserve(t, 3)
	a, err := start(t, addresses[0], seeds(addresses...))
	must(t, a, err)
	b, err := start(t, addresses[1], seeds(addresses...), wants(7))
	must(t, b, err)
	// Both have asked each other; the third is missing.
	eventually(t, "two seeds know of each other", func() bool {
		var got seedAnswer
		return a.peer.Call(t.Context(), peer.Target{Address: b.raft}, methodSeedHello, seedHello{}, &got) == nil && got.Info.State == StateFresh
	})
	if a.Info().State != StateFresh || b.Info().State != StateFresh {
		t.Fatal("a cluster was formed without all seeds")
	}
	if ok, waits := a.Ready(); ok || len(waits) == 0 {
		t.Error("a seed that waits is ready")
	}
	c, err := start(t, addresses[2], seeds(addresses...))
	must(t, c, err)
	allReady(t, a, b, c)
	if id(b) != 7 {
		t.Errorf("node id %v, want the 7 that was asked for", id(b))
	}
}

func TestSeedStartedWithJoinIsMissing(t *testing.T) {
	t.Parallel()
	addresses := reserve(t, 2)
	a, err := start(t, addresses[0], seeds(addresses...))
	must(t, a, err)
	b, err := start(t, addresses[1], joining)
	must(t, b, err)
	eventually(t, "the seed has asked", func() bool {
		_, missing := a.askSeeds(t.Context(), sortedSeeds(addresses))
		return slices.Equal(missing, []string{b.raft})
	})
	if a.Info().State != StateFresh {
		t.Error("a cluster was formed with a node that waits to join one")
	}
}

func TestSettingsThatCannotWorkAreRefused(t *testing.T) {
	t.Parallel()
	addresses := reserve(t, 2)
	check := func(what, code string, exit int, opts ...option) {
		t.Helper()
		_, err := start(t, addresses[0], opts...)
		var e *Error
		if !errors.As(err, &e) || e.Code != code || e.ExitStatus != exit || e.Advice == "" {
			t.Errorf("%s: %v, want %s with exit status %d and advice", what, err, code, exit)
		}
	}
	check("own address not among the seeds", CodeSeedMismatch, ExitUsage, seeds("localhost:1", addresses[1]))
	check("a seed twice", CodeSeedMismatch, ExitUsage, seeds(addresses[0], addresses[0]))

	dir := t.TempDir()
	n, err := start(t, addresses[1], dataDir(dir))
	must(t, n, err)
	check("directory in use", CodeDataDirInUse, ExitDataDirInUse, dataDir(dir))
	allReady(t, n)
	n.stopNode()
	check("other node id", CodeWrongIdentity, ExitWrongIdentity, dataDir(dir), wants(5))
	if err := os.WriteFile(dir+"/"+identityName, []byte("ISIDxx"), 0o644); err != nil {
		t.Fatal(err)
	}
	check("damaged identity", CodeDataDirDamaged, ExitWrongIdentity, dataDir(dir))
	if err := os.Remove(dir + "/" + identityName); err != nil {
		t.Fatal(err)
	}
	check("lost identity", CodeDataDirDamaged, ExitWrongIdentity, dataDir(dir))
}

func TestWipedSeedIsRefused(t *testing.T) {
	t.Parallel()
	nodes := cluster(t, 3)
	for _, n := range []*node{nodes[0], nodes[2]} { // the first seed, and another
		old := n.cfg.DataDir
		n.stopNode()
		n.cfg.DataDir = t.TempDir()
		if err := n.run(); err != nil {
			t.Fatal(err)
		}
		if e := <-n.removed; e.Code != CodeDiskWiped || e.ExitStatus != ExitWrongIdentity {
			t.Errorf("wiped seed: %v", e)
		}
		n.stopNode()
		n.cfg.DataDir = old
		if err := n.run(); err != nil {
			t.Fatal(err)
		}
		allReady(t, nodes...)
	}
	// Under its old id by --join it is refused too.
	n := nodes[0]
	n.stopNode()
	n.cfg.DataDir, n.cfg.Join, n.cfg.SeedNodes, n.cfg.NodeID = t.TempDir(), true, nil, 1
	if err := n.run(); err != nil {
		t.Fatal(err)
	}
	_, err := nodes[1].AddNode(t.Context(), n.admin.URL, false)
	if !refusal.Is(err, refusal.NodeExists) {
		t.Errorf("wiped node under a known id: %v", err)
	}
}

func TestDataDirectoryOfAnotherCluster(t *testing.T) {
	t.Parallel()
	nodes := cluster(t, 3)
	alone, err := start(t, reserve(t, 1)[0])
	must(t, alone, err)
	allReady(t, alone)
	alone.stopNode()
	alone.cfg.SeedNodes = []string{nodes[0].raft, alone.raft}
	var e *Error
	if err := alone.run(); !errors.As(err, &e) || e.Code != CodeWrongCluster || e.ExitStatus != ExitWrongIdentity {
		t.Errorf("directory of another cluster: %v", err)
	}
	alone.cfg.SeedNodes = nil
	if err := alone.run(); err != nil {
		t.Fatal(err)
	}
	allReady(t, alone)
	if _, err := nodes[0].AddNode(t.Context(), alone.admin.URL, false); !refusal.Is(err, refusal.NodeInOtherCluster) {
		t.Errorf("adding a node of another cluster: %v", err)
	}
}

// joined adds a fourth node, as operators do.
func joined(t *testing.T, nodes []*node) *node {
	t.Helper()
	n, err := start(t, reserve(t, 1)[0], joining)
	must(t, n, err)
	if ok, waits := n.Ready(); ok || len(waits) != 1 {
		t.Errorf("waiting node: ready %v, %v", ok, waits)
	}
	if _, err := nodes[0].AddNode(t.Context(), n.admin.URL, true); err != nil {
		t.Fatalf("dry run: %v", err)
	}
	if n.Info().State != StateFresh {
		t.Fatal("a dry run admitted the node")
	}
	info, err := nodes[1].AddNode(t.Context(), n.admin.URL, false)
	if err != nil || info.Node != 4 {
		t.Fatalf("add node: %+v, %v", info, err)
	}
	again, err := nodes[2].AddNode(t.Context(), n.admin.Listener.Addr().String(), false)
	if err != nil || again.Node != 4 {
		t.Fatalf("add node again: %+v, %v", again, err)
	}
	allReady(t, n)
	return n
}

func TestJoinPromoteRemove(t *testing.T) {
	t.Parallel()
	nodes := cluster(t, 3)
	n := joined(t, nodes)
	if got := voters(controllerOf(t, nodes...)); len(got) != 3 {
		t.Errorf("voters %v: a learner must not vote", got)
	}
	if _, err := nodes[0].TransferLeadership(t.Context(), Transfer{To: 4}); !refusal.Is(err, refusal.NodeNotVoter) {
		t.Errorf("transfer to a learner: %v", err)
	}
	for range 2 { // repeatable
		if err := nodes[0].PromoteNode(t.Context(), 4); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := nodes[1].Propose(t.Context(), &metadata.SetNodeState{ID: 4, State: metadata.NodeActive}); err != nil {
		t.Fatal(err)
	}
	all := append(slices.Clone(nodes), n)
	c := controllerOf(t, all...)
	if got := voters(c); len(got) != 4 {
		t.Fatalf("voters %v, want 4", got)
	}
	if _, err := nodes[0].TransferLeadership(t.Context(), Transfer{To: 4, From: 9}); !refusal.Is(err, refusal.StaleRevision) {
		t.Errorf("a transfer from a node that is not the controller: %v", err)
	}
	// The hard case: the node is the controller, and the request goes to another.
	if _, err := nodes[0].TransferLeadership(t.Context(), Transfer{To: 4}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "node 4 is in office", func() bool { return n.office.Load() != nil })
	if err := nodes[1].RemoveNode(t.Context(), 4, RemoveOptions{Reason: "test"}); err != nil {
		t.Fatalf("remove the controller: %v", err)
	}
	if e := <-n.removed; e.Code != CodeNodeRemoved || e.ExitStatus != ExitRemoved {
		t.Errorf("the removed node was told %v", e)
	}
	if err := nodes[2].RemoveNode(t.Context(), 4, RemoveOptions{}); err != nil {
		t.Errorf("removing again: %v", err)
	}
	c = controllerOf(t, nodes...)
	if got := voters(c); len(got) != 3 || slices.Contains(got, 4) {
		t.Errorf("voters %v after the removal", got)
	}
	if c.Image().Nodes[4] != nil || c.Image().Tombstones[4] == nil {
		t.Error("no tombstone")
	}
	topic(t, nodes[0], "after")
	// It comes back with its old directory and refuses.
	n.stopNode()
	var e *Error
	if err := n.run(); !errors.As(err, &e) || e.ExitStatus != ExitRemoved {
		t.Errorf("removed node started again: %v", err)
	}
}

func TestRemovedWhileAwayIsToldByItsFellows(t *testing.T) {
	t.Parallel()
	nodes := cluster(t, 3)
	n := joined(t, nodes)
	if err := nodes[0].PromoteNode(t.Context(), 4); err != nil {
		t.Fatal(err)
	}
	eventually(t, "its fellows are on its disk", func() bool { return len(n.store.get().Fellows) == 3 })
	n.kill()
	if err := nodes[1].RemoveNode(t.Context(), 4, RemoveOptions{}); err != nil {
		t.Fatal(err)
	}
	before := *nodes[0].Status(t.Context()).Term
	var e *Error
	if err := n.run(); !errors.As(err, &e) || e.Code != CodeNodeRemoved {
		t.Errorf("removed node returned: %v", err)
	}
	// Persisted: it refuses alone too.
	for _, m := range nodes {
		m.kill()
	}
	if err := n.run(); !errors.As(err, &e) || e.Code != CodeNodeRemoved {
		t.Errorf("removed node returned to a silent cluster: %v", err)
	}
	if after := *nodes[0].Status(t.Context()).Term; after != before {
		t.Errorf("term went from %d to %d: the returned node disturbed the quorum (B5)", before, after)
	}
}

func TestUnsafeMembershipChangesAreRefused(t *testing.T) {
	t.Parallel()
	nodes := cluster(t, 3)
	topic(t, nodes[0], "held")
	c := controllerOf(t, nodes...)
	victim := others(nodes, c)[0]
	err := c.RemoveNode(t.Context(), id(victim), RemoveOptions{})
	if !refusal.Is(err, refusal.NodeHoldsReplicas) && !refusal.Is(err, refusal.NodeHoldsLeaders) {
		t.Errorf("remove of a node that holds data: %v", err)
	}
	if c.Image().Nodes[id(victim)].State == metadata.NodeLeaving {
		t.Error("a refused removal left its mark")
	}
	if err := c.RemoveNode(t.Context(), 99, RemoveOptions{}); !refusal.Is(err, refusal.NodeNotFound) {
		t.Errorf("remove of nobody: %v", err)
	}
	if err := c.PromoteNode(t.Context(), 99); !refusal.Is(err, refusal.NodeNotFound) {
		t.Errorf("promotion of nobody: %v", err)
	}
	// B1: a node whose raft address cannot be reached never becomes a member.
	bad, err := start(t, reserve(t, 1)[0], joining)
	must(t, bad, err)
	_ = bad.cfg.Peer.Close()
	if _, err := c.AddNode(t.Context(), bad.admin.URL, false); !refusal.Is(err, refusal.NodeUnreachable) {
		t.Errorf("unreachable raft address: %v", err)
	}
	if len(c.Image().Nodes) != 3 {
		t.Error("an unreachable node was added")
	}
	// B21: a learner that dies can be removed, and does not block others.
	n := joined(t, nodes)
	n.kill()
	if err := nodes[1].RemoveNode(t.Context(), 4, RemoveOptions{}); err != nil {
		t.Errorf("removal of a dead learner: %v", err)
	}
}
