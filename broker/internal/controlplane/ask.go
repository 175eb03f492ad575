package controlplane

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/ister-mq/ister/broker/internal/metadata"
	"github.com/ister-mq/ister/broker/internal/model"
	"github.com/ister-mq/ister/broker/internal/peer"
	"github.com/ister-mq/ister/broker/internal/refusal"
)

const (
	askTimeout = 10 * time.Second      // of a request whose context has no deadline
	askPause   = 20 * time.Millisecond // between attempts while no controller answers
	// askReserve is how much of its time a request leaves for the way back.
	askReserve = 50 * time.Millisecond
	// followTimeout bounds how long a node waits to see what it had changed.
	followTimeout = time.Second
	// inquireTimeout bounds asking the fellows who the controller is.
	inquireTimeout = 200 * time.Millisecond

	methodController = "controller"
)

// verb is something only the controller does. Its run is called on the
// controller, else the request goes there. Run must refuse with NOT_CONTROLLER
// only when it did nothing.
type verb[Req, Resp any] struct {
	name string
	// repeatable: sending it twice has the effect of once, so that an unknown
	// outcome is tried again.
	repeatable func(*Req) bool
	run        func(*office, context.Context, Req) (Resp, error)
}

func always[T any](*T) bool { return true }

// ask runs a verb on the controller, wherever that is.
func ask[Req, Resp any](p *Plane, ctx context.Context, v verb[Req, Resp], req Req) (Resp, error) {
	ctx, cancel := withTimeout(ctx, askTimeout)
	defer cancel()
	var none Resp
	var tried attempts
	for {
		changed := p.controllers.C()
		resp, err := askOnce(p, ctx, v, req)
		if err == nil {
			return resp, nil
		}
		if final := tried.failed(err, v.name, func() bool { return v.repeatable(&req) }); final != nil {
			return none, final
		}
		if !p.waitController(ctx, changed) {
			return none, tried.gaveUp(err)
		}
	}
}

// attempts is what is known of a request after its attempts so far.
type attempts struct {
	// doubt is the first failure after which the request may have been carried
	// out. A later attempt that certainly was not does not undo it.
	doubt error
}

// failed judges one more failure: nil when the request is to be tried again,
// else the answer.
func (a *attempts) failed(err error, name string, repeatable func() bool) error {
	switch {
	case errors.Is(err, errNoController), refusal.Is(err, refusal.NotController), unsent(err):
		return nil // certainly not carried out: look again
	case refusal.As(err) != nil && !refusal.Is(err, refusal.OutcomeUnknown):
		return refusal.As(err)
	case !unknown(err):
		return err
	case !repeatable():
		return refusal.New(refusal.OutcomeUnknown, name, fmt.Sprintf("it is unknown whether %s was carried out: %v", name, err), "look at the present state before you repeat it")
	}
	if a.doubt == nil {
		a.doubt = err
	}
	return nil
}

// gaveUp is the answer when there is no time for another attempt.
func (a *attempts) gaveUp(last error) error {
	if a.doubt != nil {
		return refusal.New(refusal.OutcomeUnknown, "", fmt.Sprintf("it is unknown whether the request was carried out: %v; then %v", a.doubt, last), "look at the present state before you repeat it")
	}
	return refusal.New(refusal.NoController, "", fmt.Sprintf("no controller answered in time (%v)", last), "check that a majority of the voters is up, and retry")
}

// unknown reports a failure after which the request may have been carried out.
func unknown(err error) bool {
	var call *peer.CallError
	return refusal.Is(err, refusal.OutcomeUnknown) || errors.As(err, &call) && call.Sent && refusal.As(err) == nil
}

// unsent reports a failure before the request was looked at that another
// attempt may not meet: no connection, or an identity or address out of date.
func unsent(err error) bool {
	if !peer.Unsent(err) {
		return false
	}
	r := refusal.As(err)
	return r == nil || r.Reason == refusal.StaleNodeEpoch || r.Reason == refusal.WrongIncarnation
}

var errNoController = errors.New("no controller is known")

