package verb

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ister-mq/ister/scenarios/internal/spec"
	"github.com/ister-mq/ister/setups"
)

type cutInputs struct {
	Broker    string `json:"broker" required:"true" doc:"name of the broker"`
	Peer      string `json:"peer" doc:"only its traffic with this broker; default: with every other"`
	Direction string `json:"direction" default:"both" enum:"both|in|out" doc:"in: nothing reaches it; out: nothing that it sends arrives"`
}

type slowInputs struct {
	Broker         string        `json:"broker" required:"true" doc:"name of the broker"`
	Delay          time.Duration `json:"delay" default:"0s" doc:"added to everything that it sends or gets"`
	Jitter         time.Duration `json:"jitter" default:"0s" doc:"up to so much more, at random, order kept"`
	BytesPerSecond int64         `json:"bytes_per_second" default:"0" min:"0" doc:"bound on each connection; 0: none"`
	LossPercent    int64         `json:"loss_percent" default:"0" min:"0" max:"90" doc:"chance that a piece is lost and sent again: TCP shows that as a stall of 200ms, 400ms, ..."`
}

type fillInputs struct {
	Broker     string `json:"broker" required:"true" doc:"name of the broker"`
	LeaveBytes int64  `json:"leave_bytes" default:"0" min:"0" doc:"bytes left free on the file system of its data"`
}

type undoInputs struct {
	Broker string `json:"broker" doc:"name of the broker; default: every one that has the fault"`
}

type faultOutputs struct {
	Broker string `json:"broker" doc:"name of the broker"`
}

type undoOutputs struct {
	Brokers  []string `json:"brokers" doc:"names of the brokers that had the fault"`
	Count    int64    `json:"count" doc:"how many"`
	LastedMS float64  `json:"lasted_ms" doc:"how long the longest lasted"`
}

type waitInputs struct {
	For time.Duration `json:"for" required:"true" doc:"how long"`
}

type waitOutputs struct {
	TookMS float64 `json:"took_ms" doc:"time waited"`
}

type inSyncInputs struct {
	Within time.Duration `json:"within" default:"20s" doc:"how long to wait for it"`
}

type inSyncOutputs struct {
	InSync     bool    `json:"in_sync" doc:"every broker is active and a voter, every partition has a leader and all its replicas in sync"`
	WaitingFor string  `json:"waiting_for" doc:"what was missing at the end"`
	TookMS     float64 `json:"took_ms" doc:"until it was so, or the waiting ended"`
}

type pickInputs struct {
	Role  string `json:"role" required:"true" enum:"leader|follower|controller|any" doc:"leader or follower of the topic's first partition; a follower is not the controller where there is another"`
	Topic string `json:"topic" doc:"full name of the topic, for leader and follower"`
	Seed  int64  `json:"seed" default:"0" doc:"chooses where several fit; 0: the run's seed"`
}

type pickOutputs struct {
	Name       string   `json:"name" doc:"name of the broker"`
	NodeID     int64    `json:"node_id" doc:"its node id"`
	Controller bool     `json:"controller" doc:"it is the controller now"`
	Leads      bool     `json:"leads" doc:"it leads the topic's first partition now"`
	Others     []string `json:"others" doc:"names of the other brokers that run"`
	Epoch      int64    `json:"epoch" doc:"leader epoch of the topic's first partition, 0 without a topic"`
}

