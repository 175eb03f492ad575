package dataplane

import (
	"context"
	"sync"
	"time"

	"github.com/ister-mq/ister/broker/internal/model"
)

// news tells those who wait that another image was carried out.
type news struct {
	mu sync.Mutex // guards ch
	ch chan struct{}
}

// next is closed when the next image has been carried out.
func (n *news) next() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ch == nil {
		n.ch = make(chan struct{})
	}
	return n.ch
}

func (n *news) tell() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ch != nil {
		close(n.ch)
		n.ch = nil
	}
}

// awaitEpochs returns when this node has heard of the leader epochs that n
// queries name, or has waited long enough. A client that another node sent here
// comes a few milliseconds before the image; refused, it waits for its own pace, a
// second with some. An epoch that will never be costs the client that named it
// NewsWait.
func (p *Plane) awaitEpochs(ctx context.Context, n int, query func(i int) (model.Partition, model.LeaderEpoch)) {
	var timeout <-chan time.Time
	for {
		next := p.news.next()
		ahead := false
		for i := 0; i < n && !ahead; i++ {
			id, epoch := query(i)
			ahead = epoch != model.NoEpoch && epoch > p.heardEpoch(id)
		}
		if !ahead {
			return
		}
		if timeout == nil {
			timer := time.NewTimer(p.cfg.NewsWait)
			defer timer.Stop()
			timeout = timer.C
		}
		select {
		case <-next:
		case <-timeout:
			return
		case <-ctx.Done():
			return
		case <-p.ctx.Done():
			return
		}
	}
}

// heardEpoch is the newest leader epoch of a partition that its replica here was
// given; NoEpoch without a replica.
func (p *Plane) heardEpoch(id model.Partition) model.LeaderEpoch {
	l := p.local(id)
	if l == nil {
		return model.NoEpoch
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.replica == nil {
		return model.NoEpoch
	}
	return l.replica.LeaderEpoch()
}
