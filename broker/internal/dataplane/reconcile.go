package dataplane

import (
	"maps"
	"sync"
	"time"

	"github.com/ister-mq/ister/broker/internal/metadata"
	"github.com/ister-mq/ister/broker/internal/model"
	"github.com/ister-mq/ister/broker/internal/replica"
	"github.com/ister-mq/ister/broker/internal/telemetry"
)

// reconcileLoop carries images out, one at a time, always the newest: states
// matter here, not the steps between them.
func (p *Plane) reconcileLoop() {
	var done *metadata.Image
	var registered model.NodeEpoch
	for {
		select {
		case <-p.ctx.Done():
			return
		case <-p.imageKick:
		}
		im := p.control.Image()
		if !p.current(im) {
			continue
		}
		if self, _ := p.control.Self(); done != nil {
			p.retryUndone(im, self)
		}
		if im == done {
			continue
		}
		p.reconcile(done, im)
		done = im
		if _, epoch := p.control.Self(); epoch != registered {
			if registered != 0 {
				p.reopenSessions() // they carry the epoch of the registration before
			}
			registered = epoch
		}
	}
}

// current reports whether an image may be acted on. While a node replays its log
// it passes through old images, in which a partition may be gone that it holds
// again today; so nothing is done before the image holds this start's own
// registration, which is younger than all of them.
func (p *Plane) current(im *metadata.Image) bool {
	self, epoch := p.control.Self()
	n := im.Nodes[self]
	return n != nil && epoch != 0 && n.Epoch == epoch
}

// reconcile brings the replicas of this node from one image to another.
func (p *Plane) reconcile(old, im *metadata.Image) {
	self, _ := p.control.Self()
	change := im.ChangedSince(old)
	if old == nil {
		if err := p.quarantineUnknown(im, self); err != nil && p.cfg.Logger != nil {
			p.cfg.Logger.Error("log directories not read", "error", err)
		}
	}
	partitions := change.Partitions
	if epochsChanged(old, im) {
		// Node epochs and fences decide who may enter an ISR.
		partitions = p.withLed(partitions)
	}
	p.openNew(im, self, partitions)
	epochs := replica.EligibleEpochs(im)
	for _, id := range partitions {
		state := im.Partition(id)
		switch {
		case state != nil && model.HasNode(state.Replicas, self):
			p.setRetired(id, false)
			p.assign(im, state, epochs)
		case state == nil:
			p.giveUp(id, "topic deleted")
			p.setRetired(id, false)
		default:
			given := p.giveUp(id, "moved away")
			p.setRetired(id, given && model.HasNode(state.Retiring, self))
		}
	}
	if len(change.Nodes) > 0 {
		p.retargetFetchers(im)
	}
	p.image.Store(im)
	p.news.tell()
	p.metrics.NodeRevision.Set(float64(im.Revision))
	p.ready.Store(true)
}

func epochsChanged(old, im *metadata.Image) bool {
	if old == nil {
		return false // every partition is new anyway
	}
	for id, n := range im.Nodes {
		was := old.Nodes[id]
		if was == nil || was.Epoch != n.Epoch || was.Fenced != n.Fenced {
			return true
		}
	}
	return false
}

// withLed adds the partitions led here to a list, once each.
func (p *Plane) withLed(ids []model.Partition) []model.Partition {
	seen := make(map[model.Partition]bool, len(ids))
	for _, id := range ids {
		seen[id] = true
	}
	for _, l := range p.snapshot() {
		if l.leads.Load() && !seen[l.id] {
			ids = append(ids, l.id)
		}
	}
	return ids
}

// openNew opens, in parallel, the logs of partitions that this node now holds.
func (p *Plane) openNew(im *metadata.Image, self model.NodeID, ids []model.Partition) {
	var missing []*local
	for _, id := range ids {
		state := im.Partition(id)
		if state == nil || !model.HasNode(state.Replicas, self) || p.local(id) != nil {
			continue
		}
		l := &local{id: id, plane: p, settings: settingsOf(im.Topics[id.Topic])}
		l.flushDone = l.leaderFlushed
		missing = append(missing, l)
	}
	forEach(openParallel, len(missing), func(i int) { p.open(missing[i], self) })
	p.mu.Lock()
	for _, l := range missing {
		p.locals[l.id] = l
		delete(p.undone, l.id)
	}
	if len(missing) > 0 {
		p.relist()
	}
	p.mu.Unlock()
}

