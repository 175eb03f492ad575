package scenarios

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/ister-mq/ister/scenarios/internal/fakecluster"
	"github.com/ister-mq/ister/scenarios/internal/history"
	"github.com/ister-mq/ister/scenarios/internal/report"
	"github.com/ister-mq/ister/setups"
)

// hindered is a setup whose clusters note what is done to their brokers.
type hindered struct {
	fakecluster.Setup
	refuses error // of Limit

	mu   sync.Mutex
	done []string // guarded by mu
}

func (h *hindered) New(ctx context.Context, o setups.Options) (setups.Cluster, error) {
	inner, err := h.Setup.New(ctx, o)
	return &hinderedCluster{inner, h}, err
}

func (h *hindered) note(format string, args ...any) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.done = append(h.done, fmt.Sprintf(format, args...))
	return nil
}

type hinderedCluster struct {
	setups.Cluster
	of *hindered
}

func (c *hinderedCluster) Limit(l setups.Limits) error {
	if c.of.refuses != nil {
		return c.of.refuses
	}
	return c.of.note("limit links=%v disk=%d", l.Links, l.DiskBytes)
}

func (c *hinderedCluster) Form(ctx context.Context, n int) ([]setups.Broker, error) {
	_ = c.of.note("form")
	return c.Cluster.Form(ctx, n)
}
func (c *hinderedCluster) Close(ctx context.Context) []string {
	_ = c.of.note("close")
	return c.Cluster.Close(ctx)
}
func (c *hinderedCluster) Pause(name string) error  { return c.of.note("pause %s", name) }
func (c *hinderedCluster) Resume(name string) error { return c.of.note("resume %s", name) }
func (c *hinderedCluster) Can() []setups.Fault {
	return []setups.Fault{setups.FaultCutOff, setups.FaultSlow, setups.FaultFillDisk}
}
func (c *hinderedCluster) CutOff(_ context.Context, name string) error {
	return c.of.note("cut %s", name)
}
func (c *hinderedCluster) Heal(_ context.Context, name string) error {
	return c.of.note("heal %s", name)
}
func (c *hinderedCluster) Slow(_ context.Context, name string, l setups.Link) error {
	return c.of.note("slow %s %s", name, l.Delay)
}
func (c *hinderedCluster) FillDisk(_ context.Context, name string, leave int64) error {
	return c.of.note("fill %s %d", name, leave)
}
func (c *hinderedCluster) FreeDisk(_ context.Context, name string) error {
	return c.of.note("free %s", name)
}

// faulty is a scenario with an aspect for each sort of fault.
const faulty = `apiVersion: scenario/v1
id: faulty
title: Faults
description: Faults of each sort.
risk: disruptive
setups: [process]
cluster: {brokers: 3, links: true, disk: 384MiB}
setup:
  - {id: cluster, use: cluster.start}
aspects:
  - id: quiet
    title: Without a fault
    steps:
      - {id: status, use: cluster.status}
    criteria:
      - {id: three, title: brokers, metric: cluster.count, op: "==", value: 3}
  - id: net
    title: The network
    steps:
      - {id: cut, use: network.cut_off, with: {broker: b2}}
      - {id: slow, use: network.slow, with: {broker: b1, delay: 20ms}}
      - {id: heal, use: network.heal}
    criteria:
      - {id: two, title: healed, metric: heal.count, op: "==", value: 2}
  - id: disk
    title: Left full
    steps:
      - {id: fill, use: disk.fill, with: {broker: b3, leave_bytes: 4096}}
      - {id: freeze, use: broker.pause, with: {broker: b1}}
    criteria:
      - {id: filled, title: brokers, metric: cluster.count, op: "==", value: 3}
always:
  - {id: thaw, use: broker.unpause}
`

// run runs the scenario file with faults and gives its record and errors.
func (h *hindered) run(t *testing.T, source string, args ...string) (code int, r *report.Run, errOut string) {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "faulty", specFile)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(source), 0o644); err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	code = execute(t.Context(), newCommand(h), append([]string{"run", file, "-o", "json", "--runs-dir", filepath.Join(dir, "runs")}, args...), &stdout, &stderr)
	if stdout.Len() > 0 {
		r = &report.Run{}
		if err := json.Unmarshal(stdout.Bytes(), r); err != nil {
			t.Fatal(err)
		}
	}
	return code, r, stderr.String()
}

