package mcp

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/ister-mq/ister/admin/adminv1"
	"github.com/ister-mq/ister/admin/adminv1/adminv1connect"
)

// stub is a small cluster behind the real admin protocol: nodes 1 to 3, of which
// 3 is empty, and topics.
type stub struct {
	adminv1connect.UnimplementedClusterServiceHandler
	adminv1connect.UnimplementedBrokersServiceHandler
	adminv1connect.UnimplementedTopicsServiceHandler
	adminv1connect.UnimplementedNamespacesServiceHandler
	adminv1connect.UnimplementedOperationsServiceHandler

	mu       sync.Mutex
	revision uint64   // guarded by mu: of the placement
	topics   []string // guarded by mu
	changes  []string // guarded by mu: what was changed
	alone    bool     // guarded by mu: node 2 is the only voter
	late     bool     // guarded by mu: somebody changes the placement before each change comes
	actors   []string // guarded by mu
	url      string
}

func newStub(t *testing.T) *stub {
	s := &stub{revision: 100, topics: []string{"/default/clicks", "/default/orders"}}
	mux := http.NewServeMux()
	mux.Handle(adminv1connect.NewClusterServiceHandler(s))
	mux.Handle(adminv1connect.NewBrokersServiceHandler(s))
	mux.Handle(adminv1connect.NewTopicsServiceHandler(s))
	mux.Handle(adminv1connect.NewNamespacesServiceHandler(s))
	mux.Handle(adminv1connect.NewOperationsServiceHandler(s))
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/metrics" { // it has none
			s.mu.Lock()
			s.actors = append(s.actors, r.Header.Get("Ister-Actor"))
			s.mu.Unlock()
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(h.Close)
	s.url = h.URL
	return s
}

func (s *stub) changed(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changes = append(s.changes, what)
	s.revision++
}

// fenced is what a cluster does first with a change that was planned: it refuses
// one of another placement.
func (s *stub) fenced(planned uint64) error {
	if s.late {
		s.drift()
	}
	if planned == s.now() {
		return nil
	}
	return refusal(connect.CodeAborted, &adminv1.Refusal{Kind: adminv1.Refusal_STALE, Reason: "STALE_REVISION", Subject: "placement", Message: fmt.Sprintf("the placement changed since revision %d (now %d)", planned, s.now())})
}

func (s *stub) drift() { s.mu.Lock(); defer s.mu.Unlock(); s.revision++ }

func (s *stub) made() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string{}, s.changes...)
}

func (s *stub) now() uint64 { s.mu.Lock(); defer s.mu.Unlock(); return s.revision }

func refusal(code connect.Code, r *adminv1.Refusal) error {
	err := connect.NewError(code, nil)
	detail, detailErr := connect.NewErrorDetail(r)
	if detailErr != nil {
		panic(detailErr)
	}
	err.AddDetail(detail)
	return err
}

func (s *stub) GetStatus(context.Context, *adminv1.GetStatusRequest) (*adminv1.GetStatusResponse, error) {
	voters := []int32{1, 2, 3}
	s.mu.Lock()
	if s.alone {
		voters = []int32{2}
	}
	s.mu.Unlock()
	return &adminv1.GetStatusResponse{
		SelfNodeId: 1, SelfState: adminv1.Node_ACTIVE, Ready: true, ControllerId: 2, AnsweredBy: 2, Voters: voters, Revision: 1<<53 + 1, PlacementRevision: s.now(),
		Brokers: 3, ActiveBrokers: wrapperspb.Int32(3), Topics: 2, Partitions: 2,
		OfflinePartitions: wrapperspb.Int32(0), UnderReplicatedPartitions: wrapperspb.Int32(0), UndersizedPartitions: wrapperspb.Int32(0),
	}, nil
}

func (s *stub) ListMembers(context.Context, *adminv1.ListMembersRequest) (*adminv1.ListMembersResponse, error) {
	return &adminv1.ListMembersResponse{Members: []*adminv1.Member{{NodeId: 1, Role: adminv1.Member_VOTER, State: adminv1.Node_ACTIVE}}}, nil
}

