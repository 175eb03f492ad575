package verb

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"time"

	"github.com/ister-mq/ister/admin/adminv1"
	"github.com/ister-mq/ister/scenarios/internal/spec"
	"github.com/ister-mq/ister/setups"
)

type brokerOutputs struct {
	Name  string `json:"name" doc:"name of the broker in this run"`
	Admin string `json:"admin" doc:"admin address"`
	Kafka string `json:"kafka" doc:"Kafka address"`
	Raft  string `json:"raft" doc:"node-to-node address"`
}

type brokerInputs struct {
	Broker string `json:"broker" required:"true" doc:"name of the broker"`
}

type stopInputs struct {
	Broker string        `json:"broker" required:"true" doc:"name of the broker"`
	Grace  time.Duration `json:"grace" default:"20s" doc:"how long it may take to end in order"`
}

type stopOutputs struct {
	ExitCode int64   `json:"exit_code" doc:"-1 after a signal"`
	Signal   string  `json:"signal" doc:"the signal that ended it, if one did"`
	TookMS   float64 `json:"took_ms" doc:"until the process had ended"`
}

type restartInputs struct {
	Broker string        `json:"broker" required:"true" doc:"name of the broker"`
	Within time.Duration `json:"within" default:"10s" doc:"how long it may take to be ready or to end"`
}

type restartOutputs struct {
	Serves   bool    `json:"serves" doc:"it became ready"`
	Exited   bool    `json:"exited" doc:"it ended by itself"`
	ExitCode int64   `json:"exit_code" doc:"its exit code when it ended, else 0"`
	Says     string  `json:"says" doc:"the last line of its log, or why it is not ready"`
	TookMS   float64 `json:"took_ms" doc:"until that was known"`
}

type activateInputs struct {
	NodeID int64  `json:"node_id" required:"true" min:"1" doc:"node id"`
	Reason string `json:"reason" default:"scenario" doc:"kept with the state"`
}

type activateOutputs struct {
	State   string `json:"state" doc:"state of the broker afterwards"`
	Already bool   `json:"already" doc:"it was active before"`
}

type unloadOutputs struct {
	Operation    int64   `json:"operation" doc:"id of the operation, 0 when there was nothing to do"`
	State        string  `json:"state" doc:"how the operation ended"`
	Moves        int64   `json:"moves" doc:"moves done"`
	Leaders      int64   `json:"leaders" doc:"leaders that the broker still has"`
	Replicas     int64   `json:"replicas" doc:"replicas that it still has"`
	OpenMoves    int64   `json:"open_moves" doc:"moves that still involve it"`
	Retiring     int64   `json:"retiring" doc:"copies that it has not yet given up"`
	Drained      bool    `json:"drained" doc:"the drain certificate says drained"`
	Empty        bool    `json:"empty" doc:"drained, and no replica at all"`
	Certificate  string  `json:"certificate" doc:"the certificate in one line"`
	TookMS       float64 `json:"took_ms" doc:"until the operation ended"`
	BrokerState  string  `json:"broker_state" doc:"state of the broker afterwards"`
	BytesMoved   int64   `json:"bytes_moved" doc:"estimate of the plan"`
	ReplicaMoves int64   `json:"replica_moves" doc:"replicas that got a new home"`
	LeaderMoves  int64   `json:"leader_moves" doc:"partitions that got another leader"`
}

type rebalanceInputs struct {
	MaxMoves int64 `json:"max_moves" default:"0" min:"0" doc:"bound on the plan; 0: none"`
}

type planOutputs struct {
	Moves        int64  `json:"moves" doc:"partitions in the plan"`
	ReplicaMoves int64  `json:"replica_moves" doc:"replicas that get a new home"`
	LeaderMoves  int64  `json:"leader_moves" doc:"partitions that get another leader"`
	Before       string `json:"before" doc:"leaders per broker before"`
	After        string `json:"after" doc:"leaders per broker as planned"`
}

