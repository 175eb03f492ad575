package sim

import (
	"bytes"
	"fmt"
	"time"

	"github.com/ister-mq/ister/broker/internal/metadata"
	"github.com/ister-mq/ister/broker/internal/model"
	"github.com/ister-mq/ister/broker/internal/operation"
	"github.com/ister-mq/ister/broker/internal/refusal"
)

// quorum is the modelled metadata quorum: the committed log, the image after each
// entry, and who may commit. What raft guarantees is assumed: only the controller
// of the newest term commits, with a majority, in order; what an old controller
// had in flight is committed before the new one decides, or never.
type quorum struct {
	s       *Sim
	batches []metadata.Batch
	images  []*metadata.Image // images[i] is after i batches

	term       int
	controller model.NodeID
	lostAt     time.Time // when the controller lost its majority; zero: it has it
	patience   time.Duration
	inFlight   *proposal // of the controller
}

// proposal is a batch that a controller decided and waits for.
type proposal struct {
	term   int
	batch  metadata.Batch
	result any
	done   func(result any, err error) // may be nil
}

// Timing of the model.
const (
	heartbeatEvery = 100 * time.Millisecond
	leaseFor       = 500 * time.Millisecond
	fenceAfter     = 700 * time.Millisecond
	tickEvery      = 100 * time.Millisecond
	proposeTimeout = 400 * time.Millisecond
)

func newQuorum(s *Sim) *quorum {
	return &quorum{s: s, images: []*metadata.Image{metadata.Empty()}, patience: 300 * time.Millisecond}
}

func (q *quorum) image() *metadata.Image { return q.images[len(q.images)-1] }

// bootstrap writes the first image without ceremony.
func (q *quorum) bootstrap(form *metadata.FormCluster) {
	d, err := metadata.Decide(q.image(), form, q.env())
	if err != nil {
		panic(err)
	}
	q.commit(metadata.Batch{Base: q.image().Revision, Records: d.Records})
	q.s.after(tickEvery, q.tick)
}

func (q *quorum) env() metadata.Env {
	return metadata.Env{Now: q.s.now, NewUUID: q.s.newUUID}
}

// commit appends a batch and lets every node hear of it in its own time. It
// reports whether the batch took effect.
func (q *quorum) commit(b metadata.Batch) bool {
	// Over the codec, as it would travel.
	encoded, err := metadata.EncodeBatches([]metadata.Batch{b})
	if err != nil {
		panic(err)
	}
	decoded, err := metadata.DecodeBatches(encoded)
	if err != nil {
		panic(err)
	}
	b = decoded[0]
	before := q.image()
	after, applied := before.Apply(b)
	q.batches = append(q.batches, b)
	q.images = append(q.images, after)
	for _, r := range b.Records {
		if m, ok := r.(*metadata.MoveChanged); ok && applied && m.State == metadata.MoveSwitched {
			q.s.counts.Moves++
		}
	}
	if applied {
		q.s.counts.Revisions++
		q.s.check.image(before, after)
	}
	q.s.tracef("commit %d: revision %d applied=%v%s", len(q.batches), after.Revision, applied, describe(before, after))
	for _, n := range q.s.nodes {
		n.hear()
	}
	return applied
}

// describe names what a batch changed.
func describe(before, after *metadata.Image) string {
	out := ""
	change := after.ChangedSince(before)
	for _, id := range change.Nodes {
		if n := after.Nodes[id]; n != nil {
			out += fmt.Sprintf(" | node %d %s fenced=%v epoch %d", id, n.State, n.Fenced, n.Epoch)
		} else {
			out += fmt.Sprintf(" | node %d gone", id)
		}
	}
	for _, id := range change.Partitions {
		if p := after.Partition(id); p != nil {
			out += fmt.Sprintf(" | %s leader %d epoch %d.%d isr %v of %v", short(id), p.Leader, p.LeaderEpoch, p.PartitionEpoch, p.ISR, p.Replicas)
			if len(p.Target) > 0 {
				out += fmt.Sprintf(" target %v", p.Target)
			}
			if len(p.Retiring) > 0 {
				out += fmt.Sprintf(" retiring %v", p.Retiring)
			}
		} else {
			out += fmt.Sprintf(" | %s gone", short(id))
		}
	}
	for _, id := range change.Operations {
		if o := after.Operations[id]; o != nil {
			for _, m := range o.Moves {
				out += fmt.Sprintf(" | move %s %v to %v %s", short(m.Partition), m.From, m.To, m.State)
			}
			out += fmt.Sprintf(" | %s %s %s %s", o.ID, o.Kind, o.State, o.Reason)
		}
	}
	return out
}

