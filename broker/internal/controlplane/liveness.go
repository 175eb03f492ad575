package controlplane

import (
	"context"
	"fmt"
	"time"

	"github.com/ister-mq/ister/broker/internal/metadata"
	"github.com/ister-mq/ister/broker/internal/model"
	"github.com/ister-mq/ister/broker/internal/peer"
	"github.com/ister-mq/ister/broker/internal/quorum"
	"github.com/ister-mq/ister/broker/internal/refusal"
)

const (
	probeTimeout = 500 * time.Millisecond
	// probeAfter is how many heartbeats may be missing before the node's process
	// is looked for.
	probeAfter = 3
	// lookEvery divides the heartbeat interval: how often contacts are judged.
	lookEvery = 2
)

// contact is what the controller knows of one node. The zero value is a node not
// heard of in this office.
type contact struct {
	since    time.Time // when this office first looked for it; until a lease later its silence means nothing
	heard    time.Time // latest heartbeat with the current epoch; monotonic
	epoch    model.NodeEpoch
	revision model.Revision
	applied  model.Index
	report   Report
	reported bool            // there is a report
	gone     bool            // its process was found dead after the latest heartbeat
	stopping model.NodeEpoch // the epoch whose process said that it stops

	probed  time.Time
	probing bool
	changed bool // a fence or unfence is being decided
}

func (o *office) contact(node model.NodeID) *contact {
	c := o.contacts[node]
	if c == nil {
		c = &contact{since: time.Now()}
		o.contacts[node] = c
	}
	return c
}

// hear takes a heartbeat in, and says whether a report is missing.
func (o *office) hear(h heartbeat) (wanted bool, err error) {
	im := o.plane.Image()
	n := im.Nodes[h.Node]
	switch {
	case n == nil && im.Tombstones[h.Node] != nil:
		return false, refusal.New(refusal.NodeRemoved, h.Node.String(), fmt.Sprintf("node %v was removed", h.Node), "join again as a new node")
	case n == nil:
		return false, refusal.New(refusal.NodeNotFound, h.Node.String(), fmt.Sprintf("node %v is not a member", h.Node), "")
	case n.Epoch != h.Epoch:
		return false, refusal.New(refusal.StaleNodeEpoch, h.Node.String(), fmt.Sprintf("node %v is at epoch %d, the heartbeat at %d", h.Node, n.Epoch, h.Epoch), "register again")
	}
	o.mu.Lock()
	c := o.contact(h.Node)
	c.heard, c.epoch, c.revision, c.applied, c.gone = time.Now(), h.Epoch, h.Revision, h.Applied, false
	if h.Report != nil {
		c.report, c.reported = *h.Report, true
	}
	wanted = !c.reported
	unfence := n.Fenced && c.ready(n) && !c.changed
	o.mu.Unlock()
	if h.Report != nil {
		o.reported.Fire()
	}
	if unfence {
		o.wake(h.Node)
	}
	return wanted, nil
}

// ready reports a node that may be unfenced: its present process has applied
// its own registration.
func (c *contact) ready(n *metadata.Node) bool {
	return n.Epoch != 0 && c.epoch == n.Epoch && c.stopping != n.Epoch && c.revision >= model.Revision(n.Epoch) && !c.gone
}

// suspect has a node's process looked for at once: a connection of it ended.
func (o *office) suspect(node model.NodeID) {
	o.mu.Lock()
	o.contact(node).probed = time.Time{}
	o.mu.Unlock()
	o.wake(node)
}

// wake makes the watch look at a node now. When many wait, its next round does.
func (o *office) wake(node model.NodeID) {
	select {
	case o.suspects <- node:
	default:
	}
}

// watch fences and unfences nodes during the office.
func (o *office) watch(ctx context.Context) {
	for _, n := range o.plane.Image().SortedNodes() {
		// A node that died with the last controller is found now, not by its lease.
		o.probe(ctx, n)
	}
	tick := time.NewTicker(o.plane.timing.Heartbeat / lookEvery)
	defer tick.Stop()
	for {
		select {
		case node := <-o.suspects:
			if n := o.plane.Image().Nodes[node]; n != nil {
				o.mu.Lock()
				suspected := o.contact(node).probed.IsZero()
				o.mu.Unlock()
				if suspected {
					o.probe(ctx, n)
				}
				o.look(ctx, n)
			}
		case <-tick.C:
			for _, n := range o.plane.Image().SortedNodes() {
				o.look(ctx, n)
			}
		case <-ctx.Done():
			return
		}
	}
}

