package verb

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ister-mq/ister/admin/adminv1"
	"github.com/ister-mq/ister/admin/client"
	"github.com/ister-mq/ister/scenarios/internal/spec"
	"github.com/ister-mq/ister/setups"
)

type createInputs struct {
	Name       string `json:"name" required:"true" doc:"full name; with count above 1 a prefix, to which 1, 2, ... is added"`
	Count      int64  `json:"count" default:"1" min:"1" max:"1000" doc:"how many topics"`
	Partitions int64  `json:"partitions" default:"1" min:"1" max:"1000" doc:"partitions of each"`
	Replicas   int64  `json:"replication_factor" default:"0" min:"0" max:"9" doc:"0: the default of the dispatch strategy"`
	Dispatch   string `json:"dispatch" default:"reliable" enum:"reliable|non_reliable" doc:"durability class"`
	Via        string `json:"via" doc:"name of the broker that is asked; default: any"`
}

type createOutputs struct {
	Name       string   `json:"name" doc:"full name of the first"`
	KafkaName  string   `json:"kafka_name" doc:"what Kafka clients call it"`
	Names      []string `json:"names" doc:"full names"`
	KafkaNames []string `json:"kafka_names" doc:"what Kafka clients call them"`
	Count      int64    `json:"count" doc:"how many"`
}

type listInputs struct {
	Namespace string `json:"namespace" default:"default" doc:"only topics of this namespace"`
	Prefix    string `json:"prefix" doc:"only topics whose full name begins with this"`
}

type listOutputs struct {
	Names           []string `json:"names" doc:"full names"`
	Count           int64    `json:"count" doc:"how many topics"`
	WithLeader      int64    `json:"with_leader" doc:"topics of which every partition has a leader"`
	Offline         int64    `json:"offline" doc:"partitions without a leader"`
	UnderReplicated int64    `json:"under_replicated" doc:"partitions with a replica that is not in sync"`
}

type topicInputs struct {
	Name string `json:"name" required:"true" doc:"full name"`
}

type topicOutputs struct {
	Leader    int64   `json:"leader" doc:"node id of the leader of partition 0; offline: 0, or -1 on a cluster without the admin API"`
	Epoch     int64   `json:"epoch" doc:"its leader epoch"`
	Replicas  []int64 `json:"replicas" doc:"node ids of the replicas of partition 0"`
	ISR       []int64 `json:"isr" doc:"node ids of those in sync"`
	InSync    int64   `json:"in_sync" doc:"how many are in sync"`
	LogEnd    int64   `json:"log_end" doc:"log end offset of partition 0, -1 when unknown"`
	Partition int64   `json:"partitions" doc:"partitions"`
}

type moveInputs struct {
	Name     string `json:"name" required:"true" doc:"full name"`
	To       int64  `json:"to" default:"0" min:"0" doc:"node id; 0: any other"`
	Replicas bool   `json:"replicas" default:"false" doc:"also relocate a copy, not only the leader"`
}

type moveOutputs struct {
	Operation    int64   `json:"operation" doc:"id of the operation"`
	State        string  `json:"state" doc:"how it ended"`
	From         int64   `json:"from" doc:"leader before"`
	To           int64   `json:"to" doc:"leader afterwards"`
	OwnerChanged bool    `json:"owner_changed" doc:"another broker leads"`
	EpochBefore  int64   `json:"epoch_before" doc:"leader epoch before"`
	EpochAfter   int64   `json:"epoch_after" doc:"leader epoch afterwards"`
	Before       []int64 `json:"replicas_before" doc:"replicas before"`
	After        []int64 `json:"replicas_after" doc:"replicas afterwards"`
	WasReplica   bool    `json:"target_was_replica" doc:"the broker that leads now had a copy before"`
	Summary      string  `json:"summary" doc:"leader and replicas, before and after, in one line"`
	TookMS       float64 `json:"took_ms" doc:"until the operation ended"`
}

