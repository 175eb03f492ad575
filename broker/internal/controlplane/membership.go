package controlplane

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ister-mq/ister/broker/internal/metadata"
	"github.com/ister-mq/ister/broker/internal/model"
	"github.com/ister-mq/ister/broker/internal/operation"
	"github.com/ister-mq/ister/broker/internal/peer"
	"github.com/ister-mq/ister/broker/internal/quorum"
	"github.com/ister-mq/ister/broker/internal/refusal"
)

// How a node is removed. The mark "leaving" is the point of no return: from
// there on the steward finishes what a crash cut short.
//
//	judge · mark leaving · hand the office over when it is the node's · voter to
//	learner · out of the quorum · tombstone · tell the node, which writes it to
//	its disk and stops serving

const (
	methodRemoved = "removed"

	tellTimeout     = time.Second
	changeAttempts  = 5
	transferTimeout = 3 * time.Second
)

type nodeRequest struct {
	Node model.NodeID `json:"node"`
}

type removeRequest struct {
	Node    model.NodeID  `json:"node"`
	Options RemoveOptions `json:"options"`
}

type nothing struct{}

var verbPromote = verb[nodeRequest, nothing]{
	name:       "promote-node",
	repeatable: always[nodeRequest],
	run: func(o *office, ctx context.Context, r nodeRequest) (nothing, error) {
		return nothing{}, o.promote(ctx, r.Node)
	},
}

var verbDemote = verb[nodeRequest, nothing]{
	name:       "demote-node",
	repeatable: always[nodeRequest],
	run: func(o *office, ctx context.Context, r nodeRequest) (nothing, error) {
		return nothing{}, o.demote(ctx, r.Node)
	},
}

var verbRemove = verb[removeRequest, nothing]{
	name:       "remove-node",
	repeatable: always[removeRequest],
	run: func(o *office, ctx context.Context, r removeRequest) (nothing, error) {
		return nothing{}, o.remove(ctx, r)
	},
}

var verbTransfer = verb[Transfer, nodeRequest]{
	name: "transfer-leadership",
	// Repeated, it would move the office once more.
	repeatable: func(r *Transfer) bool { return r.To != model.NoNode },
	run: func(o *office, ctx context.Context, r Transfer) (nodeRequest, error) {
		if r.From != model.NoNode && r.From != o.self && r.To != o.self {
			return nodeRequest{}, refusal.New(refusal.StaleRevision, "controller", fmt.Sprintf("node %d is not the controller any more: node %d is", r.From, o.self), "look again who is")
		}
		to, err := o.transfer(ctx, r.To)
		return nodeRequest{Node: to}, err
	},
}

// PromoteNode makes a learner a voter: when it answers the controller and is
// caught up, no other change is pending, and the live voters are a quorum of the
// grown set. Repeating it is fine.
func (p *Plane) PromoteNode(ctx context.Context, node model.NodeID) error {
	_, err := ask(p, ctx, verbPromote, nodeRequest{Node: node})
	return err
}

// DemoteNode makes a voter a learner, by the rules of a removal.
func (p *Plane) DemoteNode(ctx context.Context, node model.NodeID) error {
	_, err := ask(p, ctx, verbDemote, nodeRequest{Node: node})
	return err
}

// RemoveNode takes an empty node out of the quorum and the cluster for ever, from
// any node, also when it is the controller. Every blocker is named. Repeating it
// finishes a removal that was cut short; removing a removed node succeeds.
func (p *Plane) RemoveNode(ctx context.Context, node model.NodeID, opts RemoveOptions) error {
	_, err := ask(p, ctx, verbRemove, removeRequest{Node: node, Options: opts})
	return err
}

// Transfer says to whom the controller's office goes.
type Transfer struct {
	To   model.NodeID `json:"node"`           // NoNode: the live voter that is least behind
	From model.NodeID `json:"from,omitempty"` // when not NoNode, must have it; fine also when To has it already
}

// TransferLeadership makes a voter the controller and returns it.
func (p *Plane) TransferLeadership(ctx context.Context, t Transfer) (model.NodeID, error) {
	r, err := ask(p, ctx, verbTransfer, t)
	if err != nil {
		return model.NoNode, err
	}
	p.awaitController(ctx, func(c model.NodeID) bool { return c == r.Node })
	return r.Node, nil
}