// look judges one node by its contact.
func (o *office) look(ctx context.Context, n *metadata.Node) {
	if n.Epoch == 0 {
		return // never registered, so fenced and without a lease
	}
	now := time.Now()
	o.mu.Lock()
	c := o.contact(n.ID)
	since := c.since // before the first heartbeat the lease runs from the first look
	if c.heard.After(since) {
		since = c.heard
	}
	silent := now.Sub(since)
	var cmd metadata.Command
	switch {
	case c.changed || n.ID == o.self && !n.Fenced:
		// Being decided; or this node itself, whose word is its being here.
	case !n.Fenced && c.gone:
		cmd = &metadata.FenceNode{ID: n.ID, Epoch: n.Epoch, Reason: "its process is gone"}
	case !n.Fenced && silent > o.plane.timing.Lease:
		cmd = &metadata.FenceNode{ID: n.ID, Epoch: n.Epoch, Reason: fmt.Sprintf("no heartbeat for %v", silent.Round(time.Millisecond))}
	case n.Fenced && c.ready(n) && silent < o.plane.timing.Lease/2:
		cmd = &metadata.UnfenceNode{ID: n.ID, Epoch: n.Epoch}
	}
	c.changed = c.changed || cmd != nil
	probe := !n.Fenced && n.ID != o.self && silent > probeAfter*o.plane.timing.Heartbeat && now.Sub(c.probed) > o.plane.timing.Heartbeat
	o.mu.Unlock()
	if cmd != nil {
		o.wait.Go(func() { o.enact(ctx, n.ID, cmd) })
	}
	if probe {
		o.probe(ctx, n)
	}
}

// enact has a fence or unfence decided, beside the watch.
func (o *office) enact(ctx context.Context, node model.NodeID, cmd metadata.Command) {
	ctx, cancel := context.WithTimeout(ctx, commitTimeout)
	defer cancel()
	out := o.submit(ctx, cmd)
	o.mu.Lock()
	o.contact(node).changed = false
	o.mu.Unlock()
	if out.err != nil {
		o.plane.log.Debug("node liveness was not recorded", "node", node, "reason", out.err)
		return
	}
	switch c := cmd.(type) {
	case *metadata.FenceNode:
		o.plane.log.Warn("node was fenced", "node", node, "reason", c.Reason, "revision", out.revision)
	case *metadata.UnfenceNode:
		o.plane.log.Info("node was unfenced", "node", node, "revision", out.revision)
	}
}

// probe looks for a node's process, beside the watch and once at a time. Only a
// refused connection, or an answer by somebody else at its address, proves that
// the process is gone; silence proves nothing, and is left to the lease.
func (o *office) probe(ctx context.Context, n *metadata.Node) {
	if n.ID == o.self {
		return
	}
	o.mu.Lock()
	c := o.contact(n.ID)
	busy := c.probing
	c.probing, c.probed = true, time.Now()
	o.mu.Unlock()
	if busy {
		return
	}
	o.wait.Go(func() {
		started := time.Now()
		ctx, cancel := context.WithTimeout(ctx, probeTimeout)
		defer cancel()
		by, err := o.plane.peer.Probe(ctx, peer.Target{Address: n.Endpoints.Raft})
		gone := peer.Gone(err) || err == nil && by.Incarnation != "" && by.Incarnation != n.Incarnation
		o.mu.Lock()
		c := o.contact(n.ID)
		c.probing = false
		if gone && c.heard.Before(started) {
			c.gone = true
		}
		o.mu.Unlock()
		if gone {
			o.wake(n.ID)
		}
	})
}

// health is what the controller can say about a member; nil is unknown.
func (o *office) health(node model.NodeID, at quorum.Status) (lag *uint64, alive *bool) {
	known, live, _, behind := o.judgeMember(node, at, time.Now())
	if !known {
		return nil, nil
	}
	if live {
		lag = &behind
	}
	return lag, &live
}

// judgeMember tells whether a node answers the controller. Not known: it has not
// been heard of yet, and it is too early to call it silent.
func (o *office) judgeMember(node model.NodeID, at quorum.Status, now time.Time) (known, alive bool, silent time.Duration, lag uint64) {
	if node == o.self {
		return true, true, 0, 0
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	c := o.contact(node)
	if !c.heard.IsZero() {
		silent = now.Sub(c.heard)
		if at.Commit > c.applied {
			lag = uint64(at.Commit - c.applied)
		}
		return true, !c.gone && silent <= o.plane.timing.Lease, silent, lag
	}
	silent = now.Sub(c.since)
	return c.gone || silent > o.plane.timing.Lease, false, silent, 0
}
