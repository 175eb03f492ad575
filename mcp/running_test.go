package mcp

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	protocol "github.com/mark3labs/mcp-go/mcp"
)

// finish waits for a run from a seq on, as an agent does, and returns every seq.
func finish(c *connected, run string, after float64) (seqs []float64, last map[string]any) {
	c.t.Helper()
	for range 100 {
		last = c.ok("scenario_wait", map[string]any{"run_id": run, "after_seq": after, "max_wait_s": 5})
		for _, e := range last["events"].([]any) {
			seqs = append(seqs, e.(map[string]any)["seq"].(float64))
		}
		if last["last_seq"].(float64) < after {
			c.t.Fatalf("last_seq went back from %v to %v", after, last["last_seq"])
		}
		after = last["last_seq"].(float64)
		if last["ended"] == true {
			return seqs, last
		}
		if last["paused"] == true {
			c.t.Fatalf("it pauses: %v", last["pause"])
		}
	}
	c.t.Fatal("the run does not end")
	return nil, nil
}

// TestRunOutlivesClientAndServer starts a run from one process, ends that process
// in the middle of a wait, and goes on from another one, over another transport.
func TestRunOutlivesClientAndServer(t *testing.T) {
	dir := t.TempDir()
	s := newTestServer(t, func(c *Config) { c.RunsDir = dir })
	c, end := overPipes(t, s, revisions[0])
	started := time.Now()
	run := c.ok("scenario_start", map[string]any{"scenario": "kill-and-recover", "params": map[string]any{"rounds": "1"}, "seed": 7})
	if took := time.Since(started); took > startMax {
		t.Errorf("the start took %s", took)
	}
	if run["command"] != "scenario run kill-and-recover --param rounds=1 --seed 7" {
		t.Errorf("command %v", run["command"])
	}
	id := run["run_id"].(string)
	first := c.ok("scenario_wait", map[string]any{"run_id": id, "until": "event"})
	if first["more"] != true || first["ended"] != false || first["events"].([]any)[0].(map[string]any)["seq"] != 1.0 {
		t.Errorf("the first news: %v", first["summary"])
	}
	_, record, err := s.findRun(id)
	if err != nil {
		t.Fatal(err)
	}
	if group, err := syscall.Getpgid(record.Runner.PID); err != nil || group != record.Runner.PID {
		t.Errorf("the runner is in group %d, %v", group, err)
	}
	waiting := make(chan error, 1)
	go func() {
		_, err := c.try(t.Context(), "scenario_wait", map[string]any{"run_id": id, "after_seq": 100000})
		waiting <- err
	}()
	end() // also in the middle of that wait
	s.Close()

	again := overProcess(t, revisions[2], "--runs-dir", dir)
	status := again.ok("scenario_status", map[string]any{"run_id": "last"})["runs"].([]any)[0].(map[string]any)
	if status["run_id"] != id || status["live"] != true || status["ended"] != false {
		t.Fatalf("status %v", status)
	}
	release(t, dir)
	seqs, last := finish(again, id, first["last_seq"].(float64))
	if last["verdict"] != "fail" || seqs[len(seqs)-1] != 304 {
		t.Errorf("ended with %v at %v", last["verdict"], seqs[len(seqs)-1])
	}
	for i := 1; i < len(seqs); i++ {
		if seqs[i] <= seqs[i-1] {
			t.Fatalf("seq %v after %v", seqs[i], seqs[i-1])
		}
	}
	report := again.ok("scenario_report", map[string]any{"run_id": id})
	rows := report["rows"].([]any)
	if report["verdict"] != "fail" || report["criteria_failed"] != 1.0 || len(rows) != 3 || rows[0].(map[string]any)["id"] != "lost" || report["failures"] == nil {
		t.Errorf("report %v", report)
	}
	if steps := again.ok("scenario_report", map[string]any{"run_id": id, "section": "steps"})["rows"].([]any); len(steps) != 1 {
		t.Errorf("steps %v", steps)
	}
	if err := <-waiting; err == nil {
		t.Log("the wait that was cut off got an answer first")
	}
}

