package quorum

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/ister-mq/ister/broker/internal/model"
)

// counter is a machine that remembers what it applied and when.
type counter struct {
	mu    sync.Mutex
	data  [][]byte
	at    []time.Time
	moved *sync.Cond
}

func newCounter() *counter {
	c := &counter{}
	c.moved = sync.NewCond(&c.mu)
	return c
}

func (c *counter) Apply(entries []Entry) []any {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make([]any, len(entries))
	for i, e := range entries {
		c.data = append(c.data, bytes.Clone(e.Data))
		c.at = append(c.at, time.Now())
		out[i] = len(c.data)
	}
	c.moved.Broadcast()
	return out
}

func (c *counter) Snapshot() func() ([]byte, error) {
	c.mu.Lock()
	data := slices.Clone(c.data)
	c.mu.Unlock()
	return func() ([]byte, error) {
		var b []byte
		for _, d := range data {
			b = binary.BigEndian.AppendUint32(b, uint32(len(d)))
			b = append(b, d...)
		}
		return b, nil
	}
}

func (c *counter) Restore(b []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.data, c.at = nil, nil
	for len(b) >= 4 {
		n := binary.BigEndian.Uint32(b)
		c.data = append(c.data, bytes.Clone(b[4:4+n]))
		c.at = append(c.at, time.Now())
		b = b[4+n:]
	}
	c.moved.Broadcast()
	return nil
}

// wait blocks until n entries are applied.
func (c *counter) wait(n int) (at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.data) < n {
		c.moved.Wait()
	}
	return c.at[n-1]
}

// tcp is a Streams over plain TCP.
type tcp struct{ net.Listener }

func (tcp) Dial(to Member, timeout time.Duration) (net.Conn, error) {
	return net.DialTimeout("tcp", to.Address, timeout)
}

type testNode struct {
	*Quorum
	machine *counter
	member  Member
	dir     string
}

// A heartbeat is handled on its connection's goroutine, and may write a new term.
func TestStoreStaysOpenForTheHeartbeatUnderWay(t *testing.T) {
	n := startNode(t, 1, t.TempDir(), "127.0.0.1:0")
	leader := startNode(t, 2, t.TempDir(), "127.0.0.1:0")
	handling, handled := make(chan struct{}), make(chan struct{})
	n.transport.SetHeartbeatHandler(func(raft.RPC) {
		defer close(handled)
		close(handling)
		<-n.stop // the close goes on meanwhile
		for term := range uint64(200) {
			if err := n.store.SetUint64([]byte("CurrentTerm"), term); err != nil {
				t.Errorf("the term of a heartbeat: %v", err)
				return
			}
		}
	})
	go func() {
		id := serverID(n.member)
		beat := raft.AppendEntriesRequest{RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, Addr: []byte("leader")}, Term: 7, Leader: []byte("leader")}
		_ = leader.transport.AppendEntries(id, raft.ServerAddress(string(id)+"@"+n.member.Address), &beat, &raft.AppendEntriesResponse{})
	}()
	<-handling
	if err := n.Close(); err != nil {
		t.Error(err)
	}
	<-handled
}

type testCluster struct {
	t     testing.TB
	nodes []*testNode
}

func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

func startNode(t testing.TB, id model.NodeID, dir, address string) *testNode {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	n := &testNode{machine: newCounter(), dir: dir, member: Member{Node: id, Incarnation: "inc", Address: l.Addr().String(), Voter: true}}
	n.Quorum, err = Open(Config{Dir: dir, Self: n.member, Streams: tcp{l}, Machine: n.machine, Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = n.Close() })
	return n
}

func startCluster(t testing.TB, size int) *testCluster {
	t.Helper()
	c := &testCluster{t: t}
	var members []Member
	for i := range size {
		n := startNode(t, model.NodeID(i+1), t.TempDir(), "127.0.0.1:0")
		c.nodes = append(c.nodes, n)
		members = append(members, n.member)
	}
	for _, n := range c.nodes {
		if err := n.Bootstrap(members); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// eventually polls a condition that has no event to wait on.
func eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	deadline := time.After(10 * time.Second)
	for !cond() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("timed out waiting until %s", what)
		}
	}
}

func (c *testCluster) leader() *testNode {
	c.t.Helper()
	var found *testNode
	eventually(c.t, "a leader is elected", func() bool {
		for _, n := range c.nodes {
			if n.Leading() && n.Verify(context.Background()) == nil {
				found = n
				return true
			}
		}
		return false
	})
	return found
}

