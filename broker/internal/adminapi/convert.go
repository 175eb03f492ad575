package adminapi

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/ister-mq/ister/admin/adminv1"
	"github.com/ister-mq/ister/broker/internal/metadata"
	"github.com/ister-mq/ister/broker/internal/model"
	"github.com/ister-mq/ister/broker/internal/operation"
	"github.com/ister-mq/ister/broker/internal/placement"
	"github.com/ister-mq/ister/broker/internal/refusal"
)

var nodeStates = map[metadata.NodeState]adminv1.Node_State{
	metadata.NodeJoining:  adminv1.Node_JOINING,
	metadata.NodeActive:   adminv1.Node_ACTIVE,
	metadata.NodeCordoned: adminv1.Node_CORDONED,
	metadata.NodeDraining: adminv1.Node_DRAINING,
	metadata.NodeDrained:  adminv1.Node_DRAINED,
	metadata.NodeLeaving:  adminv1.Node_LEAVING,
}

var operationKinds = map[metadata.OperationKind]adminv1.Operation_Kind{
	metadata.OpRebalance:  adminv1.Operation_REBALANCE,
	metadata.OpUnload:     adminv1.Operation_UNLOAD,
	metadata.OpMoveTopic:  adminv1.Operation_MOVE_TOPIC,
	metadata.OpAddNode:    adminv1.Operation_ADD_NODE,
	metadata.OpPromote:    adminv1.Operation_PROMOTE,
	metadata.OpRemoveNode: adminv1.Operation_REMOVE_NODE,
	metadata.OpHeal:       adminv1.Operation_HEAL,
}

var operationStates = map[metadata.OperationState]adminv1.Operation_State{
	metadata.OpRunning:    adminv1.Operation_RUNNING,
	metadata.OpBlocked:    adminv1.Operation_BLOCKED,
	metadata.OpCancelling: adminv1.Operation_CANCELLING,
	metadata.OpSucceeded:  adminv1.Operation_SUCCEEDED,
	metadata.OpFailed:     adminv1.Operation_FAILED,
	metadata.OpCancelled:  adminv1.Operation_CANCELLED,
}

var moveStates = map[metadata.MoveState]adminv1.Move_State{
	metadata.MovePlanned:   adminv1.Move_PLANNED,
	metadata.MoveAdding:    adminv1.Move_ADDING,
	metadata.MoveSwitched:  adminv1.Move_SWITCHED,
	metadata.MoveDone:      adminv1.Move_DONE,
	metadata.MoveCancelled: adminv1.Move_CANCELLED,
	metadata.MoveFailed:    adminv1.Move_FAILED,
}

var severities = map[placement.Severity]adminv1.Finding_Severity{
	placement.SeverityInfo:    adminv1.Finding_INFO,
	placement.SeverityWarning: adminv1.Finding_WARNING,
	placement.SeverityError:   adminv1.Finding_ERROR,
}

var dispatches = map[metadata.Dispatch]adminv1.Dispatch{
	metadata.Reliable:    adminv1.Dispatch_RELIABLE,
	metadata.NonReliable: adminv1.Dispatch_NON_RELIABLE,
}

func findings(in []placement.Finding) []*adminv1.Finding {
	out := make([]*adminv1.Finding, 0, len(in))
	for _, f := range in {
		out = append(out, &adminv1.Finding{Code: string(f.Code), Severity: severities[f.Severity], Object: f.Object, Message: f.Message, Remedy: f.Remedy})
	}
	return out
}

func ids(in []model.NodeID) []int32 {
	out := make([]int32, len(in))
	for i, n := range in {
		out[i] = int32(n)
	}
	return out
}

func endpoints(e metadata.Endpoints) *adminv1.Endpoints {
	return &adminv1.Endpoints{Kafka: e.Kafka, Admin: e.Admin, Raft: e.Raft, Metrics: e.Metrics}
}

// timestamp is nil for the zero time.
func timestamp(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

// number is nil for an unknown value.
func number(v *float64) *wrapperspb.DoubleValue {
	if v == nil {
		return nil
	}
	return wrapperspb.Double(*v)
}

func balance(b placement.Balance) *adminv1.Balance {
	out := &adminv1.Balance{
		CoefficientOfVariation:         number(b.LeaderCV),
		ReplicasCoefficientOfVariation: number(b.ReplicaCV),
		BytesCoefficientOfVariation:    number(b.ByteCV),
		BrokerCount:                    int32(len(b.Nodes)),
	}
	for _, n := range b.Nodes {
		load := &adminv1.Load{BrokerId: int32(n.Node), Leaders: int32(n.Leaders), Replicas: int32(n.Replicas), Fenced: n.Fenced}
		if b.ByteCV != nil {
			load.Bytes = wrapperspb.Int64(n.Bytes)
		}
		out.Brokers = append(out.Brokers, load)
		out.Leaders += load.GetLeaders()
		out.Replicas += load.GetReplicas()
	}
	return out
}

func certificate(c operation.Certificate, im *metadata.Image) *adminv1.DrainCertificate {
	out := &adminv1.DrainCertificate{
		BrokerId: int32(c.Node), Leaders: int32(c.Leaders), Replicas: int32(c.Replicas), Movable: int32(c.Movable),
		Moves: int32(c.Moves), Retiring: int32(c.Retiring), Drained: c.Drained, Empty: c.Empty, Revision: uint64(c.Revision),
	}
	if n := im.Nodes[c.Node]; n != nil {
		out.State = nodeStates[n.State]
	}
	return out
}

// nodeID checks an id that a caller gave.
func nodeID(field string, id int32) (model.NodeID, error) {
	if id < 1 {
		return 0, invalid(field, fmt.Sprint(id), "the id of a node, 1 or more, as `cluster members` shows")
	}
	return model.NodeID(id), nil
}

// registered finds a node, or says why it is not there.
func registered(im *metadata.Image, id model.NodeID) (*metadata.Node, error) {
	if n := im.Nodes[id]; n != nil {
		return n, nil
	}
	subject := fmt.Sprintf("node %d", id)
	if t := im.Tombstones[id]; t != nil {
		return nil, refusal.New(refusal.NodeRemoved, subject, fmt.Sprintf("node %d was removed at %s; its id is never used again", id, t.RemovedAt.UTC().Format(time.RFC3339)),
			"see `cluster members` for the nodes there are")
	}
	return nil, refusal.New(refusal.NodeNotFound, subject, fmt.Sprintf("no node has the id %d", id), "see `cluster members` for the nodes there are")
}