// awaitController waits until a fitting controller is seen, or a moment.
func (p *Plane) awaitController(ctx context.Context, fits func(model.NodeID) bool) {
	ctx, cancel := context.WithTimeout(ctx, followTimeout)
	defer cancel()
	for {
		changed := p.controllers.C()
		if c, ok := p.Controller(); ok && fits(c) || !p.waitController(ctx, changed) {
			return
		}
	}
}

// settle waits until this office can say of every member whether it is alive,
// which takes one heartbeat, or for a silent one a lease.
func (o *office) settle(ctx context.Context) {
	for {
		m, err := o.members()
		if err != nil {
			return
		}
		at, now, known := o.quorum.Status(), time.Now(), true
		for _, one := range m.All {
			ok, _, _, _ := o.judgeMember(one.Node, at, now)
			known = known && ok
		}
		select {
		case <-o.done:
			return
		default:
		}
		if known || !pause(ctx, o.plane.timing.Heartbeat/lookEvery) {
			return
		}
	}
}

// view is the quorum as the safety rules want it.
func (o *office) view() (operation.QuorumView, error) {
	m, err := o.members()
	if err != nil {
		return operation.QuorumView{}, err
	}
	v := operation.QuorumView{Controller: o.self, Pending: m.Pending}
	at, now := o.quorum.Status(), time.Now()
	for _, one := range m.All {
		var e operation.Member
		e.Node = one.Node
		e.Known, e.Alive, e.LastContact, e.AppliedLag = o.judgeMember(one.Node, at, now)
		if one.Voter {
			v.Voters = append(v.Voters, e)
		} else {
			v.Learners = append(v.Learners, e)
		}
	}
	return v, nil
}

// blocked turns blockers into one refusal that names each.
func blocked(subject model.NodeID, blockers []operation.Blocker) error {
	messages := make([]string, len(blockers))
	for i, b := range blockers {
		messages[i] = b.Message
	}
	return refusal.New(blockers[0].Code, subject.String(), strings.Join(messages, "; "), blockers[0].Remedy)
}

// change makes one membership change, fenced on the members that decide saw; it
// looks again when they changed meanwhile. A nil act is: nothing to do.
func (o *office) change(ctx context.Context, decide func(quorum.Members) (act func() error, err error)) error {
	for range changeAttempts {
		m, err := o.members()
		if err != nil {
			return err
		}
		act, err := decide(m)
		if err != nil || act == nil {
			return err
		}
		if err = act(); !errors.Is(err, quorum.ErrConfigurationChanged) {
			return o.changeError(err)
		}
	}
	return refusal.New(refusal.MembershipPending, "quorum", "the members changed again and again meanwhile", "retry")
}

// changeError gives a raft failure the caller's words.
func (o *office) changeError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, quorum.ErrNotController):
		return o.plane.notController()
	case errors.Is(err, quorum.ErrOutcomeUnknown):
		return refusal.New(refusal.OutcomeUnknown, "quorum", err.Error(), "repeat the request")
	}
	return err
}

func (o *office) promote(ctx context.Context, node model.NodeID) error {
	if err := o.claim(ctx); err != nil {
		return err
	}
	defer o.release()
	o.settle(ctx)
	n := o.plane.Image().Nodes[node]
	if n != nil {
		pctx, cancel := context.WithTimeout(ctx, admitTimeout)
		by, err := o.plane.peer.Probe(pctx, peer.Target{Address: n.Endpoints.Raft})
		cancel()
		if err != nil || by.Incarnation != n.Incarnation {
			return refusal.New(refusal.NodeUnreachable, node.String(), fmt.Sprintf("node %v cannot be reached at %s from the controller", node, n.Endpoints.Raft), "check that it runs and the network between")
		}
	}
	err := o.change(ctx, func(m quorum.Members) (func() error, error) {
		v, err := o.view()
		if err != nil {
			return nil, err
		}
		if safe, blockers := operation.SafeToPromote(o.plane.Image(), node, v); !safe {
			return nil, blocked(node, blockers)
		}
		member, ok := m.Get(node)
		if !ok || member.Voter {
			return nil, nil
		}
		return func() error { return o.quorum.AddVoter(ctx, member, m.Index) }, nil
	})
	if err == nil {
		o.plane.log.Info("node was promoted to voter", "node", node)
	}
	return err
}

