package fakecluster

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"connectrpc.com/connect"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/ister-mq/ister/admin/adminv1"
	"github.com/ister-mq/ister/admin/adminv1/adminv1connect"
)

// api is the admin API as one node answers it.
type api struct {
	adminv1connect.UnimplementedClusterServiceHandler
	adminv1connect.UnimplementedBrokersServiceHandler
	adminv1connect.UnimplementedTopicsServiceHandler
	adminv1connect.UnimplementedOperationsServiceHandler
	c    *cluster
	node *node
}

func refuse(reason, message string) error {
	err := connect.NewError(connect.CodeFailedPrecondition, fmt.Errorf("%s: %s", reason, message))
	detail, detailErr := connect.NewErrorDetail(&adminv1.Refusal{Kind: adminv1.Refusal_PRECONDITION, Reason: reason, Message: message})
	if detailErr == nil {
		err.AddDetail(detail)
	}
	return err
}

// member finds an admitted node; c.mu is held.
func (a *api) member(id int32) (*node, error) {
	for _, n := range a.c.nodes {
		if n.id == id && !a.c.tombstones[id] {
			return n, nil
		}
	}
	return nil, refuse("NODE_NOT_FOUND", fmt.Sprintf("no node %d", id))
}

func (a *api) voters() []int32 {
	var ids []int32
	for _, n := range a.c.nodes {
		if n.voter && !a.c.tombstones[n.id] {
			ids = append(ids, n.id)
		}
	}
	return ids
}

func (a *api) GetStatus(context.Context, *adminv1.GetStatusRequest) (*adminv1.GetStatusResponse, error) {
	a.c.mu.Lock()
	defer a.c.mu.Unlock()
	out := &adminv1.GetStatusResponse{SelfNodeId: a.node.id, ControllerId: a.c.controller, Voters: a.voters(), Topics: int32(len(a.c.topics)), Partitions: int32(len(a.c.topics)), PlacementRevision: a.c.placement,
		OfflinePartitions: wrapperspb.Int32(0), UnderReplicatedPartitions: wrapperspb.Int32(0), UndersizedPartitions: wrapperspb.Int32(0)}
	for _, t := range a.c.topics {
		for _, r := range t.replicas {
			if !a.c.alive(r) {
				out.UnderReplicatedPartitions.Value++
				break
			}
		}
	}
	return out, nil
}

func (a *api) AddNode(_ context.Context, in *adminv1.AddNodeRequest) (*adminv1.AddNodeResponse, error) {
	a.c.mu.Lock()
	defer a.c.mu.Unlock()
	for _, n := range a.c.nodes {
		if "http://"+n.Admin != in.GetNodeAddr() {
			continue
		}
		if n.id != 0 {
			return &adminv1.AddNodeResponse{NodeId: n.id, Already: true}, nil
		}
		a.c.nextID++
		n.id, n.state = a.c.nextID, adminv1.Node_JOINING
		if err := a.c.openKafka(n); err != nil {
			return nil, err
		}
		return &adminv1.AddNodeResponse{NodeId: n.id, Role: adminv1.Member_LEARNER}, a.c.settle()
	}
	return nil, refuse("NODE_UNREACHABLE", in.GetNodeAddr())
}

func (a *api) PromoteNode(_ context.Context, in *adminv1.PromoteNodeRequest) (*adminv1.PromoteNodeResponse, error) {
	a.c.mu.Lock()
	defer a.c.mu.Unlock()
	n, err := a.member(in.GetNodeId())
	if err != nil {
		return nil, err
	}
	n.voter = true
	return &adminv1.PromoteNodeResponse{NodeId: n.id, Voters: a.voters()}, nil
}

func (a *api) TransferLeadership(_ context.Context, in *adminv1.TransferLeadershipRequest) (*adminv1.TransferLeadershipResponse, error) {
	a.c.mu.Lock()
	defer a.c.mu.Unlock()
	if !slices.Contains(a.voters(), in.GetToNodeId()) {
		return nil, refuse("NODE_NOT_VOTER", "it does not vote")
	}
	a.c.controller = in.GetToNodeId()
	return &adminv1.TransferLeadershipResponse{ControllerId: a.c.controller}, nil
}

func (a *api) RemoveNode(_ context.Context, in *adminv1.RemoveNodeRequest) (*adminv1.RemoveNodeResponse, error) {
	a.c.mu.Lock()
	defer a.c.mu.Unlock()
	n, err := a.member(in.GetNodeId())
	if err != nil {
		return nil, err
	}
	if c := a.certificate(n); !c.GetEmpty() {
		return nil, refuse("NODE_HOLDS_REPLICAS", fmt.Sprintf("node %d holds %d replicas", n.id, c.GetReplicas()))
	}
	a.c.tombstones[n.id] = true
	if a.c.controller == n.id {
		a.c.controller = a.voters()[0]
	}
	return &adminv1.RemoveNodeResponse{NodeId: n.id, Removed: true, Voters: a.voters()}, a.c.settle()
}