// open gives a new replica its log, or the reason why it has none.
func (p *Plane) open(l *local, self model.NodeID) {
	log, rebuilding, err := p.openLog(l.id, l.settings)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.offline = err
		p.metrics.Faults.WithLabelValues("open").Inc()
		p.log(telemetry.ReplicaOffline{Partition: l.id, Reason: "open", Err: err})
		return
	}
	l.log, l.rebuilding = log, rebuilding
	l.replica = replica.New(replica.Config{
		Self: self, FlushSync: l.settings.flushSync, MinISR: l.settings.minISR, LagMax: p.cfg.LagMax,
		MaxBatchBytes: l.settings.maxBatchBytes, HighWatermark: p.marks[l.id],
	}, l.id, log)
}

// assign hands a replica its newest metadata and follows what comes of it.
func (p *Plane) assign(im *metadata.Image, state *metadata.Partition, epochs map[model.NodeID]model.NodeEpoch) {
	l := p.local(state.ID)
	if l == nil {
		return
	}
	now := time.Now()
	self, _ := p.control.Self()
	l.mu.Lock()
	l.assigned, l.minISR = state, im.MinISR(state)
	if l.dropped || l.offline != nil {
		unled := l.offline != nil && state.Leader == self
		l.mu.Unlock()
		if unled {
			p.isr.add(l) // hand it over
		}
		return
	}
	if l.rebuilding && !p.rebuild(l, state, self) {
		l.mu.Unlock()
		p.unfollow(l)
		p.isr.add(l)
		return
	}
	change, err := l.replica.Assign(state, epochs, now)
	if err != nil {
		l.mu.Unlock()
		l.fault("append", err)
		return
	}
	var finished []waiter
	switch {
	case change.After != replica.RoleLeader:
		finished = l.failWaiters(nil, errNotLeading(l.id))
	case change.NewEpoch || change.HighWatermarkChanged:
		finished = l.advanced(nil) // waiters of epochs that another node led in between fail
	}
	leading := change.After == replica.RoleLeader
	if l.leads.Swap(leading) && !leading {
		l.steppedDown.Store(now.UnixNano())
	}
	for _, f := range l.follows {
		if f.ahead {
			f.session.mark(f, true)
		}
	}
	end, logAt := l.replica.LogEnd(), l.log
	needSync := leading && change.NewEpoch && l.settings.flushSync && logAt.Durable() < end && l.wantFlush(now)
	l.mu.Unlock()

	p.finish(finished)
	if needSync {
		p.flusher.Request(logAt, end, l.flushDone)
	}
	if leading {
		p.unfollow(l)
		p.serveEarly(l.id)
		p.isr.add(l)
		if change.NewEpoch {
			p.metrics.LeaderChanges.Inc()
			p.log(telemetry.BecameLeader{Partition: l.id, Epoch: state.LeaderEpoch, LogEnd: end})
		}
		return
	}
	if change.After == replica.RoleFollower {
		p.follow(l, change.Leader, change.NewEpoch)
	} else {
		p.unfollow(l)
	}
	if change.NewEpoch {
		p.log(telemetry.BecameFollower{Partition: l.id, Epoch: state.LeaderEpoch, Leader: state.Leader})
	}
}

// rebuild reports whether a replica whose log was set aside may take part. Its
// place in the ISR predates the loss: while it still has it, it neither leads nor
// fetches, so that the leader takes it out for lagging. Seen outside the ISR, it
// is a follower like any new one, and can come back only by catching up. Under mu.
func (p *Plane) rebuild(l *local, state *metadata.Partition, self model.NodeID) bool {
	if model.HasNode(state.ISR, self) || state.Leader == self {
		return false
	}
	if err := p.clearRebuilding(l.id); err != nil {
		return false
	}
	l.rebuilding = false
	return true
}

