package dataplane

import (
	"sync"
	"time"
)

// throttle is a token bucket in bytes, shared by all fetches for replicas outside
// the ISR. It may go below zero by one read, since a batch is never cut, and is
// paid back before the next. It holds at most a quarter of a second.
type throttle struct {
	rate int64 // bytes per second; 0: no bound

	mu     sync.Mutex
	tokens int64
	at     time.Time
}

const throttleDepth = 4 // 1/depth of a second's bytes can be saved up

// take returns how many of want bytes may be read now, 0 while the bucket is
// empty.
func (t *throttle) take(want int, now time.Time) int {
	if t.rate == 0 {
		return want
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.at.IsZero() {
		t.tokens = t.rate / throttleDepth
	} else {
		t.tokens = min(t.tokens+int64(float64(t.rate)*now.Sub(t.at).Seconds()), t.rate/throttleDepth)
	}
	t.at = now
	if t.tokens <= 0 {
		return 0
	}
	return int(min(int64(want), max(t.tokens, 1)))
}

// spend takes off what was read.
func (t *throttle) spend(n int) {
	if t.rate == 0 {
		return
	}
	t.mu.Lock()
	t.tokens -= int64(n)
	t.mu.Unlock()
}

// refill is a channel that fires when a throttled response may be tried again;
// nil, which never fires, when it was not throttled.
func (t *throttle) refill(left *budget) <-chan time.Time {
	if !left.throttled {
		return nil
	}
	left.throttled = false
	t.mu.Lock()
	defer t.mu.Unlock()
	wait := time.Duration(float64(max(1, 1-t.tokens)) / float64(t.rate) * float64(time.Second))
	return time.After(max(wait, time.Millisecond))
}
