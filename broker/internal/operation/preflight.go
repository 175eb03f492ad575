package operation

import (
	"fmt"
	"slices"

	"github.com/ister-mq/ister/broker/internal/metadata"
	"github.com/ister-mq/ister/broker/internal/model"
	"github.com/ister-mq/ister/broker/internal/placement"
	"github.com/ister-mq/ister/broker/internal/refusal"
)

// Preflight judges a request by the code of the run itself. The plan is the one
// that would run on this world; it is empty for a promotion, and for a removal it
// is the unload that the node would need first. Findings hold those of the plan.
// Nothing with an error among them should be started, unless the caller skips
// that code on purpose.
func Preflight(w placement.World, q QuorumView, req Request) (placement.Plan, []Finding) {
	l := &list{}
	var plan placement.Plan
	switch req.Kind {
	case metadata.OpRebalance:
		plan = l.planned(placement.Rebalance(w, placement.Options{MaxMoves: req.MaxMoves}))
	case metadata.OpHeal:
		plan = l.planned(placement.Heal(w))
	case metadata.OpMoveTopic:
		plan = l.planned(placement.MoveTopic(w, req.Topic, req.To, req.Replicas))
	case metadata.OpUnload:
		plan = l.planned(placement.Unload(w, req.Node))
		l.unload(w.Image, req.Node, q)
	case metadata.OpRemoveNode:
		plan = l.remove(w, q, req.Node)
	case metadata.OpPromote:
		_, blockers := SafeToPromote(w.Image, req.Node, q)
		l.findings = append(l.findings, blockers...)
		l.evenVoters(q, req.Node)
	default:
		l.block(refusal.InvalidArgument, "kind", fmt.Sprintf("operations of kind %q have no preflight", req.Kind), "")
	}
	l.busy(w.Image, plan)
	slices.SortStableFunc(l.findings, func(a, b Finding) int { return rank(a.Severity) - rank(b.Severity) })
	return plan, l.findings
}

// planned takes over a plan's findings; a refused plan is a finding itself.
func (l *list) planned(p placement.Plan, err error) placement.Plan {
	if r := refusal.As(err); r != nil {
		l.block(r.Reason, r.Subject, r.Message, r.Advice)
	} else if err != nil {
		l.block(refusal.InternalInconsistency, "plan", err.Error(), "report this")
	}
	l.findings = append(l.findings, p.Findings...)
	return p
}

func (l *list) unload(im *metadata.Image, node model.NodeID, q QuorumView) {
	n := im.Nodes[node]
	if n == nil {
		return // the plan's refusal says so
	}
	if n.State == metadata.NodeLeaving || n.State == metadata.NodeJoining {
		l.block(refusal.NodeStateConflict, nodeObject(node), fmt.Sprintf("node %d is %s and cannot be unloaded", node, n.State), "activate it first, or remove it as it is")
	}
	for _, o := range im.LiveOperations() {
		if o.Kind == metadata.OpUnload && o.Node == node {
			l.add(placement.SeverityInfo, refusal.OperationConflict, o.ID.String(), fmt.Sprintf("node %d is being unloaded by %s; the request joins it", node, o.ID), "")
		}
	}
	if q.Controller == node {
		l.add(placement.SeverityInfo, refusal.NotController, nodeObject(node), fmt.Sprintf("node %d is the controller and stays so while it is unloaded", node), "run `cluster transfer-leadership` to move that too")
	}
}

// remove judges a removal. A node that still holds something gets the findings
// of the unload that has to come first, so that a topic without another home is
// named before anything starts.
func (l *list) remove(w placement.World, q QuorumView, node model.NodeID) placement.Plan {
	_, blockers := SafeToRemove(w.Image, node, q)
	l.findings = append(l.findings, blockers...)
	if _, voter := find(q.Voters, node); voter && len(q.Voters)-1 < safeVoters && len(q.Voters) > 1 {
		l.add(placement.SeverityWarning, refusal.QuorumAtRisk, "quorum",
			fmt.Sprintf("%s will be left: the loss of one of them stops every change of metadata", count(len(q.Voters)-1, "voter")), "keep 3 voters or more")
	}
	if w.Image.Nodes[node] == nil || CertificateOf(w.Image, node).Empty {
		return placement.Plan{}
	}
	before := len(l.findings)
	plan := l.planned(placement.Unload(w, node))
	for i := range l.findings[before:] { // what stays blocks a removal
		if f := &l.findings[before+i]; f.Severity == placement.SeverityWarning && f.Code == refusal.NoPlacement {
			f.Severity = placement.SeverityError
		}
	}
	return plan
}

// evenVoters warns when a promotion ends with an even number of voters.
func (l *list) evenVoters(q QuorumView, node model.NodeID) {
	if _, voter := find(q.Voters, node); !voter && len(q.Voters) > 0 && len(q.Voters)%2 == 1 {
		l.add(placement.SeverityInfo, refusal.QuorumAtRisk, "quorum",
			fmt.Sprintf("%d voters survive no more losses than %d", len(q.Voters)+1, len(q.Voters)), "promote one more when there is one")
	}
}

// busy names the operations under way whose partitions the plan left out.
func (l *list) busy(im *metadata.Image, plan placement.Plan) {
	if plan.Kind != metadata.OpRebalance && plan.Kind != metadata.OpHeal {
		return
	}
	for _, o := range im.LiveOperations() {
		if slices.ContainsFunc(o.Moves, func(m *metadata.Move) bool { return !m.State.Done() }) {
			l.add(placement.SeverityInfo, refusal.OperationConflict, o.ID.String(),
				fmt.Sprintf("%s (%s) is under way; its moves count as done", o.ID, o.Kind), "")
		}
	}
}

func rank(s placement.Severity) int {
	return slices.Index([]placement.Severity{placement.SeverityError, placement.SeverityWarning, placement.SeverityInfo}, s)
}
