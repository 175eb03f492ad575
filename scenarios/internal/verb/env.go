package verb

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/ister-mq/ister/admin/client"
	"github.com/ister-mq/ister/scenarios/internal/history"
	"github.com/ister-mq/ister/scenarios/internal/load"
	"github.com/ister-mq/ister/setups"
)

// Env is what the verbs of one run work on.
type Env struct {
	RunID   string
	Seed    int64
	Dir     string // of the run
	Brokers int    // how many form the cluster
	// Topics are those that the steps of this run create, as Kafka clients name
	// them, as far as their names are known before.
	Topics   []string
	Cluster  setups.Cluster
	Recorder *history.Recorder
	// UpgradeBinary is the build to upgrade to; "" has the setup find one.
	UpgradeBinary string
	// Versions tells what ran, in the run's record. May be nil.
	Versions map[string]string
	// Say reports progress within a step, in one short line.
	Say func(string)

	step   string // of the call that runs now
	faults faults
	epochs *epochWatch // nil: not watched

	mu       sync.Mutex
	loads    []*load.Load            // guarded by mu, in order of their start
	armed    []*load.Load            // guarded by mu: released when the next disturbance begins
	admin    *client.Client          // guarded by mu
	adminFor string                  // guarded by mu: the endpoints of admin
	names    map[int64]string        // guarded by mu: broker name by node id
	nodeIDs  map[string]int64        // guarded by mu: the reverse
	captures int                     // guarded by mu
	streams  map[string]*load.Stream // guarded by mu, by id
	builds   *builds                 // guarded by mu; nil until build.find
}

// BeginStep tells which step the next calls belong to.
func (e *Env) BeginStep(id string) { e.step = id }

// BeginDisturbance records that the step disturbs the cluster from now on, and
// lets the loads go on that wait for that. The handle is the recorder's.
func (e *Env) BeginDisturbance(use, detail string) (handle int, err error) {
	handle = e.Recorder.BeginDisturbance(e.step, use, detail)
	e.mu.Lock()
	armed := e.armed
	e.armed = nil
	e.mu.Unlock()
	for _, l := range armed {
		if !l.Release() {
			err = errors.Join(err, noMoreHolds(l))
		}
	}
	return handle, err
}

// EnvironmentError is a failure of the machine or the start of the cluster, not
// of what the scenario tests.
type EnvironmentError struct{ Err error }

// Error implements error.
func (e *EnvironmentError) Error() string { return e.Err.Error() }

// Unwrap gives the cause.
func (e *EnvironmentError) Unwrap() error { return e.Err }

// Close ends the faults and the loads.
func (e *Env) Close() {
	if e.epochs != nil {
		e.epochs.close()
		e.epochs = nil
	}
	e.undoFaults()
	e.mu.Lock()
	loads, admin := e.loads, e.admin
	e.loads, e.admin = nil, nil
	e.mu.Unlock()
	for _, l := range loads {
		l.Close()
	}
	if admin != nil {
		admin.Close()
	}
}

// Admin is a client for the brokers that run. One that is frozen or cut off
// answers late, or with what it last knew, so it is asked only when no other runs.
func (e *Env) Admin() (*client.Client, error) {
	var endpoints, hindered []string
	for _, b := range e.Cluster.Brokers() {
		switch {
		case !b.Running || b.Admin == "":
		case e.faults.has(b.Name, faultCut, faultPause):
			hindered = append(hindered, b.Admin)
		default:
			endpoints = append(endpoints, b.Admin)
		}
	}
	if len(endpoints) == 0 {
		endpoints = hindered
	}
	if len(endpoints) == 0 {
		return nil, errors.New("no broker that runs has an admin API")
	}
	key := strings.Join(endpoints, ",")
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.admin != nil && e.adminFor == key {
		return e.admin, nil
	}
	c, err := e.newAdmin(endpoints)
	if err != nil {
		return nil, err
	}
	if e.admin != nil {
		e.admin.Close()
	}
	e.admin, e.adminFor = c, key
	return c, nil
}

