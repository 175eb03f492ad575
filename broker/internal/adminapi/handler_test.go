package adminapi_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"golang.org/x/net/http2"

	"github.com/ister-mq/ister/admin/adminv1"
	"github.com/ister-mq/ister/admin/adminv1/adminv1connect"
	"github.com/ister-mq/ister/admin/client"
	"github.com/ister-mq/ister/broker/internal/metadata"
	"github.com/ister-mq/ister/broker/internal/model"
	"github.com/ister-mq/ister/broker/internal/operation"
)

type nodeID = model.NodeID

func name(topic string) model.TopicName {
	return model.TopicName{Namespace: model.DefaultNamespace, Topic: topic}
}

func stepOnce(c *cluster) []metadata.Command {
	return operation.Step(c.now(), operation.Observations{Now: testNow})
}

// post does what curl -d does.
func post(t *testing.T, address, path, body string) (int, string) {
	t.Helper()
	response, err := http.Post("http://"+address+path, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	raw, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(raw)
}

func TestJSONOverHTTP(t *testing.T) {
	c := newCluster(t, 3)
	address := c.nodes[2].address // forwards to node 1
	const topics, brokers, cluster = "/ister.admin.v1.TopicsService/", "/ister.admin.v1.BrokersService/", "/ister.admin.v1.ClusterService/"
	for _, step := range []struct {
		path, body string
		status     int
		has        []string
	}{
		{topics + "CreateTopic", `{"name":"/default/orders","partitions":2}`, 200, []string{`"name":"/default/orders"`, `"partition_count":2`, `"dispatch":"RELIABLE"`}},
		{topics + "CreateTopic", `{"name":"/default/orders"}`, 409, []string{`"code":"already_exists"`, "TOPIC_EXISTS", `"debug":`}},
		{topics + "ListTopics", `{}`, 200, []string{`"offline_partitions":0`, `"leaders":[`}},
		{topics + "ListTopics", ``, 200, []string{`"topics":[`}},
		{topics + "DescribeTopic", `{"name":"orders"}`, 200, []string{`"log_end_offset":"1000"`, `"operation_id":"0"`}},
		{topics + "DescribeTopic", `{"name":"no such"}`, 400, []string{"INVALID_NAME"}},
		{brokers + "GetBalance", `{}`, 200, []string{`"coefficient_of_variation":0.`, `"broker_count":3`}},
		{brokers + "Rebalance", `{"dryrun":true}`, 400, []string{"unknown field", "dryrun"}},
		{brokers + "Rebalance", `{"dry_run":true,"max_moves":-1}`, 400, []string{"max_moves: got -1"}},
		{brokers + "Unload", `{"broker_id":0}`, 400, []string{"INVALID_ARGUMENT"}},
		{brokers + "Unload", `{"broker_id":9007199254740993}`, 400, []string{"9007199254740993"}},
		{brokers + "Unload", `{"broker_id":9}`, 404, []string{"NODE_NOT_FOUND"}},
		{cluster + "GetStatus", `{}`, 200, []string{`"self_node_id":2`, `"controller_id":1`, `"last_applied":"1152921504606846975"`, `"answered_by":1`}},
		{cluster + "RemoveNode", `{"node_id":3}`, 400, []string{"NODE_HOLDS_REPLICAS"}},
		{cluster + "RemoveNode", `{`, 400, []string{"invalid_argument"}},
		{cluster + "NoSuchMethod", `{}`, 404, []string{"not a path of this node", "/healthz"}},
		{"/ister.admin.v1.OperationsService/GetOperation", `{"operation_id":"18446744073709551615"}`, 404, []string{"OPERATION_NOT_FOUND"}},
	} {
		status, body := post(t, address, step.path, step.body)
		if status != step.status {
			t.Errorf("POST %s %s: status %d, expected %d: %s", step.path, step.body, status, step.status, body)
		}
		for _, has := range step.has {
			if !strings.Contains(body, has) {
				t.Errorf("POST %s %s: %s is not in %s", step.path, step.body, has, body)
			}
		}
	}
}

func TestBalanceOfAnEmptyClusterHasNoValue(t *testing.T) {
	c := newCluster(t, 3)
	if _, body := post(t, c.nodes[1].address, "/ister.admin.v1.BrokersService/GetBalance", `{}`); !strings.Contains(body, `"coefficient_of_variation":null`) {
		t.Errorf("balance of an empty cluster: %s", body)
	}
	if out, _, _ := c.admin(1, "brokers balance"); !strings.Contains(out, "none (nothing is placed)") {
		t.Errorf("balance of an empty cluster: %s", out)
	}
}

func TestPlainPaths(t *testing.T) {
	c := newCluster(t, 3)
	fresh := c.listen(0)
	for _, step := range []struct {
		address, path string
		status        int
		has           string
	}{
		{c.nodes[1].address, "/healthz", 200, `"status":"alive"`},
		{c.nodes[1].address, "/readyz", 200, `{"ready":true,"reasons":[]}`},
		{fresh.address, "/healthz", 200, `"status":"alive"`},
		{fresh.address, "/readyz", 503, "not admitted"},
		{fresh.address, "/ister/node", 200, `"state":"fresh"`},
		{c.nodes[2].address, "/ister/node", 200, `"node_id":2`},
		{c.nodes[1].address, "/metrics", 200, "ister_up 1"},
		{c.nodes[1].address, "/", 404, "/ister.admin.v1."},
	} {
		response, err := http.Get("http://" + step.address + step.path)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(response.Body)
		response.Body.Close()
		if response.StatusCode != step.status || !strings.Contains(string(body), step.has) {
			t.Errorf("GET %s: %d %s, expected %d with %s", step.path, response.StatusCode, body, step.status, step.has)
		}
	}
}

// TestEveryProtocolIsForwarded sends a change and a refusal by Connect, gRPC and
// gRPC-Web to a node that is not the controller.
func TestEveryProtocolIsForwarded(t *testing.T) {
	c := newCluster(t, 3)
	h2 := &http.Client{Transport: &http2.Transport{AllowHTTP: true, DialTLSContext: func(ctx context.Context, network, address string, _ *tls.Config) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}}}
	t.Cleanup(h2.CloseIdleConnections)
	for protocol, options := range map[string][]connect.ClientOption{
		"connect": nil, "connect-json": {connect.WithProtoJSON()}, "grpc": {connect.WithGRPC()}, "grpcweb": {connect.WithGRPCWeb()},
	} {
		for _, id := range []nodeID{1, 2} {
			topics := adminv1connect.NewTopicsServiceClient(h2, "http://"+c.nodes[id].address, options...)
			topic := fmt.Sprintf("/default/%s-%d", protocol, id)
			if _, err := topics.CreateTopic(context.Background(), &adminv1.CreateTopicRequest{Name: topic}); err != nil {
				t.Errorf("%s to node %d: %v", protocol, id, err)
			}
			_, err := topics.CreateTopic(context.Background(), &adminv1.CreateTopicRequest{Name: topic})
			var refused *connect.Error
			if !errors.As(err, &refused) || refused.Code() != connect.CodeAlreadyExists || len(refused.Details()) != 1 {
				t.Errorf("%s to node %d, again: %v", protocol, id, err)
			}
		}
	}
}