// safeToDemote is the quorum's part of the rules of a removal.
func (o *office) safeToDemote(node model.NodeID) error {
	v, err := o.view()
	if err != nil {
		return err
	}
	_, blockers := operation.SafeToRemove(o.plane.Image(), node, v)
	var left []operation.Blocker
	for _, b := range blockers {
		switch b.Code {
		case refusal.NodeHoldsReplicas, refusal.NodeHoldsLeaders, refusal.NodeHasMoves, refusal.NodeNotDrained, refusal.InvalidReplicas:
			// A learner may hold all of this.
		default:
			left = append(left, b)
		}
	}
	if len(left) > 0 {
		return blocked(node, left)
	}
	return nil
}

func (o *office) demote(ctx context.Context, node model.NodeID) error {
	if err := o.claim(ctx); err != nil {
		return err
	}
	defer o.release()
	o.settle(ctx)
	m, err := o.members()
	if err != nil {
		return err
	}
	if one, ok := m.Get(node); ok && !one.Voter {
		return nil
	}
	if err := o.safeToDemote(node); err != nil {
		return err
	}
	if node == o.self {
		return o.yield(ctx)
	}
	return o.demoteVoter(ctx, node)
}

func (o *office) demoteVoter(ctx context.Context, node model.NodeID) error {
	return o.change(ctx, func(m quorum.Members) (func() error, error) {
		member, ok := m.Get(node)
		if !ok || !member.Voter {
			return nil, nil
		}
		return func() error { return o.quorum.DemoteVoter(ctx, member, m.Index) }, nil
	})
}

// yield hands the office over and refuses with NOT_CONTROLLER, so that the
// request goes on at the next controller.
func (o *office) yield(ctx context.Context) error {
	if err := o.plane.handOver(ctx, o.quorum, model.NoNode); err != nil {
		return err
	}
	return o.plane.notController()
}

func (o *office) remove(ctx context.Context, r removeRequest) error {
	p := o.plane
	im := p.Image()
	if im.Nodes[r.Node] == nil && im.Tombstones[r.Node] != nil {
		return nil
	}
	if err := o.claim(ctx); err != nil {
		return err
	}
	defer o.release()
	o.settle(ctx)
	im = p.Image()
	n := im.Nodes[r.Node]
	if n == nil && im.Tombstones[r.Node] != nil {
		return nil // the steward finished it while this waited for its turn
	}
	resumed := n != nil && n.State == metadata.NodeLeaving
	if fence := r.Options.PlacementRevision; fence != 0 && fence != im.PlacementRevision && !resumed {
		return refusal.New(refusal.StaleRevision, r.Node.String(),
			fmt.Sprintf("the placement changed since revision %d (now %d)", fence, im.PlacementRevision), "look at the node again and repeat")
	}
	v, err := o.view()
	if err != nil {
		return err
	}
	if safe, blockers := operation.SafeToRemove(im, r.Node, v); !safe {
		return blocked(r.Node, blockers)
	}
	if !resumed {
		if out := o.submit(ctx, &metadata.SetNodeState{ID: r.Node, State: metadata.NodeLeaving, Reason: r.Options.Reason}); out.err != nil {
			return out.err
		}
	}
	if r.Node == o.self {
		return o.yield(ctx)
	}
	return o.finishRemoval(ctx, n, r.Options.Reason)
}

// finishRemoval does what is left to do for a leaving node.
func (o *office) finishRemoval(ctx context.Context, n *metadata.Node, reason string) error {
	if err := o.demoteVoter(ctx, n.ID); err != nil {
		return err
	}
	err := o.change(ctx, func(m quorum.Members) (func() error, error) {
		member, ok := m.Get(n.ID)
		switch {
		case !ok:
			return nil, nil
		case member.Voter: // confirmed above; somebody promoted it since
			return nil, refusal.New(refusal.MembershipPending, n.ID.String(), fmt.Sprintf("node %v became a voter again", n.ID), "repeat the removal")
		}
		return func() error { return o.quorum.Remove(ctx, member, m.Index) }, nil
	})
	if err != nil {
		return err
	}
	if reason == "" {
		reason = n.Reason
	}
	if out := o.submit(ctx, &metadata.RemoveNode{ID: n.ID, Reason: reason}); out.err != nil {
		return out.err
	}
	o.plane.log.Info("node was removed", "node", n.ID, "reason", reason)
	o.tellRemoved(ctx, n)
	return nil
}

