package controlplane

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/ister-mq/ister/broker/internal/metadata"
	"github.com/ister-mq/ister/broker/internal/quorum"
)

// signal wakes everybody who waits for a change. A waiter takes C before it
// looks at the state, so that no change is missed.
type signal struct {
	mu sync.Mutex // guards ch
	ch chan struct{}
}

// C is closed at the next Fire.
func (s *signal) C() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ch == nil {
		s.ch = make(chan struct{})
	}
	return s.ch
}

// Fire wakes the waiters.
func (s *signal) Fire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ch != nil {
		close(s.ch)
		s.ch = nil
	}
}

// machine applies committed batches to the image. It is the quorum's state
// machine: Apply and Restore come from one goroutine.
type machine struct {
	current atomic.Pointer[metadata.Image]
	changed signal
}

func newMachine() *machine {
	m := &machine{}
	m.current.Store(metadata.Empty())
	return m
}

// Apply implements quorum.Machine. The result of an entry is a []bool: which of
// its batches were applied rather than dropped as stale.
func (m *machine) Apply(entries []quorum.Entry) []any {
	im := m.current.Load()
	out := make([]any, len(entries))
	for i, e := range entries {
		batches, err := metadata.DecodeBatches(e.Data)
		if err != nil {
			// To go on without it would make this node's image differ from the
			// others' for ever.
			panic(fmt.Sprintf("metadata log entry %d cannot be read: %v", e.Index, err))
		}
		applied := make([]bool, len(batches))
		for j, b := range batches {
			im, applied[j] = im.Apply(b)
		}
		out[i] = applied
	}
	m.set(im)
	return out
}

// Snapshot implements quorum.Machine. Images are immutable, so that encoding
// needs no copy.
func (m *machine) Snapshot() func() ([]byte, error) { return m.current.Load().Encode }

// Restore implements quorum.Machine.
func (m *machine) Restore(b []byte) error {
	im, err := metadata.DecodeImage(b)
	if err != nil {
		return err
	}
	m.set(im)
	return nil
}

func (m *machine) set(im *metadata.Image) {
	if m.current.Swap(im) != im {
		m.changed.Fire()
	}
}

// listeners tells image changes to those who registered, from one goroutine. It
// may pass over images in between when they come fast.
type listeners struct {
	mu    sync.Mutex // guards all
	all   []*listener
	added signal
}

type listener struct {
	f    func(old, new *metadata.Image)
	last *metadata.Image
}

func (l *listeners) add(f func(old, new *metadata.Image)) {
	l.mu.Lock()
	l.all = append(l.all, &listener{f: f})
	l.mu.Unlock()
	l.added.Fire()
}

// run delivers until stop.
func (l *listeners) run(m *machine, stop <-chan struct{}) {
	for {
		changed, added := m.changed.C(), l.added.C()
		im := m.current.Load()
		l.mu.Lock()
		all := l.all[:len(l.all):len(l.all)]
		l.mu.Unlock()
		for _, one := range all {
			if one.last != im {
				one.f(one.last, im)
				one.last = im
			}
		}
		select {
		case <-changed:
		case <-added:
		case <-stop:
			return
		}
	}
}