func TestClusterIsLimitedBeforeItFormsByWhatTheStepsUse(t *testing.T) {
	for aspect, want := range map[string]string{
		"quiet": "form, close",
		"net":   "limit links=true disk=0, form, cut b2, slow b1 20ms, heal b2, heal b1, close",
		// What no step undid is undone at the end: a frozen broker does not end in order.
		"disk": "limit links=false disk=402653184, form, fill b3 4096, pause b1, resume b1, free b3, close",
	} {
		h := &hindered{}
		code, _, errOut := h.run(t, faulty, "--aspect", aspect)
		if got := strings.Join(h.done, ", "); code != 0 || got != want {
			t.Errorf("%s: exit %d, did %s\nwant %s\n%s", aspect, code, got, want, errOut)
		}
	}
}

func TestFaultsAreDisturbancesUntilTheyAreUndone(t *testing.T) {
	h := &hindered{}
	_, r, errOut := h.run(t, faulty)
	if r == nil {
		t.Fatal(errOut)
	}
	past, err := history.Load(filepath.Join(r.Directory, "history.ndjson.gz"))
	if err != nil {
		t.Fatal(err)
	}
	ends := map[string]int64{}
	for _, s := range r.Steps {
		ends[s.ID] = s.StartMS + s.TookMS
	}
	var seen []string
	for _, d := range past.Disturbances {
		seen = append(seen, d.Step+" "+d.Kind+" "+d.Target)
		if d.End <= d.Start {
			t.Errorf("%+v has no end", d)
		}
	}
	want := []string{"cut network.cut_off b2", "slow network.slow b1 delay 20ms, jitter 0s, 0 bytes/s, loss 0 %", "fill disk.fill b3 4096 bytes left", "freeze broker.pause b1"}
	if !slices.Equal(seen, want) {
		t.Errorf("disturbances %q", seen)
	}
	if cut, slow := past.Disturbances[0], past.Disturbances[1]; cut.End < slow.Start {
		t.Error("the cut ended before the link was slow")
	}
}

func TestClusterThatCannotBeLimitedIsNotStarted(t *testing.T) {
	h := &hindered{refuses: errors.New("mounting needs root")}
	code, r, errOut := h.run(t, faulty)
	if code != 4 || r == nil || slices.Contains(h.done, "form") || !strings.Contains(r.Failures[0].Message, "limit the brokers of setup process: mounting needs root") {
		t.Errorf("exit %d, %v, %+v\n%s", code, h.done, r, errOut)
	}
}

func TestClusterWithLinksIsNotKept(t *testing.T) {
	h := &hindered{}
	code, _, errOut := h.run(t, faulty, "--keep", "always")
	if code != 2 || len(h.done) > 0 || !strings.Contains(errOut, "links, which live in the runner") || !strings.Contains(errOut, "--pause on-failure") {
		t.Errorf("exit %d, %v\n%s", code, h.done, errOut)
	}
	if code, _, errOut = h.run(t, faulty, "--keep", "always", "--aspect", "quiet"); code != 0 {
		t.Errorf("without links: exit %d\n%s", code, errOut)
	}
}

func TestFaultWithoutItsClusterSectionIsAMistakeWithItsPlace(t *testing.T) {
	h := &hindered{}
	code, _, errOut := h.run(t, strings.Replace(faulty, ", links: true, disk: 384MiB", "", 1))
	for _, want := range []string{
		"faulty/scenario.yaml:20:24: network.cut_off needs links between the brokers, and the cluster section gives none (write cluster: {brokers: 3, links: true})",
		"disk.fill needs a disk of its own for each broker",
	} {
		if code != 2 || !strings.Contains(errOut, want) {
			t.Errorf("exit %d, want %q in\n%s", code, want, errOut)
		}
	}
}

func TestFaultsRefuseWhatMakesNoSense(t *testing.T) {
	for old, c := range map[string]struct{ new, want string }{
		"{broker: b2}":              {"{broker: b9}", "no broker is called b9 (there are b1, b2, b3)"},
		"{broker: b1, delay: 20ms}": {"{broker: b1}", "give at least one above zero"},
		"network.heal}":             {"network.heal, with: {broker: b7}}", "no broker is called b7"},
	} {
		h := &hindered{}
		code, r, errOut := h.run(t, strings.Replace(faulty, old, c.new, 1), "--aspect", "net")
		if code == 0 || r == nil || !strings.Contains(r.Failures[0].Message, c.want) {
			t.Errorf("%s: exit %d\n%s", c.new, code, errOut)
		}
	}
}
