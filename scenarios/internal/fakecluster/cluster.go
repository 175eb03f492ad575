// Package fakecluster is a cluster in this process, for tests of the runner: a
// Kafka cluster of franz-go's kfake, and the admin API in front of it. It keeps
// the rules that scenarios rely on (learner before voter, active before load,
// empty before removal) and does every operation at once.
//
// It is no broker: it replicates nothing, and a killed node loses its leaders
// but neither records nor connections.
//
// File map:
//
//	cluster.go  the setup: brokers that start, stop and are killed
//	admin.go    the admin API
package fakecluster

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/ister-mq/ister/admin/adminv1"
	"github.com/ister-mq/ister/admin/adminv1/adminv1connect"
	"github.com/ister-mq/ister/setups"
)

// Setup implements setups.Setup. The zero value is a correct cluster; the fields
// make it wrong in one way.
type Setup struct {
	// NoStart: no cluster can be started.
	NoStart bool
	// NoRebalance: a rebalance moves nothing.
	NoRebalance bool
	// ServesAfterRemoval: a removed node that is started again is ready.
	ServesAfterRemoval bool
	// Leftover is reported by Close.
	Leftover string
	// Without are abilities that it lacks; Flag is what would lift the refusals.
	Without []setups.Ability
	Flag    string
	// OnForm, when set, is given the Kafka cluster, to make it wrong as well.
	OnForm func(*kfake.Cluster)
}

// Name implements setups.Setup; it takes the place of the real one.
func (Setup) Name() string { return "process" }

// Check implements setups.Setup.
func (Setup) Check(context.Context) []setups.Finding { return nil }

// Cannot implements setups.Limited.
func (s Setup) Cannot(ability setups.Ability) *setups.Refused {
	if slices.Contains(s.Without, ability) {
		return &setups.Refused{Setup: s.Name(), What: ability.What(), Why: "the fake was told so", Remedy: "take another", Flag: s.Flag}
	}
	return nil
}

// New implements setups.Setup.
func (s Setup) New(_ context.Context, options setups.Options) (setups.Cluster, error) {
	return &cluster{setup: s, dir: options.Dir, topics: map[string]*topic{}, tombstones: map[int32]bool{}, looks: map[uint64]int{}}, nil
}

type cluster struct {
	setup Setup
	dir   string
	kafka *kfake.Cluster

	mu         sync.Mutex
	nodes      []*node           // guarded by mu, like everything below
	topics     map[string]*topic // by full name
	tombstones map[int32]bool
	controller int32
	nextID     int32
	operations uint64
	placement  uint64         // its revision: changes up to now
	looks      map[uint64]int // at each operation
	closed     bool
}

// node is one broker. id 0: not admitted.
type node struct {
	setups.Broker
	id     int32
	state  adminv1.Node_State
	voter  bool
	port   int // of Kafka
	server *httptest.Server
}

type topic struct {
	name, kafka string
	leader      int32
	epoch       int32
	replicas    []int32
}

func (c *cluster) Binary() (string, string) { return "fake", "fake" }

func (c *cluster) Brokers() []setups.Broker {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make([]setups.Broker, len(c.nodes))
	for i, n := range c.nodes {
		out[i] = n.Broker
	}
	return out
}

func (c *cluster) Form(_ context.Context, count int) ([]setups.Broker, error) {
	if c.setup.NoStart {
		return nil, fmt.Errorf("the fake was told not to start")
	}
	// Node 0 stays, as what kfake calls the controller; it leads nothing.
	kafka, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		return nil, err
	}
	c.kafka = kafka
	for range count {
		n, err := c.add()
		if err != nil {
			return nil, err
		}
		c.nextID++
		n.id, n.voter, n.state = c.nextID, true, adminv1.Node_ACTIVE
		if err := c.openKafka(n); err != nil {
			return nil, err
		}
	}
	c.controller = 1
	if c.setup.OnForm != nil {
		c.setup.OnForm(kafka)
	}
	return c.Brokers(), nil
}

func (c *cluster) openKafka(n *node) error {
	_, port, err := c.kafka.AddNode(n.id, n.port)
	if err != nil {
		return err
	}
	n.port, n.Kafka = port, net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	return nil
}

func (c *cluster) add() (*node, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	name := fmt.Sprintf("b%d", len(c.nodes)+1)
	ports, err := setups.FreePorts(1) // known before the node is admitted
	if err != nil {
		return nil, err
	}
	n := &node{Broker: setups.Broker{Name: name, Kafka: net.JoinHostPort("127.0.0.1", strconv.Itoa(ports[0])), LogFile: filepath.Join("brokers", name, "log")}, port: ports[0]}
	if err := os.MkdirAll(filepath.Join(c.dir, "brokers", name), 0o755); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(c.dir, n.LogFile), []byte("fake log of "+name+"\n"), 0o644); err != nil {
		return nil, err
	}
	c.nodes = append(c.nodes, n)
	return n, c.serve(n)
}

