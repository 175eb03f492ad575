package adminapi

import (
	"context"
	"fmt"

	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/ister-mq/ister/admin/adminv1"
	"github.com/ister-mq/ister/broker/internal/metadata"
	"github.com/ister-mq/ister/broker/internal/model"
	"github.com/ister-mq/ister/broker/internal/operation"
	"github.com/ister-mq/ister/broker/internal/placement"
	"github.com/ister-mq/ister/broker/internal/refusal"
)

type brokersService struct{ *service }

// ListBrokers lists every registered node with what it holds.
func (s brokersService) ListBrokers(ctx context.Context, _ *adminv1.ListBrokersRequest) (*adminv1.ListBrokersResponse, error) {
	return &adminv1.ListBrokersResponse{Brokers: s.brokers(ctx)}, nil
}

func (s *service) brokers(ctx context.Context) []*adminv1.Broker {
	im, quorum, sizes := s.backend.Image(), s.backend.Status(ctx), s.backend.World().Bytes
	roles := make(map[model.NodeID]Member, len(quorum.Members))
	for _, m := range quorum.Members {
		roles[m.Node] = m
	}
	loads := make(map[model.NodeID]*adminv1.Broker, len(im.Nodes))
	var out []*adminv1.Broker
	for _, n := range im.SortedNodes() {
		b := &adminv1.Broker{
			BrokerId: int32(n.ID), State: nodeStates[n.State], Fenced: n.Fenced, Controller: n.ID == quorum.Controller, Role: role(n.ID, roles),
			Endpoints: endpoints(n.Endpoints), Rack: n.Rack, Version: n.Version, Incarnation: string(n.Incarnation), Epoch: int64(n.Epoch), Reason: n.Reason,
		}
		loads[n.ID] = b
		out = append(out, b)
	}
	for _, p := range im.SortedPartitions() {
		if b := loads[p.Leader]; b != nil {
			b.Leaders++
		}
		for _, id := range p.Replicas {
			b := loads[id]
			if b == nil {
				continue
			}
			b.Replicas++
			if bytes, ok := sizes[p.ID]; ok {
				b.Bytes = wrapperspb.Int64(b.GetBytes().GetValue() + bytes)
			}
		}
	}
	return out
}

// broker returns one broker as ListBrokers has it.
func (s *service) broker(ctx context.Context, id model.NodeID) *adminv1.Broker {
	for _, b := range s.brokers(ctx) {
		if b.GetBrokerId() == int32(id) {
			return b
		}
	}
	return nil
}

// GetLeaderBroker returns the controller.
func (s brokersService) GetLeaderBroker(ctx context.Context, _ *adminv1.GetLeaderBrokerRequest) (*adminv1.GetLeaderBrokerResponse, error) {
	controller, known := s.backend.Controller()
	if b := s.broker(ctx, controller); known && b != nil {
		return &adminv1.GetLeaderBrokerResponse{Broker: b}, nil
	}
	return nil, refusal.New(refusal.NoController, "", "no controller is known", "try again")
}

// GetBalance measures how evenly the active brokers are loaded.
func (s brokersService) GetBalance(context.Context, *adminv1.GetBalanceRequest) (*adminv1.GetBalanceResponse, error) {
	return &adminv1.GetBalanceResponse{Balance: balance(placement.MeasureWorld(s.backend.World()))}, nil
}

// maxMovesLimit bounds the wanted number of moves to what makes sense.
const maxMovesLimit = 1_000_000

// Rebalance plans, and starts unless on a dry run.
func (s brokersService) Rebalance(ctx context.Context, request *adminv1.RebalanceRequest) (*adminv1.RebalanceResponse, error) {
	if n := request.GetMaxMoves(); n < 0 || n > maxMovesLimit {
		return nil, invalid("max_moves", fmt.Sprint(n), fmt.Sprintf("0 (no bound) to %d", maxMovesLimit))
	}
	started, err := s.backend.StartOperation(ctx, OperationRequest{
		Kind: metadata.OpRebalance, MaxMoves: int(request.GetMaxMoves()), Actor: actor(ctx), DryRun: request.GetDryRun(),
		PlacementRevision: model.Revision(request.GetPlacementRevision()),
	})
	if err != nil {
		return nil, err
	}
	return &adminv1.RebalanceResponse{Plan: s.plan(started.Plan), Operation: s.operation(started.Operation, true), Attached: started.Attached, DryRun: request.GetDryRun()}, nil
}

