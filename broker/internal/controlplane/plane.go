package controlplane

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ister-mq/ister/broker/internal/metadata"
	"github.com/ister-mq/ister/broker/internal/model"
	"github.com/ister-mq/ister/broker/internal/operation"
	"github.com/ister-mq/ister/broker/internal/peer"
	"github.com/ister-mq/ister/broker/internal/quorum"
	"github.com/ister-mq/ister/broker/internal/refusal"
)

// Config of a Plane.
type Config struct {
	DataDir string       // made when missing
	NodeID  model.NodeID // asked for by --node-id; 0: from the identity file, else given
	// SeedNodes are the advertised raft addresses of the nodes that form the
	// cluster together, the same list on each. Empty without Join: a cluster of
	// one. Used by a fresh data directory only.
	SeedNodes []string
	Join      bool               // wait to be added to an existing cluster
	Endpoints metadata.Endpoints // advertised
	Rack      string
	Version   string
	// Clean says that the last stop was orderly (the data plane's marker).
	Clean bool
	// Peer is started by Start and closed by the caller, after Close.
	Peer *peer.Endpoint
	// Report is asked for at each report interval, from one goroutine. Nil: a
	// report of unknown health.
	Report func() Report
	// OnRemoved is called once, from its own goroutine, when the running node
	// learns that it cannot go on: it was removed, or its data directory does not
	// fit the cluster. The error says what to print and the exit status.
	OnRemoved func(*Error)
	Limits    operation.Limits
	Logger    *slog.Logger // nil: slog.Default
	Timing    Timing
}

// Plane is one node's part of the control plane.
type Plane struct {
	cfg     Config
	timing  Timing
	log     *slog.Logger
	peer    *peer.Endpoint
	store   *identityStore
	machine *machine
	images  listeners

	quorum atomic.Pointer[quorum.Quorum] // nil until the node has a place
	office atomic.Pointer[office]        // not nil while this node is the controller
	epoch  atomic.Int64                  // of this process's registration; 0: none
	born   time.Time                     // zero of the monotonic lease clock
	lease  atomic.Int64                  // end of the lease in ns since born
	ended  atomic.Pointer[Error]         // why the node cannot go on
	hint   atomic.Pointer[peer.Target]   // the controller, as a fellow said; see inquire
	waits  atomic.Pointer[string]        // what registration waits for
	// stepped: StepDown was called; no more heartbeats.
	stepped atomic.Bool

	// controllers fires when another controller is seen or the office changes.
	controllers signal

	mu          sync.Mutex // guards the fields below; never held across I/O
	leading     bool       // raft's word
	leaveOffice context.CancelFunc
	entering    bool // the quorum is or is being opened
	closed      bool

	leadingChanged signal
	// lifetime ends with Close; goroutines and handlers, which have no caller,
	// derive their contexts from it.
	lifetime context.Context
	expire   context.CancelFunc
	wait     sync.WaitGroup
}

// Start opens the data directory, forms, joins or restarts, and returns as soon
// as the node's place is known or waited for; Ready tells when it serves. It
// starts the endpoint. An *Error tells an exit status.
func Start(ctx context.Context, cfg Config) (*Plane, error) {
	p := &Plane{cfg: cfg, timing: cfg.Timing.withDefaults(), log: cfg.Logger, peer: cfg.Peer, machine: newMachine(), born: time.Now()}
	if p.log == nil {
		p.log = slog.Default()
	}
	p.lifetime, p.expire = context.WithCancel(context.WithoutCancel(ctx))
	var err error
	if p.store, err = openIdentity(cfg.DataDir); err != nil {
		return nil, err
	}
	if err := p.start(ctx); err != nil {
		_ = p.Close()
		return nil, err
	}
	return p, nil
}

func (p *Plane) start(ctx context.Context) error {
	id := p.store.get()
	if err := p.checkSettings(id); err != nil {
		return err
	}
	p.images.add(p.followIdentity)
	p.wait.Go(func() { p.images.run(p.machine, p.lifetime.Done()) })
	p.identify(0)
	p.peer.SetVerifier(p.verify)
	p.peer.OnRefused(p.refused)
	p.peer.OnGone(func(from peer.Identity) {
		if o := p.office.Load(); o != nil {
			o.suspect(from.Node)
		}
	})
	p.handle()
	p.peer.Start()
	if id.State == StateMember {
		if err := p.askFellows(ctx, id); err != nil {
			return err
		}
	}
	p.log.Info("node identity was read", "node", id.Node, "reason", string(id.State))
	switch {
	case id.State == StateForming:
		// It may have stopped before every other seed was told.
		p.wait.Go(func() { p.spreadIntent(p.lifetime) })
		return p.enter(id)
	case id.State != StateFresh:
		return p.enter(id)
	case p.cfg.Join:
		p.log.Info("waiting to be added to a cluster", "peer", p.cfg.Endpoints.Admin)
		return nil
	case len(p.cfg.SeedNodes) == 0:
		return p.formAlone()
	}
	p.wait.Go(func() { p.form(p.lifetime) })
	return nil
}

