package node

import (
	"context"

	"github.com/ister-mq/ister/broker/internal/adminapi"
	"github.com/ister-mq/ister/broker/internal/controlplane"
	"github.com/ister-mq/ister/broker/internal/metadata"
	"github.com/ister-mq/ister/broker/internal/model"
	"github.com/ister-mq/ister/broker/internal/operation"
	"github.com/ister-mq/ister/broker/internal/placement"
)

// backend is the node as the admin API sees it.
type backend struct{ n *Node }

var _ adminapi.Backend = (*backend)(nil)

func (b *backend) Info() adminapi.NodeInfo { return infoOf(b.n.control.Info()) }

func (b *backend) Self() (model.NodeID, model.NodeEpoch) { return b.n.control.Self() }

func (b *backend) Image() *metadata.Image { return b.n.control.Image() }

func (b *backend) Controller() (model.NodeID, bool) { return b.n.control.Controller() }

func (b *backend) Ready() (bool, []string) { return b.n.Ready() }

func (b *backend) Status(ctx context.Context) adminapi.QuorumStatus {
	s := b.n.control.Status(ctx)
	out := adminapi.QuorumStatus{
		Controller: s.Controller, Term: s.Term, LastIndex: s.LastIndex, Applied: s.Applied, Pending: s.Pending,
	}
	for _, m := range s.Members {
		out.Members = append(out.Members, adminapi.Member{
			Node: m.Node, Incarnation: m.Incarnation, Address: m.Address, Voter: m.Voter, Lag: m.Lag, Alive: m.Alive,
		})
	}
	return out
}

func (b *backend) Propose(ctx context.Context, cmd metadata.Command) (any, error) {
	return b.n.control.Propose(ctx, cmd)
}

func (b *backend) AddNode(ctx context.Context, adminAddress string, dryRun bool) (adminapi.NodeInfo, error) {
	info, err := b.n.control.AddNode(ctx, adminAddress, dryRun)
	return infoOf(info), err
}

func (b *backend) PromoteNode(ctx context.Context, node model.NodeID) error {
	return b.n.control.PromoteNode(ctx, node)
}

func (b *backend) DemoteNode(ctx context.Context, node model.NodeID) error {
	return b.n.control.DemoteNode(ctx, node)
}

func (b *backend) RemoveNode(ctx context.Context, node model.NodeID, o adminapi.RemoveOptions) error {
	return b.n.control.RemoveNode(ctx, node, controlplane.RemoveOptions{PlacementRevision: o.PlacementRevision, Reason: o.Reason})
}

func (b *backend) TransferLeadership(ctx context.Context, t adminapi.Transfer) (model.NodeID, error) {
	return b.n.control.TransferLeadership(ctx, controlplane.Transfer{To: t.To, From: t.From})
}

func (b *backend) StartOperation(ctx context.Context, r adminapi.OperationRequest) (adminapi.OperationStarted, error) {
	started, err := b.n.control.StartOperation(ctx, controlplane.OperationRequest{
		Kind: r.Kind, Node: r.Node, Topic: r.Topic, To: r.To, Replicas: r.Replicas,
		MaxMoves: r.MaxMoves, Actor: r.Actor, DryRun: r.DryRun, PlacementRevision: r.PlacementRevision,
	})
	return adminapi.OperationStarted{Plan: started.Plan, Operation: started.Operation, Attached: started.Attached}, err
}

func (b *backend) World() placement.World { return b.n.control.World() }

func (b *backend) Observations() operation.Observations { return b.n.control.Observations() }

func infoOf(i controlplane.NodeInfo) adminapi.NodeInfo {
	return adminapi.NodeInfo{
		Cluster: i.Cluster, Node: i.Node, Wanted: i.Wanted, Incarnation: i.Incarnation, State: string(i.State),
		Endpoints: i.Endpoints, Rack: i.Rack, Version: i.Version,
	}
}

// report hands the data plane's report to the control plane.
func (n *Node) report() controlplane.Report {
	r := n.data.Report()
	out := controlplane.Report{
		Disk:  controlplane.Disk{TotalBytes: r.Disk.TotalBytes, FreeBytes: r.Disk.FreeBytes, Known: r.Disk.Known, Full: r.Disk.Full},
		Bytes: r.Bytes, Retired: r.Retired, Known: r.Known,
	}
	for _, p := range r.Progress {
		out.Progress = append(out.Progress, controlplane.Progress{
			Partition: p.Partition, Node: p.Node, LogStart: p.LogStart, LogEnd: p.LogEnd, LeaderLogEnd: p.LeaderLogEnd,
			BytesBehind: p.BytesBehind, InSync: p.InSync, CaughtUp: p.CaughtUp,
		})
	}
	return out
}