func (s *stub) AddNode(_ context.Context, r *adminv1.AddNodeRequest) (*adminv1.AddNodeResponse, error) {
	if !r.GetDryRun() {
		s.changed("add " + r.GetNodeAddr())
	}
	return &adminv1.AddNodeResponse{NodeId: 4, Role: adminv1.Member_LEARNER, DryRun: r.GetDryRun()}, nil
}

func (s *stub) PromoteNode(_ context.Context, r *adminv1.PromoteNodeRequest) (*adminv1.PromoteNodeResponse, error) {
	if !r.GetDryRun() {
		s.changed(fmt.Sprint("promote ", r.GetNodeId()))
	}
	return &adminv1.PromoteNodeResponse{NodeId: r.GetNodeId(), Voters: []int32{1, 2, 3, 4}, DryRun: r.GetDryRun()}, nil
}

// RemoveNode: node 3 is empty, the others hold replicas.
func (s *stub) RemoveNode(_ context.Context, r *adminv1.RemoveNodeRequest) (*adminv1.RemoveNodeResponse, error) {
	id := r.GetNodeId()
	if id == 3 {
		if !r.GetDryRun() {
			if err := s.fenced(r.GetPlacementRevision()); err != nil {
				return nil, err
			}
			s.changed("remove 3")
		}
		return &adminv1.RemoveNodeResponse{NodeId: 3, SafeToRemove: true, Removed: !r.GetDryRun(), DryRun: r.GetDryRun(), Voters: []int32{1, 2}}, nil
	}
	return &adminv1.RemoveNodeResponse{NodeId: id, DryRun: true, Blockers: []*adminv1.Finding{
		{Code: "NODE_HOLDS_REPLICAS", Severity: adminv1.Finding_ERROR, Object: fmt.Sprint("node ", id), Message: "it holds 9 replicas", Remedy: "unload it"},
		{Code: "NODE_HAS_MOVES", Severity: adminv1.Finding_ERROR, Object: "op-7", Message: "it takes part in op-7", Remedy: "wait"},
	}}, nil
}

func (s *stub) TransferLeadership(_ context.Context, r *adminv1.TransferLeadershipRequest) (*adminv1.TransferLeadershipResponse, error) {
	if s.late || r.GetFromNodeId() != 2 {
		return nil, refusal(connect.CodeAborted, &adminv1.Refusal{Kind: adminv1.Refusal_STALE, Reason: "STALE_REVISION", Subject: "controller", Message: "node 2 is not the controller any more"})
	}
	s.changed("transfer")
	return &adminv1.TransferLeadershipResponse{FromNodeId: 2, ControllerId: r.GetToNodeId()}, nil
}

func stubBroker(id int32) *adminv1.Broker {
	return &adminv1.Broker{BrokerId: id, State: adminv1.Node_ACTIVE, Role: adminv1.Member_VOTER, Leaders: 1, Replicas: 2, Bytes: wrapperspb.Int64(1 << 40)}
}

func (s *stub) ListBrokers(context.Context, *adminv1.ListBrokersRequest) (*adminv1.ListBrokersResponse, error) {
	return &adminv1.ListBrokersResponse{Brokers: []*adminv1.Broker{stubBroker(1), stubBroker(2), stubBroker(3)}}, nil
}

func (s *stub) GetBalance(context.Context, *adminv1.GetBalanceRequest) (*adminv1.GetBalanceResponse, error) {
	return &adminv1.GetBalanceResponse{Balance: &adminv1.Balance{CoefficientOfVariation: wrapperspb.Double(0.1), BrokerCount: 3, Brokers: []*adminv1.Load{{BrokerId: 1, Leaders: 1}}}}, nil
}

func (s *stub) GetDrainCertificate(_ context.Context, r *adminv1.GetDrainCertificateRequest) (*adminv1.GetDrainCertificateResponse, error) {
	return &adminv1.GetDrainCertificateResponse{Certificate: &adminv1.DrainCertificate{BrokerId: r.GetBrokerId(), State: adminv1.Node_ACTIVE, Replicas: 9}}, nil
}

func (s *stub) plan() *adminv1.Plan {
	p := &adminv1.Plan{PlacementRevision: s.now(), ReplicaMoves: 300, BytesMoved: 1 << 30}
	for i := range int32(300) { // more than fits into a result
		p.Moves = append(p.Moves, &adminv1.Move{Topic: "/default/a-topic-with-a-long-name", Partition: i, From: []int32{1, 2, 3}, To: []int32{4, 2, 3}, Leader: 4})
	}
	return p
}

