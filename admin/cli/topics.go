package cli

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/ister-mq/ister/admin/adminv1"
)

const topicExample = "/default/orders"

func (a *app) topicsCommand() *cobra.Command {
	return newGroup("topics", "Topics and where they are",
		`Topics and where they are.

NAME is /namespace/topic, or a bare topic of the default namespace. Kafka clients
call /default/topic "topic" and /namespace/topic "namespace.topic".`,
		a.topicsCreateCommand(), a.topicsListCommand(), a.topicsDescribeCommand(), a.topicsDeleteCommand(), a.topicsMoveCommand())
}

func (a *app) topicsCreateCommand() *cobra.Command {
	var request adminv1.CreateTopicRequest
	strategy := "reliable"
	var config []string
	c := &cobra.Command{
		Use: "create NAME", Short: "Create a topic",
		Long: `Create a topic.

A reliable topic (the default) has three replicas and writes records to disk before
they are acknowledged. Without --replication-factor a smaller cluster starts with
fewer replicas, and more are added when it grows. A non_reliable topic has one
copy, in the page cache.`,
		Example: `  ister admin topics create /default/orders --partitions 12
  ister admin topics create /default/clicks --dispatch-strategy non_reliable --config retention.ms=3600000`,
		Args: oneArgument("NAME", topicExample),
		RunE: a.run(func(c *call) error {
			for name, value := range map[string]int32{"partitions": request.GetPartitions(), "replication-factor": request.GetReplicationFactor()} {
				if c.command.Flags().Changed(name) && value < 1 {
					return &usageError{message: fmt.Sprintf("--%s: got %d, expected 1 or more", name, value), advice: "leave it out for the default", command: c.command.CommandPath()}
				}
			}
			var err error
			if request.Config, err = settings(c.command, config); err != nil {
				return err
			}
			request.Name, request.Dispatch = c.args[0], dispatchOf(strategy)
			r, err := c.Topics.CreateTopic(c.context, &request)
			if err != nil {
				return err
			}
			return c.print(r, func(w io.Writer) {
				t := r.GetTopic()
				verb := "Created"
				if r.GetDryRun() {
					verb = "Dry run: would create"
				}
				fmt.Fprintf(w, "%s %s with %s and replication factor %d.\n", verb, t.GetName(), plural(int(t.GetPartitionCount()), "partition", "partitions"), t.GetReplicationFactor())
				if have := replicasOf(t); have < int(t.GetReplicationFactor()) {
					fmt.Fprintf(w, "It has %s for now; more are added when the cluster grows.\n", plural(have, "replica", "replicas"))
				}
			})
		}),
	}
	c.Flags().Int32Var(&request.Partitions, "partitions", 0, "number of partitions (default 1)")
	c.Flags().Int32Var(&request.ReplicationFactor, "replication-factor", 0, "number of replicas (default 3, or 1 for non_reliable)")
	c.Flags().Var(choiceValue{&strategy, []string{"reliable", "non_reliable"}}, "dispatch-strategy", "durability class")
	c.Flags().StringArrayVar(&config, "config", nil, "a setting, key=value; can be repeated")
	_ = c.RegisterFlagCompletionFunc("dispatch-strategy", words("reliable", "non_reliable"))
	dryRunFlag(c, &request.DryRun)
	return c
}

// replicasOf is the number of replicas that a topic's first partition has.
func replicasOf(t *adminv1.Topic) int {
	if len(t.GetPartitions()) == 0 {
		return int(t.GetReplicationFactor())
	}
	return len(t.GetPartitions()[0].GetReplicas())
}

func (a *app) topicsListCommand() *cobra.Command {
	var request adminv1.ListTopicsRequest
	c := &cobra.Command{
		Use: "list", Short: "List topics", Args: noArguments,
		RunE: a.run(func(c *call) error {
			r, err := c.Topics.ListTopics(c.context, &request)
			if err != nil {
				return err
			}
			return c.print(r, func(w io.Writer) {
				if len(r.GetTopics()) == 0 {
					fmt.Fprintln(w, "There are no topics.")
					return
				}
				t := newTable("TOPIC", "PARTITIONS", "REPLICATION", "DISPATCH", "LEADERS", "HEALTH")
				for _, topic := range r.GetTopics() {
					t.row(topic.GetName(), number(topic.GetPartitionCount()), number(topic.GetReplicationFactor()), dispatchWord(topic.GetDispatch()), set(topic.GetLeaders()), topicHealth(topic))
				}
				t.print(w)
			})
		}),
	}
	c.Flags().StringVar(&request.Namespace, "namespace", "", "only topics of this namespace")
	c.Flags().Var(idValue{&request.BrokerId}, "broker", "only topics with a replica on this broker")
	_ = c.RegisterFlagCompletionFunc("namespace", a.complete(namespaceNames))
	_ = c.RegisterFlagCompletionFunc("broker", a.complete(nodeIDs))
	return c
}

