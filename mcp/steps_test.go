package mcp

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	protocol "github.com/mark3labs/mcp-go/mcp"

	"github.com/ister-mq/ister/scenarios"
)

// quick are parameters with which the fake cluster does broker-scaling in seconds.
// Gaps are not what these tests are about, and a busy machine has long ones.
var quick = map[string]any{"topics": "4", "rate": "40", "messages": "80", "move_rate": "100", "gap_max": "60000"}

// onFakeCluster makes a server whose runs are real ones of the scenario command,
// on a cluster inside the runner.
func onFakeCluster(t *testing.T, change func(*Config)) *Server {
	t.Helper()
	return newTestServer(t, func(c *Config) {
		c.Runner = []string{c.Runner[0], roleScenario}
		if change != nil {
			change(c)
		}
	})
}

// tools lists the names that a client sees.
func (c *connected) tools() []string {
	c.t.Helper()
	list, err := c.ListTools(c.t.Context(), protocol.ListToolsRequest{})
	if err != nil {
		c.t.Fatal(err)
	}
	found := []string{}
	for _, one := range list.Tools {
		found = append(found, one.Name)
	}
	return found
}

// step does a step by any of its tools, with a plan_id where it is asked for one,
// and waits until it is over.
func (c *connected) step(tool string, args map[string]any) map[string]any {
	c.t.Helper()
	for range 20 {
		out := c.call(tool, args)
		switch {
		case out.isError && out.body["code"] == codePlanRequired:
			again := out.body["fix"].(map[string]any)
			tool, args = again["tool"].(string), again["args"].(map[string]any)
		case out.isError:
			c.t.Fatalf("%s %v: %v", tool, args, out.body)
		case out.body["step_status"] == stepOK:
			return out.body
		}
	}
	c.t.Fatalf("%s %v does not end", tool, args)
	return nil
}

// TestStepByStepThroughBrokerScaling drives a whole run, as an agent does that
// follows next: over HTTP with the step tools, then, after the server and the
// client are gone, over stdio and a new process by name.
func TestStepByStepThroughBrokerScaling(t *testing.T) {
	dir := t.TempDir()
	s := onFakeCluster(t, func(c *Config) { c.RunsDir = dir })
	c, _ := overHTTP(t, s, revisions[2])
	if n := len(c.tools()); n > 40 || slices.Contains(c.tools(), "broker_scaling_cluster") {
		t.Fatalf("%d tools by default", n)
	}
	plan := c.ok("scenario_plan", map[string]any{"scenario": "broker-scaling", "limit": 500})
	added := c.ok("toolsets_enable", map[string]any{"toolset": "broker-scaling"})["added"].([]any)
	if !slices.Contains(c.tools(), "broker_scaling_cluster") || !slices.Contains(added, any("broker_scaling_verify_move")) {
		t.Fatalf("added %v", added)
	}
	run := c.ok("scenario_start", map[string]any{"scenario": "broker-scaling", "params": quick, "seed": 7, "pause": "each", "run_id": "step-by-step"})
	next := run["next_step"].(map[string]any)
	if run["run_id"] != "step-by-step" || next["step"] != "cluster" || next["tool"] != "broker_scaling_cluster" {
		t.Fatalf("started %v", run)
	}
	again := c.ok("scenario_start", map[string]any{"scenario": "broker-scaling", "pause": "each", "run_id": "step-by-step"})
	if again["already"] != true {
		t.Errorf("a start that is repeated: %v", again)
	}
	c.fails("scenario_start", map[string]any{"scenario": "kill-and-recover", "run_id": "step-by-step"}, codeRunExists)

	order := []string{}
	id := map[string]any{"run_id": "step-by-step"}
	for next != nil && next["step"] != "removed" {
		body := c.step(next["tool"].(string), nil) // the only live run
		order = append(order, next["step"].(string))
		if body["step"] != next["step"] || body["recorded"] != false {
			t.Fatalf("after %v: %v", next, body)
		}
		if len(order) == 1 {
			checkOrder(c, id)
		}
		next, _ = body["next_step"].(map[string]any)
	}
	checkPlanOfStep(c, s)

	s.Close() // this server is gone, and so is its client; the run is not
	other := overProcess(t, revisions[0], "--runs-dir", dir)
	waited := other.ok("scenario_wait", map[string]any{"run_id": "last", "after_seq": 100000})
	if waited["paused"] != true || waited["pause"].(map[string]any)["next_step"].(map[string]any)["step"] != "removed" {
		t.Fatalf("waited %v", waited)
	}
	c = other
	last := map[string]any{}
	for next != nil {
		last = c.step("scenario_step", map[string]any{"run_id": "step-by-step", "step": next["step"]})
		order = append(order, next["step"].(string))
		next, _ = last["next_step"].(map[string]any)
	}
	if _, last = finish(c, "step-by-step", 0); last["verdict"] != "pass" {
		t.Fatalf("ended with %v", last)
	}
	planned := []string{}
	for _, one := range plan["steps"].([]any) {
		if stage := one.(map[string]any)["stage"]; stage != stageOnFailure && stage != stageAlways {
			planned = append(planned, one.(map[string]any)["id"].(string))
		}
	}
	if plan["next_cursor"] == nil && !slices.Equal(order, planned) {
		t.Errorf("done: %v\nplanned: %v", order, planned)
	}
	report := c.ok("scenario_report", id)
	if report["verdict"] != "pass" || report["criteria_failed"] != 0.0 || report["criteria_passed"].(float64) < 30 {
		t.Errorf("report %v", report)
	}
	if body := c.ok("scenario_step", map[string]any{"run_id": "step-by-step", "step": "topics"}); body["recorded"] != true || body["ended"] != true {
		t.Errorf("a step of a run that has ended: %v", body)
	}
	c.fails("scenario_resume", map[string]any{"run_id": "nope"}, codeRunUnknown)
}

