package load

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ister-mq/ister/scenarios/internal/history"
)

// pendingMax bounds the sends without an answer; beyond it the producer waits,
// as a real one would.
const pendingMax = 20_000

// Config of a load.
type Config struct {
	ID        string
	Bootstrap []string // Kafka addresses, host:port
	Topics    []string // as Kafka clients name them
	Rate      int      // records/s on each topic
	Messages  int64    // over all topics; 0 sends until Stop
	Keys      int      // keys per topic
	Size      int      // bytes per record, at least what the uid needs
	// Holds are counts of records, ascending, after which the sending waits for a
	// Release.
	Holds []int64
	// Consume lets a reader follow the load.
	Consume bool
	// Only is the one Kafka address that the producer reaches, as on that side of a
	// partition: whichever broker it wants, it gets this one. It does not number its
	// batches and gives up on a record, since it may never get through. "": it
	// reaches all.
	Only string
}

// Load is a running load.
type Load struct {
	config   Config
	recorder *history.Recorder
	producer *kgo.Client
	follower *follower // nil without Consume
	acker    *acker

	stop    context.CancelFunc
	sending chan struct{} // closed when the last record was given to the client
	release chan struct{} // one token for each Release, at most one for each hold

	pending atomic.Int64
	sent    atomic.Int64
	reads   int
	stopped bool
}

// Start begins a load. ctx bounds only the start.
func Start(ctx context.Context, config Config, recorder *history.Recorder) (*Load, error) {
	l := &Load{config: config, recorder: recorder, acker: &acker{brokers: map[history.Slot]int32{}}, sending: make(chan struct{}), release: make(chan struct{}, len(config.Holds))}
	bootstrap := config.Bootstrap
	if config.Only != "" {
		bootstrap = []string{config.Only}
	}
	producer, err := kgo.NewClient(append(append(clientOptions(bootstrap), producerOptions(l.acker)...), onlyOptions(config.Only)...)...)
	if err != nil {
		return nil, fmt.Errorf("make a producer: %w", err)
	}
	if err := producer.Ping(ctx); err != nil {
		producer.Close()
		return nil, fmt.Errorf("reach the cluster at %v: %w", bootstrap, err)
	}
	l.producer = producer
	if config.Consume {
		if l.follower, err = follow(config, recorder); err != nil {
			producer.Close()
			return nil, err
		}
	}
	running, cancel := context.WithCancel(context.Background())
	l.stop = cancel
	go l.send(running)
	return l, nil
}

// ID is the load's name in the history.
func (l *Load) ID() string { return l.config.ID }

// Topics are the topics it sends to.
func (l *Load) Topics() []string { return l.config.Topics }

// Sent counts the records given to the client so far.
func (l *Load) Sent() int64 { return l.sent.Load() }

// Release lets the producer pass its next hold, also one it has not reached yet.
// It reports false when there are no more holds than releases.
func (l *Load) Release() bool {
	select {
	case l.release <- struct{}{}:
		return true
	default:
		return false
	}
}

// send gives records to the client at the rate, topic by topic in turn, so that
// a topic's records are evenly spaced. Sends that fell behind, because the
// machine was busy, are made up for at once.
func (l *Load) send(ctx context.Context) {
	defer close(l.sending)
	interval := time.Second / time.Duration(l.config.Rate*len(l.config.Topics))
	ticker := time.NewTicker(max(interval, time.Millisecond))
	defer ticker.Stop()
	start, held, holds := time.Now(), time.Duration(0), l.config.Holds
	for n := int64(0); l.config.Messages == 0 || n < l.config.Messages; {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		due := int64((time.Since(start) - held) / interval)
		for ; n < due && (l.config.Messages == 0 || n < l.config.Messages); n++ {
			if l.pending.Load() >= pendingMax {
				break
			}
			if len(holds) > 0 && n == holds[0] {
				holds = holds[1:]
				at := time.Now()
				select {
				case <-ctx.Done():
					return
				case <-l.release:
				}
				held += time.Since(at)
				due = int64((time.Since(start) - held) / interval)
			}
			if ctx.Err() != nil {
				return
			}
			l.sendOne(n)
		}
	}
}

