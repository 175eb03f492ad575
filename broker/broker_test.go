package broker

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ister-mq/ister/admin/adminv1"
)

func TestClusterOfOneSurvivesStopAndKill(t *testing.T) {
	c := newTestCluster(t, 1)
	topics := c.topics(2)
	l := c.startLoad(topics)
	l.finish(c)
	before := len(c.read(topics[0], 1))
	node := c.nodes[0]
	for _, end := range []func(){func() { node.stop(t) }, node.kill} {
		end()
		node.start(t)
		node.ready(t)
		if got := len(c.read(topics[0], before)); got != before {
			t.Fatalf("%d records after the restart, %d before", got, before)
		}
	}
}

func TestIdempotentLoadSurvivesLeaderChanges(t *testing.T) {
	c := newTestCluster(t, 3)
	topics := c.topics(3)
	l := c.startLoad(topics)
	for range 4 {
		for _, topic := range topics {
			moved, err := c.admin.Topics.MoveTopic(c.context(), &adminv1.MoveTopicRequest{Name: "/default/" + topic})
			if err != nil {
				t.Fatal(err)
			}
			c.wait(moved.Operation)
		}
		l.progress()
	}
	l.finish(c)
}

func TestKilledNodesLoseNothing(t *testing.T) {
	c := newTestCluster(t, 3)
	topics := c.topics(3)
	l := c.startLoad(topics)
	for round := range 6 {
		victim := c.nodes[round%3]
		if round >= 3 {
			victim = c.nodes[max(0, c.leader(topics[0]))]
		}
		victim.kill()
		l.progress()
		victim.start(t)
		victim.ready(t)
		c.inSync(topics)
	}
	l.finish(c)
}

// inSync waits until every topic has its full ISR again.
func (c *testCluster) inSync(topics []string) {
	c.t.Helper()
	eventually(c.t, "every replica is in sync", func() bool {
		for _, n := range c.nodes {
			if n.broker == nil {
				continue
			}
			im := n.broker.node.Image()
			for _, topic := range topics {
				t := im.TopicByKafkaName(topic)
				if t == nil || len(t.Partitions[0].ISR) != len(t.Partitions[0].Replicas) || t.Partitions[0].Leader == 0 {
					return false
				}
			}
		}
		return true
	})
}

func TestOrderlyRestartsOfEveryNode(t *testing.T) {
	c := newTestCluster(t, 3)
	topics := c.topics(3)
	l := c.startLoad(topics)
	for _, node := range c.nodes {
		node.stop(t)
		l.progress()
		node.start(t)
		node.ready(t)
		c.inSync(topics)
	}
	l.finish(c)
}

func TestFullStopAndRestartOfTheCluster(t *testing.T) {
	c := newTestCluster(t, 3)
	topics := c.topics(2)
	l := c.startLoad(topics)
	l.finish(c)
	before := c.read(topics[1], 1)
	for _, end := range []func(*testNode){func(n *testNode) { n.stop(t) }, (*testNode).kill} {
		for _, n := range c.nodes {
			end(n)
		}
		for _, n := range c.nodes {
			n.start(t)
		}
		for _, n := range c.nodes {
			n.ready(t)
		}
		c.inSync(topics)
		if got := c.read(topics[1], len(before)); len(got) != len(before) {
			t.Fatalf("%d records after the restart, %d before", len(got), len(before))
		}
	}
}

