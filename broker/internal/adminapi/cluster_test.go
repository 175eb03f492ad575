package adminapi_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ister-mq/ister/admin/cli"
	"github.com/ister-mq/ister/admin/client"
	"github.com/ister-mq/ister/broker/internal/adminapi"
	"github.com/ister-mq/ister/broker/internal/metadata"
	"github.com/ister-mq/ister/broker/internal/model"
	"github.com/ister-mq/ister/broker/internal/operation"
	"github.com/ister-mq/ister/broker/internal/placement"
	"github.com/ister-mq/ister/broker/internal/refusal"
)

// cluster is a toy cluster behind real admin listeners: the real metadata,
// planner and operation steps, one shared image, and a controller that the test
// appoints. Replicas catch up at once when settle is called.
type cluster struct {
	t     *testing.T
	mu    sync.Mutex // guards what follows
	image *metadata.Image
	// controller NoNode: none. voters, learners: the quorum.
	controller model.NodeID
	voters     []model.NodeID
	learners   []model.NodeID
	uuids      byte
	fault      error // what every change returns instead of being done
	// handOverFirst: removing the controller hands the role over and answers
	// NOT_CONTROLLER, as a controller may.
	handOverFirst bool
	hold          chan struct{} // when set, a fake hangs in a change until it is closed
	arrived       chan struct{} // gets a value when a fake begins to hang

	nodes map[model.NodeID]*fakeNode
}

type fakeNode struct {
	c        *cluster
	id       model.NodeID // 0 before admission
	address  string
	server   *http.Server
	requests int // of Propose and StartOperation
}

var testNow = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

const testWait = 300 * time.Millisecond

func newCluster(t *testing.T, count int) *cluster {
	t.Helper()
	c := &cluster{t: t, image: metadata.Empty(), nodes: map[model.NodeID]*fakeNode{}, arrived: make(chan struct{}, 16)}
	form := &metadata.FormCluster{Cluster: "3f0f1c52-6d6f-4a39-9ad6-0a7c3c8f5d11"}
	for i := 1; i <= count; i++ {
		id := model.NodeID(i)
		n := c.listen(id)
		form.Nodes = append(form.Nodes, metadata.NewNode{ID: id, Incarnation: incarnation(id), Endpoints: n.endpoints()})
		c.voters = append(c.voters, id)
	}
	c.must(form)
	for i := 1; i <= count; i++ {
		c.register(model.NodeID(i))
	}
	c.controller = 1
	return c
}

func incarnation(id model.NodeID) model.Incarnation {
	return model.Incarnation(fmt.Sprintf("inc-%d", id))
}

func (c *cluster) listen(id model.NodeID) *fakeNode {
	c.t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		c.t.Fatal(err)
	}
	n := &fakeNode{c: c, id: id, address: listener.Addr().String()}
	n.server = adminapi.NewServer(adminapi.Handler(n, adminapi.Config{
		ControllerWait: testWait, Now: func() time.Time { return testNow },
		Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ister_up 1") }),
	}))
	go n.server.Serve(listener)
	c.t.Cleanup(func() { n.server.Close() })
	if id != 0 {
		c.nodes[id] = n
	}
	return n
}

func (n *fakeNode) endpoints() metadata.Endpoints {
	// Joined nodes get the id only later; their number here is only a name.
	return metadata.Endpoints{Kafka: fmt.Sprintf("10.0.0.%d:6650", n.id), Admin: n.address, Raft: fmt.Sprintf("10.0.0.%d:7650", n.id)}
}

func (c *cluster) register(id model.NodeID) {
	r := c.must(&metadata.RegisterNode{ID: id, Cluster: c.image.Cluster, Incarnation: incarnation(id), Endpoints: c.nodes[id].endpoints(), Version: "0.1.0", Clean: true})
	c.must(&metadata.UnfenceNode{ID: id, Epoch: r.(*metadata.NodeResult).Epoch})
}