// dispatchWord is the strategy as --dispatch-strategy takes it.
func dispatchWord(d adminv1.Dispatch) string { return strings.ToLower(d.String()) }

func topicHealth(t *adminv1.Topic) string {
	var words []string
	if n := t.GetOfflinePartitions(); n > 0 {
		words = append(words, fmt.Sprintf("%d offline", n))
	}
	if n := t.GetUnderReplicatedPartitions(); n > 0 {
		words = append(words, fmt.Sprintf("%d under-replicated", n))
	}
	if n := t.GetUndersizedPartitions(); n > 0 && len(words) == 0 { // the gravest have to fit
		words = append(words, fmt.Sprintf("%d undersized", n))
	}
	if len(words) == 0 {
		return "ok"
	}
	return strings.Join(words, ", ")
}

func (a *app) topicsDescribeCommand() *cobra.Command {
	return &cobra.Command{
		Use: "describe NAME", Short: "Show a topic with its partitions", Args: oneArgument("NAME", topicExample),
		ValidArgsFunction: a.complete(topicNames),
		RunE: a.run(func(c *call) error {
			r, err := c.Topics.DescribeTopic(c.context, &adminv1.DescribeTopicRequest{Name: c.args[0]})
			if err != nil {
				return err
			}
			return c.print(r.GetTopic(), func(w io.Writer) { printTopic(w, r.GetTopic()) })
		}),
	}
}

func printTopic(w io.Writer, topic *adminv1.Topic) {
	var f fields
	f.add("Topic", topic.GetName())
	f.add("Kafka Name", topic.GetKafkaName())
	f.add("Topic ID", topic.GetTopicId())
	f.add("Dispatch", dispatchWord(topic.GetDispatch()))
	f.add("Replication", fmt.Sprintf("%d, min in-sync %d", topic.GetReplicationFactor(), topic.GetMinInsyncReplicas()))
	f.add("Created", moment(topic.GetCreatedAt()))
	f.add("Health", topicHealth(topic))
	for _, key := range slices.Sorted(maps.Keys(topic.GetConfig())) {
		f.add("Config", key+"="+topic.GetConfig()[key])
	}
	f.print(w)
	fmt.Fprintln(w)
	t := newTable("PARTITION", "LEADER", "EPOCH", "REPLICAS", "ISR", "MOVE", "LOG END", "BYTES")
	for _, p := range topic.GetPartitions() {
		move := "-"
		if p.GetOperationId() != 0 {
			move = fmt.Sprintf("%s +%s -%s", operationName(p.GetOperationId()), set(p.GetAdding()), set(p.GetRemoving()))
		}
		t.row(number(p.GetIndex()), idOrNone(p.GetLeader()), number(p.GetLeaderEpoch()), set(p.GetReplicas()), set(p.GetIsr()), move, knownNumber(p.GetLogEndOffset()), knownSize(p.GetBytes()))
	}
	t.print(w)
}

func knownNumber(v *wrapperspb.Int64Value) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprint(v.GetValue())
}

func (a *app) topicsDeleteCommand() *cobra.Command {
	var request adminv1.DeleteTopicRequest
	c := &cobra.Command{
		Use: "delete NAME", Short: "Delete a topic and its records", Args: oneArgument("NAME", topicExample),
		ValidArgsFunction: a.complete(topicNames),
		RunE: a.run(func(c *call) error {
			request.Name = c.args[0]
			r, err := c.Topics.DeleteTopic(c.context, &request)
			if err != nil {
				return err
			}
			return c.print(r, func(w io.Writer) { deleted(w, r.GetName(), r.GetDryRun()) })
		}),
	}
	fenceFlag(c, &request.PlacementRevision)
	dryRunFlag(c, &request.DryRun)
	return c
}

