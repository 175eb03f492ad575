// Package setuptest is the conformance suite of setups: what every way of
// standing a cluster up has to do, and that nothing is left of it. It looks at
// brokers only as a user does, through their ports.
package setuptest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ister-mq/ister/admin/adminv1"
	"github.com/ister-mq/ister/admin/client"
	"github.com/ister-mq/ister/setups"
)

// Config of one run of the suite.
type Config struct {
	Setup   setups.Setup
	Options setups.Options // Dir is the run's directory
	Limits  setups.Limits  // zero: none are set
	// Upgrades: brokers can be given another build.
	Upgrades bool
	// Faults that have to work.
	Faults []setups.Fault
	// Left lists what is still there of a closed cluster; nil when files are all
	// that a setup makes.
	Left func() []string
}

// Bounds of the suite. They are generous: what is tested is that things happen.
const (
	startTimeout = 90 * time.Second
	buildTimeout = 5 * time.Minute // of the broker, from its source
	wait         = 30 * time.Second
	stopGrace    = 20 * time.Second
	answerWait   = time.Second
	poll         = 50 * time.Millisecond
	// slowDelay is small, since raft has to keep its leader.
	slowDelay = 20 * time.Millisecond
)

// Unique is a number that no other run on this machine has now.
func Unique() int64 { return time.Now().UnixNano() }

type suite struct {
	*testing.T
	cfg     Config
	cluster setups.Cluster
}

// Run runs the suite. Its parts build on each other.
func Run(t *testing.T, cfg Config) {
	s := &suite{T: t, cfg: cfg}
	for _, f := range cfg.Setup.Check(t.Context()) {
		if f.Fatal {
			t.Fatalf("%s: %s; %s", f.Code, f.Message, f.Remedy)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	cfg.Options.Say = func(text string) { t.Log(text) }
	cluster, err := cfg.Setup.New(ctx, cfg.Options)
	if err != nil {
		t.Fatal(err)
	}
	s.cluster = cluster
	if cfg.Limits != (setups.Limits{}) {
		limiter, ok := cluster.(setups.Limiter)
		if !ok {
			t.Fatalf("setup %s sets no limits", cfg.Setup.Name())
		}
		if err := limiter.Limit(setups.Limits{DiskBytes: setups.MinDiskBytes - 1}); err == nil {
			t.Error("a disk on which no broker takes records was accepted")
		}
		if err := limiter.Limit(cfg.Limits); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { // a part failed: nothing may stay
		for _, left := range cluster.Close(context.Background()) {
			t.Errorf("left behind: %s", left)
		}
	})
	for _, part := range []struct {
		name string
		run  func(*suite)
	}{
		{"forms", (*suite).forms},
		{"adds a broker that the others reach", (*suite).adds},
		{"refuses what makes no sense", (*suite).refuses},
		{"stops in order and keeps the data", (*suite).stops},
		{"kills and keeps the data", (*suite).kills},
		{"freezes and thaws", (*suite).freezes},
		{"upgrades a broker and goes back", (*suite).upgrades},
		{"starts a broker wrongly, beside it", (*suite).mistakes},
		{"offers the faults it has to", (*suite).offers},
		{"cuts a broker off and heals", (*suite).cutsOff},
		{"slows a broker down", (*suite).slows},
		{"fills a disk", (*suite).fills},
		{"leaves nothing", (*suite).leavesNothing},
	} {
		if !t.Run(part.name, func(t *testing.T) { s.T = t; part.run(s) }) {
			s.logs(t)
			return
		}
	}
}

// logs shows the end of every broker's log after a failure.
func (s *suite) logs(t *testing.T) {
	for _, b := range s.cluster.Brokers() {
		data, _ := os.ReadFile(filepath.Join(s.cfg.Options.Dir, b.LogFile))
		lines := strings.Split(strings.TrimSpace(string(data)), "\n")
		t.Logf("%s (running: %v):\n%s", b.Name, b.Running, strings.Join(lines[max(0, len(lines)-15):], "\n"))
	}
}

func (s *suite) context() context.Context {
	ctx, cancel := context.WithTimeout(s.Context(), startTimeout)
	s.Cleanup(cancel)
	return ctx
}

func (s *suite) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *suite) broker(name string) setups.Broker {
	s.Helper()
	for _, b := range s.cluster.Brokers() {
		if b.Name == name {
			return b
		}
	}
	s.Fatalf("no broker is called %s", name)
	return setups.Broker{}
}

// get asks a broker's admin port.
func get(ctx context.Context, address, path string) (int, []byte, error) {
	ctx, cancel := context.WithTimeout(ctx, answerWait)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+path, nil)
	if err != nil {
		return 0, nil, err
	}
	transport := &http.Transport{DisableKeepAlives: true}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return response.StatusCode, body, err
}