// propose decides and applies under the lock.
func (c *cluster) propose(cmd metadata.Command) (any, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fault != nil {
		return nil, c.fault
	}
	d, err := metadata.Decide(c.image, cmd, metadata.Env{Now: testNow, NewUUID: func() [16]byte {
		c.uuids++
		return [16]byte{15: c.uuids}
	}})
	if err != nil {
		return nil, err
	}
	if len(d.Records) > 0 {
		next, ok := c.image.Apply(metadata.Batch{Base: c.image.Revision, Records: d.Records})
		if !ok {
			panic("stale batch")
		}
		c.image = next
	}
	return d.Result, nil
}

func (c *cluster) must(cmd metadata.Command) any {
	c.t.Helper()
	result, err := c.propose(cmd)
	if err != nil {
		c.t.Fatalf("%T: %v", cmd, err)
	}
	return result
}

func (c *cluster) now() *metadata.Image {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.image
}

func (c *cluster) setController(id model.NodeID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.controller = id
}

// settle lets replicas catch up and operations step until nothing changes.
func (c *cluster) settle() {
	c.t.Helper()
	for range 1000 {
		im := c.now()
		c.catchUp(im)
		commands := operation.Step(c.now(), operation.Observations{Now: testNow})
		for _, cmd := range commands {
			if _, err := c.propose(cmd); err != nil && refusal.As(err) == nil {
				c.t.Fatal(err)
			}
		}
		if c.now().Revision == im.Revision {
			return
		}
	}
	c.t.Fatal("operations did not settle")
}

func (c *cluster) catchUp(im *metadata.Image) {
	for _, p := range im.SortedPartitions() {
		if leader := im.Nodes[p.Leader]; leader != nil && len(p.ISR) < len(p.Replicas) {
			change := metadata.ISRChange{Partition: p.ID, LeaderEpoch: p.LeaderEpoch, PartitionEpoch: p.PartitionEpoch}
			for _, id := range p.Replicas {
				change.ISR = append(change.ISR, metadata.ISRMember{Node: id, Epoch: im.Nodes[id].Epoch})
			}
			c.must(&metadata.AlterISR{Leader: p.Leader, Epoch: leader.Epoch, Changes: []metadata.ISRChange{change}})
		}
		for _, id := range p.Retiring {
			c.must(&metadata.ReplicaRetired{Node: id, Epoch: im.Nodes[id].Epoch, Partitions: []model.Partition{p.ID}})
		}
	}
}

// client talks to the nodes given, in order.
func (c *cluster) client(ids ...model.NodeID) *client.Client {
	c.t.Helper()
	var endpoints []string
	for _, id := range ids {
		endpoints = append(endpoints, c.nodes[id].address)
	}
	admin, err := client.New(client.Options{Endpoints: endpoints, Actor: "scenario:test", RetryFor: testWait})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(admin.Close)
	return admin
}

// admin runs the command line against a node.
func (c *cluster) admin(node model.NodeID, line string) (stdout, stderr string, exit int) {
	var out, errors bytes.Buffer
	args := append([]string{"--endpoint", c.nodes[node].address}, strings.Fields(line)...)
	exit = cli.Execute(context.Background(), cli.NewCommand(), args, &out, &errors)
	return out.String(), errors.String(), exit
}

// The backend.

func (n *fakeNode) Info() adminapi.NodeInfo {
	info := adminapi.NodeInfo{Node: n.id, Incarnation: incarnation(n.id), State: "member", Endpoints: n.endpoints(), Version: "0.1.0", Cluster: n.c.now().Cluster}
	if n.id == 0 {
		info.State, info.Cluster, info.Incarnation = "fresh", "", "inc-new"
	}
	return info
}

func (n *fakeNode) Self() (model.NodeID, model.NodeEpoch) {
	if node := n.c.now().Nodes[n.id]; node != nil {
		return n.id, node.Epoch
	}
	return n.id, 0
}

func (n *fakeNode) Image() *metadata.Image {
	if n.id == 0 {
		return metadata.Empty()
	}
	return n.c.now()
}

func (n *fakeNode) Controller() (model.NodeID, bool) {
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	return n.c.controller, n.c.controller != model.NoNode && n.id != 0
}