type rebalanceOutputs struct {
	Operation    int64   `json:"operation" doc:"id of the operation, 0 when there was nothing to do"`
	State        string  `json:"state" doc:"how the operation ended; none when there was nothing to do"`
	Moves        int64   `json:"moves" doc:"partitions in the plan"`
	ReplicaMoves int64   `json:"replica_moves" doc:"replicas that get a new home"`
	LeaderMoves  int64   `json:"leader_moves" doc:"partitions that get another leader"`
	Before       string  `json:"before" doc:"leaders per broker before"`
	After        string  `json:"after" doc:"leaders per broker as planned"`
	TookMS       float64 `json:"took_ms" doc:"until the operation ended"`
}

type balanceOutputs struct {
	CV         *float64 `json:"cv" doc:"coefficient of variation of leaders per active broker; none when it has no value"`
	ReplicasCV *float64 `json:"replicas_cv" doc:"the same for replicas"`
	Vector     string   `json:"vector" doc:"leaders per active broker"`
	Replicas   string   `json:"replicas" doc:"replicas per active broker"`
	Leaders    int64    `json:"leaders" doc:"leaders in total"`
	MinLeaders int64    `json:"min_leaders" doc:"leaders of the broker with the fewest"`
	Brokers    int64    `json:"brokers" doc:"active brokers"`
}

func init() {
	define(meta{
		name: "broker.start", needs: []setups.Ability{setups.AbilityAdd}, risk: spec.Additive, doc: "Start one more broker that waits to be added.",
		command: "ister broker --join --data-dir <dir> --broker-addr <addr> --admin-addr <addr> --raft-addr <addr>",
		note:    "{name}",
	}, brokerStart, nil)
	define(meta{
		name: "broker.stop", needs: []setups.Ability{setups.AbilityStop}, risk: spec.Disruptive, disturbs: true, doc: "Ask a broker's process to end in order, and wait.", command: "kill -TERM <pid of {broker}>",
		note: "exit code {exit_code}",
	}, brokerStop, nil)
	define(meta{
		name: "broker.kill", needs: []setups.Ability{setups.AbilityKill}, risk: spec.Destructive, disturbs: true, doc: "End a broker's process at once, as a crash does.", command: "kill -KILL <pid of {broker}>",
	}, brokerKill, nil)
	define(meta{
		name: "broker.restart", needs: []setups.Ability{setups.AbilityStart, setups.AbilityAdmin}, risk: spec.Disruptive, doc: "Start a stopped or killed broker again on its data, and see whether it serves.",
		command: "<the command in brokers/{broker}/cmd>",
		note:    "serves {serves}, exit code {exit_code}",
	}, brokerRestart, nil)
	define(meta{
		name: "broker.activate", needs: []setups.Ability{setups.AbilityAdmin}, risk: spec.Additive, doc: "Let a broker take replicas and leaders.",
		command: "ister admin brokers activate --broker-id {node_id} --reason '{reason}'",
		note:    "{state}",
	}, activate, nil)
	define(meta{
		name: "broker.unload", needs: []setups.Ability{setups.AbilityAdmin}, risk: spec.Disruptive, disturbs: true, doc: "Drain a broker of leaders and replicas, wait for the operation, and read the drain certificate.",
		command: "ister admin brokers unload --broker-id {node_id} --wait",
		note:    "{certificate}",
	}, unload, func(ctx context.Context, env *Env, in nodeInputs, before unloadOutputs) (unloadOutputs, error) {
		return before, certificate(ctx, env, in.NodeID, &before)
	})
	define(meta{
		name: "brokers.rebalance", needs: []setups.Ability{setups.AbilityAdmin}, risk: spec.Disruptive, disturbs: true, doc: "Spread leaders and replicas over the active brokers, and wait for the operation.",
		command: "ister admin brokers rebalance[ --max-moves {max_moves}] --wait",
		note:    "{state}, replica moves {replica_moves}, leader moves {leader_moves}",
	}, rebalance, nil)
	define(meta{
		name: "brokers.plan", needs: []setups.Ability{setups.AbilityAdmin}, risk: spec.ReadOnly, doc: "What a rebalance would move now; nothing is changed.",
		command: "ister admin brokers rebalance --dry-run[ --max-moves {max_moves}]",
		note:    "replica moves {replica_moves}, leader moves {leader_moves}",
	}, planRebalance, nil)
	define(meta{
		name: "brokers.balance", needs: []setups.Ability{setups.AbilityAdmin}, risk: spec.ReadOnly, doc: "How evenly the active brokers are loaded.", command: "ister admin brokers balance --output json",
		note: "{vector}",
	}, balance, nil)
}

