package adminapi_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/ister-mq/ister/admin/adminv1"
	"github.com/ister-mq/ister/admin/client"
	"github.com/ister-mq/ister/broker/internal/metadata"
)

// TestRunbook walks the scaling runbook through the command line, at a node that
// is never the controller.
func TestRunbook(t *testing.T) {
	c := newCluster(t, 3)
	run := func(line string) string {
		t.Helper()
		out, errors, exit := c.admin(2, line)
		if exit != 0 {
			t.Fatalf("admin %s: exit %d\n%s%s", line, exit, out, errors)
		}
		return out
	}
	refused := func(line string, exit int, words ...string) {
		t.Helper()
		out, errors, got := c.admin(2, line)
		if got != exit {
			t.Errorf("admin %s: exit %d, expected %d\n%s%s", line, got, exit, out, errors)
		}
		for _, w := range words {
			if !strings.Contains(errors, w) {
				t.Errorf("admin %s: %q is not in\n%s", line, w, errors)
			}
		}
	}

	for i := 1; i <= 12; i++ {
		run(fmt.Sprintf("topics create /default/scale-test-%d", i))
	}
	refused("topics create /default/scale-test-1", 3, "TOPIC_EXISTS")
	refused("topics create /default/wide --replication-factor 4", 2, "INVALID_REPLICATION_FACTOR")

	newcomer := c.listen(0)
	out := run("cluster add-node --dry-run --node-addr http://" + newcomer.address)
	if !strings.Contains(out, "Dry run") || len(c.now().Nodes) != 3 {
		t.Errorf("dry run of add-node: %s", out)
	}
	out = run("cluster add-node --node-addr http://" + newcomer.address)
	if !strings.Contains(out, "Added node 4") {
		t.Errorf("add-node: %s", out)
	}
	newcomer.id, c.nodes[4] = 4, newcomer
	c.register(4)
	if out = run("cluster add-node --node-addr " + newcomer.address); !strings.Contains(out, "already") {
		t.Errorf("add-node again: %s", out)
	}
	status, _, _ := c.admin(4, "cluster status")
	for _, line := range []string{"Self Node ID:      4", "Leader:            1", "Voters:            1, 2, 3", "Learners:          4"} {
		if !strings.Contains(status, line) {
			t.Errorf("cluster status of node 4 lacks %q:\n%s", line, status)
		}
	}
	run("cluster promote-node --node-id 4")
	run("brokers activate --broker-id 4 --reason scale-up")
	if out = run("brokers activate --broker-id 4"); !strings.Contains(out, "already") {
		t.Errorf("activate again: %s", out)
	}

	before := c.now().Revision
	out = run("brokers rebalance --dry-run")
	if !strings.Contains(out, "nothing was changed") || c.now().Revision != before {
		t.Errorf("dry run of rebalance changed something or does not say so:\n%s", out)
	}
	out = run("brokers rebalance")
	if !strings.Contains(out, "Started op-1") {
		t.Errorf("rebalance: %s", out)
	}
	if out = run("brokers rebalance"); !strings.Contains(out, "Attached to op-1") {
		t.Errorf("rebalance again does not attach: %s", out)
	}
	refused("cluster remove-node --node-id 4", 4, "NODE_HAS_MOVES", "op-1")
	c.settle()
	var balance struct {
		CV      *float64 `json:"coefficient_of_variation"`
		Brokers []struct {
			ID      int `json:"broker_id"`
			Leaders int `json:"leaders"`
		} `json:"brokers"`
	}
	if err := json.Unmarshal([]byte(run("brokers balance --output json")), &balance); err != nil {
		t.Fatal(err)
	}
	if balance.CV == nil || *balance.CV != 0 || len(balance.Brokers) != 4 || balance.Brokers[3].Leaders != 3 {
		t.Errorf("balance after the rebalance: %+v", balance)
	}

	refused("cluster remove-node --node-id 4", 4, "NODE_HOLDS_REPLICAS", "NODE_HOLDS_LEADERS", "brokers unload --broker-id 4")
	refused("cluster remove-node --node-id 4 --dry-run", 4, "not safe to remove", "NODE_HOLDS_REPLICAS")
	run("brokers unload --broker-id 4")
	c.settle()
	out = run("brokers unload --broker-id 4 --wait")
	for _, line := range []string{"Leaders:   0", "Replicas:  0", "Moves:     0", "it can be removed"} {
		if !strings.Contains(out, line) {
			t.Errorf("drain certificate lacks %q:\n%s", line, out)
		}
	}
	if out = run("cluster remove-node --node-id 4"); !strings.Contains(out, "Voters: 1, 2, 3") {
		t.Errorf("remove-node: %s", out)
	}
	if out = run("cluster remove-node --node-id 4"); !strings.Contains(out, "already") {
		t.Errorf("remove-node again: %s", out)
	}
	refused("brokers unload --broker-id 4", 4, "NODE_REMOVED")
	if out = run("brokers list"); strings.Contains(out, "10.0.0.4") {
		t.Errorf("brokers list has the removed node:\n%s", out)
	}
	if out = run("topics list --namespace default"); strings.Count(out, " ok") != 12 {
		t.Errorf("topics list: not 12 healthy topics:\n%s", out)
	}
	run("topics describe scale-test-7")
	run("cluster status")
}