func TestNodeThatIsNoMemberSaysSoAtOnce(t *testing.T) {
	c := newCluster(t, 1)
	c.nodes[9] = c.listen(0)
	_, words, exit := c.admin(9, "topics list")
	if exit != 6 || !strings.Contains(words, "NODE_NOT_READY") || !strings.Contains(words, "cluster add-node") {
		t.Errorf("exit %d: %s", exit, words)
	}
	// A member beside it does.
	admin, err := client.New(client.Options{Endpoints: []string{c.nodes[9].address, c.nodes[1].address}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := admin.Topics.ListTopics(context.Background(), &adminv1.ListTopicsRequest{}); err != nil {
		t.Error(err)
	}
}

func TestNoControllerIsRefusedAfterTheWait(t *testing.T) {
	c := newCluster(t, 3)
	c.setController(0)
	_, err := c.client(2).Topics.ListTopics(context.Background(), &adminv1.ListTopicsRequest{})
	if !client.IsReason(err, "NO_CONTROLLER") {
		t.Errorf("got %v, expected NO_CONTROLLER", err)
	}
	if _, words, exit := c.admin(2, "topics list --timeout 1s"); exit != 6 || !strings.Contains(words, "NO_CONTROLLER") {
		t.Errorf("exit %d, %s", exit, words)
	}
	// The status of the node itself needs no controller.
	if out, words, exit := c.admin(2, "cluster status"); exit != 0 || !strings.Contains(out, "Leader:            none") {
		t.Errorf("status without a controller: exit %d, %s%s", exit, out, words)
	}
}

// TestStatusCountsAsKafkaDoes: a fenced broker is not active; under-replicated is a
// replica that is not in sync, and not one that there never was.
func TestStatusCountsAsKafkaDoes(t *testing.T) {
	const status = "/ister.admin.v1.ClusterService/GetStatus"
	alone := newCluster(t, 1)
	alone.must(&metadata.CreateTopic{Name: name("t")})
	if _, body := post(t, alone.nodes[1].address, status, `{}`); !strings.Contains(body, `"under_replicated_partitions":0,"undersized_partitions":1`) {
		t.Errorf("a topic that wants three replicas on one broker: %s", body)
	}
	if out, _, _ := alone.admin(1, "cluster status"); !strings.Contains(out, "Under-replicated:  0 partitions\nUndersized:        1 partition with fewer") {
		t.Errorf("a topic that wants three replicas on one broker:\n%s", out)
	}
	c := newCluster(t, 3)
	c.must(&metadata.CreateTopic{Name: name("t")})
	c.must(&metadata.FenceNode{ID: 3, Epoch: c.now().Nodes[3].Epoch})
	if _, body := post(t, c.nodes[1].address, status, `{}`); !strings.Contains(body, `"brokers":3,"active_brokers":2`) || !strings.Contains(body, `"under_replicated_partitions":1,"undersized_partitions":0`) {
		t.Errorf("one of three is fenced: %s", body)
	}
	c.setController(model.NoNode)
	if _, body := post(t, c.nodes[1].address, status, `{}`); strings.Count(body, `partitions":null`) != 3 || !strings.Contains(body, `"active_brokers":null`) {
		t.Errorf("without a controller nobody knows who is alive: %s", body)
	}
	if out, _, _ := c.admin(1, "cluster status"); strings.Count(out, "unknown") != 3 || !strings.Contains(out, "only what node 1 knew") {
		t.Errorf("without a controller nobody knows who is alive:\n%s", out)
	}
}

// TestForwardingDoesNotGoInCircles: a node that was taken for the controller and
// is not refuses a request that was sent on.
func TestForwardingDoesNotGoInCircles(t *testing.T) {
	c := newCluster(t, 3)
	request, _ := http.NewRequest(http.MethodPost, "http://"+c.nodes[2].address+"/ister.admin.v1.TopicsService/ListTopics", strings.NewReader("{}"))
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Ister-Forwarded-By", "3")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, _ := io.ReadAll(response.Body)
	if response.StatusCode != http.StatusServiceUnavailable || !bytes.Contains(body, []byte("NOT_CONTROLLER")) {
		t.Errorf("got %d %s", response.StatusCode, body)
	}
	if got := response.Header.Get("Ister-Not-Controller"); got != "1" {
		t.Errorf("hint: got %q, expected 1", got)
	}
}

// TestRemovingTheControllerIsFollowed: the controller hands its role over and the
// request goes to the new one, in one call.
func TestRemovingTheControllerIsFollowed(t *testing.T) {
	for _, asked := range []nodeID{2, 3} {
		c := newCluster(t, 4)
		c.must(&metadata.SetNodeState{ID: 3, State: metadata.NodeCordoned})
		c.setController(3)
		c.handOverFirst = true
		_, words, exit := c.admin(asked, "cluster remove-node --node-id 3")
		if exit != 0 {
			t.Errorf("asked node %d: exit %d: %s", asked, exit, words)
		}
		if c.now().Nodes[3] != nil || c.now().Tombstones[3] == nil {
			t.Errorf("asked node %d: node 3 is still there", asked)
		}
	}
}

// TestHungControllerIsLeft: when another node becomes the controller while the old
// one hangs with a call, the call goes to the new one if it may be repeated, and
// its outcome is called unknown if not.
func TestHungControllerIsLeft(t *testing.T) {
	for _, call := range []struct {
		name   string
		do     func(*client.Client) error
		reason string
	}{
		{"cordon", func(admin *client.Client) error {
			_, err := admin.Brokers.Cordon(context.Background(), &adminv1.CordonRequest{BrokerId: 2})
			return err
		}, ""},
		{"create", func(admin *client.Client) error {
			_, err := admin.Topics.CreateTopic(context.Background(), &adminv1.CreateTopicRequest{Name: "orders"})
			return err
		}, client.ReasonOutcomeUnknown},
	} {
		t.Run(call.name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, 3)
			hold := make(chan struct{})
			defer close(hold)
			c.mu.Lock()
			c.hold = hold
			c.mu.Unlock()
			done := make(chan error, 1)
			go func() { done <- call.do(c.client(2)) }()
			<-c.arrived
			c.mu.Lock()
			c.hold, c.controller = nil, 3
			c.mu.Unlock()
			err := <-done
			if call.reason == "" && err != nil || call.reason != "" && !client.IsReason(err, call.reason) {
				t.Errorf("got %v, expected %q", err, call.reason)
			}
		})
	}
}