// checkSettings refuses settings that do not fit the data directory.
func (p *Plane) checkSettings(id identity) error {
	if id.State == StateRemoved {
		return removedError(id.Node, id.Cluster)
	}
	if id.Node != 0 && p.cfg.NodeID != 0 && id.Node != p.cfg.NodeID {
		return &Error{
			Code: CodeWrongIdentity, ExitStatus: ExitWrongIdentity,
			Message: fmt.Sprintf("data directory %s belongs to node %v, --node-id asks for %v", p.cfg.DataDir, id.Node, p.cfg.NodeID),
			Advice:  "leave --node-id out, or give the right --data-dir",
		}
	}
	for _, address := range []string{p.cfg.Endpoints.Raft, p.cfg.Endpoints.Kafka, p.cfg.Endpoints.Admin} {
		if _, _, err := net.SplitHostPort(address); err != nil {
			return &Error{Code: CodeSeedMismatch, ExitStatus: ExitUsage, Err: err, Message: fmt.Sprintf("advertised address %q is not host:port", address)}
		}
	}
	if id.State == StateFresh && !p.cfg.Join && len(p.cfg.SeedNodes) > 0 {
		return checkSeeds(p.cfg.SeedNodes, p.cfg.Endpoints.Raft)
	}
	return nil
}

// enter opens the quorum and starts the goroutines of a member, once.
func (p *Plane) enter(id identity) error {
	p.mu.Lock()
	if p.entering || p.closed {
		p.mu.Unlock()
		return nil
	}
	p.entering = true
	p.mu.Unlock()
	q, err := p.openQuorum(id)
	if err != nil {
		return err
	}
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		// Close was called meanwhile. It did not find the quorum, since it sets
		// closed first and this stores it under the same lock.
		return q.Close()
	}
	defer p.mu.Unlock()
	p.quorum.Store(q)
	p.controllers.Fire()
	p.wait.Go(func() { p.govern(p.lifetime) })
	p.wait.Go(func() { p.attend(p.lifetime) })
	return nil
}

func (p *Plane) openQuorum(id identity) (*quorum.Quorum, error) {
	q, err := quorum.Open(quorum.Config{
		Dir:          filepath.Join(p.cfg.DataDir, raftDirName),
		Self:         quorum.Member{Node: id.Node, Incarnation: id.Incarnation, Address: p.cfg.Endpoints.Raft},
		Streams:      streams{p.peer.Raft()},
		Addresses:    p.raftAddress,
		Machine:      p.machine,
		Logger:       p.log,
		OnLeader:     p.onLeader,
		OnLeaderSeen: func(model.NodeID) { p.controllers.Fire() },
	})
	if err != nil {
		return nil, err
	}
	if id.State == StateForming {
		if err := q.Bootstrap(firstVoters(id.Forming)); err != nil {
			return nil, errors.Join(err, q.Close())
		}
	}
	return q, nil
}

// enterSoon is enter beside the caller, who must answer before a slow disk has
// opened the quorum's store. The identity is on the disk already, so that a
// restart repeats it.
func (p *Plane) enterSoon(id identity) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.entering {
		return
	}
	p.wait.Go(func() {
		if err := p.enter(id); err != nil && p.lifetime.Err() == nil {
			p.end(Damaged(p.cfg.DataDir, err))
		}
	})
}

// streams adapts the endpoint to the quorum.
type streams struct{ *peer.Streams }

// Dial implements quorum.Streams.
func (s streams) Dial(to quorum.Member, timeout time.Duration) (net.Conn, error) {
	return s.Streams.Dial(peer.Target{Address: to.Address, Node: to.Node, Incarnation: to.Incarnation}, timeout)
}

// raftAddress is a node's present address, which its registration gives. Raft's
// configuration keeps the address a member was added with: to change it there
// races with raft's own replication (v1.8.0, updateLastAppended) and is not
// needed. Until this process has registered, its image may be older than what
// its identity file remembers.
func (p *Plane) raftAddress(node model.NodeID) (string, bool) {
	if p.epoch.Load() == 0 {
		for _, f := range p.store.get().Fellows {
			if f.Node == node {
				return f.Address, true
			}
		}
	}
	if n := p.Image().Nodes[node]; n != nil && n.Endpoints.Raft != "" {
		return n.Endpoints.Raft, true
	}
	return "", false
}