// Answers reports whether a broker's admin port says that it is alive.
func Answers(ctx context.Context, address string) bool {
	status, _, err := get(ctx, address, "/healthz")
	return err == nil && status == http.StatusOK
}

// until waits for a condition, which says what it sees.
func (s *suite) until(what string, cond func(context.Context) (bool, string)) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), wait)
	defer cancel()
	ticker := time.NewTicker(poll)
	defer ticker.Stop()
	for {
		ok, seen := cond(ctx)
		if ok {
			return
		}
		select {
		case <-ctx.Done():
			s.Fatalf("%s: not within %s; last seen: %s", what, wait, seen)
		case <-ticker.C:
		}
	}
}

func (s *suite) awaitReady(name string, want bool) {
	s.Helper()
	b := s.broker(name)
	s.until(fmt.Sprintf("%s ready: %v", name, want), func(ctx context.Context) (bool, string) {
		status, body, err := get(ctx, b.Admin, "/readyz")
		if err != nil {
			return false, err.Error() // one that is only cut off still answers
		}
		return (status == http.StatusOK) == want, fmt.Sprintf("%d %s", status, body)
	})
}

type identity struct {
	Cluster     string `json:"cluster"`
	Node        int    `json:"node_id"`
	Incarnation string `json:"incarnation"`
	State       string `json:"state"`
	Version     string `json:"version"`
}

func (s *suite) identity(name string) (id identity) {
	s.Helper()
	status, body, err := get(s.Context(), s.broker(name).Admin, "/ister/node")
	s.must(err)
	if status != http.StatusOK || json.Unmarshal(body, &id) != nil {
		s.Fatalf("identity of %s: %d %s", name, status, body)
	}
	return id
}

// admin returns a client of the admin API of one broker.
func (s *suite) admin(name string) *client.Client {
	s.Helper()
	c, err := client.New(client.Options{Endpoints: []string{s.broker(name).Admin}, Actor: "setuptest"})
	s.must(err)
	s.Cleanup(c.Close)
	return c
}

// kafka checks that a broker answers a Kafka client under its own address.
func (s *suite) kafka(name string) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), wait)
	defer cancel()
	c, err := kgo.NewClient(kgo.SeedBrokers(s.broker(name).Kafka))
	s.must(err)
	defer c.Close()
	s.must(c.Ping(ctx))
}

func (s *suite) forms() {
	if left := s.cluster.Brokers(); len(left) != 0 {
		s.Fatalf("brokers before the start: %v", left)
	}
	started := time.Now()
	brokers, err := s.cluster.Form(s.context(), 3)
	s.must(err)
	s.Logf("3 brokers ready after %s", time.Since(started).Round(time.Millisecond))
	if name, digest := s.cluster.Binary(); name == "" || len(digest) != 64 {
		s.Errorf("binary is %q, digest %q", name, digest)
	}
	addresses, nodes := map[string]bool{}, map[int]bool{}
	for i, b := range brokers {
		if want := fmt.Sprintf("b%d", i+1); b.Name != want || !b.Running {
			s.Errorf("broker %d is %s, running %v; want %s, running", i, b.Name, b.Running, want)
		}
		for _, address := range []string{b.Kafka, b.Admin, b.Raft, b.Metrics} {
			if address == "" || addresses[address] {
				s.Errorf("%s: address %q is empty or used twice", b.Name, address)
			}
			addresses[address] = true
		}
		s.awaitReady(b.Name, true)
		s.kafka(b.Name)
		id := s.identity(b.Name)
		if nodes[id.Node] || id.Cluster != s.identity("b1").Cluster {
			s.Errorf("%s is %+v", b.Name, id)
		}
		nodes[id.Node] = true
		if status, _, err := get(s.Context(), b.Metrics, "/metrics"); err != nil || status != http.StatusOK {
			s.Errorf("metrics of %s: %d, %v", b.Name, status, err)
		}
		s.until("log of "+b.Name, func(context.Context) (bool, string) {
			data, err := os.ReadFile(filepath.Join(s.cfg.Options.Dir, b.LogFile))
			return len(data) > 0, fmt.Sprint(err)
		})
	}
}

