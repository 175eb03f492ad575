package process

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ister-mq/ister/setups"
)

// TestMain lets this test binary be the broker: with "broker" as its first
// argument it serves the admin port until it is signalled. A data directory that
// holds a file named refuse makes it end with code 10, one with hang makes it
// ignore SIGTERM, one with wait never lets it be ready.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "broker" {
		os.Exit(beBroker(os.Args[2:]))
	}
	os.Exit(m.Run())
}

func beBroker(args []string) int {
	flags := map[string]string{}
	for i := 0; i < len(args); i++ {
		if i+1 < len(args) && !strings.HasPrefix(args[i+1], "--") {
			flags[args[i]] = args[i+1]
			i++
		} else {
			flags[args[i]] = "true"
		}
	}
	data := flags["--data-dir"]
	fmt.Printf("join=%s seeds=%d setting=%q\n", flags["--join"], len(strings.Split(flags["--seed-nodes"], ",")), os.Getenv("ISTER_JOIN"))
	if _, err := os.Stat(filepath.Join(data, "refuse")); err == nil {
		fmt.Println("NODE_REMOVED")
		return 10
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM)
	if err := os.MkdirAll(data, 0o755); err != nil {
		return 1
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		if _, err := os.Stat(filepath.Join(data, "wait")); err == nil {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		fmt.Fprint(w, "{}")
	})
	go func() {
		fmt.Println(http.ListenAndServe(flags["--admin-addr"], mux))
		os.Exit(13)
	}()
	for range signals {
		if _, err := os.Stat(filepath.Join(data, "hang")); err != nil {
			return 0
		}
	}
	return 0
}

func newCluster(t *testing.T) (*cluster, string) {
	t.Helper()
	t.Setenv("ISTER_JOIN", "true") // must not reach the brokers
	dir := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c, err := Setup{}.New(t.Context(), setups.Options{Dir: dir, Binary: self})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if left := c.Close(context.Background()); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
	})
	return c.(*cluster), dir
}

