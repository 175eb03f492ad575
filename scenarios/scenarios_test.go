package scenarios

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"html"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ister-mq/ister/scenarios/internal/fakecluster"
	"github.com/ister-mq/ister/scenarios/internal/report"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the golden files")

// scenario runs the command with a fake setup and returns what it wrote.
func scenario(t *testing.T, setup fakecluster.Setup, args ...string) (code int, out, errOut string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code = execute(t.Context(), newCommand(setup), args, &stdout, &stderr)
	return code, stdout.String(), stderr.String()
}

// ran runs a scenario and returns its record.
func ran(t *testing.T, setup fakecluster.Setup, args ...string) (*report.Run, string) {
	t.Helper()
	runs := t.TempDir()
	code, out, errOut := scenario(t, setup, append([]string{"run", "-o", "json", "--runs-dir", runs, "--seed", "7"}, args...)...)
	var r report.Run
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatalf("exit %d, no record: %v\n%s\n%s", code, err, out, errOut)
	}
	if r.ExitCode != code {
		t.Errorf("the record has exit code %d, the command %d", r.ExitCode, code)
	}
	if t.Failed() || testing.Verbose() {
		t.Log(errOut)
	}
	return &r, errOut
}

func TestBrokerScalingPassesOnACorrectCluster(t *testing.T) {
	r, log := ran(t, fakecluster.Setup{}, "broker-scaling", "-p", "topics=4", "-p", "rate=40", "-p", "messages=80", "-p", "move_rate=100")
	if r.Verdict != report.Pass {
		t.Fatalf("%s: %+v\n%s", r.Verdict, r.Failures, log)
	}
	if len(r.Criteria) < 30 || len(r.Guards) < 10 {
		t.Fatalf("%d criteria and %d guards", len(r.Criteria), len(r.Guards))
	}
	checkEvidence(t, r.Directory)
	checkSamples(t, r.Directory)
	code, out, errOut := scenario(t, fakecluster.Setup{}, "verify", "--runs-dir", filepath.Dir(r.Directory), "last")
	if code != 0 || !strings.Contains(out, "move-read-1: 80 acknowledged, 0 unknown (0 in the log), 0 refused, 80 in the log, 0 violations") {
		t.Fatalf("verify: exit %d\n%s%s", code, out, errOut)
	}
}

// checkSamples looks for samples of the cluster and its clients, and for none
// taken during the cleanup.
func checkSamples(t *testing.T, dir string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "events.ndjson"))
	if err != nil {
		t.Fatal(err)
	}
	whole, cleaning := 0, false
	for _, line := range strings.Split(strings.TrimSpace(string(data)), "\n") {
		var e report.Event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		cleaning = cleaning || e.Kind == report.CleanupBegun
		if e.Kind != report.Sampled {
			continue
		}
		if cleaning {
			t.Errorf("sampled during the cleanup: %s", line)
		}
		if s := e.Sample; len(s.Brokers) >= 3 && s.Moves != nil && s.Voters != nil && s.UnderReplicated != nil && s.ProduceRate != nil && *s.ProduceRate > 0 && s.GapMS != nil {
			whole++
		}
	}
	if whole < 2 {
		t.Errorf("%d samples with everything in them", whole)
	}
}

func checkEvidence(t *testing.T, dir string) {
	t.Helper()
	for _, name := range []string{"run.json", "events.ndjson", "history.ndjson.gz", "junit.xml", "summary.md", "report.html", "state.json", "repro.sh", "SHA256SUMS", "brokers/b1/log"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Size() == 0 {
			t.Errorf("evidence %s: %v", name, err)
		}
	}
	sums, err := os.ReadFile(filepath.Join(dir, "SHA256SUMS"))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(strings.TrimSpace(string(sums)), "\n") {
		sum, name, _ := strings.Cut(line, "  ")
		data, err := os.ReadFile(filepath.Join(dir, name))
		got := sha256.Sum256(data)
		if err != nil || hex.EncodeToString(got[:]) != sum {
			t.Errorf("checksum of %s does not hold: %v", name, err)
		}
	}
}

