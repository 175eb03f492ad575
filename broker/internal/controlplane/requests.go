package controlplane

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ister-mq/ister/broker/internal/metadata"
	"github.com/ister-mq/ister/broker/internal/model"
	"github.com/ister-mq/ister/broker/internal/operation"
	"github.com/ister-mq/ister/broker/internal/placement"
	"github.com/ister-mq/ister/broker/internal/refusal"
)

// planAttempts bounds how often a plan is made again because the placement
// changed before it was accepted.
const planAttempts = 5

// OperationRequest asks for a plan, and for an operation unless DryRun.
type OperationRequest struct {
	Kind     metadata.OperationKind `json:"kind"`               // rebalance, unload, move_topic or heal
	Node     model.NodeID           `json:"node,omitempty"`     // of an unload
	Topic    model.TopicName        `json:"topic,omitzero"`     // of a move
	To       model.NodeID           `json:"to,omitempty"`       // of a move; NoNode: any other
	Replicas bool                   `json:"replicas,omitempty"` // of a move: relocate a copy, not only leadership
	MaxMoves int                    `json:"max_moves,omitempty"`
	Actor    string                 `json:"actor,omitempty"`
	DryRun   bool                   `json:"dry_run,omitempty"`
	// PlacementRevision, when not 0, is that of the plan which the caller has
	// seen: no plan of a later placement is started in its stead.
	PlacementRevision model.Revision `json:"placement_revision,omitempty"`
}

// OperationStarted is a plan and what became of it. Operation is nil on a dry
// run and when there is nothing to do.
type OperationStarted struct {
	Plan      placement.Plan      `json:"plan"`
	Operation *metadata.Operation `json:"operation,omitempty"`
	Attached  bool                `json:"attached"` // it was running before
}

var verbStart = verb[OperationRequest, OperationStarted]{
	name:       "start-operation",
	repeatable: always[OperationRequest], // the key attaches a repetition
	run: func(o *office, ctx context.Context, r OperationRequest) (OperationStarted, error) {
		return o.start(ctx, r)
	},
}

// StartOperation plans on the controller and, unless on a dry run, makes the plan
// a durable operation. A request like one under way attaches to it.
func (p *Plane) StartOperation(ctx context.Context, r OperationRequest) (OperationStarted, error) {
	out, err := ask(p, ctx, verbStart, r)
	if err == nil && out.Operation != nil {
		id := out.Operation.ID
		ctx, cancel := context.WithTimeout(ctx, followTimeout)
		defer cancel()
		p.until(ctx, func(im *metadata.Image) bool { return im.Operations[id] != nil })
	}
	return out, err
}

// key is the same for requests that ask for the same.
func (r OperationRequest) key() string {
	switch r.Kind {
	case metadata.OpUnload:
		return fmt.Sprintf("unload node=%v", r.Node)
	case metadata.OpMoveTopic:
		return fmt.Sprintf("move_topic topic=%v to=%v replicas=%v", r.Topic, r.To, r.Replicas)
	case metadata.OpRebalance:
		return fmt.Sprintf("rebalance max_moves=%d", r.MaxMoves)
	}
	return string(r.Kind)
}

func (o *office) start(ctx context.Context, r OperationRequest) (OperationStarted, error) {
	switch r.Kind {
	case metadata.OpRebalance, metadata.OpUnload, metadata.OpMoveTopic, metadata.OpHeal:
	default:
		return OperationStarted{}, refusal.New(refusal.InvalidArgument, "kind", fmt.Sprintf("operations of kind %q are not started this way", r.Kind), "")
	}
	for range planAttempts {
		if !r.DryRun {
			if op := o.underWay(r.key()); op != nil {
				return OperationStarted{Plan: attachedPlan(op), Operation: op, Attached: true}, nil
			}
		}
		out, err := o.planAndStart(ctx, r)
		if !refusal.Is(err, refusal.StaleRevision) || r.PlacementRevision != 0 {
			return out, err
		}
	}
	return OperationStarted{}, refusal.New(refusal.StaleRevision, "placement", "the placement changed again and again while it was planned on", "retry")
}

func (o *office) underWay(key string) *metadata.Operation {
	for _, op := range o.plane.Image().LiveOperations() {
		if op.Key == key {
			return op
		}
	}
	return nil
}

