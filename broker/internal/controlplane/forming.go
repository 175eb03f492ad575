package controlplane

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/ister-mq/ister/broker/internal/metadata"
	"github.com/ister-mq/ister/broker/internal/model"
	"github.com/ister-mq/ister/broker/internal/peer"
	"github.com/ister-mq/ister/broker/internal/quorum"
	"github.com/ister-mq/ister/broker/internal/refusal"
)

// How a cluster forms. Every seed has the same list. The first in sorted order
// asks all others; when each has answered that it belongs to no cluster, it
// writes the agreed membership (the intent) to its own disk, then sends it to
// each other seed, which writes it to its disk before it answers. Each seed with
// the intent starts its quorum member with that same first configuration. A
// crash anywhere leaves either no intent, or one that is sent again.

const (
	formingPause   = 150 * time.Millisecond // between rounds of questions
	formingTimeout = 3 * time.Second        // of one question
	fellowsTimeout = time.Second            // of asking the fellows at a start
	formingWords   = 5 * time.Second        // between log lines about who is missing
)

// Methods of forming.
const (
	methodSeedHello  = "seed.hello"
	methodSeedAccept = "seed.accept"
)

// seedHello is a question to another seed.
type seedHello struct {
	Incarnation model.Incarnation `json:"incarnation"`
	Seeds       []string          `json:"seeds"`
}

// seedAnswer says who is asked, and whether its cluster expects the asker.
type seedAnswer struct {
	Info    NodeInfo `json:"info"`
	Seeds   []string `json:"seeds"`
	Expects bool     `json:"expects"`
}

// seedIntent is the agreed first membership, meant for one seed.
type seedIntent struct {
	Cluster model.ClusterID    `json:"cluster"`
	Node    model.NodeID       `json:"node"`
	Members []metadata.NewNode `json:"members"`
}

// checkSeeds wants this node among the seeds, spelled as it is advertised.
func checkSeeds(seeds []string, self string) error {
	list := sortedSeeds(seeds)
	if !slices.Contains(list, self) {
		return &Error{
			Code: CodeSeedMismatch, ExitStatus: ExitUsage,
			Message: fmt.Sprintf("this node's raft address %s is not among the seed nodes %s", self, strings.Join(list, ", ")),
			Advice:  "list every seed exactly as it advertises itself (--raft-addr or its advertised form), the same list on each; or use --join to enter an existing cluster",
		}
	}
	if len(list) != len(seeds) {
		return &Error{
			Code: CodeSeedMismatch, ExitStatus: ExitUsage,
			Message: fmt.Sprintf("the seed nodes %s name one address twice", strings.Join(seeds, ", ")), Advice: "list each seed once",
		}
	}
	return nil
}