func TestKillAndRecoverPassesOnACorrectCluster(t *testing.T) {
	r, log := ran(t, fakecluster.Setup{}, "kill-and-recover", "-p", "partitions=1", "-p", "rate=100")
	if r.Verdict != report.Pass {
		t.Fatalf("%s: %+v\n%s", r.Verdict, r.Failures, log)
	}
	for _, s := range r.Steps {
		if s.ID == "kills" && (s.Outputs["leader"] != 1.0 || s.Outputs["controller"] != 1.0 || s.Outputs["follower"] != 1.0) {
			t.Errorf("three rounds killed %v", s.Outputs)
		}
	}
}

func TestAspectAloneRunsWhatItNeedsAndJudgesOnlyItself(t *testing.T) {
	r, _ := ran(t, fakecluster.Setup{ServesAfterRemoval: true}, "broker-scaling", "--aspect", "scale-down", "-p", "topics=4", "-p", "rate=40")
	stages := map[string]bool{}
	for _, s := range r.Steps {
		stages[s.Stage] = true
	}
	if !stages["scale-up"] || !stages["scale-down"] || stages["reliable-topic-move"] || !stages["on_failure"] {
		t.Errorf("stages %v", stages)
	}
	var failed []string
	for _, c := range r.Criteria {
		if c.Aspect != "scale-down" {
			t.Errorf("judged %s", c.Aspect)
		}
		if c.Status != report.CheckPass {
			failed = append(failed, c.ID)
		}
	}
	if r.Verdict != report.Fail || r.ExitCode != 1 || strings.Join(failed, " ") != "refuses" {
		t.Fatalf("%s, exit %d, failed %v", r.Verdict, r.ExitCode, failed)
	}
	f := r.Failures[0]
	if f.Expected != "returned.serves == false" || !strings.HasPrefix(f.Observed, "true") || f.Repro != "scenario run broker-scaling --seed 7 --aspect scale-down --param rate=40 --param topics=4" {
		t.Fatalf("failure %+v", f)
	}
	for _, file := range f.Evidence {
		if _, err := os.Stat(file); err != nil {
			t.Errorf("evidence: %v", err)
		}
	}
}

// small is a scenario with one topic; the marked lines are filled in by tests.
const small = `apiVersion: scenario/v1
id: small
title: Small
description: A small scenario.
risk: additive
setups: [process]
cluster: {brokers: 3}
setup:
  - {id: cluster, use: cluster.start}
  - {id: topic, use: topic.create, with: {name: /default/small}}
  - {id: load, use: load.start, with: {id: small, topics: "${topic.kafka_names}", rate: 200, messages: 40}}
aspects:
  - id: only
    title: Only
    steps:
      STEPS
      - {id: sent, use: load.wait, with: {load: small}}
      - {id: stop, use: load.stop, with: {load: small}}
      - {id: verify, use: load.verify, with: {load: small}}
    guards:
      - {id: seen, title: records were acknowledged, metric: verify.acked, op: ">=", value: GUARD}
    criteria:
      - {id: lost, title: lost, metric: verify.acked_missing, op: "==", value: 0, detail: "${verify.first_violation}"}
      - {id: voters, title: voters, metric: cluster.count, op: "==", value: 3}
always:
  - {id: last, use: cluster.status}
`