func (s *suite) adds() {
	b, err := s.cluster.Add(s.context())
	s.must(err)
	if b.Name != "b4" || !b.Running {
		s.Fatalf("the added broker is %+v", b)
	}
	if id := s.identity("b4"); id.State != "fresh" {
		s.Fatalf("it is in state %s, want fresh", id.State)
	}
	address := setups.AdminForBrokers(s.cluster, b)
	for _, via := range []string{"b1", "b2", "b3"} { // one is the controller, two send it on
		answer, err := s.admin(via).Cluster.AddNode(s.context(), &adminv1.AddNodeRequest{NodeAddr: "http://" + address})
		if err != nil {
			s.Fatalf("add-node --node-addr http://%s by way of %s: %v", address, via, err)
		}
		s.Logf("by way of %s: node %d, role %s", via, answer.GetNodeId(), answer.GetRole())
	}
	s.awaitReady("b4", true)
}

func (s *suite) refuses() {
	ctx := s.context()
	if _, err := s.cluster.Start(ctx, "b1"); err == nil {
		s.Error("b1 was started while it ran")
	}
	for what, err := range map[string]error{
		"kill": s.cluster.Kill(ctx, "b9"), "pause": s.cluster.Pause("b9"), "resume": s.cluster.Resume("b9"),
	} {
		if err == nil {
			s.Errorf("%s of a broker that does not exist", what)
		}
	}
	if _, err := s.cluster.Stop(ctx, "b9", stopGrace); err == nil {
		s.Error("stop of a broker that does not exist")
	}
}

// same checks that a broker came back with what it had.
func (s *suite) same(name string, was identity) {
	s.Helper()
	if is := s.identity(name); is.Incarnation != was.Incarnation || is.Node != was.Node || is.Cluster != was.Cluster {
		s.Errorf("%s came back as %+v, was %+v", name, is, was)
	}
}

func (s *suite) logSize(name string) int64 {
	info, err := os.Stat(filepath.Join(s.cfg.Options.Dir, s.broker(name).LogFile))
	s.must(err)
	return info.Size()
}

func (s *suite) down(name string) {
	s.Helper()
	if s.broker(name).Running {
		s.Errorf("%s counts as running", name)
	}
	if status, _, err := get(s.Context(), s.broker(name).Admin, "/healthz"); err == nil {
		s.Errorf("%s still answers %d", name, status)
	}
	if err := s.cluster.Kill(s.context(), name); err == nil {
		s.Errorf("%s was killed again", name)
	}
	if err := s.cluster.Pause(name); err == nil {
		s.Errorf("%s was paused while it did not run", name)
	}
}

func (s *suite) restart(name string, was identity) {
	s.Helper()
	size := s.logSize(name)
	exit, err := s.cluster.Start(s.context(), name)
	s.must(err)
	if exit != nil {
		s.Fatalf("%s ended: %+v", name, exit)
	}
	s.same(name, was)
	s.awaitReady(name, true)
	s.until("log goes on", func(context.Context) (bool, string) {
		now := s.logSize(name)
		return now > size, fmt.Sprintf("%d bytes", now)
	})
}

func (s *suite) stops() {
	was := s.identity("b3")
	started := time.Now()
	exit, err := s.cluster.Stop(s.context(), "b3", stopGrace)
	s.must(err)
	s.Logf("stopped after %s", time.Since(started).Round(time.Millisecond))
	if exit.Code != 0 || exit.Signal != "" {
		s.Errorf("it ended with %+v, want status 0", exit)
	}
	s.down("b3")
	s.restart("b3", was)
}

func (s *suite) kills() {
	was := s.identity("b2")
	s.must(s.cluster.Kill(s.context(), "b2"))
	s.down("b2")
	s.restart("b2", was)
}

func (s *suite) freezes() {
	s.must(s.cluster.Pause("b2"))
	if !s.broker("b2").Running {
		s.Error("a frozen broker does not count as running")
	}
	if status, _, err := get(s.Context(), s.broker("b2").Admin, "/healthz"); err == nil {
		s.Errorf("a frozen broker answers %d", status)
	}
	s.must(s.cluster.Resume("b2"))
	s.awaitReady("b2", true)
	was := s.identity("b2")
	s.must(s.cluster.Pause("b2"))
	s.must(s.cluster.Kill(s.context(), "b2"))
	s.down("b2")
	s.restart("b2", was)
}

