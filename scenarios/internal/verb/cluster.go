package verb

import (
	"context"
	"fmt"
	"math"
	"sort"
	"strings"
	"time"

	"github.com/ister-mq/ister/admin/adminv1"
	"github.com/ister-mq/ister/admin/client"
	"github.com/ister-mq/ister/scenarios/internal/spec"
	"github.com/ister-mq/ister/setups"
)

// lookEvery is the pace of looks at a cluster.
const lookEvery = 100 * time.Millisecond

type none struct{}

type startInputs struct {
	Brokers int64 `json:"brokers" default:"0" min:"0" max:"9" doc:"how many brokers; 0: as many as the scenario's cluster says"`
	Least   int64 `json:"least" default:"0" min:"0" doc:"fewest brokers of a cluster that is there already; 0: as many as the scenario starts"`
}

type startOutputs struct {
	Names   []string `json:"names" doc:"names of the brokers"`
	First   string   `json:"first" doc:"name of the first"`
	Middle  string   `json:"middle" doc:"name of one in the middle; with fewer than three one of the others"`
	Last    string   `json:"last" doc:"name of the last"`
	NodeIDs []int64  `json:"node_ids" doc:"their node ids, in the same order"`
	Admin   []string `json:"admin" doc:"admin addresses"`
	Kafka   []string `json:"kafka" doc:"Kafka addresses"`
	Count   int64    `json:"count" doc:"how many"`
	TookMS  float64  `json:"took_ms" doc:"until every broker was ready"`
}

type addNodeInputs struct {
	Address string `json:"address" required:"true" doc:"admin address of a broker that was started to join"`
}

type addNodeOutputs struct {
	NodeID  int64  `json:"node_id" doc:"the id that it was given"`
	Already bool   `json:"already" doc:"it was a member before"`
	Role    string `json:"role" doc:"learner or voter"`
}

type nodeInputs struct {
	NodeID int64 `json:"node_id" required:"true" min:"1" doc:"node id"`
}

type votersOutputs struct {
	Voters  []int64 `json:"voters" doc:"node ids of the voters afterwards"`
	Count   int64   `json:"count" doc:"how many voters"`
	TookMS  float64 `json:"took_ms" doc:"time until it was done, gates included"`
	Already bool    `json:"already" doc:"nothing had to be changed"`
}

type removeInputs struct {
	NodeID int64  `json:"node_id" required:"true" min:"1" doc:"node id"`
	Via    string `json:"via" doc:"name of the broker that is asked; default: any"`
	Reason string `json:"reason" default:"scenario" doc:"kept with the tombstone"`
}

type removeOutputs struct {
	Removed       bool    `json:"removed" doc:"it is no member any more"`
	WasController bool    `json:"was_controller" doc:"it was the controller when it was removed"`
	Voters        []int64 `json:"voters" doc:"node ids of the voters afterwards"`
	Count         int64   `json:"count" doc:"how many voters"`
	Refusals      int64   `json:"refusals" doc:"times that it was refused for a reason that goes away by itself"`
	TookMS        float64 `json:"took_ms" doc:"until it was removed"`
}

type transferOutputs struct {
	From   int64   `json:"from" doc:"controller before"`
	To     int64   `json:"to" doc:"controller afterwards"`
	TookMS float64 `json:"took_ms" doc:"until the new controller answered"`
}

type statusOutputs struct {
	Controller      int64   `json:"controller" doc:"node id of the controller, 0 when none is known"`
	Voters          []int64 `json:"voters" doc:"node ids of the voters"`
	VoterCount      int64   `json:"voter_count" doc:"how many voters"`
	Learners        []int64 `json:"learners" doc:"node ids of the learners"`
	Brokers         []int64 `json:"brokers" doc:"node ids of all registered brokers"`
	Active          []int64 `json:"active" doc:"node ids of the active brokers that are alive"`
	ActiveCount     int64   `json:"active_count" doc:"how many are active and alive"`
	Topics          int64   `json:"topics" doc:"topics"`
	Partitions      int64   `json:"partitions" doc:"partitions"`
	Offline         int64   `json:"offline" doc:"partitions without a leader"`
	UnderReplicated int64   `json:"under_replicated" doc:"partitions with a replica that is not in sync"`
	TookMS          float64 `json:"took_ms" doc:"until the answer was there"`
}

