package adminapi

import (
	"context"
	"fmt"
	"slices"

	"github.com/ister-mq/ister/admin/adminv1"
	"github.com/ister-mq/ister/broker/internal/metadata"
	"github.com/ister-mq/ister/broker/internal/model"
	"github.com/ister-mq/ister/broker/internal/placement"
	"github.com/ister-mq/ister/broker/internal/refusal"
)

type operationsService struct{ *service }

// ListOperations lists the newest first, without moves.
func (s operationsService) ListOperations(_ context.Context, request *adminv1.ListOperationsRequest) (*adminv1.ListOperationsResponse, error) {
	out := &adminv1.ListOperationsResponse{}
	for _, op := range slices.Backward(s.backend.Image().SortedOperations()) {
		if !request.GetLive() || !op.State.Done() {
			out.Operations = append(out.Operations, s.operation(op, false))
		}
	}
	return out, nil
}

func (s *service) findOperation(id uint64) (*metadata.Operation, error) {
	if op := s.backend.Image().Operations[model.OperationID(id)]; op != nil {
		return op, nil
	}
	return nil, refusal.New(refusal.OperationNotFound, model.OperationID(id).String(), fmt.Sprintf("no operation has the id %d", id), "see `cluster operations list` for the operations there are")
}

// GetOperation shows one operation with its moves.
func (s operationsService) GetOperation(_ context.Context, request *adminv1.GetOperationRequest) (*adminv1.GetOperationResponse, error) {
	op, err := s.findOperation(request.GetOperationId())
	if err != nil {
		return nil, err
	}
	return &adminv1.GetOperationResponse{Operation: s.operation(op, true)}, nil
}

// CancelOperation asks a live operation to stop.
func (s operationsService) CancelOperation(ctx context.Context, request *adminv1.CancelOperationRequest) (*adminv1.CancelOperationResponse, error) {
	op, err := s.findOperation(request.GetOperationId())
	if err != nil {
		return nil, err
	}
	out := &adminv1.CancelOperationResponse{DryRun: request.GetDryRun(), Already: op.State == metadata.OpCancelling || op.State == metadata.OpCancelled}
	if !out.Already {
		if err := s.proposeUnless(ctx, request.GetDryRun(), &metadata.CancelOperation{Operation: op.ID, Actor: actor(ctx)}); err != nil {
			return nil, err
		}
	}
	if now, err := s.findOperation(request.GetOperationId()); err == nil {
		op = now
	}
	out.Operation = s.operation(op, true)
	return out, nil
}

// ListMoves lists the moves of live operations.
func (s operationsService) ListMoves(_ context.Context, request *adminv1.ListMovesRequest) (*adminv1.ListMovesResponse, error) {
	out := &adminv1.ListMovesResponse{}
	for _, op := range s.backend.Image().LiveOperations() {
		for _, m := range s.operation(op, true).GetMoves() {
			if request.GetAll() || !ended(m.GetState()) {
				out.Moves = append(out.Moves, m)
			}
		}
	}
	return out, nil
}

func ended(s adminv1.Move_State) bool {
	return s == adminv1.Move_DONE || s == adminv1.Move_CANCELLED || s == adminv1.Move_FAILED
}

// operation is nil for nil.
func (s *service) operation(op *metadata.Operation, withMoves bool) *adminv1.Operation {
	if op == nil {
		return nil
	}
	out := &adminv1.Operation{
		OperationId: uint64(op.ID), Kind: operationKinds[op.Kind], State: operationStates[op.State], Subject: op.Subject, Actor: op.Actor,
		Reason: op.Reason, Message: op.Message, StartedAt: timestamp(op.StartedAt), UpdatedAt: timestamp(op.UpdatedAt), EndedAt: timestamp(op.EndedAt),
		MovesTotal: int32(len(op.Moves)), Revision: uint64(op.Revision), NodeId: int32(op.Node),
	}
	for _, m := range s.moves(op.Moves) {
		m.OperationId = uint64(op.ID)
		switch m.GetState() {
		case adminv1.Move_DONE:
			out.MovesDone++
		case adminv1.Move_FAILED:
			out.MovesFailed++
		}
		out.BytesTotal += m.GetBytesTotal()
		out.BytesDone += m.GetBytesDone()
		if withMoves {
			out.Moves = append(out.Moves, m)
		}
	}
	return out
}

func (s *service) plan(p placement.Plan) *adminv1.Plan {
	return &adminv1.Plan{
		Moves: s.moves(p.Moves), Before: balance(p.Before), After: balance(p.After), PlacementRevision: uint64(p.PlacementRevision),
		Findings: findings(p.Findings), BytesMoved: p.BytesMoved, ReplicaMoves: int32(p.ReplicaMoves), LeaderMoves: int32(p.LeaderMoves),
	}
}

func (s *service) moves(in []*metadata.Move) []*adminv1.Move {
	if len(in) == 0 {
		return nil
	}
	im, progress, sizes := s.backend.Image(), s.backend.Observations().Progress, s.backend.World().Bytes
	out := make([]*adminv1.Move, 0, len(in))
	for _, m := range in {
		move := &adminv1.Move{
			Topic: m.Partition.Topic.String(), Partition: m.Partition.Index, From: ids(m.From), To: ids(m.To), Leader: int32(m.Leader),
			State: moveStates[m.State], Reason: m.Reason, ReplicasChange: m.ReplicasChange(),
		}
		if t := im.Topics[m.Partition.Topic]; t != nil {
			move.Topic = t.Name.String()
		}
		whole := sizes[m.Partition] // zero when unknown, and for a deleted topic
		for _, id := range m.To {
			if model.HasNode(m.From, id) {
				continue
			}
			move.BytesTotal += whole
			switch m.State {
			case metadata.MoveDone, metadata.MoveSwitched:
				move.BytesDone += whole
			case metadata.MoveAdding: // segments may be cut otherwise, so a copy can look larger
				move.BytesDone += min(whole, progress[m.Partition][id].Bytes)
			}
		}
		out = append(out, move)
	}
	return out
}