func TestFollowersLearnOfACommitAtOnce(t *testing.T) {
	c := startCluster(t, 3)
	leader := c.leader()
	const proposals = 40
	var late []time.Duration
	for i := range proposals {
		if _, _, err := leader.Propose(t.Context(), []byte(fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
		done := leader.machine.wait(i + 1)
		for _, n := range c.nodes {
			if n != leader {
				late = append(late, n.machine.wait(i+1).Sub(done))
			}
		}
	}
	slices.Sort(late)
	median, worst := late[len(late)/2], late[len(late)-1]
	t.Logf("followers applied after the leader: median %v, p90 %v, worst %v", median, late[len(late)*9/10], worst)
	// Without the nudge the median is CommitTimeout, 50 ms and more.
	if median > 10*time.Millisecond {
		t.Errorf("median %v, want at most 10ms", median)
	}
}

func TestProposeOnAFollowerSaysNotController(t *testing.T) {
	c := startCluster(t, 3)
	leader := c.leader()
	for _, n := range c.nodes {
		if n == leader {
			continue
		}
		if _, _, err := n.Propose(t.Context(), []byte("x")); !errors.Is(err, ErrNotController) {
			t.Errorf("node %v: %v, want ErrNotController", n.member.Node, err)
		}
	}
	if _, _, err := leader.Propose(t.Context(), make([]byte, EntrySizeMax+1)); err == nil {
		t.Error("an oversized entry was accepted")
	}
}

func TestProposeWithoutAMajorityIsUnknown(t *testing.T) {
	c := startCluster(t, 3)
	leader := c.leader()
	for _, n := range c.nodes {
		if n != leader {
			if err := n.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, _, err := leader.Propose(ctx, []byte("x")); !errors.Is(err, ErrOutcomeUnknown) && !errors.Is(err, ErrNotController) {
		t.Errorf("got %v, want ErrOutcomeUnknown", err)
	}
}

func TestLearnerBecomesVoterAndLeaves(t *testing.T) {
	c := startCluster(t, 1)
	leader := c.leader()
	joiner := startNode(t, 2, t.TempDir(), "127.0.0.1:0")
	for i := range 10 {
		if _, _, err := leader.Propose(t.Context(), []byte(fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
	}
	m, err := leader.Members()
	if err != nil {
		t.Fatal(err)
	}
	if err := leader.AddLearner(t.Context(), joiner.member, m.Index-1); !errors.Is(err, ErrConfigurationChanged) && m.Index > 1 {
		t.Errorf("stale fence: %v, want ErrConfigurationChanged", err)
	}
	m = must(leader.Members())(t)
	if err := leader.AddLearner(t.Context(), joiner.member, m.Index); err != nil {
		t.Fatal(err)
	}
	joiner.machine.wait(10)
	if err := leader.Transfer(t.Context(), 2); err == nil {
		t.Error("the leadership was transferred to a learner")
	}
	m = must(leader.Members())(t)
	if err := leader.AddVoter(t.Context(), joiner.member, m.Index); err != nil {
		t.Fatal(err)
	}
	if err := leader.Transfer(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	eventually(t, "node 2 leads", joiner.Leading)
	var left Members
	eventually(t, "the configuration is committed", func() bool {
		left = must(joiner.Members())(t)
		return !left.Pending
	})
	if err := joiner.DemoteVoter(t.Context(), leader.member, left.Index); err != nil {
		t.Fatal(err)
	}
	left = must(joiner.Members())(t)
	if err := joiner.Remove(t.Context(), leader.member, left.Index); err != nil {
		t.Fatal(err)
	}
	left = must(joiner.Members())(t)
	if len(left.All) != 1 || left.All[0].Node != 2 || left.Voters() != 1 {
		t.Errorf("members %+v, want node 2 alone", left.All)
	}
}

func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func TestRestartKeepsTheLogAndTheSnapshot(t *testing.T) {
	dir := t.TempDir()
	n := startNode(t, 1, dir, "127.0.0.1:0")
	if err := n.Bootstrap([]Member{n.member}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "node 1 leads", n.Leading)
	for i := range 20 {
		if _, _, err := n.Propose(t.Context(), []byte(fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
		if i == 10 {
			if err := n.Snapshot(); err != nil {
				t.Fatal(err)
			}
		}
	}
	address := n.member.Address
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	again := startNode(t, 1, dir, address)
	if has := must(again.HasState())(t); !has {
		t.Fatal("state was forgotten")
	}
	again.machine.wait(20)
	if got := string(again.machine.data[19]); got != "19" {
		t.Errorf("entry 20 is %q", got)
	}
}

func TestRepeatedRestoreRaisesTheAlarm(t *testing.T) {
	f := &fsm{machine: newCounter(), log: quiet(), applied: func(uint64) {}}
	restore := func(index uint64) {
		f.opened.Store(index)
		if err := f.Restore(io.NopCloser(bytes.NewReader(nil))); err != nil {
			t.Fatal(err)
		}
	}
	restore(7)
	restore(7)
	restore(9)
	if f.alarms.Load() != 0 {
		t.Error("alarm without cause")
	}
	restore(9)
	restore(9)
	if f.alarms.Load() == 0 {
		t.Error("three restores of one snapshot raised no alarm")
	}
}

func TestStoreIsContiguousAndDurable(t *testing.T) {
	dir := t.TempDir()
	s := must(openStore(dir, quiet()))(t)
	entry := func(i uint64) *raft.Log {
		return &raft.Log{Index: i, Term: 3, Data: []byte{byte(i)}, Extensions: []byte("x"), AppendedAt: time.Unix(5, 6)}
	}
	if _, err := s.Get([]byte("missing")); err == nil || err.Error() != "not found" {
		t.Errorf("missing key: %v, want the text that raft expects", err)
	}
	for i := uint64(5); i <= 30; i++ {
		if err := s.StoreLog(entry(i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.StoreLog(entry(40)); err == nil {
		t.Error("a gap was accepted")
	}
	if err := s.DeleteRange(10, 12); err == nil {
		t.Error("a gap was cut")
	}
	if err := errors.Join(s.DeleteRange(0, 9), s.DeleteRange(25, 99), s.SetUint64([]byte("term"), 8)); err != nil {
		t.Fatal(err)
	}
	if err := s.close(); err != nil {
		t.Fatal(err)
	}
	s = must(openStore(dir, quiet()))(t)
	defer func() { _ = s.close() }()
	if s.first != 10 || s.last != 24 {
		t.Errorf("log is %d to %d, want 10 to 24", s.first, s.last)
	}
	var l raft.Log
	if err := s.GetLog(12, &l); err != nil || l.Term != 3 || !bytes.Equal(l.Data, []byte{12}) || string(l.Extensions) != "x" || !l.AppendedAt.Equal(time.Unix(5, 6)) {
		t.Errorf("entry 12: %+v, %v", l, err)
	}
	if err := s.GetLog(25, &l); !errors.Is(err, raft.ErrLogNotFound) {
		t.Errorf("deleted entry: %v", err)
	}
	if term, err := s.GetUint64([]byte("term")); term != 8 || err != nil {
		t.Errorf("term %d, %v", term, err)
	}
}

func TestEntryOfANewerFormatIsRefused(t *testing.T) {
	b := encodeEntry(&raft.Log{Term: 1, Data: []byte("d")})
	var l raft.Log
	for name, bad := range map[string][]byte{
		"newer": append([]byte{entryVersion + 1}, b[1:]...),
		"short": b[:entryHeaderSize-1],
		"cut":   b[:len(b)-1],
	} {
		if err := decodeEntry(1, bad, &l); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func BenchmarkPropose(b *testing.B) {
	for _, callers := range []int{1, 64} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			c := startCluster(b, 3)
			leader := c.leader()
			data := make([]byte, 256)
			b.SetParallelism(max(1, callers/2))
			took := make(chan time.Duration, b.N+1)
			b.ResetTimer()
			run := func(pb interface{ Next() bool }) {
				for pb.Next() {
					start := time.Now()
					if _, _, err := leader.Propose(context.Background(), data); err != nil {
						b.Error(err)
						return
					}
					took <- time.Since(start)
				}
			}
			if callers == 1 {
				run(&countdown{n: b.N})
			} else {
				b.RunParallel(func(pb *testing.PB) { run(pb) })
			}
			b.StopTimer()
			close(took)
			var all []time.Duration
			for d := range took {
				all = append(all, d)
			}
			slices.Sort(all)
			b.ReportMetric(float64(len(all))/b.Elapsed().Seconds(), "ops/s")
			b.ReportMetric(float64(all[len(all)/2].Microseconds()), "p50-µs")
			b.ReportMetric(float64(all[len(all)*99/100].Microseconds()), "p99-µs")
		})
	}
}

// countdown is a serial stand-in for testing.PB.
type countdown struct{ n int }

// Next reports whether another round is due.
func (c *countdown) Next() bool {
	c.n--
	return c.n >= 0
}