func smallFile(t *testing.T, steps, guard string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "small")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	source := strings.NewReplacer("      STEPS\n", steps, "GUARD", guard).Replace(small)
	if err := os.WriteFile(filepath.Join(dir, specFile), []byte(source), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

func stepRan(r *report.Run, id string) bool {
	for _, s := range r.Steps {
		if s.ID == id {
			return true
		}
	}
	return false
}

// lie has a cluster acknowledge its nth produce request and keep nothing of it.
func lie(kafka *kfake.Cluster, nth int) {
	seen := 0
	kafka.ControlKey(int16(kmsg.Produce), func(request kmsg.Request) (kmsg.Response, error, bool) {
		kafka.KeepControl()
		if seen++; seen != nth {
			return nil, nil, false
		}
		produce := request.(*kmsg.ProduceRequest)
		answer := produce.ResponseKind().(*kmsg.ProduceResponse)
		for _, rt := range produce.Topics {
			topic := kmsg.NewProduceResponseTopic()
			topic.Topic, topic.TopicID = rt.Topic, rt.TopicID
			for _, rp := range rt.Partitions {
				partition := kmsg.NewProduceResponseTopicPartition()
				partition.Partition, partition.BaseOffset = rp.Partition, 5
				topic.Partitions = append(topic.Partitions, partition)
			}
			answer.Topics = append(answer.Topics, topic)
		}
		return answer, nil, true
	})
}

// A broker that acknowledges a record without keeping it is found out.
func TestLyingBrokerFails(t *testing.T) {
	setup := fakecluster.Setup{OnForm: func(kafka *kfake.Cluster) { lie(kafka, 3) }}
	r, log := ran(t, setup, smallFile(t, "", "1"))
	if r.Verdict != report.Fail || r.ExitCode != report.ExitFail {
		t.Fatalf("%s, %+v\n%s", r.Verdict, r.Failures, log)
	}
	if c := r.Criteria[0]; c.Status != report.CheckFail || c.Value.(float64) < 1 || !strings.Contains(c.Detail, "acked_lost") {
		t.Fatalf("criterion %+v", c)
	}
}

func TestVerdictsAndExitCodes(t *testing.T) {
	poll := "      - {id: wait, use: cluster.status, until: {path: voter_count, op: \"==\", value: 5, every: 5ms, within: 60ms}}\n"
	for _, c := range []struct {
		name, steps, guard string
		setup              fakecluster.Setup
		verdict            report.Verdict
		exit               int
		says               string
	}{
		{"pass", "", "40", fakecluster.Setup{}, report.Pass, 0, ""},
		{"guard unmet", "", "41", fakecluster.Setup{}, report.Inconclusive, 3, "guard only/seen: records were acknowledged"},
		{"until not reached", poll, "1", fakecluster.Setup{}, report.StepError, 6, "expected voter_count == 5, last value 3, after"},
		{"verb refused", "      - {id: bad, use: topic.describe, with: {name: /default/none}}\n", "1", fakecluster.Setup{}, report.StepError, 6, "TOPIC_NOT_FOUND"},
		{"step timeout", "      - {id: slow, use: load.wait, with: {load: small, acked: 1000}, timeout: 30ms}\n", "1", fakecluster.Setup{}, report.StepError, 6, "the step's timeout of 30ms has passed"},
		{"no cluster", "", "1", fakecluster.Setup{NoStart: true}, report.Environment, 4, "start the cluster"},
		{"left behind", "", "40", fakecluster.Setup{Leftover: "process 99 (b9)"}, report.Pass, 5, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r, log := ran(t, c.setup, smallFile(t, c.steps, c.guard))
			if r.Verdict != c.verdict || r.ExitCode != c.exit {
				t.Fatalf("%s, exit %d, want %s, exit %d: %+v\n%s", r.Verdict, r.ExitCode, c.verdict, c.exit, r.Failures, log)
			}
			if c.says != "" && (len(r.Failures) == 0 || !strings.Contains(r.Failures[0].Message, c.says)) {
				t.Fatalf("failures %+v, want %q", r.Failures, c.says)
			}
			if !stepRan(r, "last") {
				t.Error("always did not run")
			}
			checkTold(t, r)
		})
	}
}

// The time of a run may be up in a step that has time of its own left, whatever
// the step waits for.
func TestARunThatIsLateSaysSoOfTheRun(t *testing.T) {
	for name, step := range map[string]string{
		"call":  "      - {id: slow, use: load.wait, with: {load: small, acked: 1000}, timeout: 1h}\n",
		"until": "      - {id: slow, use: cluster.status, timeout: 1h, until: {path: voter_count, op: \"==\", value: 5, every: 5ms, within: 30m}}\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, log := ran(t, fakecluster.Setup{}, smallFile(t, step, "1"), "--timeout", "3s")
			if r.Verdict != report.StepError || len(r.Failures) == 0 || !stepRan(r, "last") {
				t.Fatalf("%s: %+v\n%s", r.Verdict, r.Failures, log)
			}
			f := r.Failures[0]
			if f.Expected != "the run at its end within 3s" || !strings.HasPrefix(f.Observed, "step slow under way, 3 more to come: ") || !strings.Contains(f.Message, "the run's deadline of 3s has passed") {
				t.Errorf("%+v", f)
			}
		})
	}
}

