package mcp

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/ister-mq/ister/admin/adminv1"
	"github.com/ister-mq/ister/admin/client"
)

var (
	dryRunArgument    = argument{name: "dry_run", kind: kindBoolean, doc: "only say what would be done", fallback: false}
	operationArgument = argument{name: "operation_id", kind: kindString, doc: "id of an operation, such as op-17", required: true, pattern: patternOperation}
	reasonArgument    = argument{name: "reason", kind: kindString, doc: "why, for the record"}
)

func nodeArgument(name, doc string) argument {
	return argument{name: name, kind: kindInteger, doc: doc, required: true, min: 1, max: nodeIDMax}
}

func clusterTools() []tool {
	return []tool{
		{
			name: "cluster_status", title: "Cluster status", toolset: toolsetCluster, risk: ReadOnly,
			doc:    "The node that answers, the quorum (voters, learners, controller), revisions, and counts of brokers, topics and partitions. For a judgement use diagnose_health.",
			result: messageSchema(&adminv1.GetStatusResponse{}), run: clusterStatus,
		},
		{
			name: "cluster_members", title: "Quorum members", toolset: toolsetCluster, risk: ReadOnly, list: "members",
			doc:    "List the members of the metadata quorum with role, state, addresses, and whether they are fenced.",
			result: messageSchema(&adminv1.ListMembersResponse{}), run: clusterMembers,
		},
		{
			name: "cluster_moves", title: "Moves under way", toolset: toolsetCluster, risk: ReadOnly, list: "moves",
			doc:       "List the moves of partitions that running operations make, with bytes copied.",
			arguments: []argument{{name: "all", kind: kindBoolean, doc: "also those that are done, of operations that have not ended", fallback: false}},
			result:    messageSchema(&adminv1.ListMovesResponse{}), run: clusterMoves,
		},
		{
			name: "cluster_add_node", title: "Add a node", toolset: toolsetCluster, risk: Additive, repeatable: true,
			doc:       "Admit a node, which was started with --join, as a learner. Next: cluster_promote_node, brokers_activate, brokers_rebalance.",
			arguments: []argument{{name: "node_addr", kind: kindString, doc: "its admin address, host:port", required: true}, dryRunArgument},
			result:    messageSchema(&adminv1.AddNodeResponse{}), run: addNode,
		},
		{
			name: "cluster_promote_node", title: "Promote a learner to voter", toolset: toolsetCluster, risk: Additive, repeatable: true,
			doc:       "Make a learner that has caught up a voter. Refused while it is behind or out of reach.",
			arguments: []argument{nodeArgument("node_id", "the learner"), dryRunArgument},
			result:    messageSchema(&adminv1.PromoteNodeResponse{}), run: promoteNode,
		},
		{
			name: "cluster_remove_node", title: "Remove a node for ever", toolset: toolsetCluster, risk: Destructive, repeatable: true,
			doc:       "Take an empty node out of the cluster and retire its id for ever. Unload it first (brokers_unload). Every blocker is named with a remedy.",
			arguments: []argument{nodeArgument("node_id", "the node"), reasonArgument},
			result:    messageSchema(&adminv1.RemoveNodeResponse{}), run: removeNode, plan: planRemoval,
		},
		{
			name: "cluster_transfer_leadership", title: "Hand the controller role over", toolset: toolsetCluster, risk: Disruptive,
			doc:       "Hand the controller role to another voter; admin calls pause for a moment.",
			arguments: []argument{{name: "node_id", kind: kindInteger, doc: "the voter that takes it; 0: any other", max: nodeIDMax, fallback: int64(0)}},
			result:    messageSchema(&adminv1.TransferLeadershipResponse{}), run: transferLeadership, plan: planTransfer,
		},
	}
}

