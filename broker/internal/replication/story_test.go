package replication

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/ister-mq/ister/broker/internal/model"
)

// epochLog is a log reduced to what the rules look at: the epoch of each record,
// and epochs assigned without records.
type epochLog struct {
	start   model.Offset
	records []model.LeaderEpoch // epoch of each record from start
	entries []epochEntry        // the epoch checkpoint
}

type epochEntry struct {
	epoch model.LeaderEpoch
	start model.Offset
}

func (l *epochLog) LogStart() model.Offset { return l.start }
func (l *epochLog) LogEnd() model.Offset   { return l.start + model.Offset(len(l.records)) }

func (l *epochLog) last() model.LeaderEpoch {
	if len(l.entries) == 0 {
		return model.NoEpoch
	}
	return l.entries[len(l.entries)-1].epoch
}

func (l *epochLog) EndOffsetFor(epoch model.LeaderEpoch) (model.LeaderEpoch, model.Offset) {
	for i := len(l.entries) - 1; i >= 0; i-- {
		if l.entries[i].epoch > epoch {
			continue
		}
		if i+1 < len(l.entries) {
			return l.entries[i].epoch, l.entries[i+1].start
		}
		return l.entries[i].epoch, l.LogEnd()
	}
	return model.NoEpoch, l.start
}

func (l *epochLog) assign(epoch model.LeaderEpoch) {
	if l.last() < epoch {
		l.entries = append(l.entries, epochEntry{epoch, l.LogEnd()})
	}
}

func (l *epochLog) append(epoch model.LeaderEpoch, n int) {
	l.assign(epoch)
	for range n {
		l.records = append(l.records, epoch)
	}
}

func (l *epochLog) truncate(to model.Offset) {
	l.records = l.records[:to-l.start]
	for len(l.entries) > 0 && l.entries[len(l.entries)-1].start >= to {
		l.entries = l.entries[:len(l.entries)-1]
	}
}

func (l *epochLog) restart(at model.Offset) { *l = epochLog{start: at} }

func (l *epochLog) delete(to model.Offset) {
	l.records = l.records[to-l.start:]
	l.start = to
	for len(l.entries) > 1 && l.entries[1].start <= to {
		l.entries = l.entries[1:]
	}
	if len(l.entries) > 0 {
		l.entries[0].start = max(l.entries[0].start, to)
	}
}

func (l *epochLog) String() string {
	words := make([]string, len(l.entries))
	for i, e := range l.entries {
		words[i] = fmt.Sprintf("%d@%d", e.epoch, e.start)
	}
	return fmt.Sprintf("%d..%d epochs [%s]", l.start, l.LogEnd(), strings.Join(words, " "))
}

// sync fetches until the follower's log is the leader's, and tells each step.
func follow(leader, follower *epochLog, tell func(string)) {
	for range 20 {
		verdict, d := Judge(leader, follower.LogEnd(), follower.last())
		ask := fmt.Sprintf("asks from %d after epoch %d: ", follower.LogEnd(), follower.last())
		switch verdict {
		case TooOld:
			tell(ask + fmt.Sprintf("too old, starts anew at %d", leader.start))
			follower.restart(leader.start)
		case Diverges:
			to, restart := Repair(follower, leader.start, d)
			if restart {
				tell(ask + fmt.Sprintf("diverges, epoch %d ends at %d; starts anew at %d", d.Epoch, d.End, leader.start))
				follower.restart(leader.start)
				continue
			}
			tell(ask + fmt.Sprintf("diverges, epoch %d ends at %d; truncates to %d", d.Epoch, d.End, to))
			follower.truncate(to)
		case Prefix:
			from := follower.LogEnd()
			for _, epoch := range leader.records[from-leader.start:] {
				follower.append(epoch, 1)
			}
			if leader.start > follower.start {
				follower.delete(leader.start) // below it, nothing was compared
			}
			tell(ask + fmt.Sprintf("gets %d to %d", from, follower.LogEnd()))
			return
		}
	}
	tell("never ends")
}

type story struct {
	leader *Leader
	now    time.Time
	open   Proposal
	logs   map[string]*epochLog
}

// TestStories runs testdata: each file tells how one rule plays out.
func TestStories(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		s := &story{now: time.Unix(0, 0), logs: map[string]*epochLog{}}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string { return s.run(t, d) })
	})
}