func brokerStart(ctx context.Context, env *Env, _ none) (brokerOutputs, error) {
	b, err := env.Cluster.Add(ctx)
	if err != nil {
		return brokerOutputs{}, &EnvironmentError{fmt.Errorf("start a broker: %w", err)}
	}
	return brokerOutputs{Name: b.Name, Admin: b.Admin, Kafka: b.Kafka, Raft: b.Raft}, nil
}

func brokerStop(ctx context.Context, env *Env, in stopInputs) (stopOutputs, error) {
	start := time.Now()
	for _, b := range env.Cluster.Brokers() {
		if b.Name == in.Broker && !b.Running { // a removed node may have ended by itself
			return stopOutputs{}, nil
		}
	}
	exit, err := env.Cluster.Stop(ctx, in.Broker, in.Grace)
	return stopOutputs{ExitCode: int64(exit.Code), Signal: exit.Signal, TookMS: since(start)}, err
}

func brokerKill(ctx context.Context, env *Env, in brokerInputs) (stopOutputs, error) {
	start := time.Now()
	err := env.Cluster.Kill(ctx, in.Broker)
	return stopOutputs{ExitCode: -1, Signal: "killed", TookMS: since(start)}, err
}

func brokerRestart(ctx context.Context, env *Env, in restartInputs) (restartOutputs, error) {
	start := time.Now()
	wait, cancel := context.WithTimeout(ctx, in.Within)
	defer cancel()
	out := restartOutputs{}
	exit, err := env.Cluster.Start(wait, in.Broker)
	switch {
	case exit != nil:
		out.Exited, out.ExitCode, out.Says = true, int64(exit.Code), env.lastLine(in.Broker)
	case err != nil && ctx.Err() != nil:
		return out, err
	case err != nil:
		out.Says = err.Error()
	default:
		out.Serves, out.Says = env.ready(wait, in.Broker)
		if !out.Serves {
			out.Exited = !env.runs(in.Broker)
			out.Says = env.lastLine(in.Broker)
		}
	}
	out.TookMS = since(start)
	return out, ctx.Err()
}

// runs reports whether a broker's process runs.
func (e *Env) runs(name string) bool {
	b, err := e.broker(name)
	return err == nil && b.Running
}

// ready waits until a broker is ready, or has ended, or ctx ends.
func (e *Env) ready(ctx context.Context, name string) (bool, string) {
	admin, err := e.AdminOf(name)
	if err != nil {
		return false, err.Error()
	}
	defer admin.Close()
	says := "no answer"
	ok := false
	err = poll(ctx, lookEvery, func() (bool, string, error) {
		if !e.runs(name) {
			return true, "", nil
		}
		answer, err := admin.Ready(ctx)
		if err != nil {
			says = err.Error()
			return false, says, nil
		}
		ok, says = answer.Ready, strings.Join(answer.Reasons, "; ")
		return ok, says, nil
	})
	if err != nil && says == "" {
		says = err.Error()
	}
	return ok, says
}

// lastLine is the last line that a broker logged.
func (e *Env) lastLine(name string) string {
	b, err := e.broker(name)
	if err != nil {
		return err.Error()
	}
	data, err := os.ReadFile(filepath.Join(e.Dir, b.LogFile))
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	return lines[len(lines)-1]
}

