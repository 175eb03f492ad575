package adminapi

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"strings"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/ister-mq/ister/admin/adminv1"
	"github.com/ister-mq/ister/broker/internal/model"
	"github.com/ister-mq/ister/broker/internal/refusal"
)

// forwardedHeader marks a request that was sent on, with the node that did.
// notControllerHeader marks the answer of a node that was taken for the
// controller and is not.
const (
	forwardedHeader     = "Ister-Forwarded-By"
	notControllerHeader = "Ister-Not-Controller"
)

const (
	// maxRequestBytes bounds a request's body, which is kept to send it again.
	maxRequestBytes = 1 << 20
	// lookInterval is how often a waiting request looks for a controller, and a
	// request on its way checks that the controller is still the same.
	lookInterval = 20 * time.Millisecond
	// hungAfter is how long a node may still answer after another became the
	// controller.
	hungAfter = time.Second
)

// errServeHere: this node became the controller while the request waited.
var errServeHere = errors.New("this node is the controller")

// forwarder serves requests here when this node is the controller and sends them
// on otherwise.
type forwarder struct {
	backend   Backend
	local     http.Handler
	wait      time.Duration
	proxy     *httputil.ReverseProxy
	transport *http.Transport
	errors    *connect.ErrorWriter
}

func newForwarder(backend Backend, local http.Handler, wait time.Duration) *forwarder {
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true) // gRPC needs its trailers
	f := &forwarder{
		backend: backend, local: local, wait: wait,
		transport: &http.Transport{
			Protocols:       protocols,
			DialContext:     (&net.Dialer{Timeout: time.Second}).DialContext,
			IdleConnTimeout: time.Minute,
		},
		errors: connect.NewErrorWriter(),
	}
	f.proxy = &httputil.ReverseProxy{Rewrite: f.rewrite, Transport: f, ErrorHandler: f.failed}
	return f
}

// passage is one request on its way, kept in its context.
type passage struct {
	body []byte // sent whole by every attempt
	// serveHere: this node turned out to be the controller.
	serveHere bool
	// redirected: the node answered that it is not the controller, and did nothing.
	redirected bool
}

type passageKey struct{}

func passageOf(ctx context.Context) *passage {
	p, ok := ctx.Value(passageKey{}).(*passage)
	if !ok {
		return &passage{} // a call that does not go through the forwarder
	}
	return p
}

// ServeHTTP implements http.Handler.
func (f *forwarder) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequestBytes))
	if err != nil {
		var tooLarge *http.MaxBytesError
		if errors.As(err, &tooLarge) {
			err = invalid("request", "a body of more than 1 MiB", "at most 1 MiB")
		}
		f.refuse(w, r, err)
		return
	}
	p := &passage{body: body}
	r = r.WithContext(context.WithValue(r.Context(), passageKey{}, p))
	r.ContentLength = int64(len(body))
	second := r.Header.Get(forwardedHeader) != ""
	for started := time.Now(); ; {
		r.Body = bodyOf(r)
		switch {
		case f.isController():
			if f.serve(w, r, p, second || time.Since(started) > f.wait) {
				return
			}
			if look(r.Context()) != nil {
				return // the caller is gone
			}
		case second:
			controller, _ := f.backend.Controller()
			w.Header().Set(notControllerHeader, controller.String())
			f.refuse(w, r, notController(controller))
			return
		default:
			f.proxy.ServeHTTP(w, r)
			if !p.serveHere {
				return
			}
			p.serveHere = false
		}
	}
}

func (f *forwarder) isController() bool {
	self, _ := f.backend.Self()
	controller, known := f.backend.Controller()
	return known && controller == self && self != model.NoNode
}

// serve lets this node answer. An answer that says that it is not the controller
// any more, as after it removed itself from that role, is dropped and false
// returned, unless it is the last word.
func (f *forwarder) serve(w http.ResponseWriter, r *http.Request, p *passage, last bool) bool {
	p.redirected = false
	answer := &bufferedAnswer{header: make(http.Header), status: http.StatusOK}
	f.local.ServeHTTP(answer, r)
	if p.redirected {
		if !last {
			return false
		}
		controller, _ := f.backend.Controller()
		answer.header.Set(notControllerHeader, controller.String())
	}
	answer.copyTo(w)
	return true
}

// bufferedAnswer holds an answer until it is known to be one.
type bufferedAnswer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (a *bufferedAnswer) Header() http.Header         { return a.header }
func (a *bufferedAnswer) WriteHeader(status int)      { a.status = status }
func (a *bufferedAnswer) Write(b []byte) (int, error) { return a.body.Write(b) }

func (a *bufferedAnswer) copyTo(w http.ResponseWriter) {
	for name, values := range a.header {
		if !strings.HasPrefix(name, http.TrailerPrefix) {
			w.Header()[name] = values
		}
	}
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body.Bytes()) // the caller is gone if this fails
	for name, values := range a.header {
		if strings.HasPrefix(name, http.TrailerPrefix) { // set after the body
			w.Header()[name] = values
		}
	}
}

func bodyOf(r *http.Request) io.ReadCloser {
	return io.NopCloser(bytes.NewReader(passageOf(r.Context()).body))
}

func (f *forwarder) rewrite(p *httputil.ProxyRequest) {
	self, _ := f.backend.Self()
	p.Out.URL.Scheme, p.Out.URL.Host = "http", "controller" // RoundTrip sets the host
	p.Out.Header.Set(forwardedHeader, self.String())
}

// lostMax bounds how often one request is sent again after its answer was lost.
const lostMax = 5

