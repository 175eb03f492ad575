package peer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/ister-mq/ister/broker/internal/model"
	"github.com/ister-mq/ister/broker/internal/refusal"
)

func listen(t testing.TB, id Identity) *Endpoint {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	e := New(Config{Listener: l, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	e.SetIdentity(id)
	t.Cleanup(func() { _ = e.Close() })
	return e
}

func member(node model.NodeID) Identity {
	return Identity{Cluster: "c1", Node: node, Incarnation: model.Incarnation("inc" + node.String()), Epoch: 7}
}

func to(e *Endpoint) Target { return Target{Address: e.Addr().String()} }

func TestCallCarriesRefusalsFaultsAndIdentity(t *testing.T) {
	a, b := listen(t, member(1)), listen(t, member(2))
	b.Handle("echo", MembersOnly, func(_ context.Context, from Identity, request json.RawMessage) (any, error) {
		return map[string]any{"from": from.Node, "body": request}, nil
	})
	b.Handle("no", MembersOnly, func(context.Context, Identity, json.RawMessage) (any, error) {
		return nil, refusal.New(refusal.TopicExists, "t", "it exists", "pick another")
	})
	b.Handle("broken", MembersOnly, func(context.Context, Identity, json.RawMessage) (any, error) {
		return nil, errors.New("disk on fire")
	})
	b.Start()
	var got struct {
		From model.NodeID
		Body string
	}
	if err := a.Call(t.Context(), to(b), "echo", "hello", &got); err != nil || got.From != 1 || got.Body != "hello" {
		t.Errorf("echo: %+v, %v", got, err)
	}
	err := a.Call(t.Context(), to(b), "no", nil, nil)
	if r := refusal.As(err); r == nil || r.Reason != refusal.TopicExists || r.Advice != "pick another" || Unsent(err) {
		t.Errorf("refusal: %v", err)
	}
	if err := a.Call(t.Context(), to(b), "broken", nil, nil); err == nil || Unsent(err) {
		t.Errorf("fault: %v", err)
	}
	if err := a.Call(t.Context(), to(b), "nothing", nil, nil); err == nil || !Unsent(err) {
		t.Errorf("unknown method: %v, want an unsent error", err)
	}
}

func TestHandshakeRefusesByType(t *testing.T) {
	b := listen(t, member(2))
	b.Handle("open", Anyone, func(context.Context, Identity, json.RawMessage) (any, error) { return "hi", nil })
	b.Handle("closed", MembersOnly, func(context.Context, Identity, json.RawMessage) (any, error) { return "hi", nil })
	b.SetVerifier(func(from Identity) *refusal.Refusal {
		switch {
		case from.Node == 9:
			return refusal.New(refusal.NodeRemoved, "node 9", "it was removed", "format it")
		case from.Epoch < 7:
			return refusal.New(refusal.StaleNodeEpoch, "node", "it restarted since", "retry")
		}
		return nil
	})
	b.Start()
	stale := member(3)
	stale.Epoch = 6
	for name, c := range map[string]struct {
		from Identity
		to   Target
		want refusal.Reason
	}{
		"fresh node":        {Identity{Incarnation: "x"}, to(b), refusal.WrongCluster},
		"other cluster":     {Identity{Cluster: "c2", Node: 1, Incarnation: "x"}, to(b), refusal.WrongCluster},
		"removed node":      {member(9), to(b), refusal.NodeRemoved},
		"older process":     {stale, to(b), refusal.StaleNodeEpoch},
		"for another node":  {member(1), Target{Address: b.Addr().String(), Node: 5}, refusal.WrongIncarnation},
		"for an older disk": {member(1), Target{Address: b.Addr().String(), Node: 2, Incarnation: "old"}, refusal.WrongIncarnation},
	} {
		a := listen(t, c.from)
		if err := a.Call(t.Context(), c.to, "closed", nil, nil); !refusal.Is(err, c.want) || !Unsent(err) {
			t.Errorf("%s: %v, want %s, unsent", name, err, c.want)
		}
		if _, err := a.Raft().Dial(c.to, time.Second); !refusal.Is(err, c.want) {
			t.Errorf("%s, raft: %v, want %s", name, err, c.want)
		}
		var hi string
		if err := a.Call(t.Context(), c.to, "open", nil, &hi); err != nil || hi != "hi" {
			t.Errorf("%s, method for anyone: %q, %v", name, hi, err)
		}
	}
}

func TestCallAfterRestartOfTheOtherSideIsSent(t *testing.T) {
	a, b := listen(t, member(1)), listen(t, member(2))
	answer := func(context.Context, Identity, json.RawMessage) (any, error) { return 1, nil }
	b.Handle("m", MembersOnly, answer)
	b.Start()
	target := to(b)
	if err := a.Call(t.Context(), target, "m", nil, nil); err != nil {
		t.Fatal(err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	err := a.Call(t.Context(), target, "m", nil, nil)
	if !Unsent(err) || !Gone(err) {
		t.Errorf("nobody listens: %v, want unsent and gone", err)
	}
	l, err := net.Listen("tcp", target.Address)
	if err != nil {
		t.Fatal(err)
	}
	c := New(Config{Listener: l, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	defer func() { _ = c.Close() }()
	c.SetIdentity(member(2))
	c.Handle("m", MembersOnly, answer)
	c.Start()
	if err := a.Call(t.Context(), target, "m", nil, nil); err != nil {
		t.Errorf("after the restart: %v", err)
	}
}

func TestCallEndsWithItsContext(t *testing.T) {
	a, b := listen(t, member(1)), listen(t, member(2))
	b.Handle("slow", MembersOnly, func(ctx context.Context, _ Identity, _ json.RawMessage) (any, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	})
	b.Start()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := a.Call(ctx, to(b), "slow", nil, nil); err == nil || Unsent(err) {
		t.Errorf("%v, want a sent error", err)
	}
}

func TestStrangersAndOversizedFramesAreDropped(t *testing.T) {
	b := listen(t, member(2))
	b.Start()
	for name, bytes := range map[string]string{
		"http":           "GET / HTTP/1.1\r\n\r\n",
		"newer version":  "ISTP\x09\x02\x00\x02{}",
		"unknown stream": "ISTP\x01\x09\x00\x02{}",
		"not json":       "ISTP\x01\x02\x00\x02x}",
	} {
		c, err := net.Dial("tcp", b.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Write([]byte(bytes)); err != nil {
			t.Fatal(err)
		}
		_ = c.SetReadDeadline(time.Now().Add(5 * time.Second))
		if n, err := io.Copy(io.Discard, c); n != 0 || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: answered with %d bytes, %v", name, n, err)
		}
		_ = c.Close()
	}
	local, remote := net.Pipe()
	go func() { _, _ = local.Write([]byte{0xff, 0xff, 0xff, 0xff}) }()
	if err := readFrame(remote, &callFrame{}); err == nil {
		t.Error("a frame of 4 GiB was accepted")
	}
}

func TestGoneIsReportedWhenAMembersConnectionEnds(t *testing.T) {
	a, b := listen(t, member(1)), listen(t, member(2))
	gone := make(chan Identity, 1)
	b.OnGone(func(from Identity) { gone <- from })
	b.Handle("m", MembersOnly, func(context.Context, Identity, json.RawMessage) (any, error) { return 1, nil })
	b.Start()
	a.Start()
	if err := a.Call(t.Context(), to(b), "m", nil, nil); err != nil {
		t.Fatal(err)
	}
	if by, err := b.Probe(t.Context(), to(a)); err != nil || by.Node != 1 {
		t.Errorf("probe of a live node: %+v, %v", by, err)
	}
	target := to(a)
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if from := <-gone; from.Node != 1 {
		t.Errorf("gone: %+v", from)
	}
	if _, err := b.Probe(t.Context(), target); !Gone(err) {
		t.Errorf("probe of a dead node: %v, want connection refused", err)
	}
}

// scripted answers fetches with a function.
type scripted struct {
	mu      sync.Mutex
	open    int
	closed  chan struct{}
	sent    int
	respond func(ctx context.Context, request *FetchRequest, response *FetchResponse) error
}

func (s *scripted) OpenSession(Identity) (FetchSession, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open++
	return s, nil
}

func (s *scripted) Fetch(ctx context.Context, request *FetchRequest, response *FetchResponse) error {
	return s.respond(ctx, request, response)
}

func (s *scripted) Sent(*FetchResponse) { s.sent++ }
func (s *scripted) Close()              { close(s.closed) }

func TestFetchSessionCarriesEveryField(t *testing.T) {
	a, b := listen(t, member(1)), listen(t, member(2))
	p := model.Partition{Topic: model.TopicID{1, 2, 3}, Index: 4}
	q := model.Partition{Topic: model.TopicID{9}, Index: 0}
	want := FetchRequest{
		MaxBytes: 1 << 20, MaxWait: 500 * time.Millisecond,
		Changed: []FetchPosition{{Partition: p, LeaderEpoch: 3, LastFetchedEpoch: model.NoEpoch, Offset: 1 << 40, LogStart: 5, MaxBytes: 77}},
		Removed: []model.Partition{q},
	}
	big := bytes.Repeat([]byte("b"), 3<<20)
	answer := FetchResponse{Partitions: []FetchResult{
		{Partition: p, LeaderEpoch: 3, HighWatermark: 8, LogStart: 5, Batches: big},
		{Partition: q, LeaderEpoch: 4, Diverging: true, DivergingEpoch: model.NoEpoch, DivergingEnd: 9, Batches: []byte{}},
		{Partition: q, Reason: refusal.FencedLeaderEpoch, Batches: []byte("x")},
	}}
	s := &scripted{closed: make(chan struct{})}
	s.respond = func(_ context.Context, request *FetchRequest, response *FetchResponse) error {
		if len(request.Changed) != 1 || request.Changed[0] != want.Changed[0] || len(request.Removed) != 1 || request.Removed[0] != q ||
			request.MaxBytes != want.MaxBytes || request.MaxWait != want.MaxWait {
			t.Errorf("request %+v, want %+v", request, want)
		}
		response.Partitions = append(response.Partitions, answer.Partitions...)
		return nil
	}
	b.HandleFetch(s)
	b.Start()
	c, err := a.OpenFetch(t.Context(), to(b))
	if err != nil {
		t.Fatal(err)
	}
	var got FetchResponse
	for range 3 {
		if err := c.Fetch(t.Context(), &want, &got); err != nil {
			t.Fatal(err)
		}
		if len(got.Partitions) != len(answer.Partitions) {
			t.Fatalf("%d partitions", len(got.Partitions))
		}
		for i, g := range got.Partitions {
			w := answer.Partitions[i]
			if !bytes.Equal(g.Batches, w.Batches) {
				t.Errorf("partition %d: %d bytes, want %d", i, len(g.Batches), len(w.Batches))
			}
			g.Batches, w.Batches = nil, nil
			if g.Partition != w.Partition || g.LeaderEpoch != w.LeaderEpoch || g.HighWatermark != w.HighWatermark || g.LogStart != w.LogStart ||
				g.Diverging != w.Diverging || g.DivergingEpoch != w.DivergingEpoch || g.DivergingEnd != w.DivergingEnd || g.Reason != w.Reason {
				t.Errorf("partition %d: %+v, want %+v", i, g, w)
			}
		}
	}
	_ = c.Close()
	<-s.closed
	if s.sent != 3 {
		t.Errorf("Sent was called %d times, want 3", s.sent)
	}
}

func TestFetchLongPollEndsWithTheConnection(t *testing.T) {
	a, b := listen(t, member(1)), listen(t, member(2))
	s := &scripted{closed: make(chan struct{})}
	polling := make(chan struct{})
	s.respond = func(ctx context.Context, _ *FetchRequest, _ *FetchResponse) error {
		close(polling)
		<-ctx.Done()
		return ctx.Err()
	}
	b.HandleFetch(s)
	b.Start()
	c, err := a.OpenFetch(t.Context(), to(b))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-polling
		cancel()
	}()
	if err := c.Fetch(ctx, &FetchRequest{MaxWait: time.Minute}, &FetchResponse{}); !errors.Is(err, context.Canceled) {
		t.Errorf("fetch: %v, want canceled", err)
	}
	_ = c.Close()
	<-s.closed
}

func TestFetchRefusalReachesTheFollower(t *testing.T) {
	a, b := listen(t, member(1)), listen(t, member(2))
	s := &scripted{closed: make(chan struct{})}
	s.respond = func(context.Context, *FetchRequest, *FetchResponse) error {
		return refusal.New(refusal.StaleNodeEpoch, "node 1", "it restarted", "reconnect")
	}
	b.HandleFetch(s)
	b.Start()
	c, err := a.OpenFetch(t.Context(), to(b))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if err := c.Fetch(t.Context(), &FetchRequest{}, &FetchResponse{}); !refusal.Is(err, refusal.StaleNodeEpoch) {
		t.Errorf("got %v", err)
	}
	unregistered := member(3)
	unregistered.Epoch = 0
	d, err := listen(t, unregistered).OpenFetch(t.Context(), to(b))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	if err := d.Fetch(t.Context(), &FetchRequest{}, &FetchResponse{}); !refusal.Is(err, refusal.NodeNotReady) {
		t.Errorf("unregistered follower: %v", err)
	}
}

func FuzzFetchWire(f *testing.F) {
	req, _ := appendRequest(nil, 1, &FetchRequest{Changed: make([]FetchPosition, 2), Removed: make([]model.Partition, 1)})
	resp, _ := appendResponse(nil, 1, &FetchResponse{Partitions: []FetchResult{{Reason: "X", Batches: []byte("abc")}}})
	f.Add(req[fetchHeadSize:], []byte(nil))
	f.Add(resp[fetchHeadSize:], []byte("abc"))
	f.Fuzz(func(t *testing.T, meta, body []byte) {
		var r FetchRequest
		if parseRequest(meta, &r) == nil {
			b, err := appendRequest(nil, 0, &r)
			if err == nil && !bytes.Equal(b[fetchHeadSize+8:], meta[8:]) {
				t.Errorf("request does not round-trip")
			}
		}
		var p FetchResponse
		_ = parseResponse(meta, body, &p)
		if len(meta) >= fetchHeadSize {
			_, _ = parseFetchHead(meta)
		}
	})
}

// BenchmarkFetchSession is one round: what a record alone in its batch costs, and
// what much data does.
func BenchmarkFetchSession(b *testing.B) {
	for _, c := range []struct{ partitions, bytes int }{{1, 200}, {12, 64 << 10}} {
		b.Run(fmt.Sprintf("partitions=%d,bytes=%d", c.partitions, c.bytes), func(b *testing.B) {
			benchFetchSession(b, c.partitions, make([]byte, c.bytes))
		})
	}
}

func benchFetchSession(b *testing.B, partitions int, batch []byte) {
	x, y := listen(b, member(1)), listen(b, member(2))
	s := &scripted{closed: make(chan struct{})}
	s.respond = func(_ context.Context, _ *FetchRequest, response *FetchResponse) error {
		for i := range partitions {
			response.Partitions = append(response.Partitions, FetchResult{Partition: model.Partition{Index: int32(i)}, Batches: batch})
		}
		return nil
	}
	y.HandleFetch(s)
	y.Start()
	c, err := x.OpenFetch(b.Context(), to(y))
	if err != nil {
		b.Fatal(err)
	}
	request := &FetchRequest{MaxBytes: 8 << 20, Changed: make([]FetchPosition, partitions)}
	var response FetchResponse
	b.SetBytes(int64(partitions * len(batch)))
	b.ReportAllocs()
	for b.Loop() {
		if err := c.Fetch(b.Context(), request, &response); err != nil {
			b.Fatal(err)
		}
	}
	_ = c.Close()
	<-s.closed
}
