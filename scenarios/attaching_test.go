package scenarios

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/ister-mq/ister/admin/adminv1"
	"github.com/ister-mq/ister/admin/client"
	"github.com/ister-mq/ister/scenarios/internal/fakecluster"
	"github.com/ister-mq/ister/scenarios/internal/report"
	"github.com/ister-mq/ister/setups"
	"github.com/ister-mq/ister/setups/attach"
)

// foreign is a cluster that somebody else runs, with a topic of theirs.
func foreign(t *testing.T) *kfake.Cluster {
	t.Helper()
	kafka, err := kfake.NewCluster(kfake.NumBrokers(3), kfake.SeedTopics(2, "mine"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(kafka.Close)
	return kafka
}

// attached runs the command against such a cluster.
func attached(t *testing.T, args ...string) (code int, out, errOut string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code = execute(t.Context(), newCommand(attach.Setup{}), args, &stdout, &stderr)
	return code, stdout.String(), stderr.String()
}

// checked runs delivery-check, quickly, and returns its record.
func checked(t *testing.T, kafka *kfake.Cluster, runs string, args ...string) (*report.Run, string) {
	t.Helper()
	words := append([]string{"run", "delivery-check", "--setup", "attach", "--bootstrap", strings.Join(kafka.ListenAddrs(), ","), "-o", "json", "--runs-dir", runs, "--seed", "7",
		"-p", "topics=2", "-p", "rate=40", "-p", "watch=1s"}, args...)
	code, out, errOut := attached(t, words...)
	var r report.Run
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatalf("exit %d, no record: %v\n%s\n%s", code, err, out, errOut)
	}
	if r.ExitCode != code {
		t.Errorf("the record has exit code %d, the command %d", r.ExitCode, code)
	}
	return &r, errOut
}

// onlyMine checks that nothing of a run is left.
func onlyMine(t *testing.T, kafka *kfake.Cluster) {
	t.Helper()
	for _, name := range []string{"delivery-check-1", "delivery-check-2"} {
		if kafka.TopicInfo(name) != nil {
			t.Errorf("the run left topic %s", name)
		}
	}
	if kafka.TopicInfo("mine") == nil {
		t.Error("a topic that was not the run's is gone")
	}
}

// moving is a shell command that lets move happen while it runs.
func moving(t *testing.T, move func()) string {
	t.Helper()
	dir := t.TempDir()
	begun, done, over := filepath.Join(dir, "begun"), filepath.Join(dir, "done"), make(chan struct{})
	go func() {
		defer close(over)
		ticker := time.NewTicker(10 * time.Millisecond)
		defer ticker.Stop()
		for {
			select {
			case <-t.Context().Done():
				return
			case <-ticker.C:
			}
			if _, err := os.Stat(begun); err == nil {
				move()
				_ = os.WriteFile(done, nil, 0o644)
				return
			}
		}
	}()
	t.Cleanup(func() { <-over })
	return "touch '" + begun + "'; until [ -e '" + done + "' ]; do sleep 0.02; done; echo moved $SCENARIO_TOPICS"
}

func TestDeliveryCheckSeesAMoveOnAForeignCluster(t *testing.T) {
	kafka := foreign(t)
	during := moving(t, func() {
		for partition := range int32(3) {
			leader := kafka.LeaderFor("delivery-check-1", partition)
			if err := kafka.MoveTopicPartition("delivery-check-1", partition, (leader+1)%3); err != nil {
				t.Error(err)
			}
		}
	})
	r, log := checked(t, kafka, t.TempDir(), "-p", "during="+during)
	if r.Verdict != report.Pass {
		t.Fatalf("%s: %+v\n%s", r.Verdict, r.Failures, log)
	}
	for _, s := range r.Steps {
		if s.ID == "changed" && (s.Outputs["changes"] != 3.0 || s.Outputs["said"] != "moved delivery-check-1,delivery-check-2" || !strings.HasPrefix(s.Outputs["change"].(string), "delivery-check-1/0: leader ")) {
			t.Errorf("%+v", s.Outputs)
		}
	}
	onlyMine(t, kafka)
	sums, err := os.ReadFile(filepath.Join(r.Directory, "SHA256SUMS"))
	if err != nil || !strings.Contains(string(sums), "  hand/changed.log\n") || !strings.Contains(string(sums), "  attach.json\n") {
		t.Errorf("evidence: %v\n%s", err, sums)
	}
	if want := "scenario run delivery-check --seed 7 --setup attach --bootstrap=" + strings.Join(kafka.ListenAddrs(), ",") + " --param 'during="; !strings.HasPrefix(r.Repro, want) {
		t.Errorf("repro %s", r.Repro)
	}
	if script, err := os.ReadFile(filepath.Join(r.Directory, "repro.sh")); err != nil || !strings.Contains(string(script), "--bootstrap=") {
		t.Errorf("%s, %v", script, err)
	}
}

// What tested nothing is no pass.
func TestDeliveryCheckThatTestsNothingIsInconclusive(t *testing.T) {
	for _, c := range []struct {
		name, during, guard string
		verdict             report.Verdict
	}{
		{"a command that changes nothing", "true", "changes", report.Inconclusive},
		{"a command that fails", "echo no such tool; exit 7", "command", report.Inconclusive},
		{"only watched", "", "", report.Pass},
	} {
		t.Run(c.name, func(t *testing.T) {
			kafka := foreign(t)
			r, log := checked(t, kafka, t.TempDir(), "-p", "during="+c.during)
			if r.Verdict != c.verdict {
				t.Fatalf("%s: %+v\n%s", r.Verdict, r.Failures, log)
			}
			unmet := ""
			for _, g := range r.Guards {
				if g.Status != report.CheckPass && g.ID == c.guard {
					unmet = g.ID
				}
			}
			if unmet != c.guard {
				t.Errorf("guards %+v", r.Guards)
			}
			onlyMine(t, kafka)
		})
	}
}

// A foreign cluster that acknowledges a record without keeping it is found out.
func TestDeliveryCheckFindsALoss(t *testing.T) {
	kafka := foreign(t)
	lie(kafka, 100)
	r, log := checked(t, kafka, t.TempDir())
	if r.Verdict != report.Fail || r.Criteria[0].ID != "lost" || r.Criteria[0].Value.(float64) < 1 {
		t.Fatalf("%s: %+v\n%s", r.Verdict, r.Criteria[0], log)
	}
	onlyMine(t, kafka)
	if _, err := os.Stat(filepath.Join(r.Directory, "capture", "1", "metadata.json")); err != nil {
		t.Error(err)
	}
}

func TestAClusterWithTheRunsTopicsIsRefusedUnchanged(t *testing.T) {
	kafka := foreign(t)
	if err := kafka.CreateTopic("delivery-check-2", 1, nil); err != nil {
		t.Fatal(err)
	}
	r, log := checked(t, kafka, t.TempDir())
	if r.Verdict != report.Environment || r.ExitCode != report.ExitEnvironment || len(r.Leftovers) > 0 ||
		!strings.Contains(r.Failures[0].Message, "observed: it has delivery-check-2; nothing was changed") {
		t.Fatalf("%s: %+v\n%s", r.Verdict, r.Failures, log)
	}
	if kafka.TopicInfo("delivery-check-1") != nil || kafka.TopicInfo("delivery-check-2") == nil {
		t.Error("the cluster was changed")
	}
}

func TestKeptTopicsAreDeletedByClean(t *testing.T) {
	kafka, runs := foreign(t), t.TempDir()
	if r, log := checked(t, kafka, runs, "--keep", "always"); r.Verdict != report.Pass || !r.Kept || kafka.TopicInfo("delivery-check-1") == nil {
		t.Fatalf("%s, kept %v\n%s", r.Verdict, r.Kept, log)
	}
	// One of another name, which the run's journal does not have.
	if err := kafka.CreateTopic("delivery-check-3", 1, nil); err != nil {
		t.Fatal(err)
	}
	if code, out, errOut := attached(t, "clean", "last", "--runs-dir", runs); code != 0 {
		t.Fatalf("exit %d: %s%s", code, out, errOut)
	}
	onlyMine(t, kafka)
	if kafka.TopicInfo("delivery-check-3") == nil {
		t.Error("clean deleted what the run had not made")
	}
}

func TestWhatAForeignClusterCannotIsRefused(t *testing.T) {
	kafka, runs := foreign(t), t.TempDir()
	code, _, errOut := attached(t, "run", "broker-scaling", "--setup", "attach", "--bootstrap", kafka.ListenAddrs()[0], "--runs-dir", runs)
	if code != 2 || !strings.Contains(errOut, "needs the ability admin: setup attach cannot ask the admin API: no admin address is given; give --admin HOST:PORT,...") {
		t.Errorf("exit %d: %s", code, errOut)
	}
	if left, _ := os.ReadDir(runs); len(left) > 0 {
		t.Errorf("left %v", left)
	}
}

func TestAttachFlagsAreChecked(t *testing.T) {
	plain := filepath.Join(t.TempDir(), "plain")
	if err := os.WriteFile(plain, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--setup", "attach"}, "no address of a cluster is given (give --admin HOST:PORT,... of every broker, or --bootstrap"},
		{[]string{"--setup", "attach", "--admin", "localhost"}, "--admin: endpoint \"localhost\": the host or the port is missing"},
		{[]string{"--setup", "attach", "--bootstrap", "nine"}, `--bootstrap "nine": expected HOST:PORT`},
		{[]string{"--setup", "attach", "--admin", "a:1,b:2,a:1"}, "--admin: a:1 is given twice"},
		{[]string{"--setup", "attach", "--admin", "127.0.0.1:1", "--broker-command", "/none"}, "--broker-command: broker command: expected an executable file, observed: stat /none: no such file"},
		{[]string{"--setup", "attach", "--admin", "127.0.0.1:1", "--broker-command", plain}, "make it one with chmod +x"},
	} {
		runs := t.TempDir()
		for _, command := range []string{"run", "plan"} {
			if command == "plan" && len(c.args) == 2 {
				continue // a plan may be asked for without a cluster
			}
			code, _, errOut := attached(t, append([]string{command, "broker-scaling", "--runs-dir", runs}, c.args...)...)
			if code != 2 || !strings.Contains(errOut, c.want) {
				t.Errorf("%s %v: exit %d, %q, want %q", command, c.args, code, errOut, c.want)
			}
		}
		if left, _ := os.ReadDir(runs); len(left) > 0 {
			t.Errorf("%v left %v", c.args, left)
		}
	}
}

func TestDoctorOfAnAttachedCluster(t *testing.T) {
	kafka := foreign(t)
	code, out, errOut := attached(t, "doctor", "--runs-dir", t.TempDir(), "--setup", "attach", "--bootstrap", strings.Join(kafka.ListenAddrs(), ","))
	if code != 0 || !strings.Contains(out, "BOOTSTRAP_REACHABLE 3 brokers answer the Kafka protocol") {
		t.Errorf("exit %d\n%s%s", code, out, errOut)
	}
	code, out, _ = attached(t, "doctor", "--runs-dir", t.TempDir(), "--admin", "127.0.0.1:1")
	if code != report.ExitEnvironment || !strings.Contains(out, "ADMIN_REACHABLE") || !strings.Contains(out, "start that broker, or correct --admin") {
		t.Errorf("exit %d\n%s", code, out)
	}
	if code, out, _ := attached(t, "doctor", "--runs-dir", t.TempDir()); code != 0 || strings.Contains(out, "ADDRESSES") {
		t.Errorf("a doctor that was not asked about a cluster: exit %d\n%s", code, out)
	}
	if code, _, errOut := attached(t, "doctor", "--setup", "atach"); code != 2 || !strings.Contains(errOut, "did you mean attach?") {
		t.Errorf("exit %d, %s", code, errOut)
	}
}

// A run on a cluster of Ister leaves its members and its topics as they were,
// also when brokers of the run had joined.
func TestAttachedClusterGetsBackWhatItWas(t *testing.T) {
	owner, err := fakecluster.Setup{}.New(t.Context(), setups.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { owner.Close(t.Context()) })
	members, err := owner.Form(t.Context(), 3)
	if err != nil {
		t.Fatal(err)
	}
	spare, err := owner.Add(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	admin, err := client.New(client.Options{Endpoints: []string{members[0].Admin}, Actor: "test"})
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	if _, err := admin.Topics.CreateTopic(t.Context(), &adminv1.CreateTopicRequest{Name: "/default/mine"}); err != nil {
		t.Fatal(err)
	}
	var addresses []string
	for _, b := range append(members, spare) {
		addresses = append(addresses, b.Admin)
	}
	runs := t.TempDir()
	words := []string{"run", "broker-scaling", "--setup", "attach", "--admin", strings.Join(addresses, ","), "--runs-dir", runs, "-p", "topics=4", "-p", "rate=40"}
	code, _, errOut := attached(t, words...)
	if code != 2 || !strings.Contains(errOut, "needs the ability stop: setup attach cannot stop a broker: it did not start the brokers, and no --broker-command is given") ||
		!strings.Contains(errOut, "what can run here: --aspect scale-up --aspect reliable-topic-move") {
		t.Errorf("exit %d: %s", code, errOut)
	}
	fourth, err := owner.Add(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := admin.Cluster.AddNode(t.Context(), &adminv1.AddNodeRequest{NodeAddr: "http://" + fourth.Admin}); err != nil {
		t.Fatal(err)
	}
	larger := slices.Clone(words)
	larger[slices.Index(words, "--admin")+1] += "," + fourth.Admin
	if code, out, _ := attached(t, append(larger, "--aspect", "scale-up")...); code != report.ExitEnvironment || !strings.Contains(out, "expected a cluster of 3 brokers, which the scenario counts, observed 4") {
		t.Errorf("exit %d\n%s", code, out)
	}
	if _, err := admin.Cluster.RemoveNode(t.Context(), &adminv1.RemoveNodeRequest{NodeId: 4}); err != nil {
		t.Fatal(err)
	}
	// Five leaders on four brokers are never quite even.
	code, out, errOut := attached(t, append(words, "--aspect", "scale-up", "-p", "cv_max=0.4")...)
	if code != 0 || !strings.Contains(out, "PASS  voters") {
		t.Fatalf("exit %d\n%s%s", code, out, errOut)
	}
	status, err := admin.Cluster.GetStatus(t.Context(), &adminv1.GetStatusRequest{})
	if err != nil || len(status.GetVoters()) != 3 {
		t.Errorf("voters %v, %v", status.GetVoters(), err)
	}
	topics, err := admin.Topics.ListTopics(t.Context(), &adminv1.ListTopicsRequest{})
	if err != nil || len(topics.GetTopics()) != 1 {
		t.Errorf("topics %v, %v", topics.GetTopics(), err)
	}
	for _, b := range owner.Brokers() {
		if !b.Running {
			t.Errorf("%s does not run any more", b.Name)
		}
	}
}

// A supervisor is given the same cluster.
func TestFlagsOfAttachReachTheSupervisor(t *testing.T) {
	cmd, _, err := NewCommand().Find([]string{"run"})
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.ParseFlags([]string{"--admin", "a:1,b:2", "--bootstrap", "c:3", "--broker-command", "x y", "--detach"}); err != nil {
		t.Fatal(err)
	}
	got := flagsOf(cmd)
	slices.Sort(got)
	if want := []string{"--admin=a:1", "--admin=b:2", "--bootstrap=c:3", "--broker-command=x y"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}
