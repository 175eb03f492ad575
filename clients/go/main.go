// Command go writes records to a topic with franz-go, reads them back and
// compares: what a Go program needs to talk to Ister, in one file.
//
//	go run ./clients/go -topic orders
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

func main() {
	brokers := flag.String("brokers", "127.0.0.1:6650", "addresses of brokers, comma-separated; one is enough")
	topic := flag.String("topic", "orders", "topic, by its Kafka name")
	count := flag.Int("records", 1000, "how many records to write")
	within := flag.Duration("within", 30*time.Second, "how long it may take")
	flag.Parse()
	ctx, cancel := context.WithTimeout(context.Background(), *within)
	defer cancel()
	if err := roundTrip(ctx, strings.Split(*brokers, ","), *topic, *count); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
	fmt.Printf("%d records written and read back, identical\n", *count)
}

// place is where a record was acknowledged.
type place struct {
	partition int32
	offset    int64
}

// roundTrip writes records and reads each back from where it was acknowledged.
func roundTrip(ctx context.Context, brokers []string, topic string, count int) error {
	written, first, err := write(ctx, brokers, topic, count)
	if err != nil {
		return err
	}
	// Consumer groups are not served yet: the partitions to read are named.
	from := map[int32]kgo.Offset{}
	for partition, offset := range first {
		from[partition] = kgo.NewOffset().At(offset)
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: from}))
	if err != nil {
		return fmt.Errorf("make a consumer: %w", err)
	}
	defer client.Close()
	for len(written) > 0 {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err0(); err != nil {
			return fmt.Errorf("read: %w; %d of %d records were not read", err, len(written), count)
		}
		for _, problem := range fetches.Errors() {
			return fmt.Errorf("read %s[%d]: %w", problem.Topic, problem.Partition, problem.Err)
		}
		for iter := fetches.RecordIter(); !iter.Done(); {
			r := iter.Next()
			at := place{r.Partition, r.Offset}
			want, ours := written[at]
			if !ours {
				continue // somebody else's, written in between
			}
			if got := string(r.Key) + "=" + string(r.Value); got != want {
				return fmt.Errorf("%s[%d] offset %d: read %s, wrote %s", topic, r.Partition, r.Offset, got, want)
			}
			delete(written, at)
		}
	}
	return nil
}

// write returns what was written where, and the first offset of each partition.
// The defaults of franz-go are right: idempotent, acknowledged by all in sync.
func write(ctx context.Context, brokers []string, topic string, count int) (map[place]string, map[int32]int64, error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.DefaultProduceTopic(topic), kgo.ProducerBatchCompression(kgo.ZstdCompression()))
	if err != nil {
		return nil, nil, fmt.Errorf("make a producer: %w", err)
	}
	defer client.Close()
	records := make([]*kgo.Record, count)
	for i := range records {
		records[i] = &kgo.Record{Key: fmt.Appendf(nil, "key-%d", i%8), Value: fmt.Appendf(nil, "value-%d", i)}
	}
	written, first := map[place]string{}, map[int32]int64{}
	for _, result := range client.ProduceSync(ctx, records...) {
		if result.Err != nil {
			return nil, nil, fmt.Errorf("write to %s: %w", topic, result.Err)
		}
		r := result.Record
		written[place{r.Partition, r.Offset}] = string(r.Key) + "=" + string(r.Value)
		if offset, seen := first[r.Partition]; !seen || r.Offset < offset {
			first[r.Partition] = r.Offset
		}
	}
	return written, first, nil
}
