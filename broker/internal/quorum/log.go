package quorum

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
)

// repeatAfter is how long the same raft line is kept quiet.
const (
	repeatAfter    = 5 * time.Second
	repeatKeysMax  = 256
	raftLogMessage = "raft"
)

// raftLog passes raft's lines on to slog. What raft calls an error (a follower
// that does not answer) is degraded service that heals itself, hence one level
// lower; and it repeats such lines for each attempt, hence the limit.
type raftLog struct {
	log *slog.Logger

	mu   sync.Mutex // guards last
	last map[string]time.Time
}

// routine are lines that raft calls errors whenever a connection ends.
var routine = map[string]bool{
	"failed to decode incoming command": true,
	"failed to flush response":          true,
	"failed to accept connection":       true,
}

// newRaftLog makes an hclog logger that ends in log.
func newRaftLog(log *slog.Logger) hclog.Logger {
	l := hclog.NewInterceptLogger(&hclog.LoggerOptions{Name: raftLogMessage, Output: io.Discard, Level: hclog.Off})
	l.RegisterSink(&raftLog{log: log, last: make(map[string]time.Time)})
	return l
}

// Accept implements hclog.SinkAdapter.
func (r *raftLog) Accept(_ string, level hclog.Level, msg string, args ...any) {
	if level < hclog.Info {
		return
	}
	to := slog.LevelDebug
	if level >= hclog.Error && !routine[msg] {
		to = slog.LevelWarn
		if r.repeated(msg + peerOf(args)) {
			return
		}
	}
	attrs := []any{"reason", msg}
	for i := 0; i+1 < len(args); i += 2 {
		attrs = append(attrs, fmt.Sprint(args[i]), fmt.Sprint(args[i+1]))
	}
	r.log.Log(context.Background(), to, "raft reported", attrs...)
}

func (r *raftLog) repeated(key string) bool {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if now.Sub(r.last[key]) < repeatAfter {
		return true
	}
	if len(r.last) >= repeatKeysMax {
		clear(r.last)
	}
	r.last[key] = now
	return false
}

// peerOf is the value of the peer key, so that two silent members are two lines.
func peerOf(args []any) string {
	for i := 0; i+1 < len(args); i += 2 {
		if args[i] == "peer" {
			return fmt.Sprint(args[i+1])
		}
	}
	return ""
}

// badgerLog passes badger's warnings and errors on.
type badgerLog struct{ log *slog.Logger }

// Errorf implements badger.Logger.
func (b badgerLog) Errorf(format string, args ...any) {
	b.log.Error("raft store reported", "reason", strings.TrimSpace(fmt.Sprintf(format, args...)))
}

// Warningf implements badger.Logger.
func (b badgerLog) Warningf(format string, args ...any) {
	b.log.Warn("raft store reported", "reason", strings.TrimSpace(fmt.Sprintf(format, args...)))
}

// Infof implements badger.Logger: badger tells each file it opens.
func (b badgerLog) Infof(string, ...any) {}

// Debugf implements badger.Logger.
func (b badgerLog) Debugf(string, ...any) {}