func init() {
	define(meta{
		name: "network.cut_off", note: "{broker}", needs: []setups.Ability{setups.AbilityCutOff}, risk: spec.Disruptive,
		doc:     "Take the network between a broker and the others away, for clients all stays as it is. What is sent vanishes: connections stall, none is reset. The history has a disturbance until network.heal.",
		command: "<drop what {broker} and the other brokers send each other>",
	}, cutOff, nil)
	define(meta{
		name: "network.slow", note: "{broker}", needs: []setups.Ability{setups.AbilitySlow}, risk: spec.Disruptive,
		doc:     "Delay, narrow or lose traffic between a broker and the others. The history has a disturbance until network.heal.",
		command: "<delay what {broker} and the other brokers send each other by {delay}>",
	}, slow, nil)
	define(meta{
		name: "network.heal", note: "{brokers}, lasted ms {lasted_ms}", risk: spec.Additive, doc: "End network.cut_off and network.slow.", command: "<let it through again>",
	}, undo(faultCut, faultSlow), nil)
	define(meta{
		name: "disk.fill", note: "{broker}", needs: []setups.Ability{setups.AbilityFillDisk}, risk: spec.Disruptive,
		doc:     "Fill the file system of a broker's data. The history has a disturbance until disk.free.",
		command: "<fill the file system of {broker}>",
	}, fillDisk, nil)
	define(meta{
		name: "disk.free", note: "{brokers}, lasted ms {lasted_ms}", risk: spec.Additive, doc: "Take back what disk.fill wrote.", command: "<take it back>",
	}, undo(faultDisk), nil)
	define(meta{
		name: "broker.pause", note: "{broker}", needs: []setups.Ability{setups.AbilityPause}, risk: spec.Disruptive,
		doc:     "Freeze a broker: it keeps its connections and does nothing. The history has a disturbance until broker.unpause.",
		command: "kill -STOP <pid of {broker}>",
	}, pauseBroker, nil)
	define(meta{
		name: "broker.unpause", note: "{brokers}, lasted ms {lasted_ms}", risk: spec.Additive, doc: "Thaw frozen brokers.", command: "kill -CONT <pid>",
	}, undo(faultPause), nil)
	define(meta{
		name: "run.wait", note: "{took_ms} ms", risk: spec.ReadOnly, doc: "Let time pass: for a fault that nothing can be waited for beside.", command: "sleep <{for}>",
	}, runWait, nil)
	define(meta{
		name: "cluster.in_sync", note: "in sync {in_sync}, took ms {took_ms}", needs: []setups.Ability{setups.AbilityAdmin}, risk: spec.ReadOnly,
		doc: "Wait until every broker is active and a voter, and every partition has a leader and all its replicas in sync.", command: "<repeat ister admin cluster status until nothing is under-replicated>",
	}, clusterInSync, nil)
	define(meta{
		name: "broker.pick", note: "{name}, controller {controller}, leads {leads}", needs: []setups.Ability{setups.AbilityAdmin}, risk: spec.ReadOnly,
		doc:     "Find a broker by what it does now; where several fit, the seed chooses.",
		command: "<choose by ister admin cluster status and topics describe>",
	}, pick, nil)
}

// kind is what hinders a broker, until it is undone.
type kind string

const (
	faultCut   kind = "network.cut_off"
	faultSlow  kind = "network.slow"
	faultDisk  kind = "disk.fill"
	faultPause kind = "broker.pause"
)

// fault is one that lasts.
type fault struct {
	kind     kind
	broker   string
	recorded int // its disturbance in the history
	since    time.Time
}

// faults are those that last, so that they can be undone and their brokers be
// left alone.
type faults struct {
	mu    sync.Mutex
	lasts []fault // guarded by mu
}

// has reports whether a broker has a fault of one of the kinds.
func (f *faults) has(broker string, kinds ...kind) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.ContainsFunc(f.lasts, func(x fault) bool { return x.broker == broker && slices.Contains(kinds, x.kind) })
}

// of lists the faults of the kinds, of one broker or ("") of all.
func (f *faults) of(broker string, kinds ...kind) (out []fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, x := range f.lasts {
		if slices.Contains(kinds, x.kind) && (broker == "" || broker == x.broker) {
			out = append(out, x)
		}
	}
	return out
}

// begin does a fault and records that it lasts. What fails may have been done in
// part, so it counts as lasting.
func (e *Env) begin(k kind, broker, detail string, do func() error) (faultOutputs, error) {
	if _, err := e.broker(broker); err != nil {
		return faultOutputs{}, err
	}
	handle, err := e.BeginDisturbance(string(k), strings.TrimSpace(broker+" "+detail))
	e.faults.mu.Lock()
	e.faults.lasts = append(e.faults.lasts, fault{k, broker, handle, time.Now()})
	e.faults.mu.Unlock()
	return faultOutputs{Broker: broker}, errors.Join(err, do())
}