// tellRemoved tells a node that it was removed. It may be down; it hears it from
// any other node when it comes back.
func (o *office) tellRemoved(ctx context.Context, n *metadata.Node) {
	ctx, cancel := context.WithTimeout(ctx, tellTimeout)
	defer cancel()
	err := o.plane.peer.Call(ctx, peer.Target{Address: n.Endpoints.Raft, Node: n.ID, Incarnation: n.Incarnation}, methodRemoved,
		admission{Cluster: o.plane.Image().Cluster, Node: n.ID, Incarnation: n.Incarnation}, nil)
	if err != nil {
		o.plane.log.Debug("removed node was not told", "node", n.ID, "reason", err)
	}
}

// handleRemoved hears that this node was removed. Only a node of its own cluster
// can say so.
func (p *Plane) handleRemoved(_ context.Context, from peer.Identity, body json.RawMessage) (any, error) {
	var a admission
	if err := json.Unmarshal(body, &a); err != nil {
		return nil, fmt.Errorf("decode %s: %w", methodRemoved, err)
	}
	id := p.store.get()
	if id.Cluster == "" || from.Cluster != id.Cluster || a.Cluster != id.Cluster || a.Node != id.Node || a.Incarnation != id.Incarnation {
		return nil, refusal.New(refusal.WrongIncarnation, id.Node.String(), fmt.Sprintf("this is node %v of cluster %s", id.Node, id.Cluster), "")
	}
	p.remove(id)
	return nil, nil
}

func (o *office) transfer(ctx context.Context, to model.NodeID) (model.NodeID, error) {
	if to == o.self {
		return to, nil
	}
	o.settle(ctx)
	m, err := o.members()
	if err != nil {
		return model.NoNode, err
	}
	if to == model.NoNode {
		if to = o.successor(m); to == model.NoNode {
			return to, refusal.New(refusal.LastVoter, o.self.String(), "no other voter is alive", "promote another node, or bring one back")
		}
	}
	switch one, ok := m.Get(to); {
	case !ok:
		return model.NoNode, refusal.New(refusal.NodeNotFound, to.String(), fmt.Sprintf("node %v is not a member of the quorum", to), "see `cluster members`")
	case !one.Voter:
		return model.NoNode, refusal.New(refusal.NodeNotVoter, to.String(), fmt.Sprintf("node %v is a learner", to), "run `cluster promote-node` first")
	}
	if _, alive := o.health(to, o.quorum.Status()); alive == nil || !*alive {
		return model.NoNode, refusal.New(refusal.NodeUnreachable, to.String(), fmt.Sprintf("node %v does not answer the controller", to), "choose another")
	}
	return to, o.plane.handOver(ctx, o.quorum, to)
}

// successor is the live voter that is least behind, the lowest id among equals.
func (o *office) successor(m quorum.Members) model.NodeID {
	best, bestLag := model.NoNode, uint64(0)
	at, im := o.quorum.Status(), o.plane.Image()
	for _, one := range m.All {
		if !one.Voter || one.Node == o.self {
			continue
		}
		if n := im.Nodes[one.Node]; n == nil || n.State == metadata.NodeLeaving {
			continue
		}
		lag, alive := o.health(one.Node, at)
		if alive == nil || !*alive || lag == nil {
			continue
		}
		if best == model.NoNode || *lag < bestLag {
			best, bestLag = one.Node, *lag
		}
	}
	return best
}

// handOver makes another voter the raft leader and waits until it is seen to be.
// NoNode: the best successor.
func (p *Plane) handOver(ctx context.Context, q *quorum.Quorum, to model.NodeID) error {
	self := p.store.get().Node
	if to == model.NoNode {
		o := p.office.Load()
		if o == nil {
			return p.notController()
		}
		m, err := o.members()
		if err != nil {
			return err
		}
		if to = o.successor(m); to == model.NoNode {
			return refusal.New(refusal.LastVoter, self.String(), "no other live voter can take the controller's office", "promote another node, or bring one back")
		}
	}
	ctx, cancel := context.WithTimeout(ctx, transferTimeout)
	defer cancel()
	// Raft gives a transfer one election timeout, which a busy machine can miss;
	// it then leads on.
	for {
		err := q.Transfer(ctx, to)
		if err == nil || !q.Leading() {
			break
		}
		if !pause(ctx, askPause) {
			return refusal.New(refusal.NodeNotReady, to.String(), fmt.Sprintf("node %v did not take the controller's office: %v", to, err), "retry")
		}
	}
	p.awaitController(ctx, func(c model.NodeID) bool { return c != self })
	return nil
}