func deleted(w io.Writer, name string, dryRun bool) {
	if dryRun {
		fmt.Fprintf(w, "Dry run: %s would be deleted; nothing was changed.\n", name)
		return
	}
	fmt.Fprintf(w, "Deleted %s.\n", name)
}

func (a *app) topicsMoveCommand() *cobra.Command {
	var request adminv1.MoveTopicRequest
	var waits bool
	c := &cobra.Command{
		Use: "move NAME", Short: "Move a topic's leadership to another broker, with --replicas also a copy of its data",
		Long: `Move a topic's leadership to another broker, with --replicas also a copy of its data.

Without --replicas only leadership is handed over, to a broker that has a copy in
sync. With --replicas the broker may be one that holds none: it copies, is in sync,
and only then takes over. The same request attaches to a move that is running.`,
		Args: oneArgument("NAME", topicExample), ValidArgsFunction: a.complete(topicNames),
		RunE: a.run(func(c *call) error {
			request.Name = c.args[0]
			r, err := c.Topics.MoveTopic(c.context, &request)
			if err != nil {
				return err
			}
			waited := waits && r.GetOperation() != nil
			var waitErr error
			if waited {
				r.Operation, waitErr = c.wait(r.GetOperation())
			}
			s := started{"move of " + request.GetName(), r.GetPlan(), r.GetOperation(), r.GetAttached(), r.GetDryRun(), waited}
			if err := c.print(r, s.print); err != nil {
				return err
			}
			return waitErr
		}),
	}
	c.Flags().Var(idValue{&request.ToBrokerId}, "to", "the broker to move to (default: the best other one)")
	c.Flags().BoolVar(&request.Replicas, "replicas", false, "relocate a copy of the data, and not only leadership")
	_ = c.RegisterFlagCompletionFunc("to", a.complete(nodeIDs))
	fenceFlag(c, &request.PlacementRevision)
	dryRunFlag(c, &request.DryRun)
	waitFlag(c, &waits)
	return c
}

func (a *app) namespacesCommand() *cobra.Command {
	return newGroup("namespaces", "Namespaces, which group topics", "Namespaces, which group topics.",
		a.namespacesListCommand(), a.namespacesCreateCommand(), a.namespacesDeleteCommand())
}

func (a *app) namespacesListCommand() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List namespaces", Args: noArguments,
		RunE: a.run(func(c *call) error {
			r, err := c.Namespaces.ListNamespaces(c.context, &adminv1.ListNamespacesRequest{})
			if err != nil {
				return err
			}
			return c.print(r, func(w io.Writer) {
				t := newTable("NAMESPACE", "TOPICS", "CREATED")
				for _, n := range r.GetNamespaces() {
					t.row(n.GetName(), number(n.GetTopics()), moment(n.GetCreatedAt()))
				}
				t.print(w)
			})
		}),
	}
}

func (a *app) namespacesCreateCommand() *cobra.Command {
	var request adminv1.CreateNamespaceRequest
	c := &cobra.Command{
		Use: "create NAME", Short: "Create a namespace", Args: oneArgument("NAME", "payments"),
		RunE: a.run(func(c *call) error {
			request.Name = c.args[0]
			r, err := c.Namespaces.CreateNamespace(c.context, &request)
			if err != nil {
				return err
			}
			return c.print(r, func(w io.Writer) {
				if r.GetDryRun() {
					fmt.Fprintf(w, "Dry run: namespace %s would be created; nothing was changed.\n", r.GetName())
					return
				}
				fmt.Fprintf(w, "Created namespace %s.\n", r.GetName())
			})
		}),
	}
	dryRunFlag(c, &request.DryRun)
	return c
}

func (a *app) namespacesDeleteCommand() *cobra.Command {
	var request adminv1.DeleteNamespaceRequest
	c := &cobra.Command{
		Use: "delete NAME", Short: "Delete an empty namespace", Args: oneArgument("NAME", "payments"),
		ValidArgsFunction: a.complete(namespaceNames),
		RunE: a.run(func(c *call) error {
			request.Name = c.args[0]
			r, err := c.Namespaces.DeleteNamespace(c.context, &request)
			if err != nil {
				return err
			}
			return c.print(r, func(w io.Writer) { deleted(w, "namespace "+r.GetName(), r.GetDryRun()) })
		}),
	}
	fenceFlag(c, &request.PlacementRevision)
	dryRunFlag(c, &request.DryRun)
	return c
}
