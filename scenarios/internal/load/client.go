package load

import (
	"context"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Clients look again soon after a failure, so that a gap that is measured is the
// cluster's and not the client's patience.
const (
	backoffFirst = 20 * time.Millisecond
	backoffLast  = 200 * time.Millisecond
	metadataMin  = 100 * time.Millisecond
)

func backoff(attempt int) time.Duration {
	return min(backoffFirst<<min(attempt, 8), backoffLast)
}

func clientOptions(bootstrap []string) []kgo.Opt {
	return []kgo.Opt{
		kgo.SeedBrokers(bootstrap...), kgo.ClientID("ister-scenario"), kgo.RetryBackoffFn(backoff), kgo.MetadataMinAge(metadataMin),
		kgo.DialTimeout(time.Second), kgo.RequestTimeoutOverhead(5 * time.Second), kgo.RetryTimeout(20 * time.Second),
	}
}

func producerOptions(hooks ...kgo.Hook) []kgo.Opt {
	return []kgo.Opt{
		kgo.RequiredAcks(kgo.AllISRAcks()), kgo.ProducerLinger(0), kgo.ProduceRequestTimeout(5 * time.Second),
		kgo.MaxBufferedRecords(pendingMax + 1000), kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)), kgo.UnknownTopicRetries(-1), kgo.WithHooks(hooks...),
	}
}

// onlyGiveUp is when a producer that reaches one broker alone gives up on a
// record.
const onlyGiveUp = 3 * time.Second

// onlyOptions make a producer reach one address alone.
func onlyOptions(address string) []kgo.Opt {
	if address == "" {
		return nil
	}
	dialer := net.Dialer{Timeout: time.Second}
	return []kgo.Opt{
		kgo.Dialer(func(ctx context.Context, network, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, network, address)
		}),
		kgo.DisableIdempotentWrite(), kgo.MaxProduceRequestsInflightPerBroker(1), kgo.RecordDeliveryTimeout(onlyGiveUp), kgo.RecordRetries(0),
	}
}

// pause waits before another attempt.
func pause(ctx context.Context, attempt int) error {
	timer := time.NewTimer(backoff(attempt))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