func short(p model.Partition) string { return fmt.Sprintf("%x-%d", p.Topic[:2], p.Index) }

// majority reports whether a node reaches most members, itself included.
func (q *quorum) majority(n *node) bool {
	if n == nil || !n.running() {
		return false
	}
	reached, members := 0, 0
	for _, m := range q.s.nodes {
		if q.image().Nodes[m.id] == nil || !m.voter {
			continue
		}
		members++
		if m.running() && q.s.links.connected(n.id, m.id) {
			reached++
		}
	}
	return reached*2 > members
}

// tick replaces a controller that lost its majority.
func (q *quorum) tick() {
	q.s.after(tickEvery, q.tick)
	c := q.s.node(q.controller)
	if q.majority(c) && c.control != nil && c.control.term == q.term {
		q.lostAt = time.Time{}
		return
	}
	if q.lostAt.IsZero() {
		q.lostAt = q.s.now
	}
	if q.s.now.Sub(q.lostAt) >= q.patience {
		q.elect()
	}
}

// elect makes a new controller, if any node can be one. What the old one had in
// flight is settled first, either way.
func (q *quorum) elect() {
	next := q.s.anyNode(func(n *node) bool {
		return n.voter && n.running() && q.image().Nodes[n.id] != nil && q.majority(n)
	})
	if next == nil {
		return
	}
	if p := q.inFlight; p != nil {
		q.inFlight = nil
		if q.s.oneIn(2) {
			q.s.tracef("successor commits what was in flight")
			q.commit(p.batch)
		}
	}
	q.term++
	q.s.counts.Terms++
	q.lostAt = time.Time{}
	q.patience = q.s.between(150*time.Millisecond, 400*time.Millisecond)
	old := q.s.node(q.controller)
	q.controller = next.id
	q.s.tracef("controller %d in term %d", next.id, q.term)
	if old != nil && old != next && old.control != nil {
		// It learns later, and decides in vain until then.
		control, life := old.control, old.life
		q.s.after(q.s.between(0, 600*time.Millisecond), func() {
			if old.life == life && old.control == control {
				old.control = nil
			}
		})
	}
	next.catchUp() // the barrier: it decides on all that was committed before
	next.control = newControl(next, q.term)
	next.control.tick()
}

// propose starts the commit of a batch that a controller decided.
func (q *quorum) propose(c *control, p *proposal) {
	if p.term == q.term {
		q.inFlight = p
	}
	c.node.after(q.s.between(500*time.Microsecond, 4*time.Millisecond), func() { q.settle(c, p) })
}

func (q *quorum) settle(c *control, p *proposal) {
	if q.inFlight != p || p.term != q.term {
		return // lost, or settled by a successor: its proposer never knows
	}
	if !q.majority(c.node) {
		c.node.after(20*time.Millisecond, func() { q.settle(c, p) })
		return
	}
	q.inFlight = nil
	applied := q.commit(p.batch)
	c.node.catchUp()
	c.committed(p, applied)
}

// control is a node that believes it is the controller.
type control struct {
	node    *node
	term    int
	queue   []*request
	waiting bool // for a commit
	heard   map[model.NodeID]time.Time
	since   time.Time
}

// request is a command on its way to be decided.
type request struct {
	cmd  metadata.Command
	done func(result any, err error) // may be nil
}

// queueMax bounds a controller's queue.
const queueMax = 500

