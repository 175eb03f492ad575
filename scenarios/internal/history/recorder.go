package history

import (
	"sync"
	"time"
)

// Recorder collects a history while clients run. All methods may be called from
// any goroutine.
type Recorder struct {
	start time.Time
	mu    sync.Mutex
	h     History // guarded by mu
	waits []wait  // guarded by mu
	acked map[string]int64

	// For a journal: which entries ended since it looked last.
	journaled bool  // guarded by mu
	ended     ended // guarded by mu

	progress Progress // guarded by mu: totals; At and GapNS are made when asked for
	oldest   int      // guarded by mu: no send before this one is pending
}

// Progress is how far the clients have come: totals since the history began, so
// that two of them tell a rate.
type Progress struct {
	At        int64 // ns since the history began
	Sent      int64
	Acked     int64
	Delivered int64
	AckNS     int64 // time to acknowledgement, summed over what is acknowledged
	GapNS     int64 // how long the send that waits longest has waited by now; 0: none waits
}

// ended are handles of sends and disturbances.
type ended struct{ sends, disturbances []int }

type wait struct {
	load  string
	acked int64
	done  chan struct{}
}

// NewRecorder begins a history now.
func NewRecorder() *Recorder {
	return &Recorder{start: time.Now(), acked: map[string]int64{}}
}

// Now is the time since the history began, in ns, on the monotonic clock.
func (r *Recorder) Now() int64 { return int64(time.Since(r.start)) }

// BeginSend records a send that has been given to the client and returns its
// handle for EndSend.
func (r *Recorder) BeginSend(s Send) int {
	s.Call, s.Return, s.Outcome, s.Offset, s.Epoch, s.Broker = r.Now(), 0, Pending, -1, -1, -1
	r.mu.Lock()
	defer r.mu.Unlock()
	r.h.Sends = append(r.h.Sends, s)
	r.progress.Sent++
	return len(r.h.Sends) - 1
}

// EndSend records a send's outcome.
func (r *Recorder) EndSend(handle int, outcome Outcome, partition int32, offset int64, epoch, broker int32, err error) {
	now := r.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	s := &r.h.Sends[handle]
	s.Return, s.Outcome, s.Broker, s.Epoch = now, outcome, broker, epoch
	if partition >= 0 {
		s.Partition = partition
	}
	if outcome == OK {
		s.Offset = offset
		r.acked[s.Load]++
		r.progress.Acked++
		r.progress.AckNS += s.Return - s.Call
		r.wake(s.Load)
	}
	if err != nil {
		s.Error = err.Error()
	}
	if r.journaled {
		r.ended.sends = append(r.ended.sends, handle)
	}
}

// wake ends the waits that the load's acks now satisfy; r.mu is held.
func (r *Recorder) wake(load string) {
	kept := r.waits[:0]
	for _, w := range r.waits {
		if w.load == load && r.acked[load] >= w.acked {
			close(w.done)
			continue
		}
		kept = append(kept, w)
	}
	r.waits = kept
}

// Acked returns a channel that is closed once the load has n acknowledged sends,
// and the number it has now.
func (r *Recorder) Acked(load string, n int64) (<-chan struct{}, int64) {
	done := make(chan struct{})
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.acked[load] >= n {
		close(done)
	} else {
		r.waits = append(r.waits, wait{load, n, done})
	}
	return done, r.acked[load]
}

// Receive records a delivery; At is set here.
func (r *Recorder) Receive(rec Receive) {
	rec.At = r.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.h.Receives = append(r.h.Receives, rec)
	r.progress.Delivered++
}

// Progress tells how far the clients have come. It costs the same however long
// the history is.
func (r *Recorder) Progress() Progress {
	now := r.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.oldest < len(r.h.Sends) && r.h.Sends[r.oldest].Outcome != Pending {
		r.oldest++
	}
	p := r.progress
	p.At = now
	if r.oldest < len(r.h.Sends) {
		p.GapNS = max(0, now-r.h.Sends[r.oldest].Call)
	}
	return p
}

// BeginDisturbance records that something is being done to the cluster and
// returns its handle for EndDisturbance.
func (r *Recorder) BeginDisturbance(step, kind, target string) int {
	now := r.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.h.Disturbances = append(r.h.Disturbances, Disturbance{Step: step, Kind: kind, Target: target, Start: now})
	return len(r.h.Disturbances) - 1
}

// EndDisturbance records that it is over.
func (r *Recorder) EndDisturbance(handle int) {
	now := r.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.h.Disturbances[handle].End = now
	if r.journaled {
		r.ended.disturbances = append(r.ended.disturbances, handle)
	}
}

// Read records a complete read.
func (r *Recorder) Read(read Read) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.h.Reads = append(r.h.Reads, read)
}

// Snapshot is a copy of the history so far.
func (r *Recorder) Snapshot() *History {
	r.mu.Lock()
	defer r.mu.Unlock()
	return &History{
		Sends:        append([]Send(nil), r.h.Sends...),
		Receives:     append([]Receive(nil), r.h.Receives...),
		Acks:         append([]Ack(nil), r.h.Acks...),
		Disturbances: append([]Disturbance(nil), r.h.Disturbances...),
		Reads:        append([]Read(nil), r.h.Reads...),
	}
}

// endings are entries that ended after they were given out by since, and where
// they are.
type endings struct {
	sends []struct {
		at int
		Send
	}
	disturbances []struct {
		at int
		Disturbance
	}
}

// since copies what came after an extent, and what in it ended since the last
// call; next is the extent of now.
func (r *Recorder) since(from extent) (news History, next extent, old endings) {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := &r.h
	news = History{
		Sends:        append([]Send(nil), h.Sends[from.sends:]...),
		Receives:     append([]Receive(nil), h.Receives[from.receives:]...),
		Acks:         append([]Ack(nil), h.Acks[from.acks:]...),
		Disturbances: append([]Disturbance(nil), h.Disturbances[from.disturbances:]...),
		Reads:        append([]Read(nil), h.Reads[from.reads:]...),
	}
	for _, at := range r.ended.sends {
		if at < from.sends {
			old.sends = append(old.sends, struct {
				at int
				Send
			}{at, h.Sends[at]})
		}
	}
	for _, at := range r.ended.disturbances {
		if at < from.disturbances {
			old.disturbances = append(old.disturbances, struct {
				at int
				Disturbance
			}{at, h.Disturbances[at]})
		}
	}
	r.ended = ended{}
	return news, extent{len(h.Sends), len(h.Receives), len(h.Acks), len(h.Disturbances), len(h.Reads)}, old
}
