package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/cockroachdb/datadriven"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"gopkg.in/yaml.v3"
)

// elapsed are the parts of progress lines that differ from run to run.
var elapsed = regexp.MustCompile(`, [0-9.]+m?s(, about [0-9a-z.]+ left)?|after [0-9.]+m?s`)

// TestStories runs command lines against fixed answers. Standard error is marked
// with "! ", and a status other than 0 is printed last.
func TestStories(t *testing.T) {
	address := strings.TrimPrefix(newStub(t).URL, "http://")
	datadriven.Walk(t, "testdata/stories", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			var out strings.Builder
			for _, line := range strings.Split(d.Input, "\n") {
				stdout, stderr, exit := execute(append([]string{"--endpoint", address}, strings.Fields(line)...)...)
				checkWidth(t, line, stdout)
				out.WriteString(stdout)
				for _, l := range strings.Split(strings.TrimSuffix(stderr, "\n"), "\n") {
					if l != "" {
						out.WriteString("! " + l + "\n")
					}
				}
				if exit != 0 {
					fmt.Fprintf(&out, "exit %d\n", exit)
				}
			}
			text := strings.ReplaceAll(out.String(), address, "ADDRESS")
			return elapsed.ReplaceAllString(text, ", TIME")
		})
	})
}

func execute(args ...string) (stdout, stderr string, exit int) {
	var out, errors bytes.Buffer
	exit = Execute(context.Background(), NewCommand(), args, &out, &errors)
	return out.String(), errors.String(), exit
}

// checkWidth: lines of tables fit, and nothing is coloured or decorated.
func checkWidth(t *testing.T, line, out string) {
	t.Helper()
	if strings.Contains(line, "json") || strings.Contains(line, "yaml") {
		return
	}
	for _, l := range strings.Split(out, "\n") {
		aligned := strings.Contains(l, "  ") && !strings.HasPrefix(l, "  ")
		if utf8.RuneCountInString(l) > maxColumns && aligned {
			t.Errorf("%s: %d columns: %s", line, utf8.RuneCountInString(l), l)
		}
	}
	if i := strings.IndexFunc(out, func(r rune) bool { return r > 126 || r < ' ' && r != '\n' }); i >= 0 {
		t.Errorf("%s: character %q", line, out[i:i+1])
	}
}

// TestSurface is the contract: every command and flag with its help.
func TestSurface(t *testing.T) {
	datadriven.RunTest(t, "testdata/surface.txt", func(t *testing.T, d *datadriven.TestData) string {
		var out strings.Builder
		walk(NewCommand(), func(c *cobra.Command) {
			fmt.Fprintf(&out, "%s\n    %s\n", strings.TrimPrefix(c.CommandPath()+strings.TrimPrefix(c.Use, c.Name()), "admin "), c.Short)
			c.NonInheritedFlags().VisitAll(func(f *pflag.Flag) {
				if f.Name != "help" {
					fmt.Fprintf(&out, "    --%s %s  %s\n", f.Name, f.Value.Type(), f.Usage)
				}
			})
			if c.Short == "" || strings.HasSuffix(c.Short, ".") {
				t.Errorf("%s: short help %q: expected a phrase without a full stop", c.CommandPath(), c.Short)
			}
			checkWidth(t, c.CommandPath(), c.Long)
		})
		return out.String()
	})
}

func walk(c *cobra.Command, f func(*cobra.Command)) {
	f(c)
	for _, child := range c.Commands() {
		walk(child, f)
	}
}

// TestEveryCommandSpeaksJSONAndYAML: both parse and hold the same, and 64-bit
// numbers survive.
func TestEveryCommandSpeaksJSONAndYAML(t *testing.T) {
	address := newStub(t).URL
	for _, line := range []string{
		"cluster status", "cluster members", "cluster add-node --node-addr 10.0.0.4:50054", "cluster promote-node --node-id 4", "cluster demote-node --node-id 4",
		"cluster remove-node --node-id 4", "cluster transfer-leadership", "cluster moves", "cluster operations list", "cluster operations show 7", "cluster operations cancel 7",
		"brokers list", "brokers leader-broker", "brokers balance", "brokers rebalance", "brokers unload --broker-id 4 --wait", "brokers activate --broker-id 4",
		"brokers cordon --broker-id 4", "brokers uncordon --broker-id 4", "topics create orders", "topics list", "topics describe orders", "topics delete orders", "topics move orders",
		"namespaces list", "namespaces create payments", "namespaces delete payments",
	} {
		var fromJSON, fromYAML map[string]any
		for format, into := range map[string]*map[string]any{"json": &fromJSON, "yaml": &fromYAML} {
			stdout, stderr, exit := execute(append([]string{"--endpoint", address, "--output", format}, strings.Fields(line)...)...)
			if exit != 0 || stderr != "" {
				t.Errorf("%s --output %s: exit %d, %s", line, format, exit, stderr)
			}
			err := json.Unmarshal([]byte(stdout), into)
			if format == "yaml" {
				err = yaml.Unmarshal([]byte(stdout), into)
			}
			if err != nil {
				t.Errorf("%s --output %s: %v in\n%s", line, format, err, stdout)
			}
		}
		if a, b := normal(fromJSON), normal(fromYAML); a != b {
			t.Errorf("%s: JSON and YAML differ:\n%s\n%s", line, a, b)
		}
	}
	stdout, _, _ := execute("--endpoint", address, "-o", "json", "cluster", "status")
	if !strings.Contains(stdout, `"last_applied": "9007199254740993"`) {
		t.Errorf("a number above 2^53 is not kept as text:\n%s", stdout)
	}
}