func (c *cluster) asked(id nodeID) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.nodes[id].requests
}

// TestLostAnswerOfAChangeIsUnknown: a call that is not safe to repeat and whose
// answer was lost is neither repeated nor called a failure.
func TestLostAnswerOfAChangeIsUnknown(t *testing.T) {
	c := newCluster(t, 3)
	hold := make(chan struct{})
	defer close(hold)
	c.mu.Lock()
	c.hold = hold
	c.mu.Unlock()
	done := make(chan error, 1)
	go func() {
		_, err := c.client(2).Topics.CreateTopic(context.Background(), &adminv1.CreateTopicRequest{Name: "orders"})
		done <- err
	}()
	<-c.arrived
	c.nodes[1].server.Close()
	if err := <-done; !client.IsReason(err, client.ReasonOutcomeUnknown) {
		t.Errorf("got %v, expected OUTCOME_UNKNOWN", err)
	}
	if n := c.asked(1); n != 1 {
		t.Errorf("the change was sent %d times, expected once", n)
	}
}

func TestFaultsAreInternal(t *testing.T) {
	c := newCluster(t, 1)
	c.fault = errors.New("append segment 42: no space left on device")
	_, words, exit := c.admin(1, "namespaces create payments")
	if exit != 1 || !strings.Contains(words, "append segment 42") || !strings.Contains(words, "INTERNAL") {
		t.Errorf("exit %d: %s", exit, words)
	}
}

