package verb

import (
	"context"
	"encoding/hex"
	"fmt"
	"sort"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ister-mq/ister/admin/adminv1"
	"github.com/ister-mq/ister/admin/client"
	"github.com/ister-mq/ister/scenarios/internal/spec"
	"github.com/ister-mq/ister/setups"
)

type metadataInputs struct {
	Topics []string `json:"topics" doc:"topics, as Kafka clients name them; default: all"`
}

type metadataOutputs struct {
	Asked      int64    `json:"asked" doc:"brokers asked"`
	Answered   int64    `json:"answered" doc:"brokers that answered"`
	Views      int64    `json:"views" doc:"different answers; 1: all agree"`
	Agree      bool     `json:"agree" doc:"every broker answered, and the same"`
	Difference string   `json:"difference" doc:"the first line in which two answers differ, or who did not answer; none without"`
	Brokers    int64    `json:"brokers" doc:"brokers in the answers"`
	Topics     int64    `json:"topics" doc:"topics in the answers"`
	Partitions int64    `json:"partitions" doc:"partitions in the answers"`
	Leaderless int64    `json:"leaderless" doc:"partitions without a leader"`
	Names      []string `json:"names" doc:"names of the topics"`
	IDs        []string `json:"ids" doc:"ids of the topics, in the same order"`
	Errors     []string `json:"errors" doc:"topics that were refused, and why"`
}

type namespaceInputs struct {
	Name string `json:"name" required:"true" doc:"name"`
}

type namespaceDeleteInputs struct {
	Name      string `json:"name" required:"true" doc:"name"`
	MissingOK bool   `json:"missing_ok" default:"false" doc:"a namespace that is not there is fine"`
}

type deleteInputs struct {
	Name      string `json:"name" required:"true" doc:"full name; with count above 1 a prefix, to which 1, 2, ... is added"`
	Count     int64  `json:"count" default:"1" min:"1" max:"1000" doc:"how many topics"`
	MissingOK bool   `json:"missing_ok" default:"false" doc:"a topic that is not there is fine"`
}

type deleteOutputs struct {
	Deleted int64  `json:"deleted" doc:"topics deleted"`
	Missing int64  `json:"missing" doc:"topics that were not there"`
	TopicID string `json:"topic_id" doc:"id of the last one deleted"`
}

func init() {
	define(meta{
		name: "metadata.compare", risk: spec.ReadOnly, doc: "Ask every broker for the metadata of topics, and compare the answers: brokers, topic ids, leaders, epochs, replicas, in-sync replicas.",
		command: "kcat -L -b <each broker>",
	}, metadataCompare, nil)
	define(meta{
		name: "namespace.create", needs: []setups.Ability{setups.AbilityAdmin}, risk: spec.Additive, doc: "Create a namespace, unless it is there.", command: "ister admin namespaces create {name}",
	}, namespaceCreate, nil)
	define(meta{
		name: "namespace.delete", needs: []setups.Ability{setups.AbilityAdmin}, risk: spec.Destructive, doc: "Delete an empty namespace.", command: "ister admin namespaces delete {name}",
	}, namespaceDelete, nil)
	define(meta{
		name: "topic.delete", needs: []setups.Ability{setups.AbilityAdmin}, risk: spec.Destructive, doc: "Delete topics with their records.", command: "ister admin topics delete {name}",
	}, topicDelete, nil)
}

func metadataCompare(ctx context.Context, env *Env, in metadataInputs) (metadataOutputs, error) {
	out := metadataOutputs{Names: []string{}, IDs: []string{}, Errors: []string{}, Difference: "none"}
	var first []string
	firstName := ""
	views := map[string]bool{}
	for _, b := range env.Cluster.Brokers() {
		if !b.Running {
			continue
		}
		out.Asked++
		answer, err := metadataOf(ctx, b.Kafka, in.Topics)
		if err != nil {
			out.Difference = fmt.Sprintf("%s does not answer: %v", b.Name, err)
			continue
		}
		out.Answered++
		view := viewOf(answer)
		views[strings.Join(view, "\n")] = true
		if first == nil {
			first, firstName = view, b.Name
			out.describe(answer)
		} else if d := differs(firstName, first, b.Name, view); d != "" && out.Difference == "none" {
			out.Difference = d
		}
	}
	if out.Asked == 0 {
		return out, fmt.Errorf("no broker runs")
	}
	out.Views = int64(len(views))
	out.Agree = out.Views == 1 && out.Answered == out.Asked
	return out, nil
}

// metadataOf asks one broker and no other.
func metadataOf(ctx context.Context, address string, topics []string) (*kmsg.MetadataResponse, error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(address), kgo.ClientID("ister-scenario"))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	request := kmsg.NewPtrMetadataRequest()
	for _, name := range topics {
		topic := kmsg.NewMetadataRequestTopic()
		topic.Topic = kmsg.StringPtr(name)
		request.Topics = append(request.Topics, topic)
	}
	return request.RequestWith(ctx, client)
}