func stateName(s adminv1.Node_State) string { return strings.ToLower(s.String()) }

func activate(ctx context.Context, env *Env, in activateInputs) (activateOutputs, error) {
	var out activateOutputs
	waits := patience{env: env}
	err := poll(ctx, lookEvery, func() (bool, string, error) {
		admin, err := env.Admin()
		if err != nil {
			return false, "", err
		}
		answer, err := admin.Brokers.Activate(ctx, &adminv1.ActivateRequest{BrokerId: int32(in.NodeID), Reason: in.Reason})
		if err != nil {
			if waits.gated(ctx, err) {
				return false, err.Error(), nil
			}
			return false, "", fmt.Errorf("activate node %d: %w", in.NodeID, err)
		}
		out = activateOutputs{State: stateName(answer.GetBroker().GetState()), Already: answer.GetAlready()}
		return true, "", nil
	})
	return out, err
}

// finish waits for an operation and returns how it ended.
func (e *Env) finish(ctx context.Context, op *adminv1.Operation) (*adminv1.Operation, string, error) {
	if op == nil || op.GetOperationId() == 0 {
		return nil, "none", nil
	}
	admin, err := e.Admin()
	if err != nil {
		return op, "", err
	}
	ended, err := admin.WaitOperation(ctx, op.GetOperationId(), nil)
	if err != nil {
		if ended != nil {
			op = ended
		}
		return op, strings.ToLower(op.GetState().String()), fmt.Errorf("operation %d is %s after %d of %d moves (%s %s): %w", op.GetOperationId(),
			strings.ToLower(op.GetState().String()), op.GetMovesDone(), op.GetMovesTotal(), op.GetReason(), op.GetMessage(), err)
	}
	if ended.GetState() != adminv1.Operation_SUCCEEDED {
		return ended, strings.ToLower(ended.GetState().String()), fmt.Errorf("operation %d %s: %s %s", ended.GetOperationId(),
			strings.ToLower(ended.GetState().String()), ended.GetReason(), ended.GetMessage())
	}
	return ended, "succeeded", nil
}

func unload(ctx context.Context, env *Env, in nodeInputs) (unloadOutputs, error) {
	admin, err := env.Admin()
	if err != nil {
		return unloadOutputs{}, err
	}
	start := time.Now()
	answer, err := admin.Brokers.Unload(ctx, &adminv1.UnloadRequest{BrokerId: int32(in.NodeID)})
	if err != nil {
		return unloadOutputs{}, fmt.Errorf("unload node %d: %w", in.NodeID, err)
	}
	plan := answer.GetPlan()
	out := unloadOutputs{Operation: int64(answer.GetOperation().GetOperationId()), BytesMoved: plan.GetBytesMoved(), ReplicaMoves: int64(plan.GetReplicaMoves()), LeaderMoves: int64(plan.GetLeaderMoves())}
	ended, state, err := env.finish(ctx, answer.GetOperation())
	out.State, out.Moves, out.TookMS = state, int64(ended.GetMovesDone()), since(start)
	if err != nil {
		return out, err
	}
	return out, certificate(ctx, env, in.NodeID, &out)
}

// certificate reads the drain certificate of a broker into out.
func certificate(ctx context.Context, env *Env, id int64, out *unloadOutputs) error {
	admin, err := env.Admin()
	if err != nil {
		return err
	}
	answer, err := admin.Brokers.GetDrainCertificate(ctx, &adminv1.GetDrainCertificateRequest{BrokerId: int32(id)})
	if err != nil {
		return fmt.Errorf("drain certificate of node %d: %w", id, err)
	}
	c := answer.GetCertificate()
	out.Leaders, out.Replicas, out.OpenMoves, out.Retiring = int64(c.GetLeaders()), int64(c.GetReplicas()), int64(c.GetMoves()), int64(c.GetRetiring())
	out.Drained, out.Empty, out.BrokerState = c.GetDrained(), c.GetEmpty(), stateName(c.GetState())
	out.Certificate = fmt.Sprintf("%d leaders, %d replicas, %d moves, %d retiring", out.Leaders, out.Replicas, out.OpenMoves, out.Retiring)
	return nil
}

