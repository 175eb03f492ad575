package sim

import (
	"fmt"
	"time"

	"github.com/ister-mq/ister/broker/internal/metadata"
	"github.com/ister-mq/ister/broker/internal/model"
	"github.com/ister-mq/ister/broker/internal/record"
	"github.com/ister-mq/ister/broker/internal/refusal"
	"github.com/ister-mq/ister/broker/internal/replica"
)

// producer sends to one partition, up to windowMax batches at a time, and retries
// each until it is acknowledged. An idempotent one gives each a sequence.
type producer struct {
	s          *Sim
	number     int
	partition  model.Partition
	idempotent bool
	pid        model.ProducerID // 0: not allocated yet
	sequence   int32
	sent       int
	window     []*send // oldest first; the acknowledged are dropped from the front
	ackedAt    time.Time
	gone       bool // the topic was deleted
	resting    bool // sends nothing new
}

// send is one batch of a producer.
type send struct {
	producer *producer
	name     string // of its first record; unique
	batch    []byte
	records  int
	done     bool
	attempts int
	waiting  bool // for an answer
	refusal  error
}

const (
	windowMax      = 5 // what a log remembers per producer
	produceTimeout = 600 * time.Millisecond
)

func (s *Sim) addProducer(p model.Partition, idempotent bool) {
	c := &producer{s: s, number: len(s.producers), partition: p, idempotent: idempotent, ackedAt: s.now}
	s.producers = append(s.producers, c)
	s.after(0, c.run)
}

func (c *producer) run() {
	if c.gone {
		return
	}
	c.s.after(c.s.between(5*time.Millisecond, 60*time.Millisecond), c.run)
	if c.idempotent && c.pid == 0 {
		c.allocate()
		return
	}
	for len(c.window) > 0 && c.window[0].done {
		c.window = c.window[1:]
	}
	if len(c.window) < windowMax && !c.resting {
		c.next()
	}
}

func (c *producer) allocate() {
	c.pid = -1
	c.s.propose(nil, &metadata.AllocateProducers{Node: 1, Count: 1}, func(result any, err error) {
		c.pid = 0
		if r, ok := result.(*metadata.ProducersResult); ok && err == nil {
			c.pid = r.First
		}
	})
}

// next builds and sends another batch.
func (c *producer) next() {
	if c.idempotent && c.pid <= 0 {
		return
	}
	p := &send{producer: c, name: fmt.Sprintf("p%d-%d", c.number, c.sent), records: 1 + c.s.random.IntN(3)}
	c.sent++
	var options record.BuildOptions
	if c.idempotent {
		options.Producer = &record.Producer{ID: c.pid, Sequence: c.sequence}
		c.sequence += int32(p.records)
	}
	records := make([]record.Rec, p.records)
	for i := range records {
		value := fmt.Appendf(nil, "%s.%d", p.name, i)
		if c.s.oneIn(20) {
			value = append(value, make([]byte, 1500)...)
		}
		records[i] = record.Rec{Key: []byte(p.name), Value: value, Timestamp: c.s.now.UnixMilli()}
	}
	p.batch = record.Build(options, records...)
	c.window = append(c.window, p)
	p.try()
}

// target is the leader as some node knows it.
func (s *Sim) target(p model.Partition) *node {
	n := s.anyNode(func(n *node) bool { return n.running() && n.serving })
	if n == nil {
		return nil
	}
	if known := n.image.Partition(p); known != nil {
		return s.node(known.Leader)
	}
	return nil
}

func (p *send) try() {
	c := p.producer
	if p.done || p.waiting || c.gone {
		return
	}
	to := c.s.target(c.partition)
	if to == nil {
		p.again()
		return
	}
	p.waiting = true
	p.attempts++
	c.s.links.call(nil, to, produceTimeout, func(answer func(func())) {
		l := to.replicas[c.partition]
		if l == nil {
			answer(func() { p.refused(refusal.New(refusal.NotLeader, "", "no replica here", "")) })
			return
		}
		l.produce(p, answer)
	}, func(ok bool) {
		p.waiting = false
		if !ok {
			p.again() // unknown
		}
	})
}

func (p *send) again() {
	wait := p.producer.s.between(10*time.Millisecond, 100*time.Millisecond)
	p.producer.s.after(wait, p.try)
}

func (p *send) refused(err error) {
	p.waiting = false
	p.refusal = err
	c := p.producer
	g := c.s.check.ledger(c.partition)
	lost := refusal.Is(err, refusal.OutOfOrderSequence) && (g.lossy || g.start > 0) && p.attempts > 10
	if lost || refusal.Is(err, refusal.UnknownProducer) {
		c.restart()
		return
	}
	p.again()
}

// restart begins anew under another producer id, as clients do when the log has
// forgotten them: by retention, or by losing what they sent where the topic does
// not sync before ack.
func (c *producer) restart() {
	for _, p := range c.window {
		p.done = true
	}
	c.window, c.pid, c.sequence = nil, 0, 0
}

func (p *send) acked(result replica.ProduceResult) {
	c := p.producer
	if p.done {
		return
	}
	p.done = true
	c.ackedAt = c.s.now
	c.s.counts.Acked++
	c.s.check.told(p, result)
}

// consumer reads one partition from its start, through leaders as it finds them.
type consumer struct {
	s         *Sim
	number    int
	partition model.Partition
	next      model.Offset
	gone      bool
}

func (s *Sim) addConsumer(p model.Partition) {
	c := &consumer{s: s, number: len(s.consumers), partition: p}
	s.consumers = append(s.consumers, c)
	s.after(0, c.run)
}

func (c *consumer) run() {
	if c.gone {
		return
	}
	c.s.after(c.s.between(20*time.Millisecond, 80*time.Millisecond), c.run)
	to := c.s.target(c.partition)
	if to == nil {
		return
	}
	latest := c.s.oneIn(4)
	from, told := c.next, c.s.check.ledger(c.partition).told
	c.s.links.call(nil, to, produceTimeout, func(answer func(func())) {
		l := to.replicas[c.partition]
		if l == nil || !to.leaseValid() {
			return
		}
		if latest {
			if end, err := l.replica.LatestOffset(); err == nil {
				now := answerOf{l.replica.LeaderEpoch(), end}
				answer(func() { c.s.check.latest(c, to, told, now) })
			}
			return
		}
		data, err := l.replica.Read(from, 2000)
		answer(func() { c.take(from, data, err) })
	}, func(bool) {})
}

func (c *consumer) take(from model.Offset, data []byte, err error) {
	if from != c.next {
		return // an older read
	}
	if refusal.Is(err, refusal.OffsetOutOfRange) {
		// Deleted meanwhile: go on at what is left.
		if start := c.s.check.ledger(c.partition).start; start > c.next {
			c.next = start
		}
		return
	}
	if err == nil {
		c.next = c.s.check.consumed(c, data)
	}
}
