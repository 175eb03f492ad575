package mcp

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	ister "github.com/ister-mq/ister"
	"github.com/ister-mq/ister/admin/adminv1"
	"github.com/ister-mq/ister/admin/client"
	"github.com/ister-mq/ister/scenarios"
)

// TestToolsAreWellFormed holds each row of the table to what clients bear.
func TestToolsAreWellFormed(t *testing.T) {
	steps, err := stepTools()
	if err != nil {
		t.Fatal(err)
	}
	all := append(table(), steps...)
	if n := len(newTestServer(t, nil).tools); n > 40 {
		t.Errorf("%d tools by default: some clients take the first 40 only", n)
	}
	seen := map[string]bool{}
	for _, row := range all {
		if seen[row.name] || !regexp.MustCompile(`^[a-z0-9_]{1,48}$`).MatchString(row.name) {
			t.Errorf("name %q is taken or not well formed", row.name)
		}
		seen[row.name] = true
		d := row.definition()
		a := d.Annotations
		if a.ReadOnlyHint == nil || a.DestructiveHint == nil || a.IdempotentHint == nil || a.OpenWorldHint == nil {
			t.Fatalf("%s: not all annotations are set", row.name)
		}
		if *a.ReadOnlyHint != (row.risk == ReadOnly) || *a.DestructiveHint != row.risk.planned() || *a.OpenWorldHint {
			t.Errorf("%s: annotations do not follow from the risk %s", row.name, row.risk)
		}
		isStep := !slices.Contains(Toolsets, row.toolset)
		if row.run == nil || row.risk.planned() && !isStep != row.planned() || row.result == nil || row.title == "" || len(row.doc) < 20 {
			t.Errorf("%s: the row is not complete", row.name)
		}
		for _, arg := range row.allArguments() {
			if arg.doc == "" {
				t.Errorf("%s: argument %s has no words", row.name, arg.name)
			}
		}
	}
	for reason, r := range repairs {
		if r.tool != "" && !seen[r.tool] {
			t.Errorf("%s is repaired by %s, which is no tool", reason, r.tool)
		}
	}
}

// TestToolSchemas: names and schemas of tools are public. Rewrite the golden with
// go test ./mcp -run TestToolSchemas -rewrite, and say why in CHANGELOG.md.
func TestToolSchemas(t *testing.T) {
	checkSchemas(t, filepath.Join("testdata", "tools.json"), nil)
	checkSchemas(t, filepath.Join("testdata", "optional.json"), optional)
	toolsets, err := filepath.Glob("../scenarios/*/scenario.yaml")
	if err != nil || len(toolsets) < 2 {
		t.Fatal(toolsets, err)
	}
	for _, file := range toolsets {
		name := filepath.Base(filepath.Dir(file))
		checkSchemas(t, filepath.Join("testdata", "steps", name+".json"), []string{name})
	}
	all := newTestServer(t, func(c *Config) { c.Filter.Toolsets = []string{toolsetAll} })
	checkGolden(t, filepath.Join("..", "docs", "reference", "tools.md"), []byte(all.reference()))
}

// checkSchemas holds the tools of toolsets to a golden.
func checkSchemas(t *testing.T, path string, toolsets []string) {
	t.Helper()
	got, err := newTestServer(t, func(c *Config) { c.Filter.Toolsets = toolsets }).Tools()
	if err != nil {
		t.Fatal(err)
	}
	checkGolden(t, path, append(got, '\n'))
}

func checkGolden(t *testing.T, path string, got []byte) {
	t.Helper()
	if *rewrite {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v: make it with go test ./mcp -run TestToolSchemas -rewrite", err)
	}
	if !bytes.Equal(got, want) {
		a, b := strings.Split(string(got), "\n"), strings.Split(string(want), "\n")
		for i := range min(len(a), len(b)) {
			if a[i] != b[i] {
				t.Fatalf("line %d of %s differs:\n got %s\nwant %s", i+1, path, a[i], b[i])
			}
		}
		t.Fatalf("%s has %d lines, want %d", path, len(b), len(a))
	}
}