func init() {
	define(meta{
		name: "cluster.start", risk: spec.Additive, doc: "Start the brokers that form the cluster, and wait until each is ready.",
		command: "ister broker --seed-nodes <raft addresses> --data-dir <dir> --broker-addr <addr> --admin-addr <addr> --raft-addr <addr>",
		note:    "{names}",
	}, clusterStart, nil)
	define(meta{
		name: "cluster.add_node", needs: []setups.Ability{setups.AbilityAdmin}, risk: spec.Additive, doc: "Admit a broker that waits to be added, as a learner.",
		command: "ister admin cluster add-node --node-addr http://{address}",
		note:    "node id {node_id}, role {role}",
	}, addNode, nil)
	define(meta{
		name: "cluster.promote", needs: []setups.Ability{setups.AbilityAdmin}, risk: spec.Additive, doc: "Make a learner a voter, as soon as its gates allow: reachable, caught up, no other change pending.",
		command: "ister admin cluster promote-node --node-id {node_id}",
		note:    "voters {voters}",
	}, promote, nil)
	define(meta{
		name: "cluster.transfer", needs: []setups.Ability{setups.AbilityAdmin}, risk: spec.Disruptive, disturbs: true, doc: "Hand the controller role to a voter, and wait until it has it.",
		command: "ister admin cluster transfer-leadership --to {node_id}",
		note:    "from {from}, to {to}",
	}, transfer, nil)
	define(meta{
		name: "cluster.remove", needs: []setups.Ability{setups.AbilityAdmin}, risk: spec.Destructive, disturbs: true, doc: "Remove an empty node from the cluster for ever; refused while it holds anything.",
		command: "ister admin cluster remove-node --node-id {node_id}",
		note:    "voters {voters}, was controller {was_controller}",
	}, remove, nil)
	define(meta{
		name: "cluster.status", needs: []setups.Ability{setups.AbilityAdmin}, risk: spec.ReadOnly, doc: "Members, brokers and the health of partitions, as the controller has them.",
		command: "ister admin cluster status",
		note:    "voters {voters}, active {active}, under replicated {under_replicated}",
	}, status, nil)
}

func since(start time.Time) float64 { return tenth(float64(time.Since(start).Microseconds()) / 1000) }

// tenth rounds to one decimal, which is as much as a time in ms means here.
func tenth(ms float64) float64 { return math.Round(ms*10) / 10 }

func int64s(ids []int32) []int64 {
	out := make([]int64, len(ids))
	for i, id := range ids {
		out[i] = int64(id)
	}
	sort.Slice(out, func(a, b int) bool { return out[a] < out[b] })
	return out
}

func clusterStart(ctx context.Context, env *Env, in startInputs) (startOutputs, error) {
	start := time.Now()
	want := env.Brokers
	if in.Brokers > 0 {
		want = int(in.Brokers)
	}
	borrowed, isBorrowed := env.Cluster.(setups.Borrowed)
	if isBorrowed && in.Least > 0 {
		want = int(in.Least)
	}
	brokers, err := env.Cluster.Form(ctx, want)
	if err != nil {
		return startOutputs{}, &EnvironmentError{fmt.Errorf("start the cluster: %w", err)}
	}
	if isBorrowed && in.Least == 0 && len(brokers) > want {
		return startOutputs{}, &EnvironmentError{fmt.Errorf("expected a cluster of %d brokers, which the scenario counts, observed %d; nothing was changed; attach to one of that size", want, len(brokers))}
	}
	if isBorrowed {
		if err := nothingInTheWay(ctx, env, borrowed); err != nil {
			return startOutputs{}, &EnvironmentError{err}
		}
	}
	out := startOutputs{Count: int64(len(brokers)), TookMS: since(start)}
	if env.kafkaOnly() {
		out.NodeIDs, err = idsOnKafka(ctx, env, brokers)
	}
	for _, b := range brokers {
		if !env.kafkaOnly() && err == nil {
			var id int64
			id, err = env.nodeID(ctx, b.Name)
			out.NodeIDs = append(out.NodeIDs, id)
		}
		out.Names, out.Admin, out.Kafka = append(out.Names, b.Name), append(out.Admin, b.Admin), append(out.Kafka, b.Kafka)
	}
	if err != nil {
		return out, &EnvironmentError{err}
	}
	if n := len(out.Names); n > 0 {
		out.First, out.Middle, out.Last = out.Names[0], out.Names[n/2], out.Names[n-1]
	}
	return out, nil
}