func attachedPlan(op *metadata.Operation) placement.Plan {
	return placement.Plan{Kind: op.Kind, Subject: op.Subject, Node: op.Node, Moves: op.Moves}
}

func (o *office) planAndStart(ctx context.Context, r OperationRequest) (OperationStarted, error) {
	o.settle(ctx)
	v, err := o.view()
	if err != nil {
		return OperationStarted{}, err
	}
	w := o.world()
	if err := w.Image.CheckPlacement(r.PlacementRevision); err != nil {
		return OperationStarted{}, err
	}
	plan, findings := operation.Preflight(w, v, operation.Request{
		Kind: r.Kind, Node: r.Node, Topic: r.Topic, To: r.To, Replicas: r.Replicas, MaxMoves: r.MaxMoves,
	})
	plan.Findings = findings
	out := OperationStarted{Plan: plan}
	if errors := slices.DeleteFunc(slices.Clone(findings), func(f operation.Finding) bool { return f.Severity != placement.SeverityError }); len(errors) > 0 && !r.DryRun || plan.Kind == "" && len(errors) > 0 {
		return out, blockedRequest(errors)
	}
	// An unload without a move still marks its node drained.
	if r.DryRun || plan.Empty() && r.Kind != metadata.OpUnload {
		return out, nil
	}
	done := o.submit(ctx, &metadata.StartOperation{
		Kind: r.Kind, Subject: plan.Subject, Actor: r.Actor, Key: r.key(), Node: plan.Node,
		Moves: plan.Moves, PlacementRevision: w.Image.PlacementRevision,
	})
	if done.err != nil {
		return out, done.err
	}
	result := done.result.(*metadata.OperationResult)
	out.Operation, out.Attached = o.plane.Image().Operations[result.ID], result.Attached
	return out, nil
}

// blockedRequest is one refusal for every error among the findings.
func blockedRequest(errors []operation.Finding) error {
	messages := make([]string, len(errors))
	for i, f := range errors {
		messages[i] = f.Message
	}
	return refusal.New(errors[0].Code, errors[0].Object, strings.Join(messages, "; "), errors[0].Remedy)
}

// World is what the planner would look at now; sizes and disks are known on the
// controller only.
func (p *Plane) World() placement.World {
	if o := p.office.Load(); o != nil {
		return o.world()
	}
	return placement.World{Image: p.Image()}
}

func (o *office) world() placement.World {
	w := placement.World{Image: o.plane.Image(), Bytes: map[model.Partition]int64{}, Disk: map[model.NodeID]placement.Disk{}}
	o.mu.Lock()
	defer o.mu.Unlock()
	for node, c := range o.contacts {
		if !c.report.Known {
			continue
		}
		d := c.report.Disk
		w.Disk[node] = placement.Disk{TotalBytes: d.TotalBytes, FreeBytes: d.FreeBytes, Known: d.Known}
		for id, bytes := range c.report.Bytes {
			w.Bytes[id] = max(w.Bytes[id], bytes)
		}
	}
	return w
}

// Observations are the latest reports; complete on the controller only.
func (p *Plane) Observations() operation.Observations {
	if o := p.office.Load(); o != nil {
		return o.observations()
	}
	return operation.Observations{Now: time.Now(), Limits: p.cfg.Limits}
}

func (o *office) observations() operation.Observations {
	obs := operation.Observations{
		Now: time.Now(), Limits: o.plane.cfg.Limits,
		Progress: map[model.Partition]map[model.NodeID]operation.ReplicaProgress{},
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, c := range o.contacts {
		for _, one := range c.report.Progress {
			byNode := obs.Progress[one.Partition]
			if byNode == nil {
				byNode = map[model.NodeID]operation.ReplicaProgress{}
				obs.Progress[one.Partition] = byNode
			}
			var bytes int64
			if holder := o.contacts[one.Node]; holder != nil {
				bytes = holder.report.Bytes[one.Partition]
			}
			byNode[one.Node] = operation.ReplicaProgress{LogEnd: one.LogEnd, LeaderLogEnd: one.LeaderLogEnd, Bytes: bytes, InSync: one.InSync}
		}
	}
	return obs
}
