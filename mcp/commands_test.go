package mcp

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// ofACommand is a start whose run would have a shell run what the client says.
func ofACommand(command string) map[string]any {
	return map[string]any{"scenario": "delivery-check", "params": map[string]any{"during": command, "watch": "1s"}}
}

// TestNoShellRunsWhatAClientSays unless who started the server allows it; and
// what is left is contained.
func TestNoShellRunsWhatAClientSays(t *testing.T) {
	for name, filter := range map[string]Filter{
		"by default": {}, "no destructive": {NoDestructive: true}, "no destructive outranks": {NoDestructive: true, AllowCommands: true},
	} {
		s := newTestServer(t, func(c *Config) { c.Filter = filter })
		c, _ := overPipes(t, s, revisions[1])
		body := c.fails("scenario_start", ofACommand("touch /tmp/x"), codeCommands)
		if !strings.Contains(body["expected"].(string), "--allow-commands") || !strings.Contains(body["advice"].(string), "scenario run delivery-check --param during=") {
			t.Errorf("%s: %v", name, body)
		}
		c.fails("scenario_start", map[string]any{"scenario": "delivery-check", "params": map[string]any{"during": " "}, "run_id": "blank", "pause": "each"}, codeCommands)
		c.fails("scenario_start", map[string]any{"scenario": "delivery-check", "params": map[string]any{"during=touch /tmp/x #": "y"}}, codeInvalidArgument)
		if runs, err := s.runIDs(); err != nil || len(runs) > 0 {
			t.Fatalf("%s: started %v, %v", name, runs, err)
		}
		fix := body["fix"].(map[string]any)
		args := fix["args"].(map[string]any)
		if params := args["params"].(map[string]any); params["during"] != nil || params["watch"] != "1s" {
			t.Fatalf("%s: the fix keeps %v", name, params)
		}
		c.ok(fix["tool"].(string), args)
		if d := s.tools[startName].definition(); *d.Annotations.DestructiveHint || strings.Contains(string(d.RawInputSchema), "plan_id") {
			t.Errorf("%s: annotated %s", name, mustJSON(d))
		}
	}
	if s := newTestServer(t, func(c *Config) { c.Filter = Filter{ReadOnly: true, AllowCommands: true} }); s.offers(startName) {
		t.Error("read-only starts runs")
	}
}

// TestAllowedCommandsNeedAPlan, which starts one run.
func TestAllowedCommandsNeedAPlan(t *testing.T) {
	s := newTestServer(t, func(c *Config) { c.Filter.AllowCommands = true })
	c, _ := overPipes(t, s, revisions[2])
	if d := s.tools[startName].definition(); !*d.Annotations.DestructiveHint || !strings.Contains(string(d.RawInputSchema), "plan_id") {
		t.Errorf("annotated %s", mustJSON(d))
	}
	c.ok("scenario_start", map[string]any{"scenario": "delivery-check"}) // no command, no plan
	body := c.fails("scenario_start", ofACommand("touch a"), codePlanRequired)
	if effect := body["plan"].(map[string]any)["effect"].(map[string]any); effect["a_shell_runs"].(map[string]any)["during"] != "touch a" {
		t.Errorf("the plan shows %v", effect)
	}
	planned := body["fix"].(map[string]any)["args"].(map[string]any)
	other := ofACommand("touch b")
	other["plan_id"] = planned["plan_id"]
	c.fails("scenario_start", other, codePlanArguments)
	if runs, err := s.runIDs(); err != nil || len(runs) != 1 {
		t.Fatalf("started %v, %v", runs, err)
	}
	c.ok("scenario_start", planned)
	again := c.fails("scenario_start", planned, codePlanDrifted)["fix"].(map[string]any)
	if again["tool"] != startName || again["args"].(map[string]any)["plan_id"] != nil {
		t.Errorf("a plan that was used: %v", again)
	}
	if runs, err := s.runIDs(); err != nil || len(runs) != 2 {
		t.Fatalf("started %v, %v", runs, err)
	}
}

// TestARunWithACommandIsGoneOnWithByItsPerson, or where commands are allowed.
func TestARunWithACommandIsGoneOnWithByItsPerson(t *testing.T) {
	for allowed, code := range map[bool]string{false: codeCommands, true: codeRunAbandoned} {
		s := newTestServer(t, func(c *Config) { c.Filter.AllowCommands = allowed })
		dir := filepath.Join(s.config.RunsDir, "theirs")
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		for name, text := range map[string]string{
			runFile:   `{"schema_version":1,"run_id":"theirs","scenario":"delivery-check","setup":"process","verdict":"running","params":{"during":"touch x"},"runner":{"pid":4194999,"started":"1"}}`,
			stateFile: `{"schema_version":1,"state":"paused","pause":{"number":1,"step":"changed"},"steps_left":["changed"]}`,
		} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		c, _ := overPipes(t, s, revisions[1])
		body := c.fails("scenario_step", map[string]any{"run_id": "theirs", "step": "changed"}, code)
		if advice, _ := body["advice"].(string); !allowed && !strings.Contains(advice, "scenario step theirs") {
			t.Errorf("%v", body)
		}
		if !allowed {
			c.fails("scenario_resume", map[string]any{"run_id": "theirs"}, code)
		}
		if err := os.RemoveAll(dir); err != nil { // there is no runner to end
			t.Fatal(err)
		}
	}
}