// Unload plans the drain of a broker, and starts it unless on a dry run.
func (s brokersService) Unload(ctx context.Context, request *adminv1.UnloadRequest) (*adminv1.UnloadResponse, error) {
	id, err := nodeID("broker_id", request.GetBrokerId())
	if err != nil {
		return nil, err
	}
	if _, err := registered(s.backend.Image(), id); err != nil {
		return nil, err
	}
	started, err := s.backend.StartOperation(ctx, OperationRequest{
		Kind: metadata.OpUnload, Node: id, Actor: actor(ctx), DryRun: request.GetDryRun(), PlacementRevision: model.Revision(request.GetPlacementRevision()),
	})
	if err != nil {
		return nil, err
	}
	im := s.backend.Image()
	return &adminv1.UnloadResponse{
		Plan: s.plan(started.Plan), Operation: s.operation(started.Operation, true), Attached: started.Attached, DryRun: request.GetDryRun(),
		Certificate: certificate(operation.CertificateOf(im, id), im),
	}, nil
}

// GetDrainCertificate says what a broker still holds.
func (s brokersService) GetDrainCertificate(_ context.Context, request *adminv1.GetDrainCertificateRequest) (*adminv1.GetDrainCertificateResponse, error) {
	id, err := nodeID("broker_id", request.GetBrokerId())
	if err != nil {
		return nil, err
	}
	im := s.backend.Image()
	if _, err := registered(im, id); err != nil {
		return nil, err
	}
	return &adminv1.GetDrainCertificateResponse{Certificate: certificate(operation.CertificateOf(im, id), im)}, nil
}

// stateChange is a wanted change of a node's state.
type stateChange struct {
	broker int32
	to     metadata.NodeState
	// from, when not empty, is the only state it may come from.
	from   metadata.NodeState
	reason string
	dryRun bool
}

// maxReasonLength bounds the text recorded with a change of state.
const maxReasonLength = 256

func (s *service) setState(ctx context.Context, c stateChange) (broker *adminv1.Broker, already bool, err error) {
	id, err := nodeID("broker_id", c.broker)
	if err != nil {
		return nil, false, err
	}
	if len(c.reason) > maxReasonLength {
		return nil, false, invalid("reason", fmt.Sprintf("%d bytes", len(c.reason)), fmt.Sprintf("at most %d", maxReasonLength))
	}
	node, err := registered(s.backend.Image(), id)
	if err != nil {
		return nil, false, err
	}
	if node.State == c.to {
		return s.broker(ctx, id), true, nil
	}
	if c.from != "" && node.State != c.from {
		return nil, false, refusal.New(refusal.NodeStateConflict, fmt.Sprintf("node %d", id),
			fmt.Sprintf("broker %d is %s, not %s", id, node.State, c.from), fmt.Sprintf("to let it take replicas, run `brokers activate --broker-id %d`", id))
	}
	command := &metadata.SetNodeState{ID: id, State: c.to, Reason: c.reason}
	if c.dryRun {
		if _, err := s.decide(command); err != nil {
			return nil, false, err
		}
	} else if _, err := s.backend.Propose(ctx, command); err != nil {
		return nil, false, err
	}
	return s.broker(ctx, id), false, nil
}

// decide runs a command as a dry run, on the image of this node.
func (s *service) decide(command metadata.Command) (metadata.Decision, error) {
	return metadata.Decide(s.backend.Image(), command, metadata.Env{Now: s.now(), NewUUID: func() [16]byte { return [16]byte{15: 1} }})
}

// Activate lets a broker take replicas.
func (s brokersService) Activate(ctx context.Context, request *adminv1.ActivateRequest) (*adminv1.ActivateResponse, error) {
	b, already, err := s.setState(ctx, stateChange{broker: request.GetBrokerId(), to: metadata.NodeActive, reason: request.GetReason(), dryRun: request.GetDryRun()})
	if err != nil {
		return nil, err
	}
	return &adminv1.ActivateResponse{Broker: b, Already: already, DryRun: request.GetDryRun()}, nil
}

// Cordon keeps new replicas off a broker.
func (s brokersService) Cordon(ctx context.Context, request *adminv1.CordonRequest) (*adminv1.CordonResponse, error) {
	b, already, err := s.setState(ctx, stateChange{broker: request.GetBrokerId(), to: metadata.NodeCordoned, reason: request.GetReason(), dryRun: request.GetDryRun()})
	if err != nil {
		return nil, err
	}
	return &adminv1.CordonResponse{Broker: b, Already: already, DryRun: request.GetDryRun()}, nil
}

// Uncordon takes a cordon back.
func (s brokersService) Uncordon(ctx context.Context, request *adminv1.UncordonRequest) (*adminv1.UncordonResponse, error) {
	b, already, err := s.setState(ctx, stateChange{
		broker: request.GetBrokerId(), to: metadata.NodeActive, from: metadata.NodeCordoned, reason: request.GetReason(), dryRun: request.GetDryRun(),
	})
	if err != nil {
		return nil, err
	}
	return &adminv1.UncordonResponse{Broker: b, Already: already, DryRun: request.GetDryRun()}, nil
}
