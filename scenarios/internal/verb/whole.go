package verb

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ister-mq/ister/scenarios/internal/spec"
	"github.com/ister-mq/ister/setups"
)

type wholeStopInputs struct {
	Grace time.Duration `json:"grace" default:"20s" doc:"how long each broker may take to end in order"`
}

type wholeOutputs struct {
	Brokers []string `json:"brokers" doc:"names of the brokers that ended, or were started"`
	Count   int64    `json:"count" doc:"how many"`
	TookMS  float64  `json:"took_ms" doc:"until the last one"`
}

type wholeStartInputs struct {
	Within time.Duration `json:"within" default:"60s" doc:"how long it may take until every broker is ready and every partition in sync"`
}

func init() {
	define(meta{
		name: "cluster.stop", needs: []setups.Ability{setups.AbilityStop}, risk: spec.Destructive, disturbs: true, doc: "Ask every broker's process to end in order, one after the other, and wait.",
		command: "kill -TERM <pid of each broker>", note: "brokers {count}",
	}, clusterStop, nil)
	define(meta{
		name: "cluster.kill", needs: []setups.Ability{setups.AbilityKill}, risk: spec.Destructive, disturbs: true, doc: "End every broker's process at once, as a loss of power to all does to processes; what the operating system was given stays.",
		command: "kill -KILL <pid of each broker>", note: "brokers {count}",
	}, clusterKill, nil)
	define(meta{
		name: "cluster.restart", needs: []setups.Ability{setups.AbilityStart, setups.AbilityAdmin}, risk: spec.Disruptive, doc: "Start every broker that does not run, and wait until all are ready and every partition is in sync.",
		command: "<the command in brokers/<name>/cmd of each broker>; ister admin cluster status", note: "brokers {count}",
	}, clusterRestart, nil)
}

func clusterStop(ctx context.Context, env *Env, in wholeStopInputs) (wholeOutputs, error) {
	start := time.Now()
	out := wholeOutputs{Brokers: []string{}}
	for _, b := range env.Cluster.Brokers() {
		if !b.Running {
			continue
		}
		if _, err := env.Cluster.Stop(ctx, b.Name, in.Grace); err != nil {
			return out, err
		}
		out.ended(b.Name, start)
	}
	return out, nil
}

func (out *wholeOutputs) ended(name string, start time.Time) {
	out.Brokers, out.Count, out.TookMS = append(out.Brokers, name), out.Count+1, since(start)
}

func clusterKill(ctx context.Context, env *Env, _ none) (wholeOutputs, error) {
	start := time.Now()
	out := wholeOutputs{Brokers: []string{}}
	for _, b := range env.Cluster.Brokers() {
		if !b.Running {
			continue
		}
		if err := env.Cluster.Kill(ctx, b.Name); err != nil {
			return out, err
		}
		out.ended(b.Name, start)
	}
	return out, nil
}

func clusterRestart(ctx context.Context, env *Env, in wholeStartInputs) (wholeOutputs, error) {
	start := time.Now()
	ctx, cancel := context.WithTimeout(ctx, in.Within)
	defer cancel()
	out := wholeOutputs{Brokers: []string{}}
	for _, b := range env.Cluster.Brokers() {
		if b.Running {
			continue
		}
		if exit, err := env.Cluster.Start(ctx, b.Name); err != nil {
			return out, err
		} else if exit != nil {
			return out, fmt.Errorf("%s ended while starting, exit code %d: %s", b.Name, exit.Code, env.lastLine(b.Name))
		}
		out.ended(b.Name, start)
	}
	if err := env.allReady(ctx); err != nil {
		return out, err
	}
	err := inSync(ctx, env)
	out.TookMS = since(start)
	return out, err
}

// allReady waits until every broker that runs is ready.
func (e *Env) allReady(ctx context.Context) error {
	var waits sync.WaitGroup
	brokers := e.Cluster.Brokers()
	errs := make([]error, len(brokers))
	for i, b := range brokers {
		if !b.Running {
			continue
		}
		waits.Go(func() {
			if ok, says := e.ready(ctx, b.Name); !ok {
				errs[i] = fmt.Errorf("%s is not ready: %s", b.Name, says)
			}
		})
	}
	waits.Wait()
	return errors.Join(errs...)
}
