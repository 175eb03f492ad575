package kafka

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sync/semaphore"
)

// Serve answers Kafka clients on ln until ctx ends or ln fails. At the end of ctx
// it closes ln, reads no further request, answers those already read for up to
// Config.DrainTimeout, closes every connection, waits for its goroutines and
// returns nil. The done callback of a Produce may still come afterwards.
func Serve(ctx context.Context, ln net.Listener, backend Backend, cfg Config) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	l := &listener{backend: backend, cfg: cfg.withDefaults()}
	l.bytes = semaphore.NewWeighted(int64(l.cfg.ListenerBytesMax))

	stop := context.AfterFunc(ctx, func() { _ = ln.Close() })
	defer stop()
	err := l.accept(ctx, ln)
	ended := ctx.Err() != nil
	cancel()
	_ = ln.Close()
	l.connections.Wait()
	if ended {
		return nil
	}
	return fmt.Errorf("accept kafka connections: %w", err)
}

// listener is what the connections of one Serve share.
type listener struct {
	backend Backend
	cfg     Config
	// bytes bounds the requests read and not yet answered, over all connections.
	bytes       *semaphore.Weighted
	open        atomic.Int64
	connections sync.WaitGroup
}

func (l *listener) accept(ctx context.Context, ln net.Listener) error {
	for {
		nc, err := ln.Accept()
		switch {
		case err == nil:
			l.start(ctx, nc)
		case ctx.Err() != nil || !passes(err):
			return err
		default:
			l.cfg.Logger.Warn("kafka connection not accepted", "reason", err.Error())
			select {
			case <-time.After(acceptPause):
			case <-ctx.Done():
			}
		}
	}
}

// acceptPause is the wait after an Accept that failed for want of resources.
const acceptPause = 50 * time.Millisecond

// passes reports an error of Accept that the listener survives: the connection
// broke while it was accepted, or the process is out of descriptors or memory.
func passes(err error) bool {
	for _, errno := range []syscall.Errno{syscall.ECONNABORTED, syscall.ECONNRESET, syscall.EINTR, syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM} {
		if errors.Is(err, errno) {
			return true
		}
	}
	return false
}

// start serves a new connection, or closes it when there are too many.
func (l *listener) start(ctx context.Context, nc net.Conn) {
	if l.open.Add(1) > int64(l.cfg.ConnectionsMax) {
		l.open.Add(-1)
		l.cfg.Logger.Warn("kafka connection refused", "peer", nc.RemoteAddr().String(),
			"reason", "too many connections", "connections_max", l.cfg.ConnectionsMax)
		_ = nc.Close()
		return
	}
	l.connections.Go(func() {
		defer l.open.Add(-1)
		if err := newConnection(l, nc).serve(ctx); err != nil && ctx.Err() == nil {
			l.cfg.Logger.Debug("kafka connection closed", "peer", nc.RemoteAddr().String(), "reason", err.Error())
		}
	})
}