// TestUnloadWithWaitFollowsTheOperation lets the operation end while the command
// waits, with a change of the controller in between.
func TestUnloadWithWaitFollowsTheOperation(t *testing.T) {
	c := newCluster(t, 4)
	for i := range 6 {
		c.must(&metadata.CreateTopic{Name: name(fmt.Sprintf("t%d", i))})
	}
	admin := c.client(2, 3)
	ctx := context.Background()
	r, err := admin.Brokers.Unload(ctx, &adminv1.UnloadRequest{BrokerId: 4})
	if err != nil {
		t.Fatal(err)
	}
	if got := r.GetOperation().GetActor(); got != "scenario:test" {
		t.Errorf("actor of the operation: got %q, expected scenario:test", got)
	}
	looks := 0
	op, err := admin.WaitOperation(ctx, r.GetOperation().GetOperationId(), func(p client.Progress) {
		looks++
		switch looks {
		case 1:
			if p.Operation.GetState() != adminv1.Operation_RUNNING || p.Operation.GetMovesDone() != 0 || p.Operation.GetMovesTotal() == 0 {
				t.Errorf("first look: %v", p.Operation)
			}
			c.setController(0)
		case 2:
			if p.Err == nil {
				t.Error("second look, without a controller: got no error, expected one that the wait outlasts")
			}
			c.setController(3)
			c.settle()
		}
	})
	if err != nil || op.GetState() != adminv1.Operation_SUCCEEDED || op.GetMovesDone() != op.GetMovesTotal() {
		t.Errorf("the operation ended as %v, %v", op, err)
	}
}

func TestMovesShowWhatIsCopied(t *testing.T) {
	c := newCluster(t, 4)
	c.must(&metadata.CreateTopic{Name: name("orders"), Assignment: [][]nodeID{{1, 2, 3}}})
	out, errors, exit := c.admin(3, "topics move /default/orders --to 4 --replicas")
	if exit != 0 {
		t.Fatalf("topics move: exit %d: %s", exit, errors)
	}
	if !strings.Contains(out, "1 replica to copy") {
		t.Errorf("topics move: %s", out)
	}
	for _, cmd := range stepOnce(c) {
		c.must(cmd)
	}
	out, _, _ = c.admin(3, "cluster moves")
	if !strings.Contains(out, "adding") || !strings.Contains(out, "256.0 KiB of 1.0 MiB") {
		t.Errorf("cluster moves: %s", out)
	}
	out, _, _ = c.admin(3, "cluster operations cancel 1")
	if !strings.Contains(out, "op-1 is now cancelling") {
		t.Errorf("operations cancel: %s", out)
	}
	c.settle()
	if _, errors, exit = c.admin(3, "cluster operations show op-1 --wait"); exit != 4 || !strings.Contains(errors, "cancelled") {
		t.Errorf("waiting for a cancelled operation: exit %d, %s", exit, errors)
	}
	if _, _, exit = c.admin(3, "cluster operations show op-99"); exit != 3 {
		t.Errorf("operations show op-99: exit %d, expected 3", exit)
	}
}

func TestWaitEndsAtItsTimeoutAndSaysThatTheOperationGoesOn(t *testing.T) {
	c := newCluster(t, 4)
	c.must(&metadata.CreateTopic{Name: name("orders"), Assignment: [][]nodeID{{4, 1, 2}}})
	_, errors, exit := c.admin(1, "brokers unload --broker-id 4 --wait --timeout 400ms")
	if exit != 6 || !strings.Contains(errors, "NOT_FINISHED") || !strings.Contains(errors, "cluster operations show op-1") {
		t.Errorf("exit %d, expected 6\n%s", exit, errors)
	}
	if strings.Count(errors, "0/1 moves") < 1 {
		t.Errorf("no progress line:\n%s", errors)
	}
}
