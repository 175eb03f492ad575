package cli

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/ister-mq/ister/admin/adminv1"
)

// started is what rebalance, unload and move have in common.
type started struct {
	what      string // "rebalance", "unload of broker 4"
	plan      *adminv1.Plan
	operation *adminv1.Operation
	attached  bool
	dryRun    bool
	waited    bool
}

// print writes a plan and what became of it.
func (s started) print(w io.Writer) {
	if s.attached {
		fmt.Fprintf(w, "Attached to %s, which was already running.\n", operationName(s.operation.GetOperationId()))
	}
	if moves := s.plan.GetMoves(); len(moves) > 0 && !s.attached {
		printMoves(w, moves, false)
		fmt.Fprintf(w, "Plan: %s.\n", planSummary(s.plan))
	}
	if before, after := s.plan.GetBefore().GetCoefficientOfVariation(), s.plan.GetAfter().GetCoefficientOfVariation(); before != nil && after != nil && !s.attached && len(s.plan.GetMoves()) > 0 {
		fmt.Fprintf(w, "Leaders per broker, coefficient of variation: %.4f now, %.4f after.\n", before.GetValue(), after.GetValue())
	}
	if !s.attached {
		printFindings(w, s.plan.GetFindings())
	}
	switch {
	case s.dryRun && len(s.plan.GetMoves()) == 0:
		fmt.Fprintf(w, "Dry run of %s: there is nothing to do.\n", s.what)
	case s.dryRun:
		fmt.Fprintf(w, "Dry run of %s: nothing was changed.\n", s.what)
		if revision := s.plan.GetPlacementRevision(); revision != 0 {
			fmt.Fprintf(w, "To do it only while the placement is as it is now, add --placement-revision %d.\n", revision)
		}
	case s.operation == nil:
		fmt.Fprintf(w, "There was nothing to do for %s.\n", s.what)
	case s.waited:
		op := s.operation
		fmt.Fprintf(w, "%s (%s) %s: %d of %d moves done.\n", operationName(op.GetOperationId()), s.what, lower(op.GetState()), op.GetMovesDone(), op.GetMovesTotal())
	case !s.attached:
		name := operationName(s.operation.GetOperationId())
		fmt.Fprintf(w, "Started %s (%s). Watch it with `cluster operations show %s` or --wait.\n", name, s.what, name)
	}
}

func planSummary(p *adminv1.Plan) string {
	words := []string{plural(len(p.GetMoves()), "partition", "partitions")}
	if n := p.GetReplicaMoves(); n > 0 {
		words = append(words, plural(int(n), "replica to copy", "replicas to copy"))
	}
	if n := p.GetLeaderMoves(); n > 0 {
		words = append(words, plural(int(n), "leader change", "leader changes"))
	}
	if p.GetBytesMoved() > 0 {
		words = append(words, "about "+size(p.GetBytesMoved()))
	}
	return strings.Join(words, ", ")
}

// printMoves prints moves, with their progress when withState is set.
func printMoves(w io.Writer, moves []*adminv1.Move, withState bool) {
	header := []string{"TOPIC", "PARTITION", "FROM", "TO", "LEADER"}
	if withState {
		header = append(header, "STATE", "COPIED")
	} else {
		header = append(header, "KIND")
	}
	t := newTable(header...)
	for _, m := range moves {
		leader := "keep"
		if m.GetLeader() != 0 {
			leader = number(m.GetLeader())
		}
		row := []string{m.GetTopic(), number(m.GetPartition()), set(m.GetFrom()), set(m.GetTo()), leader}
		if withState {
			state := lower(m.GetState())
			if m.GetReason() != "" {
				state += " " + m.GetReason()
			}
			copied := "-"
			if m.GetBytesTotal() > 0 {
				copied = size(m.GetBytesDone()) + " of " + size(m.GetBytesTotal())
			}
			row = append(row, state, copied)
		} else if m.GetReplicasChange() {
			row = append(row, "replicas")
		} else {
			row = append(row, "leader")
		}
		t.row(row...)
	}
	t.print(w)
}

// findingsAlike is how many findings of one code are printed one by one.
const findingsAlike = 3

