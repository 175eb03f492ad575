package mcp

import (
	"context"
	"fmt"

	"github.com/ister-mq/ister/admin/adminv1"
)

var (
	topicArgument     = argument{name: "name", kind: kindString, doc: "/namespace/topic, or a bare topic of the default namespace", required: true, pattern: patternTopic}
	namespaceArgument = argument{name: "name", kind: kindString, doc: "name of the namespace", required: true, pattern: patternNamespace}
)

// dispatches are the durability classes by their names in the CLI.
var dispatches = map[string]adminv1.Dispatch{"reliable": adminv1.Dispatch_RELIABLE, "non_reliable": adminv1.Dispatch_NON_RELIABLE}

func topicTools() []tool {
	return []tool{
		{
			name: "topics_list", title: "List topics", toolset: toolsetTopics, risk: ReadOnly, list: "topics",
			doc: "List topics with their leaders, offline and under-replicated partitions.",
			arguments: []argument{
				{name: "namespace", kind: kindString, doc: "only of this namespace", pattern: patternNamespace},
				{name: "broker_id", kind: kindInteger, doc: "only with a replica on this broker; 0: all", max: nodeIDMax, fallback: int64(0)},
			},
			result: messageSchema(&adminv1.ListTopicsResponse{}), run: listTopics,
		},
		{
			name: "topics_describe", title: "Describe a topic", toolset: toolsetTopics, risk: ReadOnly, list: "topic.partitions",
			doc: "A topic with its settings and each partition's leader, replicas, in-sync replicas, log end offset and moves.", arguments: []argument{topicArgument},
			result: messageSchema(&adminv1.DescribeTopicResponse{}), run: describeTopic,
		},
		{
			name: "topics_create", title: "Create a topic", toolset: toolsetTopics, risk: Additive, list: "topic.partitions",
			doc: "Create a topic. Reliable: 3 replicas, on disk before an acknowledgement; non_reliable: one copy in the page cache.",
			arguments: []argument{
				topicArgument,
				{name: "partitions", kind: kindInteger, doc: "number of partitions", min: 1, max: 10_000, fallback: int64(1)},
				{name: "replication_factor", kind: kindInteger, doc: "wanted replicas; 0: the default of the dispatch strategy", max: 100, fallback: int64(0)},
				{name: "dispatch_strategy", kind: kindString, doc: "durability class", oneOf: []string{"reliable", "non_reliable"}, fallback: "reliable"},
				{name: "config", kind: kindMap, doc: `settings by their Kafka names, such as {"retention.ms": "60000"}`},
				dryRunArgument,
			},
			result: messageSchema(&adminv1.CreateTopicResponse{}), run: createTopic,
		},
		{
			name: "topics_delete", title: "Delete a topic", toolset: toolsetTopics, risk: Destructive,
			doc: "Delete a topic with all its records. It cannot be taken back.", arguments: []argument{topicArgument},
			result: messageSchema(&adminv1.DeleteTopicResponse{}), run: deleteTopic, plan: planDelete,
		},
		{
			name: "topics_move", title: "Move a topic", toolset: toolsetTopics, risk: Disruptive, repeatable: true, list: "operation.moves",
			doc: "Hand a topic's leaderships to another broker and, with replicas, relocate a copy of its data there.",
			arguments: []argument{
				topicArgument,
				{name: "to_broker_id", kind: kindInteger, doc: "the broker that takes it; 0: any other", max: nodeIDMax, fallback: int64(0)},
				{name: "replicas", kind: kindBoolean, doc: "also relocate a copy of the data", fallback: false},
			},
			result: messageSchema(&adminv1.MoveTopicResponse{}), run: moveTopic, plan: planMove,
		},
	}
}

func namespaceTools() []tool {
	return []tool{
		{
			name: "namespaces_list", title: "List namespaces", toolset: toolsetNamespaces, risk: ReadOnly, list: "namespaces", doc: "List the namespaces with their number of topics.",
			result: messageSchema(&adminv1.ListNamespacesResponse{}), run: listNamespaces,
		},
		{
			name: "namespaces_create", title: "Create a namespace", toolset: toolsetNamespaces, risk: Additive,
			doc: "Create a namespace, a group of topics.", arguments: []argument{namespaceArgument, dryRunArgument},
			result: messageSchema(&adminv1.CreateNamespaceResponse{}), run: createNamespace,
		},
		{
			name: "namespaces_delete", title: "Delete a namespace", toolset: toolsetNamespaces, risk: Destructive,
			doc: "Delete an empty namespace.", arguments: []argument{namespaceArgument},
			result: messageSchema(&adminv1.DeleteNamespaceResponse{}), run: deleteNamespace, plan: planNamespaceDelete,
		},
	}
}

func listTopics(ctx context.Context, s *Server, in input) (*answer, error) {
	r, err := s.admin.Topics.ListTopics(ctx, &adminv1.ListTopicsRequest{Namespace: in.text("namespace"), BrokerId: in.id("broker_id")})
	if err != nil {
		return nil, err
	}
	offline, behind := 0, 0
	for _, t := range r.GetTopics() {
		if t.GetOfflinePartitions() > 0 {
			offline++
		}
		if t.GetUnderReplicatedPartitions() > 0 {
			behind++
		}
	}
	return message(r, fmt.Sprintf("%s; %d with offline and %d with under-replicated partitions", plural(len(r.GetTopics()), "topic", "topics"), offline, behind))
}

func describeTopic(ctx context.Context, s *Server, in input) (*answer, error) {
	r, err := s.admin.Topics.DescribeTopic(ctx, &adminv1.DescribeTopicRequest{Name: in.text("name")})
	if err != nil {
		return nil, err
	}
	return message(r, topicSummary(r.GetTopic()))
}

