package controlplane

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/ister-mq/ister/broker/internal/metadata"
	"github.com/ister-mq/ister/broker/internal/model"
	"github.com/ister-mq/ister/broker/internal/refusal"
)

const (
	// heartbeatTimeoutMin bounds one heartbeat from below.
	heartbeatTimeoutMin = 300 * time.Millisecond
	// registerPause is between attempts to register that the controller refused.
	registerPause = 200 * time.Millisecond
)

// heartbeat is a node's sign of life.
type heartbeat struct {
	Node     model.NodeID    `json:"node"`
	Epoch    model.NodeEpoch `json:"epoch"`
	Revision model.Revision  `json:"revision"` // of its image
	Applied  model.Index     `json:"applied"`
	Report   *Report         `json:"report,omitempty"` // absent: as before
}

// heartbeatAnswer acknowledges one.
type heartbeatAnswer struct {
	Revision model.Revision `json:"revision"` // of the controller's image
	// Wanted: the controller has no report of the node.
	Wanted bool `json:"report_wanted,omitempty"`
}

var verbHeartbeat = verb[heartbeat, heartbeatAnswer]{
	name:       "heartbeat",
	repeatable: always[heartbeat],
	run: func(o *office, _ context.Context, h heartbeat) (heartbeatAnswer, error) {
		wanted, err := o.hear(h)
		if err != nil {
			return heartbeatAnswer{}, err
		}
		return heartbeatAnswer{Revision: o.plane.Image().Revision, Wanted: wanted}, nil
	},
}

// attend registers the node and keeps its lease, until the end.
func (p *Plane) attend(ctx context.Context) {
	clean := p.cfg.Clean
	for ctx.Err() == nil && p.ended.Load() == nil {
		if !p.register(ctx, clean) {
			return
		}
		// A registration again in this process lost nothing.
		clean = true
		p.beat(ctx)
	}
}

// register gets this process its node epoch. False: never again.
func (p *Plane) register(ctx context.Context, clean bool) bool {
	for {
		id := p.store.get()
		result, err := p.Propose(ctx, &metadata.RegisterNode{
			ID: id.Node, Cluster: id.Cluster, Incarnation: id.Incarnation,
			Endpoints: p.cfg.Endpoints, Rack: p.cfg.Rack, Version: p.cfg.Version, Clean: clean,
		})
		if err == nil {
			epoch := result.(*metadata.NodeResult).Epoch
			p.identify(epoch)
			p.waits.Store(nil)
			p.log.Info("node was registered", "node", id.Node, "revision", model.Revision(epoch))
			return true
		}
		if ctx.Err() != nil || p.ended.Load() != nil {
			return false
		}
		if e := p.registerEnds(id, err); e != nil {
			p.end(e)
			return false
		}
		if why := err.Error(); p.waits.Swap(&why) == nil || !refusal.Is(err, refusal.NoController) {
			p.log.Warn("node was not registered yet", "node", id.Node, "reason", err)
		}
		if !pause(ctx, registerPause) {
			return false
		}
	}
}

// registerEnds turns refusals that no retry helps into the end of the node.
func (p *Plane) registerEnds(id identity, err error) *Error {
	r := refusal.As(err)
	if r == nil {
		return nil
	}
	switch r.Reason {
	case refusal.NodeRemoved:
		if werr := p.store.update(func(i *identity) { i.State = StateRemoved }); werr != nil {
			p.log.Error("removal could not be written to the identity file", "node", id.Node, "reason", werr)
		}
		return removedError(id.Node, id.Cluster)
	case refusal.WrongIncarnation:
		return &Error{Code: CodeWrongIdentity, ExitStatus: ExitWrongIdentity, Message: r.Message, Advice: r.Advice, Err: r}
	case refusal.WrongCluster:
		return &Error{Code: CodeWrongCluster, ExitStatus: ExitWrongIdentity, Message: r.Message, Advice: r.Advice, Err: r}
	}
	return nil
}

// beat sends heartbeats until the controller wants another registration.
func (p *Plane) beat(ctx context.Context) {
	tick := time.NewTicker(p.timing.Heartbeat)
	defer tick.Stop()
	var told told
	for ctx.Err() == nil && p.ended.Load() == nil {
		changed := p.controllers.C()
		if !p.stepped.Load() {
			h := heartbeat{Node: p.store.get().Node, Epoch: model.NodeEpoch(p.epoch.Load()), Revision: p.Image().Revision}
			if q := p.quorum.Load(); q != nil {
				h.Applied = q.Status().Applied
			}
			h.Report = told.next(time.Now(), p.reportEvery(), p.report)
			answer, err := p.beatOnce(ctx, h)
			switch {
			case err == nil && answer.Wanted:
				told.forget()
			case err == nil && h.Report != nil:
				told.took(*h.Report, time.Now())
			case refusal.Is(err, refusal.StaleNodeEpoch):
				p.lease.Store(0)
				p.log.Info("node registers again", "node", h.Node, "reason", err)
				return
			case err != nil:
				told.forget() // another controller may know nothing
			}
		}
		// A new controller hears from this node at once.
		select {
		case <-tick.C:
		case <-changed:
			told.forget()
		case <-ctx.Done():
			return
		}
	}
}

