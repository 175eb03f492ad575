package kafka

import (
	"log/slog"
	"time"
)

// Config bounds a listener. A zero field takes its default.
type Config struct {
	// Logger receives connection events at debug level and refused connections at
	// warn. Default: discards.
	Logger *slog.Logger
	// RequestBytesMax is the largest request taken, in bytes; a longer one closes
	// the connection. Default 100 MiB, as Kafka's socket.request.max.bytes.
	RequestBytesMax int
	// ConnectionBytesMax bounds the requests of one connection that are read and
	// not yet answered, in bytes. A single larger request is still taken alone.
	// Default 128 MiB.
	ConnectionBytesMax int
	// ListenerBytesMax is the same bound over all connections. Default 1 GiB.
	ListenerBytesMax int
	// RequestsInFlightMax bounds the unanswered requests of one connection; the
	// listener stops reading at the bound. Default 1,024.
	RequestsInFlightMax int
	// ConnectionsMax bounds open connections; more are closed at once. Default
	// 10,000.
	ConnectionsMax int
	// FetchBytesMax caps what a client may ask for in one fetch. Default 55 MiB,
	// as Kafka's fetch.max.bytes.
	FetchBytesMax int
	// IdleTimeout closes a connection without requests. Default 10 minutes.
	IdleTimeout time.Duration
	// StallTimeout closes a connection that stops in the middle of a request, or
	// does not read its answers, for that long. Large ones get the time that they
	// take at PaceMin on top. Default 60 seconds.
	StallTimeout time.Duration
	// PaceMin is the slowest pace at which large requests and answers may move, in
	// bytes a second. Default 512 KiB.
	PaceMin int
	// DrainTimeout bounds the wait for open answers after the last request of a
	// connection, or once the listener stops. Default 2 seconds.
	DrainTimeout time.Duration
	// WaitMax caps the time that a client may ask to wait for: a topic change, an
	// acknowledgement, or the long poll of a fetch. Default 60 seconds.
	WaitMax time.Duration
}

const (
	defaultRequestBytesMax     = 100 << 20
	defaultConnectionBytesMax  = 128 << 20
	defaultListenerBytesMax    = 1 << 30
	defaultRequestsInFlightMax = 1024
	defaultConnectionsMax      = 10_000
	defaultFetchBytesMax       = 55 << 20
	defaultIdleTimeout         = 10 * time.Minute
	defaultStallTimeout        = time.Minute
	defaultPaceMin             = 512 << 10
	defaultDrainTimeout        = 2 * time.Second
	defaultWaitMax             = time.Minute
)

// withDefaults fills zero fields.
func (c Config) withDefaults() Config {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	orInt(&c.RequestBytesMax, defaultRequestBytesMax)
	orInt(&c.ConnectionBytesMax, defaultConnectionBytesMax)
	orInt(&c.ListenerBytesMax, defaultListenerBytesMax)
	orInt(&c.RequestsInFlightMax, defaultRequestsInFlightMax)
	orInt(&c.ConnectionsMax, defaultConnectionsMax)
	orInt(&c.FetchBytesMax, defaultFetchBytesMax)
	orTime(&c.IdleTimeout, defaultIdleTimeout)
	orTime(&c.StallTimeout, defaultStallTimeout)
	orInt(&c.PaceMin, defaultPaceMin)
	orTime(&c.DrainTimeout, defaultDrainTimeout)
	orTime(&c.WaitMax, defaultWaitMax)
	return c
}

func orInt(field *int, value int) {
	if *field == 0 {
		*field = value
	}
}

func orTime(field *time.Duration, value time.Duration) {
	if *field == 0 {
		*field = value
	}
}