func operationTools() []tool {
	return []tool{
		{
			name: "operations_list", title: "List operations", toolset: toolsetCluster, risk: ReadOnly, list: "operations",
			doc:       "List operations (rebalances, unloads, moves), newest first.",
			arguments: []argument{{name: "live", kind: kindBoolean, doc: "only those that have not ended", fallback: false}},
			result:    messageSchema(&adminv1.ListOperationsResponse{}), run: listOperations,
		},
		{
			name: "operations_show", title: "Show or await an operation", toolset: toolsetCluster, risk: ReadOnly, list: "operation.moves",
			doc:       "Show an operation with its moves. With max_wait_s it waits for its end, so long at most; the operation goes on whether you wait or not.",
			arguments: []argument{operationArgument, {name: "max_wait_s", kind: kindInteger, doc: "seconds to wait for its end", max: waitMax, fallback: int64(0)}},
			result:    messageSchema(&adminv1.GetOperationResponse{}), run: showOperation,
		},
		{
			name: "operations_cancel", title: "Cancel an operation", toolset: toolsetCluster, risk: Disruptive, repeatable: true,
			doc:       "Stop an operation: planned moves are dropped, copying ones are reverted, and those that have switched finish.",
			arguments: []argument{operationArgument},
			result:    messageSchema(&adminv1.CancelOperationResponse{}), run: cancelOperation, plan: planCancel,
		},
	}
}

func clusterStatus(ctx context.Context, s *Server, _ input) (*answer, error) {
	r, err := s.admin.Cluster.GetStatus(ctx, &adminv1.GetStatusRequest{})
	if err != nil {
		return nil, err
	}
	state := "which brokers are alive is unknown, as no controller answers"
	if r.GetActiveBrokers() != nil {
		state = fmt.Sprintf("%d of %d brokers active; %d offline and %d under-replicated of %d partitions",
			r.GetActiveBrokers().GetValue(), r.GetBrokers(), r.GetOfflinePartitions().GetValue(), r.GetUnderReplicatedPartitions().GetValue(), r.GetPartitions())
	}
	summary := fmt.Sprintf("Node %d answers; controller %s; %s; %s", r.GetSelfNodeId(), idOrNone(r.GetControllerId()), plural(len(r.GetVoters()), "voter", "voters"), state)
	return message(r, summary, step{"diagnose_health", map[string]any{}, "judge it"})
}

func idOrNone(id int32) string {
	if id == 0 {
		return "unknown"
	}
	return fmt.Sprint(id)
}

func clusterMembers(ctx context.Context, s *Server, _ input) (*answer, error) {
	r, err := s.admin.Cluster.ListMembers(ctx, &adminv1.ListMembersRequest{})
	if err != nil {
		return nil, err
	}
	return message(r, plural(len(r.GetMembers()), "member", "members"))
}

func clusterMoves(ctx context.Context, s *Server, in input) (*answer, error) {
	r, err := s.admin.Operations.ListMoves(ctx, &adminv1.ListMovesRequest{All: in.yes("all")})
	if err != nil {
		return nil, err
	}
	return message(r, plural(len(r.GetMoves()), "move", "moves"))
}

func addNode(ctx context.Context, s *Server, in input) (*answer, error) {
	r, err := s.admin.Cluster.AddNode(ctx, &adminv1.AddNodeRequest{NodeAddr: in.text("node_addr"), DryRun: in.yes("dry_run")})
	switch {
	case err != nil:
		return nil, err
	case r.GetDryRun():
		return message(r, "Dry run: the node can be added; nothing was changed", step{"cluster_add_node", map[string]any{"node_addr": in.text("node_addr")}, "adds it"})
	}
	summary := fmt.Sprintf("Node %d is a learner", r.GetNodeId())
	if r.GetAlready() {
		summary = fmt.Sprintf("Node %d was a member before; nothing was changed", r.GetNodeId())
	}
	return message(r, summary, step{"cluster_promote_node", map[string]any{"node_id": r.GetNodeId()}, "make it a voter when it has caught up"})
}

func promoteNode(ctx context.Context, s *Server, in input) (*answer, error) {
	id := in.id("node_id")
	r, err := s.admin.Cluster.PromoteNode(ctx, &adminv1.PromoteNodeRequest{NodeId: id, DryRun: in.yes("dry_run")})
	switch {
	case err != nil:
		return nil, err
	case r.GetDryRun():
		return message(r, fmt.Sprintf("Dry run: node %d can be promoted; nothing was changed", id), step{"cluster_promote_node", map[string]any{"node_id": id}, "promotes it"})
	}
	return message(r, fmt.Sprintf("Node %d is a voter; voters: %v", id, r.GetVoters()), step{"brokers_activate", map[string]any{"broker_id": id, "reason": "scale up"}, "let it take replicas"})
}