// checkOrder: a step whose turn it is not is refused with the one whose turn it
// is; one that is done answers with what was recorded.
func checkOrder(c *connected, id map[string]any) {
	c.t.Helper()
	body := c.fails("broker_scaling_load", id, codeStepNotNext)
	fix := body["fix"].(map[string]any)
	if fix["tool"] != "broker_scaling_topics" || !strings.HasPrefix(body["expected"].(string), "topics: ") {
		c.t.Errorf("out of order: %v", body)
	}
	first := c.ok("broker_scaling_cluster", id)
	if first["recorded"] != true || len(first["outputs"].(map[string]any)["names"].([]any)) != 3 {
		c.t.Errorf("recorded: %v", first)
	}
	c.fails("scenario_step", map[string]any{"run_id": "step-by-step", "step": "topic_s"}, codeStepUnknown)
}

// checkPlanOfStep is at the pause before a destructive step.
func checkPlanOfStep(c *connected, s *Server) {
	c.t.Helper()
	const tool = "broker_scaling_removed"
	dir, before, err := s.findRun("step-by-step")
	if err != nil {
		c.t.Fatal(err)
	}
	body := c.fails(tool, nil, codePlanRequired)
	fix := body["fix"].(map[string]any)
	plan := body["plan"].(map[string]any)
	if fix["tool"] != tool || fix["args"].(map[string]any)["plan_id"] != plan["plan_id"] || !strings.Contains(body["expected"].(string), "remove-node") || plan["placement_revision"] == "0" {
		c.t.Errorf("without a plan_id: %v", body)
	}
	id := plan["plan_id"].(string)
	for code, args := range map[string]map[string]any{
		codePlanUnknown:   {"run_id": "step-by-step", "step": "removed", "plan_id": id + "0"},
		codePlanRequired:  {"run_id": "step-by-step", "step": "removed"},
		codeStepNotNext:   {"run_id": "step-by-step", "step": "stopped", "plan_id": id},
		codePlanArguments: {"run_id": "step-by-step", "step": "removed", "plan_id": planOfAnother(s)},
	} {
		body := c.fails("scenario_step", args, code)
		if fix, _ := body["fix"].(map[string]any); fix == nil || fix["tool"] == "" {
			c.t.Errorf("%s: no fix: %v", code, body)
		}
	}
	// Somebody changes the cluster: the plan is stale, and says so with its fix.
	state, err := loadState(dir)
	if err != nil {
		c.t.Fatal(err)
	}
	drift(c.t, state.Pause.Admin[0])
	body = c.fails(tool, map[string]any{"plan_id": id}, codePlanDrifted)
	if fix := body["fix"].(map[string]any); fix["tool"] != tool || fix["args"].(map[string]any)["plan_id"] != nil {
		c.t.Errorf("a stale plan: %v", body)
	}
	if _, after, err := s.findRun("step-by-step"); err != nil || len(after.Steps) != len(before.Steps) {
		c.t.Errorf("a refused step was done: %v", err)
	}
}

