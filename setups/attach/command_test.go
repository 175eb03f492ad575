package attach

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ister-mq/ister/setups"
)

// script writes an executable.
func script(t *testing.T, body string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "cmd")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+body+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func commanded(t *testing.T, command string) *cluster {
	dir := t.TempDir()
	j := &journal{path: journalPath(dir), Admin: []string{"127.0.0.1:1"}, Bootstrap: []string{"127.0.0.1:2"}}
	return &cluster{setup: Setup{Command: command, Admin: j.Admin}, options: setups.Options{Dir: dir, Binary: "/bin/ister"}, inner: map[string]string{}, journal: j}
}

// node answers as a broker in a state does.
func node(t *testing.T, state string) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]any{"state": state, "incarnation": "i", "endpoints": map[string]string{"kafka": "127.0.0.1:3", "admin": "inner:4"}})
	}))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

func TestAddTellsTheCommandWhereItIs(t *testing.T) {
	c := commanded(t, script(t, `env | grep ^SCENARIO_ | sort >&2; echo "$@" >args; echo "{\"admin\": \"`+node(t, stateFresh)+`\", \"log\": \"$PWD/brokers/b1/log\"}"`))
	b, err := c.Add(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if b.Name != "b1" || b.Kafka != "127.0.0.1:3" || b.LogFile != "brokers/b1/log" || !b.Running || c.InnerAdmin("b1") != "inner:4" {
		t.Errorf("%+v", b)
	}
	dir := c.options.Dir
	args, _ := os.ReadFile(filepath.Join(dir, "args"))
	said, _ := os.ReadFile(filepath.Join(dir, commandsDir, "01-add-b1.err"))
	want := "SCENARIO_ADMIN=127.0.0.1:1\nSCENARIO_BOOTSTRAP=127.0.0.1:2\nSCENARIO_BROKER=b1\nSCENARIO_ISTER_BIN=/bin/ister\nSCENARIO_RUN_DIR=" + dir + "\nSCENARIO_RUN_ID=" + filepath.Base(dir) + "\n"
	if string(args) != "add b1\n" || string(said) != want {
		t.Errorf("args %q, environment\n%s", args, said)
	}
	j, err := loadJournal(dir)
	if err != nil || len(j.Joined) != 1 || *j.Joined[0] != (joined{Name: "b1", Admin: b.Admin, Incarnation: "i", Commanded: true, Running: true}) {
		t.Errorf("journal %+v, %v", j, err)
	}
}

// Every way in which the command can do wrong names what was expected, what was
// observed, and the file with what it wrote.
func TestCommandsThatDoWrong(t *testing.T) {
	for _, c := range []struct{ name, body, observed string }{
		{"fails", "echo no room >&2; exit 1", "exit status 1: no room"},
		{"is killed", "kill -9 $$", "signal: killed"},
		{"hangs", "sleep 60", "no end after"},
		{"says nothing", "", "an answer without admin"},
		{"is no JSON", "echo b4 is up", `"b4 is up", which is no such answer`},
		{"is another thing", "echo '[1]'", "which is no such answer"},
		{"is misspelt", `echo '{"admim": "127.0.0.1:1"}'`, `unknown field "admim"`},
		{"says it twice", `echo '{"admin": "127.0.0.1:1"} {}'`, "which is more than one answer"},
		{"says too much", "head -c 100000 /dev/zero", "more than 65536 bytes"},
		{"gives no address", `echo '{"admin": "localhost"}'`, "the host or the port is missing"},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			if c.name == "hangs" {
				ctx, cancel = context.WithTimeout(t.Context(), 200*time.Millisecond)
				defer cancel()
			}
			cluster := commanded(t, script(t, c.body))
			_, err := cluster.Add(ctx)
			var wrong *CommandError
			if !errors.As(err, &wrong) || !strings.Contains(wrong.Observed, c.observed) || !strings.Contains(wrong.Expected, `{"admin": "HOST:PORT"}`) {
				t.Fatalf("%v, want %q", err, c.observed)
			}
			if _, err := os.Stat(wrong.Evidence); err != nil {
				t.Error(err)
			}
			if len(cluster.Brokers()) != 0 || len(cluster.journal.Joined) != 1 {
				t.Errorf("brokers %v, journal %+v: what may have been started must be ended later", cluster.Brokers(), cluster.journal)
			}
		})
	}
}

