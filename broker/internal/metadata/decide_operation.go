package metadata

import (
	"fmt"
	"slices"

	"github.com/ister-mq/ister/broker/internal/model"
	"github.com/ister-mq/ister/broker/internal/refusal"
)

// keptOperations bounds the finished operations that the image remembers.
const keptOperations = 200

func decideStart(im *Image, c *StartOperation, env Env) (Decision, error) {
	if c.Key == "" {
		return Decision{}, refusal.New(refusal.InvalidArgument, "key", "an operation needs a key", "")
	}
	for _, o := range im.LiveOperations() {
		if o.Key == c.Key {
			return Decision{Result: &OperationResult{ID: o.ID, Attached: true}}, nil
		}
	}
	if c.PlacementRevision != im.PlacementRevision {
		return Decision{}, staleRevision(im, c.PlacementRevision)
	}
	if err := judgeMoves(im, c.Moves); err != nil {
		return Decision{}, err
	}
	o := &Operation{
		ID: im.NextOperation, Kind: c.Kind, State: OpRunning, Subject: c.Subject, Actor: c.Actor, Key: c.Key,
		Node: c.Node, StartedAt: env.Now, UpdatedAt: env.Now, Revision: im.Revision + 1,
	}
	for _, m := range c.Moves {
		planned := *m
		planned.State, planned.Reason = MovePlanned, ""
		o.Moves = append(o.Moves, &planned)
	}
	d := Decision{Records: []Record{&OperationStarted{Operation: o}}, Result: &OperationResult{ID: o.ID}}
	if c.Kind == OpUnload {
		n := im.Nodes[c.Node]
		if n == nil {
			return Decision{}, nodeNotFound(c.Node)
		}
		if n.State == NodeLeaving || n.State == NodeJoining {
			return Decision{}, refusal.New(refusal.NodeStateConflict, c.Node.String(),
				fmt.Sprintf("node %d is %s and cannot be unloaded", c.Node, n.State), "")
		}
		changed := *n
		changed.State, changed.Reason = NodeDraining, o.ID.String()
		d.Records = append(d.Records, &NodeChanged{Node: &changed})
	}
	return Decision{Records: append(d.Records, forget(im)...), Result: d.Result}, nil
}

// forget drops the oldest finished operations beyond the bound.
func forget(im *Image) []Record {
	done := slices.DeleteFunc(im.SortedOperations(), func(o *Operation) bool { return !o.State.Done() })
	var out []Record
	for i := 0; i < len(done)-keptOperations; i++ {
		out = append(out, &OperationForgotten{ID: done[i].ID})
	}
	return out
}

// judgeMoves checks each move of a plan against the image it was made on.
func judgeMoves(im *Image, moves []*Move) error {
	busy := map[model.Partition]model.OperationID{}
	for _, o := range im.LiveOperations() {
		for _, m := range o.Moves {
			if !m.State.Done() {
				busy[m.Partition] = o.ID
			}
		}
	}
	planned := map[model.Partition]bool{}
	for _, m := range moves {
		p := im.Partition(m.Partition)
		switch {
		case p == nil:
			return refusal.New(refusal.PartitionNotFound, m.Partition.String(), fmt.Sprintf("partition %s does not exist", m.Partition), "plan again")
		case busy[m.Partition] != 0:
			return refusal.New(refusal.OperationConflict, m.Partition.String(),
				fmt.Sprintf("partition %s is being moved by %s", m.Partition, busy[m.Partition]),
				fmt.Sprintf("wait for it, or `cluster operations cancel %s`", busy[m.Partition]))
		case planned[m.Partition]:
			return refusal.New(refusal.InvalidArgument, m.Partition.String(), "a plan names a partition once", "")
		case len(p.Target) > 0 || !sameNodes(m.From, p.Replicas):
			return refusal.New(refusal.StaleRevision, m.Partition.String(), "the partition's replicas are not those of the plan", "plan again")
		}
		planned[m.Partition] = true
		if err := judgeTarget(im, p, m); err != nil {
			return err
		}
	}
	return nil
}

func judgeTarget(im *Image, p *Partition, m *Move) error {
	seen := map[model.NodeID]bool{}
	for _, id := range m.To {
		if seen[id] {
			return refusal.New(refusal.InvalidArgument, m.Partition.String(), fmt.Sprintf("node %d is named twice", id), "")
		}
		seen[id] = true
		if !model.HasNode(p.Replicas, id) && !im.CanPlace(id) {
			return refusal.New(refusal.NoPlacement, id.String(), fmt.Sprintf("node %d is not active and alive", id), "see `cluster members`; plan again")
		}
	}
	if len(m.To) == 0 || len(m.To) < len(p.Replicas) {
		return refusal.New(refusal.InvalidReplicas, m.Partition.String(),
			fmt.Sprintf("the move would leave %d of %d replicas", len(m.To), len(p.Replicas)), "plan again")
	}
	if m.Leader != model.NoNode && !seen[m.Leader] {
		return refusal.New(refusal.InvalidArgument, m.Partition.String(), "the wanted leader is not one of the replicas", "")
	}
	return nil
}