// planOfAnother is a plan_id of this server for another step.
func planOfAnother(s *Server) string {
	subject := input{tool: &tool{name: "scenario_step"}, values: map[string]any{"run_id": "step-by-step", "step": "removed_five"}}
	return s.plans.id(subject, &effect{what: "x"}, s.config.Now().Add(time.Minute))
}

func TestAFailedStepIsToldAndDoneAgainOnRequest(t *testing.T) {
	s := onFakeCluster(t, nil)
	c, _ := overPipes(t, s, revisions[1])
	run := c.ok("scenario_start", map[string]any{"scenario": "broker-scaling", "params": quick, "from": "status_up", "aspects": []string{"scale-up"}})
	id := run["run_id"].(string)
	_, last := finishOrPause(c, id)
	if last["paused"] != true || last["pause"].(map[string]any)["next_step"].(map[string]any)["step"] != "status_up" {
		t.Fatalf("paused at %v", last["pause"])
	}
	if body := c.ok("scenario_status", map[string]any{"run_id": id})["runs"].([]any)[0].(map[string]any); body["paused"] != true {
		t.Errorf("status %v", body)
	}
	// The load ends behind the run's back: the step that waits for it fails.
	body := c.ok("scenario_resume", map[string]any{"run_id": id, "until": "topics_up"})
	if body["already"] != false {
		t.Errorf("resumed %v", body)
	}
	_, last = finishOrPause(c, id)
	if last["pause"].(map[string]any)["next_step"].(map[string]any)["step"] != "during_up" {
		t.Fatalf("paused at %v", last["pause"])
	}
	c.fails("scenario_resume", map[string]any{"run_id": id, "until": "topics_up"}, codeInvalidArgument)
	stopped := c.ok("scenario_stop", map[string]any{"run_id": id})
	if stopped["verdict"] != "interrupted" {
		t.Errorf("stopped: %v", stopped)
	}
	c.fails("scenario_step", map[string]any{"run_id": id, "step": "during_up"}, codeRunEnded)
}

// finishOrPause waits until a run pauses or ends.
func finishOrPause(c *connected, id string) (after float64, last map[string]any) {
	c.t.Helper()
	for range 100 {
		last = c.ok("scenario_wait", map[string]any{"run_id": id, "after_seq": after, "max_wait_s": 5})
		after = last["last_seq"].(float64)
		if last["ended"] == true || last["paused"] == true {
			return after, last
		}
	}
	c.t.Fatalf("run %s neither pauses nor ends", id)
	return 0, nil
}

// TestStepToolsFollowFromTheScenarios: each step of each scenario has its tool,
// annotated by its risk, and the filters leave it out as any other tool.
func TestStepToolsFollowFromTheScenarios(t *testing.T) {
	all, err := scenarios.StepTools()
	if err != nil || len(all) < 60 {
		t.Fatalf("%d steps, %v", len(all), err)
	}
	for name, c := range map[string]struct {
		filter Filter
		keeps  func(scenarios.StepTool) bool
	}{
		"all":            {Filter{Toolsets: []string{toolsetAll}}, func(scenarios.StepTool) bool { return true }},
		"one scenario":   {Filter{Toolsets: []string{"kill-and-recover", toolsetDefault}}, func(s scenarios.StepTool) bool { return s.Scenario == "kill-and-recover" }},
		"read-only":      {Filter{Toolsets: []string{toolsetAll}, ReadOnly: true}, func(s scenarios.StepTool) bool { return s.Risk == string(ReadOnly) }},
		"no destructive": {Filter{Toolsets: []string{toolsetAll}, NoDestructive: true}, func(s scenarios.StepTool) bool { return s.Risk == string(ReadOnly) || s.Risk == string(Additive) }},
	} {
		s := newTestServer(t, func(config *Config) { config.Filter = c.filter })
		for _, one := range all {
			offered := s.tools[one.Name]
			if (offered != nil) != c.keeps(one) {
				t.Errorf("%s: %s is offered: %v", name, one.Name, offered != nil)
			}
		}
		if s.offers("toolsets_enable") || s.offers("scenario_list") != (name != "-") {
			t.Errorf("%s: tools %v", name, names(s))
		}
	}
	s := newTestServer(t, nil)
	var destructive *tool
	for i := range s.known {
		if s.known[i].name == "broker_scaling_removed" {
			destructive = &s.known[i]
		}
	}
	d := destructive.definition()
	raw := string(mustJSON(d))
	for _, want := range []string{"plan_id", `"was_controller"`, "ister admin cluster remove-node", "stage scale-down", "after unloaded", "Otherwise: the refusal names every blocker"} {
		if !strings.Contains(raw, strings.ReplaceAll(string(mustJSON(want)), `"`, "")) && !strings.Contains(raw, want) {
			t.Errorf("%s is not in %s", want, raw)
		}
	}
	if a := d.Annotations; *a.ReadOnlyHint || !*a.DestructiveHint || !*a.IdempotentHint || *a.OpenWorldHint {
		t.Errorf("annotations %s", mustJSON(a))
	}
}

