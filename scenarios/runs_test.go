package scenarios

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/ister-mq/ister/scenarios/internal/fakecluster"
	"github.com/ister-mq/ister/scenarios/internal/report"
	"github.com/ister-mq/ister/scenarios/internal/run"
	"github.com/ister-mq/ister/setups/process"
)

// recorded writes the record of a run that began some minutes after midnight.
func recorded(t *testing.T, runs, id string, minute int, change func(*report.Run)) {
	t.Helper()
	dir := filepath.Join(runs, id)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	r := &report.Run{
		SchemaVersion: report.SchemaVersion, ID: id, Scenario: "partition-and-heal", Setup: "container", Seed: 123456, Verdict: report.Pass, StartedAt: time.Date(2026, 12, 2, 0, minute, 0, 0, time.UTC),
		TookMS: 94_000, Criteria: []report.Check{{Status: report.CheckPass}, {Status: report.CheckPass}},
	}
	if change != nil {
		change(r)
	}
	if err := r.Save(dir); err != nil {
		t.Fatal(err)
	}
}

// someRuns is a runs directory with all there can be in one.
func someRuns(t *testing.T) string {
	t.Helper()
	runs := t.TempDir()
	self := report.Process{PID: os.Getpid(), Started: process.StartTime(os.Getpid())}
	recorded(t, runs, "20261202-000100-partition-and-heal", 1, nil)
	recorded(t, runs, "20261202-000100-2-partition-and-heal", 2, func(r *report.Run) {
		r.Verdict, r.Criteria[1].Status = report.Inconclusive, report.NotEvaluated
	})
	recorded(t, runs, "mine", 3, func(r *report.Run) { r.Scenario, r.Setup, r.Verdict = "soak", "process", report.StepError })
	recorded(t, runs, "20261202-000400-soak", 4, func(r *report.Run) {
		r.Scenario, r.Verdict, r.Runner, r.Criteria = "soak", report.Running, report.Process{PID: 999999999, Started: "1"}, nil
	})
	recorded(t, runs, "20261202-000500-soak", 5, func(r *report.Run) { r.Scenario, r.Verdict, r.Runner = "soak", report.Running, self })
	recorded(t, runs, "20261202-000600-soak", 6, func(r *report.Run) { r.Scenario, r.Verdict, r.Runner = "soak", report.Running, self })
	paused := `{"schema_version":1,"run_id":"20261202-000600-soak","state":"paused","pause":{"number":1},"steps_left":["sent","verify"]}`
	for name, text := range map[string]string{
		"20261202-000600-soak/state.json": paused, "20261202-000700-soak/run.json": `{"schema_version":1,"run_id":"20261202-0007`, "notes/todo.txt": "x", "20261202-000800-soak/events.ndjson": "", "file": "x",
		"future/run.json": `{"schema_version":99}`, "half/run.json": `{"schema_version":1}`, "half/processes.json": "[{",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(runs, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(runs, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return runs
}

func TestRunsAreListedNewestFirstWhateverIsAmongThem(t *testing.T) {
	runs := someRuns(t)
	code, out, errOut := scenario(t, fakecluster.Setup{}, "runs", "--runs-dir", runs)
	if code != 0 {
		t.Fatalf("exit %d: %s", code, errOut)
	}
	var rows [][]string
	for _, line := range strings.Split(strings.TrimSpace(out), "\n") {
		if fields := strings.Fields(line); strings.Count(fields[0], "-") == 1 {
			if n := utf8.RuneCountInString(line); n > report.Width {
				t.Errorf("%d columns: %s", n, line)
			}
			rows = append(rows, fields[2:])
		}
	}
	var got []string
	for _, row := range rows {
		got = append(got, strings.Join(append(row[:1:1], row[3:]...), " "))
	}
	want := []string{
		"20261202-000600 123456 PAUSED 2/2", "20261202-000500 123456 RUNNING 2/2", "20261202-000400 123456 ABANDONED - -", "mine 123456 STEP ERROR 2/2 1m34s",
		"20261202-000100-2 123456 INCONCLUSIVE 1/2 1m34s", "20261202-000100-p 123456 PASS 2/2 1m34s",
	}
	for i, text := range want {
		if at := len(got) - len(want) + i; at < 0 || !strings.HasPrefix(got[at], text) {
			t.Errorf("row %d from the end is not %q:\n%s", len(want)-i, text, out)
		}
	}
	for _, name := range []string{"20261202-000700", "20261202-000800", "notes", "future", "half"} {
		if !strings.Contains(out, "UNREADABLE "+filepath.Join(runs, name)) && !strings.Contains(strings.ReplaceAll(out, "\n  ", " "), filepath.Join(runs, name)) {
			t.Errorf("%s is not told:\n%s", name, out)
		}
	}
	for _, row := range rows {
		if _, err := run.Find(runs, row[0]); err != nil {
			t.Errorf("the id of a row finds nothing: %v", err)
		}
	}
}

func TestRunsAreFiltered(t *testing.T) {
	runs := someRuns(t)
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--scenario", "soak", "--verdict", "running,paused"}, "20261202-000600-soak 20261202-000500-soak"},
		{[]string{"--verdict", "step-error"}, "mine"},
		{[]string{"--setup", "container", "--last", "2"}, "20261202-000600-soak 20261202-000500-soak"},
		{[]string{"--scenario", "partition-and-heal", "--verdict", "pass"}, "20261202-000100-partition-and-heal"},
		{[]string{"--scenario", "disk-full"}, ""},
	} {
		code, out, errOut := scenario(t, fakecluster.Setup{}, append(c.args, "runs", "--runs-dir", runs, "-o", "json")...)
		var infos []run.Info
		if err := json.Unmarshal([]byte(out), &infos); err != nil || code != 0 || infos == nil {
			t.Fatalf("%v: exit %d, %v: %s%s", c.args, code, err, out, errOut)
		}
		var ids []string
		for _, info := range infos {
			ids = append(ids, info.Run.ID)
		}
		if got := strings.Join(ids, " "); got != c.want {
			t.Errorf("%v: %s, want %s", c.args, got, c.want)
		}
	}
	if _, out, _ := scenario(t, fakecluster.Setup{}, "runs", "--runs-dir", runs, "--scenario", "disk-full"); !strings.Contains(out, "no runs in "+runs+" that these flags choose, of 11") {
		t.Errorf("nothing chosen: %s", out)
	}
	for want, args := range map[string][]string{
		"did you mean inconclusive?":   {"--verdict", "inconclusiv"},
		"did you mean broker-scaling?": {"--scenario", "broker-scalin"},
		"--setup docker is not known (process, container, compose, netns or attach)": {"--setup", "docker"},
		"--last 0 is not a number of runs":                                           {"--last", "0"},
	} {
		if code, _, errOut := scenario(t, fakecluster.Setup{}, append(args, "runs", "--runs-dir", runs)...); code != 2 || !strings.Contains(errOut, want) {
			t.Errorf("%v: exit %d: %s", args, code, errOut)
		}
	}
}