func (l *Load) sendOne(n int64) {
	topics := int64(len(l.config.Topics))
	topic, seq := l.config.Topics[n%topics], n/topics
	p := newPayload(l.config, topic, seq)
	handle := l.recorder.BeginSend(history.Send{
		Slot: history.Slot{Topic: topic, Partition: -1}, Load: l.config.ID, Producer: l.config.ID, UID: p.uid, Key: p.key, Seq: seq, CRC: p.crc, Idempotent: l.config.Only == "",
	})
	l.sent.Add(1)
	l.pending.Add(1)
	// The producer's context is not the run's: an interrupted run still learns
	// what became of its sends, and Stop bounds the wait.
	l.producer.Produce(context.Background(), &kgo.Record{Topic: topic, Key: []byte(p.key), Value: p.value}, func(r *kgo.Record, err error) {
		outcome := classify(err)
		slot := history.Slot{Topic: topic, Partition: r.Partition}
		partition := r.Partition
		if outcome != history.OK {
			partition = -1
		}
		l.recorder.EndSend(handle, outcome, partition, r.Offset, -1, l.acker.of(slot), err)
		l.pending.Add(-1)
	})
}

// definite are the errors after which a record was not written for certain.
var definite = []error{
	kerr.MessageTooLarge, kerr.RecordListTooLarge, kerr.InvalidRecord, kerr.UnsupportedForMessageFormat, kerr.InvalidTopicException,
	kerr.TopicAuthorizationFailed, kerr.InvalidRequiredAcks,
}

// classify says what is known about a send. Anything that is not a refusal for
// certain stays unknown.
func classify(err error) history.Outcome {
	if err == nil {
		return history.OK
	}
	for _, d := range definite {
		if errors.Is(err, d) {
			return history.Failed
		}
	}
	return history.Unknown
}

// WaitAcked waits until n records are acknowledged.
func (l *Load) WaitAcked(ctx context.Context, n int64) error {
	done, now := l.recorder.Acked(l.config.ID, n)
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		_, now = l.recorder.Acked(l.config.ID, n)
		return fmt.Errorf("load %s: %d of %d acknowledged, %d sent, %d waiting: %w", l.config.ID, now, n, l.Sent(), l.pending.Load(), ctx.Err())
	}
}

// Acked counts the acknowledged records.
func (l *Load) Acked() int64 {
	_, now := l.recorder.Acked(l.config.ID, 0)
	return now
}

// WaitSent waits until all messages of a bounded load are acknowledged or have
// failed.
func (l *Load) WaitSent(ctx context.Context) error {
	select {
	case <-l.sending:
	case <-ctx.Done():
		return fmt.Errorf("load %s: %d sent: %w", l.config.ID, l.Sent(), ctx.Err())
	}
	if err := l.producer.Flush(ctx); err != nil {
		return fmt.Errorf("load %s: %d sends still wait for an answer: %w", l.config.ID, l.pending.Load(), err)
	}
	return nil
}

// Stop ends the sending, waits for the answers, and lets the reader catch up.
// What has no answer when ctx ends is of unknown outcome.
func (l *Load) Stop(ctx context.Context) error {
	if l.stopped {
		return nil
	}
	l.stop()
	<-l.sending
	err := l.producer.Flush(ctx)
	l.producer.Close() // ends what is left as unknown
	l.stopped = true
	if err != nil {
		return fmt.Errorf("load %s: sends had no answer: %w", l.config.ID, err)
	}
	return nil
}

// Close ends everything at once.
func (l *Load) Close() {
	if !l.stopped {
		l.stop()
		<-l.sending
		l.producer.Close()
		l.stopped = true
	}
	if l.follower != nil {
		l.follower.close()
	}
}

// acker remembers which broker answered for a partition last.
type acker struct {
	mu      sync.Mutex
	brokers map[history.Slot]int32 // guarded by mu
}

// OnProduceBatchWritten implements kgo.HookProduceBatchWritten.
func (a *acker) OnProduceBatchWritten(meta kgo.BrokerMetadata, topic string, partition int32, _ kgo.ProduceBatchMetrics) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.brokers[history.Slot{Topic: topic, Partition: partition}] = meta.NodeID
}

func (a *acker) of(slot history.Slot) int32 {
	a.mu.Lock()
	defer a.mu.Unlock()
	if id, ok := a.brokers[slot]; ok {
		return id
	}
	return -1
}
