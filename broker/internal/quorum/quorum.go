package quorum

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
	"github.com/ister-mq/ister/broker/internal/model"
)

// The settings of raft that must not be smaller (DESIGN §3, Known traps).
const (
	trailingLogs      = 10_240 // issue 697 livelocks a diverged follower below that
	snapshotThreshold = 8_192
	snapshotInterval  = 30 * time.Second
	snapshotsKept     = 2
	maxAppendEntries  = 512

	heartbeatTimeout = 250 * time.Millisecond
	electionTimeout  = 250 * time.Millisecond
	leaseTimeout     = 200 * time.Millisecond

	ioTimeout      = 2 * time.Second
	enqueueTimeout = time.Second
	poolPerMember  = 3
)

// How a proposal fails.
var (
	// ErrNotController: the entry was not and will not be committed; another
	// node leads, or none.
	ErrNotController = errors.New("this node is not the controller")
	// ErrBusy: the entry was not taken, since too many wait.
	ErrBusy = errors.New("the metadata log takes no more entries for now")
	// ErrOutcomeUnknown: the entry may or may not be committed later.
	ErrOutcomeUnknown = errors.New("it is unknown whether the entry was committed")
	// ErrClosed: the quorum is closed and the entry was not taken.
	ErrClosed = errors.New("the metadata quorum is closed on this node")
)

// Config of a Quorum.
type Config struct {
	Dir       string // of the raft store and snapshots; created
	Self      Member // Address: the advertised raft address
	Streams   Streams
	Addresses Addresses // may be nil
	Machine   Machine
	Logger    *slog.Logger
	// OnLeader is called from one goroutine when this node gains or loses the
	// raft leadership. It must be quick. May be nil.
	OnLeader func(leading bool)
	// OnLeaderSeen is called from one goroutine when the leader seen by this node
	// changes. It must be quick. May be nil.
	OnLeaderSeen func(leader model.NodeID)
}

// Quorum is this node's member of the metadata quorum.
type Quorum struct {
	cfg       Config
	log       *slog.Logger
	raft      *raft.Raft
	started   atomic.Pointer[raft.Raft] // raft, for callers that may come before it
	store     *store
	snapshots raft.SnapshotStore
	transport *transport
	nudges    *nudger
	fsm       *fsm

	notify   chan bool
	sight    *raft.Observer
	observed chan raft.Observation
	stop     chan struct{}
	wait     sync.WaitGroup
	once     sync.Once
	closeErr error
}

// Open opens the store in cfg.Dir and starts the member. Without Bootstrap, in
// this process or an earlier one, it waits to be contacted by a leader.
func Open(cfg Config) (*Quorum, error) {
	if cfg.Self.Node <= 0 || cfg.Self.Incarnation == "" || cfg.Self.Address == "" {
		return nil, fmt.Errorf("open quorum: member %+v is not complete", cfg.Self)
	}
	q := &Quorum{
		cfg:      cfg,
		log:      cfg.Logger,
		nudges:   newNudger(),
		notify:   make(chan bool, 16),
		observed: make(chan raft.Observation, 16),
		stop:     make(chan struct{}),
	}
	if q.log == nil {
		q.log = slog.Default()
	}
	if err := q.open(); err != nil {
		return nil, err
	}
	q.wait.Go(q.watch)
	return q, nil
}

