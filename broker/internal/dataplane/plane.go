package dataplane

import (
	"context"
	"log/slog"
	"path"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ister-mq/ister/broker/internal/metadata"
	"github.com/ister-mq/ister/broker/internal/model"
	"github.com/ister-mq/ister/broker/internal/peer"
	"github.com/ister-mq/ister/broker/internal/segment"
	"github.com/ister-mq/ister/broker/internal/telemetry"
	"github.com/ister-mq/ister/broker/internal/vfs"
)

// Control is the control plane as the data plane uses it.
type Control interface {
	// Image is the newest metadata applied here, never nil.
	Image() *metadata.Image
	// OnImage registers a listener, called in order from one goroutine, first
	// with (nil, current).
	OnImage(func(old, new *metadata.Image))
	Propose(ctx context.Context, cmd metadata.Command) (any, error)
	Self() (model.NodeID, model.NodeEpoch)
	// LeaseValid: this node may act as a leader now.
	LeaseValid() bool
	Controller() (model.NodeID, bool)
}

// Peers opens fetch sessions to other nodes.
type Peers interface {
	OpenFetch(ctx context.Context, to peer.Target) (*peer.FetchClient, error)
}

// Config of a Plane. Zero durations and sizes take the default.
type Config struct {
	FS  vfs.FS
	Dir string // the node's data directory; the plane owns logs/, quarantine/, journal/ and two files in it

	// MoveBytesPerSecond bounds what is sent to replicas outside the ISR, over
	// all partitions; 0 is no bound.
	MoveBytesPerSecond int64
	// DiskReserveBytes is the free space below which appends are refused; 0 none.
	DiskReserveBytes int64
	// RetiredGrace is how long a given-up copy stays on disk. Default 1 minute.
	RetiredGrace time.Duration
	// LagMax is how long a follower may be behind in the ISR. Default 2 s.
	LagMax time.Duration
	// FetchWait is how long a leader holds a fetch without news. Default 500 ms.
	FetchWait time.Duration
	// NewsWait is how long a read is kept that names a newer leader epoch than this
	// node has heard of. Default 100 ms.
	NewsWait time.Duration
	// CheckpointInterval is the time between high watermark checkpoints. Default 5 s.
	CheckpointInterval time.Duration
	// RetentionInterval is the time between retention rounds. Default 30 s.
	RetentionInterval time.Duration

	Logger  *slog.Logger       // nil: silent
	Metrics *telemetry.Metrics // nil: a private set
}

// Bounds of the plane.
const (
	openParallel        = 8       // logs opened at the same time
	fetchBytesMax       = 8 << 20 // batches in one replication response
	fetchPartitionBytes = 1 << 20 // of one partition in it
	moveBytesPerFetch   = 1 << 20 // of one response for replicas outside the ISR
	tickInterval        = 100 * time.Millisecond
	proposeTimeout      = 5 * time.Second
	producerBlock       = 1000 // producer ids reserved at a time
)

func (c Config) withDefaults() Config {
	orDuration(&c.RetiredGrace, time.Minute)
	orDuration(&c.LagMax, 2*time.Second)
	orDuration(&c.FetchWait, 500*time.Millisecond)
	orDuration(&c.NewsWait, 100*time.Millisecond)
	orDuration(&c.CheckpointInterval, 5*time.Second)
	orDuration(&c.RetentionInterval, 30*time.Second)
	if c.Metrics == nil {
		c.Metrics = telemetry.NewMetrics()
	}
	return c
}

func orDuration(field *time.Duration, value time.Duration) {
	if *field == 0 {
		*field = value
	}
}

// Plane holds every replica of this node and moves their data. It implements
// kafka.Backend and peer.FetchHandler. Life: Open, Run, Close.
type Plane struct {
	cfg     Config
	metrics *telemetry.Metrics
	flusher *segment.Flusher
	clean   bool // the last stop was orderly

	control Control
	peers   Peers

	ctx     context.Context // ends when Close begins
	cancel  context.CancelFunc
	workers sync.WaitGroup

	mu       sync.RWMutex // guards the maps below; never held with a replica's lock taken first
	locals   map[model.Partition]*local
	list     []*local // the same, rebuilt on change; its elements never change
	fetchers map[model.NodeID]*fetcher
	retired  map[model.Partition]bool   // given up, image still lists this node as retiring
	undone   map[model.Partition]string // to be given up, but the directory could not be renamed; why

	image     atomic.Pointer[metadata.Image] // the newest that reconcile has carried out
	imageKick chan struct{}

	isr       isrQueue
	early     early
	news      news
	throttle  throttle
	disk      diskState
	producers producerIDs
	marks     map[model.Partition]model.Offset // high watermarks of the checkpoint; reconcile's after Open
	trash     trash
	ready     atomic.Bool // the first image was carried out
}