func printFindings(w io.Writer, findings []*adminv1.Finding) {
	seen := make(map[string]int)
	for _, f := range findings {
		if seen[f.GetCode()]++; seen[f.GetCode()] > findingsAlike {
			continue
		}
		fmt.Fprintf(w, "%s [%s] %s: %s", capital(lower(f.GetSeverity())), f.GetCode(), f.GetObject(), f.GetMessage())
		if f.GetRemedy() != "" {
			fmt.Fprintf(w, "; %s", f.GetRemedy())
		}
		fmt.Fprintln(w)
	}
	for _, code := range slices.Sorted(maps.Keys(seen)) {
		if more := seen[code] - findingsAlike; more > 0 {
			fmt.Fprintf(w, "... and %d more [%s]; --output json has all.\n", more, code)
		}
	}
}

func capital(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

func printOperation(w io.Writer, op *adminv1.Operation) {
	var f fields
	f.add("Operation", operationName(op.GetOperationId()))
	f.add("Kind", lower(op.GetKind()))
	f.add("State", lower(op.GetState()))
	f.add("Subject", orDash(op.GetSubject()))
	f.add("Actor", orDash(op.GetActor()))
	if op.GetReason() != "" {
		f.add("Reason", op.GetReason())
	}
	if op.GetMessage() != "" {
		f.add("Message", op.GetMessage())
	}
	f.add("Started", moment(op.GetStartedAt()))
	f.add("Updated", moment(op.GetUpdatedAt()))
	f.add("Ended", moment(op.GetEndedAt()))
	f.add("Moves", fmt.Sprintf("%d of %d done, %d failed", op.GetMovesDone(), op.GetMovesTotal(), op.GetMovesFailed()))
	if op.GetBytesTotal() > 0 {
		f.add("Copied", size(op.GetBytesDone())+" of "+size(op.GetBytesTotal()))
	}
	f.print(w)
	if len(op.GetMoves()) > 0 {
		fmt.Fprintln(w)
		printMoves(w, op.GetMoves(), true)
	}
}

func printOperations(w io.Writer, operations []*adminv1.Operation) {
	if len(operations) == 0 {
		fmt.Fprintln(w, "There are no operations.")
		return
	}
	t := newTable("OPERATION", "KIND", "SUBJECT", "STATE", "MOVES", "STARTED", "ACTOR")
	for _, op := range operations {
		state := lower(op.GetState())
		if op.GetReason() != "" && !slices.Contains([]adminv1.Operation_State{adminv1.Operation_SUCCEEDED, adminv1.Operation_CANCELLED}, op.GetState()) {
			state += " " + op.GetReason()
		}
		t.row(operationName(op.GetOperationId()), lower(op.GetKind()), orDash(op.GetSubject()), state,
			fmt.Sprintf("%d/%d", op.GetMovesDone(), op.GetMovesTotal()), moment(op.GetStartedAt()), orDash(op.GetActor()))
	}
	t.print(w)
}

func printCertificate(w io.Writer, c *adminv1.DrainCertificate) {
	fmt.Fprintf(w, "Drain certificate of broker %d, at revision %d\n", c.GetBrokerId(), c.GetRevision())
	var f fields
	f.add("  State", lower(c.GetState()))
	f.add("  Leaders", number(c.GetLeaders()))
	f.add("  Replicas", number(c.GetReplicas()))
	f.add("  Moves", number(c.GetMoves()))
	f.add("  Retiring", number(c.GetRetiring()))
	switch {
	case c.GetEmpty():
		f.add("  Drained", "yes, and empty: it can be removed")
	case c.GetDrained():
		f.add("  Drained", fmt.Sprintf("yes, but it keeps %s without another home: not to be removed", plural(int(c.GetReplicas()), "replica", "replicas")))
	default:
		f.add("  Drained", "no")
	}
	f.print(w)
}

func printBalance(w io.Writer, b *adminv1.Balance) {
	var f fields
	f.add("Coefficient of variation, leaders", variation(b.GetCoefficientOfVariation()))
	f.add("Coefficient of variation, replicas", variation(b.GetReplicasCoefficientOfVariation()))
	f.add("Active brokers", number(b.GetBrokerCount()))
	f.add("Leaders", number(b.GetLeaders()))
	f.add("Replicas", number(b.GetReplicas()))
	f.print(w)
	if len(b.GetBrokers()) == 0 {
		return
	}
	fmt.Fprintln(w)
	t := newTable("BROKER", "LEADERS", "REPLICAS", "BYTES", "FENCED")
	for _, l := range b.GetBrokers() {
		t.row(number(l.GetBrokerId()), number(l.GetLeaders()), number(l.GetReplicas()), knownSize(l.GetBytes()), yesNo(l.GetFenced()))
	}
	t.print(w)
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
