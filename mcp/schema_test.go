package mcp

import (
	"bytes"
	"slices"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// checkResult holds a result to the output schema of its tool, which also names
// every field of it. The schemas of step tools are in fewer words.
func checkResult(t *testing.T, row *tool, body map[string]any) {
	t.Helper()
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(row.outputSchema()))
	if err != nil {
		t.Fatal(err)
	}
	if slices.Contains(Toolsets, row.toolset) {
		object := document.(map[string]any)
		object["additionalProperties"] = false
		properties := object["properties"].(map[string]any)
		properties["shortened"] = map[string]any{"type": "boolean"} // of a result that was cut
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("result.json", document); err != nil {
		t.Fatal(err)
	}
	compiled, err := compiler.Compile("result.json")
	if err != nil {
		t.Fatalf("%s: %v", row.name, err)
	}
	if err := compiled.Validate(any(body)); err != nil {
		t.Errorf("%s: %v", row.name, err)
	}
}

// TestEveryResultIsAsItsSchemaSays calls every tool but those of steps; call holds
// the results to their schemas.
func TestEveryResultIsAsItsSchemaSays(t *testing.T) {
	cluster := newStub(t)
	s := newTestServer(t, func(c *Config) {
		c.Endpoints, c.Filter.Toolsets = []string{cluster.url}, nil
	})
	s.enable(toolsetNamespaces)
	c, _ := overPipes(t, s, revisions[1])
	run := map[string]any{"run_id": "one"}
	// In an order in which there is something to tell.
	order := []struct {
		tool string
		args map[string]any
	}{
		{"scenario_list", nil}, {"scenario_show", map[string]any{"scenario": "delivery-check"}}, {"scenario_plan", map[string]any{"scenario": "broker-scaling"}},
		{startName, map[string]any{"scenario": "kill-and-recover", "run_id": "one", "pause": "each"}}, {startName, map[string]any{"scenario": "kill-and-recover", "run_id": "one"}},
		{"scenario_wait", map[string]any{"run_id": "one", "max_wait_s": 0}}, {"scenario_status", nil}, {"scenario_logs", run}, {"scenario_report", run},
		{"scenario_stop", run}, {"scenario_wait", map[string]any{"run_id": "one", "until": "end", "after_seq": 1 << 40}}, {"scenario_report", run}, {"scenario_report", map[string]any{"run_id": "one", "section": "steps"}},
		{"scenario_step", map[string]any{"run_id": "one", "step": "cluster"}}, {"scenario_resume", run}, {"toolsets_enable", nil}, {"toolsets_enable", map[string]any{"toolset": "soak"}}, {"diagnose_machine", nil},
	}
	called := map[string]bool{}
	for _, one := range order {
		c.ok(one.tool, one.args)
		called[one.tool] = true
	}
	for _, row := range table() {
		if called[row.name] {
			continue
		}
		body := c.ok(row.name, plausible[row.name])
		if body["status"] == statusPlanned {
			next := body["next"].([]any)[0].(map[string]any)
			c.ok(row.name, next["args"].(map[string]any))
		}
	}
}
