package scenarios

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/ister-mq/ister/scenarios/internal/fakecluster"
	"github.com/ister-mq/ister/scenarios/internal/report"
)

// ranOn writes runs of one scenario on setups; change alters the last of them.
func ranOn(t *testing.T, change func(*report.Run), setups ...string) (runs string) {
	t.Helper()
	runs = t.TempDir()
	for i, setup := range setups {
		check := func(id, observed string) report.Check {
			return report.Check{Aspect: "scale-up", ID: id, Title: "the title of " + id, Op: "==", Expected: "4", Observed: observed, Status: report.CheckPass}
		}
		guard := check("in_flight", "4")
		guard.Guard = true
		r := &report.Run{
			SchemaVersion: report.SchemaVersion, ID: fmt.Sprintf("2026120%d-000000-sample", i+1), Scenario: "sample", Title: "A sample", Setup: setup, Verdict: report.Pass, Seed: 7,
			StartedAt: time.Date(2026, 12, 1+i, 0, 0, 0, 0, time.UTC), TookMS: 12345, Criteria: []report.Check{check("voters", "4"), check("lost", "4")}, Guards: []report.Check{guard},
		}
		if i == len(setups)-1 && change != nil {
			change(r)
		}
		dir := filepath.Join(runs, r.ID)
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := r.Save(dir); err != nil {
			t.Fatal(err)
		}
	}
	return runs
}

func TestGoldenTableOfRunsThatAgree(t *testing.T) {
	runs := ranOn(t, nil, "compose", "container", "process", "attach")
	code, out, errOut := scenario(t, fakecluster.Setup{}, "table", "--runs-dir", runs)
	golden(t, "table.txt", out)
	if code != 0 || errOut != "" {
		t.Errorf("exit %d: %s", code, errOut)
	}
	for _, line := range strings.Split(out, "\n") {
		if utf8.RuneCountInString(line) > report.Width {
			t.Errorf("%d columns: %s", utf8.RuneCountInString(line), line)
		}
	}
}

func TestTableTellsWhereSetupsDisagree(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*report.Run)
		want   string
	}{
		"verdict":    {func(r *report.Run) { r.Verdict = report.Inconclusive }, "verdict: process pass, container inconclusive"},
		"fails":      {func(r *report.Run) { r.Criteria[0].Status = report.CheckFail }, "scale-up/voters: process pass, container fail"},
		"not judged": {func(r *report.Run) { r.Criteria = r.Criteria[:1] }, "container did not judge 1 of 2 criteria and guards"},
		"guard":      {func(r *report.Run) { r.Guards[0].Status = report.NotEvaluated }, "container did not judge 1 of 3 criteria and guards"},
	} {
		runs := ranOn(t, c.change, "process", "container")
		for _, format := range []string{"text", "md", "json"} {
			code, out, _ := scenario(t, fakecluster.Setup{}, "table", "--runs-dir", runs, "--format", format)
			if code != report.ExitFail || !strings.Contains(out, c.want) {
				t.Errorf("%s as %s: exit %d\n%s", name, format, code, out)
			}
		}
	}
}

func TestTableHasTheNewestRunOfEachSetup(t *testing.T) {
	runs := ranOn(t, nil, "process", "container", "process")
	var tables []table
	code, out, _ := scenario(t, fakecluster.Setup{}, "table", "--runs-dir", runs, "--scenario", "sample", "-o", "json")
	if err := json.Unmarshal([]byte(out), &tables); err != nil || code != 0 || len(tables) != 1 || len(tables[0].Runs) != 2 || tables[0].Runs[0].RunID != "20261203-000000-sample" || tables[0].Runs[1].Name != "container" {
		t.Fatalf("exit %d, %v\n%s", code, err, out)
	}
	code, out, _ = scenario(t, fakecluster.Setup{}, "table", "--runs-dir", runs, "20261201", filepath.Join(runs, "20261203-000000-sample"))
	if code != 0 || !strings.Contains(out, "process 1") || !strings.Contains(out, "process 2") {
		t.Errorf("exit %d\n%s", code, out)
	}
}

func TestManyRunsGoIntoParts(t *testing.T) {
	names := make([]string, 9)
	for i := range names {
		names[i] = "process"
	}
	runs := ranOn(t, nil, names...)
	args := []string{"table", "--runs-dir", runs}
	for i := range names {
		args = append(args, fmt.Sprintf("2026120%d", i+1))
	}
	code, out, errOut := scenario(t, fakecluster.Setup{}, args...)
	if code != 0 || strings.Count(out, "the title of voters") != 3 || !strings.Contains(out, "process 9") {
		t.Errorf("exit %d\n%s%s", code, out, errOut)
	}
}

func TestUsageErrorsOfTable(t *testing.T) {
	runs := ranOn(t, func(r *report.Run) { r.Verdict = report.Running }, "process", "container")
	for want, args := range map[string][]string{
		"--format xml is not known (text, md or json)": {"--format", "xml"},
		"no ended run of smple":                        {"--scenario", "smple"},
		"no run nothing":                               {"nothing"},
		"run 20261202-000000-sample has not ended":     {"20261202"},
		"does not go with RUN":                         {"20261201", "--scenario", "sample"},
	} {
		code, _, errOut := scenario(t, fakecluster.Setup{}, append([]string{"table", "--runs-dir", runs}, args...)...)
		if code != report.ExitUsage || !strings.Contains(errOut, want) {
			t.Errorf("%v: exit %d, %s", args, code, errOut)
		}
	}
	if code, _, errOut := scenario(t, fakecluster.Setup{}, "table", "--runs-dir", t.TempDir()); code != report.ExitUsage || !strings.Contains(errOut, "no ended run of any scenario") {
		t.Errorf("exit %d, %s", code, errOut)
	}
}