func (a *api) ListBrokers(context.Context, *adminv1.ListBrokersRequest) (*adminv1.ListBrokersResponse, error) {
	a.c.mu.Lock()
	defer a.c.mu.Unlock()
	out := &adminv1.ListBrokersResponse{}
	for _, n := range a.c.nodes {
		if n.id != 0 && !a.c.tombstones[n.id] {
			out.Brokers = append(out.Brokers, &adminv1.Broker{BrokerId: n.id, Incarnation: n.Name, State: n.state, Fenced: !n.Running, Controller: n.id == a.c.controller})
		}
	}
	return out, nil
}

func (a *api) balance() *adminv1.Balance {
	out := &adminv1.Balance{}
	var counts []float64
	for _, id := range a.c.active() {
		l := &adminv1.Load{BrokerId: id}
		for _, t := range a.c.topics {
			if t.leader == id {
				l.Leaders++
			}
			if slices.Contains(t.replicas, id) {
				l.Replicas++
			}
		}
		out.Brokers, out.Leaders, out.Replicas = append(out.Brokers, l), out.Leaders+l.Leaders, out.Replicas+l.Replicas
		counts = append(counts, float64(l.Leaders))
	}
	out.BrokerCount = int32(len(counts))
	if mean := float64(out.Leaders) / float64(len(counts)); mean > 0 {
		sum := 0.0
		for _, n := range counts {
			sum += (n - mean) * (n - mean)
		}
		out.CoefficientOfVariation = wrapperspb.Double(math.Sqrt(sum/float64(len(counts))) / mean)
	}
	return out
}

func (a *api) GetBalance(context.Context, *adminv1.GetBalanceRequest) (*adminv1.GetBalanceResponse, error) {
	a.c.mu.Lock()
	defer a.c.mu.Unlock()
	return &adminv1.GetBalanceResponse{Balance: a.balance()}, nil
}

// ListMoves lists none: placements change at once here.
func (a *api) ListMoves(context.Context, *adminv1.ListMovesRequest) (*adminv1.ListMovesResponse, error) {
	return &adminv1.ListMovesResponse{}, nil
}

// operation is one that is done, and says so at the third look: sends are then in
// flight while it seems to run; c.mu is held.
func (a *api) operation(moves int32) *adminv1.Operation {
	a.c.operations++
	return &adminv1.Operation{OperationId: a.c.operations, State: adminv1.Operation_RUNNING, MovesTotal: moves, MovesDone: moves}
}

func (a *api) GetOperation(_ context.Context, in *adminv1.GetOperationRequest) (*adminv1.GetOperationResponse, error) {
	a.c.mu.Lock()
	defer a.c.mu.Unlock()
	a.c.looks[in.GetOperationId()]++
	state := adminv1.Operation_RUNNING
	if a.c.looks[in.GetOperationId()] >= 3 {
		state = adminv1.Operation_SUCCEEDED
	}
	return &adminv1.GetOperationResponse{Operation: &adminv1.Operation{OperationId: in.GetOperationId(), State: state}}, nil
}

// place spreads topics over nodes and returns what moved; c.mu is held.
func (a *api) place(nodes []int32, apply bool) *adminv1.Plan {
	plan := &adminv1.Plan{Before: a.balance()}
	for i, t := range a.c.sorted() {
		var want []int32
		for k := range min(3, len(nodes)) {
			want = append(want, nodes[(i+k)%len(nodes)])
		}
		added := 0
		for _, id := range want {
			if !slices.Contains(t.replicas, id) {
				added++
			}
		}
		plan.ReplicaMoves += int32(added)
		if want[0] != t.leader {
			plan.LeaderMoves++
		}
		if apply {
			if want[0] != t.leader {
				t.epoch++
			}
			t.replicas, t.leader = want, want[0]
		}
	}
	plan.After = a.balance()
	return plan
}

func (a *api) Rebalance(_ context.Context, in *adminv1.RebalanceRequest) (*adminv1.RebalanceResponse, error) {
	a.c.mu.Lock()
	defer a.c.mu.Unlock()
	apply := !in.GetDryRun() && !a.c.setup.NoRebalance
	out := &adminv1.RebalanceResponse{Plan: a.place(a.c.active(), apply), DryRun: in.GetDryRun()}
	if !in.GetDryRun() {
		out.Operation = a.operation(out.Plan.GetReplicaMoves())
	}
	return out, a.c.settle()
}

func (a *api) Unload(_ context.Context, in *adminv1.UnloadRequest) (*adminv1.UnloadResponse, error) {
	a.c.mu.Lock()
	defer a.c.mu.Unlock()
	n, err := a.member(in.GetBrokerId())
	if err != nil {
		return nil, err
	}
	n.state = adminv1.Node_DRAINED
	plan := a.place(a.c.active(), true)
	return &adminv1.UnloadResponse{Plan: plan, Operation: a.operation(plan.GetReplicaMoves()), Certificate: a.certificate(n)}, a.c.settle()
}