func sameNodes(a, b []model.NodeID) bool {
	return slices.Equal(model.SortNodes(slices.Clone(a)), model.SortNodes(slices.Clone(b)))
}

func (o *Operation) move(p model.Partition) *Move {
	for _, m := range o.Moves {
		if m.Partition == p {
			return m
		}
	}
	return nil
}

func operationNotFound(id model.OperationID) error {
	return refusal.New(refusal.OperationNotFound, id.String(), fmt.Sprintf("operation %s does not exist", id), "see `cluster operations list`")
}

func decideAdvance(im *Image, c *AdvanceMove, env Env) (Decision, error) {
	o := im.Operations[c.Operation]
	if o == nil {
		return Decision{}, operationNotFound(c.Operation)
	}
	m := o.move(c.Partition)
	if m == nil {
		return Decision{}, refusal.New(refusal.PartitionNotFound, c.Partition.String(), fmt.Sprintf("%s has no move of it", o.ID), "")
	}
	if m.State == c.To {
		return Decision{}, nil
	}
	p := im.Partition(c.Partition)
	if p == nil {
		c.To = MoveCancelled
	}
	moved := &MoveChanged{Operation: o.ID, Partition: m.Partition, State: c.To, Reason: c.Reason, UpdatedAt: env.Now}
	np, err := advanced(im, o, m, p, c.To)
	if err != nil {
		return Decision{}, err
	}
	d := Decision{Records: []Record{moved}}
	if np != nil {
		d.Records = append(d.Records, &PartitionChanged{Partition: np})
	}
	return d, nil
}

// advanced is the partition after the stage, nil when it does not change.
func advanced(im *Image, o *Operation, m *Move, p *Partition, to MoveState) (*Partition, error) {
	switch {
	case p == nil && !m.State.Done():
		return nil, nil
	case m.State == MovePlanned && (to == MoveCancelled || to == MoveFailed):
		return nil, nil
	case m.State == MovePlanned && to == MoveDone:
		return handOver(im, m, p)
	case m.State == MovePlanned && to == MoveAdding:
		return startAdding(im, o, m, p)
	case m.State == MoveAdding && to == MoveSwitched:
		return switchOver(im, m, p)
	case m.State == MoveAdding && (to == MoveCancelled || to == MoveFailed):
		return revert(im, m, p)
	case m.State == MoveSwitched && to == MoveDone:
		for _, id := range p.Retiring {
			if im.Unfenced(id) {
				return nil, refusal.New(refusal.NodeHoldsReplicas, id.String(),
					fmt.Sprintf("node %d has not given up its copy of %s", id, p.ID), "wait")
			}
		}
		return nil, nil
	}
	return nil, refusal.New(refusal.OperationPastCancel, m.Partition.String(),
		fmt.Sprintf("a move cannot go from %s to %s", m.State, to), "")
}

// handOver reorders the replicas and elects the wanted leader.
func handOver(im *Image, m *Move, p *Partition) (*Partition, error) {
	if m.ReplicasChange() || len(p.Target) > 0 || !sameNodes(m.To, p.Replicas) {
		return nil, refusal.New(refusal.StaleRevision, p.ID.String(), "the partition's replicas are not those of the plan", "plan again")
	}
	leader := m.Leader
	if leader == model.NoNode {
		leader = p.Leader
	} else if !model.HasNode(p.ISR, leader) || !im.Unfenced(leader) {
		return nil, refusal.New(refusal.NotInSync, leader.String(), fmt.Sprintf("node %d is not an in-sync replica of %s", leader, p.ID), "wait until it has caught up")
	}
	np := im.elected(p, leader)
	np.Replicas = m.To
	return np, nil
}

func startAdding(im *Image, o *Operation, m *Move, p *Partition) (*Partition, error) {
	if len(p.Target) > 0 || !sameNodes(m.From, p.Replicas) {
		return nil, refusal.New(refusal.StaleRevision, p.ID.String(), "the partition's replicas are not those of the plan", "plan again")
	}
	np := p.clone()
	np.Target, np.Operation = m.To, o.ID
	np.Adding, np.Removing = nil, nil
	for _, id := range m.To {
		if model.HasNode(p.Replicas, id) {
			continue
		}
		if !im.CanPlace(id) {
			return nil, refusal.New(refusal.NoPlacement, id.String(), fmt.Sprintf("node %d is not active and alive", id), "wait for it, or cancel")
		}
		if model.HasNode(p.Retiring, id) {
			return nil, refusal.New(refusal.NodeHoldsReplicas, id.String(),
				fmt.Sprintf("node %d is still giving up an earlier copy of %s", id, p.ID), "wait")
		}
		np.Adding = append(np.Adding, id)
	}
	np.Replicas = slices.Clone(m.To)
	for _, id := range p.Replicas {
		if !model.HasNode(m.To, id) {
			np.Removing = append(np.Removing, id)
			np.Replicas = append(np.Replicas, id)
		}
	}
	return np, nil
}