// TestToolsetIsSwitchedOn: clients of stdio are told that the list has changed.
func TestToolsetIsSwitchedOn(t *testing.T) {
	c, _ := overPipes(t, newTestServer(t, nil), revisions[1])
	told := make(chan string, 16)
	c.OnNotification(func(n protocol.JSONRPCNotification) { told <- n.Method })
	listed := c.ok("toolsets_enable", nil)["toolsets"].([]any)
	if raw, _ := json.Marshal(listed); !strings.Contains(string(raw), `{"about":"the steps of the scenario kill-and-recover","on":false`) {
		t.Fatalf("%s", raw)
	}
	body := c.fails("toolsets_enable", map[string]any{"toolset": "kill-and-recovr"}, codeInvalidArgument)
	if !strings.Contains(body["message"].(string), "did you mean kill-and-recover?") {
		t.Errorf("%v", body)
	}
	added := c.ok("toolsets_enable", map[string]any{"toolset": "kill-and-recover"})["added"].([]any)
	if len(added) == 0 || len(c.ok("toolsets_enable", map[string]any{"toolset": "kill-and-recover"})["added"].([]any)) != 0 {
		t.Errorf("added %v, and again", added)
	}
	select {
	case method := <-told:
		if method != "notifications/tools/list_changed" {
			t.Errorf("told %s", method)
		}
	case <-time.After(10 * time.Second):
		t.Error("the client was not told")
	}
	if body := c.fails("kill_and_recover_kills", nil, codeRunUnknown); body["fix"].(map[string]any)["tool"] != "scenario_start" {
		t.Errorf("without a run: %v", body)
	}
}

// TestStepsOfAForeignClusterAreRefused: a run on a cluster that others use is a
// person's.
func TestStepsOfAForeignClusterAreRefused(t *testing.T) {
	s := newTestServer(t, nil)
	dir := filepath.Join(s.config.RunsDir, "theirs")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	record := `{"schema_version":1,"run_id":"theirs","scenario":"broker-scaling","setup":"attach","verdict":"running","runner":{"pid":4194999,"started":"1"}}`
	if err := os.WriteFile(filepath.Join(dir, runFile), []byte(record), 0o644); err != nil {
		t.Fatal(err)
	}
	c, _ := overPipes(t, s, revisions[1])
	c.fails("scenario_step", map[string]any{"run_id": "theirs", "step": "cluster"}, codeRunNotContained)
	c.fails("scenario_resume", map[string]any{"run_id": "theirs"}, codeRunNotContained)
	if err := os.WriteFile(filepath.Join(dir, runFile), []byte(strings.Replace(record, "attach", "process", 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	state := `{"schema_version":1,"state":"paused","pause":{"number":1,"step":"cluster"},"steps_left":["cluster"]}`
	if err := os.WriteFile(filepath.Join(dir, stateFile), []byte(state), 0o644); err != nil {
		t.Fatal(err)
	}
	c.fails("scenario_step", map[string]any{"run_id": "theirs", "step": "cluster"}, codeRunAbandoned)
	if err := os.RemoveAll(dir); err != nil { // there is no runner to end
		t.Fatal(err)
	}
}