func (q *Quorum) open() (err error) {
	if err := os.MkdirAll(q.cfg.Dir, 0o755); err != nil {
		return fmt.Errorf("open quorum: %w", err)
	}
	if q.store, err = openStore(filepath.Join(q.cfg.Dir, "log"), q.log); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = q.store.close()
		}
	}()
	logger := newRaftLog(q.log)
	files, err := raft.NewFileSnapshotStoreWithLogger(q.cfg.Dir, snapshotsKept, logger)
	if err != nil {
		return fmt.Errorf("open snapshots in %s: %w", q.cfg.Dir, err)
	}
	q.fsm = &fsm{machine: q.cfg.Machine, log: q.log, applied: q.applied}
	q.snapshots = watchedSnapshots{SnapshotStore: files, fsm: q.fsm}
	q.transport = &transport{
		nudges: q.nudges,
		NetworkTransport: raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
			ServerAddressProvider: resolver{addresses: q.cfg.Addresses, configured: q.configuredAddress},
			Logger:                logger,
			Stream:                advertised{layer{q.cfg.Streams}, q.cfg.Self.Address},
			MaxPool:               poolPerMember,
			Timeout:               ioTimeout,
		}),
	}
	cached, err := raft.NewLogCache(maxAppendEntries, q.store)
	if err != nil {
		return fmt.Errorf("open quorum: %w", err)
	}
	q.raft, err = raft.NewRaft(q.raftConfig(logger), q.fsm, cached, q.store, q.snapshots, q.transport)
	if err != nil {
		_ = q.transport.Close()
		return fmt.Errorf("start raft: %w", err)
	}
	q.started.Store(q.raft)
	q.sight = raft.NewObserver(q.observed, false, func(o *raft.Observation) bool {
		_, ok := o.Data.(raft.LeaderObservation)
		return ok
	})
	q.raft.RegisterObserver(q.sight)
	return nil
}

func (q *Quorum) raftConfig(logger hclogLogger) *raft.Config {
	c := raft.DefaultConfig()
	c.LocalID = serverID(q.cfg.Self)
	c.Logger = logger
	c.HeartbeatTimeout = heartbeatTimeout
	c.ElectionTimeout = electionTimeout
	c.LeaderLeaseTimeout = leaseTimeout
	c.MaxAppendEntries = maxAppendEntries
	c.BatchApplyCh = true
	c.TrailingLogs = trailingLogs
	c.SnapshotThreshold = snapshotThreshold
	c.SnapshotInterval = snapshotInterval
	c.NotifyCh = q.notify
	c.NoLegacyTelemetry = true
	// A removed member must stay up to be told; the control plane stops it.
	c.ShutdownOnRemove = false
	return c
}

// watch passes raft's notices on, in order.
func (q *Quorum) watch() {
	for {
		select {
		case leading := <-q.notify:
			if q.cfg.OnLeader != nil {
				q.cfg.OnLeader(leading)
			}
		case o := <-q.observed:
			if q.cfg.OnLeaderSeen == nil {
				continue
			}
			leader := model.NoNode
			if m, err := parseServerID(o.Data.(raft.LeaderObservation).LeaderID); err == nil {
				leader = m.Node
			}
			q.cfg.OnLeaderSeen(leader)
		case <-q.stop:
			return
		}
	}
}

// applied nudges the followers when this node leads.
func (q *Quorum) applied(index uint64) { q.nudges.committed(index) }

// HasState reports whether the store holds a cluster already.
func (q *Quorum) HasState() (bool, error) {
	has, err := raft.HasExistingState(q.store, q.store, q.snapshots)
	if err != nil {
		return false, fmt.Errorf("look for raft state: %w", err)
	}
	return has, nil
}

// Bootstrap writes the first configuration: these voters. Every one of them may
// do it, with the same members; on a store with state it changes nothing.
func (q *Quorum) Bootstrap(voters []Member) error {
	var c raft.Configuration
	for _, m := range voters {
		c.Servers = append(c.Servers, raft.Server{Suffrage: raft.Voter, ID: serverID(m), Address: raft.ServerAddress(m.Address)})
	}
	err := q.raft.BootstrapCluster(c).Error()
	if err != nil && !errors.Is(err, raft.ErrCantBootstrap) {
		return fmt.Errorf("bootstrap raft: %w", err)
	}
	return nil
}

