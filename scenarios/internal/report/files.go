package report

import (
	"encoding/xml"
	"fmt"
	"strings"
	"time"
)

type junitSuites struct {
	XMLName  xml.Name     `xml:"testsuites"`
	Tests    int          `xml:"tests,attr"`
	Failures int          `xml:"failures,attr"`
	Errors   int          `xml:"errors,attr"`
	Time     string       `xml:"time,attr"`
	Suites   []junitSuite `xml:"testsuite"`
}

type junitSuite struct {
	Name       string          `xml:"name,attr"`
	Tests      int             `xml:"tests,attr"`
	Failures   int             `xml:"failures,attr"`
	Errors     int             `xml:"errors,attr"`
	Time       string          `xml:"time,attr"`
	Timestamp  string          `xml:"timestamp,attr"`
	Properties []junitProperty `xml:"properties>property"`
	Cases      []junitCase     `xml:"testcase"`
}

type junitProperty struct {
	Name  string `xml:"name,attr"`
	Value string `xml:"value,attr"`
}

type junitCase struct {
	Class   string        `xml:"classname,attr"`
	Name    string        `xml:"name,attr"`
	Time    string        `xml:"time,attr"`
	Failure *junitProblem `xml:"failure,omitempty"`
	Error   *junitProblem `xml:"error,omitempty"`
	Out     string        `xml:"system-out,omitempty"`
}

type junitProblem struct {
	Type    string `xml:"type,attr"`
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

// JUnit renders a run: the suite is scenario and setup, a test case is a
// criterion. What is inconclusive is an error, never skipped, since many
// readers show a skipped case as good.
func JUnit(r *Run) ([]byte, error) {
	suite := junitSuite{
		Name: r.Scenario + "/" + r.Setup, Time: seconds(r.TookMS), Timestamp: r.StartedAt.UTC().Format(time.RFC3339),
		Properties: []junitProperty{{"run_id", r.ID}, {"seed", fmt.Sprint(r.Seed)}, {"verdict", string(r.Verdict)}, {"repro", r.Repro}},
	}
	for _, c := range r.Criteria {
		tc := junitCase{Class: r.Scenario + "." + c.Aspect, Name: c.ID + ": " + c.Title, Time: "0", Out: "observed " + c.Observed + ", want " + c.Op + " " + c.Expected}
		if c.Detail != "" {
			tc.Out += "\n" + c.Detail
		}
		switch c.Status {
		case CheckFail:
			tc.Failure = &junitProblem{"criterion", fmt.Sprintf("%s is %s, want %s %s", c.Metric, c.Observed, c.Op, c.Expected), "evidence: " + c.Evidence + "\nrepro: " + r.Repro}
			suite.Failures++
		case NotEvaluated:
			tc.Error = &junitProblem{"not evaluated", "a value that this criterion needs was never computed", "evidence: " + c.Evidence + "\nrepro: " + r.Repro}
			suite.Errors++
		}
		suite.Cases = append(suite.Cases, tc)
	}
	for _, g := range r.Guards {
		if g.Status == CheckPass {
			continue
		}
		suite.broken(r, g.Aspect, "guard "+g.ID+": "+g.Title, 0, junitProblem{
			"inconclusive", fmt.Sprintf("%s is %s, want %s %s: the run did not test what it was meant to", g.Metric, g.Observed, g.Op, g.Expected), "evidence: " + g.Evidence + "\nrepro: " + r.Repro,
		})
	}
	for _, s := range r.Steps {
		if s.Status == StepFailed {
			suite.broken(r, s.Stage, "step "+s.ID, s.TookMS, junitProblem{"step", firstLine(s.Error), s.Error + "\nevidence: " + strings.Join(evidenceOf(r, s), ", ") + "\nrepro: " + r.Repro})
		}
	}
	// What did not pass must not look as if it had: a machine that could not run it,
	// an interrupt, and what the cleanup left are no criteria.
	if r.Exit() != ExitPass && suite.Failures+suite.Errors == 0 {
		problem := junitProblem{string(r.Verdict), fmt.Sprintf("exit code %d", r.Exit()), "repro: " + r.Repro}
		if len(r.Leftovers) > 0 {
			problem.Message = "left behind: " + strings.Join(r.Leftovers, ", ")
		}
		if len(r.Failures) > 0 {
			problem.Message, problem.Text = r.Failures[0].Message, strings.Join(r.Failures[0].Lines(), "\n")
		}
		suite.broken(r, "run", "run", r.TookMS, problem)
	}
	suite.Tests = len(suite.Cases)
	all := junitSuites{Tests: suite.Tests, Failures: suite.Failures, Errors: suite.Errors, Time: suite.Time, Suites: []junitSuite{suite}}
	data, err := xml.MarshalIndent(all, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("render junit: %w", err)
	}
	return append([]byte(xml.Header), append(data, '\n')...), nil
}

// broken adds a case that is an error.
func (s *junitSuite) broken(r *Run, class, name string, tookMS int64, problem junitProblem) {
	s.Cases = append(s.Cases, junitCase{Class: r.Scenario + "." + class, Name: name, Time: seconds(tookMS), Error: &problem})
	s.Errors++
}

// evidenceOf is where to look after a step that failed.
func evidenceOf(r *Run, s Step) []string {
	for _, f := range r.Failures {
		if strings.HasPrefix(f.Message, "step "+s.ID+" ") {
			return f.Evidence
		}
	}
	return []string{r.Directory}
}

func seconds(ms int64) string { return fmt.Sprintf("%.3f", float64(ms)/1000) }

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

// Markdown renders a run as a page.
func Markdown(r *Run) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s: %s\n\n", r.Scenario, strings.ToUpper(string(r.Verdict)))
	fmt.Fprintf(&b, "%s\n\n", r.Title)
	fmt.Fprintf(&b, "Run `%s`, setup %s, seed %d, %s, started %s.\n", r.ID, r.Setup, r.Seed, r.took(),
		r.StartedAt.UTC().Format(time.RFC3339))
	for _, f := range r.Failures {
		fmt.Fprintf(&b, "\n```\n%s\n```\n", strings.Join(f.Lines(), "\n"))
	}
	for _, aspect := range aspectsOf(r) {
		fmt.Fprintf(&b, "\n## %s\n\n| | criterion | observed | want |\n|---|---|---|---|\n", aspect)
		for _, c := range append(append([]Check(nil), r.Criteria...), r.Guards...) {
			if c.Aspect != aspect {
				continue
			}
			title := c.Title
			if c.Guard {
				title = "guard: " + title
			}
			observed := c.Observed
			if c.Detail != "" {
				observed += "<br>" + c.Detail
			}
			fmt.Fprintf(&b, "| %s | %s | %s | %s %s |\n", c.Status, cell(title), cell(observed), cell(c.Op), cell(c.Expected))
		}
	}
	b.WriteString("\n## Steps\n\n| stage | step | took | result |\n|---|---|---|---|\n")
	for i := range r.Steps {
		s := &r.Steps[i]
		result := string(s.Status)
		if s.Note != "" {
			result += ": " + s.Note
		}
		if s.Error != "" {
			result += ": " + firstLine(s.Error)
		}
		fmt.Fprintf(&b, "| %s | %s (`%s`) | %.1f s | %s |\n", s.Stage, s.ID, s.Use, float64(s.TookMS)/1000, cell(result))
	}
	fmt.Fprintf(&b, "\nAgain: `%s`\n", r.Repro)
	return b.String()
}

func cell(text string) string { return strings.ReplaceAll(text, "|", "\\|") }