// nothingInTheWay refuses a cluster that has topics of the names that the run
// uses: it could neither tell its records from others, nor delete only its own.
func nothingInTheWay(ctx context.Context, env *Env, cluster setups.Borrowed) error {
	there, err := cluster.Existing(ctx, env.Topics)
	if err != nil {
		return err
	}
	if len(there) == 0 {
		return nil
	}
	more := ""
	if len(there) > 5 {
		there, more = there[:5], fmt.Sprintf(" and %d more", len(there)-5)
	}
	return fmt.Errorf("expected a cluster without the topics that this run creates, observed: it has %s%s; nothing was changed; delete them when they are left from an earlier run (scenario clean RUN does), or use another cluster",
		strings.Join(there, ", "), more)
}

func addNode(ctx context.Context, env *Env, in addNodeInputs) (addNodeOutputs, error) {
	admin, err := env.Admin()
	if err != nil {
		return addNodeOutputs{}, err
	}
	// The controller calls the node, so it gets the address that brokers reach.
	address := in.Address
	for _, b := range env.Cluster.Brokers() {
		if b.Admin == in.Address {
			address = setups.AdminForBrokers(env.Cluster, b)
		}
	}
	answer, err := admin.Cluster.AddNode(ctx, &adminv1.AddNodeRequest{NodeAddr: "http://" + address})
	if err != nil {
		return addNodeOutputs{}, fmt.Errorf("add the node at %s: %w", address, err)
	}
	for _, b := range env.Cluster.Brokers() {
		if b.Admin == in.Address {
			env.learn(b.Name, int64(answer.GetNodeId()))
		}
	}
	return addNodeOutputs{NodeID: int64(answer.GetNodeId()), Already: answer.GetAlready(), Role: roleName(answer.GetRole())}, nil
}

func roleName(r adminv1.Member_Role) string {
	switch r {
	case adminv1.Member_VOTER:
		return "voter"
	case adminv1.Member_LEARNER:
		return "learner"
	default:
		return "none"
	}
}

// gates are the refusals that go away by themselves while a node catches up.
var gates = []string{"NODE_NOT_CAUGHT_UP", "MEMBERSHIP_CHANGE_PENDING", "NODE_UNREACHABLE", "QUORUM_AT_RISK", "NODE_NOT_READY", "NO_CONTROLLER", "UNKNOWN_HEALTH"}

// patience waits for gates to open. It tells of each reason once.
type patience struct {
	env  *Env
	told string
}

// gated reports whether err is such a refusal, and there is still time.
func (p *patience) gated(ctx context.Context, err error) bool {
	for _, reason := range gates {
		if !client.IsReason(err, reason) || ctx.Err() != nil {
			continue
		}
		if reason != p.told {
			p.env.Say("waiting: " + err.Error())
		}
		p.told = reason
		return true
	}
	return false
}

func promote(ctx context.Context, env *Env, in nodeInputs) (votersOutputs, error) {
	start := time.Now()
	var out votersOutputs
	waits := patience{env: env}
	err := poll(ctx, lookEvery, func() (bool, string, error) {
		admin, err := env.Admin()
		if err != nil {
			return false, "", err
		}
		answer, err := admin.Cluster.PromoteNode(ctx, &adminv1.PromoteNodeRequest{NodeId: int32(in.NodeID)})
		if err != nil {
			if waits.gated(ctx, err) {
				return false, err.Error(), nil
			}
			return false, "", fmt.Errorf("promote node %d: %w", in.NodeID, err)
		}
		out = votersOutputs{Voters: int64s(answer.GetVoters()), Count: int64(len(answer.GetVoters())), Already: answer.GetAlready()}
		return true, "", nil
	})
	out.TookMS = since(start)
	return out, err
}

