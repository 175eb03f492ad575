package mcp

import (
	"context"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/ister-mq/ister/admin/adminv1"
)

func brokerTools() []tool {
	broker := nodeArgument("broker_id", "node id of the broker")
	return []tool{
		{
			name: "brokers_list", title: "List brokers", toolset: toolsetBrokers, risk: ReadOnly, list: "brokers",
			doc:    "List the brokers with state, role, leaders, replicas, bytes (null: unknown) and addresses.",
			result: messageSchema(&adminv1.ListBrokersResponse{}), run: listBrokers,
		},
		{
			name: "brokers_balance", title: "Balance of the brokers", toolset: toolsetBrokers, risk: ReadOnly, list: "balance.brokers",
			doc:    "How evenly leaders, replicas and bytes are spread: coefficient of variation (null: it has no value) and the figures of each broker.",
			result: messageSchema(&adminv1.GetBalanceResponse{}), run: showBalance,
		},
		{
			name: "brokers_certificate", title: "Drain certificate", toolset: toolsetBrokers, risk: ReadOnly,
			doc:       "What a broker still holds: leaders, replicas, moves. Empty is what a removal needs.",
			arguments: []argument{broker},
			result:    messageSchema(&adminv1.GetDrainCertificateResponse{}), run: showCertificate,
		},
		{
			name: "brokers_rebalance", title: "Rebalance", toolset: toolsetBrokers, risk: Disruptive, repeatable: true, list: "operation.moves",
			doc:       "Spread leaders and replicas evenly over the active brokers, as an operation. While one runs it attaches to it.",
			arguments: []argument{{name: "max_moves", kind: kindInteger, doc: "moves at most; 0: no bound", max: 1 << 20, fallback: int64(0)}},
			result:    messageSchema(&adminv1.RebalanceResponse{}), run: rebalance, plan: planRebalance,
		},
		{
			name: "brokers_unload", title: "Unload (drain) a broker", toolset: toolsetBrokers, risk: Disruptive, repeatable: true, list: "operation.moves",
			doc:       "Drain a broker: it takes no new replicas, and its leaders and replicas move away. Reversible with brokers_activate.",
			arguments: []argument{broker},
			result:    messageSchema(&adminv1.UnloadResponse{}), run: unload, plan: planUnload,
		},
		{
			name: "brokers_activate", title: "Activate a broker", toolset: toolsetBrokers, risk: Additive, repeatable: true,
			doc:       "Let a broker take replicas and leaderships: after it joined, or to take an unload back. Moves nothing by itself.",
			arguments: []argument{broker, reasonArgument, dryRunArgument},
			result:    messageSchema(&adminv1.ActivateResponse{}), run: activate,
		},
		{
			name: "brokers_cordon", title: "Cordon a broker", toolset: toolsetBrokers, risk: Additive, repeatable: true,
			doc:       "Keep new replicas off a broker; it keeps what it has. Reversible with brokers_uncordon.",
			arguments: []argument{broker, reasonArgument, dryRunArgument},
			result:    messageSchema(&adminv1.CordonResponse{}), run: cordon,
		},
		{
			name: "brokers_uncordon", title: "Take a cordon back", toolset: toolsetBrokers, risk: Additive, repeatable: true,
			doc:       "Let a cordoned broker take new replicas again.",
			arguments: []argument{broker, reasonArgument, dryRunArgument},
			result:    messageSchema(&adminv1.UncordonResponse{}), run: uncordon,
		},
	}
}

func listBrokers(ctx context.Context, s *Server, _ input) (*answer, error) {
	r, err := s.admin.Brokers.ListBrokers(ctx, &adminv1.ListBrokersRequest{})
	if err != nil {
		return nil, err
	}
	active, fenced := 0, 0
	for _, b := range r.GetBrokers() {
		if b.GetState() == adminv1.Node_ACTIVE {
			active++
		}
		if b.GetFenced() {
			fenced++
		}
	}
	return message(r, fmt.Sprintf("%s, %d active, %d fenced", plural(len(r.GetBrokers()), "broker", "brokers"), active, fenced))
}

func variation(b *adminv1.Balance) string {
	if b.GetCoefficientOfVariation() == nil {
		return "none (nothing is placed, or no broker is active)"
	}
	return fmt.Sprintf("%.4f", b.GetCoefficientOfVariation().GetValue())
}

func showBalance(ctx context.Context, s *Server, _ input) (*answer, error) {
	r, err := s.admin.Brokers.GetBalance(ctx, &adminv1.GetBalanceRequest{})
	if err != nil {
		return nil, err
	}
	leaders := []int32{}
	for _, l := range r.GetBalance().GetBrokers() {
		leaders = append(leaders, l.GetLeaders())
	}
	return message(r, fmt.Sprintf("Coefficient of variation of leaders: %s; leaders %v", variation(r.GetBalance()), leaders), step{"brokers_rebalance", map[string]any{}, "shows the plan that would even it out"})
}

func showCertificate(ctx context.Context, s *Server, in input) (*answer, error) {
	r, err := s.admin.Brokers.GetDrainCertificate(ctx, &adminv1.GetDrainCertificateRequest{BrokerId: in.id("broker_id")})
	if err != nil {
		return nil, err
	}
	return message(r, describeCertificate(r.GetCertificate()))
}

func describeCertificate(c *adminv1.DrainCertificate) string {
	text := fmt.Sprintf("Broker %d is %s and holds %d leaders, %d replicas, %d moves", c.GetBrokerId(), c.GetState(), c.GetLeaders(), c.GetReplicas(), c.GetMoves())
	if c.GetEmpty() {
		return text + ": empty, it can be removed"
	}
	return text + ": not empty"
}