// Propose appends an entry on the controller and waits until it is committed and
// applied here. Result is what Machine.Apply returned for it. The context bounds
// the wait; when it ends first the error is ErrOutcomeUnknown.
func (q *Quorum) Propose(ctx context.Context, data []byte) (result any, index model.Index, err error) {
	if len(data) > EntrySizeMax {
		return nil, 0, fmt.Errorf("propose an entry of %d bytes, at most %d", len(data), EntrySizeMax)
	}
	if err := ctx.Err(); err != nil {
		return nil, 0, fmt.Errorf("%w: %w", ErrBusy, err)
	}
	future := q.raft.Apply(data, enqueueTimeout)
	if err := await(ctx, future); err != nil {
		return nil, 0, proposeError(err)
	}
	return future.Response(), model.Index(future.Index()), nil
}

// await waits for a future within the context.
func await(ctx context.Context, future raft.Future) error {
	done := make(chan error, 1)
	go func() { done <- future.Error() }() // ends with the future, at the latest when raft stops
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// proposeError sorts raft's errors by what they say about the entry.
func proposeError(err error) error {
	switch {
	case errors.Is(err, raft.ErrNotLeader), errors.Is(err, raft.ErrLeadershipTransferInProgress):
		return fmt.Errorf("%w (%w)", ErrNotController, err)
	case errors.Is(err, raft.ErrEnqueueTimeout):
		return ErrBusy
	default:
		// Leadership lost, shut down or out of time: the entry may be in the log
		// of a member that comes to lead.
		return fmt.Errorf("%w (%w)", ErrOutcomeUnknown, err)
	}
}

// Barrier waits until everything committed before is applied on this leader.
func (q *Quorum) Barrier(ctx context.Context) error {
	timeout := 10 * time.Second
	if d, ok := ctx.Deadline(); ok {
		timeout = time.Until(d)
	}
	if err := await(ctx, q.raft.Barrier(timeout)); err != nil {
		return fmt.Errorf("wait for the metadata log: %w", err)
	}
	return nil
}

// Verify confirms with a majority that this node still leads.
func (q *Quorum) Verify(ctx context.Context) error {
	if err := await(ctx, q.raft.VerifyLeader()); err != nil {
		return fmt.Errorf("%w (%w)", ErrNotController, err)
	}
	return nil
}

// Leader is the node that leads, as far as this one knows.
func (q *Quorum) Leader() (model.NodeID, bool) {
	_, id := q.raft.LeaderWithID()
	m, err := parseServerID(id)
	return m.Node, err == nil
}

// Leading reports whether this node leads.
func (q *Quorum) Leading() bool { return q.raft.State() == raft.Leader }

// Status is a member's own view.
type Status struct {
	Term          model.Term
	Last          model.Index // of the log
	Commit        model.Index
	Applied       model.Index
	RestoreAlarms uint64 // see hashicorp/raft issue 697; 0 is healthy
}

// Status reports this member's positions.
func (q *Quorum) Status() Status {
	return Status{
		Term:          model.Term(q.raft.CurrentTerm()),
		Last:          model.Index(q.raft.LastIndex()),
		Commit:        model.Index(q.raft.CommitIndex()),
		Applied:       model.Index(q.raft.AppliedIndex()),
		RestoreAlarms: q.fsm.alarms.Load(),
	}
}

// Snapshot takes a snapshot now.
func (q *Quorum) Snapshot() error {
	err := q.raft.Snapshot().Error()
	if err != nil && !errors.Is(err, raft.ErrNothingNewToSnapshot) {
		return fmt.Errorf("take snapshot: %w", err)
	}
	return nil
}

// Close stops the member and its store. It does not hand the leadership over.
func (q *Quorum) Close() error {
	q.once.Do(func() {
		q.raft.DeregisterObserver(q.sight)
		err := q.raft.Shutdown().Error()
		terr := q.transport.Close()
		close(q.stop)
		q.wait.Wait()
		q.transport.mute()
		q.closeErr = errors.Join(err, terr, q.store.close())
	})
	return q.closeErr
}