// TestStartedRunsAreContained: a tool starts no run on somebody's cluster, and
// gives no secret to what it starts.
func TestStartedRunsAreContained(t *testing.T) {
	if got := ownClusters([]string{"process", attached, "container"}); strings.Join(got, " ") != "process container" {
		t.Errorf("setups %v", got)
	}
	t.Setenv(TokenVariable, testToken)
	s := newTestServer(t, nil)
	c, _ := overPipes(t, s, revisions[1])
	c.fails("scenario_start", map[string]any{"scenario": "kill-and-recover", "setup": attached}, codeInvalidArgument)
	id := c.ok("scenario_start", map[string]any{"scenario": "kill-and-recover"})["run_id"].(string)
	_, record, err := s.findRun(id)
	if err != nil {
		t.Fatal(err)
	}
	environment, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", record.Runner.PID))
	if err == nil && strings.Contains(string(environment), testToken) { // only where there is a /proc
		t.Error("the runner was given the token")
	}
}

func TestStopEndsTheRun(t *testing.T) {
	s := newTestServer(t, nil)
	c, _ := overHTTP(t, s, revisions[2])
	id := c.ok("scenario_start", map[string]any{"scenario": "broker-scaling", "aspects": []string{"scale-up"}})["run_id"].(string)
	stopped := c.ok("scenario_stop", map[string]any{"run_id": id})
	if stopped["verdict"] != "interrupted" || stopped["ended"] != true || stopped["live"] != false {
		t.Errorf("stopped: %v", stopped)
	}
	if again := c.ok("scenario_stop", map[string]any{"run_id": id}); again["verdict"] != "interrupted" {
		t.Errorf("again: %v", again)
	}
}

func TestRunsAtTheSameTimeAreBounded(t *testing.T) {
	c, _ := overPipes(t, newTestServer(t, nil), revisions[1])
	start := map[string]any{"scenario": "kill-and-recover"}
	for range liveRunsMax {
		c.ok("scenario_start", start)
	}
	c.fails("scenario_start", start, "TOO_MANY_RUNS")
	if runs := c.ok("scenario_status", nil)["runs"].([]any); len(runs) != liveRunsMax {
		t.Errorf("%d runs", len(runs))
	}
}

// TestAbandonedRunIsNotRunning: a record that says running, of a runner that is
// gone.
func TestAbandonedRunIsNotRunning(t *testing.T) {
	s := newTestServer(t, nil)
	dir := filepath.Join(s.config.RunsDir, "20260101-000000-kill-and-recover")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	record := `{"schema_version":1,"run_id":"20260101-000000-kill-and-recover","scenario":"kill-and-recover","verdict":"running","runner":{"pid":4194999,"started":"1"}}`
	if err := os.WriteFile(filepath.Join(dir, runFile), []byte(record), 0o644); err != nil {
		t.Fatal(err)
	}
	c, _ := overPipes(t, s, revisions[1])
	if waited := c.ok("scenario_wait", map[string]any{"run_id": "last"}); waited["verdict"] != "abandoned" || waited["ended"] != true {
		t.Errorf("waited %v", waited)
	}
	newer := strings.Replace(record, `"schema_version":1`, `"schema_version":2`, 1)
	if err := os.WriteFile(filepath.Join(dir, runFile), []byte(newer), 0o644); err != nil {
		t.Fatal(err)
	}
	if body := c.fails("scenario_report", map[string]any{"run_id": "last"}, codeInternal); !strings.Contains(body["message"].(string), "schema version 2") {
		t.Errorf("a newer record: %v", body)
	}
}