func TestFilters(t *testing.T) {
	for _, c := range []struct {
		name   string
		filter Filter
		keep   func(*tool) bool
	}{
		{"all", Filter{}, func(*tool) bool { return true }},
		{"read-only", Filter{ReadOnly: true}, func(r *tool) bool { return r.risk == ReadOnly }},
		{"no destructive", Filter{NoDestructive: true}, func(r *tool) bool { return r.risk == ReadOnly || r.risk == Additive || r.risk == Contained }},
		{"read-only outranks", Filter{ReadOnly: true, NoDestructive: true, Toolsets: []string{"topics"}}, func(r *tool) bool { return r.toolset == "topics" && r.risk == ReadOnly }},
		{"toolsets", Filter{Toolsets: []string{"diagnose", "brokers"}}, func(r *tool) bool { return r.toolset == "diagnose" || r.toolset == "brokers" }},
	} {
		want := []string{}
		for _, row := range table() {
			if c.keep(&row) && (len(c.filter.Toolsets) > 0 || isDefault(row.toolset)) {
				want = append(want, row.name)
			}
		}
		slices.Sort(want)
		if got := names(newTestServer(t, func(config *Config) { config.Filter = c.filter })); !slices.Equal(got, want) || len(got) == 0 {
			t.Errorf("%s: %v, want %v", c.name, got, want)
		}
	}
	if prompts := newTestServer(t, func(config *Config) { config.Filter.ReadOnly = true }).mcp.ListPrompts(); len(prompts) > 0 {
		t.Errorf("read-only offers prompts to run: %v", prompts)
	}
	_, err := New(Config{Filter: Filter{Toolsets: []string{"topic"}}, Endpoints: []string{"127.0.0.1:1"}})
	if err == nil || !strings.Contains(err.Error(), "did you mean topics?") {
		t.Errorf("an unknown toolset: %v", err)
	}
}

// TestEveryReasonLeadsOn walks all reasons of the admin API: none leaves an agent
// without a code, words and, as all tools are there, a next call.
func TestEveryReasonLeadsOn(t *testing.T) {
	in := input{tool: &tool{name: "topics_move", risk: Disruptive}, values: map[string]any{"name": "/default/orders", "plan_id": "plan.x"}}
	tools := map[string]bool{}
	for _, row := range table() {
		tools[row.name] = true
	}
	for number, reason := range adminv1.Reason_Code_name {
		if number == 0 {
			continue
		}
		for kind := range adminv1.Refusal_Kind_name {
			f := failureOf(&client.Refusal{Kind: adminv1.Refusal_Kind(kind), Reason: reason, Message: "words"}, in)
			if f.Code != reason || f.Got == "" || f.Expected == "" || f.Fix == nil || !tools[f.Fix.Tool] || f.Fix.Why == "" || f.Fix.Args["plan_id"] != nil {
				t.Errorf("%s of kind %d: %+v, fix %+v", reason, kind, f, f.Fix)
			}
		}
	}
	for reason := range repairs {
		if _, isReason := adminv1.Reason_Code_value[reason]; !isReason {
			t.Errorf("%s is no reason of the admin API", reason)
		}
	}
	f := failureOf(&client.Refusal{Kind: adminv1.Refusal_PRECONDITION, Reason: "NODE_HOLDS_REPLICAS"}, input{tool: &tool{name: "cluster_remove_node"}, values: map[string]any{"node_id": int64(4)}})
	if f.Fix.Tool != "brokers_unload" || f.Fix.Args["broker_id"] != int64(4) {
		t.Errorf("fix %+v", f.Fix)
	}
}

