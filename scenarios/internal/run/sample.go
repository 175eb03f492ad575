package run

import (
	"context"
	"fmt"
	"math"
	"sort"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/ister-mq/ister/admin/adminv1"
	"github.com/ister-mq/ister/admin/client"
	"github.com/ister-mq/ister/scenarios/internal/history"
	"github.com/ister-mq/ister/scenarios/internal/report"
	"github.com/ister-mq/ister/setups"
)

// The pace of samples. It slows down as a run gets old, so that a day of soak
// leaves some megabytes of them, and a short run is seen in detail.
const (
	sampleEvery      = 500 * time.Millisecond // for the first sampleFine
	sampleFine       = 5 * time.Minute
	sampleEveryLater = 2 * time.Second // until sampleCoarse
	sampleCoarse     = time.Hour
	sampleEveryLast  = 5 * time.Second
	// sampleMax bounds the look at the cluster.
	sampleMax = 400 * time.Millisecond
	// reasonMax bounds why something was not read, in runes.
	reasonMax = 160
)

// sampler looks at the cluster and its clients while a run goes on, in a
// goroutine of its own, and adds what it saw to the events. It asks nothing of
// the cluster's setup, which belongs to the steps: these tell it, by see, which
// brokers there are.
type sampler struct {
	nameOf   func(int64) (string, bool)
	progress func() history.Progress
	add      func(report.Event)
	actor    string
	cancel   context.CancelFunc
	done     chan struct{}

	mu        sync.Mutex
	brokers   int      // guarded by mu: how many there are
	endpoints []string // guarded by mu: admin addresses of those that run
}

// startSampler begins to sample; stop ends it.
func startSampler(ctx context.Context, s *sampler) *sampler {
	running, cancel := context.WithCancel(ctx)
	s.cancel, s.done = cancel, make(chan struct{})
	go s.run(running)
	return s
}

// stop ends the sampling and waits for that.
func (s *sampler) stop() {
	s.cancel()
	<-s.done
}

