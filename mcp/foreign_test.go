package mcp

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// foreign is a client that has nothing in common with the server: the official
// SDK, where the server is made with mcp-go.
type foreign struct {
	t       *testing.T
	session *mcp.ClientSession
}

func connectForeign(t *testing.T, over mcp.Transport) *foreign {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	session, err := mcp.NewClient(&mcp.Implementation{Name: "foreign", Version: "1"}, nil).Connect(ctx, over, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = session.Close() })
	return &foreign{t, session}
}

func (f *foreign) tools() []string {
	f.t.Helper()
	var names []string
	for one, err := range f.session.Tools(f.t.Context(), nil) {
		if err != nil {
			f.t.Fatal(err)
		}
		if one.Annotations == nil || one.OutputSchema == nil {
			f.t.Errorf("%s lacks annotations or an output schema", one.Name)
		}
		names = append(names, one.Name)
	}
	return names
}

func (f *foreign) call(name string, args map[string]any) (body map[string]any, isError bool) {
	f.t.Helper()
	began := time.Now()
	result, err := f.session.CallTool(f.t.Context(), &mcp.CallToolParams{Name: name, Arguments: args})
	if err != nil {
		f.t.Fatalf("%s: %v", name, err)
	}
	text := result.Content[0].(*mcp.TextContent).Text
	if took := time.Since(began); took > CallMax || len(text) > ResultMax {
		f.t.Errorf("%s took %s and gave %d bytes", name, took, len(text))
	}
	if err := json.Unmarshal([]byte(text), &body); err != nil {
		f.t.Fatalf("%s: %v: %s", name, err, text)
	}
	return body, result.IsError
}

func (f *foreign) ok(name string, args map[string]any) map[string]any {
	f.t.Helper()
	body, isError := f.call(name, args)
	if isError {
		f.t.Fatalf("%s %v: %v", name, args, body)
	}
	return body
}

func (f *foreign) fails(name string, args map[string]any, code string) map[string]any {
	f.t.Helper()
	body, isError := f.call(name, args)
	if !isError || body["code"] != code || body["got"] == "" || body["expected"] == "" {
		f.t.Fatalf("%s %v: isError %v, %v; want %s", name, args, isError, body, code)
	}
	return body
}

// fix does what an error says repairs.
func (f *foreign) fix(body map[string]any) map[string]any {
	f.t.Helper()
	fix, _ := body["fix"].(map[string]any)
	if fix == nil {
		f.t.Fatalf("no fix: %v", body)
	}
	args, _ := fix["args"].(map[string]any)
	return f.ok(fix["tool"].(string), args)
}

// bearer puts the token on every request.
type bearer string

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}

func foreignHTTP(t *testing.T, url string) *foreign {
	t.Helper()
	return connectForeign(t, &mcp.StreamableClientTransport{Endpoint: url, HTTPClient: &http.Client{Transport: bearer(testToken)}})
}

// drive is how an agent that knows only what the server tells it does a scenario
// step by step: wrong at first, cut off in the middle, and then from elsewhere.
type drive struct {
	scenario string
	start    map[string]any
	cutAt    string // the step at which the first client goes away
	stdio    func() *foreign
	http     func() *foreign
	runsDir  string
}