// giveUp closes a copy that the metadata says is not needed here, and renames its
// directory; purge deletes it later. A copy that was never opened in this run
// (moved away while the node was down) is renamed too. False: the directory could
// not be renamed, and housekeeping tries again.
func (p *Plane) giveUp(id model.Partition, reason string) bool {
	delete(p.marks, id) // a copy that comes back later begins anew
	p.mu.Lock()
	l := p.locals[id]
	delete(p.locals, id)
	delete(p.undone, id)
	if l != nil {
		p.relist()
	}
	p.mu.Unlock()
	if l != nil {
		p.unfollow(l)
		l.drop()
	}
	renamed, err := p.markDeleted(id)
	if err != nil {
		p.log(telemetry.ReplicaNotDropped{Partition: id, Err: err})
		p.mu.Lock()
		p.undone[id] = reason
		p.mu.Unlock()
		return false
	}
	if renamed != "" {
		p.trash.add(renamed, time.Now())
		p.log(telemetry.ReplicaDropped{Partition: id, Reason: reason})
	}
	return true
}

// giveUpAgain has reconcile look again at the copies that it could not give up.
func (p *Plane) giveUpAgain() {
	p.mu.RLock()
	some := len(p.undone) > 0
	p.mu.RUnlock()
	if some {
		kick(p.imageKick)
	}
}

// retryUndone gives up what could not be given up before, unless the image wants
// it here again.
func (p *Plane) retryUndone(im *metadata.Image, self model.NodeID) {
	p.mu.RLock()
	undone := maps.Clone(p.undone)
	p.mu.RUnlock()
	for id, reason := range undone {
		state := im.Partition(id)
		if state != nil && model.HasNode(state.Replicas, self) {
			continue // opened anew; reconcile took it off
		}
		given := p.giveUp(id, reason)
		p.setRetired(id, given && state != nil && model.HasNode(state.Retiring, self))
	}
}

// drop ends a replica's service and closes its log.
func (l *local) drop() {
	l.mu.Lock()
	finished := l.failWaiters(nil, errNotLeading(l.id))
	l.dropped = true
	l.leads.Store(false)
	log := l.log
	l.mu.Unlock()
	l.plane.finish(finished)
	if log != nil {
		l.plane.flusher.Detach(log)
		log.Close(false) // its content is no longer wanted
	}
}

// setRetired notes whether the controller still has to be told that this node
// gave its copy up.
func (p *Plane) setRetired(id model.Partition, retired bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if retired {
		p.retired[id] = true
	} else {
		delete(p.retired, id)
	}
}

// follow has the fetcher for leader copy l, and only that fetcher.
func (p *Plane) follow(l *local, leader model.NodeID, renewed bool) {
	p.mu.Lock()
	f := p.fetchers[leader]
	if f == nil && p.ctx.Err() == nil {
		f = newFetcher(p, leader)
		p.fetchers[leader] = f
	}
	others := make([]*fetcher, 0, len(p.fetchers))
	for id, other := range p.fetchers {
		if id != leader {
			others = append(others, other)
		}
	}
	p.mu.Unlock()
	for _, other := range others {
		other.remove(l)
	}
	if f != nil {
		f.add(l, renewed)
	}
}

// unfollow stops copying l.
func (p *Plane) unfollow(l *local) {
	p.mu.RLock()
	fetchers := make([]*fetcher, 0, len(p.fetchers))
	for _, f := range p.fetchers {
		fetchers = append(fetchers, f)
	}
	p.mu.RUnlock()
	for _, f := range fetchers {
		f.remove(l)
	}
}

func (p *Plane) reopenSessions() {
	p.mu.RLock()
	defer p.mu.RUnlock()
	for _, f := range p.fetchers {
		f.reopen()
	}
}

// retargetFetchers ends the fetchers of nodes that are gone and has the others
// look at addresses and epochs again.
func (p *Plane) retargetFetchers(im *metadata.Image) {
	var ended []*fetcher
	p.mu.Lock()
	for id, f := range p.fetchers {
		if im.Nodes[id] == nil {
			ended = append(ended, f)
			delete(p.fetchers, id)
		}
	}
	p.mu.Unlock()
	var wait sync.WaitGroup
	for _, f := range ended {
		wait.Add(1)
		go func() { defer wait.Done(); f.stop() }()
	}
	wait.Wait()
}
