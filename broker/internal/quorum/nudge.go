package quorum

import (
	"sync"
	"sync/atomic"

	"github.com/hashicorp/raft"
)

// A raft follower learns of a commit from the next AppendEntries. When nothing
// follows, that is raft's CommitTimeout later, 50 to 100 ms. A shorter timeout
// costs idle CPU, and a trailing entry costs two syncs. So the leader sends an
// AppendEntries without entries on the same pipeline as soon as it has applied.
//
// It is a message raft itself may send at any time: term and previous entry are
// those of the last request on this pipeline, which the follower has processed
// before it, since a pipeline is in order; and the commit index never exceeds
// that previous entry. Raft's own decoder handles the answer.
//
// Raft's decoder stops reading answers at the first bad one, after which a
// sender would block for ever in the pipeline's hand-over. So this wrapper reads
// every answer itself, passes them on, and fails sends after a bad one.

// nudger knows the live pipelines of this node.
type nudger struct {
	mu        sync.Mutex // guards pipelines
	pipelines map[*nudgedPipeline]struct{}
}

func newNudger() *nudger { return &nudger{pipelines: make(map[*nudgedPipeline]struct{})} }

// committed tells every follower that index is committed. It does not block.
func (n *nudger) committed(index uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for p := range n.pipelines {
		p.want(index)
	}
}

func (n *nudger) wrap(p raft.AppendPipeline) *nudgedPipeline {
	np := &nudgedPipeline{
		AppendPipeline: p,
		nudger:         n,
		wake:           make(chan struct{}, 1),
		done:           make(chan struct{}),
		answers:        make(chan raft.AppendFuture),
	}
	n.mu.Lock()
	n.pipelines[np] = struct{}{}
	n.mu.Unlock()
	np.wait.Go(np.run)
	np.wait.Go(np.forward)
	return np
}

// nudgedPipeline is one follower's pipeline.
type nudgedPipeline struct {
	raft.AppendPipeline
	nudger  *nudger
	wake    chan struct{}
	done    chan struct{}
	answers chan raft.AppendFuture // to raft's decoder
	broken  atomic.Bool            // a bad answer came: the decoder reads no more
	once    sync.Once
	wait    sync.WaitGroup

	mu     sync.Mutex // guards wanted
	wanted uint64     // commit index to tell

	// sending guards the fields below and the order of sends. Unlike other locks
	// it is held across I/O: that is its purpose.
	sending sync.Mutex
	last    *raft.AppendEntriesRequest // entries stripped, previous entry advanced
	told    uint64                     // commit index of the last request
}

// AppendEntries implements raft.AppendPipeline.
func (p *nudgedPipeline) AppendEntries(req *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) (raft.AppendFuture, error) {
	p.sending.Lock()
	defer p.sending.Unlock()
	if p.broken.Load() {
		return nil, raft.ErrPipelineShutdown
	}
	f, err := p.AppendPipeline.AppendEntries(req, resp)
	if err != nil {
		return f, err
	}
	last := *req
	if n := len(req.Entries); n > 0 {
		last.PrevLogEntry, last.PrevLogTerm = req.Entries[n-1].Index, req.Entries[n-1].Term
	}
	last.Entries = nil
	p.last, p.told = &last, req.LeaderCommitIndex
	return f, nil
}

// Close implements raft.AppendPipeline.
func (p *nudgedPipeline) Close() error {
	p.once.Do(func() {
		close(p.done)
		p.nudger.mu.Lock()
		delete(p.nudger.pipelines, p)
		p.nudger.mu.Unlock()
	})
	err := p.AppendPipeline.Close()
	p.wait.Wait()
	return err
}

// Consumer implements raft.AppendPipeline.
func (p *nudgedPipeline) Consumer() <-chan raft.AppendFuture { return p.answers }

// forward passes answers on, and reads on after a bad one until Close.
func (p *nudgedPipeline) forward() {
	in := p.AppendPipeline.Consumer()
	for {
		var f raft.AppendFuture
		select {
		case f = <-in:
		case <-p.done:
			return
		}
		if p.broken.Load() {
			continue
		}
		if f.Error() != nil || !f.Response().Success || f.Response().Term > f.Request().Term {
			p.broken.Store(true)
		}
		select {
		case p.answers <- f:
		case <-p.done:
			return
		}
	}
}

func (p *nudgedPipeline) want(index uint64) {
	p.mu.Lock()
	p.wanted = max(p.wanted, index)
	p.mu.Unlock()
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// run sends the nudges, so that a slow follower blocks nobody else.
func (p *nudgedPipeline) run() {
	for {
		select {
		case <-p.wake:
		case <-p.done:
			return
		}
		p.mu.Lock()
		index := p.wanted
		p.mu.Unlock()
		if !p.tell(index) {
			return
		}
	}
}

// tell sends one nudge unless the follower has been told already.
func (p *nudgedPipeline) tell(index uint64) bool {
	p.sending.Lock()
	defer p.sending.Unlock()
	if p.broken.Load() {
		return false
	}
	if p.last == nil || p.told >= index || p.last.PrevLogEntry == 0 {
		return true
	}
	// Never beyond what this pipeline has sent: an entry after it may differ.
	req := *p.last
	req.LeaderCommitIndex = min(index, req.PrevLogEntry)
	if req.LeaderCommitIndex <= p.told {
		return true
	}
	if _, err := p.AppendPipeline.AppendEntries(&req, new(raft.AppendEntriesResponse)); err != nil {
		// Raft's own next send meets the same error and falls back.
		return false
	}
	p.told = req.LeaderCommitIndex
	return true
}
