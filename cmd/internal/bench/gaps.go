package main

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ister-mq/ister/admin/adminv1"
	"github.com/ister-mq/ister/admin/client"
)

// disturbances per figure.
const (
	handOvers = 5
	kills     = 5
)

// gapFigures measures the longest time without an ack that a producer of one
// record after another sees around a planned hand-over and a kill -9 of the
// partition's leader.
func gapFigures(ctx context.Context, c *cluster) error {
	const topic = "bench-gap"
	if err := c.createTopic(ctx, topic, 1); err != nil {
		return err
	}
	admin, err := client.New(client.Options{Endpoints: c.admins(), Actor: "bench", UnreachableFor: 10 * time.Second})
	if err != nil {
		return err
	}
	defer admin.Close()
	var planned, killed []time.Duration
	for range handOvers {
		gap, err := gapAround(ctx, c, topic, func() error {
			_, err := admin.Topics.MoveTopic(ctx, &adminv1.MoveTopicRequest{Name: "/default/" + topic})
			return err
		})
		if err != nil {
			return fmt.Errorf("hand-over: %w", err)
		}
		planned = append(planned, gap)
	}
	for range kills {
		gap, err := c.killLeader(ctx, topic)
		if err != nil {
			return fmt.Errorf("kill of the leader: %w", err)
		}
		killed = append(killed, gap)
	}
	row("longest produce gap, planned hand-over", percentile(planned, 0.5).Round(time.Millisecond).String(),
		fmt.Sprintf("max %s of %d", percentile(planned, 1).Round(time.Millisecond), len(planned)))
	row("longest produce gap, kill -9 of the leader", percentile(killed, 0.5).Round(time.Millisecond).String(),
		fmt.Sprintf("max %s of %d", percentile(killed, 1).Round(time.Millisecond), len(killed)))
	return nil
}

func (c *cluster) killLeader(ctx context.Context, topic string) (time.Duration, error) {
	leaders, err := c.leaders(ctx, topic, 1)
	if err != nil {
		return 0, err
	}
	var victim *process
	for _, n := range c.nodes {
		if n.kafka == leaders[0] {
			victim = n
		}
	}
	if victim == nil {
		return 0, fmt.Errorf("no broker listens at %s", leaders[0])
	}
	gap, err := gapAround(ctx, c, topic, victim.kill)
	if err != nil {
		return 0, err
	}
	if err := victim.start(); err != nil {
		return 0, err
	}
	if err := victim.waitReady(ctx); err != nil {
		return 0, err
	}
	return gap, c.waitInSync(ctx, topic)
}

// waitInSync waits until every replica of the topic is in sync.
func (c *cluster) waitInSync(ctx context.Context, topic string) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.seeds()...))
	if err != nil {
		return err
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(ctx, startBound)
	defer cancel()
	for {
		meta, err := kadm.NewClient(cl).Metadata(ctx, topic)
		if err == nil {
			p := meta.Topics[topic].Partitions[0]
			if len(p.ISR) == len(p.Replicas) && len(p.ISR) > 0 {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("topic %s did not get in sync: %w", topic, ctx.Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// gapAround sends one record after another, disturbs after a second, and
// returns the longest time between two acks from just before the disturbance
// until two seconds after acks flow again.
func gapAround(ctx context.Context, c *cluster, topic string, disturb func() error) (time.Duration, error) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.seeds()...), kgo.DefaultProduceTopic(topic), kgo.ProducerLinger(0),
		kgo.RetryBackoffFn(func(int) time.Duration { return 10 * time.Millisecond }), kgo.MetadataMinAge(20*time.Millisecond))
	if err != nil {
		return 0, err
	}
	defer cl.Close()
	began, last := time.Now(), time.Now()
	var longest time.Duration
	done := make(chan error, 1)
	disturbed := false
	for time.Since(began) < 4*time.Second {
		if !disturbed && time.Since(began) > time.Second {
			disturbed, longest = true, 0
			go func() { done <- disturb() }()
		}
		if err := cl.ProduceSync(ctx, &kgo.Record{Value: []byte("gap")}).FirstErr(); err != nil {
			return 0, err
		}
		now := time.Now()
		longest, last = max(longest, now.Sub(last)), now
	}
	return longest, <-done
}
