package peer

import (
	"context"
	"encoding/json"
	"log/slog"
	"net"

	"github.com/ister-mq/ister/broker/internal/refusal"
)

// Config of an Endpoint.
type Config struct {
	Listener net.Listener // bound on --raft-addr; the endpoint closes it
	Logger   *slog.Logger // nil: slog.Default
}

// Access says who may call a method.
type Access int

// Members only is the zero value, so that a forgotten choice is the safe one.
const (
	MembersOnly Access = iota // same cluster, known identity, current node epoch
	Anyone                    // also nodes of no cluster or of another one
)

// Handler answers one control call. A *refusal.Refusal error reaches the caller
// as such; any other error as a fault text.
type Handler func(ctx context.Context, from Identity, request json.RawMessage) (any, error)

// Endpoint is a node's end of all node-to-node traffic: one listener whose
// connections are raft streams, control calls or fetch sessions.
type Endpoint struct{}

// New makes an endpoint. It answers nothing before Start, so that every handler
// can be set first.
func New(cfg Config) *Endpoint { return &Endpoint{} }

// Start serves the listener until Close.
func (e *Endpoint) Start() {}

// Close ends the listener and every connection, in and out, and waits.
func (e *Endpoint) Close() error { return nil }

// Identity is what this node tells others.
func (e *Endpoint) Identity() Identity { return Identity{} }

// SetIdentity changes what this node tells others. New connections carry it.
func (e *Endpoint) SetIdentity(id Identity) {}

// SetVerifier sets the check of a caller of the same cluster: nil lets it in.
func (e *Endpoint) SetVerifier(verify func(from Identity) *refusal.Refusal) {}

// Handle sets the handler of a control method.
func (e *Endpoint) Handle(method string, access Access, handler Handler) {}

// HandleFetch sets the leader's side of fetch sessions.
func (e *Endpoint) HandleFetch(handler FetchHandler) {}

// Call makes a control call and decodes the answer into response (may be nil).
func (e *Endpoint) Call(ctx context.Context, to Target, method string, request, response any) error {
	return nil
}

// OpenFetch opens a fetch session to a leader node.
func (e *Endpoint) OpenFetch(ctx context.Context, to Target) (*FetchClient, error) { return nil, nil }

// FetchClient is the follower's side of a session. Not for concurrent use,
// except Close.
type FetchClient struct{}

// Fetch makes one request. The batches of response belong to the client and are
// valid until the next Fetch or Close. Any error ends the session: Close it and
// open another.
func (c *FetchClient) Fetch(ctx context.Context, request *FetchRequest, response *FetchResponse) error {
	return nil
}

// Close ends the session.
func (c *FetchClient) Close() error { return nil }
