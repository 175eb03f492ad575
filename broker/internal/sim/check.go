package sim

import (
	"fmt"
	"slices"

	"github.com/ister-mq/ister/broker/internal/metadata"
	"github.com/ister-mq/ister/broker/internal/model"
	"github.com/ister-mq/ister/broker/internal/record"
	"github.com/ister-mq/ister/broker/internal/replica"
)

// entry is one batch as the checker remembers it.
type entry struct {
	base, next model.Offset
	epoch      model.LeaderEpoch
	crc        uint32
	producer   model.ProducerID
	sequence   int32
}

func (e entry) String() string {
	return fmt.Sprintf("%d..%d epoch %d crc %08x", e.base, e.next, e.epoch, e.crc)
}

// ledger is what is committed in one partition: the batches that were below any
// leader's high watermark. It only grows.
type ledger struct {
	id        model.Partition
	entries   []entry
	end       model.Offset
	start     model.Offset // highest log start seen
	sequences map[[2]int64]model.Offset
	leaders   map[model.LeaderEpoch]string
	told      answerOf // the newest answer to ListOffsets
	// watermark is the highest that any leader of the newest epoch had.
	watermarkEpoch model.LeaderEpoch
	watermark      model.Offset
	// Where the topic does not sync before ack: nodes that stopped uncleanly, at
	// this epoch, and have not registered again and left the ISR since. Once the
	// ISR has no others, the partition is lossy, and what is promised from here on
	// is liveness only.
	shaken map[model.NodeID]model.NodeEpoch
	lossy  bool
}

func (g *ledger) find(off model.Offset) (entry, bool) {
	i, ok := slices.BinarySearchFunc(g.entries, off, func(e entry, off model.Offset) int {
		switch {
		case e.next <= off:
			return -1
		case e.base > off:
			return 1
		}
		return 0
	})
	if !ok {
		return entry{}, false
	}
	return g.entries[i], true
}

// shadow is what the checker has read of one replica's log.
type shadow struct {
	start, end model.Offset
	entries    []entry
	agreed     model.Offset // compared with the ledger up to here
	watermark  model.Offset
	epoch      model.LeaderEpoch
}

// resting is what a replica held durably when its node stopped or moved on.
type resting struct {
	durable model.Offset
	entries []entry
}

type copyOf struct {
	node      model.NodeID
	partition model.Partition
}

// checker holds the invariants on logs.
type checker struct {
	s       *Sim
	ledgers map[model.Partition]*ledger
	rest    map[copyOf]resting // of replicas that are not open
	changed []*local
	acks    map[string]model.Offset // first offset told for each batch name
}

func newChecker(s *Sim) *checker {
	return &checker{s: s, ledgers: map[model.Partition]*ledger{}, rest: map[copyOf]resting{}, acks: map[string]model.Offset{}}
}

func (c *checker) ledger(id model.Partition) *ledger {
	g := c.ledgers[id]
	if g == nil {
		g = &ledger{id: id, sequences: map[[2]int64]model.Offset{}, leaders: map[model.LeaderEpoch]string{}, shaken: map[model.NodeID]model.NodeEpoch{}, watermarkEpoch: model.NoEpoch}
		c.ledgers[id] = g
	}
	return g
}

func (c *checker) fail(invariant, format string, args ...any) { c.s.fail(invariant, format, args...) }

// strict reports whether content is promised for a replica's partition.
func (c *checker) strict(l *local) bool { return !c.ledger(l.id()).lossy }

// dirty has a replica looked at after the event.
func (c *checker) dirty(l *local) {
	if !slices.Contains(c.changed, l) {
		c.changed = append(c.changed, l)
	}
}

func (c *checker) afterEvent() {
	for _, l := range c.changed {
		if l.shadow != nil && l.node.replicas[l.id()] == l {
			c.observe(l)
		}
	}
	c.changed = c.changed[:0]
}

