package verb

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ister-mq/ister/scenarios/internal/history"
	"github.com/ister-mq/ister/scenarios/internal/spec"
)

type watchInputs struct {
	Topics []string `json:"topics" required:"true" doc:"topics, as Kafka clients name them"`
}

type watchOutputs struct {
	Topics int64 `json:"topics" doc:"how many topics"`
}

type epochOutputs struct {
	Views      int64  `json:"views" doc:"answers of brokers that were looked at"`
	Leaders    int64  `json:"leaders" doc:"pairs of partition and leader epoch that had a leader"`
	Changed    int64  `json:"changed" doc:"partitions of which more than one leader epoch was seen"`
	Conflicts  int64  `json:"conflicts" doc:"leader epochs for which two brokers were named leader"`
	Regressed  int64  `json:"regressed" doc:"times that a broker named an older leader epoch than it had named before"`
	FirstFault string `json:"first_fault" doc:"the first of these, in words"`
}

func init() {
	define(meta{
		name: "epochs.watch", note: "topics {topics}", risk: spec.Additive,
		doc:     "Ask every broker ten times a second who leads which partition in which leader epoch, until the run ends: also brokers that a fault has cut off.",
		command: "kcat -L -b <each broker>",
	}, epochsWatch, nil)
	define(meta{
		name: "epochs.check", note: "views {views}, changed {changed}, conflicts {conflicts}", risk: spec.ReadOnly, doc: "Compare what the brokers have said since epochs.watch: one leader for each leader epoch, and none that goes back.", command: "<compare the answers>",
	}, epochsCheck, nil)
}

const (
	epochsEvery   = 100 * time.Millisecond
	epochsTimeout = time.Second
)

// epochWatch collects who led what, as each broker tells it.
type epochWatch struct {
	topics []string
	stop   context.CancelFunc
	wait   sync.WaitGroup
	asking map[string]bool // broker names; only the goroutine that watches uses it

	mu      sync.Mutex
	leaders map[tenure]int32 // guarded by mu
	newest  map[view]int32   // guarded by mu: the newest leader epoch
	first   map[history.Slot]int32
	out     epochOutputs // guarded by mu
}

// tenure is a partition in one of its leader epochs.
type tenure struct {
	history.Slot
	epoch int32
}

// view is a partition as one start of a broker tells it.
type view struct {
	history.Slot
	broker string
}

func epochsWatch(_ context.Context, env *Env, in watchInputs) (watchOutputs, error) {
	if env.epochs != nil {
		return watchOutputs{}, errors.New("epochs are watched already: one epochs.watch is enough for a run")
	}
	ctx, cancel := context.WithCancel(context.Background())
	w := &epochWatch{topics: in.Topics, stop: cancel, asking: map[string]bool{}, leaders: map[tenure]int32{}, newest: map[view]int32{}, first: map[history.Slot]int32{}}
	env.epochs = w
	w.wait.Go(func() { w.watch(ctx, env) })
	return watchOutputs{Topics: int64(len(in.Topics))}, nil
}

// watch starts one asker for each broker, as they come.
func (w *epochWatch) watch(ctx context.Context, env *Env) {
	ticker := time.NewTicker(epochsEvery)
	defer ticker.Stop()
	for {
		for _, b := range env.Cluster.Brokers() {
			if b.Running && !w.asking[b.Name] {
				w.asking[b.Name] = true
				w.wait.Go(func() { w.ask(ctx, b.Name, b.Kafka) })
			}
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// ask asks one broker again and again. No answer is none: it may be dead.
func (w *epochWatch) ask(ctx context.Context, name, address string) {
	client, err := kgo.NewClient(kgo.SeedBrokers(address), kgo.Dialer(onlyTo(address)), kgo.RequestRetries(0), kgo.RetryTimeout(epochsTimeout))
	if err != nil {
		return // an address that the setup gave, so it does not happen
	}
	defer client.Close()
	ticker := time.NewTicker(epochsEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		request := kmsg.NewPtrMetadataRequest()
		for _, topic := range w.topics {
			t := kmsg.NewMetadataRequestTopic()
			t.Topic = kmsg.StringPtr(topic)
			request.Topics = append(request.Topics, t)
		}
		bounded, cancel := context.WithTimeout(ctx, epochsTimeout)
		answer, err := request.RequestWith(bounded, client.SeedBrokers()[0])
		cancel()
		w.note(name, answer, err)
	}
}

// onlyTo dials one address, whichever is asked for: a client that reaches one
// broker alone.
func onlyTo(address string) func(context.Context, string, string) (net.Conn, error) {
	dialer := net.Dialer{Timeout: epochsTimeout}
	return func(ctx context.Context, network, _ string) (net.Conn, error) {
		return dialer.DialContext(ctx, network, address)
	}
}

func (w *epochWatch) note(broker string, answer *kmsg.MetadataResponse, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		// It may come back as another process, which learns anew: what it says then
		// may be older than what it said before.
		for v := range w.newest {
			if v.broker == broker {
				delete(w.newest, v)
			}
		}
		return
	}
	w.out.Views++
	for _, t := range answer.Topics {
		for _, p := range t.Partitions {
			if t.Topic != nil && p.Leader >= 0 {
				w.add(broker, tenure{history.Slot{Topic: *t.Topic, Partition: p.Partition}, p.LeaderEpoch}, p.Leader)
			}
		}
	}
}

// add notes that a broker named a leader; w.mu is held.
func (w *epochWatch) add(broker string, t tenure, leader int32) {
	before, seen := w.leaders[t]
	if !seen {
		w.leaders[t] = leader
		w.out.Leaders++
		if first, known := w.first[t.Slot]; !known {
			w.first[t.Slot] = t.epoch
		} else if first != t.epoch && first >= 0 {
			w.first[t.Slot] = -1 // counted once
			w.out.Changed++
		}
	} else if before != leader {
		w.out.Conflicts++
		w.fault("partition %d of %s: leader epoch %d is of node %d, says %s; another said of node %d", t.Partition, t.Topic, t.epoch, leader, broker, before)
	}
	v := view{t.Slot, broker}
	if newest, known := w.newest[v]; known && t.epoch < newest {
		w.out.Regressed++
		w.fault("partition %d of %s: %s named leader epoch %d after %d", t.Partition, t.Topic, broker, t.epoch, newest)
	}
	w.newest[v] = t.epoch
}

// fault keeps the first fault; w.mu is held.
func (w *epochWatch) fault(format string, args ...any) {
	if w.out.FirstFault == "" {
		w.out.FirstFault = fmt.Sprintf(format, args...)
	}
}

func (w *epochWatch) close() {
	w.stop()
	w.wait.Wait()
}

func epochsCheck(_ context.Context, env *Env, _ none) (epochOutputs, error) {
	w := env.epochs
	if w == nil {
		return epochOutputs{}, errors.New("nobody watched the leader epochs: put epochs.watch before the disturbance")
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.out, nil
}
