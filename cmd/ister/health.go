package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/ister-mq/ister/admin/client"
)

const (
	// adminAddrVariable is the broker's own setting, so that a probe beside a
	// broker needs no arguments.
	adminAddrVariable = "ISTER_ADMIN_ADDR"
	defaultAdminAddr  = "127.0.0.1:50051"
	// healthEvery is the time between two looks while there is something to wait for.
	healthEvery = 100 * time.Millisecond
	// nodesMax bounds how many nodes are asked at once.
	nodesMax = 64
)

// errUnhealthy ends the command with status 1; what is wrong has been printed.
var errUnhealthy = errors.New("unhealthy")

// probe is what `ister health` was asked.
type probe struct {
	addresses     string
	ready         bool
	wait, timeout time.Duration
	output        string
}

// nodeHealth is what one node answered.
type nodeHealth struct {
	Address string   `json:"address"`
	Alive   bool     `json:"alive"`
	Ready   bool     `json:"ready"`
	Reasons []string `json:"reasons"` // why it is not ready, or gives no answer
	Node    int32    `json:"node_id"` // 0: not admitted, or unknown
	Version string   `json:"version"`
}

// health is the answer of all nodes.
type health struct {
	Healthy  bool         `json:"healthy"`
	Probe    string       `json:"probe"` // alive or ready
	WaitedMS int64        `json:"waited_ms"`
	Nodes    []nodeHealth `json:"nodes"`
}

func newHealthCommand() *cobra.Command {
	p := probe{}
	c := &cobra.Command{
		Use:   "health",
		Short: "Ask brokers whether they are alive, or ready",
		Long: `Ask the admin port of one or more brokers whether they are alive: their process runs and answers. With
--ready, whether they are ready: members of a cluster with a controller, replicas open. A broker that waits
to be added (--join) is alive and not ready.

Exit status: 0 every broker is, 1 at least one is not, with the reason on standard output, 2 wrong usage.
It ends after --timeout at the latest, or after --wait and --timeout.`,
		Example: `  ister health                                        # as a container's health check
  ister health --ready --wait 30s                     # in a script, instead of a pause
  ister health --ready --admin-addr 127.0.0.1:50051,127.0.0.1:50052,127.0.0.1:50053`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			addresses, err := p.check()
			if err != nil {
				return err
			}
			answer := p.run(c.Context(), addresses)
			if err := p.print(c.OutOrStdout(), answer); err != nil {
				return err
			}
			if !answer.Healthy {
				return errUnhealthy
			}
			return nil
		},
	}
	c.Flags().StringVar(&p.addresses, "admin-addr", "", "admin addresses, comma-separated (default: "+adminAddrVariable+", or "+defaultAdminAddr+")")
	c.Flags().BoolVar(&p.ready, "ready", false, "ask for readiness, and not only whether the process answers")
	c.Flags().DurationVar(&p.wait, "wait", 0, "how long to ask again until it is so, such as 30s")
	c.Flags().DurationVar(&p.timeout, "timeout", 2*time.Second, "how long one answer may take")
	c.Flags().StringVarP(&p.output, "output", "o", "text", "text or json")
	return c
}

// check reads the arguments.
func (p *probe) check() ([]string, error) {
	switch {
	case p.output != "text" && p.output != "json":
		return nil, fmt.Errorf("--output: got %q, expected text or json", p.output)
	case p.wait < 0:
		return nil, fmt.Errorf("--wait: got %s, expected a duration of 0 or more, such as 30s", p.wait)
	case p.timeout <= 0:
		return nil, fmt.Errorf("--timeout: got %s, expected a duration above 0, such as 2s", p.timeout)
	}
	var addresses []string
	for _, text := range strings.Split(cmp.Or(p.addresses, os.Getenv(adminAddrVariable), defaultAdminAddr), ",") {
		address, err := client.ParseEndpoint(strings.TrimSpace(reachable(text)))
		if err != nil {
			return nil, fmt.Errorf("--admin-addr: %w", err)
		}
		addresses = append(addresses, address.Host)
	}
	if len(addresses) > nodesMax {
		return nil, fmt.Errorf("--admin-addr: got %d addresses, expected at most %d", len(addresses), nodesMax)
	}
	return addresses, nil
}

// reachable turns an address to listen on, which may name every interface, into
// one to connect to.
func reachable(address string) string {
	host, port, err := net.SplitHostPort(strings.TrimPrefix(strings.TrimSpace(address), "http://"))
	if err != nil {
		return address
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		return net.JoinHostPort("127.0.0.1", port)
	}
	return address
}

// run asks until every node is healthy or the wait is over.
func (p *probe) run(ctx context.Context, addresses []string) health {
	start := time.Now()
	tick := time.NewTicker(healthEvery)
	defer tick.Stop()
	for {
		answer := p.ask(ctx, addresses)
		answer.WaitedMS = time.Since(start).Milliseconds()
		if answer.Healthy || time.Since(start) >= p.wait {
			return answer
		}
		select {
		case <-ctx.Done():
			return answer
		case <-tick.C:
		}
	}
}

// ask looks at every node once, all at the same time.
func (p *probe) ask(ctx context.Context, addresses []string) health {
	answer := health{Healthy: true, Probe: "alive", Nodes: make([]nodeHealth, len(addresses))}
	if p.ready {
		answer.Probe = "ready"
	}
	var all sync.WaitGroup
	for i, address := range addresses {
		all.Go(func() { answer.Nodes[i] = askNode(ctx, address, p.timeout) })
	}
	all.Wait()
	for _, n := range answer.Nodes {
		answer.Healthy = answer.Healthy && n.Alive && (n.Ready || !p.ready)
	}
	return answer
}

func askNode(ctx context.Context, address string, timeout time.Duration) nodeHealth {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	n := nodeHealth{Address: address, Reasons: []string{}}
	c, err := client.New(client.Options{Endpoints: []string{address}})
	if err != nil {
		n.Reasons = append(n.Reasons, err.Error())
		return n
	}
	defer c.Close()
	info, err := c.NodeInfo(ctx)
	if err == nil {
		n.Alive, n.Node, n.Version = true, info.Node, info.Version
		var readiness client.Readiness
		if readiness, err = c.Ready(ctx); err == nil {
			n.Ready, n.Reasons = readiness.Ready, append(n.Reasons, readiness.Reasons...)
		}
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		n.Reasons = append(n.Reasons, fmt.Sprintf("no answer from http://%s within %s", address, timeout))
	case err != nil:
		n.Reasons = append(n.Reasons, err.Error())
	}
	return n
}

func (p *probe) print(out io.Writer, answer health) error {
	if p.output == "json" {
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		encoder.SetEscapeHTML(false)
		return encoder.Encode(answer)
	}
	for _, n := range answer.Nodes {
		line := n.state() + " " + n.Address
		if n.Node != 0 {
			line += fmt.Sprintf(" node %d", n.Node)
		}
		if len(n.Reasons) > 0 {
			line += ": " + strings.Join(n.Reasons, "; ")
		}
		if _, err := fmt.Fprintln(out, line); err != nil {
			return err
		}
	}
	return nil
}

// state is the strongest thing that can be said of a node.
func (n nodeHealth) state() string {
	switch {
	case n.Ready:
		return "ready"
	case n.Alive:
		return "alive, not ready"
	}
	return "down"
}