// opened compares a log with what was durable when its node stopped.
func (c *checker) opened(l *local) {
	l.shadow = &shadow{start: l.log.LogStart(), end: l.log.LogStart(), agreed: l.log.LogStart(), epoch: model.NoEpoch}
	c.read(l)
	key := copyOf{l.node.id, l.id()}
	before, known := c.rest[key]
	delete(c.rest, key)
	if !known {
		return
	}
	if l.log.LogEnd() < before.durable {
		c.fail("durable-survives", "node %d %s: log ends at %d, %d was durable", l.node.id, short(l.id()), l.log.LogEnd(), before.durable)
		return
	}
	for _, e := range before.entries {
		if e.base >= l.shadow.start && e.next <= before.durable {
			if got, ok := l.shadow.find(e.base); !ok || got != e {
				c.fail("durable-survives", "node %d %s: %v was durable, now %v", l.node.id, short(l.id()), e, got)
				return
			}
		}
	}
}

func (h *shadow) find(base model.Offset) (entry, bool) {
	i, ok := slices.BinarySearchFunc(h.entries, base, func(e entry, off model.Offset) int { return int(e.base - off) })
	if !ok {
		return entry{}, false
	}
	return h.entries[i], true
}

// stopped remembers what must survive.
func (c *checker) stopped(l *local, clean bool) {
	c.observe(l)
	durable := l.log.Durable()
	if clean {
		durable = l.log.LogEnd()
	} else if !l.sync {
		im := c.s.quorum.image()
		if p, n := im.Partition(l.id()), im.Nodes[l.node.id]; p != nil && n != nil {
			c.ledger(p.ID).shaken[n.ID] = n.Epoch
			c.shake(im, p)
		}
	}
	c.rest[copyOf{l.node.id, l.id()}] = resting{durable: durable, entries: l.shadow.entries}
}

// shake looks whether any member of the ISR is sure to hold what is committed.
func (c *checker) shake(im *metadata.Image, p *metadata.Partition) {
	g := c.ledger(p.ID)
	sure := false
	for _, id := range p.ISR {
		_, shaken := g.shaken[id]
		sure = sure || !shaken
	}
	g.lossy = g.lossy || !sure
	for id, epoch := range g.shaken {
		if n := im.Nodes[id]; n == nil || n.Epoch > epoch && !model.HasNode(p.ISR, id) {
			delete(g.shaken, id)
		}
	}
}

func (c *checker) forget(l *local) { c.rest[copyOf{l.node.id, l.id()}] = resting{} }

func (c *checker) erased(id model.NodeID, p model.Partition) { delete(c.rest, copyOf{id, p}) }

// read brings the shadow up to the log: what was cut off goes, what is new is
// read and checked.
func (c *checker) read(l *local) {
	h, start, end := l.shadow, l.log.LogStart(), l.log.LogEnd()
	if end < h.end || start > h.end {
		for len(h.entries) > 0 && h.entries[len(h.entries)-1].next > end {
			h.entries = h.entries[:len(h.entries)-1]
		}
		if start > h.end || len(h.entries) == 0 {
			h.entries, h.agreed = nil, max(start, min(h.agreed, end))
			h.end = start
		} else {
			h.entries = slices.Clip(h.entries)
			h.end = h.entries[len(h.entries)-1].next
		}
		if h.end != end && start != end && h.end > end {
			c.fail("contiguous", "node %d %s: truncated to %d within a batch that ends at %d", l.node.id, short(l.id()), end, h.end)
		}
		if end < h.agreed && c.strict(l) {
			c.fail("truncate-below-watermark", "node %d %s: log ends at %d, %d was committed", l.node.id, short(l.id()), end, h.agreed)
		}
		h.agreed = min(h.agreed, end)
	}
	h.start = start
	h.agreed = max(h.agreed, start)
	for h.end < end {
		data, err := l.log.Read(max(h.end, start), 1<<20, end, true)
		if err != nil || len(data) == 0 {
			c.fail("contiguous", "node %d %s: %d bytes at %d of %d..%d: %v", l.node.id, short(l.id()), len(data), h.end, start, end, err)
			return
		}
		for len(data) > 0 {
			e, rest, err := parse(data)
			data = rest
			last := model.NoEpoch
			if len(h.entries) > 0 {
				last = h.entries[len(h.entries)-1].epoch
			}
			first := len(h.entries) == 0
			if err != nil || !first && e.base != h.end || first && e.base > start || e.epoch < last {
				c.fail("contiguous", "node %d %s: batch %v after offset %d, epoch %d: %v", l.node.id, short(l.id()), e, h.end, last, err)
				return
			}
			h.entries = append(h.entries, e)
			h.end = e.next
		}
	}
}

