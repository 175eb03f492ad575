package health

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/ister-mq/ister/admin/adminv1"
	"github.com/ister-mq/ister/admin/client"
)

// Facts are what was read of a cluster. What could not be read is nil.
type Facts struct {
	At    time.Time
	Nodes []Node // by id; those that answered, and those that the cluster lists

	Members    *adminv1.ListMembersResponse
	Brokers    []*adminv1.Broker
	Topics     []*adminv1.Topic // with partitions where something is wrong
	Balance    *adminv1.Balance
	Operations *adminv1.ListOperationsResponse
	// Unread says why, by the question: members, brokers, topics, balance,
	// operations.
	Unread map[string]string
}

// Node is what one broker said of itself.
type Node struct {
	ID         int32
	Address    string                     // of its admin port
	Status     *adminv1.GetStatusResponse // nil: it did not answer
	Err        string                     // then why
	Metrics    map[string]float64         // by name with labels; nil: not read
	MetricsErr string
	// ClockAhead is its clock's lead over this machine's, to about a second; nil
	// when not known.
	ClockAhead *time.Duration
}

const (
	askTimeout = 3 * time.Second
	// describedMax bounds the topics that are looked into.
	describedMax = 100
	// nodesMax bounds the brokers that are asked at once.
	nodesMax        = 64
	metricsMaxBytes = 8 << 20
)

// Gather reads a cluster through the endpoints, which may be any of its brokers,
// and asks each broker that they list as well. It fails only when no endpoint
// answers, or ctx is cancelled.
func Gather(ctx context.Context, endpoints []string, actor string) (Facts, error) {
	f := Facts{At: time.Now().UTC(), Unread: map[string]string{}}
	admin, err := client.New(client.Options{Endpoints: endpoints, Actor: actor, RetryFor: askTimeout})
	if err != nil {
		return f, err
	}
	defer admin.Close()
	nodes := askAll(ctx, endpoints, actor)
	answered := false
	for _, n := range nodes {
		answered = answered || n.Status != nil
	}
	if !answered {
		if _, err := admin.Cluster.GetStatus(ctx, &adminv1.GetStatusRequest{}); err != nil {
			return f, err
		}
	}
	f.ask(ctx, admin)
	f.Nodes = f.others(ctx, nodes, actor)
	if err := ctx.Err(); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return f, err
	}
	return f, nil // what had no answer in time is unread
}

