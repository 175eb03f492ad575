package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/ister-mq/ister/admin/adminv1"
	"github.com/ister-mq/ister/admin/client"
)

// completeFor bounds how long a shell waits for names.
const completeFor = time.Second

type completer = func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective)

// words completes from a fixed list.
func words(list ...string) completer {
	return cobra.FixedCompletions(list, cobra.ShellCompDirectiveNoFileComp)
}

// complete asks the cluster for words; without a cluster there are none.
func (a *app) complete(ask func(context.Context, *client.Client) []string) completer {
	return func(command *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		admin, err := a.connect(completeFor)
		if err != nil || len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		defer admin.Close()
		ctx, cancel := context.WithTimeout(context.Background(), completeFor)
		defer cancel()
		return ask(ctx, admin), cobra.ShellCompDirectiveNoFileComp
	}
}

func topicNames(ctx context.Context, admin *client.Client) []string {
	var out []string
	answer, err := admin.Topics.ListTopics(ctx, &adminv1.ListTopicsRequest{})
	if err != nil {
		return nil
	}
	for _, t := range answer.GetTopics() {
		out = append(out, t.GetName())
	}
	return out
}

func namespaceNames(ctx context.Context, admin *client.Client) []string {
	var out []string
	answer, err := admin.Namespaces.ListNamespaces(ctx, &adminv1.ListNamespacesRequest{})
	if err != nil {
		return nil
	}
	for _, n := range answer.GetNamespaces() {
		out = append(out, n.GetName())
	}
	return out
}

func nodeIDs(ctx context.Context, admin *client.Client) []string {
	var out []string
	answer, err := admin.Cluster.ListMembers(ctx, &adminv1.ListMembersRequest{})
	if err != nil {
		return nil
	}
	for _, m := range answer.GetMembers() {
		out = append(out, number(m.GetNodeId())+"\t"+lower(m.GetRole())+", "+lower(m.GetState()))
	}
	return out
}

func liveOperations(ctx context.Context, admin *client.Client) []string {
	var out []string
	answer, err := admin.Operations.ListOperations(ctx, &adminv1.ListOperationsRequest{Live: true})
	if err != nil {
		return nil
	}
	for _, op := range answer.GetOperations() {
		out = append(out, operationName(op.GetOperationId())+"\t"+lower(op.GetKind())+" "+op.GetSubject())
	}
	return out
}