// planOf shows the plan of an operation. The moves are the effect; estimates
// and findings may change from call to call.
func planOf(p *adminv1.Plan, what string, subject map[string]any) *effect {
	moves := []map[string]any{}
	for _, m := range p.GetMoves() {
		moves = append(moves, map[string]any{"topic": m.GetTopic(), "partition": m.GetPartition(), "from": m.GetFrom(), "to": m.GetTo(), "leader": m.GetLeader()})
	}
	subject["moves"] = moves
	return &effect{
		what: subject, revision: p.GetPlacementRevision(),
		note:    map[string]any{"bytes_moved": fmt.Sprint(p.GetBytesMoved()), "variation_before": variation(p.GetBefore()), "variation_after": variation(p.GetAfter()), "findings": blockers(p.GetFindings())},
		summary: fmt.Sprintf("%s: %s, %s, about %d bytes", what, plural(int(p.GetReplicaMoves()), "replica gets a new home", "replicas get a new home"), plural(int(p.GetLeaderMoves()), "partition another leader", "partitions another leader"), p.GetBytesMoved()),
	}
}

// started answers for a call that began an operation. The plan itself was shown
// before, and the operation has its moves.
func started(m proto.Message, what string, op *adminv1.Operation, attached bool) (*answer, error) {
	summary := what + ": there is nothing to do"
	if op != nil {
		summary = what + ": " + describeOperation(op)
	}
	if attached {
		summary += " (it was running already)"
	}
	return message(m, summary, nextOfOperation(op)...)
}

func planRebalance(ctx context.Context, s *Server, in input) (*effect, error) {
	r, err := s.admin.Brokers.Rebalance(ctx, &adminv1.RebalanceRequest{DryRun: true, MaxMoves: in.id("max_moves")})
	if err != nil {
		return nil, err
	}
	return planOf(r.GetPlan(), "rebalance", map[string]any{}), nil
}

func rebalance(ctx context.Context, s *Server, in input) (*answer, error) {
	r, err := s.admin.Brokers.Rebalance(ctx, &adminv1.RebalanceRequest{MaxMoves: in.id("max_moves"), PlacementRevision: in.revision})
	if err != nil {
		return nil, err
	}
	r.Plan.Moves = nil
	return started(r, "Rebalance", r.GetOperation(), r.GetAttached())
}

func planUnload(ctx context.Context, s *Server, in input) (*effect, error) {
	id := in.id("broker_id")
	r, err := s.admin.Brokers.Unload(ctx, &adminv1.UnloadRequest{BrokerId: id, DryRun: true})
	if err != nil {
		return nil, err
	}
	return planOf(r.GetPlan(), fmt.Sprintf("unload of broker %d", id), map[string]any{"unloads": id}), nil
}

func unload(ctx context.Context, s *Server, in input) (*answer, error) {
	r, err := s.admin.Brokers.Unload(ctx, &adminv1.UnloadRequest{BrokerId: in.id("broker_id"), PlacementRevision: in.revision})
	if err != nil {
		return nil, err
	}
	if r.Plan != nil {
		r.Plan.Moves = nil
	}
	a, err := started(r, fmt.Sprintf("Unload of broker %d", in.id("broker_id")), r.GetOperation(), r.GetAttached())
	if err == nil && r.GetOperation() == nil {
		a.next = []step{{"brokers_certificate", map[string]any{"broker_id": in.id("broker_id")}, "see that it is empty"}}
	}
	return a, err
}

// changed answers for a change of one broker's state.
func changed(m proto.Message, b *adminv1.Broker, already, dryRun bool, next ...step) (*answer, error) {
	summary := fmt.Sprintf("Broker %d is %s", b.GetBrokerId(), b.GetState())
	if already {
		summary += " already; nothing was changed"
	}
	if dryRun {
		summary = "Dry run, nothing was changed: broker " + fmt.Sprint(b.GetBrokerId()) + " would be changed"
	}
	return message(m, summary, next...)
}

func activate(ctx context.Context, s *Server, in input) (*answer, error) {
	r, err := s.admin.Brokers.Activate(ctx, &adminv1.ActivateRequest{BrokerId: in.id("broker_id"), Reason: in.text("reason"), DryRun: in.yes("dry_run")})
	if err != nil {
		return nil, err
	}
	return changed(r, r.GetBroker(), r.GetAlready(), r.GetDryRun(), step{"brokers_rebalance", map[string]any{}, "shows the plan that gives it its share"})
}

func cordon(ctx context.Context, s *Server, in input) (*answer, error) {
	r, err := s.admin.Brokers.Cordon(ctx, &adminv1.CordonRequest{BrokerId: in.id("broker_id"), Reason: in.text("reason"), DryRun: in.yes("dry_run")})
	if err != nil {
		return nil, err
	}
	return changed(r, r.GetBroker(), r.GetAlready(), r.GetDryRun())
}

func uncordon(ctx context.Context, s *Server, in input) (*answer, error) {
	r, err := s.admin.Brokers.Uncordon(ctx, &adminv1.UncordonRequest{BrokerId: in.id("broker_id"), Reason: in.text("reason"), DryRun: in.yes("dry_run")})
	if err != nil {
		return nil, err
	}
	return changed(r, r.GetBroker(), r.GetAlready(), r.GetDryRun())
}