// checkTold looks for every failure in every report, and whether the reports can
// be made again from the evidence.
func checkTold(t *testing.T, r *report.Run) {
	t.Helper()
	words := func(text string) string { return strings.Join(strings.Fields(html.UnescapeString(text)), " ") }
	files := map[string]string{"html": "report.html", "md": "summary.md", "junit": "junit.xml", "json": "run.json", "text": ""}
	for format, file := range files {
		code, out, errOut := scenario(t, fakecluster.Setup{}, "report", "--runs-dir", filepath.Dir(r.Directory), "last", "--format", format)
		if code != 0 {
			t.Fatalf("%s: exit %d: %s", format, code, errOut)
		}
		if file != "" {
			if data, err := os.ReadFile(filepath.Join(r.Directory, file)); err != nil || string(data) != out {
				t.Errorf("%s is not what is in %s: %v", format, file, err)
			}
		}
		for _, f := range r.Failures {
			if f.Expected == "" || f.Observed == "" || f.Repro == "" || len(f.Evidence) == 0 {
				t.Errorf("failure %+v", f)
			}
			told := []string{f.Repro}
			if format != "junit" { // in its own words
				told = append(told, f.Expected, strings.Fields(f.Observed)[0])
			}
			for _, want := range told {
				if format != "json" && !strings.Contains(words(out), words(want)) {
					t.Errorf("%s does not tell %q", format, want)
				}
			}
		}
		if format == "junit" && (r.ExitCode != 0) != strings.Contains(out, "repro: ") {
			t.Errorf("exit code %d, and junit:\n%s", r.ExitCode, out)
		}
	}
	code, out, errOut := scenario(t, fakecluster.Setup{}, "report", "--runs-dir", filepath.Dir(r.Directory), "last", "--report", "html,junit")
	if code != 0 || !strings.Contains(out, "report.html") {
		t.Errorf("made again: exit %d: %s%s", code, out, errOut)
	}
	if r.Verdict != report.Environment { // then no broker left a log
		checkEvidence(t, r.Directory)
	}
}

// stopAt ends a context when a step begins.
type stopAt struct {
	bytes.Buffer
	word   string
	cancel context.CancelFunc
}

func (s *stopAt) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte(s.word)) {
		s.cancel()
	}
	return s.Buffer.Write(p)
}

func TestInterruptRunsAlwaysAndCleansUp(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	progress := &stopAt{word: "only", cancel: cancel}
	var out bytes.Buffer
	runs := t.TempDir()
	dir := smallFile(t, "      - {id: forever, use: load.wait, with: {load: small, acked: 1000}}\n", "1")
	code := execute(ctx, newCommand(fakecluster.Setup{}), []string{"run", dir, "-o", "json", "--runs-dir", runs}, &out, progress)
	var r report.Run
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	if code != 130 || r.Verdict != report.Interrupted || !stepRan(&r, "last") || len(r.Leftovers) > 0 {
		t.Fatalf("exit %d, %s, leftovers %v\n%s", code, r.Verdict, r.Leftovers, progress.String())
	}
	checkEvidence(t, r.Directory)
}