func parse(data []byte) (entry, []byte, error) {
	batch, rest, header, err := record.Next(data)
	if err != nil {
		return entry{}, nil, err
	}
	if _, err := record.Check(batch); err != nil {
		return entry{}, nil, err
	}
	return entry{
		base: header.BaseOffset, next: header.NextOffset(), epoch: header.LeaderEpoch, crc: header.CRC,
		producer: header.ProducerID, sequence: header.BaseSequence,
	}, rest, nil
}

// observe checks one replica after it may have changed.
func (c *checker) observe(l *local) {
	c.read(l)
	if c.s.violation != nil {
		return
	}
	g, h := c.ledger(l.id()), l.shadow
	watermark := l.replica.HighWatermark()
	if g.lossy {
		return
	}
	if watermark < h.watermark && watermark < h.end {
		c.fail("watermark-monotone", "node %d %s: high watermark went from %d to %d", l.node.id, short(l.id()), h.watermark, watermark)
		return
	}
	if watermark > h.end {
		c.fail("contiguous", "node %d %s: high watermark %d is beyond the log end %d", l.node.id, short(l.id()), watermark, h.end)
		return
	}
	h.watermark = watermark
	if l.replica.Role() == replica.RoleLeader {
		g.start = max(g.start, l.log.LogStart())
		if epoch := l.replica.LeaderEpoch(); epoch > g.watermarkEpoch {
			g.watermarkEpoch, g.watermark = epoch, 0
		} else if epoch == g.watermarkEpoch {
			g.watermark = max(g.watermark, watermark)
		}
		if watermark > g.end {
			c.extend(l, watermark)
		}
	} else if watermark > g.end {
		c.fail("committed-agrees", "node %d %s: follower's high watermark %d is above every leader's, %d", l.node.id, short(l.id()), watermark, g.end)
	}
	c.agree(l, min(watermark, g.end))
}

// extend commits what a leader's high watermark now covers.
func (c *checker) extend(l *local, watermark model.Offset) {
	g, h := c.ledger(l.id()), l.shadow
	i, ok := slices.BinarySearchFunc(h.entries, g.end, func(e entry, off model.Offset) int { return int(e.base - off) })
	if !ok && g.end > h.start {
		c.fail("committed-agrees", "node %d %s: no batch starts at %d, where the committed log ends", l.node.id, short(l.id()), g.end)
		return
	}
	for ; i < len(h.entries) && h.entries[i].next <= watermark; i++ {
		e := h.entries[i]
		g.entries = append(g.entries, e)
		g.end = e.next
		if e.producer >= 0 {
			key := [2]int64{int64(e.producer), int64(e.sequence)}
			if at, seen := g.sequences[key]; seen {
				c.fail("no-duplicates", "%s: producer %d sequence %d is committed at %d and at %d", short(g.id), e.producer, e.sequence, at, e.base)
				return
			}
			g.sequences[key] = e.base
		}
	}
	if g.end != watermark {
		c.fail("contiguous", "node %d %s: high watermark %d is within a batch", l.node.id, short(l.id()), watermark)
		return
	}
	if p := c.s.quorum.image().Partition(g.id); p != nil {
		c.isrHolds(p)
	}
}

// agree compares a log with the ledger up to an offset.
func (c *checker) agree(l *local, to model.Offset) {
	g, h := c.ledger(l.id()), l.shadow
	if to <= h.agreed {
		return
	}
	for i := len(h.entries) - 1; i >= 0 && h.entries[i].next > h.agreed; i-- {
		e := h.entries[i]
		if e.next > to {
			continue
		}
		if want, ok := g.find(e.base); !ok || want != e {
			c.fail("committed-agrees", "node %d %s: %v, committed is %v", l.node.id, short(l.id()), e, want)
			return
		}
	}
	h.agreed = to
}

