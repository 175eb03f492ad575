package sim

import (
	"container/heap"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/ister-mq/ister/broker/internal/metadata"
	"github.com/ister-mq/ister/broker/internal/model"
)

// Config bounds a run. The zero value takes the defaults.
type Config struct {
	Nodes   int           // at the start; default 3 or 4 by the seed
	Faults  time.Duration // of virtual time; default 8 s
	Live    time.Duration // of virtual time until everything must be live; default 60 s
	TraceTo func(line string)
}

// Violation is a broken invariant.
type Violation struct {
	Invariant string
	Detail    string
	At        time.Duration // virtual
}

// Error implements error.
func (v *Violation) Error() string { return fmt.Sprintf("%s at %v: %s", v.Invariant, v.At, v.Detail) }

// Result is what a run did.
type Result struct {
	Seed      uint64
	Hash      uint64 // of the whole trace
	Violation *Violation
	Tail      []string // the end of the trace
	Counts    Counts
}

// Counts tell whether a run was worth something.
type Counts struct {
	Events, Revisions, Elections, Crashes, Moves int
	Acked, Duplicates, Truncations, Consumed     int
	Terms                                        int
	Virtual                                      time.Duration
}

// tailLines bounds the trace that a result keeps.
const tailLines = 250

// Sim is one simulated cluster.
type Sim struct {
	cfg    Config
	seed   uint64
	random *rand.Rand
	start  time.Time
	now    time.Time

	events eventQueue
	order  uint64

	quorum    *quorum
	nodes     []*node // by id; the index is not the id
	links     links
	producers []*producer
	consumers []*consumer
	check     *checker
	admin     *admin
	healed    bool // the second phase: no new faults
	// How this seed is: followers leave the ISR after lagMax, metadata is very
	// late once in lateMetadata deliveries, leaders delete the start of their logs.
	// The operator and the nemesis act once in about pace and strikes.
	lagMax        time.Duration
	lateMetadata  int
	retention     bool
	pace, strikes time.Duration

	tail      []string
	tailAt    int
	hash      interface{ Sum64() uint64 }
	write     func([]byte)
	counts    Counts
	violation *Violation
}

// Run simulates one seed.
func Run(seed uint64, cfg Config) Result {
	s := newSim(seed, cfg)
	s.form()
	s.runUntil(s.start.Add(s.cfg.Faults))
	if s.violation == nil {
		s.heal()
	}
	s.counts.Virtual = s.now.Sub(s.start)
	return Result{Seed: seed, Hash: s.hash.Sum64(), Violation: s.violation, Tail: s.lastLines(), Counts: s.counts}
}

func newSim(seed uint64, cfg Config) *Sim {
	random := rand.New(rand.NewPCG(seed, 0x5eed))
	if cfg.Nodes == 0 {
		cfg.Nodes = 3 + random.IntN(2)
	}
	if cfg.Faults == 0 {
		cfg.Faults = 8 * time.Second
	}
	if cfg.Live == 0 {
		cfg.Live = 60 * time.Second
	}
	h := fnv.New64a()
	start := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	s := &Sim{
		cfg: cfg, seed: seed, random: random, start: start, now: start,
		hash: h, write: func(b []byte) { _, _ = h.Write(b) },
	}
	s.quorum = newQuorum(s)
	s.links = newLinks(s)
	s.check = newChecker(s)
	s.admin = &admin{s: s}
	s.lagMax = []time.Duration{40 * time.Millisecond, 150 * time.Millisecond, 500 * time.Millisecond}[random.IntN(3)]
	s.lateMetadata = []int{8, 40, 100}[random.IntN(3)]
	s.retention = s.oneIn(3)
	s.pace = []time.Duration{80 * time.Millisecond, 300 * time.Millisecond, 700 * time.Millisecond}[random.IntN(3)]
	s.strikes = s.between(60*time.Millisecond, 1200*time.Millisecond)
	return s
}