func (a *api) certificate(n *node) *adminv1.DrainCertificate {
	out := &adminv1.DrainCertificate{BrokerId: n.id, State: n.state}
	for _, t := range a.c.topics {
		if t.leader == n.id {
			out.Leaders++
		}
		if slices.Contains(t.replicas, n.id) {
			out.Replicas++
		}
	}
	out.Empty = out.Replicas == 0
	out.Drained = out.Empty
	return out
}

func (a *api) GetDrainCertificate(_ context.Context, in *adminv1.GetDrainCertificateRequest) (*adminv1.GetDrainCertificateResponse, error) {
	a.c.mu.Lock()
	defer a.c.mu.Unlock()
	n, err := a.member(in.GetBrokerId())
	if err != nil {
		return nil, err
	}
	return &adminv1.GetDrainCertificateResponse{Certificate: a.certificate(n)}, nil
}

func (a *api) Activate(_ context.Context, in *adminv1.ActivateRequest) (*adminv1.ActivateResponse, error) {
	a.c.mu.Lock()
	defer a.c.mu.Unlock()
	n, err := a.member(in.GetBrokerId())
	if err != nil {
		return nil, err
	}
	n.state = adminv1.Node_ACTIVE
	a.c.placement++
	return &adminv1.ActivateResponse{Broker: &adminv1.Broker{BrokerId: n.id, State: n.state}}, nil
}

func (a *api) CreateTopic(ctx context.Context, in *adminv1.CreateTopicRequest) (*adminv1.CreateTopicResponse, error) {
	a.c.mu.Lock()
	defer a.c.mu.Unlock()
	if in.GetPartitions() > 1 {
		return nil, refuse("INVALID_PARTITIONS", "the fake has topics of one partition")
	}
	if _, taken := a.c.topics[in.GetName()]; taken {
		return nil, refuse("TOPIC_EXISTS", in.GetName())
	}
	nodes := a.c.active()
	t := &topic{name: in.GetName(), kafka: strings.TrimPrefix(in.GetName(), "/default/"), epoch: 1}
	for k := range min(3, len(nodes)) {
		t.replicas = append(t.replicas, nodes[(len(a.c.topics)+k)%len(nodes)])
	}
	t.leader = t.replicas[0]
	client, err := kgo.NewClient(kgo.SeedBrokers(a.c.kafka.ListenAddrs()...))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	if _, err := kadm.NewClient(client).CreateTopic(ctx, 1, 1, nil, t.kafka); err != nil {
		return nil, err
	}
	a.c.topics[t.name] = t
	return &adminv1.CreateTopicResponse{Topic: a.describe(t)}, a.c.settle()
}

func (a *api) describe(t *topic) *adminv1.Topic {
	p := &adminv1.Partition{Leader: t.leader, LeaderEpoch: t.epoch, Replicas: t.replicas}
	for _, r := range t.replicas {
		if a.c.alive(r) {
			p.Isr = append(p.Isr, r)
		}
	}
	return &adminv1.Topic{Name: t.name, KafkaName: t.kafka, PartitionCount: 1, Leaders: []int32{t.leader}, Partitions: []*adminv1.Partition{p}, ReplicationFactor: 3}
}

func (a *api) ListTopics(context.Context, *adminv1.ListTopicsRequest) (*adminv1.ListTopicsResponse, error) {
	a.c.mu.Lock()
	defer a.c.mu.Unlock()
	out := &adminv1.ListTopicsResponse{}
	for _, t := range a.c.sorted() {
		out.Topics = append(out.Topics, a.describe(t))
	}
	return out, nil
}

func (a *api) DescribeTopic(_ context.Context, in *adminv1.DescribeTopicRequest) (*adminv1.DescribeTopicResponse, error) {
	a.c.mu.Lock()
	defer a.c.mu.Unlock()
	t, ok := a.c.topics[in.GetName()]
	if !ok {
		return nil, refuse("TOPIC_NOT_FOUND", in.GetName())
	}
	return &adminv1.DescribeTopicResponse{Topic: a.describe(t)}, nil
}

func (a *api) MoveTopic(_ context.Context, in *adminv1.MoveTopicRequest) (*adminv1.MoveTopicResponse, error) {
	a.c.mu.Lock()
	defer a.c.mu.Unlock()
	t, ok := a.c.topics[in.GetName()]
	if !ok {
		return nil, refuse("TOPIC_NOT_FOUND", in.GetName())
	}
	to := in.GetToBrokerId()
	for _, r := range t.replicas {
		if to == 0 && r != t.leader {
			to = r
		}
	}
	if !slices.Contains(t.replicas, to) {
		if !in.GetReplicas() {
			return nil, refuse("NOT_IN_SYNC", "it holds no copy")
		}
		kept := slices.DeleteFunc(slices.Clone(t.replicas), func(id int32) bool { return id == t.leader })
		t.replicas = append(kept, to)
	}
	t.leader, t.epoch = to, t.epoch+1
	return &adminv1.MoveTopicResponse{Operation: a.operation(1)}, a.c.settle()
}