func (s *suite) upgrades() {
	builder, builds := setups.As[setups.Builder](s.cluster)
	upgrader, upgrades := setups.As[setups.Upgrader](s.cluster)
	if !builds || !upgrades {
		if s.cfg.Upgrades {
			s.Errorf("%s does not upgrade brokers", s.cfg.Setup.Name())
		}
		return
	}
	ctx, cancel := context.WithTimeout(s.Context(), buildTimeout)
	defer cancel()
	first, next, err := builder.Builds(ctx, "")
	s.must(err)
	if first.Version == next.Version || first.SHA256 == next.SHA256 || first.Version == "" || next.Version == "" {
		s.Fatalf("two builds that cannot be told apart: %+v, %+v", first, next)
	}
	if _, _, err := builder.Builds(s.context(), first.Path); err == nil {
		s.Error("the same binary counts as another build")
	}
	if err := upgrader.Upgrade(s.context(), "b3", next.Path); err == nil {
		s.Error("a broker that runs got another binary")
	}
	was := s.identity("b3")
	for _, b := range []setups.Build{next, first} {
		_, err := s.cluster.Stop(s.context(), "b3", stopGrace)
		s.must(err)
		if err := upgrader.Upgrade(s.context(), "b3", filepath.Join(s.cfg.Options.Dir, "none")); err == nil {
			s.Error("a file that does not exist was taken for a binary")
		}
		s.must(upgrader.Upgrade(s.context(), "b3", b.Path))
		s.restart("b3", was)
		if is := s.identity("b3").Version; is != b.Version {
			s.Errorf("b3 says that it is version %s, want %s", is, b.Version)
		}
		s.kafka("b3")
	}
	if err := upgrader.Upgrade(s.context(), "b9", next.Path); err == nil {
		s.Error("a broker that does not exist got another binary")
	}
}

// mistakes wants every wrong start refused by the broker, and the broker that it was
// beside as it was. A setup offers them exactly when it says so.
func (s *suite) mistakes() {
	mistaker, ok := setups.As[setups.Mistaker](s.cluster)
	if refused := setups.Cannot(s.cfg.Setup, setups.AbilityMistake); ok != (refused == nil) {
		s.Fatalf("a cluster that starts brokers wrongly: %v; the setup's refusal: %v", ok, refused)
	}
	if !ok {
		return
	}
	was := s.identity("b3")
	for _, mistake := range setups.Mistakes {
		beside := mistake == setups.MistakeDataInUse || mistake == setups.MistakePortInUse // the broker runs
		if !beside && s.broker("b3").Running {
			s.must(s.cluster.Kill(s.context(), "b3"))
		}
		made, err := mistaker.Mistake(s.context(), "b3", mistake)
		if err != nil || made.Exit.Code <= 0 || made.Says == "" {
			s.Errorf("%s ended with %+v, %v; want an exit code and a reason", mistake, made, err)
		}
		s.Logf("%s: exit code %d: %s", mistake, made.Exit.Code, made.Says)
		if s.broker("b3").Running != beside {
			s.Fatalf("after %s, b3 runs: %v", mistake, !beside)
		}
		if beside {
			s.same("b3", was)
			s.kafka("b3")
		}
	}
	for _, mistake := range []setups.Mistake{setups.MistakeDataInUse, setups.MistakePortInUse, "none"} {
		if _, err := mistaker.Mistake(s.context(), "b3", mistake); err == nil {
			s.Errorf("mistake %q on a broker that does not run", mistake)
		}
	}
	s.restart("b3", was)
	s.awaitReady("b3", true)
	for _, mistake := range []setups.Mistake{setups.MistakeWiped, setups.MistakeForeign} {
		if _, err := mistaker.Mistake(s.context(), "b3", mistake); err == nil {
			s.Errorf("mistake %q on a broker that runs", mistake)
		}
	}
	if _, err := mistaker.Mistake(s.context(), "b9", setups.MistakeWiped); err == nil {
		s.Error("a broker that does not exist was started wrongly")
	}
	if more := len(s.cluster.Brokers()); more != 4 {
		s.Errorf("%d brokers, want 4: a wrong start is none of them", more)
	}
}

// faults is the cluster's, when the fault works on it.
func (s *suite) faults(want setups.Fault) (setups.Faults, bool) {
	f, ok := s.cluster.(setups.Faults)
	return f, ok && slices.Contains(f.Can(), want)
}

func (s *suite) offers() {
	for _, want := range s.cfg.Faults {
		if _, ok := s.faults(want); !ok {
			s.Errorf("%s does not offer %s", s.cfg.Setup.Name(), want)
		}
	}
}

