package mcp

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ister-mq/ister/admin/health"
)

// plausible are arguments with which each tool of the admin API can be called.
var plausible = map[string]map[string]any{
	"cluster_add_node": {"node_addr": "127.0.0.1:50054"}, "cluster_promote_node": {"node_id": 4}, "cluster_remove_node": {"node_id": 3}, "cluster_transfer_leadership": {"node_id": 1},
	"operations_show": {"operation_id": "op-7"}, "operations_cancel": {"operation_id": "7"}, "brokers_certificate": {"broker_id": 1}, "brokers_unload": {"broker_id": 1},
	"brokers_activate": {"broker_id": 1}, "brokers_cordon": {"broker_id": 1}, "brokers_uncordon": {"broker_id": 1}, "topics_describe": {"name": "/default/orders"},
	"topics_create": {"name": "/default/new"}, "topics_delete": {"name": "/default/orders"}, "topics_move": {"name": "/default/orders"},
	"namespaces_create": {"name": "payments"}, "namespaces_delete": {"name": "payments"}, "diagnose_removal": {"node_id": 1},
}

// TestNothingIsChangedWithoutAPlan calls every tool of the admin API: read-only
// and planned ones change nothing, and planned ones act once they have a plan_id.
func TestNothingIsChangedWithoutAPlan(t *testing.T) {
	cluster := newStub(t)
	c, _ := overPipes(t, newTestServer(t, func(c *Config) { c.Endpoints, c.Filter.Toolsets = []string{cluster.url}, Toolsets }), revisions[2])
	for _, row := range table() {
		if row.toolset == toolsetScenario || row.name == "diagnose_machine" {
			continue
		}
		before := len(cluster.made())
		args := plausible[row.name]
		body := c.ok(row.name, args)
		changes := len(cluster.made()) - before
		switch {
		case row.risk == Additive && changes != 1, row.risk != Additive && changes != 0:
			t.Errorf("%s (%s) made %d changes", row.name, row.risk, changes)
		case row.risk.planned():
			if body["status"] != statusPlanned || !strings.Contains(body["summary"].(string), "nothing was changed") {
				t.Fatalf("%s: no plan: %v", row.name, body)
			}
			next := body["next"].([]any)[0].(map[string]any)
			if len(next["args"].(map[string]any)["plan_id"].(string)) < 60 || body["shortened"] != nil {
				t.Errorf("%s: the plan is cut", row.name)
			}
			done := c.ok(next["tool"].(string), next["args"].(map[string]any))
			if done["status"] != statusDone || len(cluster.made()) != before+1 {
				t.Errorf("%s: with its plan_id: %v, changes %v", row.name, done["summary"], cluster.made()[before:])
			}
		}
	}
	for _, actor := range cluster.actors {
		if actor != "mcp" {
			t.Fatalf("actor %q", actor)
		}
	}
}

func TestPlansThatDoNotHold(t *testing.T) {
	cluster := newStub(t)
	var later atomic.Int64
	make := func(c *Config) {
		c.Endpoints = []string{cluster.url}
		c.Now = func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
	}
	s := newTestServer(t, make)
	c, _ := overHTTP(t, s, revisions[1])
	other, _ := overHTTP(t, newTestServer(t, make), revisions[1])
	args := func(id any) map[string]any { return map[string]any{"name": "/default/orders", "plan_id": id} }
	plan := func() any { return c.ok("topics_delete", map[string]any{"name": "/default/orders"})["plan_id"] }

	refused := func(code string, tool string, a map[string]any) {
		t.Helper()
		body := c.fails(tool, a, code)
		fix, _ := body["fix"].(map[string]any)
		if fix["tool"] != tool || fix["args"].(map[string]any)["plan_id"] != nil {
			t.Errorf("%s: fix %v", code, fix)
		}
		if made := cluster.made(); len(made) > 0 {
			t.Fatalf("%s: changed %v", code, made)
		}
	}
	refused(codePlanUnknown, "topics_delete", args("plan.made-up"))
	refused(codePlanUnknown, "topics_delete", args("yes"))
	refused(codePlanUnknown, "topics_delete", args(other.ok("topics_delete", map[string]any{"name": "/default/orders"})["plan_id"]))
	id := plan().(string)
	refused(codePlanUnknown, "topics_delete", args(id[:len(id)-1]+"0x"))
	refused(codePlanArguments, "topics_delete", map[string]any{"name": "/default/clicks", "plan_id": id})
	refused(codePlanArguments, "topics_move", args(id))

	cluster.drift()
	body := c.fails("topics_delete", args(id), codePlanDrifted)
	if !strings.Contains(body["got"].(string), "100") || !strings.Contains(body["expected"].(string), "101") {
		t.Errorf("it does not say what changed: %v", body)
	}
	refused(codePlanDrifted, "topics_delete", args(id))
	id = plan().(string)
	later.Store(int64(PlanMax))
	refused(codePlanExpired, "topics_delete", args(id))

	id = plan().(string)
	c.ok("topics_delete", args(id))
	if made := cluster.made(); !slices.Equal(made, []string{"delete /default/orders"}) {
		t.Errorf("changed %v", made)
	}
	c.fails("topics_delete", args(id), codePlanDrifted) // once is enough
}