// see tells which brokers there are now.
func (s *sampler) see(brokers []setups.Broker) {
	var endpoints []string
	for _, b := range brokers {
		if b.Running && b.Admin != "" {
			endpoints = append(endpoints, b.Admin)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.brokers, s.endpoints = len(brokers), endpoints
}

func (s *sampler) reach() (brokers int, endpoints []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.brokers, s.endpoints
}

func (s *sampler) run(ctx context.Context) {
	defer close(s.done)
	began, every := time.Now(), sampleEvery
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	var ask asker
	defer ask.close()
	before := s.progress()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		out := report.Sample{Unread: map[string]string{}}
		s.cluster(ctx, &ask, &out)
		now := s.progress()
		clients(before, now, &out)
		before = now
		if ctx.Err() != nil {
			return // what was cut short says nothing
		}
		s.add(report.Event{Kind: report.Sampled, Sample: &out})
		if next := samplePace(time.Since(began)); next != every {
			every = next
			ticker.Reset(every)
		}
	}
}

func samplePace(age time.Duration) time.Duration {
	switch {
	case age < sampleFine:
		return sampleEvery
	case age < sampleCoarse:
		return sampleEveryLater
	default:
		return sampleEveryLast
	}
}

// clients fills in what the clients saw between two looks.
func clients(before, now history.Progress, out *report.Sample) {
	if now.Sent == 0 {
		for _, member := range []string{"produce_rate", "consume_rate", "ack_ms", "gap_ms"} {
			out.Unread[member] = "no load has begun"
		}
		return
	}
	round := func(v float64) *float64 { v = math.Round(v*10) / 10; return &v }
	out.GapMS = round(float64(now.GapNS) / 1e6)
	if seconds := float64(now.At-before.At) / 1e9; seconds > 0 {
		out.ProduceRate = round(float64(now.Acked-before.Acked) / seconds)
		out.ConsumeRate = round(float64(now.Delivered-before.Delivered) / seconds)
	}
	if acked := now.Acked - before.Acked; acked > 0 {
		out.AckMS = round(float64(now.AckNS-before.AckNS) / float64(acked) / 1e6)
	} else {
		out.Unread["ack_ms"] = "nothing was acknowledged since the sample before"
	}
}

// asker keeps the client of the admin API from one look to the next.
type asker struct {
	client *client.Client
	key    string
	turn   int // grows with each look that failed, so that the next one asks another broker first
}

func (a *asker) close() {
	if a.client != nil {
		a.client.Close()
	}
}

func (a *asker) at(endpoints []string, actor string) (*client.Client, error) {
	turn := a.turn % len(endpoints)
	turned := append(append([]string{}, endpoints[turn:]...), endpoints[:turn]...)
	key := strings.Join(turned, ",")
	if a.client != nil && a.key == key {
		return a.client, nil
	}
	made, err := client.New(client.Options{Endpoints: turned, Actor: actor, ReadTimeout: sampleMax})
	if err != nil {
		return nil, err
	}
	a.close()
	a.client, a.key = made, key
	return made, nil
}

// cluster fills in what the controller says, within sampleMax.
func (s *sampler) cluster(ctx context.Context, ask *asker, out *report.Sample) {
	ctx, cancel := context.WithTimeoutCause(ctx, sampleMax, fmt.Errorf("no answer within %s", sampleMax))
	defer cancel()
	brokers, endpoints := s.reach()
	var reason string
	switch {
	case brokers == 0:
		reason = "the cluster has not been started"
	case len(endpoints) == 0:
		reason = "no broker with an admin API runs"
	}
	if reason == "" {
		c, err := ask.at(endpoints, s.actor)
		if err == nil {
			s.ask(ctx, c, ask, out)
			return
		}
		reason = err.Error()
	}
	for _, member := range []string{"brokers", "moves", "voters", "under_replicated"} {
		out.Unread[member] = reason
	}
}

func (s *sampler) ask(ctx context.Context, c *client.Client, ask *asker, out *report.Sample) {
	failed := func(err error, members ...string) {
		reason := err.Error()
		if cause := context.Cause(ctx); cause != nil {
			reason = cause.Error()
		}
		for _, member := range members {
			out.Unread[member] = short(reason)
		}
		ask.turn++
	}
	if status, err := c.Cluster.GetStatus(ctx, &adminv1.GetStatusRequest{}); err != nil {
		failed(err, "voters", "under_replicated")
	} else {
		voters := int64(len(status.GetVoters()))
		out.Voters = &voters
		if n := status.GetUnderReplicatedPartitions(); n != nil {
			under := int64(n.GetValue())
			out.UnderReplicated = &under
		} else {
			out.Unread["under_replicated"] = "no controller answers"
		}
	}
	if balance, err := c.Brokers.GetBalance(ctx, &adminv1.GetBalanceRequest{}); err != nil {
		failed(err, "brokers")
	} else {
		out.Brokers = s.shares(balance.GetBalance())
	}
	if moves, err := c.Operations.ListMoves(ctx, &adminv1.ListMovesRequest{}); err != nil {
		failed(err, "moves")
	} else {
		n := int64(len(moves.GetMoves()))
		out.Moves = &n
	}
}

func (s *sampler) shares(balance *adminv1.Balance) []report.BrokerSample {
	shares := []report.BrokerSample{}
	for _, l := range balance.GetBrokers() {
		id := int64(l.GetBrokerId())
		name, known := s.nameOf(id)
		if !known {
			name = fmt.Sprintf("node %d", id)
		}
		shares = append(shares, report.BrokerSample{Name: name, NodeID: id, Leaders: int64(l.GetLeaders()), Replicas: int64(l.GetReplicas()), Fenced: l.GetFenced()})
	}
	sort.Slice(shares, func(i, j int) bool { // b10 after b9
		a, b := shares[i].Name, shares[j].Name
		return len(a) < len(b) || len(a) == len(b) && a < b
	})
	return shares
}

// short is the first line of a text, cut to reasonMax.
func short(text string) string {
	text, _, _ = strings.Cut(text, "\n")
	if utf8.RuneCountInString(text) > reasonMax {
		text = string([]rune(text)[:reasonMax-3]) + "..."
	}
	return text
}
