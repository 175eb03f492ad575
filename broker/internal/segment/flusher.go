package segment

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"sync"

	"github.com/ister-mq/ister/broker/internal/model"
	"github.com/ister-mq/ister/broker/internal/vfs"
)

// ErrDetached is what waiters get when their log leaves the flusher.
var ErrDetached = errors.New("segment: the log was detached from the flusher")

const (
	// defaultParallel is where more fdatasync calls at once stop paying on one disk.
	defaultParallel = 16
	// bulkParallel bounds the syncs of much data, which must not hold up the small.
	bulkParallel = 4
	bulkQueue    = 1024
	// bulkBytes is from where a log's sync counts as bulk.
	bulkBytes = 1 << 20
	// checkpointParallel bounds the syncs that free a journal file.
	checkpointParallel = 4

	// A round goes to the journal when it has more logs than journalLogs: from three
	// on, one sync of all of it beats a sync of each (measured: 1 ms against 2 to 3).
	// Logs with more than journalLogBytes, or beyond journalRoundBytes in all, are
	// synced in place, since they would be written twice.
	journalLogs       = 2
	journalLogBytes   = 256 << 10
	journalRoundBytes = 8 << 20
)

// FlusherConfig describes a flusher.
type FlusherConfig struct {
	// FS is the disk. Required.
	FS vfs.FS
	// Dir holds the journal's files; it is made when missing. Empty: no journal,
	// every log is synced in place.
	Dir string
	// LogsDir is the parent of the logs' directories. Required with Dir; a log that
	// lives elsewhere is synced in place.
	LogsDir string
	// Parallel bounds the concurrent fdatasync calls of one round. Default 16.
	Parallel int
	// JournalBytes is the size of each of the journal's two files. Default 64 MiB,
	// at least 24 KiB; space is taken as it is needed.
	JournalBytes int64
}