// ask puts the questions that any broker answers for the cluster, all at once: in
// a cluster without a controller each has no answer for seconds.
func (f *Facts) ask(ctx context.Context, admin *client.Client) {
	var all sync.WaitGroup
	var mu sync.Mutex // guards f.Unread
	ask := func(question string, put func() error) {
		all.Go(func() {
			err := put()
			if err == nil {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			if f.Unread[question] = err.Error(); errors.Is(err, context.DeadlineExceeded) {
				f.Unread[question] = "no answer in time"
			}
		})
	}
	ask("members", func() (err error) {
		f.Members, err = admin.Cluster.ListMembers(ctx, &adminv1.ListMembersRequest{})
		return err
	})
	ask("brokers", func() error {
		b, err := admin.Brokers.ListBrokers(ctx, &adminv1.ListBrokersRequest{})
		if err == nil {
			f.Brokers = append([]*adminv1.Broker{}, b.GetBrokers()...)
		}
		return err
	})
	ask("balance", func() error {
		b, err := admin.Brokers.GetBalance(ctx, &adminv1.GetBalanceRequest{})
		f.Balance = b.GetBalance()
		return err
	})
	ask("operations", func() (err error) {
		f.Operations, err = admin.Operations.ListOperations(ctx, &adminv1.ListOperationsRequest{})
		return err
	})
	ask("topics", func() error {
		t, err := admin.Topics.ListTopics(ctx, &adminv1.ListTopicsRequest{})
		if err == nil {
			f.Topics = append([]*adminv1.Topic{}, t.GetTopics()...)
			f.describe(ctx, admin)
		}
		return err
	})
	all.Wait()
}

// describe looks into the topics that are not as they should be.
func (f *Facts) describe(ctx context.Context, admin *client.Client) {
	described := 0
	for i, topic := range f.Topics {
		if topic.GetOfflinePartitions()+topic.GetUnderReplicatedPartitions() == 0 || described == describedMax {
			continue
		}
		described++
		if d, err := admin.Topics.DescribeTopic(ctx, &adminv1.DescribeTopicRequest{Name: topic.GetName()}); err == nil {
			f.Topics[i] = d.GetTopic()
		}
	}
}

// others asks the brokers that the cluster lists and no endpoint named.
func (f *Facts) others(ctx context.Context, nodes []Node, actor string) []Node {
	known := map[int32]bool{}
	var out []Node
	for _, n := range nodes {
		if n.Status != nil && !known[n.ID] {
			known[n.ID] = true
			out = append(out, n)
		}
	}
	var addresses []string
	var ids []int32
	for _, b := range f.Brokers {
		if !known[b.GetBrokerId()] && len(ids) < nodesMax {
			ids, addresses = append(ids, b.GetBrokerId()), append(addresses, b.GetEndpoints().GetAdmin())
		}
	}
	for i, n := range askAll(ctx, addresses, actor) {
		if n.Status != nil && n.ID != ids[i] {
			n = Node{Address: n.Address, Err: fmt.Sprintf("node %d answers there", n.ID)}
		}
		n.ID = ids[i]
		out = append(out, n)
	}
	sort.Slice(out, func(a, b int) bool { return out[a].ID < out[b].ID })
	return out
}

// askAll asks each address, all at once.
func askAll(ctx context.Context, addresses []string, actor string) []Node {
	nodes := make([]Node, len(addresses))
	var asked sync.WaitGroup
	for i, address := range addresses {
		asked.Go(func() { nodes[i] = askNode(ctx, address, actor) })
	}
	asked.Wait()
	return nodes
}

func askNode(ctx context.Context, address, actor string) Node {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	n := Node{Address: address}
	endpoint, err := client.ParseEndpoint(address)
	if err != nil {
		n.Err = err.Error()
		return n
	}
	admin, err := client.New(client.Options{Endpoints: []string{address}, Actor: actor, RetryFor: time.Second})
	if err == nil {
		defer admin.Close()
		n.Status, err = admin.Cluster.GetStatus(ctx, &adminv1.GetStatusRequest{})
	}
	if err != nil {
		n.Status, n.Err = nil, err.Error()
		return n
	}
	n.ID = n.Status.GetSelfNodeId()
	if err := n.measure(ctx, endpoint); err != nil {
		n.MetricsErr = err.Error()
	}
	return n
}

// measure reads the metrics page, and the clock from its date.
func (n *Node) measure(ctx context.Context, endpoint *url.URL) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, endpoint.String()+"/metrics", nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if date, err := http.ParseTime(response.Header.Get("Date")); err == nil {
		ahead := date.Add(500 * time.Millisecond).Sub(time.Now()) // it was cut to the second
		n.ClockAhead = &ahead
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, metricsMaxBytes))
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("GET /metrics: status %d, expected 200", response.StatusCode)
	}
	n.Metrics, err = parseMetrics(string(body))
	return err
}

// parseMetrics reads the text format as far as it is needed: a name with labels,
// and a value.
func parseMetrics(page string) (map[string]float64, error) {
	out := map[string]float64{}
	for line := range strings.Lines(page) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		at := strings.LastIndexByte(line, ' ')
		if at < 0 {
			return nil, fmt.Errorf("metrics: %q is no metric", line)
		}
		value, err := strconv.ParseFloat(line[at+1:], 64)
		if err != nil {
			return nil, fmt.Errorf("metrics: %q has no number", line)
		}
		out[line[:at]] = value
	}
	if len(out) == 0 {
		return nil, errors.New("metrics: the page is empty")
	}
	return out, nil
}