func (d drive) run(t *testing.T) {
	f := d.stdio()
	if n := len(f.tools()); n > 40 {
		t.Fatalf("%d tools", n)
	}
	if steps := f.ok("scenario_plan", map[string]any{"scenario": d.scenario})["steps"].([]any); len(steps) == 0 {
		t.Fatal("an empty plan")
	}
	if shown := f.fix(f.fails("scenario_show", map[string]any{"scenario_id": d.scenario}, codeUnknownArgument)); shown["id"] != d.scenario {
		t.Errorf("corrected: %v", shown)
	}
	f.fails("scenario_start", map[string]any{"scenario": d.scenario, "pause": "always"}, codeInvalidArgument)
	args := map[string]any{"scenario": d.scenario, "pause": "each"}
	for name, value := range d.start {
		args[name] = value
	}
	began := f.ok("scenario_start", args)
	id := began["run_id"].(string)
	next := began["next_step"].(map[string]any)
	if waited := f.ok("scenario_wait", map[string]any{"run_id": id}); waited["paused"] != true {
		waited = f.ok("scenario_wait", map[string]any{"run_id": id, "after_seq": waited["last_seq"]})
		if waited["paused"] != true {
			t.Fatalf("not paused: %v", waited)
		}
	}
	next = d.steps(t, f, id, next, func(next map[string]any) string { return "scenario_step" })
	if next == nil || next["step"] != d.cutAt {
		t.Fatalf("came to %v, want %s", next, d.cutAt)
	}
	// An order is given and the client is gone before its step is over.
	f.ok("scenario_step", map[string]any{"run_id": id, "step": d.cutAt, "max_wait_s": 0})
	if err := f.session.Close(); err != nil {
		t.Logf("close: %v", err)
	}

	f = d.http()
	done := map[string]any{}
	for range 20 {
		if done = f.ok("scenario_step", map[string]any{"run_id": id, "step": d.cutAt}); done["step_status"] == stepOK {
			break
		}
	}
	if done["recorded"] != true {
		t.Errorf("the step that was under way was done again: %v", done)
	}
	next, d.cutAt = done["next_step"].(map[string]any), ""
	if d.steps(t, f, id, next, func(next map[string]any) string { return next["tool"].(string) }) != nil {
		t.Fatal("it stopped early")
	}
	for range 20 {
		if f.ok("scenario_wait", map[string]any{"run_id": id, "until": "end", "after_seq": 1 << 40})["ended"] == true {
			break
		}
	}
	report := f.ok("scenario_report", map[string]any{"run_id": id})
	if report["verdict"] != "pass" || report["criteria_failed"] != 0.0 {
		t.Errorf("report: %v, failures %v", report["summary"], report["failures"])
	}
}

// steps does what next_step says until there is none, or the step to be cut at.
func (d drive) steps(t *testing.T, f *foreign, id string, next map[string]any, tool func(map[string]any) string) map[string]any {
	t.Helper()
	for next != nil && next["step"] != d.cutAt {
		args := map[string]any{"run_id": id}
		name := tool(next)
		if name == "scenario_step" {
			args["step"] = next["step"]
		}
		if next["risk"] == string(Destructive) {
			d.refusedWithoutPlan(t, f, id, name, args)
		}
		body := map[string]any{}
		for body["step_status"] != stepOK {
			var isError bool
			if body, isError = f.call(name, args); isError {
				if body["code"] != codePlanRequired {
					t.Fatalf("%s: %v", name, body)
				}
				args = body["fix"].(map[string]any)["args"].(map[string]any)
			}
		}
		next, _ = body["next_step"].(map[string]any)
	}
	return next
}

// refusedWithoutPlan tries a destructive step without a plan_id, and with the one
// of a plan that somebody has made stale.
func (d drive) refusedWithoutPlan(t *testing.T, f *foreign, id, name string, args map[string]any) {
	t.Helper()
	body := f.fails(name, args, codePlanRequired)
	late := body["fix"].(map[string]any)["args"].(map[string]any)
	state, err := loadState(d.runsDir + "/" + id)
	if err != nil {
		t.Fatal(err)
	}
	drift(t, state.Pause.Admin[0])
	stale := f.fails(name, late, codePlanDrifted)
	if again := stale["fix"].(map[string]any); again["tool"] != name || again["args"].(map[string]any)["plan_id"] != nil {
		t.Errorf("the fix of a stale plan: %v", again)
	}
}

func TestAForeignClientDrivesAScenario(t *testing.T) {
	dir := t.TempDir()
	endRuns(t, dir)
	drive{
		scenario: "kill-and-recover", start: map[string]any{"params": map[string]string{"partitions": "1", "rate": "100"}, "seed": 7}, cutAt: "load", runsDir: dir,
		stdio: func() *foreign {
			self, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			return connectForeign(t, &mcp.CommandTransport{Command: exec.Command(self, roleCommand, "--runs-dir", dir)})
		},
		http: func() *foreign {
			s := onFakeCluster(t, func(c *Config) {
				c.RunsDir, c.Filter.Toolsets = dir, []string{toolsetDefault, "kill-and-recover"}
			})
			handler, err := s.Handler(HTTPOptions{Token: testToken})
			if err != nil {
				t.Fatal(err)
			}
			h := httptest.NewServer(handler)
			t.Cleanup(h.Close)
			f := foreignHTTP(t, h.URL+Path)
			if names := strings.Join(f.tools(), " "); !strings.Contains(names, "kill_and_recover_kills") || strings.Contains(names, "toolsets_enable") {
				t.Errorf("tools %s", names)
			}
			return f
		},
	}.run(t)
}