// Open reads the clean marker and the high watermarks and replays the journal.
// Logs are opened once an image says what this node holds; nothing is served
// until Run.
func Open(cfg Config) (*Plane, error) {
	cfg = cfg.withDefaults()
	p := &Plane{
		cfg: cfg, metrics: cfg.Metrics,
		locals: map[model.Partition]*local{}, fetchers: map[model.NodeID]*fetcher{},
		retired: map[model.Partition]bool{}, undone: map[model.Partition]string{},
		imageKick: make(chan struct{}, 1),
	}
	p.image.Store(metadata.Empty())
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.isr.kick = make(chan struct{}, 1)
	p.throttle.rate = cfg.MoveBytesPerSecond
	if err := p.openDirectories(); err != nil {
		p.cancel()
		return nil, err
	}
	p.checkDisk()
	return p, nil
}

// Clean reports whether the node's last stop was orderly. Valid after Open.
func (p *Plane) Clean() bool { return p.clean }

// Run begins to act on the control plane's images. Call it once.
func (p *Plane) Run(control Control, peers Peers) {
	p.control, p.peers = control, peers
	p.start(p.reconcileLoop)
	p.start(p.isrLoop)
	p.start(p.housekeepingLoop)
	control.OnImage(func(_, _ *metadata.Image) { kick(p.imageKick) })
}

// start runs f until it returns; Close waits for it.
func (p *Plane) start(f func()) {
	p.workers.Add(1)
	go func() {
		defer p.workers.Done()
		f()
	}()
}

// Ready reports whether the first image has been carried out: every replica of
// this node is open or known to be broken.
func (p *Plane) Ready() bool { return p.ready.Load() }

// LeaderCount is how many partitions this node leads now.
func (p *Plane) LeaderCount() int {
	n := 0
	for _, l := range p.snapshot() {
		if l.leads.Load() {
			n++
		}
	}
	return n
}

// Close stops everything and closes the logs. When everything could be synced it
// leaves the clean marker, so that the next start need not recover. The Kafka
// listener and the peer endpoint must have stopped calling.
func (p *Plane) Close() error {
	p.stopWorkers()
	return p.closeLogs()
}

// Abandon ends the plane as a crash would: nothing is synced and no marker is
// left, unless nothing was changed since one was found.
func (p *Plane) Abandon() {
	p.stopWorkers()
	p.flusher.Close()
	for _, l := range p.snapshot() {
		l.drop()
	}
	if p.clean && !p.ready.Load() {
		_ = p.leaveMarker()
	}
}

func (p *Plane) stopWorkers() {
	p.cancel()
	p.mu.Lock()
	fetchers := p.fetchers
	p.fetchers = map[model.NodeID]*fetcher{}
	p.mu.Unlock()
	for _, f := range fetchers {
		f.stop()
	}
	p.workers.Wait()
}

// FailWaiters answers every waiting produce and wakes every long poll, so that
// the Kafka listener can end. New ones are refused from here on.
func (p *Plane) FailWaiters() {
	p.cancel()
	for _, id := range p.early.expired(time.Now().Add(time.Hour)) {
		p.serveEarly(id)
	}
	for _, l := range p.snapshot() {
		l.stopServing()
	}
}

// local returns this node's replica, or nil.
func (p *Plane) local(id model.Partition) *local {
	p.mu.RLock()
	l := p.locals[id]
	p.mu.RUnlock()
	return l
}

// snapshot lists the replicas, in no order. The slice must not be changed.
func (p *Plane) snapshot() []*local {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.list
}

// relist rebuilds list after locals changed. Under mu.
func (p *Plane) relist() {
	p.list = make([]*local, 0, len(p.locals))
	for _, l := range p.locals {
		p.list = append(p.list, l)
	}
}

func (p *Plane) log(e telemetry.Event) { telemetry.Log(p.cfg.Logger, e) }

func (p *Plane) logsDir() string       { return path.Join(p.cfg.Dir, "logs") }
func (p *Plane) quarantineDir() string { return path.Join(p.cfg.Dir, "quarantine") }
func (p *Plane) journalDir() string    { return path.Join(p.cfg.Dir, "journal") }

// kick wakes the owner of a channel of capacity one.
func kick(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