// normal prints a value with all numbers alike.
func normal(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(raw)
}

func TestNobodyListens(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	listener.Close()
	_, stderr, exit := execute("--endpoint", address, "topics", "list")
	for _, word := range []string{"connect " + address + ": connection refused", "UNREACHABLE", "--admin-addr", "--endpoint", "ISTER_ADMIN_ENDPOINT"} {
		if exit != 6 || !strings.Contains(stderr, word) {
			t.Errorf("exit %d, %q is not in: %s", exit, word, stderr)
		}
	}
	stdout, stderr, exit := execute("--endpoint="+address, "--output=json", "topics", "list")
	var answer struct {
		Error struct {
			Reason string `json:"reason"`
			Advice string `json:"advice"`
			Exit   int    `json:"exit_status"`
		} `json:"error"`
	}
	if err := json.Unmarshal([]byte(stderr), &answer); err != nil || stdout != "" {
		t.Fatalf("%v in %s, stdout %q", err, stderr, stdout)
	}
	if answer.Error.Reason != "UNREACHABLE" || answer.Error.Exit != 6 || exit != 6 || answer.Error.Advice == "" {
		t.Errorf("exit %d, %+v", exit, answer)
	}
}

// TestOtherPortIsNamed: the Kafka port closes on nonsense, a web page answers 404.
func TestOtherPortIsNamed(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			conn.Read(make([]byte, 1024))
			conn.Write([]byte("\x00\x00\x00\x04\x00\x00\x00\x00"))
			conn.Close()
		}
	}()
	_, stderr, exit := execute("--endpoint", listener.Addr().String(), "topics", "list")
	if exit != 1 || !strings.Contains(stderr, "NOT_ADMIN_API") || !strings.Contains(stderr, "not its Kafka") {
		t.Errorf("exit %d: %s", exit, stderr)
	}
}

func TestEndpointComesFromTheEnvironment(t *testing.T) {
	t.Setenv("ISTER_ADMIN_ENDPOINT", " ,"+newStub(t).URL+" ")
	if _, stderr, exit := execute("namespaces", "list"); exit != 0 {
		t.Errorf("exit %d: %s", exit, stderr)
	}
	t.Setenv("ISTER_ADMIN_ENDPOINT", "https://x:1")
	if _, stderr, exit := execute("namespaces", "list"); exit != 2 || !strings.Contains(stderr, `scheme "https" is not supported`) {
		t.Errorf("exit %d: %s", exit, stderr)
	}
}

func TestInterruptEndsAWait(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	var out bytes.Buffer
	errors := &cancelOn{word: "op-7", cancel: cancel}
	exit := Execute(ctx, NewCommand(), []string{"--endpoint", newStub(t).URL, "brokers", "rebalance", "--wait"}, &out, errors)
	if exit != ExitInterrupted || !strings.Contains(errors.String(), "interrupted while waiting") || !strings.Contains(errors.String(), "goes on by itself") {
		t.Errorf("exit %d: %s", exit, errors.String())
	}
}

// cancelOn cancels when a word is written.
type cancelOn struct {
	bytes.Buffer
	word   string
	cancel context.CancelFunc
}

func (c *cancelOn) Write(b []byte) (int, error) {
	if strings.Contains(string(b), c.word) {
		c.cancel()
	}
	return c.Buffer.Write(b)
}

func TestCompletionAsksTheCluster(t *testing.T) {
	address := newStub(t).URL
	for line, want := range map[string]string{
		"topics describe ":                     "/default/orders",
		"namespaces delete ":                   "payments",
		"brokers unload --broker-id ":          "learner, joining",
		"cluster operations cancel ":           "op-7",
		"brokers list --output ":               "yaml",
		"topics create x --dispatch-strategy ": "non_reliable",
	} {
		args := append([]string{cobra.ShellCompRequestCmd, "--endpoint", address}, strings.Split(line, " ")...)
		stdout, _, _ := execute(args...)
		if !strings.Contains(stdout, want) {
			t.Errorf("completion of %q: %q is not in %s", line, want, stdout)
		}
	}
	if stdout, _, _ := execute(cobra.ShellCompRequestCmd, "--endpoint", "127.0.0.1:1", "topics", "describe", ""); strings.Contains(stdout, "/") {
		t.Errorf("completion without a cluster: %s", stdout)
	}
}