// removal asks whether a node can be removed now.
func (s *Server) removal(ctx context.Context, id int32) (*adminv1.RemoveNodeResponse, *failure, error) {
	r, err := s.admin.Cluster.RemoveNode(ctx, &adminv1.RemoveNodeRequest{NodeId: id, DryRun: true})
	if err != nil || r.GetSafeToRemove() {
		return r, nil, err
	}
	// Not safe without a blocker would be a riddle; it is still not safe.
	blocked := &client.Refusal{Kind: adminv1.Refusal_PRECONDITION, Reason: "UNKNOWN_HEALTH", Message: fmt.Sprintf("whether node %d can be removed is not known", id), Advice: "look at the cluster's health", Blockers: r.GetBlockers()}
	if len(r.GetBlockers()) > 0 {
		first, messages := r.GetBlockers()[0], []string{}
		for _, b := range r.GetBlockers() {
			messages = append(messages, b.GetMessage())
		}
		blocked.Reason, blocked.Advice, blocked.Message = first.GetCode(), first.GetRemedy(), fmt.Sprintf("node %d cannot be removed: %s", id, strings.Join(messages, "; "))
	}
	return r, refused(blocked, input{values: map[string]any{"node_id": int64(id)}, tool: &tool{name: "cluster_remove_node"}}), nil
}

func planRemoval(ctx context.Context, s *Server, in input) (*effect, error) {
	id := in.id("node_id")
	status, err := s.admin.Cluster.GetStatus(ctx, &adminv1.GetStatusRequest{})
	if err != nil {
		return nil, err
	}
	r, blocked, err := s.removal(ctx, id)
	if err != nil {
		return nil, err
	}
	return &effect{
		what: map[string]any{"removes": id, "voters_after": r.GetVoters(), "was_removed_before": r.GetAlready()}, revision: status.GetPlacementRevision(), blocked: blocked,
		summary: fmt.Sprintf("node %d leaves the cluster and its id is retired for ever; voters then: %v", id, r.GetVoters()),
	}, nil
}

func removeNode(ctx context.Context, s *Server, in input) (*answer, error) {
	r, err := s.admin.Cluster.RemoveNode(ctx, &adminv1.RemoveNodeRequest{NodeId: in.id("node_id"), Reason: in.text("reason"), PlacementRevision: in.revision})
	if err != nil {
		return nil, err
	}
	summary := fmt.Sprintf("Node %d is removed; voters: %v. Its process ends by itself", r.GetNodeId(), r.GetVoters())
	if r.GetAlready() {
		summary = fmt.Sprintf("Node %d was removed before; nothing was changed", r.GetNodeId())
	}
	return message(r, summary, step{"diagnose_health", map[string]any{}, "see that all is well without it"})
}

func planTransfer(ctx context.Context, s *Server, in input) (*effect, error) {
	status, err := s.admin.Cluster.GetStatus(ctx, &adminv1.GetStatusRequest{})
	if err != nil {
		return nil, err
	}
	to, isVoter := in.id("node_id"), in.id("node_id") == 0
	for _, voter := range status.GetVoters() {
		isVoter = isVoter || voter == to
	}
	e := &effect{what: map[string]any{"from": status.GetControllerId(), "to": to}, revision: status.GetPlacementRevision(), controller: status.GetControllerId()}
	target := "any other voter"
	if to != 0 {
		target = fmt.Sprintf("node %d", to)
	}
	e.summary = fmt.Sprintf("the controller role goes from node %s to %s", idOrNone(status.GetControllerId()), target)
	switch {
	case to == 0 && len(status.GetVoters()) < 2:
		e.blocked = refused(&client.Refusal{Kind: adminv1.Refusal_PRECONDITION, Reason: "LAST_VOTER", Subject: "controller role", Message: fmt.Sprintf("there is no other voter; voters: %v", status.GetVoters()), Advice: "promote another node first"}, in)
	case to != 0 && to == status.GetControllerId():
		e.summary = fmt.Sprintf("nothing: node %d is the controller", to)
	case !isVoter:
		e.blocked = refused(&client.Refusal{Kind: adminv1.Refusal_PRECONDITION, Reason: "NODE_NOT_VOTER", Subject: fmt.Sprintf("node %d", to), Message: fmt.Sprintf("node %d is no voter; voters: %v", to, status.GetVoters()), Advice: "choose a voter, or promote it first"}, in)
	}
	return e, nil
}