func (e *Env) newAdmin(endpoints []string) (*client.Client, error) {
	return client.New(client.Options{Endpoints: endpoints, Actor: "scenario:" + e.RunID, UnreachableFor: 5 * time.Second, RetryFor: 15 * time.Second})
}

// AdminOf is a client for one broker alone.
func (e *Env) AdminOf(name string) (*client.Client, error) {
	b, err := e.broker(name)
	if err != nil {
		return nil, err
	}
	return e.newAdmin([]string{b.Admin})
}

func (e *Env) broker(name string) (setups.Broker, error) {
	var names []string
	for _, b := range e.Cluster.Brokers() {
		if b.Name == name {
			return b, nil
		}
		names = append(names, b.Name)
	}
	return setups.Broker{}, fmt.Errorf("no broker is called %s (there are %s)", name, strings.Join(names, ", "))
}

// bootstrap lists the Kafka addresses of the brokers that run, those that are
// not hindered first.
func (e *Env) bootstrap() []string {
	var addresses, hindered []string
	for _, b := range e.Cluster.Brokers() {
		switch {
		case !b.Running:
		case e.faults.has(b.Name, faultCut, faultPause):
			hindered = append(hindered, b.Kafka)
		default:
			addresses = append(addresses, b.Kafka)
		}
	}
	return append(addresses, hindered...)
}

// learn notes that a broker has a node id.
func (e *Env) learn(name string, id int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.names == nil {
		e.names, e.nodeIDs = map[int64]string{}, map[string]int64{}
	}
	e.names[id], e.nodeIDs[name] = name, id
}

// nodeID asks a broker for its node id, once.
func (e *Env) nodeID(ctx context.Context, name string) (int64, error) {
	e.mu.Lock()
	id, known := e.nodeIDs[name]
	e.mu.Unlock()
	if known {
		return id, nil
	}
	admin, err := e.AdminOf(name)
	if err != nil {
		return 0, err
	}
	defer admin.Close()
	info, err := admin.NodeInfo(ctx)
	if err != nil {
		return 0, fmt.Errorf("ask %s for its node id: %w", name, err)
	}
	if info.Node == 0 {
		return 0, fmt.Errorf("%s is not a member yet", name)
	}
	e.learn(name, int64(info.Node))
	return int64(info.Node), nil
}

// brokerOf finds the broker with a node id.
func (e *Env) brokerOf(ctx context.Context, id int64) (string, error) {
	e.mu.Lock()
	name, known := e.names[id]
	e.mu.Unlock()
	if known {
		return name, nil
	}
	for _, b := range e.Cluster.Brokers() {
		if !b.Running {
			continue
		}
		if got, err := e.nodeID(ctx, b.Name); err == nil && got == id {
			return b.Name, nil
		}
	}
	return "", fmt.Errorf("no broker of this run has node id %d", id)
}

// NameOf is the name of the broker with a node id, as far as a step has learned
// it.
func (e *Env) NameOf(id int64) (string, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	name, ok := e.names[id]
	return name, ok
}

// label names a node for people: "b4" where known, else "node 4".
func (e *Env) label(id int64) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	if name, ok := e.names[id]; ok {
		return name
	}
	return fmt.Sprintf("node %d", id)
}

func (e *Env) addLoad(l *load.Load) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.loads = append(e.loads, l)
}

func (e *Env) load(id string) (*load.Load, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, l := range e.loads {
		if l.ID() == id {
			return l, nil
		}
	}
	return nil, fmt.Errorf("no load is called %s", id)
}

// poll repeats a look until it says done, fails for good, or ctx ends; then the
// last reason is told.
func poll(ctx context.Context, every time.Duration, look func() (done bool, waitingFor string, err error)) error {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		done, waitingFor, err := look()
		if err != nil || done {
			return err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("still waiting: %s: %w", waitingFor, ctx.Err())
		}
	}
}