// RoundTrip sends a request to the controller, whichever node that is by the time
// it gets there.
func (f *forwarder) RoundTrip(request *http.Request) (*http.Response, error) {
	level := idempotency(request.URL.Path)
	repeatable := level != descriptorpb.MethodOptions_IDEMPOTENCY_UNKNOWN
	var lost error // of an attempt that may have been carried out
	started := time.Now()
	for losses := 0; losses < lostMax && time.Since(started) <= f.wait; {
		controller, address, err := f.await(request.Context(), started)
		if refusal.Is(err, refusal.NoController) {
			break
		} else if err != nil {
			return nil, err
		}
		response, sent, err := f.attempt(request, controller, address)
		switch {
		case err == nil && response.Header.Get(notControllerHeader) == "":
			return response, nil
		case err == nil:
			response.Body.Close() // nothing was done there
		case request.Context().Err() != nil:
			return nil, request.Context().Err()
		case sent && !repeatable:
			return nil, outcomeUnknown(request.URL.Path, err)
		case sent:
			losses++
			lost, started = err, time.Now() // it took its own time
		}
		if err := look(request.Context()); err != nil {
			return nil, err
		}
	}
	if lost != nil && level != descriptorpb.MethodOptions_NO_SIDE_EFFECTS {
		return nil, outcomeUnknown(request.URL.Path, lost)
	}
	return nil, noController(f.wait)
}

// await returns the controller and its admin address, waiting for one.
func (f *forwarder) await(ctx context.Context, started time.Time) (model.NodeID, string, error) {
	for {
		controller, known := f.backend.Controller()
		if f.isController() {
			return 0, "", errServeHere
		}
		if info := f.backend.Info(); info.Node == model.NoNode {
			return 0, "", notMember(info)
		}
		if known {
			if node := f.backend.Image().Nodes[controller]; node != nil && node.Endpoints.Admin != "" {
				return controller, node.Endpoints.Admin, nil
			}
		}
		if time.Since(started) > f.wait {
			return 0, "", noController(f.wait)
		}
		if err := look(ctx); err != nil {
			return 0, "", err
		}
	}
}

// attempt sends the request to one address. It is given up when another node has
// become the controller and this one does not answer, so that a hung one does not
// hold the request. sent is false when the failure was before any byte left.
func (f *forwarder) attempt(request *http.Request, controller model.NodeID, address string) (response *http.Response, sent bool, err error) {
	ctx, cancel := context.WithCancel(request.Context())
	go f.watch(ctx, cancel, controller)
	out := request.Clone(ctx)
	out.URL.Host, out.Host = address, address
	out.Body = bodyOf(request)
	response, err = f.transport.RoundTrip(out)
	if err != nil {
		cancel()
		var op *net.OpError
		return nil, !(errors.As(err, &op) && op.Op == "dial"), err
	}
	response.Body = cancelBody{response.Body, cancel}
	return response, true, nil
}

// watch ends with ctx, which the answer's body or the attempt cancels. A node that
// has just stopped to be the controller gets a moment to answer: only one that
// hangs is given up.
func (f *forwarder) watch(ctx context.Context, cancel context.CancelFunc, controller model.NodeID) {
	var changed time.Time
	for look(ctx) == nil {
		now, known := f.backend.Controller()
		switch {
		case !known || now == controller:
			changed = time.Time{}
		case changed.IsZero():
			changed = time.Now()
		case time.Since(changed) > hungAfter:
			cancel()
		}
	}
}

type cancelBody struct {
	io.ReadCloser
	cancel context.CancelFunc
}

func (b cancelBody) Close() error {
	defer b.cancel()
	return b.ReadCloser.Close()
}

// failed answers a request that could not be sent on.
func (f *forwarder) failed(w http.ResponseWriter, r *http.Request, err error) {
	if errors.Is(err, errServeHere) {
		passageOf(r.Context()).serveHere = true
		return
	}
	f.refuse(w, r, err)
}

func (f *forwarder) refuse(w http.ResponseWriter, r *http.Request, err error) {
	controller, _ := f.backend.Controller()
	err = connectError(err, controller)
	if f.errors.IsSupported(r) {
		_ = f.errors.Write(w, r, err) // the caller is gone if this fails
		return
	}
	http.Error(w, err.Error(), http.StatusUnsupportedMediaType)
}

// look waits one interval.
func look(ctx context.Context) error {
	timer := time.NewTimer(lookInterval)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// idempotency of the method behind a path, as its .proto file declares it.
func idempotency(path string) descriptorpb.MethodOptions_IdempotencyLevel {
	return idempotencyLevels[path]
}

var idempotencyLevels = readIdempotencyLevels(
	adminv1.File_admin_adminv1_cluster_proto, adminv1.File_admin_adminv1_brokers_proto,
	adminv1.File_admin_adminv1_topics_proto, adminv1.File_admin_adminv1_operations_proto)

func readIdempotencyLevels(files ...protoreflect.FileDescriptor) map[string]descriptorpb.MethodOptions_IdempotencyLevel {
	out := make(map[string]descriptorpb.MethodOptions_IdempotencyLevel)
	for _, file := range files {
		for s := range file.Services().Len() {
			service := file.Services().Get(s)
			for m := range service.Methods().Len() {
				method := service.Methods().Get(m)
				if options, ok := method.Options().(*descriptorpb.MethodOptions); ok {
					out["/"+string(service.FullName())+"/"+string(method.Name())] = options.GetIdempotencyLevel()
				}
			}
		}
	}
	return out
}