func (s *stub) operation(id uint64, state adminv1.Operation_State) *adminv1.Operation {
	return &adminv1.Operation{OperationId: id, Kind: adminv1.Operation_REBALANCE, State: state, MovesTotal: 300, MovesDone: 1, Revision: 90, Moves: s.plan().GetMoves()}
}

func (s *stub) Rebalance(_ context.Context, r *adminv1.RebalanceRequest) (*adminv1.RebalanceResponse, error) {
	out := &adminv1.RebalanceResponse{Plan: s.plan(), DryRun: r.GetDryRun()}
	if !r.GetDryRun() {
		if err := s.fenced(r.GetPlacementRevision()); err != nil {
			return nil, err
		}
		s.changed("rebalance")
		out.Operation = s.operation(7, adminv1.Operation_RUNNING)
	}
	return out, nil
}

func (s *stub) Unload(_ context.Context, r *adminv1.UnloadRequest) (*adminv1.UnloadResponse, error) {
	if r.GetBrokerId() > 3 {
		return nil, refusal(connect.CodeNotFound, &adminv1.Refusal{Kind: adminv1.Refusal_NOT_FOUND, Reason: "NODE_NOT_FOUND", Subject: "node 9", Message: "no node has the id 9", Advice: "see `cluster members`"})
	}
	out := &adminv1.UnloadResponse{Plan: s.plan(), DryRun: r.GetDryRun()}
	if !r.GetDryRun() {
		if err := s.fenced(r.GetPlacementRevision()); err != nil {
			return nil, err
		}
		s.changed("unload")
		out.Operation = s.operation(8, adminv1.Operation_RUNNING)
	}
	return out, nil
}

func (s *stub) Activate(_ context.Context, r *adminv1.ActivateRequest) (*adminv1.ActivateResponse, error) {
	if !r.GetDryRun() {
		s.changed("activate")
	}
	return &adminv1.ActivateResponse{Broker: stubBroker(r.GetBrokerId()), DryRun: r.GetDryRun()}, nil
}

func (s *stub) Cordon(_ context.Context, r *adminv1.CordonRequest) (*adminv1.CordonResponse, error) {
	if !r.GetDryRun() {
		s.changed("cordon")
	}
	return &adminv1.CordonResponse{Broker: stubBroker(r.GetBrokerId()), DryRun: r.GetDryRun()}, nil
}

func (s *stub) Uncordon(_ context.Context, r *adminv1.UncordonRequest) (*adminv1.UncordonResponse, error) {
	if !r.GetDryRun() {
		s.changed("uncordon")
	}
	return &adminv1.UncordonResponse{Broker: stubBroker(r.GetBrokerId()), DryRun: r.GetDryRun()}, nil
}

func (s *stub) topic(name string) *adminv1.Topic {
	t := &adminv1.Topic{Name: name, KafkaName: name, TopicId: "id-of-" + name, Dispatch: adminv1.Dispatch_RELIABLE, ReplicationFactor: 3, PartitionCount: 200, Leaders: []int32{1}}
	for i := range int32(200) {
		t.Partitions = append(t.Partitions, &adminv1.Partition{Index: i, Leader: 1, Replicas: []int32{1, 2, 3}, Isr: []int32{1, 2, 3}, LogEndOffset: wrapperspb.Int64(10)})
	}
	return t
}

func (s *stub) has(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.topics {
		if t == name {
			return true
		}
	}
	return false
}

func noTopic(name string) error {
	return refusal(connect.CodeNotFound, &adminv1.Refusal{Kind: adminv1.Refusal_NOT_FOUND, Reason: "TOPIC_NOT_FOUND", Subject: name, Message: "there is no topic " + name, Advice: "see `topics list`"})
}

func (s *stub) ListTopics(context.Context, *adminv1.ListTopicsRequest) (*adminv1.ListTopicsResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := &adminv1.ListTopicsResponse{}
	for _, name := range s.topics {
		out.Topics = append(out.Topics, &adminv1.Topic{Name: name, KafkaName: name, Leaders: []int32{1}})
	}
	return out, nil
}