func init() {
	define(meta{
		name: "topic.create", risk: spec.Additive, doc: "Create topics.",
		command: "ister admin topics create {name} --dispatch-strategy {dispatch}[ --partitions {partitions}][ --replication-factor {replication_factor}]",
		note:    "count {count}",
	}, topicCreate, nil)
	define(meta{
		name: "topic.list", risk: spec.ReadOnly, doc: "List topics, and count partitions without a leader.", command: "ister admin topics list --namespace {namespace}",
		note: "count {count}, with leader {with_leader}, under replicated {under_replicated}",
	}, topicList, nil)
	define(meta{
		name: "topic.describe", risk: spec.ReadOnly, doc: "Where a topic's first partition is.", command: "ister admin topics describe {name}",
		note: "leader {leader}, replicas {replicas}, isr {isr}",
	}, topicDescribe, nil)
	define(meta{
		name: "topic.move", needs: []setups.Ability{setups.AbilityAdmin}, risk: spec.Disruptive, disturbs: true, doc: "Hand a topic's leaders to another broker, or relocate a copy to it as well, and wait for the operation.",
		command: "ister admin topics move {name}[ --to {to}][ --replicas?replicas] --wait",
		note:    "{summary}",
	}, topicMove, nil)
}

// Values of the input dispatch.
const dispatchReliable = "reliable"

// names are the full names of the topics that the inputs mean.
func (in createInputs) names() []string {
	names := make([]string, in.Count)
	for i := range names {
		if names[i] = in.Name; in.Count > 1 {
			names[i] = fmt.Sprintf("%s%d", in.Name, i+1)
		}
	}
	return names
}

// TopicsOf are the topics that a use of a verb creates, as Kafka clients name
// them.
func TopicsOf(use string, with map[string]any) []string {
	v, ok := Lookup(use)
	if !ok || use != "topic.create" {
		return nil
	}
	call, err := v.NewCall(nil, with)
	if err != nil {
		return nil // the step will say so
	}
	var in createInputs
	if err := spec.FromValue(call.with, &in); err != nil {
		return nil
	}
	var names []string
	for _, name := range in.names() {
		names = append(names, kafkaName(name))
	}
	return names
}

func topicCreate(ctx context.Context, env *Env, in createInputs) (createOutputs, error) {
	var out createOutputs
	create := createOnAdmin
	if env.kafkaOnly() {
		create = createOnKafka
	}
	note := func(string, setups.TopicState) error { return nil }
	if borrowed, ok := env.Cluster.(setups.Borrowed); ok {
		note = borrowed.Note
	}
	for _, name := range in.names() {
		if err := note(kafkaName(name), setups.TopicMaking); err != nil {
			return out, err
		}
		full, kafka, refused, err := create(ctx, env, name, in)
		state := setups.TopicMade
		if err != nil {
			if state = setups.TopicMaking; refused {
				state = setups.TopicNotMade
			}
			return out, errors.Join(fmt.Errorf("create topic %s: %w", name, err), note(kafkaName(name), state))
		}
		if err := note(kafkaName(name), state); err != nil {
			return out, err
		}
		out.Names, out.KafkaNames = append(out.Names, full), append(out.KafkaNames, kafka)
	}
	out.Name, out.KafkaName, out.Count = out.Names[0], out.KafkaNames[0], in.Count
	return out, nil
}

// createOnAdmin creates one topic. refused: it was certainly not created.
func createOnAdmin(ctx context.Context, env *Env, name string, in createInputs) (full, kafka string, refused bool, err error) {
	admin, err := env.Admin()
	if err == nil && in.Via != "" {
		if admin, err = env.AdminOf(in.Via); err == nil {
			defer admin.Close()
		}
	}
	if err != nil {
		return "", "", true, err
	}
	dispatch := adminv1.Dispatch_RELIABLE
	if in.Dispatch != dispatchReliable {
		dispatch = adminv1.Dispatch_NON_RELIABLE
	}
	answer, err := admin.Topics.CreateTopic(ctx, &adminv1.CreateTopicRequest{
		Name: name, Partitions: int32(in.Partitions), ReplicationFactor: int32(in.Replicas), Dispatch: dispatch,
	})
	if err != nil {
		return "", "", client.AsRefusal(err) != nil, err
	}
	return answer.GetTopic().GetName(), answer.GetTopic().GetKafkaName(), false, nil
}