func TestBadActorIsRefused(t *testing.T) {
	c := newCluster(t, 1)
	admin, err := client.New(client.Options{Endpoints: []string{c.nodes[1].address}, Actor: strings.Repeat("x", 200)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := admin.Namespaces.CreateNamespace(context.Background(), &adminv1.CreateNamespaceRequest{Name: "payments"}); !client.IsReason(err, "INVALID_ARGUMENT") {
		t.Errorf("got %v", err)
	}
}

func TestDryRunsWriteNothing(t *testing.T) {
	c := newCluster(t, 4)
	c.must(&metadata.CreateTopic{Name: name("orders")})
	c.must(&metadata.CreateNamespace{Name: "payments"})
	before := c.now().Revision
	for line, exit := range map[string]int{
		"topics create clicks --dry-run":                         0,
		"topics create orders --dry-run":                         3,
		"topics create wide --replication-factor 9 --dry-run":    2,
		"topics delete orders --dry-run":                         0,
		"topics delete clicks --dry-run":                         3,
		"topics move orders --replicas --dry-run":                0,
		"namespaces create audit --dry-run":                      0,
		"namespaces create payments --dry-run":                   3,
		"namespaces delete payments --dry-run":                   0,
		"namespaces delete default --dry-run":                    4,
		"brokers cordon --broker-id 2 --dry-run":                 0,
		"brokers uncordon --broker-id 2 --dry-run":               0,
		"brokers activate --broker-id 7 --dry-run":               3,
		"brokers unload --broker-id 1 --dry-run":                 0,
		"brokers rebalance --dry-run":                            0,
		"cluster demote-node --node-id 2 --dry-run":              0,
		"cluster promote-node --node-id 2 --dry-run":             0,
		"cluster remove-node --node-id 1 --dry-run":              4,
		"cluster remove-node --node-id 1 --placement-revision 1": 5,
		"cluster add-node --dry-run --node-addr 127.0.0.1:1":     0,
		"topics create a.b_c --config min.insync.replicas=x":     2,
		"topics create a --config no.such.key=1 --dry-run":       2,
		"topics list --namespace nope":                           3,
		"topics list --broker 9":                                 3,
		"cluster transfer-leadership --to 9":                     3,
		"topics create /a/b/c --dry-run":                         2,
		"topics create /nope/x --dry-run":                        3,
		"topics move orders --to 9 --dry-run":                    3,
		"namespaces create a.b --dry-run":                        2,
	} {
		out, words, got := c.admin(2, line)
		if got != exit {
			t.Errorf("admin %s: exit %d, expected %d\n%s%s", line, got, exit, out, words)
		}
		if got != 0 && !strings.Contains(words, "[") {
			t.Errorf("admin %s: no reason in %s", line, words)
		}
	}
	if after := c.now().Revision; after != before {
		t.Errorf("revision went from %d to %d", before, after)
	}
}
