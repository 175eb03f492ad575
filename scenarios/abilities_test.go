package scenarios

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/ister-mq/ister/scenarios/internal/fakecluster"
	"github.com/ister-mq/ister/scenarios/internal/spec"
	"github.com/ister-mq/ister/scenarios/internal/verb"
	"github.com/ister-mq/ister/setups"
)

// stopless is a setup that cannot stop brokers.
var stopless = fakecluster.Setup{Without: []setups.Ability{setups.AbilityStop}}

func TestRunIsRefusedBeforeItBeginsWhereTheSetupCannot(t *testing.T) {
	runs := t.TempDir()
	code, _, errOut := scenario(t, stopless, "run", "broker-scaling", "--runs-dir", runs)
	for _, want := range []string{
		"scenario broker-scaling cannot run on setup process; nothing was started",
		"step stopped (broker.stop) of aspect scale-down needs the ability stop: setup process cannot stop a broker: the fake was told so; take another (2 more steps need it)",
		"what can run here: --aspect scale-up --aspect reliable-topic-move",
	} {
		if code != 2 || !strings.Contains(errOut, want) {
			t.Errorf("exit %d, want %q in:\n%s", code, want, errOut)
		}
	}
	if left, _ := os.ReadDir(runs); len(left) > 0 {
		t.Errorf("a refused run left %v", left)
	}
	r, log := ran(t, stopless, "broker-scaling", "--aspect", "scale-up", "-p", "topics=4", "-p", "rate=40")
	if r.ExitCode != 0 {
		t.Errorf("the aspect that can run: exit %d\n%s", r.ExitCode, log)
	}
}

// Steps after the last one do not count.
func TestUntilLeavesOutWhatNeedsMore(t *testing.T) {
	r, log := ran(t, stopless, "broker-scaling", "--aspect", "scale-down", "--until", "warm", "-p", "topics=4", "-p", "rate=40")
	if r.ExitCode != 3 {
		t.Errorf("exit %d\n%s", r.ExitCode, log)
	}
}

func TestPlanSaysWhatTheSetupCannot(t *testing.T) {
	code, out, errOut := scenario(t, stopless, "plan", "broker-scaling", "--setup", "process")
	if code != 2 || strings.Count(out, "CANNOT: setup process cannot stop a broker") != 3 || !strings.Contains(errOut, "--aspect scale-up") {
		t.Errorf("exit %d\n%s\n%s", code, out, errOut)
	}
	code, out, _ = scenario(t, stopless, "plan", "broker-scaling", "--setup", "process", "-o", "json")
	var plan []plannedStep
	if err := json.Unmarshal([]byte(out), &plan); err != nil || code != 2 {
		t.Fatalf("exit %d, %v", code, err)
	}
	for _, p := range plan {
		if (p.Cannot != "") != (p.Use == "broker.stop") {
			t.Errorf("%+v", p)
		}
	}
	if code, out, _ := scenario(t, stopless, "plan", "broker-scaling", "--setup", "process", "--aspect", "scale-up"); code != 0 || strings.Contains(out, "CANNOT") {
		t.Errorf("exit %d\n%s", code, out)
	}
	if code, _, errOut := scenario(t, stopless, "plan", "broker-scaling", "--setup", "docker"); code != 2 || !strings.Contains(errOut, "it runs on: process") {
		t.Errorf("exit %d: %s", code, errOut)
	}
}

func TestLintFindsSetupsThatCannot(t *testing.T) {
	code, out, _ := scenario(t, stopless, "lint", "--format", "json", "broker-scaling", "kill-and-recover")
	var problems spec.Problems
	if err := json.Unmarshal([]byte(out), &problems); err != nil || code != 2 || len(problems) != 3 {
		t.Fatalf("exit %d, %v\n%s", code, err, out)
	}
	source, err := shipped.ReadFile("broker-scaling/" + specFile)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(source), "\n")
	for _, p := range problems {
		if p.Rule != spec.RuleAbility || !strings.Contains(lines[p.Line-1], "broker.stop") {
			t.Errorf("%v", p)
		}
	}
	byFlag := stopless
	byFlag.Flag = "--some-flag"
	if code, out, _ := scenario(t, byFlag, "lint"); code != 0 {
		t.Errorf("what a flag lifts is a finding: exit %d\n%s", code, out)
	}
}

func TestMatrixHasOnlyWhatCanRun(t *testing.T) {
	for _, c := range []struct {
		without setups.Ability
		flag    string
		want    string // the command of broker-scaling; "": no cell
		aspects []string
	}{
		{setups.AbilityStop, "", "scenario run broker-scaling --setup process --aspect scale-up --aspect reliable-topic-move", []string{"scale-up", "reliable-topic-move"}},
		{setups.AbilityStop, "--some-flag", "scenario run broker-scaling --setup process", nil},
		{setups.AbilityAdmin, "", "", nil},
	} {
		_, out, _ := scenario(t, fakecluster.Setup{Without: []setups.Ability{c.without}, Flag: c.flag}, "matrix")
		var cells []matrixCell
		if err := json.Unmarshal([]byte(out), &cells); err != nil {
			t.Fatal(err)
		}
		var found matrixCell
		for _, cell := range cells {
			if cell.Scenario == "broker-scaling" {
				found = cell
			}
		}
		if found.Command != c.want || !slices.Equal(found.Aspects, c.aspects) {
			t.Errorf("without %s: %+v", c.without, found)
		}
	}
}

// A setup that says nothing of itself starts its own brokers, and no more.
func TestSetupsThatSayNothing(t *testing.T) {
	silent := struct{ setups.Setup }{fakecluster.Setup{}}
	for _, a := range setups.Abilities {
		promised := slices.Contains([]setups.Ability{setups.AbilityAdd, setups.AbilityStart, setups.AbilityStop, setups.AbilityKill, setups.AbilityPause, setups.AbilityAdmin}, a.Ability)
		if refused := setups.Cannot(silent, a.Ability); (refused == nil) != promised || !promised && (refused.Remedy == "" || refused.What != a.What) {
			t.Errorf("%s: %v", a.Ability, refused)
		}
	}
}

func TestNeedsOfVerbsAreKnown(t *testing.T) {
	known := map[setups.Ability]bool{}
	for _, a := range setups.Abilities {
		known[a.Ability] = true
	}
	for _, name := range (verb.Registry{}).Names() {
		v, _ := verb.Lookup(name)
		for _, need := range v.Needs {
			if !known[need] {
				t.Errorf("%s needs %q", name, need)
			}
		}
	}
}
