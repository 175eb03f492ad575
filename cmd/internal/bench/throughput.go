package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const partitions = 6

// size is one workload: records of so many bytes.
type size struct {
	name    string
	bytes   int
	records int
}

var sizes = []size{{"100 B", 100, 2_000_000}, {"1 KiB", 1024, 300_000}}

// rounds are counted after one that warms the page cache up.
const rounds = 3

func (c *cluster) producer(topic string) (*kgo.Client, error) {
	return kgo.NewClient(kgo.SeedBrokers(c.seeds()...), kgo.DefaultProduceTopic(topic),
		kgo.ProducerLinger(5*time.Millisecond), kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.MaxBufferedRecords(200_000), kgo.ProducerBatchMaxBytes(1<<20), kgo.RecordPartitioner(kgo.RoundRobinPartitioner()))
}

// produce sends n records of this size and returns how long until all were
// acked.
func produce(ctx context.Context, cl *kgo.Client, n, bytes int) (time.Duration, error) {
	value := make([]byte, bytes)
	var failed atomic.Pointer[error]
	began := time.Now()
	for i := 0; i < n; i++ {
		cl.Produce(ctx, &kgo.Record{Value: value}, func(_ *kgo.Record, err error) {
			if err != nil {
				failed.Store(&err)
			}
		})
	}
	if err := cl.Flush(ctx); err != nil {
		return 0, err
	}
	if err := failed.Load(); err != nil {
		return 0, *err
	}
	return time.Since(began), nil
}

func produceFigures(ctx context.Context, c *cluster) error {
	for i, s := range sizes {
		topic := fmt.Sprintf("bench-produce-%d", i)
		if err := c.createTopic(ctx, topic, partitions); err != nil {
			return err
		}
		cl, err := c.producer(topic)
		if err != nil {
			return err
		}
		var rates []float64
		var cpu time.Duration
		for r := 0; r <= rounds; r++ {
			before := c.cpu()
			took, err := produce(ctx, cl, s.records, s.bytes)
			if err != nil {
				cl.Close()
				return err
			}
			if r > 0 {
				rates = append(rates, float64(s.records)/took.Seconds())
				cpu += c.cpu() - before
			}
		}
		cl.Close()
		perMillion := cpu.Seconds() / float64(rounds*s.records) * 1e6
		row("produce "+s.name+", batched, 6 partitions", fmt.Sprintf("%.0f/s", median(rates)),
			fmt.Sprintf("min %.0f max %.0f", minimum(rates), maximum(rates)), fmt.Sprintf("broker CPU %.2f s/M", perMillion))
	}
	return nil
}

func produceConsumeFigures(ctx context.Context, c *cluster) error {
	for i, s := range sizes {
		topic := fmt.Sprintf("bench-consume-%d", i)
		if err := c.createTopic(ctx, topic, partitions); err != nil {
			return err
		}
		cl, err := c.producer(topic)
		if err != nil {
			return err
		}
		if _, err := produce(ctx, cl, s.records/4, s.bytes); err != nil {
			return err
		}
		rate, err := produceAndConsume(ctx, c, cl, topic, s)
		cl.Close()
		if err != nil {
			return err
		}
		row("produce and consume "+s.name+", at once", fmt.Sprintf("%.0f/s", rate))
	}
	return nil
}

func produceAndConsume(ctx context.Context, c *cluster, cl *kgo.Client, topic string, s size) (float64, error) {
	reader, err := kgo.NewClient(kgo.SeedBrokers(c.seeds()...), kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(100*time.Millisecond))
	if err != nil {
		return 0, err
	}
	defer reader.Close()
	want := s.records/4 + s.records
	var wg sync.WaitGroup
	var readErr error
	began := time.Now()
	wg.Add(1)
	go func() {
		defer wg.Done()
		for got := 0; got < want; {
			fetches := reader.PollFetches(ctx)
			if err := fetches.Err0(); err != nil {
				readErr = err
				return
			}
			got += fetches.NumRecords()
		}
	}()
	if _, err := produce(ctx, cl, s.records, s.bytes); err != nil {
		return 0, err
	}
	wg.Wait()
	return float64(s.records) / time.Since(began).Seconds(), readErr
}