// serve opens the node's admin port, on its old address if it had one; c.mu is
// held.
func (c *cluster) serve(n *node) error {
	mux := http.NewServeMux()
	api := &api{c: c, node: n}
	mux.Handle(adminv1connect.NewClusterServiceHandler(api))
	mux.Handle(adminv1connect.NewBrokersServiceHandler(api))
	mux.Handle(adminv1connect.NewTopicsServiceHandler(api))
	mux.Handle(adminv1connect.NewOperationsServiceHandler(api))
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]any{"ready": true})
	})
	mux.HandleFunc("/ister/node", func(w http.ResponseWriter, _ *http.Request) {
		c.mu.Lock()
		defer c.mu.Unlock()
		state := "member"
		switch {
		case n.id == 0:
			state = "fresh"
		case c.tombstones[n.id]:
			state = "removed"
		}
		_ = json.NewEncoder(w).Encode(map[string]any{
			"node_id": n.id, "cluster": "fake", "incarnation": n.Name, "state": state, "version": "fake",
			"endpoints": map[string]string{"kafka": n.Kafka, "admin": n.Admin},
		})
	})
	address := n.Admin
	if address == "" {
		address = "127.0.0.1:0"
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	n.server = &httptest.Server{Listener: listener, Config: &http.Server{Handler: mux}}
	n.server.Start()
	n.Admin, n.Running = listener.Addr().String(), true
	return nil
}

func (c *cluster) Add(context.Context) (setups.Broker, error) {
	n, err := c.add()
	if err != nil {
		return setups.Broker{}, err
	}
	return n.Broker, nil
}

func (c *cluster) find(name string) (*node, error) {
	for _, n := range c.nodes {
		if n.Name == name {
			return n, nil
		}
	}
	return nil, fmt.Errorf("no broker is called %s", name)
}

func (c *cluster) Start(_ context.Context, name string) (*setups.Exit, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, err := c.find(name)
	if err != nil {
		return nil, err
	}
	if c.tombstones[n.id] {
		if c.setup.ServesAfterRemoval {
			return nil, c.serve(n)
		}
		return &setups.Exit{Code: 10}, nil
	}
	return nil, c.serve(n)
}

func (c *cluster) Stop(ctx context.Context, name string, _ time.Duration) (setups.Exit, error) {
	return setups.Exit{}, c.Kill(ctx, name)
}

func (c *cluster) Kill(_ context.Context, name string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, err := c.find(name)
	if err != nil {
		return err
	}
	n.Running = false
	n.server.CloseClientConnections()
	n.server.Close()
	if n.id == 0 || c.tombstones[n.id] {
		return nil
	}
	for _, other := range c.nodes {
		if c.controller == n.id && other.voter && other.Running {
			c.controller = other.id
		}
	}
	return c.settle()
}

func (c *cluster) Pause(string) error  { return nil }
func (c *cluster) Resume(string) error { return nil }

func (c *cluster) Close(context.Context) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil
	}
	c.closed = true
	for _, n := range c.nodes {
		if n.Running {
			n.server.CloseClientConnections()
			n.server.Close()
			n.Running = false
		}
	}
	if c.kafka != nil {
		c.kafka.Close()
	}
	if c.setup.Leftover != "" {
		return []string{c.setup.Leftover}
	}
	return nil
}

// alive reports whether a member runs; c.mu is held.
func (c *cluster) alive(id int32) bool {
	for _, n := range c.nodes {
		if n.id == id {
			return n.Running
		}
	}
	return false
}

// active lists the nodes that may hold something; c.mu is held.
func (c *cluster) active() []int32 {
	var ids []int32
	for _, n := range c.nodes {
		if n.id != 0 && n.Running && n.state == adminv1.Node_ACTIVE && !c.tombstones[n.id] {
			ids = append(ids, n.id)
		}
	}
	return ids
}

// settle gives topics whose leader is gone another one, and makes the Kafka
// cluster, which shuffles leaders when a node comes, follow; c.mu is held.
func (c *cluster) settle() error {
	c.placement++
	for _, t := range c.sorted() {
		if c.kafka.TopicInfo(t.kafka) == nil { // deleted by way of Kafka
			delete(c.topics, t.name)
			continue
		}
		for _, r := range t.replicas {
			if !c.alive(t.leader) && c.alive(r) {
				t.leader, t.epoch = r, t.epoch+1
			}
		}
		if err := c.kafka.MoveTopicPartition(t.kafka, 0, t.leader); err != nil {
			return err
		}
	}
	return nil
}

func (c *cluster) sorted() []*topic {
	var all []*topic
	for _, t := range c.topics {
		all = append(all, t)
	}
	sort.Slice(all, func(i, j int) bool {
		if len(all[i].name) != len(all[j].name) {
			return len(all[i].name) < len(all[j].name)
		}
		return all[i].name < all[j].name
	})
	return all
}
