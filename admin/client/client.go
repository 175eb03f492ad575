package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"connectrpc.com/connect"

	"github.com/ister-mq/ister/admin/adminv1/adminv1connect"
)

// DefaultEndpoint is where a node's admin port listens by default.
const DefaultEndpoint = "http://127.0.0.1:50051"

// EndpointVariable is the environment variable with endpoints, comma-separated.
const EndpointVariable = "ISTER_ADMIN_ENDPOINT"

// ActorHeader carries who asks, as it is recorded on operations.
const ActorHeader = "Ister-Actor"

// Options of a Client. Zero fields take the default.
type Options struct {
	// Endpoints are admin addresses, host:port or http://host:port. At least one.
	Endpoints []string
	// Actor says who asks: cli, mcp or scenario, and after a colon any name.
	// Default api.
	Actor string
	// RetryFor bounds how long a call that is safe to repeat is repeated while
	// there is no controller. Default 10 s. Context deadlines bound it as well.
	RetryFor time.Duration
	// UnreachableFor bounds how long endpoints are tried again when none can be
	// reached. Default 0: each is tried once.
	UnreachableFor time.Duration
	// ReadTimeout and ChangeTimeout bound one attempt of a call without and with
	// side effects. Defaults 5 s and 30 s.
	ReadTimeout   time.Duration
	ChangeTimeout time.Duration
}

// Client calls the admin API. It is safe for concurrent use.
type Client struct {
	Cluster    adminv1connect.ClusterServiceClient
	Brokers    adminv1connect.BrokersServiceClient
	Topics     adminv1connect.TopicsServiceClient
	Namespaces adminv1connect.NamespacesServiceClient
	Operations adminv1connect.OperationsServiceClient

	endpoints *endpoints
	plain     *http.Client
}

// New checks the options and returns a client. It connects to nothing yet.
func New(options Options) (*Client, error) {
	parsed, err := parseEndpoints(options.Endpoints)
	if err != nil {
		return nil, err
	}
	setDefault(&options.RetryFor, 10*time.Second)
	setDefault(&options.ReadTimeout, 5*time.Second)
	setDefault(&options.ChangeTimeout, 30*time.Second)
	if options.Actor == "" {
		options.Actor = "api"
	}
	transport := &http.Transport{
		DialContext:         (&net.Dialer{Timeout: 3 * time.Second}).DialContext,
		MaxIdleConnsPerHost: 4,
		IdleConnTimeout:     30 * time.Second,
	}
	c := &Client{endpoints: newEndpoints(parsed)}
	c.plain = &http.Client{Transport: endpointTransport{transport}}
	retry := connect.WithInterceptors(connect.UnaryInterceptorFunc((&retrier{options: options, endpoints: c.endpoints, plain: c.plain}).wrap))
	const base = "http://ister" // replaced by endpointTransport
	c.Cluster = adminv1connect.NewClusterServiceClient(c.plain, base, retry)
	c.Brokers = adminv1connect.NewBrokersServiceClient(c.plain, base, retry)
	c.Topics = adminv1connect.NewTopicsServiceClient(c.plain, base, retry)
	c.Namespaces = adminv1connect.NewNamespacesServiceClient(c.plain, base, retry)
	c.Operations = adminv1connect.NewOperationsServiceClient(c.plain, base, retry)
	return c, nil
}

// EndpointsFromEnvironment returns the endpoints of ISTER_ADMIN_ENDPOINT, or the
// default one.
func EndpointsFromEnvironment() []string {
	if v := os.Getenv(EndpointVariable); v != "" {
		return strings.Split(v, ",")
	}
	return []string{DefaultEndpoint}
}

// Close drops idle connections.
func (c *Client) Close() { c.plain.CloseIdleConnections() }

