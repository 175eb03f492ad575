package verb

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/ister-mq/ister/scenarios/internal/spec"
	"github.com/ister-mq/ister/scenarios/internal/verdict"
	"github.com/ister-mq/ister/setups"
)

type killInputs struct {
	Load    string        `json:"load" required:"true" doc:"the load that runs meanwhile"`
	Topic   string        `json:"topic" required:"true" doc:"full name of the topic whose leader and followers are meant"`
	Rounds  int64         `json:"rounds" default:"3" min:"1" max:"1000" doc:"how many kills"`
	Acks    int64         `json:"acks" default:"20" min:"1" doc:"records that must be acknowledged while the broker is down"`
	DownMax time.Duration `json:"down_max" default:"1s" doc:"longest time that a broker stays down after those acks"`
	Within  time.Duration `json:"within" default:"30s" doc:"how long a round may take until everything is in sync again"`
}

type killOutputs struct {
	Rounds     int64    `json:"rounds" doc:"rounds done"`
	Leader     int64    `json:"leader" doc:"kills of the topic's leader"`
	Controller int64    `json:"controller" doc:"kills of the controller"`
	Follower   int64    `json:"follower" doc:"kills of another broker"`
	WorstMS    float64  `json:"worst_unavailability_ms" doc:"longest time that a partition acknowledged nothing while a send waited"`
	WorstRound string   `json:"worst_round" doc:"the round of it"`
	HealMS     float64  `json:"worst_recovery_ms" doc:"longest time from a restart until everything was in sync"`
	InFlight   int64    `json:"least_in_flight" doc:"fewest sends that overlapped a round"`
	Log        []string `json:"log" doc:"one line per round"`
}

func init() {
	define(meta{
		name: "chaos.kill", needs: []setups.Ability{setups.AbilityKill, setups.AbilityStart, setups.AbilityAdmin}, risk: spec.Destructive, doc: "Kill a broker under load, see that writing goes on, restart it, wait until everything is in sync; again and again. The seed picks leader, controller or follower.",
		command: "kill -KILL <pid>; <restart it>; ister admin cluster status",
		note:    "rounds {rounds}, worst unavailability ms {worst_unavailability_ms}",
	}, chaosKill, nil)
}

// roles of victims. Every three rounds each comes once, in an order that the
// seed gives.
var roles = []string{"leader", "controller", "follower"}

func chaosKill(ctx context.Context, env *Env, in killInputs) (killOutputs, error) {
	rng := rand.New(rand.NewPCG(uint64(env.Seed), 1))
	var out killOutputs
	var order []int
	for round := range in.Rounds {
		if len(order) == 0 {
			order = rng.Perm(len(roles))
		}
		role := roles[order[0]]
		order = order[1:]
		down := time.Duration(rng.Int64N(int64(in.DownMax) + 1))
		if err := killRound(ctx, env, in, round+1, role, down, &out); err != nil {
			return out, fmt.Errorf("round %d of %d: %w", round+1, in.Rounds, err)
		}
	}
	return out, nil
}

// victimOf finds the broker that has a role now. A follower is a broker that is
// neither the topic's leader nor the controller, where there is one.
func victimOf(ctx context.Context, env *Env, topic, role string) (string, string, error) {
	now, err := status(ctx, env, none{})
	if err != nil {
		return "", "", err
	}
	where, err := topicDescribe(ctx, env, topicInputs{topic})
	if err != nil {
		return "", "", err
	}
	id := where.Leader
	switch role {
	case "controller":
		id = now.Controller
	case "follower":
		for _, candidate := range where.Replicas {
			if candidate != where.Leader && (id == where.Leader || candidate != now.Controller) {
				id = candidate
			}
		}
	}
	name, err := env.brokerOf(ctx, id)
	also := ""
	if id == where.Leader && role != "leader" {
		also += ", leader"
	}
	if id == now.Controller && role != "controller" {
		also += ", controller"
	}
	return name, role + also, err
}

func killRound(ctx context.Context, env *Env, in killInputs, round int64, role string, down time.Duration, out *killOutputs) error {
	ctx, cancel := context.WithTimeout(ctx, in.Within)
	defer cancel()
	l, err := env.load(in.Load)
	if err != nil {
		return err
	}
	victim, described, err := victimOf(ctx, env, in.Topic, role)
	if err != nil {
		return err
	}
	handle := env.Recorder.BeginDisturbance(fmt.Sprintf("%s#%d", env.step, round), "chaos.kill", victim+" ("+described+")")
	start := env.Recorder.Now()
	if err := env.Cluster.Kill(ctx, victim); err != nil {
		return err
	}
	if err := l.WaitAcked(ctx, l.Acked()+in.Acks); err != nil {
		return fmt.Errorf("writing did not go on after the kill of %s (%s): %w", victim, described, err)
	}
	if err := wait(ctx, down); err != nil {
		return err
	}
	healing := time.Now()
	if exit, err := env.Cluster.Start(ctx, victim); err != nil || exit != nil {
		return fmt.Errorf("%s did not come back: exit %v, %w", victim, exit, err)
	}
	if err := inSync(ctx, env); err != nil {
		return fmt.Errorf("after the restart of %s (%s): %w", victim, described, err)
	}
	env.Recorder.EndDisturbance(handle)
	w := verdict.Observe(env.Recorder.Snapshot(), in.Load, start, env.Recorder.Now(), 0)
	heal := since(healing)
	line := fmt.Sprintf("round %d: %s (%s): unavailable %.0f ms, in sync %.0f ms after restart", round, victim, described, w.ProduceGapMS, heal)
	env.Say(line)
	out.Log = append(out.Log, line)
	if round == 1 || int64(w.InFlight) < out.InFlight {
		out.InFlight = int64(w.InFlight)
	}
	if w.ProduceGapMS > out.WorstMS {
		out.WorstMS, out.WorstRound = tenth(w.ProduceGapMS), fmt.Sprintf("round %d, %s (%s)", round, victim, described)
	}
	out.HealMS = max(out.HealMS, heal)
	out.Rounds = round
	switch role {
	case "leader":
		out.Leader++
	case "controller":
		out.Controller++
	default:
		out.Follower++
	}
	return nil
}

func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// inSync waits until every broker is active and alive, and every partition has a
// leader and all its replicas in sync.
func inSync(ctx context.Context, env *Env) error {
	return poll(ctx, lookEvery, func() (bool, string, error) {
		now, err := status(ctx, env, none{})
		if err != nil {
			return false, err.Error(), nil
		}
		return settled(now)
	})
}

// settled judges one look of inSync, for poll.
func settled(now statusOutputs) (ok bool, waitingFor string, err error) {
	ok = now.ActiveCount == int64(len(now.Brokers)) && now.Offline == 0 && now.UnderReplicated == 0 && now.VoterCount == int64(len(now.Brokers))
	return ok, fmt.Sprintf("%d of %d brokers alive, %d partitions offline, %d under-replicated", now.ActiveCount, len(now.Brokers), now.Offline, now.UnderReplicated), nil
}