func (n *fakeNode) Ready() (bool, []string) {
	if n.id == 0 {
		return false, []string{"not admitted to a cluster yet"}
	}
	return true, nil
}

func (n *fakeNode) Status(context.Context) adminapi.QuorumStatus {
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	if n.id == 0 {
		return adminapi.QuorumStatus{}
	}
	term, index, applied := model.Term(3), model.Index(1<<60), model.Index(1<<60-1)
	out := adminapi.QuorumStatus{Controller: n.c.controller, Term: &term, LastIndex: &index, Applied: &applied}
	member := func(id model.NodeID, voter bool) {
		lag, alive := uint64(0), true
		out.Members = append(out.Members, adminapi.Member{Node: id, Incarnation: incarnation(id), Address: fmt.Sprintf("10.0.0.%d:7650", id), Voter: voter, Lag: &lag, Alive: &alive})
	}
	for _, id := range n.c.voters {
		member(id, true)
	}
	for _, id := range n.c.learners {
		member(id, false)
	}
	return out
}

// onController is what every change checks first.
func (n *fakeNode) onController() error {
	n.c.mu.Lock()
	n.requests++
	hold, controller := n.c.hold, n.c.controller
	n.c.mu.Unlock()
	if hold != nil {
		n.c.arrived <- struct{}{}
		<-hold
	}
	if controller != n.id {
		return refusal.New(refusal.NotController, "", "not the controller", "ask the controller")
	}
	return nil
}

func (n *fakeNode) Propose(_ context.Context, cmd metadata.Command) (any, error) {
	if err := n.onController(); err != nil {
		return nil, err
	}
	return n.c.propose(cmd)
}

func (n *fakeNode) AddNode(_ context.Context, address string, dryRun bool) (adminapi.NodeInfo, error) {
	if err := n.onController(); err != nil {
		return adminapi.NodeInfo{}, err
	}
	for _, known := range n.c.nodes {
		if known.address == address {
			return known.Info(), nil
		}
	}
	info := adminapi.NodeInfo{Incarnation: "inc-4", Endpoints: metadata.Endpoints{Kafka: "10.0.0.4:6650", Admin: address, Raft: "10.0.0.4:7650"}}
	if dryRun {
		return info, nil
	}
	result, err := n.c.propose(&metadata.AddNode{Node: metadata.NewNode{Incarnation: info.Incarnation, Endpoints: info.Endpoints}})
	if err != nil {
		return info, err
	}
	info.Node = result.(*metadata.NodeResult).ID
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	n.c.learners = append(n.c.learners, info.Node)
	return info, nil
}

func (n *fakeNode) PromoteNode(_ context.Context, id model.NodeID) error {
	if err := n.onController(); err != nil {
		return err
	}
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	n.c.learners, n.c.voters = model.WithoutNode(n.c.learners, id), append(n.c.voters, id)
	return nil
}

func (n *fakeNode) DemoteNode(_ context.Context, id model.NodeID) error {
	if err := n.onController(); err != nil {
		return err
	}
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	n.c.voters, n.c.learners = model.WithoutNode(n.c.voters, id), append(n.c.learners, id)
	return nil
}

func (n *fakeNode) RemoveNode(ctx context.Context, id model.NodeID, o adminapi.RemoveOptions) error {
	if err := n.onController(); err != nil {
		return err
	}
	n.c.mu.Lock()
	if n.c.handOverFirst && id == n.id {
		n.c.controller = 1
		n.c.mu.Unlock()
		return refusal.New(refusal.NotController, "", "handed the role over", "ask the controller")
	}
	n.c.mu.Unlock()
	if im := n.c.now(); o.PlacementRevision != 0 && o.PlacementRevision != im.PlacementRevision {
		return refusal.New(refusal.StaleRevision, "node "+id.String(), "the placement changed", "look again")
	}
	if safe, blockers := operation.SafeToRemove(n.c.now(), id, n.view(ctx)); !safe {
		return refusal.New(blockers[0].Code, "node "+id.String(), blockers[0].Message, blockers[0].Remedy)
	}
	if _, err := n.c.propose(&metadata.RemoveNode{ID: id, PlacementRevision: o.PlacementRevision, Reason: o.Reason}); err != nil {
		return err
	}
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	n.c.voters, n.c.learners = model.WithoutNode(n.c.voters, id), model.WithoutNode(n.c.learners, id)
	return nil
}