// Flusher makes the logs of one disk durable, in rounds: whatever is asked for
// while a round is under way is served by the next one, so that one sync answers
// many requests. A round over few logs syncs their segments; one over many logs with
// little data each is written to the journal and synced there, and the segments
// follow later, off the path of the waiters. Which of the two happened shows
// nowhere but in the time it took.
//
// It owns a goroutine that plans the rounds, Parallel that sync small logs, a few
// that sync large ones, and one that checkpoints the journal.
type Flusher struct {
	cfg     FlusherConfig
	journal *journal // nil without one
	replay  Replay

	mu      sync.Mutex
	wake    *sync.Cond
	queue   []*Log // logs with waiters, none of them being served
	small   int    // logs of the current round being synced
	bulk    int    // large logs being synced
	closing bool

	smallWork chan *Log
	bulkWork  chan *Log
	planned   chan struct{} // closed when no round follows
	owned     sync.WaitGroup
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
// below LogsDir, so it must be called before any of them is opened. A journal that
// is damaged in the middle is a REPLICA_QUARANTINED refusal: what the logs of this
// disk have lost is then unknown.
func NewFlusher(cfg FlusherConfig) (*Flusher, error) {
	if cfg.FS == nil || cfg.Dir != "" && cfg.LogsDir == "" {
		return nil, errors.New("segment: flusher config needs FS, and LogsDir with Dir")
	}
	if cfg.Parallel <= 0 {
		cfg.Parallel = defaultParallel
	}
	f := &Flusher{cfg: cfg, smallWork: make(chan *Log), bulkWork: make(chan *Log, bulkQueue), planned: make(chan struct{})}
	f.wake = sync.NewCond(&f.mu)
	if cfg.Dir != "" {
		if err := makeDirectory(cfg.FS, cfg.Dir); err != nil {
			return nil, err
		}
		var err error
		if f.replay, err = replayJournal(cfg.FS, cfg.Dir, cfg.LogsDir); err != nil {
			return nil, err
		}
		f.journal = newJournal(cfg.FS, cfg.Dir, cfg.JournalBytes)
		f.own(f.checkpointer)
	}
	for range cfg.Parallel {
		f.own(func() { f.work(f.smallWork, &f.small) })
	}
	for range bulkParallel {
		f.own(func() { f.work(f.bulkWork, &f.bulk) })
	}
	f.own(f.plan)
	return f, nil
}

func (f *Flusher) own(run func()) {
	f.owned.Add(1)
	go func() {
		defer f.owned.Done()
		run()
	}()
}

// makeDirectory makes a directory and its name durable.
func makeDirectory(fsys vfs.FS, dir string) error {
	if _, err := fsys.Stat(dir); err == nil {
		return nil
	}
	if err := fsys.MkdirAll(dir); err != nil {
		return fmt.Errorf("make %s: %w", dir, err)
	}
	if err := fsys.SyncDir(path.Dir(dir)); err != nil {
		return fmt.Errorf("make %s: %w", dir, err)
	}
	return nil
}

// Replayed says what NewFlusher took from the journal.
func (f *Flusher) Replayed() Replay { return f.replay }

// Attach gives an open log to the flusher. From then on it is also synced in the
// background when it begins a new segment.
func (f *Flusher) Attach(l *Log) error {
	f.mu.Lock()
	if f.closing || l.flush.attached {
		f.mu.Unlock()
		return fmt.Errorf("attach %s: the flusher is closing or has the log already", l.cfg.Dir)
	}
	l.flush = flushState{attached: true}
	f.mu.Unlock()
	l.mu.Lock()
	l.flusher = f
	l.mu.Unlock()
	return nil
}

// Detach takes a log back, which must happen before it is closed: it waits for the
// sync under way, and gives ErrDetached to waiters that are left. A log with entries
// in the journal is synced, and its entries are made void. It must not be called
// from a done callback.
func (f *Flusher) Detach(l *Log) {
	f.mu.Lock()
	if !l.flush.attached {
		f.mu.Unlock()
		return
	}
	l.flush.attached = false
	for l.flush.serving {
		f.wake.Wait()
	}
	waiters := l.flush.waiters
	l.flush.waiters = nil
	if i := slices.Index(f.queue, l); i >= 0 {
		f.queue = slices.Delete(f.queue, i, i+1)
	}
	l.flush.queued = false
	f.mu.Unlock()
	f.leaveJournal(l)
	l.mu.Lock()
	l.flusher = nil
	l.mu.Unlock()
	answer(waiters, l.Durable(), ErrDetached)
}

// leaveJournal makes the journal free of a log.
func (f *Flusher) leaveJournal(l *Log) {
	if f.journal == nil {
		return
	}
	l.syncing.Lock()
	defer l.syncing.Unlock()
	if !f.journal.holds(l.identity) {
		return
	}
	err := l.syncLocked()
	if err == nil {
		err = f.journal.cut(l.identity, path.Base(l.cfg.Dir), 0)
	}
	if err != nil {
		err = l.poison(err)
	}
	f.journal.forget(l.identity, err != nil)
}

// Request asks that l becomes durable up to end, which must have been appended.
// done, which may be nil, is called once from a goroutine of the flusher, with the
// newest durable offset (at least end, unless the log was truncated since) or the
// fault that poisoned the log; ErrDetached when the log is not attached. Calls for
// one log come in the order of the requests, one at a time. done must not block.
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

// Close serves what has been asked for and ends the goroutines. Logs that are still
// attached and have entries in the journal are synced; with all of them durable the
// journal's files are removed, so that the next start has nothing to replay.
func (f *Flusher) Close() error {
	f.mu.Lock()
	if f.closing {
		f.mu.Unlock()
		return ErrClosed
	}
	f.closing = true
	f.wake.Broadcast()
	f.mu.Unlock()
	f.owned.Wait()
	if f.journal == nil {
		return nil
	}
	defer f.journal.close()
	for i := range f.journal.halves {
		for _, l := range f.journal.holders(i) {
			f.leaveJournal(l)
		}
	}
	if !f.journal.settled() {
		return nil // the next start replays it
	}
	return f.journal.remove()
}

// plan forms the rounds. A round begins when the small syncs of the one before it
// are over, so that requests gather meanwhile.
func (f *Flusher) plan() {
	defer close(f.smallWork)
	defer close(f.bulkWork)
	defer close(f.planned)
	for {
		f.mu.Lock()
		for f.small > 0 || len(f.queue) == 0 && !(f.closing && f.bulk == 0) {
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
		f.mu.Unlock()
		f.serveRound(round)
	}
}

// serveRound decides how each log of a round becomes durable, and sees to it.
func (f *Flusher) serveRound(round []*Log) {
	var small, bulk, tiny []*Log
	var tinyBytes int64
	for _, l := range round {
		l.mu.Lock()
		dirty, unsecured := l.dirtyBytes(), l.unsecuredBytes()
		l.mu.Unlock()
		switch {
		case f.journal != nil && unsecured <= journalLogBytes && tinyBytes+unsecured <= journalRoundBytes &&
			path.Dir(l.cfg.Dir) == path.Clean(f.cfg.LogsDir):
			tiny, tinyBytes = append(tiny, l), tinyBytes+unsecured
		case dirty >= bulkBytes:
			bulk = append(bulk, l)
		default:
			small = append(small, l)
		}
	}
	if len(tiny) > journalLogs {
		tiny = f.journalRound(tiny)
	}
	small = append(small, tiny...)
	f.mu.Lock()
	f.bulk += len(bulk)
	f.small += len(small)
	f.mu.Unlock()
	for _, l := range bulk {
		f.bulkWork <- l
	}
	if len(small) == 1 {
		f.serve(small[0], &f.small) // no hand-over for the commonest round
		return
	}
	for _, l := range small {
		f.smallWork <- l
	}
}

func (f *Flusher) work(logs <-chan *Log, count *int) {
	for l := range logs {
		f.serve(l, count)
	}
}

// serve syncs one log in place and answers its waiters. count is f.small or f.bulk.
func (f *Flusher) serve(l *Log, count *int) {
	waiters := f.takeWaiters(l)
	err := l.Sync()
	answer(waiters, l.Durable(), err)
	f.served(l, count)
}

func (f *Flusher) takeWaiters(l *Log) []waiter {
	f.mu.Lock()
	defer f.mu.Unlock()
	waiters := l.flush.waiters
	l.flush.waiters = nil
	return waiters
}

// served ends a log's part of a round; requests that came meanwhile queue it again.
func (f *Flusher) served(l *Log, count *int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	l.flush.serving = false
	if count != nil {
		*count--
	}
	if len(l.flush.waiters) > 0 && l.flush.attached {
		l.flush.queued = true
		f.queue = append(f.queue, l)
	}
	f.wake.Broadcast()
}

func answer(waiters []waiter, durable model.Offset, err error) {
	for _, w := range waiters {
		if w.done != nil {
			w.done(durable, err)
		}
	}
}

// checkpointer frees the journal files that have filled up.
func (f *Flusher) checkpointer() {
	for {
		select {
		case i := <-f.journal.drains:
			f.checkpoint(i)
		case <-f.planned:
			return // Close sees to what is left
		}
	}
}

// checkpoint frees one journal file by syncing the logs with entries in it.
func (f *Flusher) checkpoint(i int) {
	work := make(chan *Log)
	failed := make([]bool, checkpointParallel)
	var group sync.WaitGroup
	for w := range checkpointParallel {
		group.Add(1)
		go func() {
			defer group.Done()
			for l := range work {
				if err := l.Sync(); err != nil && !errors.Is(err, ErrClosed) {
					failed[w] = true // the log is poisoned and says so itself
				}
			}
		}()
	}
	for _, l := range f.journal.holders(i) {
		work <- l
	}
	close(work)
	group.Wait()
	if !slices.Contains(failed, true) {
		f.journal.release(i)
	}
}

// cutJournal makes the journal forget what it holds of the log from off on, durably.
// l.syncing is held.
func (l *Log) cutJournal(off model.Offset) error {
	l.mu.Lock()
	f := l.flusher
	l.mu.Unlock()
	if f == nil || f.journal == nil {
		return nil
	}
	return f.journal.cut(l.identity, path.Base(l.cfg.Dir), off)
}

// forgetJournal drops an identity that the log has given up.
func (l *Log) forgetJournal(old identity) {
	l.mu.Lock()
	f := l.flusher
	l.mu.Unlock()
	if f != nil && f.journal != nil {
		f.journal.forget(old, false)
	}
}