func (s *suite) cutsOff() {
	f, ok := s.faults(setups.FaultCutOff)
	if !ok {
		return
	}
	s.must(f.CutOff(s.context(), "b3"))
	s.must(f.CutOff(s.context(), "b3"))
	s.awaitReady("b3", false) // its lease ends; its clients' ports answer
	s.kafka("b3")
	s.awaitReady("b1", true)
	s.awaitReady("b2", true)
	s.must(f.Heal(s.context(), "b3"))
	s.awaitReady("b3", true)

	// It lasts over a restart.
	was := s.identity("b3")
	s.must(f.CutOff(s.context(), "b3"))
	s.must(s.cluster.Kill(s.context(), "b3"))
	exit, err := s.cluster.Start(s.context(), "b3")
	s.must(err)
	if exit != nil {
		s.Fatalf("b3 ended: %+v", exit)
	}
	s.awaitReady("b3", false)
	s.must(f.Heal(s.context(), "b3"))
	s.awaitReady("b3", true)
	s.same("b3", was)
}

// change times one change of the metadata, which needs a majority.
func (s *suite) change(name string) (took time.Duration) {
	s.Helper()
	attempt := 0
	s.until("change of the metadata", func(ctx context.Context) (bool, string) {
		attempt++ // a new one each time: the fate of one that failed is not known
		started := time.Now()
		_, err := s.admin("b1").Namespaces.CreateNamespace(ctx, &adminv1.CreateNamespaceRequest{Name: fmt.Sprintf("%s-%d", name, attempt)})
		took = time.Since(started)
		return err == nil, fmt.Sprint(err)
	})
	return took
}

func (s *suite) slows() {
	f, ok := s.faults(setups.FaultSlow)
	if !ok {
		return
	}
	quick := s.change("quick")
	for _, name := range []string{"b1", "b2", "b3"} {
		s.must(f.Slow(s.context(), name, setups.Link{Delay: slowDelay}))
	}
	slow := s.change("slow")
	s.Logf("a change took %s, with %s more on every link %s", quick, slowDelay, slow)
	if slow < 4*slowDelay { // both ends of a link are slow, in both directions
		s.Errorf("a change took %s, quicker than there and back", slow)
	}
	for _, name := range []string{"b1", "b2", "b3"} {
		s.must(f.Heal(s.context(), name))
		s.awaitReady(name, true)
	}
}

// freeBytes waits until a broker sees so much room on its disk.
func (s *suite) freeBytes(name string, want func(float64) bool) (free float64) {
	s.Helper()
	const metric = "ister_disk_free_bytes "
	s.until("room on the disk of "+name, func(ctx context.Context) (bool, string) {
		_, body, err := get(ctx, s.broker(name).Metrics, "/metrics")
		if err != nil {
			return false, err.Error()
		}
		for line := range strings.Lines(string(body)) {
			if value, ok := strings.CutPrefix(line, metric); ok {
				free, err = strconv.ParseFloat(strings.TrimSpace(value), 64)
				return err == nil && want(free), line
			}
		}
		return false, "no " + metric
	})
	return free
}

func (s *suite) fills() {
	f, ok := s.faults(setups.FaultFillDisk)
	if !ok {
		return
	}
	const leave = 4 << 20
	s.must(f.FillDisk(s.context(), "b3", leave))
	free := s.freeBytes("b3", func(n float64) bool { return n > leave/2 && n < 2*leave })
	s.Logf("b3 sees %.0f bytes free", free)
	s.awaitReady("b1", true)
	s.must(f.FreeDisk(s.context(), "b3"))
	free = s.freeBytes("b3", func(n float64) bool { return n > 2*leave })
	s.Logf("b3 sees %.0f bytes free", free)
	s.awaitReady("b3", true)
}

func (s *suite) leavesNothing() {
	brokers := s.cluster.Brokers()
	s.must(s.cluster.Pause("b2")) // a frozen broker ends as well
	started := time.Now()
	if left := s.cluster.Close(s.Context()); len(left) > 0 {
		s.Errorf("left behind: %s", strings.Join(left, ", "))
	}
	s.Logf("closed after %s", time.Since(started).Round(time.Millisecond))
	if left := s.cluster.Close(s.Context()); len(left) > 0 {
		s.Errorf("closing again: %s", strings.Join(left, ", "))
	}
	for _, b := range brokers {
		if status, _, err := get(s.Context(), b.Admin, "/healthz"); err == nil {
			s.Errorf("%s still answers %d", b.Name, status)
		}
		if s.logSize(b.Name) == 0 {
			s.Errorf("the log of %s is gone", b.Name)
		}
	}
	if _, err := s.cluster.Add(s.context()); err == nil {
		s.Error("a closed cluster started a broker")
	}
	if s.cfg.Left != nil {
		if left := s.cfg.Left(); len(left) > 0 {
			s.Errorf("still there: %s", strings.Join(left, ", "))
		}
	}
}
