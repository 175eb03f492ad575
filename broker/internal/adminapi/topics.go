package adminapi

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/ister-mq/ister/admin/adminv1"
	"github.com/ister-mq/ister/broker/internal/metadata"
	"github.com/ister-mq/ister/broker/internal/model"
	"github.com/ister-mq/ister/broker/internal/operation"
	"github.com/ister-mq/ister/broker/internal/refusal"
)

type topicsService struct{ *service }

// topicName reads a name that a caller gave.
func topicName(text string) (model.TopicName, error) {
	name, err := model.ParseTopicName(text)
	if err != nil {
		return name, refusal.New(refusal.InvalidName, text, err.Error(), "give a name such as /default/orders")
	}
	return name, nil
}

func (s *service) topic(text string) (*metadata.Topic, error) {
	name, err := topicName(text)
	if err != nil {
		return nil, err
	}
	if t := s.backend.Image().Topic(name); t != nil {
		return t, nil
	}
	return nil, refusal.New(refusal.TopicNotFound, name.String(), fmt.Sprintf("no topic has the name %s", name), "see `topics list` for the topics there are")
}

// CreateTopic makes a topic.
func (s topicsService) CreateTopic(ctx context.Context, request *adminv1.CreateTopicRequest) (*adminv1.CreateTopicResponse, error) {
	name, err := topicName(request.GetName())
	if err != nil {
		return nil, err
	}
	if n := request.GetPartitions(); n < 0 {
		return nil, refusal.New(refusal.InvalidPartition, name.String(), fmt.Sprintf("partitions: got %d, expected 1 or more", n), "correct partitions")
	}
	if n := request.GetReplicationFactor(); n < 0 {
		return nil, refusal.New(refusal.InvalidReplicas, name.String(), fmt.Sprintf("replication_factor: got %d, expected 1 or more", n), "correct replication_factor")
	}
	command := &metadata.CreateTopic{
		Name: name, Partitions: int(request.GetPartitions()), Replicas: int(request.GetReplicationFactor()),
		Config: request.GetConfig(), ValidateOnly: request.GetDryRun(),
	}
	if command.Dispatch, err = dispatch(request.GetDispatch()); err != nil {
		return nil, err
	}
	result, err := s.backend.Propose(ctx, command)
	if err != nil {
		return nil, err
	}
	made, err := topicResult(result)
	if err != nil {
		return nil, err
	}
	return &adminv1.CreateTopicResponse{Topic: topic(made, seen{}, true), DryRun: request.GetDryRun()}, nil
}

func topicResult(result any) (*metadata.Topic, error) {
	switch r := result.(type) {
	case metadata.TopicResult:
		return r.Topic, nil
	case *metadata.TopicResult:
		return r.Topic, nil
	}
	return nil, fmt.Errorf("create topic: result %T, expected metadata.TopicResult", result)
}

func dispatch(d adminv1.Dispatch) (metadata.Dispatch, error) {
	if d == adminv1.Dispatch_DISPATCH_UNSPECIFIED {
		return "", nil
	}
	for ours, theirs := range dispatches {
		if theirs == d {
			return ours, nil
		}
	}
	return "", invalid("dispatch", d.String(), "RELIABLE or NON_RELIABLE")
}

// ListTopics lists topics by name.
func (s topicsService) ListTopics(_ context.Context, request *adminv1.ListTopicsRequest) (*adminv1.ListTopicsResponse, error) {
	im := s.backend.Image()
	broker := model.NodeID(request.GetBrokerId())
	if broker != model.NoNode {
		id, err := nodeID("broker_id", request.GetBrokerId())
		if err != nil {
			return nil, err
		}
		if _, err := registered(im, id); err != nil {
			return nil, err
		}
	}
	if ns := request.GetNamespace(); ns != "" && im.Namespaces[ns] == nil {
		return nil, refusal.New(refusal.NamespaceNotFound, ns, fmt.Sprintf("no namespace has the name %q", ns), "see `namespaces list` for the namespaces there are")
	}
	out := &adminv1.ListTopicsResponse{}
	for _, t := range im.SortedTopics() {
		if ns := request.GetNamespace(); ns != "" && t.Name.Namespace != ns {
			continue
		}
		if broker != model.NoNode && !onBroker(t, broker) {
			continue
		}
		out.Topics = append(out.Topics, topic(t, seen{}, false))
	}
	return out, nil
}

