package adminapi

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"
	"unicode"

	"connectrpc.com/connect"

	"github.com/ister-mq/ister/admin/adminv1/adminv1connect"
	"github.com/ister-mq/ister/broker/internal/model"
	"github.com/ister-mq/ister/broker/internal/refusal"
)

// Config of the handler. Zero fields take the default.
type Config struct {
	// Logger gets one line for each change asked for, with who asked, and one for
	// each fault. Default: none.
	Logger *slog.Logger
	// Metrics answers GET /metrics; nil leaves it out.
	Metrics http.Handler
	// ControllerWait is how long a request waits while no controller is known,
	// before it is refused with NO_CONTROLLER. Default 3 s, less than clients give one attempt.
	ControllerWait time.Duration
	// Now is the clock that dry runs decide with. Default time.Now.
	Now func() time.Time
}

// service is what the five services share.
type service struct {
	backend Backend
	logger  *slog.Logger
	now     func() time.Time
	// remote asks the controller from the node that is asked for its status.
	remote adminv1connect.ClusterServiceClient
}

// Handler serves the admin API and the plain HTTP paths beside it.
func Handler(backend Backend, config Config) http.Handler {
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	if config.ControllerWait == 0 {
		config.ControllerWait = 3 * time.Second
	}
	if config.Now == nil {
		config.Now = time.Now
	}
	s := &service{backend: backend, logger: config.Logger, now: config.Now}
	options := []connect.HandlerOption{
		connect.WithCodec(jsonCodec{"json"}), connect.WithCodec(jsonCodec{"json; charset=utf-8"}),
		connect.WithReadMaxBytes(maxRequestBytes),
		connect.WithInterceptors(connect.UnaryInterceptorFunc(s.intercept)),
	}
	services := http.NewServeMux()
	services.Handle(adminv1connect.NewClusterServiceHandler(clusterService{s}, options...))
	services.Handle(adminv1connect.NewBrokersServiceHandler(brokersService{s}, options...))
	services.Handle(adminv1connect.NewTopicsServiceHandler(topicsService{s}, options...))
	services.Handle(adminv1connect.NewNamespacesServiceHandler(namespacesService{s}, options...))
	services.Handle(adminv1connect.NewOperationsServiceHandler(operationsService{s}, options...))
	forward := newForwarder(backend, services, config.ControllerWait)
	s.remote = adminv1connect.NewClusterServiceClient(&http.Client{Transport: statusTransport{forward}}, "http://controller")

	mux := http.NewServeMux()
	mux.Handle("/", unknownMethod(forward))
	mux.Handle(adminv1connect.ClusterServiceGetStatusProcedure, services)
	mux.HandleFunc("GET /healthz", s.health)
	mux.HandleFunc("GET /readyz", s.ready)
	mux.HandleFunc("GET /ister/node", s.node)
	if config.Metrics != nil {
		mux.Handle("GET /metrics", config.Metrics)
	}
	return mux
}

// NewServer is an http.Server for Handler, with HTTP/1.1 and cleartext HTTP/2 and
// every wait bounded.
func NewServer(handler http.Handler) *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	return &http.Server{
		Handler: handler, Protocols: protocols,
		ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute, IdleTimeout: 2 * time.Minute,
		MaxHeaderBytes: 64 << 10,
	}
}

// unknownMethod sends known methods on and answers others with what there is.
func unknownMethod(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, known := idempotencyLevels[r.URL.Path]; known {
			next.ServeHTTP(w, r)
			return
		}
		writeJSON(w, http.StatusNotFound, map[string]string{
			"code":    "unimplemented",
			"message": fmt.Sprintf("%s is not a path of this node; expected /ister.admin.v1.<Service>/<Method> (POST, JSON), /healthz, /readyz, /metrics or /ister/node", r.URL.Path),
		})
	})
}

// health says that the process runs.
func (s *service) health(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, map[string]string{"status": "alive"})
}

// ready says whether the node serves, with the reasons when it does not.
func (s *service) ready(w http.ResponseWriter, _ *http.Request) {
	ok, reasons := s.backend.Ready()
	status := http.StatusOK
	if !ok {
		status = http.StatusServiceUnavailable
	}
	if reasons == nil {
		reasons = []string{}
	}
	writeJSON(w, status, map[string]any{"ready": ok, "reasons": reasons})
}

func (s *service) node(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, s.backend.Info())
}

func writeJSON(w http.ResponseWriter, status int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(value) // the caller is gone if this fails
}

// intercept turns errors into the API's, recovers nothing, and writes down who
// asked for changes.
func (s *service) intercept(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, request connect.AnyRequest) (connect.AnyResponse, error) {
		actor, err := actorOf(request.Header().Get(actorHeader))
		if err != nil {
			return nil, connectError(err, model.NoNode)
		}
		ctx = context.WithValue(ctx, forwardedKey{}, request.Header().Get(forwardedHeader) != "")
		response, err := next(context.WithValue(ctx, actorKey{}, actor), request)
		s.audit(ctx, request, actor, err)
		if err != nil {
			controller, _ := s.backend.Controller()
			passageOf(ctx).redirected = refusal.Is(err, refusal.NotController)
			return nil, connectError(err, controller)
		}
		return response, nil
	}
}

func (s *service) audit(ctx context.Context, request connect.AnyRequest, actor string, err error) {
	if request.Spec().IdempotencyLevel == connect.IdempotencyNoSideEffects {
		return
	}
	method := request.Spec().Procedure[strings.LastIndex(request.Spec().Procedure, "/")+1:]
	attributes := []any{"method", method, "actor", actor, "request", fmt.Sprint(request.Any())}
	switch r := refusal.As(err); {
	case err == nil:
		s.logger.InfoContext(ctx, "admin request was done", attributes...)
	case r != nil && r.Kind != refusal.Internal:
		s.logger.InfoContext(ctx, "admin request was refused", append(attributes, "reason", string(r.Reason))...)
	default:
		s.logger.ErrorContext(ctx, "admin request failed", append(attributes, "error", err.Error())...)
	}
}

// actorHeader carries who asks; admin/client sets it.
const actorHeader = "Ister-Actor"

// maxActorLength bounds what is recorded.
const maxActorLength = 128

type (
	actorKey     struct{}
	forwardedKey struct{}
)

func actor(ctx context.Context) string {
	a, _ := ctx.Value(actorKey{}).(string)
	return a
}

// forwarded reports a request that another node sent on.
func forwarded(ctx context.Context) bool {
	f, _ := ctx.Value(forwardedKey{}).(bool)
	return f
}

// actorOf checks the header; without one the caller used the API by itself.
func actorOf(header string) (string, error) {
	if header == "" {
		return "api", nil
	}
	unprintable := strings.IndexFunc(header, func(r rune) bool { return !unicode.IsPrint(r) })
	if len(header) > maxActorLength || unprintable >= 0 {
		return "", invalid(actorHeader, fmt.Sprintf("%d characters", len(header)), "at most 128 printable characters such as cli:anna")
	}
	return header, nil
}
