package scenarios

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/ister-mq/ister/scenarios/internal/fakecluster"
	"github.com/ister-mq/ister/scenarios/internal/report"
)

// completed is what a shell is offered, without descriptions, and whether it may
// offer files as well.
func completed(t *testing.T, args ...string) (offered []string, files bool) {
	t.Helper()
	code, out, errOut := scenario(t, fakecluster.Setup{}, append([]string{cobra.ShellCompRequestCmd}, args...)...)
	if code != 0 {
		t.Fatalf("%v: exit %d: %s", args, code, errOut)
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	for _, line := range lines[:len(lines)-1] {
		word, _, _ := strings.Cut(line, "\t")
		offered = append(offered, word)
	}
	return offered, lines[len(lines)-1] == ":0"
}

func TestAShellCompletesWhatThereIs(t *testing.T) {
	runs := someRuns(t)
	in := func(args ...string) []string { return append([]string{"--runs-dir", runs}, args...) }
	for _, c := range []struct {
		args []string
		want string
	}{
		{in("run", "broker"), "broker-scaling"},
		{in("show", "cl"), "cluster-health"},
		{in("run", "broker-scaling", ""), ""},
		{in("run", "broker-scaling", "--aspect", ""), "scale-up scale-down reliable-topic-move"},
		{in("plan", "broker-scaling", "--aspect", "scale-up", "--aspect", "scale-"), "scale-down"},
		{in("run", "broker-scaling", "--aspect", "scale-up", "--from", "ad"), "added"},
		{in("run", "no-such", "--aspect", ""), ""},
		{in("run", "--aspect", ""), ""},
		{in("run", "broker-scaling", "--aspect", "nothing", "--until", ""), ""},
		{in("run", "kill-and-recover", "--param", "rou"), "rounds="},
		{in("run", "kill-and-recover", "-p", "rounds="), ""},
		{in("run", "broker-scaling", "--setup", ""), "process"}, // the fake's only one
		{in("doctor", "--setup", "p"), "process"},
		{in("run", "broker-scaling", "--progress", ""), "auto tty plain ndjson"},
		{in("watch", "--progress", "t"), "tty"},
		{in("run", "broker-scaling", "--report", ""), "json junit md html"},
		{in("report", "last", "--report", "html,j"), "html,json html,junit"},
		{in("list", "--output", ""), "text json"},
		{in("list", ""), ""},
		{in("run", "soak", "--keep", ""), "never failure always"},
		{in("run", "soak", "--pause", "on"), "on-failure"},
		{in("runs", "--verdict", "pass,in"), "pass,inconclusive pass,interrupted"},
		{in("runs", "--verdict", "st"), "step-error"},
		{in("lint", "--format", ""), "text json sarif"},
		{in("watch", ""), "20261202-000600-soak 20261202-000500-soak 20261202-000400-soak mine 20261202-000100-2-partition-and-heal 20261202-000100-partition-and-heal last"},
		{in("watch", "mi"), "mine"},
		{in("watch", "mine", ""), ""},
		{in("table", "mine", "20261202-0001"), "20261202-000100-2-partition-and-heal 20261202-000100-partition-and-heal"},
		{in("resume", ""), "20261202-000600-soak last"},
		{in("step", "2"), "20261202-000600-soak"},
		{in("step", "20261202-000600-soak", ""), "sent verify"},
		{in("step", "nothing", ""), ""},
		{in("stop", ""), "20261202-000600-soak 20261202-000500-soak last"},
		{[]string{"--runs-dir", "/does/not/exist", "watch", ""}, ""},
	} {
		got, files := completed(t, c.args...)
		if text := strings.Join(got, " "); text != c.want {
			t.Errorf("%v: %q, want %q", c.args, text, c.want)
		}
		if files != (c.args[len(c.args)-2] == "run" || c.args[len(c.args)-2] == "show") {
			t.Errorf("%v: files %v", c.args, files)
		}
	}
}

// Every flag with a fixed set of words offers them, and takes each.
func TestEveryReportFormatThatIsOfferedIsTaken(t *testing.T) {
	runs := t.TempDir()
	recorded(t, runs, "mine", 1, func(r *report.Run) { r.Directory = runs })
	offered, _ := completed(t, "report", "mine", "--format", "")
	if !slices.Contains(offered, "html") {
		t.Fatal(offered)
	}
	for _, format := range offered {
		if code, _, errOut := scenario(t, fakecluster.Setup{}, "report", "mine", "--runs-dir", runs, "--format", format); code != 0 {
			t.Errorf("%s: exit %d: %s", format, code, errOut)
		}
	}
}