// leads checks a replica that became leader.
func (c *checker) leads(l *local) {
	c.s.counts.Elections++
	c.read(l)
	g, epoch := c.ledger(l.id()), l.replica.LeaderEpoch()
	who := fmt.Sprintf("node %d life %d", l.node.id, l.node.life)
	if other := g.leaders[epoch]; other != "" && other != who {
		c.fail("one-leader-per-epoch", "%s: %s and %s lead epoch %d", short(g.id), other, who, epoch)
	}
	g.leaders[epoch] = who
	if g.lossy || epoch < g.watermarkEpoch {
		return // a leader of an epoch that is over, who learns of it late
	}
	if l.log.LogEnd() < g.end {
		c.fail("leader-complete", "node %d leads %s in epoch %d with log end %d, committed is %d", l.node.id, short(g.id), epoch, l.log.LogEnd(), g.end)
		return
	}
	c.agree(l, g.end)
	if n := len(g.entries); n > 0 && g.end > l.log.LogStart() && c.s.violation == nil {
		last := g.entries[n-1]
		if got, ok := l.shadow.find(last.base); !ok || got != last {
			c.fail("leader-complete", "node %d leads %s in epoch %d with %v, committed is %v", l.node.id, short(g.id), epoch, got, last)
		}
	}
}

// image checks each change of the metadata.
func (c *checker) image(before, after *metadata.Image) {
	change := after.ChangedSince(before)
	if len(change.Nodes) > 0 {
		for _, p := range after.SortedPartitions() {
			c.shake(after, p)
		}
	}
	for _, id := range change.Partitions {
		p, old := after.Partition(id), before.Partition(id)
		if p == nil {
			continue
		}
		if why := insane(p, old); why != "" {
			c.fail("image-sane", "%s: %s: %+v after %+v", short(id), why, p, old)
			return
		}
		c.shake(after, p)
		c.isrHolds(p)
	}
}

func insane(p, old *metadata.Partition) string {
	if len(p.ISR) == 0 || len(p.Replicas) == 0 {
		return "no ISR or no replicas"
	}
	for i, id := range p.ISR {
		if !model.HasNode(p.Replicas, id) || i > 0 && p.ISR[i-1] >= id {
			return "the ISR is not a sorted part of the replicas"
		}
	}
	for i, id := range p.Replicas {
		if slices.Contains(p.Replicas[:i], id) || model.HasNode(p.Retiring, id) {
			return "a replica is named twice, or retiring"
		}
	}
	if p.Leader != model.NoNode && !model.HasNode(p.ISR, p.Leader) {
		return "the leader is outside the ISR"
	}
	if old == nil {
		return ""
	}
	if p.PartitionEpoch != old.PartitionEpoch+1 || p.LeaderEpoch < old.LeaderEpoch ||
		p.Leader != old.Leader && p.LeaderEpoch == old.LeaderEpoch {
		return "epochs are wrong"
	}
	return ""
}

// isrHolds checks that each member of the ISR has all that is committed on its
// disk, whether it is up or not.
func (c *checker) isrHolds(p *metadata.Partition) {
	g := c.ledgers[p.ID]
	if g == nil || g.lossy {
		return
	}
	for _, id := range p.ISR {
		if _, shaken := g.shaken[id]; shaken {
			continue
		}
		durable, entries := c.holds(id, p.ID)
		if durable < g.end {
			c.fail("isr-holds-committed", "%s: node %d of ISR %v holds %d durably, committed is %d", short(p.ID), id, p.ISR, durable, g.end)
			return
		}
		if len(g.entries) == 0 || len(entries) == 0 {
			continue
		}
		last := g.entries[len(g.entries)-1]
		i, ok := slices.BinarySearchFunc(entries, last.base, func(e entry, off model.Offset) int { return int(e.base - off) })
		if last.base >= entries[0].base && (!ok || entries[i] != last) {
			c.fail("isr-holds-committed", "%s: node %d of ISR %v does not hold %v", short(p.ID), id, p.ISR, last)
			return
		}
	}
}

// holds is what a node has durably of a partition; for topics that do not sync,
// what it has.
func (c *checker) holds(id model.NodeID, p model.Partition) (model.Offset, []entry) {
	n := c.s.node(id)
	if n != nil && n.replicas[p] != nil && n.replicas[p].shadow != nil {
		l := n.replicas[p]
		c.read(l)
		if !l.sync {
			return l.log.LogEnd(), l.shadow.entries
		}
		return l.log.Durable(), l.shadow.entries
	}
	r := c.rest[copyOf{id, p}]
	return r.durable, r.entries
}