func TestUsageErrors(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"run", "broker-scalin"}, "no scenario broker-scalin: neither shipped nor a file (did you mean broker-scaling?)"},
		{[]string{"run"}, "takes SCENARIO, got 0 arguments"},
		{[]string{"run", "broker-scaling", "--aspekt", "x"}, "unknown flag: --aspekt (did you mean --aspect? see: scenario run --help)"},
		{[]string{"run", "broker-scaling", "--aspect", "scale-upp"}, "no aspect is called scale-upp (did you mean scale-up?)"},
		{[]string{"run", "broker-scaling", "-p", "topics"}, `--param "topics" is not name=value`},
		{[]string{"run", "broker-scaling", "-p", "topic=3"}, "unknown parameter topic (did you mean topics?)"},
		{[]string{"run", "broker-scaling", "-p", "topics=2"}, "topics: 2 is below the minimum 4"},
		{[]string{"run", "broker-scaling", "--setup", "docker"}, "does not run on setup docker (it runs on: process, container, compose, netns, attach)"},
		{[]string{"run", "broker-scaling", "--keep", "maybe"}, "--keep maybe is not known (never, failure or always)"},
		{[]string{"report", "nothing"}, "no run nothing in"},
		{[]string{"verify"}, "verify takes one RUN, or --selftest"},
		{[]string{"clean"}, "clean takes one RUN, or --all"},
		{[]string{"list", "-o", "xml"}, "--output xml is not known (text or json)"},
		{[]string{"plan", "broker-scaling", "--aspect", "x"}, "no aspect is called x"},
		{[]string{"verify", "--selftest", "--legal", "0"}, "at least one legal history"},
		{[]string{"jump"}, `unknown command "jump" for "scenario" (see: scenario --help)`},
		{[]string{"rum"}, `unknown command "rum" for "scenario" (did you mean run?)`},
		{[]string{"skills", "gne"}, "did you mean gen?"},
		{[]string{"list", "more"}, "scenario list takes no arguments, got 1 argument"},
		{[]string{"run", ""}, `no scenario "": neither shipped nor a file`},
		{[]string{"run", t.TempDir()}, "there is no scenario.yaml in"},
		{[]string{"run", "broker-scaling", "--aspect", ""}, `no aspect is called "" (known: scale-up`},
		{[]string{"run", "broker-scaling", "--seed", "x"}, `--seed "x" is not a whole number of 64 bits`},
		{[]string{"run", "broker-scaling", "--timeout", "5"}, `--timeout "5" is not a time such as 90s or 5m`},
		{[]string{"run", "broker-scaling", "--timeout", "-5s"}, "--timeout -5s is not a time above zero"},
		{[]string{"run", "broker-scaling", "--pause", "each", "--pause-max", "0s"}, "--pause-max 0s is not a time above zero"},
		{[]string{"run", "broker-scaling", "--from", "verify_up", "--until", "topics", "--supervisor"}, "step verify_up comes after topics, at which --until ends the run"},
		{[]string{"run", "broker-scaling", "--supervisor", "--pause", "on-fail"}, "--pause on-fail is not known (did you mean on-failure?)"},
		{[]string{"run", "broker-scaling", "-p", "gap_max=NaN"}, `gap_max: "NaN" is not a number`},
		{[]string{"run", "broker-scaling", "-p", "gap_max=+Inf"}, `gap_max: "+Inf" is not a number`},
		{[]string{"run", "soak", "-p", "duration=-5s"}, `duration: "-5s" is not a duration`},
		{[]string{"report", "last", "--format", "md", "--report", "md"}, "--format does not go with --report"},
		{[]string{"watch", ""}, "the name of the run is empty"},
		{[]string{"new", "broker-scaling"}, "broker-scaling is shipped"},
	} {
		runs := t.TempDir()
		code, out, errOut := scenario(t, fakecluster.Setup{}, append(c.args, "--runs-dir", runs)...)
		if code != 2 || !strings.Contains(errOut, c.want) {
			t.Errorf("%v: exit %d, %q %q, want %q", c.args, code, out, errOut, c.want)
		}
		if left, _ := os.ReadDir(runs); len(left) > 0 {
			t.Errorf("%v left %v", c.args, left)
		}
	}
}

