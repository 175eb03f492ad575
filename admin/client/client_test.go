package client

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/ister-mq/ister/admin/adminv1"
	"github.com/ister-mq/ister/admin/adminv1/adminv1connect"
)

// node answers calls by number: answers[0] first, the last one from then on.
type node struct {
	adminv1connect.UnimplementedTopicsServiceHandler
	adminv1connect.UnimplementedBrokersServiceHandler
	adminv1connect.UnimplementedOperationsServiceHandler
	answers []func() error
	calls   atomic.Int32
	actor   atomic.Value
	url     string
}

func newNode(t *testing.T, answers ...func() error) *node {
	n := &node{answers: answers}
	mux := http.NewServeMux()
	mux.Handle(adminv1connect.NewTopicsServiceHandler(n))
	mux.Handle(adminv1connect.NewBrokersServiceHandler(n))
	mux.Handle(adminv1connect.NewOperationsServiceHandler(n))
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n.actor.Store(r.Header.Get(ActorHeader))
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	n.url = s.URL
	return n
}

func (n *node) answer() error {
	i := int(n.calls.Add(1)) - 1
	return n.answers[min(i, len(n.answers)-1)]()
}

func (n *node) ListTopics(context.Context, *adminv1.ListTopicsRequest) (*adminv1.ListTopicsResponse, error) {
	return &adminv1.ListTopicsResponse{}, n.answer()
}

func (n *node) CreateTopic(context.Context, *adminv1.CreateTopicRequest) (*adminv1.CreateTopicResponse, error) {
	return &adminv1.CreateTopicResponse{}, n.answer()
}

func (n *node) Cordon(context.Context, *adminv1.CordonRequest) (*adminv1.CordonResponse, error) {
	return &adminv1.CordonResponse{}, n.answer()
}

func (n *node) GetOperation(context.Context, *adminv1.GetOperationRequest) (*adminv1.GetOperationResponse, error) {
	state := adminv1.Operation_RUNNING
	if n.calls.Load() >= 2 {
		state = adminv1.Operation_SUCCEEDED
	}
	return &adminv1.GetOperationResponse{Operation: &adminv1.Operation{OperationId: 1, State: state, MovesTotal: 2, MovesDone: min(2, n.calls.Load())}}, n.answer()
}

func done() error { return nil }

// dropped cuts the connection before the answer.
func dropped() error { panic(http.ErrAbortHandler) }

func refused(kind adminv1.Refusal_Kind, reason string) func() error {
	return func() error {
		err := connect.NewError(connect.CodeUnavailable, errors.New(reason))
		detail, _ := connect.NewErrorDetail(&adminv1.Refusal{Kind: kind, Reason: reason, Message: "message", Advice: "advice", Controller: 3})
		err.AddDetail(detail)
		return err
	}
}