// acked checks an acknowledgement at the moment it is given.
func (c *checker) acked(l *local, w *waiter) {
	g := c.ledger(l.id())
	if g.lossy {
		return
	}
	c.observe(l)
	result := w.result
	if result.Last >= g.end {
		c.fail("acked-committed", "node %d %s: acknowledges %d..%d in epoch %d, committed is %d", l.node.id, short(g.id), result.First, result.Last, result.Epoch, g.end)
		return
	}
	if _, _, header, err := record.Next(w.send.batch); err == nil {
		if e, ok := g.find(result.First); !ok || e.base != result.First || e.next != result.Last+1 || e.crc != header.CRC {
			c.fail("acked-committed", "node %d %s: acknowledges %s at %d..%d, committed there is %v", l.node.id, short(g.id), w.send.name, result.First, result.Last, e)
			return
		}
	}
	p := l.node.image.Partition(g.id)
	if p == nil || !l.sync || c.s.quorum.image().Partition(g.id) == nil {
		return // deleted, and perhaps given up elsewhere
	}
	holders := 0
	for _, n := range c.s.nodes {
		if durable, _ := c.holds(n.id, g.id); durable > result.Last {
			holders++
		}
	}
	if need := l.node.image.MinISR(p); holders < need {
		c.fail("acked-durable", "node %d %s: acknowledges %d..%d, durable on %d nodes, min ISR is %d", l.node.id, short(g.id), result.First, result.Last, holders, need)
	}
}

// told notes what a producer was told.
func (c *checker) told(p *send, result replica.ProduceResult) {
	if !c.ledger(p.producer.partition).lossy {
		c.acks[p.name] = result.First
	}
}

// answerOf is a leader's answer to ListOffsets (latest). A client knows the epoch
// it comes from, and so an answer of a leader that does not know yet that it is
// none.
type answerOf struct {
	epoch model.LeaderEpoch
	end   model.Offset
}

// latest checks an answer against those that were given before the question.
func (c *checker) latest(by *consumer, from *node, before, now answerOf) {
	g := c.ledger(by.partition)
	if g.lossy || now.epoch < before.epoch {
		return
	}
	if now.end < before.end {
		c.fail("latest-monotone", "consumer %d of %s is told latest %d by node %d in epoch %d, %d was told before it asked, in epoch %d",
			by.number, short(g.id), now.end, from.id, now.epoch, before.end, before.epoch)
	}
	if now.epoch > g.told.epoch || now.epoch == g.told.epoch && now.end > g.told.end {
		g.told = now
	}
}

// consumed checks what a consumer got and returns where it goes on.
func (c *checker) consumed(by *consumer, data []byte) model.Offset {
	g, next := c.ledger(by.partition), by.next
	for len(data) > 0 {
		e, rest, err := parse(data)
		if err != nil {
			c.fail("read-committed", "consumer %d of %s at %d: %v", by.number, short(g.id), next, err)
			return next
		}
		data = rest
		want, ok := g.find(e.base)
		if !g.lossy && (!ok || want != e || e.base > next) {
			c.fail("read-committed", "consumer %d of %s at %d gets %v, committed is %v", by.number, short(g.id), next, e, want)
			return next
		}
		c.s.counts.Consumed += int(e.next - e.base)
		next = max(next, e.next)
	}
	return next
}

// finally compares all copies and every acknowledgement once the cluster is
// quiet.
func (c *checker) finally() {
	c.s.quorum.replayAll()
	for _, p := range c.s.quorum.image().SortedPartitions() {
		g := c.ledger(p.ID)
		if g.lossy {
			continue
		}
		for _, id := range p.Replicas {
			l := c.s.node(id).replicas[p.ID]
			c.observe(l)
			if l.replica.HighWatermark() != g.end || l.log.LogEnd() != g.end {
				c.fail("committed-agrees", "node %d %s ends as %s, committed is %d", id, short(p.ID), l.replica, g.end)
			}
		}
	}
	for _, producer := range c.s.producers {
		if producer.gone || c.ledger(producer.partition).lossy {
			continue
		}
		for _, p := range producer.window {
			if !p.done {
				c.fail("live", "producer %d: %s is not acknowledged after %d attempts", producer.number, p.name, p.attempts)
			}
		}
	}
}