func transfer(ctx context.Context, env *Env, in nodeInputs) (transferOutputs, error) {
	start := time.Now()
	before, err := status(ctx, env, none{})
	if err != nil {
		return transferOutputs{}, err
	}
	out := transferOutputs{From: before.Controller}
	if before.Controller != in.NodeID {
		admin, err := env.Admin()
		if err != nil {
			return out, err
		}
		if _, err := admin.Cluster.TransferLeadership(ctx, &adminv1.TransferLeadershipRequest{ToNodeId: int32(in.NodeID)}); err != nil {
			return out, fmt.Errorf("transfer the controller role to node %d: %w", in.NodeID, err)
		}
	}
	err = poll(ctx, lookEvery, func() (bool, string, error) {
		now, err := status(ctx, env, none{})
		if err != nil {
			return false, err.Error(), nil
		}
		out.To = now.Controller
		return now.Controller == in.NodeID, fmt.Sprintf("the controller is node %d", now.Controller), nil
	})
	out.TookMS = since(start)
	return out, err
}

func remove(ctx context.Context, env *Env, in removeInputs) (removeOutputs, error) {
	admin, err := env.Admin()
	if err != nil {
		return removeOutputs{}, err
	}
	if in.Via != "" {
		if admin, err = env.AdminOf(in.Via); err != nil {
			return removeOutputs{}, err
		}
		defer admin.Close()
	}
	before, err := status(ctx, env, none{})
	if err != nil {
		return removeOutputs{}, err
	}
	start := time.Now()
	out := removeOutputs{WasController: before.Controller == in.NodeID}
	waits := patience{env: env}
	err = poll(ctx, lookEvery, func() (bool, string, error) {
		answer, err := admin.Cluster.RemoveNode(ctx, &adminv1.RemoveNodeRequest{NodeId: int32(in.NodeID), Reason: in.Reason})
		if err != nil {
			if waits.gated(ctx, err) {
				out.Refusals++
				return false, err.Error(), nil
			}
			return false, "", fmt.Errorf("remove node %d: %w", in.NodeID, err)
		}
		out.Removed, out.Voters, out.Count = answer.GetRemoved(), int64s(answer.GetVoters()), int64(len(answer.GetVoters()))
		return true, "", nil
	})
	out.TookMS = since(start)
	return out, err
}

// controllerWait bounds how long a status waits for a controller, which an election
// needs a moment for.
const controllerWait = 10 * time.Second

func status(ctx context.Context, env *Env, _ none) (statusOutputs, error) {
	admin, err := env.Admin()
	if err != nil {
		return statusOutputs{}, err
	}
	start := time.Now()
	// Without a controller it is not known who is alive, nor what is in sync.
	var s *adminv1.GetStatusResponse
	wait, cancel := context.WithTimeout(ctx, controllerWait)
	defer cancel()
	err = poll(wait, lookEvery, func() (bool, string, error) {
		s, err = admin.Cluster.GetStatus(ctx, &adminv1.GetStatusRequest{})
		return s.GetUnderReplicatedPartitions() != nil, "no controller answers", err
	})
	if err != nil {
		return statusOutputs{}, fmt.Errorf("cluster status: %w", err)
	}
	brokers, err := admin.Brokers.ListBrokers(ctx, &adminv1.ListBrokersRequest{})
	if err != nil {
		return statusOutputs{}, fmt.Errorf("list brokers: %w", err)
	}
	out := statusOutputs{
		Controller: int64(s.GetControllerId()), Voters: int64s(s.GetVoters()), VoterCount: int64(len(s.GetVoters())), Learners: int64s(s.GetLearners()),
		Topics: int64(s.GetTopics()), Partitions: int64(s.GetPartitions()), Offline: int64(s.GetOfflinePartitions().GetValue()), UnderReplicated: int64(s.GetUnderReplicatedPartitions().GetValue()),
		Brokers: []int64{}, Active: []int64{},
	}
	for _, b := range brokers.GetBrokers() {
		out.Brokers = append(out.Brokers, int64(b.GetBrokerId()))
		if b.GetState() == adminv1.Node_ACTIVE && !b.GetFenced() {
			out.Active = append(out.Active, int64(b.GetBrokerId()))
		}
	}
	out.ActiveCount, out.TookMS = int64(len(out.Active)), since(start)
	return out, nil
}
