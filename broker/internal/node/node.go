package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/ister-mq/ister/broker/internal/adminapi"
	"github.com/ister-mq/ister/broker/internal/controlplane"
	"github.com/ister-mq/ister/broker/internal/dataplane"
	"github.com/ister-mq/ister/broker/internal/kafka"
	"github.com/ister-mq/ister/broker/internal/metadata"
	"github.com/ister-mq/ister/broker/internal/model"
	"github.com/ister-mq/ister/broker/internal/peer"
	"github.com/ister-mq/ister/broker/internal/telemetry"
	"github.com/ister-mq/ister/broker/internal/vfs"
)

// Waits of a node.
const (
	handOverTimeout = 5 * time.Second // for giving leaderships away at a clean stop
	serveTimeout    = 5 * time.Second // for admin calls under way at a stop
	readyPoll       = 20 * time.Millisecond
)

// Options are what a program that embeds a node may give beside its Config.
type Options struct {
	Version string
	Logger  *slog.Logger // nil: none
	FS      vfs.FS       // nil: the operating system's
	// OnReady is called once, when the node serves.
	OnReady func()
	// Timing of the control plane; zero fields take the defaults.
	Timing controlplane.Timing
}

// Node is one running node. Life: Start, Wait, Stop.
type Node struct {
	cfg       Config
	options   Options
	logger    *slog.Logger
	ports     ports
	lock      io.Closer // of the data directory
	endpoints metadata.Endpoints
	metrics   *telemetry.Metrics

	endpoint *peer.Endpoint
	data     *dataplane.Plane
	control  *controlplane.Plane
	admin    []*http.Server

	kafkaStop context.CancelFunc
	workers   sync.WaitGroup // the servers and the watcher
	ctx       context.Context
	cancel    context.CancelFunc

	stopOnce sync.Once
	stopErr  error

	mu    sync.Mutex // guards fatal
	fatal error      // why the node ended by itself
	ended chan struct{}
}

// Start binds every port, opens the data directory and starts both planes. It
// returns when the node's place is decided locally; it may not serve yet.
func Start(cfg Config, options Options) (*Node, error) {
	if options.Logger == nil {
		options.Logger = slog.New(slog.DiscardHandler)
	}
	if options.FS == nil {
		options.FS = vfs.OS{}
	}
	n := &Node{cfg: cfg, options: options, logger: options.Logger, metrics: telemetry.NewMetrics(), ended: make(chan struct{})}
	n.ctx, n.cancel = context.WithCancel(context.Background())
	if err := n.start(); err != nil {
		n.cancel()
		n.abandon()
		return nil, err
	}
	return n, nil
}

func (n *Node) start() error {
	var err error
	if n.ports, err = bind(n.cfg); err != nil {
		return err
	}
	if n.lock, err = lockDirectory(n.options.FS, n.cfg.DataDir); err != nil {
		return err
	}
	hint := false
	if n.endpoints, hint = advertise(n.cfg, n.ports.broker, n.ports.admin, n.ports.raft, n.ports.metrics); !hint {
		n.logger.Warn("no address to advertise was given, only this machine can connect", "broker", n.endpoints.Kafka)
	}
	if n.data, err = dataplane.Open(dataplane.Config{
		FS: n.options.FS, Dir: n.cfg.DataDir, MoveBytesPerSecond: n.cfg.MoveBytesPerSecond,
		DiskReserveBytes: n.cfg.DiskReserveBytes, RetiredGrace: n.cfg.RetiredGrace,
		Logger: n.logger, Metrics: n.metrics,
	}); err != nil {
		return fmt.Errorf("open data directory %s: %w", n.cfg.DataDir, err)
	}
	n.endpoint = peer.New(peer.Config{Listener: n.ports.raft, Logger: n.logger})
	n.endpoint.HandleFetch(n.data)
	n.control, err = controlplane.Start(n.ctx, controlplane.Config{
		DataDir: n.cfg.DataDir, NodeID: n.cfg.NodeID, SeedNodes: n.cfg.SeedNodes, Join: n.cfg.Join,
		Endpoints: n.endpoints, Rack: n.cfg.Rack, Version: n.options.Version, Clean: n.data.Clean(),
		Peer: n.endpoint, Report: n.report, OnRemoved: func(e *controlplane.Error) { n.end(e) },
		Logger: n.logger, Timing: n.options.Timing,
	})
	if err != nil {
		return err
	}
	n.data.Run(n.control, n.endpoint)
	n.serveAdmin()
	n.serveKafka()
	n.work(n.watch)
	info := n.control.Info()
	n.logger.Info("ister node started", "node", int(info.Node), "cluster", string(info.Cluster), "version", n.options.Version,
		"state", string(info.State), "broker", n.endpoints.Kafka, "admin", n.endpoints.Admin, "raft", n.endpoints.Raft, "data_dir", n.cfg.DataDir)
	return nil
}

// work runs f on a goroutine that Stop waits for.
func (n *Node) work(f func()) {
	n.workers.Add(1)
	go func() {
		defer n.workers.Done()
		f()
	}()
}

// serveAdmin answers on the admin port, and metrics also on their own.
func (n *Node) serveAdmin() {
	handler := adminapi.Handler(&backend{n}, adminapi.Config{Logger: n.logger, Metrics: n.metrics.Handler()})
	n.serveHTTP(adminapi.NewServer(handler), n.ports.admin)
	if n.ports.metrics != nil {
		mux := http.NewServeMux()
		mux.Handle("GET /metrics", n.metrics.Handler())
		n.serveHTTP(adminapi.NewServer(mux), n.ports.metrics)
	}
}