// waitController waits for a change of controller or a moment.
func (p *Plane) waitController(ctx context.Context, changed <-chan struct{}) bool {
	t := time.NewTimer(askPause)
	defer t.Stop()
	select {
	case <-changed:
	case <-t.C:
	case <-p.lifetime.Done():
		return false
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}

func askOnce[Req, Resp any](p *Plane, ctx context.Context, v verb[Req, Resp], req Req) (Resp, error) {
	if o := p.office.Load(); o != nil {
		return v.run(o, ctx, req)
	}
	var resp Resp
	to, ok := p.controllerTarget()
	if !ok {
		if to, ok = p.inquire(ctx); !ok {
			return resp, errNoController
		}
	}
	err := p.peer.Call(ctx, to, v.name, req, &resp)
	return resp, err
}

// inquire asks the fellows for the controller. Raft tells a member who leads as
// soon as the leader contacts it; but a leader does not find a node that came
// back on another address, until that node has registered with it.
func (p *Plane) inquire(ctx context.Context) (peer.Target, bool) {
	if q := p.quorum.Load(); q == nil || q.Leading() {
		return peer.Target{}, false
	}
	if hint := p.hint.Load(); hint != nil {
		// Used once: a wrong one must not be tried for ever.
		p.hint.Store(nil)
		return *hint, true
	}
	ctx, cancel := context.WithTimeout(ctx, inquireTimeout)
	defer cancel()
	addresses := sortedSeeds(p.cfg.SeedNodes)
	for _, f := range p.store.get().Fellows {
		addresses = append(addresses, f.Address)
	}
	answers := make(chan peer.Target, len(addresses))
	for _, address := range addresses {
		go func() { // ends with the context at the latest
			var to peer.Target
			if err := p.peer.Call(ctx, peer.Target{Address: address}, methodController, nothing{}, &to); err != nil {
				to = peer.Target{}
			}
			answers <- to
		}()
	}
	for range addresses {
		if to := <-answers; to.Address != "" && to.Address != p.cfg.Endpoints.Raft {
			p.hint.Store(&to)
			return to, true
		}
	}
	return peer.Target{}, false
}

// handleController answers inquire; no address: unknown.
func (p *Plane) handleController(context.Context, peer.Identity, json.RawMessage) (any, error) {
	if p.office.Load() != nil {
		id := p.store.get()
		return peer.Target{Address: p.cfg.Endpoints.Raft, Node: id.Node, Incarnation: id.Incarnation}, nil
	}
	to, _ := p.controllerTarget()
	return to, nil
}

// controllerTarget is where the controller listens.
func (p *Plane) controllerTarget() (peer.Target, bool) {
	q := p.quorum.Load()
	if q == nil {
		return peer.Target{}, false
	}
	leader, ok := q.Leader()
	if !ok || leader == p.store.get().Node {
		return peer.Target{}, false // oneself, not yet in office
	}
	return p.target(leader)
}

// target is where a node listens.
func (p *Plane) target(node model.NodeID) (peer.Target, bool) {
	if n := p.Image().Nodes[node]; n != nil {
		return peer.Target{Address: n.Endpoints.Raft, Node: node, Incarnation: n.Incarnation}, true
	}
	q := p.quorum.Load()
	if q == nil {
		return peer.Target{}, false
	}
	members, err := q.Members()
	if err != nil {
		return peer.Target{}, false
	}
	m, ok := members.Get(node)
	return peer.Target{Address: m.Address, Node: node, Incarnation: m.Incarnation}, ok
}

// serve lets other nodes ask for a verb.
func serve[Req, Resp any](p *Plane, v verb[Req, Resp]) {
	p.peer.Handle(v.name, peer.MembersOnly, func(ctx context.Context, _ peer.Identity, body json.RawMessage) (any, error) {
		o := p.office.Load()
		if o == nil {
			return nil, p.notController()
		}
		var req Req
		if err := json.Unmarshal(body, &req); err != nil {
			return nil, fmt.Errorf("decode %s: %w", v.name, err)
		}
		if d, ok := ctx.Deadline(); ok { // answer before the caller gives up
			var cancel context.CancelFunc
			ctx, cancel = context.WithDeadline(ctx, d.Add(-askReserve))
			defer cancel()
		}
		return v.run(o, ctx, req)
	})
}

func (p *Plane) notController() error {
	c, ok := p.Controller()
	if !ok {
		return refusal.New(refusal.NotController, p.store.get().Node.String(), "this node is not the controller, and knows none", "retry")
	}
	return refusal.New(refusal.NotController, p.store.get().Node.String(), fmt.Sprintf("this node is not the controller, node %v is", c), "ask that node")
}

// handle sets every control method of the plane.
func (p *Plane) handle() {
	p.peer.Handle(methodSeedHello, peer.Anyone, p.handleSeedHello)
	p.peer.Handle(methodSeedAccept, peer.Anyone, p.handleSeedAccept)
	p.peer.Handle(methodAdmit, peer.Anyone, p.handleAdmit)
	p.peer.Handle(methodRemoved, peer.Anyone, p.handleRemoved)
	p.peer.Handle(methodController, peer.MembersOnly, p.handleController)
	serve(p, verbPropose)
	serve(p, verbHeartbeat)
	serve(p, verbStepDown)
	serve(p, verbAddNode)
	serve(p, verbPromote)
	serve(p, verbDemote)
	serve(p, verbRemove)
	serve(p, verbTransfer)
	serve(p, verbStart)
}

// proposal is a command on its way to the controller.
type proposal struct {
	Command json.RawMessage `json:"command"`
}

// proposed is the controller's answer. Result is encoded only on the way to
// another node.
type proposed struct {
	Result   json.RawMessage `json:"result,omitempty"`
	Revision model.Revision  `json:"revision"`
}

var verbPropose = verb[proposal, proposed]{
	name: "propose",
	repeatable: func(r *proposal) bool {
		cmd, err := metadata.DecodeCommand(r.Command)
		return err == nil && repeatable(cmd)
	},
	run: func(o *office, ctx context.Context, r proposal) (proposed, error) {
		cmd, err := metadata.DecodeCommand(r.Command)
		if err != nil {
			return proposed{}, refusal.New(refusal.InvalidArgument, "command", err.Error(), "run the same version on every node")
		}
		out := o.submit(ctx, cmd)
		if out.err != nil {
			return proposed{}, out.err
		}
		p := proposed{Revision: out.revision}
		if out.result != nil {
			p.Result, err = metadata.EncodeResult(out.result)
		}
		return p, err
	},
}

// repeatable reports commands whose repetition has the effect of one.
func repeatable(cmd metadata.Command) bool {
	switch cmd.(type) {
	case *metadata.AddNode, *metadata.RegisterNode, *metadata.FenceNode, *metadata.UnfenceNode, *metadata.SetNodeState,
		*metadata.RemoveNode, *metadata.ElectLeaders, *metadata.AllocateProducers, *metadata.StartOperation,
		*metadata.CancelOperation, *metadata.ReplicaRetired, *metadata.FinishOperation:
		return true
	}
	return false
}

// Propose has the controller decide a command, from any node. The result is the
// one the command documents. When it returns without error this node's image
// has the change too, unless it lags by more than a second. Errors: a
// *refusal.Refusal; OUTCOME_UNKNOWN when the change may or may not have been
// made, NO_CONTROLLER when it certainly was not. A context without a deadline
// gets 10 s.
func (p *Plane) Propose(ctx context.Context, cmd metadata.Command) (any, error) {
	ctx, cancel := withTimeout(ctx, askTimeout)
	defer cancel()
	var own attempts
	if o := p.office.Load(); o != nil {
		out := o.submit(ctx, cmd)
		// Not written for certain, or harmless to repeat: ask the next controller.
		again := refusal.Is(out.err, refusal.NotController) || refusal.Is(out.err, refusal.OutcomeUnknown) && repeatable(cmd)
		if !again {
			return out.result, out.err
		}
		if unknown(out.err) {
			own.doubt = out.err
		}
	}
	body, err := metadata.EncodeCommand(cmd)
	if err != nil {
		return nil, err
	}
	answer, err := ask(p, ctx, verbPropose, proposal{Command: body})
	if refusal.Is(err, refusal.NoController) {
		return nil, own.gaveUp(err)
	}
	if err != nil {
		return nil, err
	}
	p.follow(ctx, answer.Revision)
	if answer.Result == nil {
		return nil, nil
	}
	return metadata.DecodeResult(answer.Result)
}

// follow waits until this node has applied a revision, or a moment.
func (p *Plane) follow(ctx context.Context, r model.Revision) {
	ctx, cancel := context.WithTimeout(ctx, followTimeout)
	defer cancel()
	p.until(ctx, func(im *metadata.Image) bool { return im.Revision >= r })
}

// until waits for an image.
func (p *Plane) until(ctx context.Context, cond func(*metadata.Image) bool) bool {
	for {
		changed := p.machine.changed.C()
		if cond(p.Image()) {
			return true
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		case <-p.lifetime.Done():
			return false
		}
	}
}

func withTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, d)
}