func TestLintNamesThePlace(t *testing.T) {
	dir := smallFile(t, "      - {id: bad, use: topic.creat, with: {}}\n", "1")
	code, out, _ := scenario(t, fakecluster.Setup{}, "lint", dir)
	if code != 2 || !strings.Contains(out, `small/scenario.yaml:16:24: no verb is called topic.creat (did you mean topic.create?)`) {
		t.Fatalf("exit %d: %s", code, out)
	}
	if code, _, errOut := scenario(t, fakecluster.Setup{}, "run", dir, "--runs-dir", t.TempDir()); code != 2 || !strings.Contains(errOut, "topic.creat") {
		t.Fatalf("run of a bad file: exit %d: %s", code, errOut)
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *rewrite {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs (go test ./scenarios -rewrite, and read the change):\n%s", path, got)
	}
}

func TestGoldensOfShippedScenarios(t *testing.T) {
	for _, args := range [][]string{{"list"}, {"show", "broker-scaling"}, {"plan", "broker-scaling"}, {"plan", "broker-scaling", "--aspect", "reliable-topic-move"}, {"show", "kill-and-recover"}, {"plan", "kill-and-recover"}} {
		code, out, errOut := scenario(t, fakecluster.Setup{}, args...)
		if code != 0 {
			t.Fatalf("%v: exit %d: %s", args, code, errOut)
		}
		golden(t, strings.Join(args, "-")+".txt", out)
	}
}

func TestSelfTestCommand(t *testing.T) {
	code, out, _ := scenario(t, fakecluster.Setup{}, "verify", "--selftest", "--legal", "50")
	if code != 0 || !strings.Contains(out, "planted anomalies caught; 0 of 50 legal histories raised an alarm") || strings.Contains(out, "MISSED") {
		t.Fatalf("exit %d\n%s", code, out)
	}
}

// Skills follow the Agent Skills format, and each scenario has one.
func TestSkills(t *testing.T) {
	name := regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)
	for _, scenario := range shippedNames() {
		data, err := os.ReadFile(scenario + "/SKILL.md")
		if err != nil {
			t.Fatal(err)
		}
		front, body, ok := strings.Cut(strings.TrimPrefix(string(data), "---\n"), "\n---\n")
		if !ok {
			t.Fatalf("%s: no frontmatter", scenario)
		}
		keys := map[string]string{}
		for _, line := range strings.Split(front, "\n") {
			key, value, _ := strings.Cut(line, ": ")
			keys[key] = value
		}
		if keys["name"] != scenario || !name.MatchString(keys["name"]) || len(keys["description"]) > 1024 || !strings.Contains(keys["description"], "Use to") {
			t.Errorf("%s: frontmatter %v", scenario, keys)
		}
		for key := range keys {
			if !strings.Contains(" name description license compatibility metadata allowed-tools ", " "+key+" ") {
				t.Errorf("%s: key %s is not of the format", scenario, key)
			}
		}
		if lines := strings.Count(string(data), "\n"); lines > 150 || len(body) == 0 {
			t.Errorf("%s: %d lines", scenario, lines)
		}
	}
}

// A runs directory that cannot be used is a fault of the machine, with a remedy,
// for every command that needs one.
func TestARunsDirectoryThatIsAFile(t *testing.T) {
	t.Setenv(asCommand, "1")
	file := filepath.Join(t.TempDir(), "runs")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	small := smallFile(t, "", "1")
	for _, args := range [][]string{
		{"run", small}, {"run", small, "--detach"}, {"run", small, "--pause", "each"}, {"runs"}, {"watch", "x"}, {"report", "x"}, {"verify", "x"}, {"stop", "x"}, {"clean", "x"}, {"clean", "--all"},
		{"step", "x"}, {"resume", "x"}, {"table"}, {"doctor"},
	} {
		code, out, errOut := scenario(t, fakecluster.Setup{}, append(args, "--runs-dir", file)...)
		if code != report.ExitEnvironment || !strings.Contains(out+errOut, "with --runs-dir") || !strings.Contains(out+errOut, file) {
			t.Errorf("%v: exit %d: %s%s", args, code, out, errOut)
		}
	}
	if code, _, errOut := scenario(t, fakecluster.Setup{}, "list", "--runs-dir", ""); code != 2 || !strings.Contains(errOut, "--runs-dir is empty") {
		t.Errorf("exit %d: %s", code, errOut)
	}
}