func TestLifeOfACluster(t *testing.T) {
	c, dir := newCluster(t)
	brokers, err := c.Form(t.Context(), 2)
	if err != nil {
		t.Fatal(err)
	}
	added, err := c.Add(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(brokers) != 2 || added.Name != "b3" || !added.Running {
		t.Fatalf("formed %+v, added %+v", brokers, added)
	}
	ports := map[string]bool{}
	for _, b := range c.Brokers() {
		for _, address := range []string{b.Kafka, b.Admin, b.Raft, b.Metrics} {
			if ports[address] || !strings.HasPrefix(address, "127.0.0.1:") {
				t.Errorf("address %s", address)
			}
			ports[address] = true
		}
		if log, _ := os.ReadFile(filepath.Join(dir, b.LogFile)); !strings.Contains(string(log), `setting=""`) {
			t.Errorf("log of %s: %s", b.Name, log)
		}
	}
	ledger, err := LoadLedger(dir)
	if err != nil || len(ledger.Alive()) != 3 {
		t.Fatalf("ledger: %v, %v", ledger.Alive(), err)
	}

	if err := c.Kill(t.Context(), "b1"); err != nil {
		t.Fatal(err)
	}
	if err := c.Kill(t.Context(), "b1"); err == nil || !strings.Contains(err.Error(), "does not run") {
		t.Errorf("second kill: %v", err)
	}
	before := c.Brokers()[0]
	if exit, err := c.Start(t.Context(), "b1"); exit != nil || err != nil {
		t.Fatalf("start again: %v, %v", exit, err)
	}
	if after := c.Brokers()[0]; before.Running || !after.Running || after.Admin != before.Admin {
		t.Errorf("before %+v, after %+v", before, after)
	}
	if _, err := c.Start(t.Context(), "b1"); err == nil || !strings.Contains(err.Error(), "runs already") {
		t.Errorf("start of a running broker: %v", err)
	}
	exit, err := c.Stop(t.Context(), "b2", 10*time.Second)
	if err != nil || exit.Code != 0 {
		t.Errorf("stop: %+v, %v", exit, err)
	}
	if _, err := c.Stop(t.Context(), "b9", time.Second); err == nil {
		t.Error("stopped a broker that there is not")
	}
}

func TestStartTellsOfABrokerThatRefuses(t *testing.T) {
	c, dir := newCluster(t)
	if _, err := c.Form(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Stop(t.Context(), "b1", 10*time.Second); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "brokers", "b1", "data", "refuse"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	exit, err := c.Start(t.Context(), "b1")
	if err != nil || exit == nil || exit.Code != 10 {
		t.Fatalf("%+v, %v", exit, err)
	}
}

// Brokers that wait for the one that ended do not hide it.
func TestFormTellsWhyABrokerEnded(t *testing.T) {
	c, dir := newCluster(t)
	for name, file := range map[string]string{"b1": "wait", "b2": "refuse", "b3": "wait"} {
		data := filepath.Join(dir, "brokers", name, "data")
		if err := errors.Join(os.MkdirAll(data, 0o755), os.WriteFile(filepath.Join(data, file), nil, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := c.Form(ctx, 3); err == nil || !strings.Contains(err.Error(), "b2 ended while starting (exit code 10)") || !strings.Contains(err.Error(), "NODE_REMOVED") {
		t.Fatalf("%v", err)
	}
}

func TestStopKillsWhatDoesNotEnd(t *testing.T) {
	c, dir := newCluster(t)
	if _, err := c.Form(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "brokers", "b1", "data", "hang"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	exit, err := c.Stop(t.Context(), "b1", 50*time.Millisecond)
	if err == nil || exit.Signal != "killed" {
		t.Fatalf("%+v, %v", exit, err)
	}
}

func TestCloseEndsPausedBrokersAndForbidsMore(t *testing.T) {
	c, dir := newCluster(t)
	if _, err := c.Form(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	if err := c.Pause("b1"); err != nil {
		t.Fatal(err)
	}
	if left := c.Close(t.Context()); len(left) > 0 {
		t.Fatalf("left %v", left)
	}
	if _, err := c.Add(t.Context()); err == nil {
		t.Error("a closed cluster took a broker")
	}
	if ledger, err := LoadLedger(dir); err != nil || len(ledger.Alive()) > 0 {
		t.Errorf("alive %v, %v", ledger.Alive(), err)
	}
}

// What a runner that was killed left behind is ended from the ledger, and a
// process that has an old id of the run is not.
func TestLedgerEndsOnlyWhatItRecorded(t *testing.T) {
	c, dir := newCluster(t)
	if _, err := c.Form(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	ledger, err := LoadLedger(dir)
	if err != nil {
		t.Fatal(err)
	}
	alive := ledger.Alive()
	if len(alive) != 1 {
		t.Fatalf("alive %v", alive)
	}
	// The same process under another start time is another process.
	stranger := NewLedger(t.TempDir())
	stranger.entries = []Entry{{Name: "stranger", PID: alive[0].PID, Started: "1"}, {Name: "init", PID: 1, Started: startTime(1)}}
	if left := stranger.EndAll(time.Second); len(left) > 0 || len(ledger.Alive()) != 1 {
		t.Fatalf("a stranger was touched: left %v, alive %v", left, ledger.Alive())
	}
	if left := ledger.EndAll(10 * time.Second); len(left) > 0 {
		t.Fatalf("left %v", left)
	}
	<-c.brokers[0].run.done
	if again, err := LoadLedger(dir); err != nil || len(again.Alive()) > 0 {
		t.Errorf("alive %v, %v", again.Alive(), err)
	}
}

func TestFreePortsAreDistinctAndBelowTheEphemeralRange(t *testing.T) {
	ports, err := setups.FreePorts(40)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[int]bool{}
	for _, p := range ports {
		if seen[p] || p < setups.PortLow || p >= setups.PortHigh {
			t.Errorf("port %d", p)
		}
		seen[p] = true
	}
}

func TestBinaryThatIsNoneIsRefused(t *testing.T) {
	for _, path := range []string{t.TempDir(), filepath.Join(t.TempDir(), "none")} {
		if _, err := (Setup{}).New(t.Context(), setups.Options{Dir: t.TempDir(), Binary: path}); err == nil || !strings.Contains(err.Error(), "--ister-bin") {
			t.Errorf("%s: %v", path, err)
		}
	}
}
