package verb

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sort"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ister-mq/ister/setups"
)

// kafkaOnly reports that the cluster has no admin API: it is not one of Ister,
// or it was attached to by its Kafka addresses alone.
func (e *Env) kafkaOnly() bool {
	brokers := e.Cluster.Brokers()
	for _, b := range brokers {
		if b.Admin != "" {
			return false
		}
	}
	return len(brokers) > 0
}

// kafkaAdmin is a client of the Kafka protocol's own administration; close it.
func (e *Env) kafkaAdmin() (*kadm.Client, error) {
	// The client keeps what it knows of topics for its minimum age, which has to be
	// less than the pace of looks.
	c, err := kgo.NewClient(kgo.SeedBrokers(e.bootstrap()...), kgo.ClientID("ister-scenario"), kgo.MetadataMinAge(lookEvery))
	if err != nil {
		return nil, fmt.Errorf("bootstrap addresses: %w", err)
	}
	return kadm.NewClient(c), nil
}

// defaultNamespace holds the topics that Kafka clients see by their bare name.
const defaultNamespace = "default"

// kafkaName is what Kafka clients call a topic with a full name.
func kafkaName(full string) string {
	namespace, topic, ok := strings.Cut(strings.TrimPrefix(full, "/"), "/")
	switch {
	case !ok:
		return full
	case namespace == defaultNamespace:
		return topic
	}
	return namespace + "." + topic
}

// fullName is the full name of a topic of the default namespace.
func fullName(kafka string) string { return "/" + defaultNamespace + "/" + kafka }

// reliableReplicas is how many replicas a reliable topic has where the cluster
// has so many brokers; all but one have to be in sync for an acknowledgement.
const reliableReplicas = 3

// createOnKafka creates a topic with the equal of Ister's durability classes.
func createOnKafka(ctx context.Context, env *Env, name string, in createInputs) (full, kafka string, refused bool, err error) {
	admin, err := env.kafkaAdmin()
	if err != nil {
		return "", "", true, err
	}
	defer admin.Close()
	kafka = kafkaName(name)
	replicas := in.Replicas
	var configs map[string]*string
	if in.Dispatch == dispatchReliable {
		if replicas == 0 {
			replicas = min(reliableReplicas, int64(len(env.Cluster.Brokers())))
		}
		configs = map[string]*string{"min.insync.replicas": kadm.StringPtr(strconv.FormatInt(max(1, replicas-1), 10))}
	}
	if replicas == 0 {
		replicas = -1 // the cluster's default
	}
	answer, err := admin.CreateTopic(ctx, int32(in.Partitions), int16(replicas), configs, kafka)
	if err != nil {
		var code *kerr.Error
		if errors.As(err, &code) && answer.ErrMessage != "" {
			err = fmt.Errorf("%w: %s", err, answer.ErrMessage)
		}
		return "", "", code != nil && !code.Retriable, err
	}
	return fullName(kafka), kafka, false, nil
}

// listOnKafka is topic.list without the admin API.
func listOnKafka(ctx context.Context, env *Env, in listInputs) (listOutputs, error) {
	admin, err := env.kafkaAdmin()
	if err != nil {
		return listOutputs{}, err
	}
	defer admin.Close()
	all, err := admin.ListTopics(ctx)
	if err != nil {
		return listOutputs{}, fmt.Errorf("list topics: %w", err)
	}
	out := listOutputs{Names: []string{}}
	for _, t := range all.Sorted() {
		name := fullName(t.Topic)
		if t.Err != nil || !strings.HasPrefix(name, in.Prefix) || in.Namespace != defaultNamespace && !strings.HasPrefix(t.Topic, in.Namespace+".") {
			continue
		}
		offline := int64(0)
		for _, p := range t.Partitions {
			if p.Leader < 0 {
				offline++
			}
			if len(p.ISR) < len(p.Replicas) {
				out.UnderReplicated++
			}
		}
		out.Names = append(out.Names, name)
		if out.Offline += offline; offline == 0 && len(t.Partitions) > 0 {
			out.WithLeader++
		}
	}
	out.Count = int64(len(out.Names))
	return out, nil
}

// describeOnKafka is topic.describe without the admin API.
func describeOnKafka(ctx context.Context, env *Env, in topicInputs) (topicOutputs, error) {
	admin, err := env.kafkaAdmin()
	if err != nil {
		return topicOutputs{}, err
	}
	defer admin.Close()
	name := kafkaName(in.Name)
	all, err := admin.ListTopics(ctx, name)
	if err == nil {
		err = all[name].Err
	}
	if err != nil {
		return topicOutputs{}, fmt.Errorf("describe topic %s: %w", in.Name, err)
	}
	p, ok := all[name].Partitions[0]
	if !ok {
		return topicOutputs{}, fmt.Errorf("topic %s was described without partitions", in.Name)
	}
	out := topicOutputs{
		Leader: int64(p.Leader), Epoch: int64(p.LeaderEpoch), Replicas: int64s(p.Replicas), ISR: int64s(p.ISR), InSync: int64(len(p.ISR)), LogEnd: -1,
		Partition: int64(len(all[name].Partitions)),
	}
	if ends, err := admin.ListEndOffsets(ctx, name); err == nil {
		if end, ok := ends.Lookup(name, 0); ok && end.Err == nil {
			out.LogEnd = end.Offset
		}
	}
	return out, nil
}

// idsOnKafka learns the node ids of brokers that have no admin API.
func idsOnKafka(ctx context.Context, env *Env, brokers []setups.Broker) ([]int64, error) {
	admin, err := env.kafkaAdmin()
	if err != nil {
		return nil, err
	}
	defer admin.Close()
	list, err := admin.ListBrokers(ctx)
	if err != nil {
		return nil, fmt.Errorf("list brokers: %w", err)
	}
	known := map[string]int64{}
	for _, b := range list {
		known[net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port)))] = int64(b.NodeID)
	}
	ids := make([]int64, len(brokers))
	for i, b := range brokers {
		id, ok := known[b.Kafka]
		if !ok {
			return nil, fmt.Errorf("the broker at %s is not among those of the cluster any more", b.Kafka)
		}
		env.learn(b.Name, id)
		ids[i] = id
	}
	return ids, nil
}

// placement is where every partition of some topics is, in one comparable text
// each.
type placement map[string]string

// placementOf reads where the partitions are. Topics are named as Kafka clients
// do; a partition that cannot be told of is left out.
func placementOf(ctx context.Context, admin *kadm.Client, topics []string) (placement, error) {
	all, err := admin.ListTopics(ctx, topics...)
	if err != nil {
		return nil, err
	}
	out := placement{}
	for _, t := range all {
		for _, p := range t.Partitions {
			if t.Err == nil && p.Err == nil {
				out[fmt.Sprintf("%s/%d", t.Topic, p.Partition)] = fmt.Sprintf("leader %d, epoch %d, replicas %v, in sync %v", p.Leader, p.LeaderEpoch, sorted(p.Replicas), sorted(p.ISR))
			}
		}
	}
	return out, nil
}

func sorted(ids []int32) []int32 {
	out := append([]int32(nil), ids...)
	sort.Slice(out, func(a, b int) bool { return out[a] < out[b] })
	return out
}