func (n *fakeNode) view(ctx context.Context) operation.QuorumView {
	status := n.Status(ctx)
	view := operation.QuorumView{Controller: status.Controller}
	for _, m := range status.Members {
		member := operation.Member{Node: m.Node, Known: true, Alive: true}
		if m.Voter {
			view.Voters = append(view.Voters, member)
		} else {
			view.Learners = append(view.Learners, member)
		}
	}
	return view
}

func (n *fakeNode) TransferLeadership(_ context.Context, t adminapi.Transfer) (model.NodeID, error) {
	to := t.To
	if err := n.onController(); err != nil {
		return 0, err
	}
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	if to == model.NoNode {
		to = model.WithoutNode(n.c.voters, n.id)[0]
	}
	n.c.controller = to
	return to, nil
}

func (n *fakeNode) StartOperation(_ context.Context, r adminapi.OperationRequest) (adminapi.OperationStarted, error) {
	var started adminapi.OperationStarted
	if err := n.onController(); err != nil {
		return started, err
	}
	key := fmt.Sprint(r.Kind, r.Topic, r.Node, r.To, r.Replicas, r.MaxMoves)
	for _, op := range n.c.now().LiveOperations() {
		if op.Key == key && !r.DryRun {
			return adminapi.OperationStarted{Plan: placement.Plan{Moves: op.Moves}, Operation: op, Attached: true}, nil
		}
	}
	var err error
	switch w := n.World(); r.Kind {
	case metadata.OpRebalance:
		started.Plan, err = placement.Rebalance(w, placement.Options{MaxMoves: r.MaxMoves})
	case metadata.OpUnload:
		started.Plan, err = placement.Unload(w, r.Node)
	case metadata.OpMoveTopic:
		started.Plan, err = placement.MoveTopic(w, r.Topic, r.To, r.Replicas)
	}
	if err != nil || r.DryRun || started.Plan.Empty() {
		return started, err
	}
	result, err := n.c.propose(&metadata.StartOperation{
		Kind: r.Kind, Subject: started.Plan.Subject, Node: r.Node, Actor: r.Actor, Moves: started.Plan.Moves,
		PlacementRevision: started.Plan.PlacementRevision, Key: key,
	})
	if err != nil {
		return started, err
	}
	started.Operation = n.c.now().Operations[result.(*metadata.OperationResult).ID]
	return started, nil
}

func (n *fakeNode) World() placement.World {
	im := n.c.now()
	w := placement.World{Image: im, Bytes: map[model.Partition]int64{}, Disk: map[model.NodeID]placement.Disk{}}
	for _, p := range im.SortedPartitions() {
		w.Bytes[p.ID] = 1 << 20
	}
	for id := range im.Nodes {
		w.Disk[id] = placement.Disk{TotalBytes: 1 << 40, FreeBytes: 1 << 39, Known: true}
	}
	return w
}

func (n *fakeNode) Observations() operation.Observations {
	im := n.c.now()
	out := operation.Observations{Now: testNow, Progress: map[model.Partition]map[model.NodeID]operation.ReplicaProgress{}}
	for _, p := range im.SortedPartitions() {
		out.Progress[p.ID] = map[model.NodeID]operation.ReplicaProgress{}
		for _, id := range p.Replicas {
			progress := operation.ReplicaProgress{LogEnd: 1000, LeaderLogEnd: 1000, Bytes: 1 << 20, InSync: model.HasNode(p.ISR, id)}
			if model.HasNode(p.Adding, id) {
				progress.Bytes, progress.LogEnd = 1<<18, 250
			}
			out.Progress[p.ID][id] = progress
		}
	}
	return out
}