func (n *Node) serveHTTP(server *http.Server, l net.Listener) {
	server.ErrorLog = slog.NewLogLogger(n.logger.Handler(), slog.LevelDebug)
	n.admin = append(n.admin, server)
	n.work(func() {
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			n.end(fmt.Errorf("serve http on %s: %w", l.Addr(), err))
		}
	})
}

func (n *Node) serveKafka() {
	ctx, cancel := context.WithCancel(n.ctx)
	n.kafkaStop = cancel
	n.work(func() {
		if err := kafka.Serve(ctx, n.ports.broker, n.data, kafka.Config{Logger: n.logger}); err != nil && ctx.Err() == nil {
			n.end(fmt.Errorf("serve kafka clients on %s: %w", n.ports.broker.Addr(), err))
		}
	})
}

// watch says when the node is ready and keeps the gauges of its standing.
func (n *Node) watch() {
	tick := time.NewTicker(readyPoll)
	defer tick.Stop()
	announced := false
	for {
		select {
		case <-n.ctx.Done():
			return
		case <-tick.C:
		}
		ready, _ := n.Ready()
		self, _ := n.control.Self()
		controller, _ := n.control.Controller()
		n.metrics.NodeReady.Set(gauge(ready))
		n.metrics.NodeIsController.Set(gauge(controller == self && self != 0))
		if ready && !announced {
			announced = true
			tick.Reset(time.Second)
			n.logger.Info("ister node ready", "node", int(self), "cluster", string(n.control.Info().Cluster), "broker", n.endpoints.Kafka)
			if n.options.OnReady != nil {
				n.options.OnReady()
			}
		}
	}
}

func gauge(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// Ready reports whether the node serves, and what it waits for when not.
func (n *Node) Ready() (bool, []string) {
	ready, waits := n.control.Ready()
	if !n.data.Ready() {
		ready, waits = false, append(waits, "the replicas of this node are being opened")
	}
	return ready, waits
}

// Endpoints are the advertised addresses.
func (n *Node) Endpoints() metadata.Endpoints { return n.endpoints }

// Image is the newest metadata here.
func (n *Node) Image() *metadata.Image { return n.control.Image() }

// end notes why the node cannot go on; the first reason stays.
func (n *Node) end(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.fatal == nil {
		n.fatal = err
		close(n.ended)
	}
}

// failed reports that the node cannot go on.
func (n *Node) failed() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.fatal != nil
}

// Wait blocks until ctx ends, which is a wish to stop and gives nil, or the node
// cannot go on. The caller then calls Stop.
func (n *Node) Wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-n.ended:
		n.mu.Lock()
		defer n.mu.Unlock()
		return n.fatal
	}
}

// Stop ends the node in order: it gives its leaderships away, ends the clients'
// calls, leaves the quorum process, syncs and closes the logs and leaves the
// clean marker. It may be called more than once.
func (n *Node) Stop() error {
	n.stopOnce.Do(func() {
		n.handOver()
		n.kafkaStop()
		n.data.FailWaiters()
		n.stopHTTP()
		n.cancel()
		errs := []error{n.control.Close(), n.endpoint.Close(), n.data.Close()}
		n.workers.Wait()
		n.stopErr = errors.Join(append(errs, n.lock.Close())...)
	})
	return n.stopErr
}

// Kill ends the node as a crash would: nothing is handed over and no clean marker
// is left. For tests.
func (n *Node) Kill() {
	n.stopOnce.Do(func() {
		n.kafkaStop()
		n.data.FailWaiters()
		for _, s := range n.admin {
			s.Close()
		}
		n.cancel()
		n.endpoint.Close()
		n.control.Close()
		n.data.Abandon()
		n.workers.Wait()
		n.lock.Close()
	})
}

// handOver has the controller fence this node, so that others lead what it led,
// and waits for that, if there is anybody to hand over to.
func (n *Node) handOver() {
	self, epoch := n.control.Self()
	if self == 0 || epoch == 0 || n.failed() || !othersLive(n.control.Image(), self) {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), handOverTimeout)
	defer cancel()
	if err := n.control.StepDown(ctx); err != nil {
		n.logger.Warn("leaderships were not handed over", "reason", err)
		return
	}
	tick := time.NewTicker(readyPoll)
	defer tick.Stop()
	for n.data.LeaderCount() > 0 {
		select {
		case <-ctx.Done():
			n.logger.Warn("some leaderships have nobody to go to", "leaders", n.data.LeaderCount())
			return
		case <-tick.C:
		}
	}
}

// othersLive reports whether another node could lead.
func othersLive(im *metadata.Image, self model.NodeID) bool {
	for id, other := range im.Nodes {
		if id != self && !other.Fenced {
			return true
		}
	}
	return false
}

func (n *Node) stopHTTP() {
	ctx, cancel := context.WithTimeout(context.Background(), serveTimeout)
	defer cancel()
	for _, s := range n.admin {
		if s.Shutdown(ctx) != nil {
			s.Close()
		}
	}
}

// abandon undoes a start that failed half-way.
func (n *Node) abandon() {
	if n.control != nil {
		n.control.Close()
	}
	if n.endpoint != nil {
		n.endpoint.Close()
	}
	if n.data != nil {
		n.data.Abandon()
	}
	n.ports.close()
	if n.lock != nil {
		n.lock.Close()
	}
}