func onBroker(t *metadata.Topic, broker model.NodeID) bool {
	return slices.ContainsFunc(t.Partitions, func(p *metadata.Partition) bool { return model.HasNode(p.Replicas, broker) })
}

// DescribeTopic shows one topic with its partitions.
func (s topicsService) DescribeTopic(_ context.Context, request *adminv1.DescribeTopicRequest) (*adminv1.DescribeTopicResponse, error) {
	t, err := s.topic(request.GetName())
	if err != nil {
		return nil, err
	}
	return &adminv1.DescribeTopicResponse{Topic: topic(t, seen{s.backend.Observations().Progress, s.backend.World().Bytes}, true)}, nil
}

// DeleteTopic deletes a topic and its data.
func (s topicsService) DeleteTopic(ctx context.Context, request *adminv1.DeleteTopicRequest) (*adminv1.DeleteTopicResponse, error) {
	t, err := s.topic(request.GetName())
	if err != nil {
		return nil, err
	}
	// By id, so that a topic made anew under the name in between is not meant.
	command := &metadata.DeleteTopic{ID: t.ID, PlacementRevision: model.Revision(request.GetPlacementRevision())}
	if request.GetDryRun() {
		_, err = s.decide(command)
	} else {
		_, err = s.backend.Propose(ctx, command)
	}
	if err != nil {
		return nil, err
	}
	return &adminv1.DeleteTopicResponse{Name: t.Name.String(), TopicId: t.ID.String(), DryRun: request.GetDryRun()}, nil
}

// MoveTopic plans the move of a topic, and starts it unless on a dry run.
func (s topicsService) MoveTopic(ctx context.Context, request *adminv1.MoveTopicRequest) (*adminv1.MoveTopicResponse, error) {
	t, err := s.topic(request.GetName())
	if err != nil {
		return nil, err
	}
	to := model.NodeID(request.GetToBrokerId())
	if to != model.NoNode {
		if _, err := nodeID("to_broker_id", request.GetToBrokerId()); err != nil {
			return nil, err
		}
		if _, err := registered(s.backend.Image(), to); err != nil {
			return nil, err
		}
	}
	started, err := s.backend.StartOperation(ctx, OperationRequest{
		Kind: metadata.OpMoveTopic, Topic: t.Name, To: to, Replicas: request.GetReplicas(), Actor: actor(ctx), DryRun: request.GetDryRun(),
		PlacementRevision: model.Revision(request.GetPlacementRevision()),
	})
	if err != nil {
		return nil, err
	}
	return &adminv1.MoveTopicResponse{Plan: s.plan(started.Plan), Operation: s.operation(started.Operation, true), Attached: started.Attached, DryRun: request.GetDryRun()}, nil
}

// seen is what the nodes reported of their replicas; zero where it is not needed.
type seen struct {
	progress map[model.Partition]map[model.NodeID]operation.ReplicaProgress
	bytes    map[model.Partition]int64
}

func topic(t *metadata.Topic, reports seen, withPartitions bool) *adminv1.Topic {
	out := &adminv1.Topic{
		Name: t.Name.String(), KafkaName: t.Name.Kafka(), TopicId: t.ID.String(), Dispatch: dispatches[t.Dispatch],
		ReplicationFactor: int32(t.DesiredReplicas), PartitionCount: int32(len(t.Partitions)), MinInsyncReplicas: int32(t.MinISR()),
		Config: maps.Clone(t.Config), CreatedAt: timestamp(t.CreatedAt),
	}
	var c counts
	c.add(t)
	out.OfflinePartitions, out.UnderReplicatedPartitions, out.UndersizedPartitions = c.offline, c.under, c.undersized
	var leaders []model.NodeID
	for _, p := range t.Partitions {
		if p.Leader != model.NoNode && !model.HasNode(leaders, p.Leader) {
			leaders = append(leaders, p.Leader)
		}
		if withPartitions {
			out.Partitions = append(out.Partitions, partition(p, reports))
		}
	}
	out.Leaders = ids(model.SortNodes(leaders))
	return out
}

