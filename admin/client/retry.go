package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"

	"github.com/ister-mq/ister/admin/adminv1"
)

// endpoints remembers which endpoint worked last, and when.
type endpoints struct {
	urls    []*url.URL
	current atomic.Uint32
	goodAt  []atomic.Int64 // Unix nanoseconds, per endpoint
}

func newEndpoints(urls []*url.URL) *endpoints {
	return &endpoints{urls: urls, goodAt: make([]atomic.Int64, len(urls))}
}

func (e *endpoints) good(i uint32) { e.goodAt[int(i)%len(e.urls)].Store(time.Now().UnixNano()) }

// fresh reports an endpoint that answered a moment ago.
func (e *endpoints) fresh(i uint32) bool {
	return time.Since(time.Unix(0, e.goodAt[int(i)%len(e.urls)].Load())) < probeAfter
}

func (e *endpoints) get() (uint32, *url.URL) {
	i := e.current.Load()
	return i, e.urls[int(i)%len(e.urls)]
}

// next moves on from the endpoint at position i, unless another call already did.
func (e *endpoints) next(i uint32) { e.current.CompareAndSwap(i, i+1) }

func (e *endpoints) names() []string {
	out := make([]string, len(e.urls))
	for i, u := range e.urls {
		out[i] = u.String()
	}
	return out
}

type endpointKey struct{}

func withEndpoint(ctx context.Context, u *url.URL) context.Context {
	return context.WithValue(ctx, endpointKey{}, u)
}

// endpointTransport sends each request to the endpoint in its context.
type endpointTransport struct{ next *http.Transport }

func (t endpointTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	u, ok := request.Context().Value(endpointKey{}).(*url.URL)
	if !ok {
		return nil, errors.New("admin client: request without an endpoint")
	}
	out := request.Clone(request.Context())
	out.URL.Scheme, out.URL.Host, out.Host = u.Scheme, u.Host, u.Host
	return t.next.RoundTrip(out)
}

func (t endpointTransport) CloseIdleConnections() { t.next.CloseIdleConnections() }

const (
	// probeAfter is how long an endpoint counts as answering.
	probeAfter = 2 * time.Second
	// probeTimeout bounds the question whether an endpoint answers.
	probeTimeout = time.Second
)

// The waits between attempts: the first, doubled each time up to the last.
const (
	backoffFirst = 50 * time.Millisecond
	backoffLast  = time.Second
)

type retrier struct {
	options   Options
	endpoints *endpoints
	plain     *http.Client
}

// outcome is what one attempt came to.
type outcome int

const (
	answered    outcome = iota // done, or refused for good
	notExecuted                // refused without doing it; another attempt is safe
	unready                    // refused by a node that is no member; another may do it
	unreachable                // never sent
	unknown                    // sent, and the answer was lost
)

func (r *retrier) wrap(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, request connect.AnyRequest) (connect.AnyResponse, error) {
		request.Header().Set(ActorHeader, r.options.Actor)
		started := time.Now()
		backoff := backoffFirst
		var refused error // the latest "not now"
		for attempt := 1; ; attempt++ {
			index, endpoint := r.endpoints.get()
			if err := r.probe(ctx, index, endpoint); err != nil && attempt < len(r.endpoints.urls) {
				r.endpoints.next(index)
				continue // nothing was sent
			}
			response, err := r.attempt(ctx, endpoint, request, next)
			if refused != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) && err != nil {
				return nil, refused // says more than that time ran out
			}
			result, err := judge(ctx, endpoint, request.Spec(), err)
			if result == answered {
				r.endpoints.good(index)
				return response, err
			}
			if result == notExecuted {
				refused = err
			}
			r.endpoints.next(index)
			if result == unknown && request.Spec().IdempotencyLevel == connect.IdempotencyUnknown {
				return nil, outcomeUnknown(request.Spec().Procedure, endpoint, err)
			}
			if !r.again(result, attempt, time.Since(started)) {
				return nil, r.final(result, err, request.Spec(), endpoint)
			}
			if attempt < len(r.endpoints.urls) {
				continue // the others first, without waiting
			}
			if waitErr := pause(ctx, backoff); waitErr != nil {
				return nil, r.final(result, err, request.Spec(), endpoint)
			}
			backoff = min(2*backoff, backoffLast)
		}
	}
}

