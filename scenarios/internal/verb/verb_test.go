package verb

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/ister-mq/ister/admin/client"
	"github.com/ister-mq/ister/scenarios/internal/spec"
)

// What is public about a verb is there: documentation of it and of each input
// and output, an equivalent command whose inputs exist, and a risk.
func TestVerbsAreDescribed(t *testing.T) {
	for _, name := range (Registry{}).Names() {
		v, _ := Lookup(name)
		if v.Doc == "" || !strings.HasSuffix(v.Doc, ".") || v.Command == "" || !slices.Contains(spec.Risks, string(v.Risk)) {
			t.Errorf("%s: doc %q, command %q, risk %q", name, v.Doc, v.Command, v.Risk)
		}
		for _, f := range append(slices.Clone(v.Inputs.Fields), v.Outputs.Fields...) {
			if f.Doc == "" {
				t.Errorf("%s: %s has no documentation", name, f.Name)
			}
		}
		if v.Disturbs && v.Risk == spec.ReadOnly {
			t.Errorf("%s disturbs and is read-only", name)
		}
		v.CommandLine(func(input string) (string, bool) {
			if _, ok := v.Inputs.Field(input); !ok {
				t.Errorf("%s: its command has {%s}, which is no input", name, input)
			}
			return "", false
		})
	}
}

func TestCommandLine(t *testing.T) {
	for _, c := range []struct {
		verb   string
		values map[string]string
		want   string
	}{
		{"cluster.promote", map[string]string{"node_id": "4"}, "ister admin cluster promote-node --node-id 4"},
		{"cluster.promote", nil, "ister admin cluster promote-node --node-id <node_id>"},
		{"brokers.plan", map[string]string{"max_moves": "0"}, "ister admin brokers rebalance --dry-run"},
		{"brokers.rebalance", map[string]string{"max_moves": "5"}, "ister admin brokers rebalance --max-moves 5 --wait"},
		{"topic.move", map[string]string{"name": "/default/t", "to": "4", "replicas": "true"}, "ister admin topics move /default/t --to 4 --replicas --wait"},
		{"topic.move", map[string]string{"name": "/default/t", "to": "0", "replicas": "false"}, "ister admin topics move /default/t --wait"},
	} {
		v, _ := Lookup(c.verb)
		got := v.CommandLine(func(name string) (string, bool) { text, ok := c.values[name]; return text, ok })
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.verb, got, c.want)
		}
	}
}

func TestCallsCheckTheirInputs(t *testing.T) {
	v, _ := Lookup("topic.create")
	if _, err := v.NewCall(nil, map[string]any{"name": "/default/t", "count": int64(0)}); err == nil || !strings.Contains(err.Error(), "count: 0 is below the minimum 1") {
		t.Errorf("%v", err)
	}
	call, err := v.NewCall(nil, map[string]any{"name": "/default/t"})
	if err != nil || call.with["dispatch"] != "reliable" || call.with["partitions"] != int64(1) {
		t.Errorf("%+v, %v", call, err)
	}
}

func TestNoteLeavesOutWhatIsNotSet(t *testing.T) {
	v, _ := Lookup("brokers.rebalance")
	for _, c := range []struct {
		outputs map[string]any
		want    string
	}{
		{map[string]any{"state": "done", "replica_moves": int64(3), "leader_moves": int64(0)}, "done, replica moves 3, leader moves 0"},
		{map[string]any{"replica_moves": int64(3)}, "replica moves 3"},
		{nil, ""},
	} {
		if got := v.Note(c.outputs); got != c.want {
			t.Errorf("%v: %q, want %q", c.outputs, got, c.want)
		}
	}
}

// TestAGateIsToldOfOnce: a step that waits says why, and again when the reason is
// another; what no gate refuses ends it.
func TestAGateIsToldOfOnce(t *testing.T) {
	var said []string
	waits := patience{env: &Env{Say: func(text string) { said = append(said, text) }}}
	behind := &client.Refusal{Reason: "NODE_NOT_CAUGHT_UP", Message: "node 4 is 7 entries behind"}
	pending := &client.Refusal{Reason: "MEMBERSHIP_CHANGE_PENDING", Message: "another change is under way"}
	for _, err := range []error{behind, behind, pending, pending, behind} {
		if !waits.gated(t.Context(), err) {
			t.Errorf("%v is no gate", err)
		}
	}
	if len(said) != 3 || !strings.Contains(said[0], "7 entries behind") || !strings.Contains(said[1], "another change") {
		t.Errorf("said %q", said)
	}
	late, cancel := context.WithCancel(t.Context())
	cancel()
	if waits.gated(t.Context(), errors.New("no refusal")) || waits.gated(late, behind) {
		t.Error("it waits for ever")
	}
}