// beatOnce sends one heartbeat. The lease runs from the moment it was sent, and
// so ends before the controller's, which runs from its arrival.
func (p *Plane) beatOnce(ctx context.Context, h heartbeat) (heartbeatAnswer, error) {
	ctx, cancel := context.WithTimeout(ctx, max(3*p.timing.Heartbeat, heartbeatTimeoutMin))
	defer cancel()
	sent := time.Since(p.born)
	answer, err := askOnce(p, ctx, verbHeartbeat, h)
	if err != nil {
		return answer, err
	}
	if !p.stepped.Load() && p.ended.Load() == nil {
		p.lease.Store(int64(sent + p.timing.Lease))
	}
	return answer, nil
}

// told is what the controller was last told. The zero value: nothing.
type told struct {
	report Report
	at     time.Time // when it was taken
	looked time.Time // when there was last a look for news
}

// reportRefresh bounds the age of a report that has no news.
const reportRefresh = 5 * time.Second

// next is the report to send now, or nil: it is not yet time to look, or there is
// no news. With thousands of replicas a report is the most that an idle node says.
func (t *told) next(now time.Time, every time.Duration, report func() Report) *Report {
	if now.Sub(t.looked) < every {
		return nil
	}
	t.looked = now
	r := report()
	if now.Sub(t.at) < reportRefresh && t.report.same(r) {
		return nil
	}
	return &r
}

// took notes that the controller has a report.
func (t *told) took(r Report, now time.Time) { t.report, t.at = r, now }

// forget has the next heartbeat carry a report.
func (t *told) forget() { *t = told{} }

// same reports that b says nothing that r did not. What is retired is told until
// it has been noted, and free space is allowed to drift by a thousandth.
func (r Report) same(b Report) bool {
	drift := r.Disk.FreeBytes - b.Disk.FreeBytes
	return r.Known == b.Known && r.Disk.Known == b.Disk.Known && r.Disk.Full == b.Disk.Full && r.Disk.TotalBytes == b.Disk.TotalBytes && max(drift, -drift) <= r.Disk.TotalBytes/1000 &&
		len(r.Retired)+len(b.Retired) == 0 && maps.Equal(r.Bytes, b.Bytes) && slices.Equal(r.Progress, b.Progress)
}

// reportEvery is the pace of reports: each heartbeat while operations live.
func (p *Plane) reportEvery() time.Duration {
	if len(p.Image().LiveOperations()) > 0 || p.retiring() {
		return 0
	}
	return p.timing.Report
}

// retiring reports whether this node has copies to give up.
func (p *Plane) retiring() bool { return p.Image().NodeLoad(p.store.get().Node).Retiring > 0 }

func (p *Plane) report() Report {
	if p.cfg.Report == nil {
		return Report{}
	}
	return p.cfg.Report()
}

// StepDown prepares an orderly stop: the node sends no more heartbeats and asks
// to be fenced, so that other nodes lead its partitions before it stops. Its
// lease stays good until then. The error says that the controller could not be
// told; stopping is safe all the same, only slower for clients.
func (p *Plane) StepDown(ctx context.Context) error {
	p.stepped.Store(true)
	node, epoch := p.Self()
	if epoch == 0 {
		return nil
	}
	_, err := ask(p, ctx, verbStepDown, stepDown{Node: node, Epoch: epoch})
	return err
}

// stepDown says that a process of a node is about to end.
type stepDown struct {
	Node  model.NodeID    `json:"node"`
	Epoch model.NodeEpoch `json:"epoch"`
}

var verbStepDown = verb[stepDown, nothing]{
	name:       "step-down",
	repeatable: always[stepDown],
	run: func(o *office, ctx context.Context, r stepDown) (nothing, error) {
		// Noted first: a heartbeat on its way must not unfence the node again.
		o.mu.Lock()
		o.contact(r.Node).stopping = r.Epoch
		o.mu.Unlock()
		return nothing{}, o.submit(ctx, &metadata.FenceNode{ID: r.Node, Epoch: r.Epoch, Reason: "the node stops"}).err
	},
}