func (s *story) run(t *testing.T, d *datadriven.TestData) string {
	moved := false
	switch d.Cmd {
	case "lead":
		s.leader = NewLeader(1, 2*time.Second, assignment(t, d), offset(d, "log"), offset(d, "counted"), offset(d, "hw"), s.now)
	case "assign":
		moved = s.leader.Assign(assignment(t, d), s.now)
	case "append":
		s.leader.Appended(offset(d, "to"), s.now)
	case "counted":
		moved = s.leader.Counted(offset(d, "to"), s.now)
	case "fetch":
		moved = s.leader.Fetched(model.NodeID(number(d, "node", 0)), model.NodeEpoch(number(d, "epoch", 1)), offset(d, "from"), s.now)
	case "after":
		wait, err := time.ParseDuration(d.CmdArgs[0].Key)
		if err != nil {
			t.Fatal(err)
		}
		s.now = s.now.Add(wait)
		moved = s.leader.Tick(s.now)
	case "propose":
		p, ok := s.leader.Propose(s.now)
		if !ok {
			return "nothing to propose\n"
		}
		s.open = p
		members := make([]string, len(p.ISR))
		for i, m := range p.ISR {
			members[i] = fmt.Sprintf("%d@%d", m.Node, m.Epoch)
		}
		return fmt.Sprintf("leader epoch %d, partition epoch %d: isr %s\n", p.LeaderEpoch, p.PartitionEpoch, strings.Join(members, ","))
	case "failed":
		moved = s.leader.Failed(s.open, 50*time.Millisecond, s.now)
	case "latest":
		latest, ok := s.leader.Latest()
		return fmt.Sprintf("%d available=%v\n", latest, ok)
	case "log":
		return s.defineLog(d)
	case "follow":
		var b strings.Builder
		leader, follower := s.logs[d.CmdArgs[1].Key], s.logs[d.CmdArgs[0].Key]
		follow(leader, follower, func(line string) { fmt.Fprintln(&b, line) })
		fmt.Fprintf(&b, "%s: %v\n", d.CmdArgs[0].Key, follower)
		return b.String()
	default:
		t.Fatalf("%s: no such command", d.Pos)
	}
	out := s.leader.Describe(s.now) + "\n"
	if moved {
		out = "high watermark moved\n" + out
	}
	return out
}

// defineLog reads "log name start=n" and, one line each, "epoch count" or
// "delete offset".
func (s *story) defineLog(d *datadriven.TestData) string {
	l := &epochLog{start: offset(d, "start")}
	for _, line := range strings.Split(d.Input, "\n") {
		words := strings.Fields(line)
		if len(words) != 2 {
			continue
		}
		n, _ := strconv.Atoi(words[1])
		if words[0] == "delete" {
			l.delete(model.Offset(n))
			continue
		}
		epoch, _ := strconv.Atoi(words[0])
		l.append(model.LeaderEpoch(epoch), n)
	}
	s.logs[d.CmdArgs[0].Key] = l
	return fmt.Sprintf("%s: %v\n", d.CmdArgs[0].Key, l)
}

func assignment(t *testing.T, d *datadriven.TestData) Assignment {
	a := Assignment{
		LeaderEpoch:    model.LeaderEpoch(number(d, "epoch", 1)),
		PartitionEpoch: model.PartitionEpoch(number(d, "partition-epoch", 0)),
		MinISR:         int(number(d, "min", 2)),
		Eligible:       map[model.NodeID]model.NodeEpoch{},
	}
	for _, arg := range d.CmdArgs {
		for _, v := range arg.Vals {
			id, epoch, at := strings.Cut(v, "@")
			n, err := strconv.Atoi(id)
			if err != nil && (arg.Key == "replicas" || arg.Key == "isr" || arg.Key == "eligible") {
				t.Fatalf("%s: %v", d.Pos, err)
			}
			switch arg.Key {
			case "replicas":
				a.Replicas = append(a.Replicas, model.NodeID(n))
			case "isr":
				a.ISR = append(a.ISR, model.NodeID(n))
			case "eligible":
				e := 1
				if at {
					e, _ = strconv.Atoi(epoch)
				}
				a.Eligible[model.NodeID(n)] = model.NodeEpoch(e)
			}
		}
	}
	if !d.HasArg("eligible") {
		for _, id := range a.Replicas {
			a.Eligible[id] = 1
		}
	}
	return a
}

func number(d *datadriven.TestData, key string, otherwise int64) int64 {
	for _, arg := range d.CmdArgs {
		if arg.Key == key {
			n, err := strconv.ParseInt(arg.Vals[0], 10, 64)
			if err != nil {
				panic(err)
			}
			return n
		}
	}
	return otherwise
}