func TestScaleUpAndDownUnderLoad(t *testing.T) {
	c := newTestCluster(t, 3)
	topics := c.topics(8)
	l := c.startLoad(topics)

	joiner := &testNode{config: testConfig(t, filepath.Dir(c.nodes[0].config.DataDir), 4, freePorts(t, 3), map[string]string{"join": "true"})}
	joiner.start(t)
	defer joiner.kill()
	added, err := c.admin.Cluster.AddNode(c.context(), &adminv1.AddNodeRequest{NodeAddr: joiner.config.AdminAddr})
	if err != nil {
		t.Fatal(err)
	}
	joiner.ready(t)
	id := added.NodeId
	if _, err := c.admin.Cluster.PromoteNode(c.context(), &adminv1.PromoteNodeRequest{NodeId: id}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.admin.Brokers.Activate(c.context(), &adminv1.ActivateRequest{BrokerId: id, Reason: "test"}); err != nil {
		t.Fatal(err)
	}
	rebalanced, err := c.admin.Brokers.Rebalance(c.context(), &adminv1.RebalanceRequest{})
	if err != nil {
		t.Fatal(err)
	}
	c.wait(rebalanced.Operation)
	for _, b := range c.balance() {
		if b.Leaders != 2 || b.Replicas != 6 {
			t.Errorf("broker %d has %d leaders and %d replicas, want 2 and 6", b.BrokerId, b.Leaders, b.Replicas)
		}
	}
	l.progress()

	unloaded, err := c.admin.Brokers.Unload(c.context(), &adminv1.UnloadRequest{BrokerId: id})
	if err != nil {
		t.Fatal(err)
	}
	c.wait(unloaded.Operation)
	l.progress()
	if _, err := c.admin.Cluster.RemoveNode(c.context(), &adminv1.RemoveNodeRequest{NodeId: id}); err != nil {
		t.Fatal(err)
	}
	if err := joiner.broker.Wait(c.context()); ExitStatus(err) != ExitRemoved {
		t.Errorf("the removed node ended with %v", err)
	}
	joiner.stop(t)
	if _, err := New(joiner.config, Options{}); ExitStatus(err) != ExitRemoved {
		t.Errorf("the removed node started again: %v", err)
	}
	l.progress()
	c.inSync(topics)
	l.finish(c)
}

func (c *testCluster) balance() []*adminv1.Load {
	c.t.Helper()
	balance, err := c.admin.Brokers.GetBalance(c.context(), &adminv1.GetBalanceRequest{})
	if err != nil {
		c.t.Fatal(err)
	}
	return balance.Balance.Brokers
}

// A wiped disk is a new node, never the old one with nothing in it.
func TestWipedDiskDoesNotComeBackAsTheOldNode(t *testing.T) {
	c := newTestCluster(t, 3)
	topics := c.topics(3)
	l := c.startLoad(topics)
	victim := c.nodes[2]
	victim.kill()
	if err := os.RemoveAll(victim.config.DataDir); err != nil {
		t.Fatal(err)
	}
	b, err := New(victim.config, Options{})
	if err == nil {
		defer b.node.Kill()
		err = b.Wait(c.context())
	}
	if ExitStatus(err) != ExitWrongIdentity {
		t.Errorf("the wiped node ended with %v, want exit status %d", err, ExitWrongIdentity)
	}
	l.progress()
	l.finish(c)
}

func TestStartRefusals(t *testing.T) {
	c := newTestCluster(t, 1)
	node := c.nodes[0]
	again := node.config
	ports := freePorts(t, 3)
	again.BrokerAddr, again.AdminAddr, again.RaftAddr = ports[0], ports[1], ports[2]
	if _, err := New(again, Options{}); ExitStatus(err) != ExitDataDirInUse || !strings.Contains(err.Error(), "--data-dir") {
		t.Errorf("a second node on the data directory: %v", err)
	}
	other := testConfig(t, t.TempDir(), 9, []string{ports[0], node.config.AdminAddr, ports[2]}, nil)
	if _, err := New(other, Options{}); ExitStatus(err) != ExitAddressInUse || !strings.Contains(err.Error(), "--admin-addr") {
		t.Errorf("a second node on the port: %v", err)
	}
	if names, err := os.ReadDir(filepath.Dir(other.DataDir)); err != nil || len(names) != 0 {
		t.Errorf("a refused start left %v, %v", names, err)
	}
}

// TestDirectoryOfSomebodyElseIsLeftAlone: a mistyped --data-dir is not formatted, and
// one that lost its identity does not become another node's.
func TestDirectoryOfSomebodyElseIsLeftAlone(t *testing.T) {
	for name, c := range map[string]struct {
		files []string
		says  string // "": it starts
	}{
		"somebody's files":            {[]string{"notes.txt", "src/main.go"}, "it holds notes.txt, src"},
		"many files":                  {[]string{"a", "b", "c", "d", "e"}, "a, b, c and 2 more"},
		"logs without an identity":    {[]string{"logs/0b5e-0/00000000000000000000.log"}, "partition logs and no identity"},
		"a quorum without identity":   {[]string{"raft/meta"}, "cluster state and no identity"},
		"a fresh file system":         {[]string{"lost+found/x", ".snapshot"}, ""},
		"a first start was cut short": {[]string{"node.lock", "identity.new"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			parent := t.TempDir()
			dir := filepath.Join(parent, "n0")
			for _, file := range c.files {
				path := filepath.Join(dir, file)
				if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte("mine"), 0o644)); err != nil {
					t.Fatal(err)
				}
			}
			before := tree(t, dir)
			b, err := New(testConfig(t, parent, 0, freePorts(t, 3), nil), Options{})
			if err == nil {
				b.node.Kill()
			}
			switch {
			case c.says == "" && err != nil:
				t.Errorf("it was refused: %v", err)
			case c.says != "" && (ExitStatus(err) != ExitWrongIdentity || !strings.Contains(err.Error(), c.says)):
				t.Errorf("got %v, want exit status %d and %q", err, ExitWrongIdentity, c.says)
			case c.says != "" && !slices.Equal(tree(t, dir), before):
				t.Errorf("it held %v, and now %v", before, tree(t, dir))
			}
		})
	}
}

// TestNodesKnowTheirOwnFiles: whatever a node makes in its data directory is no
// reason to refuse it when the identity was not yet written.
func TestNodesKnowTheirOwnFiles(t *testing.T) {
	c := newTestCluster(t, 1)
	c.topics(1)
	dir := c.nodes[0].config.DataDir
	c.nodes[0].stop(t)
	for _, name := range []string{"logs", "raft"} {
		if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(filepath.Join(dir, "identity")); err != nil {
		t.Fatal(err)
	}
	b, err := New(c.nodes[0].config, Options{})
	if err != nil {
		t.Fatalf("%v; it holds %v", err, tree(t, dir))
	}
	b.node.Kill()
}

// tree lists the files below a directory.
func tree(t *testing.T, dir string) []string {
	t.Helper()
	var names []string
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		names = append(names, path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}