func transferLeadership(ctx context.Context, s *Server, in input) (*answer, error) {
	r, err := s.admin.Cluster.TransferLeadership(ctx, &adminv1.TransferLeadershipRequest{ToNodeId: in.id("node_id"), FromNodeId: in.controller})
	if err != nil {
		return nil, err
	}
	return message(r, fmt.Sprintf("The controller was node %d and is node %s", r.GetFromNodeId(), idOrNone(r.GetControllerId())))
}

func listOperations(ctx context.Context, s *Server, in input) (*answer, error) {
	r, err := s.admin.Operations.ListOperations(ctx, &adminv1.ListOperationsRequest{Live: in.yes("live")})
	if err != nil {
		return nil, err
	}
	live := 0
	for _, op := range r.GetOperations() {
		if !client.Ended(op.GetState()) {
			live++
		}
	}
	return message(r, fmt.Sprintf("%s, %d live", plural(len(r.GetOperations()), "operation", "operations"), live))
}

func showOperation(ctx context.Context, s *Server, in input) (*answer, error) {
	id := in.operation("operation_id")
	r, err := s.admin.Operations.GetOperation(ctx, &adminv1.GetOperationRequest{OperationId: id})
	if err != nil {
		return nil, err
	}
	if wait := in.number("max_wait_s"); wait > 0 && !client.Ended(r.GetOperation().GetState()) {
		waiting, cancel := context.WithTimeout(ctx, time.Duration(wait)*time.Second)
		defer cancel()
		op, err := s.admin.WaitOperation(waiting, id, nil)
		if err != nil && waiting.Err() == nil {
			return nil, err
		}
		if op != nil {
			r.Operation = op
		}
	}
	return message(r, describeOperation(r.GetOperation()), nextOfOperation(r.GetOperation())...)
}

func operationName(id uint64) string { return fmt.Sprintf("op-%d", id) }

// kindOf says what an operation does, and to what.
func kindOf(op *adminv1.Operation) string {
	return strings.TrimSpace(op.GetKind().String() + " " + op.GetSubject())
}

func describeOperation(op *adminv1.Operation) string {
	text := fmt.Sprintf("%s (%s) is %s: %d of %s done", operationName(op.GetOperationId()), kindOf(op), op.GetState(), op.GetMovesDone(), plural(int(op.GetMovesTotal()), "move", "moves"))
	if op.GetReason() != "" {
		text += fmt.Sprintf("; %s: %s", op.GetReason(), op.GetMessage())
	}
	return text
}

func nextOfOperation(op *adminv1.Operation) []step {
	if op == nil || client.Ended(op.GetState()) {
		return nil
	}
	return []step{{"operations_show", map[string]any{"operation_id": operationName(op.GetOperationId()), "max_wait_s": waitMax}, "wait for its end"}}
}

// planCancel is bound to the operation, not to the placement, which its moves
// change all the time.
func planCancel(ctx context.Context, s *Server, in input) (*effect, error) {
	r, err := s.admin.Operations.CancelOperation(ctx, &adminv1.CancelOperationRequest{OperationId: in.operation("operation_id"), DryRun: true})
	if err != nil {
		return nil, err
	}
	op := r.GetOperation()
	return &effect{
		what: map[string]any{"cancels": operationName(op.GetOperationId()), "kind": op.GetKind().String(), "subject": op.GetSubject()},
		note: map[string]any{"state": op.GetState().String(), "moves_done": op.GetMovesDone(), "moves_total": op.GetMovesTotal()}, revision: op.GetRevision(),
		summary: fmt.Sprintf("%s (%s) stops with %d of %d moves done", operationName(op.GetOperationId()), kindOf(op), op.GetMovesDone(), op.GetMovesTotal()),
	}, nil
}

func cancelOperation(ctx context.Context, s *Server, in input) (*answer, error) {
	r, err := s.admin.Operations.CancelOperation(ctx, &adminv1.CancelOperationRequest{OperationId: in.operation("operation_id")})
	if err != nil {
		return nil, err
	}
	return message(r, describeOperation(r.GetOperation()), nextOfOperation(r.GetOperation())...)
}