func TestLogsAreReadForwardsAndFromTheEnd(t *testing.T) {
	s := newTestServer(t, nil)
	c, _ := overPipes(t, s, revisions[1])
	id := c.ok("scenario_start", map[string]any{"scenario": "kill-and-recover"})["run_id"].(string)
	tail := c.ok("scenario_logs", map[string]any{"run_id": id, "source": "b1", "lines": 3})
	lines := tail["lines"].([]any)
	if len(lines) != 3 || lines[2] != "the last line" || tail["more"] != false {
		t.Errorf("tail %v", tail)
	}
	count, cursor := 0, "0"
	for more := true; more; {
		page := c.ok("scenario_logs", map[string]any{"run_id": id, "source": "b1", "lines": 200, "cursor": cursor})
		count += len(page["lines"].([]any))
		cursor, more = page["next_cursor"].(string), page["more"].(bool)
	}
	if count != 501 || cursor != tail["next_cursor"] {
		t.Errorf("%d lines up to %s", count, cursor)
	}
	if runner := c.ok("scenario_logs", map[string]any{"run_id": id})["lines"].([]any); len(runner) != 1 || runner[0] != "the runner has begun" {
		t.Errorf("runner %v", runner)
	}
	c.fails("scenario_logs", map[string]any{"run_id": id, "source": "b9"}, codeInvalidArgument)
	c.fails("scenario_logs", map[string]any{"run_id": id, "source": "b1", "cursor": "99999999"}, codeInvalidArgument)
}