func rebalance(ctx context.Context, env *Env, in rebalanceInputs) (rebalanceOutputs, error) {
	start := time.Now()
	planned, operation, err := env.rebalance(ctx, &adminv1.RebalanceRequest{MaxMoves: int32(in.MaxMoves)})
	if err != nil {
		return rebalanceOutputs{}, err
	}
	out := rebalanceOutputs{
		Operation: int64(operation.GetOperationId()), Moves: planned.Moves, ReplicaMoves: planned.ReplicaMoves, LeaderMoves: planned.LeaderMoves,
		Before: planned.Before, After: planned.After,
	}
	_, out.State, err = env.finish(ctx, operation)
	out.TookMS = since(start)
	return out, err
}

func planRebalance(ctx context.Context, env *Env, in rebalanceInputs) (planOutputs, error) {
	planned, _, err := env.rebalance(ctx, &adminv1.RebalanceRequest{DryRun: true, MaxMoves: int32(in.MaxMoves)})
	return planned, err
}

// rebalance asks for a rebalance and returns its plan, and its operation when
// there is one.
func (e *Env) rebalance(ctx context.Context, request *adminv1.RebalanceRequest) (planOutputs, *adminv1.Operation, error) {
	admin, err := e.Admin()
	if err != nil {
		return planOutputs{}, nil, err
	}
	answer, err := admin.Brokers.Rebalance(ctx, request)
	if err != nil {
		return planOutputs{}, nil, fmt.Errorf("rebalance: %w", err)
	}
	plan := answer.GetPlan()
	return planOutputs{
		Moves: int64(len(plan.GetMoves())), ReplicaMoves: int64(plan.GetReplicaMoves()), LeaderMoves: int64(plan.GetLeaderMoves()),
		Before: e.leaderVector(plan.GetBefore()), After: e.leaderVector(plan.GetAfter()),
	}, answer.GetOperation(), nil
}

func (e *Env) leaderVector(b *adminv1.Balance) string {
	return e.vector(b, func(l *adminv1.Load) int32 { return l.GetLeaders() })
}

// vector is "b1 3, b2 3, b3 3, b4 3".
func (e *Env) vector(b *adminv1.Balance, count func(*adminv1.Load) int32) string {
	var parts []string
	for _, l := range b.GetBrokers() {
		parts = append(parts, fmt.Sprintf("%s %d", e.label(int64(l.GetBrokerId())), count(l)))
	}
	sort.Strings(parts)
	return strings.Join(parts, ", ")
}

func balance(ctx context.Context, env *Env, _ none) (balanceOutputs, error) {
	admin, err := env.Admin()
	if err != nil {
		return balanceOutputs{}, err
	}
	answer, err := admin.Brokers.GetBalance(ctx, &adminv1.GetBalanceRequest{})
	if err != nil {
		return balanceOutputs{}, fmt.Errorf("balance: %w", err)
	}
	b := answer.GetBalance()
	out := balanceOutputs{
		Vector: env.leaderVector(b), Replicas: env.vector(b, func(l *adminv1.Load) int32 { return l.GetReplicas() }),
		Leaders: int64(b.GetLeaders()), Brokers: int64(b.GetBrokerCount()),
	}
	if cv := b.GetCoefficientOfVariation(); cv != nil {
		out.CV = &cv.Value
	}
	if cv := b.GetReplicasCoefficientOfVariation(); cv != nil {
		out.ReplicasCV = &cv.Value
	}
	for i, l := range b.GetBrokers() {
		if i == 0 || int64(l.GetLeaders()) < out.MinLeaders {
			out.MinLeaders = int64(l.GetLeaders())
		}
	}
	return out, nil
}
