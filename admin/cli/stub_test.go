package cli

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/ister-mq/ister/admin/adminv1"
	"github.com/ister-mq/ister/admin/adminv1/adminv1connect"
)

// stub is a cluster of fixed answers: what is tested here is how they are asked
// for and printed.
type stub struct{}

var stubTime = timestamppb.New(time.Date(2026, 7, 1, 12, 30, 0, 0, time.UTC))

const bigRevision = 1<<53 + 1 // not a float64

func newStub(t *testing.T) *httptest.Server {
	mux := http.NewServeMux()
	mux.Handle(adminv1connect.NewClusterServiceHandler(stubCluster{}))
	mux.Handle(adminv1connect.NewBrokersServiceHandler(stubBrokers{}))
	mux.Handle(adminv1connect.NewTopicsServiceHandler(stubTopics{}))
	mux.Handle(adminv1connect.NewNamespacesServiceHandler(stubNamespaces{}))
	mux.Handle(adminv1connect.NewOperationsServiceHandler(stubOperations{}))
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

func refuse(code connect.Code, r *adminv1.Refusal) error {
	err := connect.NewError(code, nil)
	detail, detailErr := connect.NewErrorDetail(r)
	if detailErr != nil {
		panic(detailErr)
	}
	err.AddDetail(detail)
	return err
}

type stubCluster struct {
	adminv1connect.UnimplementedClusterServiceHandler
}

func (stubCluster) GetStatus(context.Context, *adminv1.GetStatusRequest) (*adminv1.GetStatusResponse, error) {
	return &adminv1.GetStatusResponse{
		SelfNodeId: 4, SelfState: adminv1.Node_JOINING, SelfEndpoints: &adminv1.Endpoints{Kafka: "10.0.0.4:6653", Admin: "10.0.0.4:50054", Raft: "10.0.0.4:7653"},
		SelfIncarnation: "inc-4", SelfVersion: "0.1.0", NotReadyReasons: []string{"not registered yet"}, Term: 7, LastApplied: bigRevision, LastIndex: bigRevision,
		ClusterId: "3f0f1c52-6d6f-4a39-9ad6-0a7c3c8f5d11", ControllerId: 2, ControllerAdminAddress: "10.0.0.2:50052",
		Voters: []int32{1, 2, 3}, Learners: []int32{4}, AnsweredBy: 2, Revision: 120, PlacementRevision: 118,
		Brokers: 4, ActiveBrokers: wrapperspb.Int32(3), Topics: 12, Partitions: 12,
		OfflinePartitions: wrapperspb.Int32(0), UnderReplicatedPartitions: wrapperspb.Int32(1), UndersizedPartitions: wrapperspb.Int32(2),
	}, nil
}

func (stubCluster) ListMembers(context.Context, *adminv1.ListMembersRequest) (*adminv1.ListMembersResponse, error) {
	return &adminv1.ListMembersResponse{MembershipChangePending: true, Members: []*adminv1.Member{
		{NodeId: 1, Role: adminv1.Member_VOTER, State: adminv1.Node_ACTIVE, RaftAddress: "a-long-host-name-of-a-node.example.internal:7650", AdminAddress: "a-long-host-name-of-a-node.example.internal:50051"},
		{NodeId: 2, Role: adminv1.Member_VOTER, Controller: true, State: adminv1.Node_DRAINED, RaftAddress: "10.0.0.2:7650", AdminAddress: "10.0.0.2:50052"},
		{NodeId: 4, Role: adminv1.Member_LEARNER, State: adminv1.Node_JOINING, Fenced: true, RaftAddress: "10.0.0.4:7653", AdminAddress: "10.0.0.4:50054"},
	}}, nil
}

func (stubCluster) AddNode(_ context.Context, r *adminv1.AddNodeRequest) (*adminv1.AddNodeResponse, error) {
	return &adminv1.AddNodeResponse{NodeId: 4, DryRun: r.GetDryRun(), Role: adminv1.Member_LEARNER, RaftAddress: "10.0.0.4:7653", Incarnation: "inc-4"}, nil
}

func (stubCluster) PromoteNode(_ context.Context, r *adminv1.PromoteNodeRequest) (*adminv1.PromoteNodeResponse, error) {
	return &adminv1.PromoteNodeResponse{NodeId: r.GetNodeId(), Already: r.GetNodeId() == 1, DryRun: r.GetDryRun(), Voters: []int32{1, 2, 3, 4}}, nil
}

func (stubCluster) DemoteNode(_ context.Context, r *adminv1.DemoteNodeRequest) (*adminv1.DemoteNodeResponse, error) {
	return &adminv1.DemoteNodeResponse{NodeId: r.GetNodeId(), DryRun: r.GetDryRun(), Voters: []int32{1, 2, 3}}, nil
}

func (stubCluster) RemoveNode(_ context.Context, r *adminv1.RemoveNodeRequest) (*adminv1.RemoveNodeResponse, error) {
	blockers := []*adminv1.Finding{
		{Code: "NODE_HOLDS_REPLICAS", Severity: adminv1.Finding_ERROR, Object: "node 3", Message: "node 3 holds 9 replicas", Remedy: "run `brokers unload --broker-id 3 --wait` first"},
		{Code: "NODE_HAS_MOVES", Severity: adminv1.Finding_ERROR, Object: "op-7", Message: "node 3 takes part in op-7", Remedy: "wait for it, or `cluster operations cancel op-7`"},
	}
	switch {
	case r.GetNodeId() == 4:
		return &adminv1.RemoveNodeResponse{NodeId: 4, Removed: !r.GetDryRun(), DryRun: r.GetDryRun(), SafeToRemove: true, Voters: []int32{1, 2, 3}}, nil
	case r.GetDryRun():
		return &adminv1.RemoveNodeResponse{NodeId: r.GetNodeId(), DryRun: true, Blockers: blockers, Voters: []int32{1, 2, 3}}, nil
	}
	return nil, refuse(connect.CodeFailedPrecondition, &adminv1.Refusal{
		Kind: adminv1.Refusal_PRECONDITION, Reason: "NODE_HOLDS_REPLICAS", Subject: "node 3", Message: "cannot remove node 3: node 3 holds 9 replicas; node 3 takes part in op-7",
		Advice: "run `brokers unload --broker-id 3 --wait` first", Blockers: blockers,
	})
}

func (stubCluster) TransferLeadership(_ context.Context, r *adminv1.TransferLeadershipRequest) (*adminv1.TransferLeadershipResponse, error) {
	return &adminv1.TransferLeadershipResponse{FromNodeId: 2, ControllerId: r.GetToNodeId()}, nil
}

type stubBrokers struct {
	adminv1connect.UnimplementedBrokersServiceHandler
}

func stubBroker(id int32, state adminv1.Node_State) *adminv1.Broker {
	return &adminv1.Broker{
		BrokerId: id, State: state, Controller: id == 2, Role: adminv1.Member_VOTER, Leaders: 4, Replicas: 12, Bytes: wrapperspb.Int64(5 << 30),
		Endpoints: &adminv1.Endpoints{Kafka: "10.0.0.2:6650", Admin: "10.0.0.2:50052", Raft: "10.0.0.2:7650"}, Version: "0.1.0", Incarnation: "inc-2", Epoch: bigRevision,
	}
}

func (stubBrokers) ListBrokers(context.Context, *adminv1.ListBrokersRequest) (*adminv1.ListBrokersResponse, error) {
	joined := stubBroker(4, adminv1.Node_JOINING)
	joined.Role, joined.Fenced, joined.Leaders, joined.Replicas, joined.Bytes = adminv1.Member_LEARNER, true, 0, 0, nil
	return &adminv1.ListBrokersResponse{Brokers: []*adminv1.Broker{stubBroker(1, adminv1.Node_ACTIVE), stubBroker(2, adminv1.Node_DRAINING), joined}}, nil
}

func (stubBrokers) GetLeaderBroker(context.Context, *adminv1.GetLeaderBrokerRequest) (*adminv1.GetLeaderBrokerResponse, error) {
	return &adminv1.GetLeaderBrokerResponse{Broker: stubBroker(2, adminv1.Node_ACTIVE)}, nil
}

func (stubBrokers) GetBalance(context.Context, *adminv1.GetBalanceRequest) (*adminv1.GetBalanceResponse, error) {
	return &adminv1.GetBalanceResponse{Balance: &adminv1.Balance{
		CoefficientOfVariation: wrapperspb.Double(0.3535533905932738), BrokerCount: 2, Leaders: 12,
		Brokers: []*adminv1.Load{{BrokerId: 1, Leaders: 8, Replicas: 12, Bytes: wrapperspb.Int64(1536)}, {BrokerId: 2, Leaders: 4, Replicas: 12}},
	}}, nil
}

var stubMoves = []*adminv1.Move{
	{Topic: "/default/orders", From: []int32{1, 2, 3}, To: []int32{4, 2, 3}, Leader: 4, State: adminv1.Move_ADDING, ReplicasChange: true, BytesTotal: 1 << 30, BytesDone: 1 << 28, OperationId: 7},
	{Topic: "/payments/a-topic-with-a-name-that-is-so-long-that-no-table-of-a-hundred-columns-can-hold-it-in-full", Partition: 11, From: []int32{1, 2, 3}, To: []int32{2, 1, 3}, Leader: 2, State: adminv1.Move_FAILED, Reason: "NO_PLACEMENT", OperationId: 7},
}

func stubOperation(state adminv1.Operation_State) *adminv1.Operation {
	return &adminv1.Operation{
		OperationId: 7, Kind: adminv1.Operation_REBALANCE, State: state, Actor: "cli:anna", StartedAt: stubTime, UpdatedAt: stubTime, MovesTotal: 2, MovesDone: 1,
		BytesTotal: 1 << 30, BytesDone: 1 << 28, Moves: stubMoves, Revision: bigRevision,
	}
}

func (stubBrokers) Rebalance(_ context.Context, r *adminv1.RebalanceRequest) (*adminv1.RebalanceResponse, error) {
	out := &adminv1.RebalanceResponse{DryRun: r.GetDryRun(), Plan: &adminv1.Plan{
		Moves: stubMoves, BytesMoved: 1 << 30, ReplicaMoves: 1, LeaderMoves: 2, PlacementRevision: 118,
		Before: &adminv1.Balance{CoefficientOfVariation: wrapperspb.Double(0.577)}, After: &adminv1.Balance{CoefficientOfVariation: wrapperspb.Double(0)},
	}}
	for range 5 {
		out.Plan.Findings = append(out.Plan.Findings, &adminv1.Finding{Code: "UNKNOWN_HEALTH", Severity: adminv1.Finding_WARNING, Object: "node 3", Message: "its disk is not known", Remedy: "wait for its report"})
	}
	switch {
	case r.GetDryRun():
	case r.GetMaxMoves() == 1: // ends at once
		out.Operation = stubOperation(adminv1.Operation_SUCCEEDED)
		out.Operation.OperationId = 8
	case r.GetMaxMoves() == 2:
		out.Operation, out.Attached = stubOperation(adminv1.Operation_RUNNING), true
	case r.GetMaxMoves() == 3:
		out.Plan = &adminv1.Plan{Before: &adminv1.Balance{}}
	default:
		out.Operation = stubOperation(adminv1.Operation_RUNNING)
	}
	return out, nil
}

func (stubBrokers) Unload(_ context.Context, r *adminv1.UnloadRequest) (*adminv1.UnloadResponse, error) {
	return &adminv1.UnloadResponse{Plan: &adminv1.Plan{}, DryRun: r.GetDryRun(), Certificate: stubCertificate(r.GetBrokerId())}, nil
}

func stubCertificate(id int32) *adminv1.DrainCertificate {
	c := &adminv1.DrainCertificate{BrokerId: id, State: adminv1.Node_DRAINED, Drained: true, Empty: true, Revision: 130}
	switch id {
	case 2:
		c.Replicas, c.Empty = 12, false
	case 3:
		c.Leaders, c.Replicas, c.Moves, c.Retiring, c.Drained, c.Empty, c.State = 1, 2, 1, 1, false, false, adminv1.Node_DRAINING
	}
	return c
}

func (stubBrokers) GetDrainCertificate(_ context.Context, r *adminv1.GetDrainCertificateRequest) (*adminv1.GetDrainCertificateResponse, error) {
	return &adminv1.GetDrainCertificateResponse{Certificate: stubCertificate(r.GetBrokerId())}, nil
}

func (stubBrokers) Activate(_ context.Context, r *adminv1.ActivateRequest) (*adminv1.ActivateResponse, error) {
	if r.GetBrokerId() == 9 {
		return nil, refuse(connect.CodeNotFound, &adminv1.Refusal{Kind: adminv1.Refusal_NOT_FOUND, Reason: "NODE_NOT_FOUND", Subject: "node 9", Message: "no node has the id 9", Advice: "see `cluster members`"})
	}
	return &adminv1.ActivateResponse{Broker: stubBroker(r.GetBrokerId(), adminv1.Node_ACTIVE), Already: r.GetBrokerId() == 1, DryRun: r.GetDryRun()}, nil
}

func (stubBrokers) Cordon(_ context.Context, r *adminv1.CordonRequest) (*adminv1.CordonResponse, error) {
	return &adminv1.CordonResponse{Broker: stubBroker(r.GetBrokerId(), adminv1.Node_CORDONED), DryRun: r.GetDryRun()}, nil
}

func (stubBrokers) Uncordon(_ context.Context, r *adminv1.UncordonRequest) (*adminv1.UncordonResponse, error) {
	return &adminv1.UncordonResponse{Broker: stubBroker(r.GetBrokerId(), adminv1.Node_ACTIVE), DryRun: r.GetDryRun()}, nil
}

type stubTopics struct {
	adminv1connect.UnimplementedTopicsServiceHandler
}

func stubTopic(name string) *adminv1.Topic {
	return &adminv1.Topic{
		Name: name, KafkaName: "orders", TopicId: "000102030405060708090a0b0c0d0e0f", Dispatch: adminv1.Dispatch_RELIABLE, ReplicationFactor: 3, PartitionCount: 2,
		Leaders: []int32{1, 2}, MinInsyncReplicas: 2, Config: map[string]string{"retention.ms": "60000", "flush.policy": "interval"}, CreatedAt: stubTime,
		UnderReplicatedPartitions: 1, OfflinePartitions: 1, UndersizedPartitions: 1,
		Partitions: []*adminv1.Partition{
			{Index: 0, Leader: 1, LeaderEpoch: 3, Replicas: []int32{1, 2}, Isr: []int32{1, 2}, Adding: []int32{4}, Removing: []int32{2}, OperationId: 7, LogEndOffset: wrapperspb.Int64(bigRevision), Bytes: wrapperspb.Int64(123456789)},
			{Index: 1, Replicas: []int32{3}, Isr: []int32{3}},
		},
	}
}

func (stubTopics) CreateTopic(_ context.Context, r *adminv1.CreateTopicRequest) (*adminv1.CreateTopicResponse, error) {
	if r.GetName() == "/default/taken" {
		return nil, refuse(connect.CodeAlreadyExists, &adminv1.Refusal{Kind: adminv1.Refusal_EXISTS, Reason: "TOPIC_EXISTS", Subject: r.GetName(), Message: "topic /default/taken exists"})
	}
	return &adminv1.CreateTopicResponse{Topic: stubTopic(r.GetName()), DryRun: r.GetDryRun()}, nil
}

func (stubTopics) ListTopics(_ context.Context, r *adminv1.ListTopicsRequest) (*adminv1.ListTopicsResponse, error) {
	if r.GetNamespace() == "empty" {
		return &adminv1.ListTopicsResponse{}, nil
	}
	fine := stubTopic("/default/clicks")
	fine.UnderReplicatedPartitions, fine.OfflinePartitions, fine.UndersizedPartitions, fine.Dispatch, fine.ReplicationFactor = 0, 0, 0, adminv1.Dispatch_NON_RELIABLE, 1
	small := stubTopic("/default/small")
	small.UnderReplicatedPartitions, small.OfflinePartitions, small.UndersizedPartitions = 0, 0, 2
	return &adminv1.ListTopicsResponse{Topics: []*adminv1.Topic{fine, stubTopic("/default/orders"), small}}, nil
}

func (stubTopics) DescribeTopic(_ context.Context, r *adminv1.DescribeTopicRequest) (*adminv1.DescribeTopicResponse, error) {
	return &adminv1.DescribeTopicResponse{Topic: stubTopic(r.GetName())}, nil
}

func (stubTopics) DeleteTopic(_ context.Context, r *adminv1.DeleteTopicRequest) (*adminv1.DeleteTopicResponse, error) {
	return &adminv1.DeleteTopicResponse{Name: r.GetName(), DryRun: r.GetDryRun()}, nil
}

func (stubTopics) MoveTopic(_ context.Context, r *adminv1.MoveTopicRequest) (*adminv1.MoveTopicResponse, error) {
	op := stubOperation(adminv1.Operation_RUNNING)
	op.OperationId, op.Kind, op.Subject = 9, adminv1.Operation_MOVE_TOPIC, r.GetName()
	return &adminv1.MoveTopicResponse{Plan: &adminv1.Plan{Moves: stubMoves[:1], ReplicaMoves: 1}, Operation: op, DryRun: r.GetDryRun()}, nil
}

type stubNamespaces struct {
	adminv1connect.UnimplementedNamespacesServiceHandler
}

func (stubNamespaces) ListNamespaces(context.Context, *adminv1.ListNamespacesRequest) (*adminv1.ListNamespacesResponse, error) {
	return &adminv1.ListNamespacesResponse{Namespaces: []*adminv1.Namespace{{Name: "default", CreatedAt: stubTime, Topics: 12}, {Name: "payments"}}}, nil
}

func (stubNamespaces) CreateNamespace(_ context.Context, r *adminv1.CreateNamespaceRequest) (*adminv1.CreateNamespaceResponse, error) {
	return &adminv1.CreateNamespaceResponse{Name: r.GetName(), DryRun: r.GetDryRun()}, nil
}

func (stubNamespaces) DeleteNamespace(_ context.Context, r *adminv1.DeleteNamespaceRequest) (*adminv1.DeleteNamespaceResponse, error) {
	return &adminv1.DeleteNamespaceResponse{Name: r.GetName(), DryRun: r.GetDryRun()}, nil
}

type stubOperations struct {
	adminv1connect.UnimplementedOperationsServiceHandler
}

// GetOperation: 7 is blocked, 8 has succeeded, 9 has failed, others are unknown.
func (stubOperations) GetOperation(_ context.Context, r *adminv1.GetOperationRequest) (*adminv1.GetOperationResponse, error) {
	switch r.GetOperationId() {
	case 7:
		op := stubOperation(adminv1.Operation_BLOCKED)
		op.Reason, op.Message = "NO_PLACEMENT", "no broker can take /default/orders-0"
		return &adminv1.GetOperationResponse{Operation: op}, nil
	case 8:
		op := stubOperation(adminv1.Operation_SUCCEEDED)
		op.OperationId, op.MovesDone, op.BytesDone, op.EndedAt = 8, 2, op.GetBytesTotal(), stubTime
		return &adminv1.GetOperationResponse{Operation: op}, nil
	case 9:
		op := stubOperation(adminv1.Operation_FAILED)
		op.OperationId, op.Reason, op.Message = 9, "UNCLEAN_ELECTION_REFUSED", "no in-sync copy of /default/orders-0 is left"
		return &adminv1.GetOperationResponse{Operation: op}, nil
	}
	return nil, refuse(connect.CodeNotFound, &adminv1.Refusal{Kind: adminv1.Refusal_NOT_FOUND, Reason: "OPERATION_NOT_FOUND", Message: "no such operation", Advice: "see `cluster operations list`"})
}

func (stubOperations) ListOperations(context.Context, *adminv1.ListOperationsRequest) (*adminv1.ListOperationsResponse, error) {
	blocked := stubOperation(adminv1.Operation_BLOCKED)
	blocked.Reason = "NO_PLACEMENT"
	done := stubOperation(adminv1.Operation_SUCCEEDED)
	done.OperationId, done.Kind, done.Subject = 3, adminv1.Operation_MOVE_TOPIC, "/default/orders"
	return &adminv1.ListOperationsResponse{Operations: []*adminv1.Operation{blocked, done}}, nil
}

func (stubOperations) CancelOperation(_ context.Context, r *adminv1.CancelOperationRequest) (*adminv1.CancelOperationResponse, error) {
	return &adminv1.CancelOperationResponse{Operation: stubOperation(adminv1.Operation_CANCELLING), DryRun: r.GetDryRun(), Already: r.GetOperationId() == 8}, nil
}

func (stubOperations) ListMoves(context.Context, *adminv1.ListMovesRequest) (*adminv1.ListMovesResponse, error) {
	return &adminv1.ListMovesResponse{Moves: stubMoves}, nil
}
