package verb

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"
	"syscall"
	"time"

	"github.com/ister-mq/ister/scenarios/internal/spec"
)

type handInputs struct {
	Command string        `json:"command" default:"" shell:"true" doc:"shell command that changes the cluster; empty: none, and the cluster is only watched"`
	Within  time.Duration `json:"within" default:"10m" doc:"how long the command may take"`
	Watch   time.Duration `json:"watch" default:"5s" doc:"how long to watch on after it"`
	Topics  []string      `json:"topics" required:"true" doc:"topics whose partitions are watched, as Kafka clients name them"`
}

type handOutputs struct {
	Ran      bool    `json:"ran" doc:"there was a command"`
	ExitCode int64   `json:"exit_code" doc:"of the command; 0 without one, -1 after a signal"`
	Said     string  `json:"said" doc:"the last line that it wrote"`
	Log      string  `json:"log" doc:"what it wrote, below the run's directory"`
	Changes  int64   `json:"changes" doc:"partitions that had another leader, epoch, replicas or replicas in sync at some look"`
	Wanted   int64   `json:"wanted" doc:"fewest changes with which something was tested: 1 with a command, 0 without"`
	Change   string  `json:"change" doc:"the first change that was seen"`
	Looks    int64   `json:"looks" doc:"looks at the partitions"`
	TookMS   float64 `json:"took_ms" doc:"how long the command took"`
}

func init() {
	define(meta{
		name: "hand.run", risk: spec.Destructive, disturbs: true,
		doc: "Run a shell command that changes the cluster with its own tools, while records flow, and watch the partitions. " +
			"SCENARIO_BOOTSTRAP, SCENARIO_ADMIN, SCENARIO_TOPICS and SCENARIO_RUN_ID tell it about the run.",
		command: "sh -c '{command}'", note: "exit code {exit_code}, changes {changes}, {change}",
	}, handRun, nil)
}

// handLook bounds one look at the partitions.
const handLook = 2 * time.Second

func handRun(ctx context.Context, env *Env, in handInputs) (handOutputs, error) {
	out := handOutputs{Ran: in.Command != ""}
	if out.Ran {
		out.Wanted = 1
	}
	watched, err := watchPartitions(ctx, env, in.Topics)
	if err != nil {
		return out, err
	}
	start := time.Now()
	runErr := runByHand(ctx, env, in, &out)
	out.TookMS = since(start)
	if runErr == nil {
		if out.Ran {
			env.Say(fmt.Sprintf("the command ended with %d; watching on for %s", out.ExitCode, in.Watch))
		}
		runErr = wait(ctx, in.Watch)
	}
	watched.end(&out)
	return out, runErr
}

// runByHand runs the command in a process group of its own, which ends with the
// step.
func runByHand(ctx context.Context, env *Env, in handInputs, out *handOutputs) error {
	if !out.Ran {
		return nil
	}
	out.Log = filepath.Join("hand", env.step+".log")
	path := filepath.Join(env.Dir, out.Log)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("keep what the command writes: %w", err)
	}
	log, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("keep what the command writes: %w", err)
	}
	defer log.Close()
	bounded, cancel := context.WithTimeout(ctx, in.Within)
	defer cancel()
	cmd := exec.CommandContext(bounded, "sh", "-c", in.Command)
	cmd.Stdout, cmd.Stderr = log, log // a file: what it leaves running may keep it
	cmd.Env = append(os.Environ(), env.variables(in.Topics)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	env.Say("running: " + in.Command)
	err = cmd.Run()
	out.Said = tailOf(path)
	var ended *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("the command was ended: %w", ctx.Err())
	case bounded.Err() != nil:
		return fmt.Errorf("expected the command to end within %s, observed that it had not (it was killed); what it wrote: %s", in.Within, path)
	case errors.As(err, &ended):
		out.ExitCode = int64(ended.ExitCode())
	case err != nil:
		return fmt.Errorf("run the command: %w", err)
	}
	return nil
}

// variables tell a command about the run.
func (e *Env) variables(topics []string) []string {
	var admin []string
	for _, b := range e.Cluster.Brokers() {
		if b.Running && b.Admin != "" {
			admin = append(admin, b.Admin)
		}
	}
	return []string{
		"SCENARIO_RUN_ID=" + e.RunID, "SCENARIO_BOOTSTRAP=" + strings.Join(e.bootstrap(), ","), "SCENARIO_ADMIN=" + strings.Join(admin, ","),
		"SCENARIO_TOPICS=" + strings.Join(topics, ","),
	}
}

// tailOf is the last line of a file, cut to what a table takes.
func tailOf(path string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	last := []rune(strings.TrimSpace(lines[len(lines)-1]))
	return string(last[:min(len(last), 200)])
}

// watch looks at partitions again and again in a goroutine of its own, until
// end.
type watch struct {
	cancel  context.CancelFunc
	done    chan struct{}
	first   placement
	changed map[string]string // by partition: how it first differed
	order   []string          // of changed
	looks   int64
}

func watchPartitions(ctx context.Context, env *Env, topics []string) (*watch, error) {
	admin, err := env.kafkaAdmin()
	if err != nil {
		return nil, err
	}
	w := &watch{done: make(chan struct{}), changed: map[string]string{}, looks: 1}
	if w.first, err = placementOf(ctx, admin, topics); err != nil {
		admin.Close()
		return nil, fmt.Errorf("look at the partitions: %w", err)
	}
	running, cancel := context.WithCancel(ctx)
	w.cancel = cancel
	go func() {
		defer close(w.done)
		defer admin.Close()
		for wait(running, 2*lookEvery) == nil {
			looking, cancel := context.WithTimeout(running, handLook)
			now, err := placementOf(looking, admin, topics)
			cancel()
			if err == nil { // a cluster in trouble may not answer; the next look may
				w.compare(now)
			}
		}
	}()
	return w, nil
}

// compare notes what differs from the first look.
func (w *watch) compare(now placement) {
	w.looks++
	partitions := make([]string, 0, len(now))
	for p := range now {
		partitions = append(partitions, p)
	}
	sort.Strings(partitions)
	for _, p := range partitions {
		if before, known := w.first[p]; known && before != now[p] && w.changed[p] == "" {
			w.changed[p] = fmt.Sprintf("%s: %s -> %s", p, before, now[p])
			w.order = append(w.order, p)
		}
	}
}

// end ends the looks and tells what they saw.
func (w *watch) end(out *handOutputs) {
	w.cancel()
	<-w.done
	out.Changes, out.Looks = int64(len(w.order)), w.looks
	if len(w.order) > 0 {
		out.Change = w.changed[w.order[0]]
	}
}