func TestABrokerThatIsAMemberAlreadyIsNotAdded(t *testing.T) {
	c := commanded(t, script(t, `echo '{"admin": "`+node(t, "member")+`"}'`))
	if _, err := c.Add(t.Context()); err == nil || !strings.Contains(err.Error(), "expected a broker that waits to be added (started with --join on an empty data directory), observed state member") {
		t.Error(err)
	}
}

// A command that says it ended a broker has to have done so.
func TestEndingIsLookedAt(t *testing.T) {
	c := commanded(t, script(t, `[ "$1" != add ] || echo '{"admin": "`+node(t, stateFresh)+`"}'; [ "$1" != start ] || echo '{"exit_code": 10}'`))
	if _, err := c.Add(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := c.Kill(ctx, "b1"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a kill that did nothing: %v", err)
	}
	exit, err := c.Start(t.Context(), "b1")
	if err != nil || exit == nil || exit.Code != 10 {
		t.Errorf("start of one that ends by itself: %+v, %v", exit, err)
	}
	if err := c.Kill(t.Context(), "b9"); err == nil || !strings.Contains(err.Error(), "no broker is called b9") {
		t.Error(err)
	}
}

func TestCheckCommand(t *testing.T) {
	plain := filepath.Join(t.TempDir(), "plain")
	if err := os.WriteFile(plain, []byte("#!/bin/sh\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		filepath.Join(t.TempDir(), "none"): "no such file", t.TempDir(): "is a directory", plain: "has mode -rw-r--r--; make it one with chmod +x",
	} {
		if err := CheckCommand(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
	if err := CheckCommand(script(t, "")); err != nil {
		t.Error(err)
	}
}

func TestWhatAttachCannot(t *testing.T) {
	members := []string{"127.0.0.1:1"}
	for _, c := range []struct {
		setup Setup
		can   []setups.Ability
	}{
		{Setup{}, nil},
		{Setup{Bootstrap: members}, nil},
		{Setup{Admin: members}, []setups.Ability{setups.AbilityAdmin}},
		{Setup{Admin: members, waiting: 1}, []setups.Ability{setups.AbilityAdd, setups.AbilityAdmin}},
		{Setup{Admin: members, Command: "/bin/cmd"}, []setups.Ability{setups.AbilityAdd, setups.AbilityStart, setups.AbilityStop, setups.AbilityKill, setups.AbilityPause, setups.AbilityAdmin}},
	} {
		var can []setups.Ability
		for _, a := range setups.Abilities {
			refused := setups.Cannot(c.setup, a.Ability)
			if refused == nil {
				can = append(can, a.Ability)
				continue
			}
			never := !slices.Contains([]setups.Ability{setups.AbilityAdd, setups.AbilityStart, setups.AbilityStop, setups.AbilityKill, setups.AbilityPause, setups.AbilityAdmin}, a.Ability)
			if refused.Remedy == "" || refused.Why == "" || (refused.Flag == "") != never {
				t.Errorf("%+v: %s: %+v", c.setup, a.Ability, refused)
			}
		}
		if strings.Join(words(can), " ") != strings.Join(words(c.can), " ") {
			t.Errorf("%+v can %v, want %v", c.setup, can, c.can)
		}
	}
}

func words(abilities []setups.Ability) []string {
	out := make([]string, len(abilities))
	for i, a := range abilities {
		out[i] = string(a)
	}
	return out
}

// The example refuses to touch what it did not start.
func TestExampleTouchesOnlyItsOwn(t *testing.T) {
	t.Setenv("EXAMPLE_BROKERS_DIR", t.TempDir())
	c := commanded(t, "./example-brokers.sh")
	command, err := filepath.Abs(c.setup.Command)
	if err != nil {
		t.Fatal(err)
	}
	c.setup.Command, c.options.Binary = command, "/bin/false"
	for _, call := range []struct{ verb, want string }{
		{"kill", "b1 is not a broker that this command started"}, {"start", "b1 is not a broker"}, {"jump", "b1 is not a broker"},
		{"add", "the broker ended with 1"}, {"add", "b1 is there already"}, {"start", "b1 was never up"}, {"kill", "b1 does not run"}, {"jump", "expected add, start"},
	} {
		if _, err := c.call(t.Context(), call.verb, "b1"); err == nil || !strings.Contains(err.Error(), call.want) {
			t.Errorf("%s: %v, want %q", call.verb, err, call.want)
		}
	}
	if _, err := c.call(t.Context(), "stop", "b2"); err != nil {
		t.Errorf("stop of a broker that does not run: %v", err)
	}
	if _, err := c.call(t.Context(), "add", "b_2"); err == nil || !strings.Contains(err.Error(), "expected a NAME of letters") {
		t.Error(err)
	}
}
