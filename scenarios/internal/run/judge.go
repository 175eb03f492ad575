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
	observed, err := c.Metric.Eval(e.values)
	if err == nil {
		var expected any
		if expected, err = c.Value.Eval(e.values); err == nil {
			out.Expected = spec.Format(expected)
			out.Value, out.Observed = observed, spec.Format(observed)
			var ok bool
			if ok, err = spec.Compare(c.Op, observed, expected); err == nil {
				out.Status = report.CheckFail
				if ok {
					out.Status = report.CheckPass
				}
			}
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

// blame adds a check that did not hold to the failures of the run.
func (e *engine) blame(c report.Check) {
	what := "criterion"
	if c.Guard {
		what = "guard"
	}
	f := report.Failure{
		Message: fmt.Sprintf("%s %s/%s: %s", what, c.Aspect, c.ID, c.Title), Expected: c.Metric + " " + c.Op + " " + c.Expected, Observed: c.Observed,
		Evidence: c.Evidence + ", " + filepath.Join(e.dir, "history.ndjson.gz"), Repro: e.record.Repro,
	}
	if c.Detail != "" {
		f.Observed += " (" + c.Detail + ")"
	}
	switch {
	case c.Status == report.CheckFail:
	case c.Status == report.NotEvaluated && !e.failed: // with a failed step that is the reason, and is told
	default:
		return
	}
	e.record.Failures = append(e.record.Failures, f)
}