func newControl(n *node, term int) *control {
	return &control{node: n, term: term, heard: map[model.NodeID]time.Time{}, since: n.s.now}
}

func (c *control) current() bool { return c.node.control == c }

func (c *control) submit(cmd metadata.Command, done func(any, error)) {
	if len(c.queue) >= queueMax {
		if done != nil {
			done(nil, refusal.New(refusal.Overloaded, "", "the controller has too much to decide", "retry"))
		}
		return
	}
	c.queue = append(c.queue, &request{cmd, done})
	c.step()
}

// step decides the next command on the controller's own image.
func (c *control) step() {
	for !c.waiting && c.current() && len(c.queue) > 0 {
		r := c.queue[0]
		c.queue = c.queue[1:]
		im := c.node.image
		d, err := metadata.Decide(im, c.overCodec(r.cmd), c.node.s.quorum.env())
		if err != nil || len(d.Records) == 0 {
			if r.done != nil {
				r.done(d.Result, err)
			}
			continue
		}
		c.waiting = true
		p := &proposal{term: c.term, batch: metadata.Batch{Base: im.Revision, Records: d.Records}, result: d.Result}
		p.done = func(result any, err error) {
			if err != nil {
				c.queue = append([]*request{r}, c.queue...) // decided on an old base: again
			} else if r.done != nil {
				r.done(result, nil)
			}
		}
		c.node.s.quorum.propose(c, p)
	}
}

func (c *control) overCodec(cmd metadata.Command) metadata.Command {
	encoded, err := metadata.EncodeCommand(cmd)
	if err != nil {
		panic(err)
	}
	decoded, err := metadata.DecodeCommand(encoded)
	if err != nil {
		panic(err)
	}
	return decoded
}

func (c *control) committed(p *proposal, applied bool) {
	c.waiting = false
	if !applied {
		p.done(nil, refusal.New(refusal.StaleRevision, "", "decided on an old base", ""))
	} else {
		p.done(p.result, nil)
	}
	c.step()
}

// heartbeat notes a sign of life and unfences a node that has caught up.
func (c *control) heartbeat(from model.NodeID, epoch model.NodeEpoch) {
	n := c.node.image.Nodes[from]
	if n == nil || n.Epoch != epoch {
		return
	}
	c.heard[from] = c.node.s.now
	if n.Fenced {
		c.submit(&metadata.UnfenceNode{ID: from, Epoch: epoch}, nil)
	}
}

// tick fences silent nodes and steps the operations.
func (c *control) tick() {
	if !c.current() {
		return
	}
	s := c.node.s
	c.node.after(tickEvery, c.tick)
	im := c.node.image
	for _, n := range im.SortedNodes() {
		last := c.heard[n.ID]
		if last.Before(c.since) {
			last = c.since
		}
		if !n.Fenced && s.now.Sub(last) > fenceAfter {
			c.submit(&metadata.FenceNode{ID: n.ID, Epoch: n.Epoch, Reason: "no heartbeat"}, nil)
		}
	}
	if len(c.queue) == 0 && !c.waiting {
		for _, cmd := range operation.Step(im, operation.Observations{Now: s.now, Limits: operation.Limits{MovesPerNode: 2, MovesTotal: 4}}) {
			c.submit(cmd, nil)
		}
	}
}

// replayAll applies every batch again and compares the outcome.
func (q *quorum) replayAll() {
	im := metadata.Empty()
	for _, b := range q.batches {
		im, _ = im.Apply(b)
	}
	want, err := q.image().Encode()
	if err != nil {
		panic(err)
	}
	got, err := im.Encode()
	if err != nil {
		panic(err)
	}
	decoded, err := metadata.DecodeImage(want)
	if err != nil {
		panic(err)
	}
	again, err := decoded.Encode()
	if err != nil {
		panic(err)
	}
	if !bytes.Equal(want, got) || !bytes.Equal(want, again) {
		q.s.fail("replay-equal", "replaying %d batches gives another image", len(q.batches))
	}
}