// NodeInfo is what a node says of itself at GET /ister/node, also before it is
// admitted.
type NodeInfo struct {
	Cluster     string `json:"cluster"`
	Node        int32  `json:"node_id"` // 0: not admitted
	Incarnation string `json:"incarnation"`
	State       string `json:"state"` // fresh, forming, member or removed
	Endpoints   struct {
		Kafka   string `json:"kafka"`
		Admin   string `json:"admin"`
		Raft    string `json:"raft"`
		Metrics string `json:"metrics"`
	} `json:"endpoints"`
	Rack    string `json:"rack"`
	Version string `json:"version"`
}

// NodeInfo asks the node at the first endpoint who it is.
func (c *Client) NodeInfo(ctx context.Context) (NodeInfo, error) {
	var info NodeInfo
	status, body, err := c.get(ctx, "/ister/node")
	if err != nil {
		return info, err
	}
	if status != http.StatusOK {
		return info, &NotAdmin{Endpoint: c.endpoints.urls[0].String(), Status: status}
	}
	if err := json.Unmarshal(body, &info); err != nil {
		return info, &NotAdmin{Endpoint: c.endpoints.urls[0].String(), Status: status}
	}
	return info, nil
}

// Readiness is the answer of GET /readyz.
type Readiness struct {
	Ready   bool     `json:"ready"`
	Reasons []string `json:"reasons"`
}

// Ready asks the node at the first endpoint whether it serves.
func (c *Client) Ready(ctx context.Context) (Readiness, error) {
	var answer Readiness
	status, body, err := c.get(ctx, "/readyz")
	if err != nil {
		return answer, err
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return answer, &NotAdmin{Endpoint: c.endpoints.urls[0].String(), Status: status}
	}
	return answer, nil
}

// maxPlainBytes bounds the answer to a plain HTTP call.
const maxPlainBytes = 1 << 20

// get asks the first endpoint, which is the node meant by callers that ask about
// one node.
func (c *Client) get(ctx context.Context, path string) (int, []byte, error) {
	endpoint := c.endpoints.urls[0]
	request, err := http.NewRequestWithContext(withEndpoint(ctx, endpoint), http.MethodGet, "http://ister"+path, nil)
	if err != nil {
		return 0, nil, err
	}
	response, err := c.plain.Do(request)
	if err != nil {
		if ctx.Err() != nil {
			return 0, nil, ctx.Err()
		}
		return 0, nil, &Unreachable{Endpoints: []string{endpoint.String()}, Err: err}
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxPlainBytes))
	if err != nil {
		return 0, nil, &Unreachable{Endpoints: []string{endpoint.String()}, Err: err}
	}
	return response.StatusCode, body, nil
}

func parseEndpoints(texts []string) ([]*url.URL, error) {
	var out []*url.URL
	for _, text := range texts {
		text = strings.TrimSpace(text)
		if text == "" {
			continue
		}
		u, err := ParseEndpoint(text)
		if err != nil {
			return nil, err
		}
		out = append(out, u)
	}
	if len(out) == 0 {
		return nil, errors.New("endpoint: got none, expected at least one admin address such as " + DefaultEndpoint)
	}
	return out, nil
}

// ParseEndpoint reads http://host:port or host:port.
func ParseEndpoint(text string) (*url.URL, error) {
	full := text
	if !strings.Contains(full, "://") {
		full = "http://" + full
	}
	u, err := url.Parse(full)
	switch {
	case err != nil:
		return nil, fmt.Errorf("endpoint %q: not an address; expected host:port or http://host:port", text)
	case u.Scheme != "http":
		return nil, fmt.Errorf("endpoint %q: scheme %q is not supported; expected http://host:port", text, u.Scheme)
	case u.Hostname() == "" || u.Port() == "":
		return nil, fmt.Errorf("endpoint %q: the host or the port is missing; expected host:port, such as 127.0.0.1:50051", text)
	case u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "":
		return nil, fmt.Errorf("endpoint %q: has more than a host and a port; expected http://host:port", text)
	}
	return &url.URL{Scheme: u.Scheme, Host: u.Host}, nil
}

func setDefault(d *time.Duration, value time.Duration) {
	if *d == 0 {
		*d = value
	}
}