// switchOver is the one record by which a replica set changes.
func switchOver(im *Image, m *Move, p *Partition) (*Partition, error) {
	isr := slices.Clone(p.ISR)
	for _, id := range p.Removing {
		isr = model.WithoutNode(isr, id)
	}
	for _, id := range p.Adding {
		if plantRemoveEarly {
			continue
		}
		if !model.HasNode(p.ISR, id) || !im.Unfenced(id) {
			return nil, refusal.New(refusal.NotInSync, id.String(), fmt.Sprintf("node %d has not caught up with %s", id, p.ID), "wait")
		}
	}
	if plantRemoveEarly && len(isr) == 0 {
		isr = model.SortNodes(slices.Clone(p.Target))
	}
	if need := min(im.MinISR(p), len(p.Target)); len(isr) < need {
		return nil, refusal.New(refusal.MinISRAtRisk, p.ID.String(),
			fmt.Sprintf("%d of the replicas that stay are in sync, %d are needed", len(isr), need), "wait until they have caught up")
	}
	np := p.clone()
	np.Replicas, np.ISR = p.Target, isr
	np.Retiring = p.Retiring
	for _, id := range p.Removing {
		if !model.HasNode(np.Retiring, id) {
			np.Retiring = append(slices.Clone(np.Retiring), id)
		}
	}
	np.Target, np.Adding, np.Removing, np.Operation = nil, nil, nil, 0
	leader := m.Leader
	if leader == model.NoNode {
		leader = p.Leader
	}
	if !model.HasNode(isr, leader) || !im.Unfenced(leader) {
		leader = im.ChooseLeader(np)
	}
	np.Leader = leader
	// Always a new epoch, so that no removed replica can be taken into the ISR
	// by a proposal made under the old one.
	np.LeaderEpoch++
	return np, nil
}

// revert undoes a move before its switch: the old set again.
func revert(im *Image, m *Move, p *Partition) (*Partition, error) {
	np := p.clone()
	isr := slices.Clone(p.ISR)
	for _, id := range p.Adding {
		isr = model.WithoutNode(isr, id)
		if !model.HasNode(np.Retiring, id) {
			np.Retiring = append(slices.Clone(np.Retiring), id)
		}
	}
	if len(isr) == 0 {
		return nil, refusal.New(refusal.NotInSync, p.ID.String(),
			"none of the old replicas is in sync: going back would lose data", "wait until one has caught up, or let the move finish")
	}
	np.Replicas, np.ISR = m.From, isr
	np.Target, np.Adding, np.Removing, np.Operation = nil, nil, nil, 0
	if !model.HasNode(isr, np.Leader) || !im.Unfenced(np.Leader) {
		np.Leader = im.ChooseLeader(np)
	}
	np.LeaderEpoch++
	return np, nil
}

func decideFinish(im *Image, c *FinishOperation, env Env) (Decision, error) {
	o := im.Operations[c.Operation]
	if o == nil {
		return Decision{}, operationNotFound(c.Operation)
	}
	if o.State == c.State && o.Reason == c.Reason && o.Message == c.Message {
		return Decision{}, nil
	}
	if o.State.Done() {
		return Decision{}, finished(o)
	}
	changed := &OperationChanged{ID: o.ID, State: c.State, Reason: c.Reason, Message: c.Message, UpdatedAt: env.Now}
	d := Decision{Records: []Record{changed}}
	if !c.State.Done() {
		return d, nil
	}
	changed.EndedAt = env.Now
	for _, m := range o.Moves {
		if !m.State.Done() {
			return Decision{}, refusal.New(refusal.OperationConflict, o.ID.String(),
				fmt.Sprintf("the move of %s is still %s", m.Partition, m.State), "finish or cancel the moves first")
		}
	}
	if n := im.Nodes[o.Node]; o.Kind == OpUnload && n != nil && n.State == NodeDraining {
		after := *n
		switch c.State {
		case OpSucceeded:
			after.State = NodeDrained
		case OpCancelled:
			after.State = NodeActive
		default:
			after.State = NodeCordoned
		}
		d.Records = append(d.Records, &NodeChanged{Node: &after})
	}
	return d, nil
}

func finished(o *Operation) error {
	return refusal.New(refusal.OperationFinished, o.ID.String(), fmt.Sprintf("%s is %s already", o.ID, o.State), "")
}

func decideCancel(im *Image, c *CancelOperation, env Env) (Decision, error) {
	o := im.Operations[c.Operation]
	switch {
	case o == nil:
		return Decision{}, operationNotFound(c.Operation)
	case o.State == OpCancelling, o.State == OpCancelled:
		return Decision{}, nil
	case o.State.Done():
		return Decision{}, finished(o)
	}
	return Decision{Records: []Record{&OperationChanged{
		ID: o.ID, State: OpCancelling, Message: "cancelled by " + c.Actor, UpdatedAt: env.Now,
	}}}, nil
}