// viewOf is an answer as lines, in an order that does not depend on the broker.
func viewOf(m *kmsg.MetadataResponse) []string {
	var lines []string
	if m.ClusterID != nil {
		lines = append(lines, "cluster "+*m.ClusterID)
	}
	sort.Slice(m.Brokers, func(a, b int) bool { return m.Brokers[a].NodeID < m.Brokers[b].NodeID })
	for _, b := range m.Brokers {
		lines = append(lines, fmt.Sprintf("broker %d at %s:%d", b.NodeID, b.Host, b.Port))
	}
	sort.Slice(m.Topics, func(a, b int) bool { return topicName(m.Topics[a]) < topicName(m.Topics[b]) })
	for _, t := range m.Topics {
		lines = append(lines, fmt.Sprintf("topic %s id %s error %d", topicName(t), hex.EncodeToString(t.TopicID[:]), t.ErrorCode))
		sort.Slice(t.Partitions, func(a, b int) bool { return t.Partitions[a].Partition < t.Partitions[b].Partition })
		for _, p := range t.Partitions {
			isr := append([]int32(nil), p.ISR...)
			sort.Slice(isr, func(a, b int) bool { return isr[a] < isr[b] })
			lines = append(lines, fmt.Sprintf("partition %s/%d leader %d epoch %d replicas %v in sync %v error %d", topicName(t), p.Partition, p.Leader, p.LeaderEpoch, p.Replicas, isr, p.ErrorCode))
		}
	}
	return lines
}

func topicName(t kmsg.MetadataResponseTopic) string {
	if t.Topic == nil {
		return ""
	}
	return *t.Topic
}

func differs(nameA string, a []string, nameB string, b []string) string {
	for i := range max(len(a), len(b)) {
		x, y := "nothing more", "nothing more"
		if i < len(a) {
			x = a[i]
		}
		if i < len(b) {
			y = b[i]
		}
		if x != y {
			return fmt.Sprintf("%s says %s, %s says %s", nameA, x, nameB, y)
		}
	}
	return ""
}

func (out *metadataOutputs) describe(m *kmsg.MetadataResponse) {
	out.Brokers, out.Topics = int64(len(m.Brokers)), int64(len(m.Topics))
	for _, t := range m.Topics {
		out.Names, out.IDs = append(out.Names, topicName(t)), append(out.IDs, hex.EncodeToString(t.TopicID[:]))
		if t.ErrorCode != 0 {
			out.Errors = append(out.Errors, topicName(t)+": "+kerr.TypedErrorForCode(t.ErrorCode).Message)
		}
		out.Partitions += int64(len(t.Partitions))
		for _, p := range t.Partitions {
			if p.Leader < 0 {
				out.Leaderless++
			}
		}
	}
}

func namespaceCreate(ctx context.Context, env *Env, in namespaceInputs) (namespaceInputs, error) {
	admin, err := env.Admin()
	if err != nil {
		return in, err
	}
	_, err = admin.Namespaces.CreateNamespace(ctx, &adminv1.CreateNamespaceRequest{Name: in.Name})
	if err != nil && !isKind(err, adminv1.Refusal_EXISTS) {
		return in, fmt.Errorf("create namespace %s: %w", in.Name, err)
	}
	return in, nil
}

func namespaceDelete(ctx context.Context, env *Env, in namespaceDeleteInputs) (namespaceInputs, error) {
	out := namespaceInputs{Name: in.Name}
	admin, err := env.Admin()
	if err != nil {
		return out, err
	}
	_, err = admin.Namespaces.DeleteNamespace(ctx, &adminv1.DeleteNamespaceRequest{Name: in.Name})
	if err != nil && !(in.MissingOK && isKind(err, adminv1.Refusal_NOT_FOUND)) {
		return out, fmt.Errorf("delete namespace %s: %w", in.Name, err)
	}
	return out, nil
}

// isKind reports whether err is a refusal of that kind.
func isKind(err error, kind adminv1.Refusal_Kind) bool {
	r := client.AsRefusal(err)
	return r != nil && r.Kind == kind
}

func topicDelete(ctx context.Context, env *Env, in deleteInputs) (deleteOutputs, error) {
	var out deleteOutputs
	admin, err := env.Admin()
	if err != nil {
		return out, err
	}
	for i := range in.Count {
		name := in.Name
		if in.Count > 1 {
			name = fmt.Sprintf("%s%d", in.Name, i+1)
		}
		answer, err := admin.Topics.DeleteTopic(ctx, &adminv1.DeleteTopicRequest{Name: name})
		switch {
		case err == nil:
			out.Deleted++
			out.TopicID = answer.GetTopicId()
		case in.MissingOK && isKind(err, adminv1.Refusal_NOT_FOUND):
			out.Missing++
		default:
			return out, fmt.Errorf("delete topic %s: %w", name, err)
		}
	}
	return out, nil
}