// undo is the verb that ends faults of some kinds. It tries all of them; one that
// cannot be ended goes on, and is tried again by the next.
func undo(kinds ...kind) func(context.Context, *Env, undoInputs) (undoOutputs, error) {
	return func(ctx context.Context, env *Env, in undoInputs) (undoOutputs, error) {
		out := undoOutputs{Brokers: []string{}}
		if in.Broker != "" {
			if _, err := env.broker(in.Broker); err != nil {
				return out, err
			}
		}
		var errs []error
		for _, f := range env.faults.of(in.Broker, kinds...) {
			if err := env.end(ctx, f); err != nil {
				errs = append(errs, fmt.Errorf("end %s of %s: %w", f.kind, f.broker, err))
				continue
			}
			out.LastedMS = max(out.LastedMS, since(f.since))
			if !slices.Contains(out.Brokers, f.broker) {
				out.Brokers = append(out.Brokers, f.broker)
			}
		}
		out.Count = int64(len(out.Brokers))
		return out, errors.Join(errs...)
	}
}

// end undoes one fault, and those of its broker that go with it.
func (e *Env) end(ctx context.Context, f fault) error {
	able, _ := e.Cluster.(setups.Faults)
	var err error
	switch {
	case f.kind == faultPause:
		if e.runs(f.broker) { // one that was killed is frozen no more
			err = e.Cluster.Resume(f.broker)
		}
	case able == nil:
		err = errors.New("the setup has no faults to end")
	case f.kind == faultDisk:
		err = able.FreeDisk(ctx, f.broker)
	default:
		err = able.Heal(ctx, f.broker)
	}
	if err != nil {
		return err
	}
	e.Recorder.EndDisturbance(f.recorded)
	e.faults.mu.Lock()
	defer e.faults.mu.Unlock()
	e.faults.lasts = slices.DeleteFunc(e.faults.lasts, func(x fault) bool { return x.recorded == f.recorded })
	return nil
}

// undoMax bounds the undoing of faults at the end of a run.
const undoMax = 20 * time.Second

// undoFaults ends every fault that still lasts: brokers that are frozen or cut
// off do not end in order.
func (e *Env) undoFaults() {
	ctx, cancel := context.WithTimeout(context.Background(), undoMax)
	defer cancel()
	for _, f := range e.faults.of("", faultCut, faultSlow, faultDisk, faultPause) {
		if err := e.end(ctx, f); err != nil && e.Say != nil {
			e.Say(fmt.Sprintf("%s of %s was not undone: %v", f.kind, f.broker, err))
		}
	}
}

// can is the cluster's faults, when it has the one that is meant.
func (e *Env) can(f setups.Fault) (setups.Faults, error) {
	able, ok := e.Cluster.(setups.Faults)
	if !ok || !slices.Contains(able.Can(), f) {
		return nil, &EnvironmentError{fmt.Errorf("this cluster was started without what %s needs: give the scenario `cluster: {links: true}` or `disk: 384MiB`, or use another setup", f)}
	}
	return able, nil
}

func cutOff(ctx context.Context, env *Env, in cutInputs) (faultOutputs, error) {
	able, err := env.can(setups.FaultCutOff)
	if err != nil {
		return faultOutputs{}, err
	}
	if in.Peer == "" && in.Direction == string(setups.Both) {
		return env.begin(faultCut, in.Broker, "", func() error { return able.CutOff(ctx, in.Broker) })
	}
	cutter, ok := able.(setups.Cutter)
	if !ok {
		return faultOutputs{}, &EnvironmentError{errors.New("this setup cuts a broker off from every other, in both directions: leave out peer and direction, or use the setup process")}
	}
	if in.Peer != "" {
		if _, err := env.broker(in.Peer); err != nil {
			return faultOutputs{}, err
		}
	}
	detail := "direction " + in.Direction
	if in.Peer != "" {
		detail = "from " + in.Peer + ", " + detail
	}
	return env.begin(faultCut, in.Broker, detail, func() error {
		return cutter.Cut(ctx, setups.Cut{Broker: in.Broker, Peer: in.Peer, Direction: setups.Direction(in.Direction)})
	})
}