// counts are of partitions that are not as they should be.
type counts struct {
	offline    int32 // no leader
	under      int32 // a replica is not in sync
	undersized int32 // fewer replicas than the topic wants
}

func (c *counts) add(t *metadata.Topic) {
	for _, p := range t.Partitions {
		if p.Leader == model.NoNode {
			c.offline++
		}
		behind := func(n model.NodeID) bool { return !slices.Contains(p.ISR, n) && !slices.Contains(p.Adding, n) }
		if slices.ContainsFunc(p.Replicas, behind) {
			c.under++
		}
		if len(p.Replicas) < t.DesiredReplicas {
			c.undersized++
		}
	}
}

func partition(p *metadata.Partition, reports seen) *adminv1.Partition {
	out := &adminv1.Partition{
		Index: p.ID.Index, Leader: int32(p.Leader), LeaderEpoch: int32(p.LeaderEpoch), Replicas: ids(p.Replicas), Isr: ids(p.ISR),
		Adding: ids(p.Adding), Removing: ids(p.Removing), OperationId: uint64(p.Operation), Retiring: ids(p.Retiring),
	}
	if r, ok := reports.progress[p.ID][p.Leader]; ok {
		out.LogEndOffset = wrapperspb.Int64(int64(r.LogEnd))
	}
	if bytes, ok := reports.bytes[p.ID]; ok {
		out.Bytes = wrapperspb.Int64(bytes)
	}
	return out
}

type namespacesService struct{ *service }

// CreateNamespace makes a namespace.
func (s namespacesService) CreateNamespace(ctx context.Context, request *adminv1.CreateNamespaceRequest) (*adminv1.CreateNamespaceResponse, error) {
	if err := model.CheckNamespace(request.GetName()); err != nil {
		return nil, refusal.New(refusal.InvalidName, request.GetName(), err.Error(), "give a name such as payments")
	}
	if err := s.proposeUnless(ctx, request.GetDryRun(), &metadata.CreateNamespace{Name: request.GetName()}); err != nil {
		return nil, err
	}
	return &adminv1.CreateNamespaceResponse{Name: request.GetName(), DryRun: request.GetDryRun()}, nil
}

// DeleteNamespace deletes an empty namespace.
func (s namespacesService) DeleteNamespace(ctx context.Context, request *adminv1.DeleteNamespaceRequest) (*adminv1.DeleteNamespaceResponse, error) {
	command := &metadata.DeleteNamespace{Name: request.GetName(), PlacementRevision: model.Revision(request.GetPlacementRevision())}
	if err := s.proposeUnless(ctx, request.GetDryRun(), command); err != nil {
		return nil, err
	}
	return &adminv1.DeleteNamespaceResponse{Name: request.GetName(), DryRun: request.GetDryRun()}, nil
}

// proposeUnless has a command decided, without writing on a dry run.
func (s *service) proposeUnless(ctx context.Context, dryRun bool, command metadata.Command) error {
	if dryRun {
		_, err := s.decide(command)
		return err
	}
	_, err := s.backend.Propose(ctx, command)
	return err
}

// ListNamespaces lists namespaces by name.
func (s namespacesService) ListNamespaces(context.Context, *adminv1.ListNamespacesRequest) (*adminv1.ListNamespacesResponse, error) {
	im := s.backend.Image()
	topics := make(map[string]int32)
	for _, t := range im.Topics {
		topics[t.Name.Namespace]++
	}
	out := &adminv1.ListNamespacesResponse{}
	for _, name := range slices.Sorted(maps.Keys(im.Namespaces)) {
		out.Namespaces = append(out.Namespaces, &adminv1.Namespace{Name: name, CreatedAt: timestamp(im.Namespaces[name].CreatedAt), Topics: topics[name]})
	}
	return out, nil
}