// form makes the first image and starts everything.
func (s *Sim) form() {
	cmd := &metadata.FormCluster{Cluster: "sim"}
	for i := 1; i <= s.cfg.Nodes; i++ {
		n := newNode(s, model.NodeID(i))
		s.nodes = append(s.nodes, n)
		cmd.Nodes = append(cmd.Nodes, metadata.NewNode{ID: n.id, Incarnation: n.incarnation, Endpoints: n.endpoints()})
	}
	s.quorum.bootstrap(cmd)
	for _, n := range s.nodes {
		n.boot()
	}
	s.quorum.elect()
	s.admin.begin()
	s.beginNemesis()
}

// fail records the first violation and ends the run.
func (s *Sim) fail(invariant, format string, args ...any) {
	if s.violation != nil {
		return
	}
	s.violation = &Violation{Invariant: invariant, Detail: fmt.Sprintf(format, args...), At: s.now.Sub(s.start)}
	s.tracef("VIOLATION %s: %s", invariant, s.violation.Detail)
}

// tracef adds a line to the trace.
func (s *Sim) tracef(format string, args ...any) {
	line := fmt.Sprintf("%9.3fms ", float64(s.now.Sub(s.start))/1e6) + fmt.Sprintf(format, args...)
	s.write([]byte(line))
	if len(s.tail) < tailLines {
		s.tail = append(s.tail, line)
	} else {
		s.tail[s.tailAt] = line
		s.tailAt = (s.tailAt + 1) % tailLines
	}
	if s.cfg.TraceTo != nil {
		s.cfg.TraceTo(line)
	}
}

func (s *Sim) lastLines() []string {
	return append(append([]string{}, s.tail[s.tailAt:]...), s.tail[:s.tailAt]...)
}

// Report prints a failed result for people.
func (r Result) Report() string {
	var b strings.Builder
	for _, line := range r.Tail {
		fmt.Fprintln(&b, line)
	}
	fmt.Fprintf(&b, "\nseed %d: %v\nrepeat: make sim SEED=%d\n", r.Seed, r.Violation, r.Seed)
	return b.String()
}

// event is something that happens at a time; ties go by order of scheduling.
type event struct {
	at    time.Time
	order uint64
	do    func()
}

type eventQueue []event

func (q eventQueue) Len() int { return len(q) }
func (q eventQueue) Less(i, j int) bool {
	if !q[i].at.Equal(q[j].at) {
		return q[i].at.Before(q[j].at)
	}
	return q[i].order < q[j].order
}
func (q eventQueue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *eventQueue) Push(x any)   { *q = append(*q, x.(event)) }
func (q *eventQueue) Pop() any {
	old := *q
	e := old[len(old)-1]
	*q = old[:len(old)-1]
	return e
}

// after schedules do. Callers that belong to a node use node.after.
func (s *Sim) after(d time.Duration, do func()) {
	s.order++
	heap.Push(&s.events, event{at: s.now.Add(d), order: s.order, do: do})
}

// eventsMax bounds a run: more means that something spins.
const eventsMax = 3_000_000

func (s *Sim) runUntil(end time.Time) {
	for s.violation == nil && len(s.events) > 0 && !s.events[0].at.After(end) {
		e := heap.Pop(&s.events).(event)
		s.now = e.at
		e.do()
		s.check.afterEvent()
		if s.counts.Events++; s.counts.Events > eventsMax {
			s.fail("bounded", "more than %d events", eventsMax)
		}
	}
	if s.violation == nil && s.now.Before(end) {
		s.now = end
	}
}

// between draws a duration.
func (s *Sim) between(low, high time.Duration) time.Duration {
	return low + time.Duration(s.random.Int64N(int64(high-low)+1))
}

// oneIn reports true once in n draws.
func (s *Sim) oneIn(n int) bool { return s.random.IntN(n) == 0 }

func (s *Sim) node(id model.NodeID) *node {
	for _, n := range s.nodes {
		if n.id == id {
			return n
		}
	}
	return nil
}

// anyNode draws a node that satisfies ok, or nil.
func (s *Sim) anyNode(ok func(*node) bool) *node {
	var fit []*node
	for _, n := range s.nodes {
		if ok(n) {
			fit = append(fit, n)
		}
	}
	if len(fit) == 0 {
		return nil
	}
	return fit[s.random.IntN(len(fit))]
}

func (s *Sim) newUUID() (id [16]byte) {
	for i := range id {
		id[i] = byte(s.random.Uint32())
	}
	return id
}