func TestResourcesPromptsAndCompletions(t *testing.T) {
	dir := t.TempDir()
	c := overProcess(t, revisions[1], "--runs-dir", dir)
	s := newTestServer(t, func(config *Config) { config.RunsDir = dir })
	starter, _ := overPipes(t, s, revisions[1])
	id := starter.ok("scenario_start", map[string]any{"scenario": "kill-and-recover"})["run_id"].(string)
	read := func(uri string) (string, error) {
		request := protocol.ReadResourceRequest{}
		request.Params.URI = uri
		result, err := c.ReadResource(t.Context(), request)
		if err != nil {
			return "", err
		}
		return result.Contents[0].(protocol.TextResourceContents).Text, nil
	}
	if _, err := read("run://" + id + "/summary.md"); err == nil || !strings.Contains(err.Error(), "running") {
		t.Errorf("a summary before the end: %v", err)
	}
	release(t, dir)
	finish(starter, id, 0)
	starter.ok("scenario_report", map[string]any{"run_id": id}) // its result is held to its schema
	starter.ok("scenario_status", nil)
	for uri, has := range map[string]string{
		"scenario://broker-scaling": `"criteria"`, "run://" + id + "/report.json": `"verdict":"fail"`, "run://" + id + "/summary.md": "# fake: FAIL",
		"run://last/summary.md": "# fake", "skill://mcp/SKILL.md": "# Ister over MCP", "skill://broker-scaling/SKILL.md": "# Broker scaling", "skill://ister/SKILL.md": "which skill for what",
		"skill://compose/compose.yaml": "services:", "skill://python/SKILL.md": "name: python",
	} {
		if text, err := read(uri); err != nil || !strings.Contains(text, has) {
			t.Errorf("%s: %v, %.60s", uri, err, text)
		}
	}
	for _, uri := range []string{"run://../summary.md", "run://nope/report.json", "skill://nope/SKILL.md", "skill://compose/..", "skill://compose/../process/SKILL.md", "skill://compose/none.yaml", "skill://ister", "scenario://nope", "run://last/..", "run://" + id + "/repro.sh", "file:///etc/passwd"} {
		if text, err := read(uri); err == nil {
			t.Errorf("%s was read: %.60s", uri, text)
		}
	}
	list, err := c.ListResources(t.Context(), protocol.ListResourcesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{}
	for _, r := range list.Resources {
		listed[r.URI] = r.Description != ""
	}
	files, err := filepath.Glob("../*/*/SKILL.md")
	if err != nil || len(files) < 15 {
		t.Fatal(files, err)
	}
	for _, file := range append(files, "SKILL.md", "../mcp/SKILL.md") {
		name := filepath.Base(filepath.Dir(file))
		if file == "SKILL.md" {
			name = "ister"
		}
		if !listed["skill://"+name+"/SKILL.md"] {
			t.Errorf("%s is not listed", file)
		}
	}
	prompts, err := c.ListPrompts(t.Context(), protocol.ListPromptsRequest{})
	if err != nil || !slices.ContainsFunc(prompts.Prompts, func(p protocol.Prompt) bool { return p.Name == "run-kill-and-recover" }) {
		t.Fatalf("prompts %v, %v", prompts, err)
	}
	ask := func(args map[string]string) (string, error) {
		request := protocol.GetPromptRequest{}
		request.Params.Name, request.Params.Arguments = "run-broker-scaling", args
		result, err := c.GetPrompt(t.Context(), request)
		if err != nil {
			return "", err
		}
		return result.Messages[0].Content.(protocol.TextContent).Text, nil
	}
	if text, err := ask(nil); err != nil || !strings.Contains(text, "Which part?") || !strings.Contains(text, `{"scenario":"broker-scaling"}`) {
		t.Errorf("open prompt: %v\n%s", err, text)
	}
	if text, err := ask(map[string]string{"aspect": "scale-up"}); err != nil || strings.Contains(text, "Which part?") || !strings.Contains(text, `"aspects":["scale-up"]`) {
		t.Errorf("settled prompt: %v\n%s", err, text)
	}
	if text, err := ask(map[string]string{"pace": "step-by-step"}); err != nil || !strings.Contains(text, `"pause":"each"`) || strings.Contains(text, "All at once") {
		t.Errorf("step by step: %v\n%s", err, text)
	}
	if _, err := ask(map[string]string{"aspect": "scale-upp"}); err == nil || !strings.Contains(err.Error(), "did you mean scale-up?") {
		t.Errorf("wrong aspect: %v", err)
	}
	complete := func(ref any, name, given string) []string {
		request := protocol.CompleteRequest{}
		request.Params.Context.Arguments = map[string]string{"name": "compose"}
		request.Params.Ref, request.Params.Argument = ref, protocol.CompleteArgument{Name: name, Value: given}
		result, err := c.Complete(t.Context(), request)
		if err != nil {
			t.Fatal(err)
		}
		return result.Completion.Values
	}
	// Scenarios and setups that come later are covered by themselves.
	all, err := s.scenarioList(t.Context())
	if err != nil || len(all) != len(prompts.Prompts) {
		t.Fatalf("%d scenarios, %d prompts, %v", len(all), len(prompts.Prompts), err)
	}
	for _, one := range all {
		prompt := protocol.PromptReference{Type: "ref/prompt", Name: promptPrefix + one.ID}
		if got := complete(prompt, "setup", ""); !slices.Equal(got, ownClusters(one.Setups)) {
			t.Errorf("setups of %s: %v", one.ID, got)
		}
		if got := complete(prompt, "aspect", ""); !slices.Equal(got, one.Aspects) {
			t.Errorf("aspects of %s: %v", one.ID, got)
		}
		if got := complete(protocol.ResourceReference{Type: "ref/resource", URI: templateScenario}, "id", one.ID); !slices.Contains(got, one.ID) {
			t.Errorf("scenario %s is not completed: %v", one.ID, got)
		}
		if _, err := read("scenario://" + one.ID); err != nil {
			t.Errorf("scenario %s: %v", one.ID, err)
		}
		if _, err := read("skill://" + one.ID + "/SKILL.md"); err != nil {
			t.Errorf("skill of %s: %v", one.ID, err)
		}
	}
	for _, q := range []struct {
		ref         any
		name, given string
		want        string
	}{
		{protocol.PromptReference{Type: "ref/prompt", Name: "run-broker-scaling"}, "aspect", "scale", "scale-up scale-down"},
		{protocol.ResourceReference{Type: "ref/resource", URI: templateScenario}, "id", "kill", "kill-and-recover"},
		{protocol.ResourceReference{Type: "ref/resource", URI: templateReport}, "id", "2", id},
		{protocol.ResourceReference{Type: "ref/resource", URI: templateSkill}, "name", "mc", "mcp"},
		{protocol.ResourceReference{Type: "ref/resource", URI: templateSkill}, "file", "com", "compose.yaml"},
	} {
		if got := complete(q.ref, q.name, q.given); strings.Join(got, " ") != q.want {
			t.Errorf("%s %s: %v, want %s", q.name, q.given, got, q.want)
		}
	}
}