func topicSummary(t *adminv1.Topic) string {
	return fmt.Sprintf("%s (Kafka name %s): %s, %d wanted replicas, leaders %v, %d offline, %d under-replicated", t.GetName(), t.GetKafkaName(),
		plural(int(t.GetPartitionCount()), "partition", "partitions"), t.GetReplicationFactor(), t.GetLeaders(), t.GetOfflinePartitions(), t.GetUnderReplicatedPartitions())
}

func createTopic(ctx context.Context, s *Server, in input) (*answer, error) {
	r, err := s.admin.Topics.CreateTopic(ctx, &adminv1.CreateTopicRequest{
		Name: in.text("name"), Partitions: in.id("partitions"), ReplicationFactor: in.id("replication_factor"), Dispatch: dispatches[in.text("dispatch_strategy")],
		Config: in.pairs("config"), DryRun: in.yes("dry_run"),
	})
	if err != nil {
		return nil, err
	}
	if r.GetDryRun() {
		return message(r, "Dry run, nothing was changed: "+topicSummary(r.GetTopic()))
	}
	return message(r, "Created "+topicSummary(r.GetTopic()))
}

func planDelete(ctx context.Context, s *Server, in input) (*effect, error) {
	status, err := s.admin.Cluster.GetStatus(ctx, &adminv1.GetStatusRequest{})
	if err != nil {
		return nil, err
	}
	described, err := s.admin.Topics.DescribeTopic(ctx, &adminv1.DescribeTopicRequest{Name: in.text("name")})
	if err != nil {
		return nil, err
	}
	if _, err := s.admin.Topics.DeleteTopic(ctx, &adminv1.DeleteTopicRequest{Name: in.text("name"), DryRun: true}); err != nil {
		return nil, err
	}
	t := described.GetTopic()
	records, known := int64(0), true
	for _, p := range t.GetPartitions() {
		known = known && p.GetLogEndOffset() != nil
		records += p.GetLogEndOffset().GetValue()
	}
	amount := "an unknown number of records"
	if known {
		amount = fmt.Sprintf("up to %d records", records)
	}
	return &effect{
		what: map[string]any{"deletes": t.GetName(), "topic_id": t.GetTopicId(), "partitions": t.GetPartitionCount()}, note: map[string]any{"holds": amount},
		revision: status.GetPlacementRevision(), summary: fmt.Sprintf("topic %s is deleted with %s", t.GetName(), amount),
	}, nil
}

func deleteTopic(ctx context.Context, s *Server, in input) (*answer, error) {
	r, err := s.admin.Topics.DeleteTopic(ctx, &adminv1.DeleteTopicRequest{Name: in.text("name"), PlacementRevision: in.revision})
	if err != nil {
		return nil, err
	}
	return message(r, "Deleted "+r.GetName())
}

func (s *Server) moveRequest(in input, dryRun bool) *adminv1.MoveTopicRequest {
	return &adminv1.MoveTopicRequest{Name: in.text("name"), ToBrokerId: in.id("to_broker_id"), Replicas: in.yes("replicas"), DryRun: dryRun, PlacementRevision: in.revision}
}

func planMove(ctx context.Context, s *Server, in input) (*effect, error) {
	r, err := s.admin.Topics.MoveTopic(ctx, s.moveRequest(in, true))
	if err != nil {
		return nil, err
	}
	return planOf(r.GetPlan(), "move of "+in.text("name"), map[string]any{"topic": in.text("name")}), nil
}

func moveTopic(ctx context.Context, s *Server, in input) (*answer, error) {
	r, err := s.admin.Topics.MoveTopic(ctx, s.moveRequest(in, false))
	if err != nil {
		return nil, err
	}
	if r.Plan != nil {
		r.Plan.Moves = nil
	}
	return started(r, "Move of "+in.text("name"), r.GetOperation(), r.GetAttached())
}

func listNamespaces(ctx context.Context, s *Server, _ input) (*answer, error) {
	r, err := s.admin.Namespaces.ListNamespaces(ctx, &adminv1.ListNamespacesRequest{})
	if err != nil {
		return nil, err
	}
	return message(r, plural(len(r.GetNamespaces()), "namespace", "namespaces"))
}

func createNamespace(ctx context.Context, s *Server, in input) (*answer, error) {
	r, err := s.admin.Namespaces.CreateNamespace(ctx, &adminv1.CreateNamespaceRequest{Name: in.text("name"), DryRun: in.yes("dry_run")})
	if err != nil {
		return nil, err
	}
	if r.GetDryRun() {
		return message(r, "Dry run, nothing was changed: namespace "+r.GetName()+" can be created")
	}
	return message(r, "Created namespace "+r.GetName())
}

func planNamespaceDelete(ctx context.Context, s *Server, in input) (*effect, error) {
	status, err := s.admin.Cluster.GetStatus(ctx, &adminv1.GetStatusRequest{})
	if err != nil {
		return nil, err
	}
	if _, err := s.admin.Namespaces.DeleteNamespace(ctx, &adminv1.DeleteNamespaceRequest{Name: in.text("name"), DryRun: true}); err != nil {
		return nil, err
	}
	return &effect{what: map[string]any{"deletes_namespace": in.text("name")}, revision: status.GetPlacementRevision(), summary: "the empty namespace " + in.text("name") + " is deleted"}, nil
}

func deleteNamespace(ctx context.Context, s *Server, in input) (*answer, error) {
	r, err := s.admin.Namespaces.DeleteNamespace(ctx, &adminv1.DeleteNamespaceRequest{Name: in.text("name"), PlacementRevision: in.revision})
	if err != nil {
		return nil, err
	}
	return message(r, "Deleted namespace "+r.GetName())
}
