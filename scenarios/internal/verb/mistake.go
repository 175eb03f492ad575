package verb

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/ister-mq/ister/scenarios/internal/spec"
	"github.com/ister-mq/ister/setups"
)

type mistakeInputs struct {
	Broker  string        `json:"broker" required:"true" doc:"name of the broker; it must run for the first two mistakes, and be stopped for the others"`
	Mistake string        `json:"mistake" required:"true" enum:"data_in_use|port_in_use|wiped|foreign" doc:"a second process on its data; new data on its ports; new data in its place; the data of another cluster in its place"`
	Within  time.Duration `json:"within" default:"20s" doc:"how long the process may take to refuse"`
}

type mistakeOutputs struct {
	Refused  bool    `json:"refused" doc:"the process ended by itself"`
	ExitCode int64   `json:"exit_code" doc:"its exit code, -1 when it had to be killed"`
	Says     string  `json:"says" doc:"the last line of its log"`
	TookMS   float64 `json:"took_ms" doc:"until it had ended"`
}

func init() {
	define(meta{
		name: "broker.mistake", needs: []setups.Ability{setups.AbilityMistake}, risk: spec.Disruptive, doc: "Start one more process for a broker in a wrong way, which it has to refuse, and see how it ends. The broker keeps its data.",
		command: "<the command in brokers/{broker}/cmd with another --data-dir or other ports>; echo $?",
		note:    "exit code {exit_code}",
	}, brokerMistake, nil)
}

func brokerMistake(ctx context.Context, env *Env, in mistakeInputs) (mistakeOutputs, error) {
	cluster, ok := setups.As[setups.Mistaker](env.Cluster)
	if !ok {
		return mistakeOutputs{ExitCode: -1}, &EnvironmentError{fmt.Errorf("start %s wrongly (%s): this setup does not; use the setup process", in.Broker, in.Mistake)}
	}
	start := time.Now()
	bounded, cancel := context.WithTimeout(ctx, in.Within)
	defer cancel()
	got, err := cluster.Mistake(bounded, in.Broker, setups.Mistake(in.Mistake))
	out := mistakeOutputs{Refused: err == nil, ExitCode: int64(got.Exit.Code), Says: strings.TrimSpace(got.Says), TookMS: since(start)}
	if err != nil && bounded.Err() != nil && ctx.Err() == nil && got.Exit.Signal != "" {
		return out, nil // it went on: that is for the criteria to judge
	}
	return out, err
}