func (s *stub) DescribeTopic(_ context.Context, r *adminv1.DescribeTopicRequest) (*adminv1.DescribeTopicResponse, error) {
	if !s.has(r.GetName()) {
		return nil, noTopic(r.GetName())
	}
	return &adminv1.DescribeTopicResponse{Topic: s.topic(r.GetName())}, nil
}

func (s *stub) CreateTopic(_ context.Context, r *adminv1.CreateTopicRequest) (*adminv1.CreateTopicResponse, error) {
	if !r.GetDryRun() {
		s.changed("create " + r.GetName())
	}
	return &adminv1.CreateTopicResponse{Topic: s.topic(r.GetName()), DryRun: r.GetDryRun()}, nil
}

func (s *stub) DeleteTopic(_ context.Context, r *adminv1.DeleteTopicRequest) (*adminv1.DeleteTopicResponse, error) {
	if !s.has(r.GetName()) {
		return nil, noTopic(r.GetName())
	}
	if !r.GetDryRun() {
		if err := s.fenced(r.GetPlacementRevision()); err != nil {
			return nil, err
		}
		s.changed("delete " + r.GetName())
	}
	return &adminv1.DeleteTopicResponse{Name: r.GetName(), DryRun: r.GetDryRun()}, nil
}

func (s *stub) MoveTopic(_ context.Context, r *adminv1.MoveTopicRequest) (*adminv1.MoveTopicResponse, error) {
	out := &adminv1.MoveTopicResponse{Plan: s.plan(), DryRun: r.GetDryRun()}
	if !r.GetDryRun() {
		if err := s.fenced(r.GetPlacementRevision()); err != nil {
			return nil, err
		}
		s.changed("move")
		out.Operation = s.operation(9, adminv1.Operation_RUNNING)
	}
	return out, nil
}

func (s *stub) ListNamespaces(context.Context, *adminv1.ListNamespacesRequest) (*adminv1.ListNamespacesResponse, error) {
	return &adminv1.ListNamespacesResponse{Namespaces: []*adminv1.Namespace{{Name: "default", Topics: 2}}}, nil
}

func (s *stub) CreateNamespace(_ context.Context, r *adminv1.CreateNamespaceRequest) (*adminv1.CreateNamespaceResponse, error) {
	if !r.GetDryRun() {
		s.changed("create namespace")
	}
	return &adminv1.CreateNamespaceResponse{Name: r.GetName(), DryRun: r.GetDryRun()}, nil
}

func (s *stub) DeleteNamespace(_ context.Context, r *adminv1.DeleteNamespaceRequest) (*adminv1.DeleteNamespaceResponse, error) {
	if !r.GetDryRun() {
		if err := s.fenced(r.GetPlacementRevision()); err != nil {
			return nil, err
		}
		s.changed("delete namespace")
	}
	return &adminv1.DeleteNamespaceResponse{Name: r.GetName(), DryRun: r.GetDryRun()}, nil
}

func (s *stub) ListOperations(context.Context, *adminv1.ListOperationsRequest) (*adminv1.ListOperationsResponse, error) {
	return &adminv1.ListOperationsResponse{Operations: []*adminv1.Operation{s.operation(7, adminv1.Operation_RUNNING)}}, nil
}

func (s *stub) GetOperation(_ context.Context, r *adminv1.GetOperationRequest) (*adminv1.GetOperationResponse, error) {
	return &adminv1.GetOperationResponse{Operation: s.operation(r.GetOperationId(), adminv1.Operation_RUNNING)}, nil
}

func (s *stub) CancelOperation(_ context.Context, r *adminv1.CancelOperationRequest) (*adminv1.CancelOperationResponse, error) {
	if !r.GetDryRun() {
		s.changed("cancel")
	}
	return &adminv1.CancelOperationResponse{Operation: s.operation(r.GetOperationId(), adminv1.Operation_CANCELLING), DryRun: r.GetDryRun()}, nil
}

func (s *stub) ListMoves(context.Context, *adminv1.ListMovesRequest) (*adminv1.ListMovesResponse, error) {
	return &adminv1.ListMovesResponse{Moves: s.plan().GetMoves()}, nil
}