// onLeader hears raft's leadership changes; see govern.
func (p *Plane) onLeader(leading bool) {
	p.mu.Lock()
	p.leading = leading
	if !leading && p.leaveOffice != nil {
		p.leaveOffice()
	}
	p.mu.Unlock()
	p.leadingChanged.Fire()
	p.controllers.Fire()
}

// identify tells the endpoint who this node is.
func (p *Plane) identify(epoch model.NodeEpoch) {
	id := p.store.get()
	p.epoch.Store(int64(epoch))
	p.peer.SetIdentity(peer.Identity{Cluster: id.Cluster, Node: id.Node, Incarnation: id.Incarnation, Epoch: epoch})
}

// verify is the endpoint's check of callers that claim to be of this cluster.
func (p *Plane) verify(from peer.Identity) *refusal.Refusal {
	im := p.Image()
	if t := im.Tombstones[from.Node]; t != nil {
		return refusal.New(refusal.NodeRemoved, from.Node.String(),
			fmt.Sprintf("node %v was removed from cluster %s", from.Node, im.Cluster), "join again as a new node with an empty data directory")
	}
	n := im.Nodes[from.Node]
	switch {
	case n == nil: // this node may lag behind its admission
		return nil
	case n.Incarnation != from.Incarnation:
		return refusal.New(refusal.WrongIncarnation, from.Node.String(),
			fmt.Sprintf("node %v is known with incarnation %s, not %s", from.Node, n.Incarnation, from.Incarnation),
			"restore its data directory, or remove the node and join as a new one")
	case from.Epoch != 0 && from.Epoch < n.Epoch:
		return refusal.New(refusal.StaleNodeEpoch, from.Node.String(),
			fmt.Sprintf("node %v is at epoch %d, the caller is at %d", from.Node, n.Epoch, from.Epoch), "connect again after registration")
	}
	return nil
}

// refused hears why another node refused this one.
func (p *Plane) refused(by peer.Identity, r *refusal.Refusal) {
	id := p.store.get()
	if r.Reason == refusal.NodeRemoved && by.Cluster == id.Cluster && id.Cluster != "" && by.Node != id.Node {
		p.remove(id)
	}
}

// remove makes the node's removal permanent on its disk and tells the shell.
func (p *Plane) remove(id identity) {
	if err := p.store.update(func(i *identity) { i.State = StateRemoved }); err != nil {
		p.log.Error("removal could not be written to the identity file", "node", id.Node, "reason", err)
	}
	p.end(removedError(id.Node, id.Cluster))
}

// end stops the node's part in the cluster for good, once.
func (p *Plane) end(e *Error) {
	if !p.ended.CompareAndSwap(nil, e) {
		return
	}
	p.lease.Store(0)
	p.log.Error("node cannot go on", "node", p.store.get().Node, "reason", e.Error())
	if p.cfg.OnRemoved != nil {
		go p.cfg.OnRemoved(e) // it will call Close, which waits for this package's goroutines
	}
}

func removedError(node model.NodeID, cluster model.ClusterID) *Error {
	return &Error{
		Code: CodeNodeRemoved, ExitStatus: ExitRemoved,
		Message: fmt.Sprintf("node %v was removed from cluster %s and must not serve again", node, cluster),
		Advice:  "to use this machine again, start with an empty --data-dir and --join",
	}
}

// followIdentity keeps the identity file in step with the image.
func (p *Plane) followIdentity(_, im *metadata.Image) {
	id := p.store.get()
	if id.State == StateFresh || id.State == StateRemoved || im.Cluster == "" {
		return
	}
	if t := im.Tombstones[id.Node]; t != nil && t.Incarnation == id.Incarnation {
		p.remove(id)
		return
	}
	var fellows []fellow
	for _, n := range im.SortedNodes() {
		if n.ID != id.Node {
			fellows = append(fellows, fellow{Node: n.ID, Address: n.Endpoints.Raft})
		}
	}
	formed := id.State == StateForming && im.Nodes[id.Node] != nil
	if !formed && equalFellows(fellows, id.Fellows) {
		return
	}
	err := p.store.update(func(i *identity) {
		i.Fellows = fellows
		if formed {
			i.State, i.Forming = StateMember, nil
		}
	})
	if err != nil {
		p.log.Error("identity file could not be written", "node", id.Node, "reason", err)
	}
}