func TestWrongArguments(t *testing.T) {
	c, _ := overPipes(t, newTestServer(t, nil), revisions[1])
	for _, w := range []struct {
		tool string
		args map[string]any
		code string
		says string // in message, expected or fix
	}{
		{"cluster_promote_node", nil, codeMissingArgument, "node_id (integer)"},
		{"cluster_promote_node", map[string]any{"node": 4}, codeUnknownArgument, `"fix":{"tool":"cluster_promote_node","args":{"node_id":4}}`},
		{"cluster_promote_node", map[string]any{"node_id": "4"}, codeInvalidArgument, "an integer from 1"},
		{"cluster_promote_node", map[string]any{"node_id": 4.5}, codeInvalidArgument, "is no integer"},
		{"cluster_promote_node", map[string]any{"node_id": 0}, codeInvalidArgument, "out of bounds"},
		{"cluster_promote_node", map[string]any{"node_id": 1e20}, codeInvalidArgument, "an integer"},
		{"topics_create", map[string]any{"name": "/default/a", "dispatch_strategy": "non-reliable"}, codeInvalidArgument, "did you mean non_reliable?"},
		{"topics_create", map[string]any{"name": "/default/a", "config": map[string]any{"retention.ms": 5}}, codeInvalidArgument, "object with string values"},
		{"topics_create", map[string]any{"name": "a topic"}, codeInvalidArgument, "not well formed"},
		{"topics_create", map[string]any{"name": ""}, codeInvalidArgument, "is empty"},
		{"topics_create", map[string]any{"name": "/default/a", "dry_run": "yes"}, codeInvalidArgument, "a boolean"},
		{"topics_create", map[string]any{"name": strings.Repeat("a", 600)}, codeInvalidArgument, "longer than"},
		{"operations_show", map[string]any{"operation_id": "seven"}, codeInvalidArgument, "matching"},
		{"scenario_list", map[string]any{"filter": "x"}, codeUnknownArgument, "limit, cursor"},
		{"scenario_list", map[string]any{"cursor": "900"}, codeInvalidArgument, "next_cursor"},
		{"scenario_show", map[string]any{"scenario": "broker-scalling"}, "SCENARIO_UNKNOWN", `"args":{"scenario":"broker-scaling"}`},
		{"scenario_show", map[string]any{"scenario": "../scenarios/broker-scaling"}, codeInvalidArgument, "not well formed"},
		{"scenario_plan", map[string]any{"scenario": "broker-scaling", "aspects": []string{"scale"}}, codeInvalidArgument, "did you mean scale-up?"},
		{"scenario_plan", map[string]any{"scenario": "broker-scaling", "aspects": "scale-up"}, codeInvalidArgument, "list of strings"},
		{"scenario_start", map[string]any{"scenario": "kill-and-recover", "setup": "podman"}, codeInvalidArgument, "process"},
		{"scenario_start", map[string]any{"scenario": "kill-and-recover", "params": map[string]any{"rounds": "0"}}, codeRunnerEnded, "below the minimum 1"},
		{"scenario_wait", map[string]any{"run_id": "last"}, codeRunUnknown, "scenario_status"},
		{"scenario_wait", map[string]any{"run_id": "../../etc", "after_seq": 0}, codeInvalidArgument, "not well formed"},
		{"scenario_wait", map[string]any{"run_id": "x", "max_wait_s": 600}, codeInvalidArgument, "from 0 to 20"},
		{"cluster_status", map[string]any{}, codeUnreachable, "--admin-addr"},
	} {
		body := c.fails(w.tool, w.args, w.code)
		raw, _ := json.Marshal(body)
		if text := string(mustJSON(json.RawMessage(raw))); !strings.Contains(flat(text), flat(w.says)) {
			t.Errorf("%s %v: %s does not say %s", w.tool, w.args, text, w.says)
		}
	}
}

// flat takes what JSON does to a text, and the order of keys, out of a comparison.
func flat(text string) string {
	text = strings.NewReplacer(`\u003e`, ">", `\"`, `"`).Replace(text)
	return strings.ReplaceAll(text, `"fix":{"tool":"cluster_promote_node","args":{"node_id":4}}`, `"fix":{"args":{"node_id":4},"tool":"cluster_promote_node"}`)
}

// TestSkillIsTrue: every tool that the skill names is there, and its commands are
// those of the tree.
func TestSkillIsTrue(t *testing.T) {
	raw, err := fs.ReadFile(ister.Skills(), "mcp/SKILL.md")
	if err != nil {
		t.Fatal(err)
	}
	text := string(raw)
	if !strings.HasPrefix(text, "---\nname: mcp\ndescription: ") || strings.Count(text, "\n") > 150 || len(newTestServer(t, nil).skills["mcp"].description) > 1024 {
		t.Error("the frontmatter or the length is wrong")
	}
	tools := map[string]bool{}
	for _, row := range table() {
		tools[row.name] = true
	}
	for _, name := range regexp.MustCompile("`((?:scenario|cluster|operations|brokers|topics|namespaces|diagnose|toolsets)_[a-z_]+)`").FindAllStringSubmatch(text, -1) {
		if !tools[name[1]] {
			t.Errorf("the skill names %s, which is no tool", name[1])
		}
	}
	for _, line := range regexp.MustCompile(`(?m)^ister mcp ?([^#|>&\n]*)`).FindAllStringSubmatch(text, -1) {
		if err := NewCommand().ParseFlags(strings.Fields(line[1])); err != nil {
			t.Errorf("ister mcp %s: %v", line[1], err)
		}
	}
}

// TestMountedInBothBinaries: the root says how runs are started, and the flags of
// the scenario command do not get in the way.
func TestMountedInBothBinaries(t *testing.T) {
	for _, c := range []struct {
		root *cobra.Command
		want int
	}{{&cobra.Command{Use: "ister"}, 2}, {scenarios.NewCommand(), 1}} {
		mcp := NewCommand()
		c.root.AddCommand(mcp)
		config, _, err := (&flags{}).config(mcp)
		if err != nil || len(config.Runner) != c.want {
			t.Errorf("%s: runner %v, %v", c.root.Name(), config.Runner, err)
		}
		var out bytes.Buffer
		c.root.SetOut(&out)
		c.root.SetArgs([]string{"mcp", "--list-tools", "--read-only", "--runs-dir", t.TempDir()})
		if err := c.root.Execute(); err != nil || !strings.Contains(out.String(), `"scenario_list"`) || strings.Contains(out.String(), `"topics_delete"`) {
			t.Errorf("%s: %v", c.root.Name(), err)
		}
	}
}