func slow(ctx context.Context, env *Env, in slowInputs) (faultOutputs, error) {
	able, err := env.can(setups.FaultSlow)
	if err != nil {
		return faultOutputs{}, err
	}
	link := setups.Link{Delay: in.Delay, Jitter: in.Jitter, BytesPerSecond: in.BytesPerSecond, LossPercent: int(in.LossPercent)}
	if link == (setups.Link{}) || in.Delay < 0 || in.Jitter < 0 {
		return faultOutputs{}, fmt.Errorf("slow %s down by delay %s, jitter %s, %d bytes/s, loss %d %%: give at least one above zero", in.Broker, in.Delay, in.Jitter, in.BytesPerSecond, in.LossPercent)
	}
	detail := fmt.Sprintf("delay %s, jitter %s, %d bytes/s, loss %d %%", in.Delay, in.Jitter, in.BytesPerSecond, in.LossPercent)
	return env.begin(faultSlow, in.Broker, detail, func() error { return able.Slow(ctx, in.Broker, link) })
}

func fillDisk(ctx context.Context, env *Env, in fillInputs) (faultOutputs, error) {
	able, err := env.can(setups.FaultFillDisk)
	if err != nil {
		return faultOutputs{}, err
	}
	return env.begin(faultDisk, in.Broker, fmt.Sprintf("%d bytes left", in.LeaveBytes), func() error { return able.FillDisk(ctx, in.Broker, in.LeaveBytes) })
}

func pauseBroker(_ context.Context, env *Env, in brokerInputs) (faultOutputs, error) {
	return env.begin(faultPause, in.Broker, "", func() error { return env.Cluster.Pause(in.Broker) })
}

func runWait(ctx context.Context, _ *Env, in waitInputs) (waitOutputs, error) {
	start := time.Now()
	err := wait(ctx, in.For)
	return waitOutputs{TookMS: since(start)}, err
}

func clusterInSync(ctx context.Context, env *Env, in inSyncInputs) (inSyncOutputs, error) {
	start := time.Now()
	bounded, cancel := context.WithTimeout(ctx, in.Within)
	defer cancel()
	err := inSync(bounded, env)
	out := inSyncOutputs{InSync: err == nil, TookMS: since(start)}
	if err != nil && ctx.Err() == nil {
		out.WaitingFor, err = err.Error(), nil
	}
	return out, err
}

func pick(ctx context.Context, env *Env, in pickInputs) (pickOutputs, error) {
	if in.Topic == "" && (in.Role == "leader" || in.Role == "follower") {
		return pickOutputs{}, fmt.Errorf("pick the %s of which topic: give topic", in.Role)
	}
	now, err := status(ctx, env, none{})
	if err != nil {
		return pickOutputs{}, err
	}
	var where topicOutputs
	if in.Topic != "" {
		if where, err = topicDescribe(ctx, env, topicInputs{in.Topic}); err != nil {
			return pickOutputs{}, err
		}
	}
	candidates := candidatesOf(in.Role, now, where)
	if len(candidates) == 0 {
		return pickOutputs{}, fmt.Errorf("no broker is the %s now: look at `ister admin cluster status`", in.Role)
	}
	seed := in.Seed
	if seed == 0 {
		seed = env.Seed
	}
	id := candidates[rand.New(rand.NewPCG(uint64(seed), 2)).IntN(len(candidates))]
	out := pickOutputs{NodeID: id, Controller: id == now.Controller, Leads: in.Topic != "" && id == where.Leader, Epoch: where.Epoch, Others: []string{}}
	if out.Name, err = env.brokerOf(ctx, id); err != nil {
		return out, err
	}
	for _, b := range env.Cluster.Brokers() {
		if b.Running && b.Name != out.Name {
			out.Others = append(out.Others, b.Name)
		}
	}
	return out, nil
}

// candidatesOf lists the node ids that have a role, in order.
func candidatesOf(role string, now statusOutputs, where topicOutputs) []int64 {
	known := func(id int64) []int64 {
		if id == 0 {
			return nil
		}
		return []int64{id}
	}
	switch role {
	case "leader":
		return known(where.Leader)
	case "controller":
		return known(now.Controller)
	case "any":
		return now.Active
	}
	var followers, quiet []int64
	for _, id := range where.Replicas {
		if id != where.Leader {
			followers = append(followers, id)
			if id != now.Controller {
				quiet = append(quiet, id)
			}
		}
	}
	if len(quiet) > 0 {
		return quiet
	}
	return followers
}