func sortedSeeds(seeds []string) []string {
	list := make([]string, 0, len(seeds))
	for _, s := range seeds {
		list = append(list, strings.TrimSpace(s))
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// formAlone makes a cluster of one.
func (p *Plane) formAlone() error {
	id := model.NodeID(1)
	if p.cfg.NodeID != 0 {
		id = p.cfg.NodeID
	}
	self := p.newNode(id)
	return p.adopt(seedIntent{Cluster: model.ClusterID(uuid.NewString()), Node: id, Members: []metadata.NewNode{self}})
}

func (p *Plane) newNode(id model.NodeID) metadata.NewNode {
	return metadata.NewNode{
		ID: id, Incarnation: p.store.get().Incarnation,
		Endpoints: p.cfg.Endpoints, Rack: p.cfg.Rack, Version: p.cfg.Version,
	}
}

// adopt writes an intent to the disk and has the quorum entered. Repeating it
// with the same cluster is fine.
func (p *Plane) adopt(intent seedIntent) error {
	err := p.store.update(func(i *identity) {
		if i.State == StateFresh {
			i.Cluster, i.Node, i.State, i.Forming = intent.Cluster, intent.Node, StateForming, intent.Members
		}
	})
	if err != nil {
		return err
	}
	id := p.store.get()
	if id.Cluster != intent.Cluster || id.Node != intent.Node {
		return refusal.New(refusal.NodeInOtherCluster, id.Node.String(),
			fmt.Sprintf("this is node %v of cluster %s already", id.Node, id.Cluster), "start it with an empty data directory")
	}
	p.identify(model.NodeEpoch(p.epoch.Load()))
	p.enterSoon(id)
	return nil
}

// firstVoters is raft's first configuration.
func firstVoters(members []metadata.NewNode) []quorum.Member {
	out := make([]quorum.Member, 0, len(members))
	for _, m := range members {
		out = append(out, quorum.Member{Node: m.ID, Incarnation: m.Incarnation, Address: m.Endpoints.Raft, Voter: true})
	}
	return out
}

// form asks the other seeds until the cluster exists or cannot.
func (p *Plane) form(ctx context.Context) {
	seeds := sortedSeeds(p.cfg.SeedNodes)
	first := seeds[0] == p.cfg.Endpoints.Raft
	var said time.Time
	for {
		if p.store.get().State != StateFresh {
			break // the first seed told us our place, or we hold the intent
		}
		answers, missing := p.askSeeds(ctx, seeds)
		if e := p.judgeSeeds(seeds, answers); e != nil {
			p.end(e)
			return
		}
		if len(missing) == 0 && first {
			intent, e := p.intent(seeds, answers)
			if e != nil {
				p.end(e)
				return
			}
			if err := p.adopt(intent); err != nil {
				p.log.Error("cluster could not be formed", "reason", err)
				return
			}
			break
		}
		if len(missing) > 0 && time.Since(said) > formingWords {
			said = time.Now()
			p.log.Info("waiting for every seed node before the cluster is formed", "peer", strings.Join(missing, ", "))
		}
		if !pause(ctx, formingPause) {
			return
		}
	}
	p.spreadIntent(ctx)
}

// spreadIntent sends the intent to every other seed until each has it on its
// disk or the cluster exists without it.
func (p *Plane) spreadIntent(ctx context.Context) {
	for {
		id := p.store.get()
		if id.State != StateForming {
			return
		}
		done := true
		for _, m := range id.Forming {
			if m.ID == id.Node {
				continue
			}
			ctx, cancel := context.WithTimeout(ctx, formingTimeout)
			err := p.peer.Call(ctx, peer.Target{Address: m.Endpoints.Raft}, methodSeedAccept,
				seedIntent{Cluster: id.Cluster, Node: m.ID, Members: id.Forming}, nil)
			cancel()
			if err != nil {
				done = false
				p.log.Debug("seed node did not take its place yet", "peer", m.Endpoints.Raft, "reason", err)
			}
		}
		if done || !pause(ctx, formingPause) {
			return
		}
	}
}

// askSeeds asks the other seeds at the same time.
func (p *Plane) askSeeds(ctx context.Context, seeds []string) (answers map[string]seedAnswer, missing []string) {
	ctx, cancel := context.WithTimeout(ctx, formingTimeout)
	defer cancel()
	type reply struct {
		seed   string
		answer seedAnswer
		err    error
	}
	replies := make(chan reply, len(seeds))
	asked := 0
	for _, seed := range seeds {
		if seed == p.cfg.Endpoints.Raft {
			continue
		}
		asked++
		go func() {
			r := reply{seed: seed}
			r.err = p.peer.Call(ctx, peer.Target{Address: seed}, methodSeedHello, seedHello{Incarnation: p.store.get().Incarnation, Seeds: seeds}, &r.answer)
			replies <- r
		}()
	}
	answers = make(map[string]seedAnswer)
	for range asked {
		r := <-replies
		// A fresh node without seeds was started with --join: it forms nothing.
		if r.err != nil || r.answer.Info.State == StateFresh && len(r.answer.Seeds) == 0 {
			missing = append(missing, r.seed)
			continue
		}
		answers[r.seed] = r.answer
	}
	slices.Sort(missing)
	return answers, missing
}

// judgeSeeds finds what makes forming impossible.
func (p *Plane) judgeSeeds(seeds []string, answers map[string]seedAnswer) *Error {
	for _, seed := range seeds {
		a, ok := answers[seed]
		if !ok {
			continue
		}
		switch {
		case a.Info.State != StateFresh && !a.Expects:
			return &Error{
				Code: CodeDiskWiped, ExitStatus: ExitWrongIdentity,
				Message: fmt.Sprintf("data directory %s is new, but seed node %s belongs to cluster %s, which does not know it", p.cfg.DataDir, seed, a.Info.Cluster),
				Advice:  "if this node's disk was lost: remove the old node from the cluster, then start this one with --join; else correct --seed-nodes or --data-dir",
			}
		case a.Info.State == StateFresh && !slices.Equal(a.Seeds, seeds):
			return &Error{
				Code: CodeSeedMismatch, ExitStatus: ExitUsage,
				Message: fmt.Sprintf("seed node %s has the seeds %s, this node has %s", seed, strings.Join(a.Seeds, ", "), strings.Join(seeds, ", ")),
				Advice:  "give every seed the same --seed-nodes",
			}
		}
	}
	return nil
}

// intent gives every seed its id: the one it asks for, else the lowest free one
// in sorted order.
func (p *Plane) intent(seeds []string, answers map[string]seedAnswer) (seedIntent, *Error) {
	taken := map[model.NodeID]string{}
	wanted := func(seed string) model.NodeID {
		if seed == p.cfg.Endpoints.Raft {
			return p.cfg.NodeID
		}
		return answers[seed].Info.Wanted
	}
	for _, seed := range seeds {
		id := wanted(seed)
		if id == 0 {
			continue
		}
		if other, twice := taken[id]; twice {
			return seedIntent{}, &Error{
				Code: CodeSeedMismatch, ExitStatus: ExitUsage,
				Message: fmt.Sprintf("seed nodes %s and %s both ask for node id %v", other, seed, id), Advice: "give each its own --node-id, or none",
			}
		}
		taken[id] = seed
	}
	out := seedIntent{Cluster: model.ClusterID(uuid.NewString())}
	next := model.NodeID(1)
	for _, seed := range seeds {
		id := wanted(seed)
		for id == 0 {
			if _, used := taken[next]; !used {
				id = next
				taken[id] = seed
			}
			next++
		}
		if seed == p.cfg.Endpoints.Raft {
			out.Node = id
			out.Members = append(out.Members, p.newNode(id))
			continue
		}
		i := answers[seed].Info
		out.Members = append(out.Members, metadata.NewNode{ID: id, Incarnation: i.Incarnation, Endpoints: i.Endpoints, Rack: i.Rack, Version: i.Version})
	}
	return out, nil
}

func (p *Plane) handleSeedHello(_ context.Context, _ peer.Identity, body json.RawMessage) (any, error) {
	var q seedHello
	if err := json.Unmarshal(body, &q); err != nil {
		return nil, fmt.Errorf("decode %s: %w", methodSeedHello, err)
	}
	id := p.store.get()
	a := seedAnswer{Info: p.Info()}
	if !p.cfg.Join {
		a.Seeds = sortedSeeds(p.cfg.SeedNodes)
	}
	for _, m := range id.Forming {
		a.Expects = a.Expects || m.Incarnation == q.Incarnation
	}
	for _, n := range p.Image().Nodes {
		a.Expects = a.Expects || n.Incarnation == q.Incarnation
	}
	return a, nil
}

func (p *Plane) handleSeedAccept(_ context.Context, _ peer.Identity, body json.RawMessage) (any, error) {
	var intent seedIntent
	if err := json.Unmarshal(body, &intent); err != nil {
		return nil, fmt.Errorf("decode %s: %w", methodSeedAccept, err)
	}
	self := p.store.get().Incarnation
	ours := slices.ContainsFunc(intent.Members, func(m metadata.NewNode) bool { return m.ID == intent.Node && m.Incarnation == self })
	if !ours || intent.Cluster == "" || p.cfg.Join {
		return nil, refusal.New(refusal.WrongIncarnation, intent.Node.String(), "the first membership does not name this node", "form the cluster again with empty data directories")
	}
	return nil, p.adopt(intent)
}

// askFellows asks the nodes this one knew, before it serves, whether it is still
// a member, and the seeds whether they are of the same cluster. Silence is not an
// answer: a cluster may start as a whole.
func (p *Plane) askFellows(ctx context.Context, id identity) error {
	ctx, cancel := context.WithTimeout(ctx, fellowsTimeout)
	defer cancel()
	seeds := sortedSeeds(p.cfg.SeedNodes)
	addresses := slices.Clone(seeds)
	for _, f := range id.Fellows {
		addresses = append(addresses, f.Address)
	}
	slices.Sort(addresses)
	addresses = slices.DeleteFunc(slices.Compact(addresses), func(a string) bool { return a == p.cfg.Endpoints.Raft })
	replies := make(chan error, len(addresses))
	for _, address := range addresses {
		go func() {
			by, err := p.peer.Probe(ctx, peer.Target{Address: address})
			replies <- p.judgeFellow(id, address, by, err, slices.Contains(seeds, address))
		}()
	}
	var first error
	for range addresses {
		if err := <-replies; err != nil && first == nil {
			first = err
		}
	}
	return first
}

func (p *Plane) judgeFellow(id identity, address string, by peer.Identity, err error, seed bool) error {
	if refusal.Is(err, refusal.NodeRemoved) && by.Cluster == id.Cluster {
		if werr := p.store.update(func(i *identity) { i.State = StateRemoved }); werr != nil {
			return errors.Join(removedError(id.Node, id.Cluster), werr)
		}
		return removedError(id.Node, id.Cluster)
	}
	if err == nil && seed && by.Cluster != "" && by.Cluster != id.Cluster {
		return &Error{
			Code: CodeWrongCluster, ExitStatus: ExitWrongIdentity,
			Message: fmt.Sprintf("data directory %s belongs to cluster %s, seed node %s to cluster %s", p.cfg.DataDir, id.Cluster, address, by.Cluster),
			Advice:  "correct --data-dir or --seed-nodes",
		}
	}
	return nil
}

// pause waits; false when the context ended first.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
