package mcp

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// piped sends lines and the end of the input at once, and returns the answers by
// their id.
func piped(t *testing.T, s *Server, input string) map[string]map[string]any {
	t.Helper()
	var out bytes.Buffer
	if err := s.ServeStdio(t.Context(), strings.NewReader(input), &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	return answersOf(t, out.String())
}

func answersOf(t *testing.T, text string) map[string]map[string]any {
	t.Helper()
	answers := map[string]map[string]any{}
	for line := range strings.Lines(text) {
		one := map[string]any{}
		if err := json.Unmarshal([]byte(line), &one); err != nil || one["jsonrpc"] != "2.0" {
			t.Fatalf("not of the protocol: %s", line)
		}
		if one["method"] == nil {
			var id struct {
				ID json.RawMessage `json:"id"`
			}
			_ = json.Unmarshal([]byte(line), &id) // it was read above
			answers[string(id.ID)] = one
		}
	}
	return answers
}

// TestWhatIsPipedInIsAnswered: the end of the input comes with the requests, and
// each gets what it earned all the same, the one that waits too.
func TestWhatIsPipedInIsAnswered(t *testing.T) {
	cluster := newStub(t)
	s := newTestServer(t, func(c *Config) { c.Endpoints = []string{cluster.url} })
	c, end := overPipes(t, s, revisions[1])
	c.ok("scenario_start", map[string]any{"scenario": "kill-and-recover", "run_id": "one"})
	end()
	answers := piped(t, s, `
{"jsonrpc":"2.0","id":1,"method":"tools/list"}
{"jsonrpc":"2.0","id":"two","method":"tools/call","params":{"name":"cluster_status","arguments":{}}}
{"jsonrpc":"2.0","id":3.0,"method":"tools/call","params":{"name":"scenario_wait","arguments":{"run_id":"one","after_seq":100000,"max_wait_s":1}}}

{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":9}}
{"jsonrpc":"2.0","id":4,"method":"resources/read","params":{"uri":"skill://mcp/SKILL.md"}}`)
	for id, has := range map[string]string{"1": "scenario_start", `"two"`: "9007199254740993", "3": "The run goes on", "4": "# Ister over MCP"} {
		if raw, _ := json.Marshal(answers[id]["result"]); !strings.Contains(string(raw), has) || strings.Contains(string(raw), codeInterrupted) {
			t.Errorf("%s: %.300s", id, raw)
		}
	}
	if len(answers) != 4 {
		t.Errorf("%d answers", len(answers))
	}
}

// TestOddInputIsAnsweredOnce: what is no request does not hold the end up.
func TestOddInputIsAnsweredOnce(t *testing.T) {
	s := newTestServer(t, nil)
	for name, c := range map[string]struct{ input, id, says string }{
		"nothing":      {"", "", ""},
		"no JSON":      {"hello\n", "null", "Parse error"},
		"too long":     {strings.Repeat("x", 3*requestMax) + "\n" + `{"jsonrpc":"2.0","id":1,"method":"ping"}`, "null", "longer than 1048576 bytes"},
		"cut off":      {strings.Repeat("x", 3*requestMax), "null", "longer than"},
		"a batch":      {` [{"jsonrpc":"2.0","id":1,"method":"ping"}]`, "null", "one request at a time"},
		"a typo":       {`{"jsonrpc":"2.0","id":9007199254740993,"method":"tools/call","params":{"name":"scenario_strat"}}`, "9007199254740993", "did you mean scenario_start?"},
		"an off tool":  {`{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"broker_scaling_topics"}}`, `"x"`, `"fix":{"args":{"toolset":"broker-scaling"},"tool":"toolsets_enable"`},
		"notification": {`{"jsonrpc":"2.0","method":"notifications/initialized"}`, "", ""},
		"an answer":    {`{"jsonrpc":"2.0","id":7,"result":{}}`, "", ""},
		"no method":    {`{"jsonrpc":"2.0","id":8,"method":"tools/make"}`, "8", "tools/make"},
	} {
		answers := piped(t, s, c.input)
		if raw, _ := json.Marshal(answers[c.id]); c.id != "" && (answers[c.id]["error"] == nil || !strings.Contains(string(raw), c.says)) {
			t.Errorf("%s: %v", name, answers)
		}
		if name == "too long" && answers["1"]["result"] == nil {
			t.Errorf("after a line that is too long: %v", answers)
		}
	}
}

// TestCommandEndsWithItsInput: as a process, the way a shell pipes one request in.
func TestCommandEndsWithItsInput(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := exec.Command(self, roleCommand, "--runs-dir", t.TempDir())
	p.Stdin = strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"diagnose_machine"}}`)
	out, err := p.Output()
	if err != nil {
		t.Fatalf("it ended with %v", err)
	}
	if raw, _ := json.Marshal(answersOf(t, string(out))["1"]["result"]); !strings.Contains(string(raw), `"findings"`) {
		t.Errorf("%s", out)
	}
}