// probe asks an endpoint that has not answered lately whether it is alive, so that
// a hung one does not get a call that cannot be repeated while another could take
// it.
func (r *retrier) probe(ctx context.Context, index uint32, endpoint *url.URL) error {
	if len(r.endpoints.urls) == 1 || r.endpoints.fresh(index) {
		return nil
	}
	ctx, cancel := context.WithTimeout(withEndpoint(ctx, endpoint), probeTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://ister/healthz", nil)
	if err != nil {
		return err
	}
	response, err := r.plain.Do(request)
	if err != nil {
		return err
	}
	return response.Body.Close()
}

func (r *retrier) attempt(ctx context.Context, endpoint *url.URL, request connect.AnyRequest, next connect.UnaryFunc) (connect.AnyResponse, error) {
	limit := r.options.ChangeTimeout
	if request.Spec().IdempotencyLevel == connect.IdempotencyNoSideEffects {
		limit = r.options.ReadTimeout
	}
	attemptCtx, cancel := context.WithTimeout(withEndpoint(ctx, endpoint), limit)
	defer cancel()
	return next(attemptCtx, request)
}

// again decides whether there is another attempt. Every endpoint is tried once in
// any case.
func (r *retrier) again(result outcome, attempts int, spent time.Duration) bool {
	if attempts < len(r.endpoints.urls) {
		return true
	}
	if result == unreachable || result == unready {
		return spent < r.options.UnreachableFor
	}
	return spent < r.options.RetryFor
}

// final is the error after the last attempt.
func (r *retrier) final(result outcome, err error, spec connect.Spec, endpoint *url.URL) error {
	if result != unreachable && AsRefusal(err) != nil {
		return err
	}
	if result == unknown && spec.IdempotencyLevel != connect.IdempotencyNoSideEffects {
		return outcomeUnknown(spec.Procedure, endpoint, err)
	}
	return &Unreachable{Endpoints: r.endpoints.names(), Err: err}
}

// judge says what an attempt came to, with the error in the words of this package.
func judge(ctx context.Context, endpoint *url.URL, spec connect.Spec, err error) (outcome, error) {
	if err == nil {
		return answered, nil
	}
	if ended := ctx.Err(); ended != nil { // the caller's own limit, not the attempt's
		switch {
		case spec.IdempotencyLevel == connect.IdempotencyNoSideEffects || neverSent(err):
			return answered, fmt.Errorf("no answer from %s: %w", endpoint, ended)
		case errors.Is(ended, context.DeadlineExceeded):
			return answered, outcomeUnknown(spec.Procedure, endpoint, ended)
		}
		return answered, fmt.Errorf("%s was sent to %s and may or may not have been done: %w", methodName(spec.Procedure), endpoint, ended)
	}
	var answer *connect.Error
	if !errors.As(err, &answer) {
		return answered, err
	}
	if refusal := refusalOf(answer); refusal != nil {
		switch {
		case refusal.Kind == adminv1.Refusal_REDIRECT, refusal.Reason == reasonNoController:
			return notExecuted, refusal
		case refusal.Reason == reasonNodeNotReady:
			return unready, refusal
		case refusal.Reason == ReasonOutcomeUnknown:
			return unknown, refusal
		}
		return answered, refusal
	}
	return judgePlain(endpoint, answer)
}

// judgePlain judges an error without a refusal in it: of the transport, of the
// RPC layer, or of something that is no admin API.
func judgePlain(endpoint *url.URL, answer *connect.Error) (outcome, error) {
	switch answer.Code() {
	case connect.CodeInvalidArgument, connect.CodeOutOfRange:
		return answered, &Refusal{Kind: adminv1.Refusal_INVALID, Reason: reasonInvalid, Message: answer.Message(), Advice: "compare the request with the API's .proto files"}
	case connect.CodeUnimplemented, connect.CodePermissionDenied, connect.CodeUnauthenticated:
		return answered, &NotAdmin{Endpoint: endpoint.String(), Err: answer}
	case connect.CodeUnavailable, connect.CodeDeadlineExceeded, connect.CodeCanceled, connect.CodeUnknown, connect.CodeResourceExhausted:
		if neverSent(answer) {
			return unreachable, answer.Unwrap()
		}
		if text := answer.Message(); strings.Contains(text, "malformed HTTP") || strings.Contains(text, "invalid content-type") {
			return answered, &NotAdmin{Endpoint: endpoint.String(), Err: answer}
		}
		return unknown, answer.Unwrap()
	}
	return answered, &Refusal{Kind: adminv1.Refusal_INTERNAL, Reason: reasonInternal, Message: answer.Message(), Advice: "see the broker's log"}
}

func outcomeUnknown(procedure string, endpoint *url.URL, err error) error {
	if r := AsRefusal(err); r != nil {
		return r
	}
	method := methodName(procedure)
	return &Refusal{
		Kind: adminv1.Refusal_UNAVAILABLE, Reason: ReasonOutcomeUnknown, Subject: method,
		Message: fmt.Sprintf("%s was sent to %s and the answer was lost (%s), so it may or may not have been done", method, endpoint, plainCause(err)),
		Advice:  "look at the present state before repeating it",
	}
}

func methodName(procedure string) string { return procedure[strings.LastIndex(procedure, "/")+1:] }

// pause waits, up to half longer at random so that callers spread.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d + rand.N(d/2))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