// TestTheClusterRefusesALatePlan: the placement changes after the plan was checked
// and before its change comes. Each planned request carries what it rests on, so
// that the cluster refuses it.
func TestTheClusterRefusesALatePlan(t *testing.T) {
	cluster := newStub(t)
	cluster.late = true
	c, _ := overPipes(t, newTestServer(t, func(c *Config) { c.Endpoints, c.Filter.Toolsets = []string{cluster.url}, Toolsets }), revisions[1])
	tried := 0
	for _, row := range table() {
		if !row.planned() || row.name == "operations_cancel" { // of one operation for ever, and repeatable
			continue
		}
		args := map[string]any{"plan_id": c.ok(row.name, plausible[row.name])["plan_id"]}
		for name, value := range plausible[row.name] {
			args[name] = value
		}
		body := c.fails(row.name, args, "STALE_REVISION")
		if fix, _ := body["fix"].(map[string]any); body["retry"] != true || fix["tool"] != row.name || fix["args"].(map[string]any)["plan_id"] != nil {
			t.Errorf("%s: %v", row.name, body)
		}
		tried++
	}
	if made := cluster.made(); len(made) > 0 || tried < 7 {
		t.Errorf("%d tools tried; changed %v", tried, made)
	}
}

func TestRemovalIsBlockedWithRemedies(t *testing.T) {
	cluster := newStub(t)
	c, _ := overPipes(t, newTestServer(t, func(c *Config) { c.Endpoints = []string{cluster.url} }), revisions[0])
	body := c.fails("cluster_remove_node", map[string]any{"node_id": 2}, "NODE_HOLDS_REPLICAS")
	fix := body["fix"].(map[string]any)
	if len(body["blockers"].([]any)) != 2 || body["plan_id"] != nil || fix["tool"] != "brokers_unload" || fix["args"].(map[string]any)["broker_id"] != 2.0 {
		t.Errorf("%v", body)
	}
	c.fails("cluster_transfer_leadership", map[string]any{"node_id": 9}, "NODE_NOT_VOTER")
	if body := c.ok("cluster_transfer_leadership", map[string]any{"node_id": 2}); !strings.Contains(body["summary"].(string), "node 2 is the controller") {
		t.Errorf("to the one that has it: %v", body["summary"])
	}
	cluster.mu.Lock()
	cluster.alone = true
	cluster.mu.Unlock()
	if fix := c.fails("cluster_transfer_leadership", nil, "LAST_VOTER")["fix"].(map[string]any); fix["tool"] != "cluster_members" {
		t.Errorf("alone: %v", fix)
	}
	found := c.ok("diagnose_removal", map[string]any{"node_id": 2})
	if found["safe_to_remove"] != false || len(found["blockers"].([]any)) != 2 || found["certificate"].(map[string]any)["replicas"] != 9.0 {
		t.Errorf("%v", found)
	}
}

// TestResultsArePagedAndBounded reads lists that do not fit into one result to
// their end, and finds every row once.
func TestResultsArePagedAndBounded(t *testing.T) {
	cluster := newStub(t)
	c, _ := overPipes(t, newTestServer(t, func(c *Config) { c.Endpoints = []string{cluster.url} }), revisions[1])
	for _, l := range []struct {
		tool string
		args map[string]any
		rows func(map[string]any) []any
		want int
	}{
		{"cluster_moves", map[string]any{"limit": 500}, func(b map[string]any) []any { return b["moves"].([]any) }, 300},
		{"topics_describe", map[string]any{"name": "/default/orders"}, func(b map[string]any) []any { return b["topic"].(map[string]any)["partitions"].([]any) }, 200},
		{"brokers_rebalance", nil, func(b map[string]any) []any {
			return b["effect"].(map[string]any)["what"].(map[string]any)["moves"].([]any)
		}, 300},
		{"scenario_plan", map[string]any{"scenario": "broker-scaling"}, func(b map[string]any) []any { return b["steps"].([]any) }, 0},
		{"scenario_show", map[string]any{"scenario": "broker-scaling"}, func(b map[string]any) []any { return b["criteria"].([]any) }, 0},
	} {
		seen, calls := map[string]bool{}, 0
		for args := l.args; ; calls++ {
			body := c.ok(l.tool, args)
			rows := l.rows(body)
			if len(rows) == 0 {
				t.Fatalf("%s: a page without rows", l.tool)
			}
			for _, row := range rows {
				raw, _ := json.Marshal(row)
				seen[string(raw)] = true
			}
			if l.want == 0 {
				l.want = int(body["total"].(float64))
			}
			cursor, more := body["next_cursor"]
			if !more {
				break
			}
			next := map[string]any{"cursor": cursor}
			for name, v := range l.args {
				next[name] = v
			}
			args = next
		}
		if len(seen) != l.want || calls == 0 {
			t.Errorf("%s: %d rows in %d calls, want %d", l.tool, len(seen), calls+1, l.want)
		}
	}
}

