package operation

import (
	"fmt"
	"strings"
	"time"

	"github.com/ister-mq/ister/broker/internal/metadata"
	"github.com/ister-mq/ister/broker/internal/model"
	"github.com/ister-mq/ister/broker/internal/placement"
	"github.com/ister-mq/ister/broker/internal/refusal"
)

const (
	// promoteLagMax is how many metadata entries a learner may be behind the
	// commit index and still count as caught up.
	promoteLagMax = 100
	// contactAgeMax is how old the latest answer of a member may be.
	contactAgeMax = 5 * time.Second
	// safeVoters is the smallest quorum that survives the loss of a member.
	safeVoters = 3
	// namedTopics bounds how many topics a blocker names.
	namedTopics = 3
)

// quorum is the number of voters that a set of n needs to commit.
func quorum(n int) int { return n/2 + 1 }

// list collects findings.
type list struct{ findings []Finding }

func (l *list) add(s placement.Severity, code refusal.Reason, object, message, remedy string) {
	l.findings = append(l.findings, Finding{Code: code, Severity: s, Object: object, Message: message, Remedy: remedy})
}

func (l *list) block(code refusal.Reason, object, message, remedy string) {
	l.add(placement.SeverityError, code, object, message, remedy)
}

// SafeToRemove judges whether node can leave the quorum and the cluster now, and
// names every blocker. It is fail-closed: a voter whose liveness is unknown, a
// missing view of the quorum or a pending change makes it unsafe.
//
// A node that the quorum no longer has (a removal that was cut short) is judged
// by what it holds alone, so that repeating the removal completes it.
func SafeToRemove(im *metadata.Image, node model.NodeID, q QuorumView) (bool, []Blocker) {
	l := &list{}
	if !l.knowNode(im, node) {
		return false, l.findings
	}
	l.removeHoldings(im, node)
	l.removeDesired(im, node)
	if l.knowQuorum(q) {
		l.removeVoter(node, q)
	}
	return len(l.findings) == 0, l.findings
}

func nodeObject(id model.NodeID) string { return "node " + id.String() }

func (l *list) knowNode(im *metadata.Image, node model.NodeID) bool {
	switch {
	case im.Nodes[node] != nil:
		return true
	case im.Tombstones[node] != nil:
		l.block(refusal.NodeRemoved, nodeObject(node), fmt.Sprintf("node %d was removed already", node), "nothing is left to do")
	default:
		l.block(refusal.NodeNotFound, nodeObject(node), fmt.Sprintf("node %d is not a member", node), "see `cluster members`")
	}
	return false
}

// removeHoldings blocks on what the node holds, leads, moves or gives up.
func (l *list) removeHoldings(im *metadata.Image, node model.NodeID) {
	object := nodeObject(node)
	unload := fmt.Sprintf("run `brokers unload --broker-id %d --wait` first", node)
	c := CertificateOf(im, node)
	if c.Replicas > 0 {
		l.block(refusal.NodeHoldsReplicas, object, fmt.Sprintf("node %d holds %s of %s", node, count(c.Replicas, "replica"), heldTopics(im, node)), unload)
	}
	if c.Leaders > 0 {
		l.block(refusal.NodeHoldsLeaders, object, fmt.Sprintf("node %d leads %s", node, count(c.Leaders, "partition")), unload)
	}
	for _, o := range im.LiveOperations() {
		for _, m := range o.Moves {
			if !m.State.Done() && (model.HasNode(m.From, node) || model.HasNode(m.To, node)) {
				l.block(refusal.NodeHasMoves, o.ID.String(), fmt.Sprintf("node %d takes part in moves of %s (%s)", node, o.ID, o.Kind),
					fmt.Sprintf("wait for it, or `cluster operations cancel %s`", o.ID))
				break
			}
		}
		if o.Kind == metadata.OpUnload && o.Node == node {
			l.block(refusal.NodeNotDrained, o.ID.String(), fmt.Sprintf("the unload %s of node %d has not finished", o.ID, node), "wait for it")
		}
	}
	if c.Retiring > 0 && im.Unfenced(node) {
		l.block(refusal.NodeHoldsReplicas, object, fmt.Sprintf("node %d has not confirmed to have given up %s", node, countCopies(c.Retiring)), "wait a moment and repeat")
	}
}

// removeDesired blocks when a topic wants more replicas than the nodes left can
// hold although the nodes of today could.
func (l *list) removeDesired(im *metadata.Image, node model.NodeID) {
	left, today := 0, 0
	for _, n := range im.Nodes {
		holds := n.State == metadata.NodeActive || n.State == metadata.NodeCordoned
		if n.ID == node {
			if n.State != metadata.NodeJoining {
				today++
			}
		} else if holds && !n.Fenced {
			left, today = left+1, today+1
		}
	}
	for _, t := range im.SortedTopics() {
		if t.DesiredReplicas > left && t.DesiredReplicas <= today {
			l.block(refusal.InvalidReplicas, "topic "+t.Name.String(),
				fmt.Sprintf("topic %s wants %s and %s would be left that can hold them", t.Name, count(t.DesiredReplicas, "replica"), count(left, "node")),
				"add or activate a node first, or bring back a fenced one")
		}
	}
}