func equalFellows(a, b []fellow) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// Close leaves the quorum's process in order, not the membership: a controller
// hands its office over first. It does not close the endpoint.
func (p *Plane) Close() error {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		p.wait.Wait()
		return nil
	}
	p.closed = true
	p.mu.Unlock()
	if q := p.quorum.Load(); q != nil && q.Leading() {
		ctx, cancel := context.WithTimeout(p.lifetime, time.Second)
		if err := p.handOver(ctx, q, model.NoNode); err != nil {
			p.log.Debug("office was not handed over at the stop", "reason", err)
		}
		cancel()
	}
	return p.stop()
}

// stop ends everything at once.
func (p *Plane) stop() error {
	p.expire()
	var err error
	if q := p.quorum.Load(); q != nil {
		err = q.Close()
	}
	p.wait.Wait()
	return errors.Join(err, p.store.close())
}

// Image is the newest metadata this node has applied. Never nil.
func (p *Plane) Image() *metadata.Image { return p.machine.current.Load() }

// OnImage registers a listener, called from one goroutine in order of revision,
// first with (nil, current). Images that come fast may be passed over.
func (p *Plane) OnImage(f func(old, new *metadata.Image)) { p.images.add(f) }

// Self is this node's id and epoch; zero while not admitted or not registered.
func (p *Plane) Self() (model.NodeID, model.NodeEpoch) {
	return p.store.get().Node, model.NodeEpoch(p.epoch.Load())
}

// LeaseValid reports whether this node may act as a partition leader now: a
// controller acknowledged a heartbeat within the lease (monotonic clock).
func (p *Plane) LeaseValid() bool { return int64(time.Since(p.born)) < p.lease.Load() }

// Controller is the node that leads the metadata quorum, if one is known.
func (p *Plane) Controller() (model.NodeID, bool) {
	q := p.quorum.Load()
	if q == nil {
		return model.NoNode, false
	}
	return q.Leader()
}

// Ready reports whether the node serves, and what it waits for when not.
func (p *Plane) Ready() (bool, []string) {
	var waits []string
	id, im := p.store.get(), p.Image()
	n := im.Nodes[id.Node]
	epoch := model.NodeEpoch(p.epoch.Load())
	switch {
	case p.ended.Load() != nil:
		waits = append(waits, p.ended.Load().Error())
	case id.State == StateFresh && p.cfg.Join:
		waits = append(waits, "waits to be added: run `cluster add-node --node-addr "+p.cfg.Endpoints.Admin+"`")
	case id.State == StateFresh:
		waits = append(waits, "waits for the other seed nodes, to form the cluster")
	case im.Cluster == "" || n == nil:
		waits = append(waits, "waits for the metadata of the cluster")
	case epoch == 0:
		waits = append(waits, "waits for registration with the controller")
		if why := p.waits.Load(); why != nil {
			waits = append(waits, *why)
		}
	case n.Epoch != epoch || n.Fenced:
		waits = append(waits, "waits for the controller to unfence it")
	case !p.LeaseValid():
		waits = append(waits, "waits for a controller to acknowledge its heartbeats; a majority of the voters has to run")
	}
	return len(waits) == 0, waits
}

// Info is what GET /ister/node answers.
func (p *Plane) Info() NodeInfo {
	id := p.store.get()
	info := NodeInfo{
		Cluster: id.Cluster, Node: id.Node, Incarnation: id.Incarnation, State: id.State,
		Endpoints: p.cfg.Endpoints, Rack: p.cfg.Rack, Version: p.cfg.Version,
	}
	if id.Node == 0 {
		info.Wanted = p.cfg.NodeID
	}
	return info
}

// Status is the quorum as this node sees it.
func (p *Plane) Status(context.Context) QuorumStatus {
	id := p.store.get()
	s := QuorumStatus{Self: id.Node, Cluster: id.Cluster, State: id.State, Revision: p.Image().Revision}
	q := p.quorum.Load()
	if q == nil {
		return s
	}
	s.Controller, _ = q.Leader()
	at := q.Status()
	s.Term, s.LastIndex, s.Applied, s.RestoreAlarms = &at.Term, &at.Last, &at.Applied, at.RestoreAlarms
	members, err := q.Members()
	if err != nil {
		return s
	}
	s.Pending = members.Pending
	o := p.office.Load()
	for _, m := range members.All {
		one := Member{Node: m.Node, Incarnation: m.Incarnation, Address: m.Address, Voter: m.Voter}
		if n := p.Image().Nodes[m.Node]; n != nil {
			one.Address = n.Endpoints.Raft
		}
		if o != nil {
			one.Lag, one.Alive = o.health(m.Node, at)
		}
		s.Members = append(s.Members, one)
	}
	return s
}