func topicList(ctx context.Context, env *Env, in listInputs) (listOutputs, error) {
	if env.kafkaOnly() {
		return listOnKafka(ctx, env, in)
	}
	admin, err := env.Admin()
	if err != nil {
		return listOutputs{}, err
	}
	answer, err := admin.Topics.ListTopics(ctx, &adminv1.ListTopicsRequest{Namespace: in.Namespace})
	if err != nil {
		return listOutputs{}, fmt.Errorf("list topics: %w", err)
	}
	out := listOutputs{Names: []string{}}
	for _, t := range answer.GetTopics() {
		if !strings.HasPrefix(t.GetName(), in.Prefix) {
			continue
		}
		out.Count++
		out.Names = append(out.Names, t.GetName())
		out.Offline += int64(t.GetOfflinePartitions())
		out.UnderReplicated += int64(t.GetUnderReplicatedPartitions())
		if t.GetOfflinePartitions() == 0 && len(t.GetLeaders()) > 0 {
			out.WithLeader++
		}
	}
	return out, nil
}

func topicDescribe(ctx context.Context, env *Env, in topicInputs) (topicOutputs, error) {
	if env.kafkaOnly() {
		return describeOnKafka(ctx, env, in)
	}
	admin, err := env.Admin()
	if err != nil {
		return topicOutputs{}, err
	}
	answer, err := admin.Topics.DescribeTopic(ctx, &adminv1.DescribeTopicRequest{Name: in.Name})
	if err != nil {
		return topicOutputs{}, fmt.Errorf("describe topic %s: %w", in.Name, err)
	}
	partitions := answer.GetTopic().GetPartitions()
	if len(partitions) == 0 {
		return topicOutputs{}, fmt.Errorf("topic %s was described without partitions", in.Name)
	}
	p := partitions[0]
	out := topicOutputs{
		Leader: int64(p.GetLeader()), Epoch: int64(p.GetLeaderEpoch()), Replicas: int64s(p.GetReplicas()), ISR: int64s(p.GetIsr()),
		InSync: int64(len(p.GetIsr())), LogEnd: -1, Partition: int64(len(partitions)),
	}
	if end := p.GetLogEndOffset(); end != nil {
		out.LogEnd = end.GetValue()
	}
	return out, nil
}

func topicMove(ctx context.Context, env *Env, in moveInputs) (moveOutputs, error) {
	before, err := topicDescribe(ctx, env, topicInputs{in.Name})
	if err != nil {
		return moveOutputs{}, err
	}
	out := moveOutputs{From: before.Leader, EpochBefore: before.Epoch, Before: before.Replicas}
	admin, err := env.Admin()
	if err != nil {
		return out, err
	}
	start := time.Now()
	answer, err := admin.Topics.MoveTopic(ctx, &adminv1.MoveTopicRequest{Name: in.Name, ToBrokerId: int32(in.To), Replicas: in.Replicas})
	if err != nil {
		return out, fmt.Errorf("move topic %s: %w", in.Name, err)
	}
	out.Operation = int64(answer.GetOperation().GetOperationId())
	_, out.State, err = env.finish(ctx, answer.GetOperation())
	out.TookMS = since(start)
	if err != nil {
		return out, err
	}
	after, err := topicDescribe(ctx, env, topicInputs{in.Name})
	if err != nil {
		return out, err
	}
	out.To, out.EpochAfter, out.After, out.OwnerChanged = after.Leader, after.Epoch, after.Replicas, after.Leader != before.Leader
	for _, id := range before.Replicas {
		out.WasReplica = out.WasReplica || id == after.Leader
	}
	out.Summary = fmt.Sprintf("leader %s -> %s, replicas %s -> %s", env.label(out.From), env.label(out.To), env.labels(out.Before), env.labels(out.After))
	return out, nil
}

func (e *Env) labels(ids []int64) string {
	names := make([]string, len(ids))
	for i, id := range ids {
		names[i] = e.label(id)
	}
	return strings.Join(names, "+")
}