// TestHealthIsThatOfTheCommandLine: the same report, and each finding that a call
// leads on from has that call.
func TestHealthIsThatOfTheCommandLine(t *testing.T) {
	cluster := newStub(t)
	c, _ := overPipes(t, newTestServer(t, func(c *Config) { c.Endpoints = []string{cluster.url} }), revisions[1])
	body := c.ok("diagnose_health", nil)
	facts, err := health.Gather(t.Context(), []string{cluster.url}, actorName)
	if err != nil {
		t.Fatal(err)
	}
	want := health.Judge(facts)
	if body["status"] != string(want.Status) || want.Status == health.Healthy || body["total"] != float64(len(want.Findings)) {
		t.Errorf("%v, want %v with %d findings", body, want.Status, len(want.Findings))
	}
	if free, isThere := body["least_disk_free_percent"]; !isThere || free != nil {
		t.Errorf("a disk that was not read is %v", free)
	}
	lost, _ := overPipes(t, newTestServer(t, nil), revisions[1])
	body = lost.ok("diagnose_health", nil)
	first := body["findings"].([]any)[0].(map[string]any)
	if body["status"] != string(health.NotKnown) || body["total"] != 1.0 || first["code"] != codeUnreachable || !strings.Contains(first["remedy"].(string), "--admin-addr") || body["brokers"] != nil {
		t.Errorf("out of reach: %v", body)
	}
}

// TestFindingsLeadOn: codes are those of the health package, and calls are right.
func TestFindingsLeadOn(t *testing.T) {
	var source strings.Builder
	files, err := filepath.Glob("../admin/health/judge*.go")
	if err != nil || len(files) < 2 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		source.Write(raw)
	}
	objects := map[string]string{"node_id": "node 3", "broker_id": "node 3", "name": "/default/orders", "operation_id": "op-7"}
	for code, r := range leads {
		if !strings.Contains(source.String(), `"`+code+`"`) {
			t.Errorf("%s is no code of a finding", code)
		}
		call := lead(health.Finding{Code: code, Object: objects[r.takes]})
		at := slices.IndexFunc(table(), func(row tool) bool { return row.name == call.Tool })
		if at < 0 || call.Why == "" {
			t.Fatalf("%s leads to %+v", code, call)
		}
		row := table()[at]
		if _, err := validate(&row, mustJSON(call.Args)); err != nil {
			t.Errorf("%s: %v", code, err)
		}
	}
	if call := lead(health.Finding{Code: "LEARNER", Object: "somebody"}); call != nil {
		t.Errorf("no node, and yet %+v", call)
	}
}

func TestAuditLogHasEachCall(t *testing.T) {
	cluster := newStub(t)
	var log bytes.Buffer
	s := newTestServer(t, func(c *Config) { c.Endpoints, c.Audit = []string{cluster.url}, &log })
	c, end := overPipes(t, s, revisions[2])
	c.ok("topics_create", map[string]any{"name": "/default/a", "config": map[string]any{"sasl.password": "hunter2", "retention.ms": "5"}})
	id := c.ok("brokers_unload", map[string]any{"broker_id": 1})["plan_id"]
	c.ok("brokers_unload", map[string]any{"broker_id": 1, "plan_id": id})
	c.fails("brokers_unload", map[string]any{"broker": 1}, codeUnknownArgument)
	end()
	outcomes := []string{}
	for line := range strings.Lines(log.String()) {
		e := entry{}
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		if e.Actor != "stdio tester" || e.Hash == "" || e.At.IsZero() || e.Risk == "" {
			t.Errorf("entry %s", line)
		}
		outcomes = append(outcomes, e.Tool+" "+e.Outcome+" "+e.Code)
	}
	want := []string{"topics_create done ", "brokers_unload planned ", "brokers_unload done ", "brokers_unload error UNKNOWN_ARGUMENT"}
	if !slices.Equal(outcomes, want) {
		t.Errorf("%q, want %q", outcomes, want)
	}
	if text := log.String(); strings.Contains(text, "hunter2") || strings.Contains(text, id.(string)) || !strings.Contains(text, `"retention.ms":"5"`) {
		t.Errorf("secrets, or too little: %s", text)
	}
}
