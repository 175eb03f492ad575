package scenarios

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ister-mq/ister/scenarios/internal/fakecluster"
	"github.com/ister-mq/ister/scenarios/internal/spec"
)

// linted is a directory with two scenarios: one is fine, the other has three
// mistakes.
func linted(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	source := strings.NewReplacer("      STEPS\n", "", "GUARD", "1").Replace(small)
	bad := strings.NewReplacer("id: small\n", "id: bad\n", "risk: additive", "risk: aditive", "[process]", "[proces]", "${topic.kafka_names}", "${topic.kafka_nmaes}").Replace(source)
	for name, text := range map[string]string{"small": source, "bad": bad} {
		if err := os.MkdirAll(filepath.Join(root, name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, name, specFile), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestLintNamesPlacesAndSuggests(t *testing.T) {
	root := linted(t)
	code, out, _ := scenario(t, fakecluster.Setup{}, "lint", root, "broker-scaling", filepath.Join(root, "bad", specFile))
	want := []string{
		root + `/bad/scenario.yaml:5:7: "aditive" is not allowed here (did you mean additive?)`,
		root + `/bad/scenario.yaml:6:10: "proces" is not allowed here (did you mean process?)`,
		root + `/bad/scenario.yaml:11:59: topic has no member kafka_nmaes (did you mean kafka_names?)`,
	}
	if got := strings.Split(strings.TrimSpace(out), "\n"); code != 2 || !slices.Equal(got, want) {
		t.Errorf("exit %d\n%s", code, out)
	}
	if code, out, _ := scenario(t, fakecluster.Setup{}, "lint", filepath.Join(root, "small"), "kill-and-recover"); code != 0 || out != "2 scenarios are fine\n" {
		t.Errorf("exit %d, %q", code, out)
	}
}

func TestLintForMachines(t *testing.T) {
	root := linted(t)
	code, out, errOut := scenario(t, fakecluster.Setup{}, "lint", "--format", "json", root)
	var problems spec.Problems
	if err := json.Unmarshal([]byte(out), &problems); err != nil || code != 2 || errOut != "" || len(problems) != 3 {
		t.Fatalf("exit %d, %v, %s%s", code, err, out, errOut)
	}
	if p := problems[2]; p.Rule != spec.RuleExpression || p.Line != 11 || p.Column != 59 || p.Hint != "did you mean kafka_names?" {
		t.Errorf("%+v", p)
	}
	code, out, _ = scenario(t, fakecluster.Setup{}, "lint", "--format", "sarif", root)
	var log sarifLog
	if err := json.Unmarshal([]byte(out), &log); err != nil || code != 2 || log.Version != "2.1.0" || len(log.Runs) != 1 {
		t.Fatalf("exit %d, %v\n%s", code, err, out)
	}
	run := log.Runs[0]
	if len(run.Results) != 3 || len(run.Tool.Driver.Rules) != len(spec.Rules) {
		t.Fatalf("%+v", run)
	}
	for _, r := range run.Results {
		if run.Tool.Driver.Rules[r.RuleIndex].ID != r.RuleID || r.Locations[0].Physical.Region.StartLine < 5 || r.Message.Text == "" {
			t.Errorf("%+v", r)
		}
	}
}

func TestLintRefusesWhatItCannotRead(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"lint", "broker-scalng"}, "did you mean broker-scaling?"},
		{[]string{"lint", t.TempDir()}, "there is no scenario.yaml below"},
		{[]string{"lint", "--format", "xml"}, "text, json or sarif"},
	} {
		if code, _, errOut := scenario(t, fakecluster.Setup{}, c.args...); code != 2 || !strings.Contains(errOut, c.want) {
			t.Errorf("%v: exit %d, %s", c.args, code, errOut)
		}
	}
}
