package run

import (
	"fmt"
	"path/filepath"
	"time"

	"github.com/ister-mq/ister/scenarios/internal/report"
	"github.com/ister-mq/ister/scenarios/internal/spec"
)

// judge evaluates the guards and criteria of an aspect with what is known now.
func (e *engine) judge(a *spec.Aspect) {
	for _, c := range a.Guards {
		e.record.Guards = append(e.record.Guards, e.check(a, c, true))
	}
	for _, c := range a.Criteria {
		e.record.Criteria = append(e.record.Criteria, e.check(a, c, false))
	}
}

func (e *engine) check(a *spec.Aspect, c *spec.Check, guard bool) report.Check {
	out := report.Check{
		Aspect: a.ID, ID: c.ID, Title: c.Title, Guard: guard, Metric: c.Metric.String(), Op: c.Op, Status: report.NotEvaluated, Observed: "no value",
		Expected: c.Value.String(), Evidence: filepath.Join(e.dir, "events.ndjson"), AtMS: time.Since(e.start).Milliseconds(),
	}
	expected, err := c.Value.Eval(e.values)
	if err == nil {
		out.Expected = spec.Format(expected)
		var observed any
		if observed, err = c.Metric.Eval(e.values); err == nil {
			out.Value, out.Observed = observed, spec.Format(observed)
			out.Status, err = compare(c.Op, observed, expected)
		}
	}
	if err != nil {
		out.Detail = err.Error()
	} else if c.Detail != nil {
		if detail, err := c.Detail.Eval(e.values); err == nil {
			out.Detail = spec.Format(detail)
		}
	}
	if d, ok := out.Value.(time.Duration); ok {
		out.Value = d.String()
	}
	shown := out
	e.log.Add(report.Event{Kind: report.CheckJudged, Stage: a.ID, Check: &shown})
	e.blame(out)
	return out
}

func compare(op string, observed, expected any) (report.CheckStatus, error) {
	ok, err := spec.Compare(op, observed, expected)
	switch {
	case err != nil:
		return report.NotEvaluated, err
	case ok:
		return report.CheckPass, nil
	default:
		return report.CheckFail, nil
	}
}

// blame adds a check that did not hold to the failures of the run.
func (e *engine) blame(c report.Check) {
	what := "criterion"
	if c.Guard {
		what = "guard"
	}
	f := report.Failure{
		Message: fmt.Sprintf("%s %s/%s: %s", what, c.Aspect, c.ID, c.Title), Expected: c.Metric + " " + c.Op + " " + c.Expected, Observed: c.Observed,
		Evidence: []string{c.Evidence, filepath.Join(e.dir, HistoryFile)}, Repro: e.record.Repro,
	}
	if c.Detail != "" {
		f.Observed += " (" + c.Detail + ")"
	}
	switch {
	case c.Status == report.CheckFail:
	case c.Status == report.NotEvaluated && !e.failed && !e.cut && e.ended == nil: // with a failed step that is the reason, and is told
	default:
		return
	}
	e.record.Failures = append(e.record.Failures, f)
}