func offset(d *datadriven.TestData, key string) model.Offset { return model.Offset(number(d, key, 0)) }

// TestFollowersConverge: whatever logs a history of elections leaves behind, a
// follower ends up with its leader's log, drops nothing that they share, and
// needs at most one round per epoch.
func TestFollowersConverge(t *testing.T) {
	for seed := range uint64(5000) {
		random := rand.New(rand.NewPCG(seed, 1))
		logs := [3]*epochLog{{}, {}, {}}
		for epoch := model.LeaderEpoch(0); epoch < model.LeaderEpoch(random.IntN(8)); epoch++ {
			leader := logs[random.IntN(3)]
			leader.assign(epoch)
			for range random.IntN(4) {
				leader.append(epoch, random.IntN(3))
				if follower := logs[random.IntN(3)]; follower != leader {
					follow(leader, follower, func(string) {})
				}
			}
			if random.IntN(4) == 0 {
				leader.delete(leader.start + model.Offset(random.IntN(len(leader.records)+1)))
			}
		}
		leader, follower := logs[0], logs[1]
		leader.assign(100)
		var steps []string
		before := fmt.Sprint(leader, " <- ", follower)
		follow(leader, follower, func(step string) { steps = append(steps, step) })
		if follower.LogEnd() != leader.LogEnd() || len(steps) > 12 {
			t.Fatalf("seed %d: %s:\n%s\nends as %v", seed, before, strings.Join(steps, "\n"), follower)
		}
		from := max(follower.start, leader.start)
		for off := from; off < leader.LogEnd(); off++ {
			if follower.records[off-follower.start] != leader.records[off-leader.start] {
				t.Fatalf("seed %d: %s: logs differ at %d:\n%s", seed, before, off, strings.Join(steps, "\n"))
			}
		}
	}
}

// TestHighWatermark checks on random histories of one epoch that the high
// watermark never goes back, stands still below min ISR, and is held by every
// member of the ISR and everyone who may have become one.
func TestHighWatermark(t *testing.T) {
	for seed := range uint64(2000) {
		random := rand.New(rand.NewPCG(seed, 2))
		now := time.Unix(0, 0)
		a := Assignment{
			Replicas: []model.NodeID{1, 2, 3, 4}, ISR: []model.NodeID{1, 2, 3}, LeaderEpoch: 1, MinISR: 1 + random.IntN(3),
			Eligible: map[model.NodeID]model.NodeEpoch{1: 1, 2: 1, 3: 1, 4: 1},
		}
		l := NewLeader(1, 2*time.Second, a, 0, 0, 0, now)
		var log, counted model.Offset
		var ends [5]model.Offset
		doubtful := map[model.NodeID]bool{}
		for step := range 200 {
			before, frozen := l.HighWatermark(), len(a.ISR) < a.MinISR
			now = now.Add(time.Duration(random.IntN(1000)) * time.Millisecond)
			switch random.IntN(6) {
			case 0:
				log += model.Offset(random.IntN(3))
				l.Appended(log, now)
			case 1:
				counted = min(log, counted+model.Offset(random.IntN(3)))
				l.Counted(counted, now)
			case 2, 3:
				id := model.NodeID(2 + random.IntN(3))
				ends[id] = min(log, ends[id]+model.Offset(random.IntN(3)))
				l.Fetched(id, 1, ends[id]-model.Offset(random.IntN(2)), now)
			case 4:
				l.Tick(now)
			case 5:
				p, ok := l.Propose(now)
				if !ok {
					break
				}
				for _, id := range p.nodes() {
					doubtful[id] = true
				}
				if random.IntN(2) == 0 {
					l.Failed(p, 0, now)
					break
				}
				a.ISR, a.PartitionEpoch = p.nodes(), a.PartitionEpoch+1
				clear(doubtful)
				frozen = frozen && len(a.ISR) < a.MinISR
				l.Assign(a, now)
			}
			hw := l.HighWatermark()
			if hw < before || frozen && hw != before || hw > counted {
				t.Fatalf("seed %d step %d: high watermark %d after %d, counted %d, frozen %v: %s", seed, step, hw, before, counted, frozen, l.Describe(now))
			}
			for _, id := range a.Replicas[1:] {
				if hw > before && hw > ends[id] && (model.HasNode(a.ISR, id) || doubtful[id]) {
					t.Fatalf("seed %d step %d: high watermark %d is above node %d at %d: %s", seed, step, hw, id, ends[id], l.Describe(now))
				}
			}
		}
	}
}