// heldTopics names the topics with a replica on node, a few of them.
func heldTopics(im *metadata.Image, node model.NodeID) string {
	var names []string
	for _, t := range im.SortedTopics() {
		for _, p := range t.Partitions {
			if model.HasNode(p.Replicas, node) {
				names = append(names, t.Name.String())
				break
			}
		}
	}
	if more := len(names) - namedTopics; more > 0 {
		return strings.Join(names[:namedTopics], ", ") + fmt.Sprintf(" and %d more", more)
	}
	return strings.Join(names, ", ")
}

// knowQuorum blocks on everything about the quorum that is unknown. It reports
// whether there is a view to judge by.
func (l *list) knowQuorum(q QuorumView) bool {
	if len(q.Voters) == 0 {
		l.block(refusal.UnknownHealth, "quorum", "the voters of the metadata quorum are unknown", "ask again when a controller is elected")
		return false
	}
	if q.Controller == model.NoNode {
		l.block(refusal.NoController, "quorum", "no controller is known", "wait until one is elected")
	}
	if q.Pending {
		l.block(refusal.MembershipPending, "quorum", "a membership change is not committed yet", "wait for it and repeat")
	}
	return true
}

// knowVoters blocks on voters of unknown liveness, except the one that leaves,
// and counts the live ones among the rest.
func (l *list) knowVoters(q QuorumView, except model.NodeID) (live, total int) {
	for _, m := range q.Voters {
		if m.Node == except {
			continue
		}
		total++
		switch {
		case !m.Known:
			l.block(refusal.UnknownHealth, nodeObject(m.Node), fmt.Sprintf("whether voter %d is alive is unknown", m.Node), "wait for its report")
		case m.alive():
			live++
		}
	}
	return live, total
}

func (m Member) alive() bool { return m.Known && m.Alive && m.LastContact <= contactAgeMax }

func find(members []Member, node model.NodeID) (Member, bool) {
	for _, m := range members {
		if m.Node == node {
			return m, true
		}
	}
	return Member{}, false
}

// removeVoter blocks when the voters left could not commit: the live ones among
// them must be a quorum of them. With fewer than three left this means all of
// them.
func (l *list) removeVoter(node model.NodeID, q QuorumView) {
	if _, voter := find(q.Voters, node); !voter {
		l.knowVoters(q, model.NoNode)
		return
	}
	live, left := l.knowVoters(q, node)
	switch {
	case left == 0:
		l.block(refusal.LastVoter, nodeObject(node), fmt.Sprintf("node %d is the last voter", node), "promote another node first")
	case left < q.MinVoters:
		l.block(refusal.QuorumAtRisk, "quorum", fmt.Sprintf("%s would be left, the floor is %d", count(left, "voter"), q.MinVoters), "promote another node first, or lower the floor")
	case live < quorum(left):
		l.block(refusal.QuorumAtRisk, "quorum",
			fmt.Sprintf("%d of the %s left would be alive, %d are needed to commit", live, count(left, "voter"), quorum(left)),
			"bring back the voters that do not answer, or promote another node first")
	}
}

// SafeToPromote judges whether a learner can become a voter now. The live voters
// with the new one must be a quorum of the grown set, since it counts from the
// moment it is added; and it must answer the controller and be caught up.
// Promoting a voter again is safe: there is nothing to do.
func SafeToPromote(im *metadata.Image, node model.NodeID, q QuorumView) (bool, []Blocker) {
	l := &list{}
	if !l.knowNode(im, node) {
		return false, l.findings
	}
	if im.Nodes[node].State == metadata.NodeLeaving {
		l.block(refusal.NodeStateConflict, nodeObject(node), fmt.Sprintf("node %d is leaving", node), "let the removal finish; then join as a new node")
	}
	if !l.knowQuorum(q) {
		return false, l.findings
	}
	if _, voter := find(q.Voters, node); voter && len(l.findings) == 0 {
		return true, nil
	}
	l.learner(node, q)
	live, total := l.knowVoters(q, node)
	if live+1 < quorum(total+1) {
		l.block(refusal.QuorumAtRisk, "quorum",
			fmt.Sprintf("%d of %d voters are alive; with node %d the quorum would be %d of %d", live, total, node, quorum(total+1), total+1),
			"bring back the voters that do not answer, or remove them, first")
	}
	return len(l.findings) == 0, l.findings
}

func (l *list) learner(node model.NodeID, q QuorumView) {
	object := nodeObject(node)
	m, ok := find(q.Learners, node)
	switch {
	case !ok:
		l.block(refusal.NodeStateConflict, object, fmt.Sprintf("node %d is not a learner of the quorum", node), "run `cluster add-node` first")
	case !m.Known:
		l.block(refusal.UnknownHealth, object, fmt.Sprintf("whether node %d answers is unknown", node), "wait for its report")
	case !m.alive():
		l.block(refusal.NodeUnreachable, object, fmt.Sprintf("node %d does not answer the controller", node), "check that it runs and that its --raft-addr can be reached from the controller")
	case m.AppliedLag > promoteLagMax:
		l.block(refusal.NodeNotCaughtUp, object, fmt.Sprintf("node %d is %d metadata entries behind, at most %d are allowed", node, m.AppliedLag, promoteLagMax), "wait until it has caught up")
	}
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func countCopies(n int) string {
	if n == 1 {
		return "1 copy"
	}
	return fmt.Sprintf("%d copies", n)
}