func newClient(t *testing.T, o Options) *Client {
	t.Helper()
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// closedPort is an address where nobody listens.
func closedPort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

type outcomes struct {
	name   string
	call   func(*Client) error
	first  func() error // of node one, once
	reason string       // expected in the end; "" is success
	calls  int32        // at both nodes together
}

func TestWhatIsRepeated(t *testing.T) {
	ctx := context.Background()
	read := func(c *Client) error { _, err := c.Topics.ListTopics(ctx, &adminv1.ListTopicsRequest{}); return err }
	create := func(c *Client) error { _, err := c.Topics.CreateTopic(ctx, &adminv1.CreateTopicRequest{}); return err }
	cordon := func(c *Client) error { _, err := c.Brokers.Cordon(ctx, &adminv1.CordonRequest{}); return err }
	for _, o := range []outcomes{
		{"read, no controller", read, refused(adminv1.Refusal_UNAVAILABLE, "NO_CONTROLLER"), "", 2},
		{"create, no controller: nothing was done", create, refused(adminv1.Refusal_UNAVAILABLE, "NO_CONTROLLER"), "", 2},
		{"create, not the controller any more", create, refused(adminv1.Refusal_REDIRECT, "NOT_CONTROLLER"), "", 2},
		{"create, no member", create, refused(adminv1.Refusal_UNAVAILABLE, "NODE_NOT_READY"), "", 2},
		{"read, answer lost", read, dropped, "", 2},
		{"idempotent, answer lost", cordon, dropped, "", 2},
		{"create, answer lost", create, dropped, "OUTCOME_UNKNOWN", 1},
		{"create, outcome unknown", create, refused(adminv1.Refusal_UNAVAILABLE, "OUTCOME_UNKNOWN"), "OUTCOME_UNKNOWN", 1},
		{"idempotent, outcome unknown", cordon, refused(adminv1.Refusal_UNAVAILABLE, "OUTCOME_UNKNOWN"), "", 2},
		{"create, refused", create, refused(adminv1.Refusal_EXISTS, "TOPIC_EXISTS"), "TOPIC_EXISTS", 1},
		{"read, full", read, refused(adminv1.Refusal_EXHAUSTED, "OVERLOADED"), "OVERLOADED", 1},
		{"create, internal", create, refused(adminv1.Refusal_INTERNAL, "INTERNAL"), "INTERNAL", 1},
		{"create, plain invalid", create, func() error { return connect.NewError(connect.CodeInvalidArgument, errors.New("x")) }, "INVALID_ARGUMENT", 1},
	} {
		one, two := newNode(t, o.first, done), newNode(t, done)
		err := o.call(newClient(t, Options{Endpoints: []string{one.url, two.url}, Actor: "mcp:x"}))
		if got := reasonOf(err); got != o.reason {
			t.Errorf("%s: got %v, expected %q", o.name, err, o.reason)
		}
		if calls := one.calls.Load() + two.calls.Load(); calls != o.calls {
			t.Errorf("%s: %d calls, expected %d", o.name, calls, o.calls)
		}
		if actor := one.actor.Load(); actor != "mcp:x" {
			t.Errorf("%s: actor %v", o.name, actor)
		}
	}
}

func reasonOf(err error) string {
	if err == nil {
		return ""
	}
	if r := AsRefusal(err); r != nil {
		return r.Reason
	}
	return err.Error()
}

func TestRefusalKeepsItsWords(t *testing.T) {
	n := newNode(t, refused(adminv1.Refusal_PRECONDITION, "NODE_HOLDS_REPLICAS"))
	_, err := newClient(t, Options{Endpoints: []string{n.url}}).Topics.ListTopics(context.Background(), &adminv1.ListTopicsRequest{})
	r := AsRefusal(err)
	if r == nil || r.Kind != adminv1.Refusal_PRECONDITION || r.Message != "message" || r.Advice != "advice" || r.Controller != 3 || r.Error() != "NODE_HOLDS_REPLICAS: message; advice" {
		t.Errorf("got %#v", r)
	}
}

func TestWorkingEndpointIsKept(t *testing.T) {
	n := newNode(t, done)
	c := newClient(t, Options{Endpoints: []string{closedPort(t), n.url}})
	for range 3 {
		if _, err := c.Topics.ListTopics(context.Background(), &adminv1.ListTopicsRequest{}); err != nil {
			t.Fatal(err)
		}
	}
	if i, _ := c.endpoints.get(); i != 1 {
		t.Errorf("endpoint %d is asked first, expected 1", i)
	}
}

func TestUnreachableNamesAllEndpoints(t *testing.T) {
	a, b := closedPort(t), closedPort(t)
	_, err := newClient(t, Options{Endpoints: []string{a, b}}).Topics.ListTopics(context.Background(), &adminv1.ListTopicsRequest{})
	var down *Unreachable
	if !errors.As(err, &down) || !strings.Contains(err.Error(), a) || !strings.Contains(err.Error(), b) || !strings.Contains(err.Error(), "connection refused") || down.Advice() == "" {
		t.Errorf("got %v", err)
	}
}

func TestHungEndpointIsLeft(t *testing.T) {
	release := make(chan struct{})
	hung := newNode(t, func() error { <-release; return nil })
	t.Cleanup(func() { close(release) })
	n := newNode(t, done)
	c := newClient(t, Options{Endpoints: []string{hung.url, n.url}, ReadTimeout: 50 * time.Millisecond})
	if _, err := c.Topics.ListTopics(context.Background(), &adminv1.ListTopicsRequest{}); err != nil {
		t.Error(err)
	}
}

// TestHungEndpointGetsNoChange: a change goes past an endpoint that does not
// answer, since it could not be repeated from there.
func TestHungEndpointGetsNoChange(t *testing.T) {
	hung, err := net.Listen("tcp", "127.0.0.1:0") // connects, never answers
	if err != nil {
		t.Fatal(err)
	}
	defer hung.Close()
	n := newNode(t, done)
	c := newClient(t, Options{Endpoints: []string{hung.Addr().String(), n.url}})
	if _, err := c.Topics.CreateTopic(context.Background(), &adminv1.CreateTopicRequest{}); err != nil || n.calls.Load() != 1 {
		t.Errorf("%v, %d calls", err, n.calls.Load())
	}
}

func TestChangeCutOffByTheCallerIsUnknown(t *testing.T) {
	release := make(chan struct{})
	n := newNode(t, func() error { <-release; return nil })
	t.Cleanup(func() { close(release) })
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	c := newClient(t, Options{Endpoints: []string{n.url}})
	if _, err := c.Topics.CreateTopic(ctx, &adminv1.CreateTopicRequest{}); !IsReason(err, ReasonOutcomeUnknown) {
		t.Errorf("change: got %v, expected OUTCOME_UNKNOWN", err)
	}
	if _, err := c.Topics.ListTopics(ctx, &adminv1.ListTopicsRequest{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("read: got %v, expected the deadline", err)
	}
}

func TestCallerContextEndsTheCall(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	n := newNode(t, func() error { cancel(); return refused(adminv1.Refusal_UNAVAILABLE, "NO_CONTROLLER")() })
	if _, err := newClient(t, Options{Endpoints: []string{n.url}}).Topics.ListTopics(ctx, &adminv1.ListTopicsRequest{}); !errors.Is(err, context.Canceled) && !IsReason(err, "NO_CONTROLLER") {
		t.Errorf("got %v", err)
	}
	if n.calls.Load() != 1 {
		t.Errorf("%d calls, expected 1", n.calls.Load())
	}
}

func TestWaitOutlastsTrouble(t *testing.T) {
	n := newNode(t, done, refused(adminv1.Refusal_UNAVAILABLE, "NO_CONTROLLER"), done)
	failures := 0
	op, err := newClient(t, Options{Endpoints: []string{n.url}, RetryFor: time.Nanosecond}).WaitOperation(context.Background(), 1, func(p Progress) {
		if p.Err != nil {
			failures++
		}
	})
	if err != nil || op.GetState() != adminv1.Operation_SUCCEEDED || failures != 1 {
		t.Errorf("%v, %v, %d failed looks", op, err, failures)
	}
}

func TestWaitEndsOnARefusalThatStays(t *testing.T) {
	n := newNode(t, refused(adminv1.Refusal_NOT_FOUND, "OPERATION_NOT_FOUND"))
	if _, err := newClient(t, Options{Endpoints: []string{n.url}}).WaitOperation(context.Background(), 1, nil); !IsReason(err, "OPERATION_NOT_FOUND") {
		t.Errorf("got %v", err)
	}
}

func TestRemainingIsAnEstimateOfTheRate(t *testing.T) {
	for _, c := range []struct {
		op    *adminv1.Operation
		want  time.Duration
		known bool
	}{
		{&adminv1.Operation{BytesTotal: 100, BytesDone: 25}, 30 * time.Second, true},
		{&adminv1.Operation{MovesTotal: 4, MovesDone: 2, BytesTotal: 0}, 10 * time.Second, true},
		{&adminv1.Operation{MovesTotal: 4}, 0, false},
		{&adminv1.Operation{}, 0, false},
		{&adminv1.Operation{BytesTotal: 1, BytesDone: 2}, 0, false},
	} {
		if got, known := remaining(c.op, 10*time.Second); got != c.want || known != c.known {
			t.Errorf("%v: got %v %v, expected %v %v", c.op, got, known, c.want, c.known)
		}
	}
}

func TestEndpoints(t *testing.T) {
	for text, want := range map[string]string{
		"127.0.0.1:50051": "http://127.0.0.1:50051", "http://h:1/": "http://h:1", "[::1]:50051": "http://[::1]:50051",
		"": "", "h": "", "h:": "", ":1": "", "https://h:1": "", "http://h:1/x": "", "http://u@h:1": "", "http://h:1?x": "", "ftp://h:1": "", "h:port": "", "a b:1": "",
	} {
		u, err := ParseEndpoint(text)
		if (err == nil) != (want != "") || err == nil && u.String() != want {
			t.Errorf("%q: got %v, %v, expected %q", text, u, err, want)
		}
	}
	for _, none := range [][]string{nil, {""}, {" ", ""}} {
		if _, err := New(Options{Endpoints: none}); err == nil || !strings.Contains(err.Error(), DefaultEndpoint) {
			t.Errorf("endpoints %q: got %v", none, err)
		}
	}
}

func TestPlainCalls(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("/ister/node", func(w http.ResponseWriter, _ *http.Request) {
		w.Write([]byte(`{"node_id":4,"incarnation":"inc-4","state":"member","endpoints":{"kafka":"10.0.0.4:6650"}}`))
	})
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
		w.Write([]byte(`{"ready":false,"reasons":["not registered yet"]}`))
	})
	s := httptest.NewServer(mux)
	defer s.Close()
	c := newClient(t, Options{Endpoints: []string{s.URL}})
	info, err := c.NodeInfo(context.Background())
	if err != nil || info.Node != 4 || info.Endpoints.Kafka != "10.0.0.4:6650" {
		t.Errorf("node: %+v, %v", info, err)
	}
	ready, err := c.Ready(context.Background())
	if err != nil || ready.Ready || len(ready.Reasons) != 1 {
		t.Errorf("ready: %+v, %v", ready, err)
	}
	other := httptest.NewServer(http.NotFoundHandler())
	defer other.Close()
	c = newClient(t, Options{Endpoints: []string{other.URL}})
	var notAdmin *NotAdmin
	if _, err := c.NodeInfo(context.Background()); !errors.As(err, &notAdmin) {
		t.Errorf("something else: %v", err)
	}
	if _, err := c.Topics.ListTopics(context.Background(), &adminv1.ListTopicsRequest{}); !errors.As(err, &notAdmin) {
		t.Errorf("something else: %v", err)
	}
	var down *Unreachable
	if _, err := newClient(t, Options{Endpoints: []string{closedPort(t)}}).NodeInfo(context.Background()); !errors.As(err, &down) {
		t.Errorf("nobody: %v", err)
	}
}

// A host name that nobody knows fails before there is an address to name.
func TestAnUnknownHostIsNamed(t *testing.T) {
	c, err := New(Options{Endpoints: []string{"no-such-host.invalid:50051"}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, err = c.Cluster.GetStatus(t.Context(), &adminv1.GetStatusRequest{})
	var unreachable *Unreachable
	if !errors.As(err, &unreachable) || !strings.Contains(err.Error(), "lookup no-such-host.invalid") {
		t.Errorf("%v", err)
	}
}
