package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ister-mq/ister/setups"
	"github.com/ister-mq/ister/setups/internal/build"
)

// Setup implements setups.Setup.
type Setup struct{}

// Name implements setups.Setup.
func (Setup) Name() string { return "process" }

// Check implements setups.Setup.
func (Setup) Check(context.Context) []setups.Finding {
	findings := []setups.Finding{{Code: "OPERATING_SYSTEM", OK: runtime.GOOS != "windows", Fatal: runtime.GOOS == "windows",
		Message: runtime.GOOS + "/" + runtime.GOARCH, Remedy: "process groups need a Unix system"}}
	ports := setups.Finding{Code: "FREE_PORTS", OK: true, Message: fmt.Sprintf("ports can be taken between %d and %d", setups.PortLow, setups.PortHigh)}
	if _, err := setups.FreePorts(16); err != nil {
		ports = setups.Finding{Code: "FREE_PORTS", Fatal: true, Message: err.Error(), Remedy: "end what listens on those ports"}
	}
	return append(findings, ports, target(setups.Options{}).Check())
}

// target is what a binary has to be here.
func target(options setups.Options) build.Target {
	return build.Target{Setup: "process", CacheDir: options.CacheDir, Usable: build.Executable, Say: options.Say, Dir: options.Dir, Ledger: NewLedger(options.Dir)}
}

// New implements setups.Setup.
func (Setup) New(ctx context.Context, options setups.Options) (setups.Cluster, error) {
	if options.Say == nil {
		options.Say = func(string) {}
	}
	binaries := target(options)
	path, digest, err := binaries.Find(ctx, options.Binary)
	if err != nil {
		return nil, err
	}
	dir, err := filepath.Abs(options.Dir)
	if err != nil {
		return nil, fmt.Errorf("run directory: %w", err)
	}
	return &cluster{binaries: binaries, path: path, digest: digest, dir: dir, ledger: binaries.Ledger.(*Ledger), http: &http.Client{Timeout: time.Second}}, nil
}

// stopWait bounds the wait until every thread of a broker is frozen: the signal
// reaches them one by one, and one that runs may still answer meanwhile.
const stopWait = 5 * time.Second

// closeGrace is how long Close lets brokers end in order.
const closeGrace = 5 * time.Second

type cluster struct {
	binaries          build.Target
	path, digest, dir string // of the first build, and of the run
	ledger            *Ledger
	http              *http.Client
	front             func(name, listens string) (string, error) // nil: nothing stands in front
	place             func(name string) (Place, error)           // nil: this machine

	mu      sync.Mutex
	brokers []*broker // guarded by mu
	closed  bool      // guarded by mu
}

// broker is one broker and its present process.
type broker struct {
	setups.Broker
	path, digest string // of its binary
	place        Place
	args         []string
	run          *running // nil: not running
}

// running is one process. done is closed once it has been waited for; exit is
// set before.
type running struct {
	pid  int
	done chan struct{}
	exit setups.Exit

	mu    sync.Mutex
	ended bool // guarded by mu: the id must not be signalled any more
}

func (c *cluster) Binary() (string, string) { return c.path, c.digest }

// Front implements setups.Fronter.
func (c *cluster) Front(front func(name, listens string) (string, error)) { c.front = front }

func (c *cluster) Brokers() []setups.Broker {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make([]setups.Broker, len(c.brokers))
	for i, b := range c.brokers {
		out[i] = b.Broker
		out[i].Running = b.run != nil && !b.run.over()
	}
	return out
}

func (r *running) over() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

// signal signals the process group unless the process has been waited for.
func (r *running) signal(s syscall.Signal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.ended {
		signalGroup(r.pid, s)
	}
}

func (c *cluster) Form(ctx context.Context, n int) ([]setups.Broker, error) {
	var seeds []string
	for range n {
		b, err := c.prepare()
		if err != nil {
			return nil, err
		}
		seeds = append(seeds, b.Raft)
	}
	for _, b := range c.brokers {
		b.args = append(b.args, "--seed-nodes", strings.Join(seeds, ","))
		if err := c.launch(b); err != nil {
			return nil, err
		}
	}
	// All at once: one that ends at once is why the others wait.
	group, ctx := errgroup.WithContext(ctx)
	for _, b := range c.brokers {
		group.Go(func() error {
			exit, err := c.await(ctx, b, "/readyz")
			if err == nil && exit != nil {
				err = c.early(b, *exit)
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return c.Brokers(), nil
}

func (c *cluster) Add(ctx context.Context) (setups.Broker, error) {
	b, err := c.prepare()
	if err != nil {
		return setups.Broker{}, err
	}
	b.args = append(b.args, "--join")
	if exit, err := c.Start(ctx, b.Name); err != nil {
		return setups.Broker{}, err
	} else if exit != nil {
		return setups.Broker{}, c.early(b, *exit)
	}
	started := b.Broker
	started.Running = true
	return started, nil
}

// early is the error of a broker that ended while it was starting.
func (c *cluster) early(b *broker, exit setups.Exit) error {
	return fmt.Errorf("%s ended while starting (%s); its log ends with:\n%s", b.Name, describe(exit), tail(filepath.Join(c.dir, b.LogFile), 5))
}

func describe(exit setups.Exit) string {
	if exit.Signal != "" {
		return exit.Signal
	}
	return fmt.Sprintf("exit code %d", exit.Code)
}

// tail returns the last n lines of a file.
func tail(path string, n int) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	return "  " + strings.Join(lines[max(0, len(lines)-n):], "\n  ")
}

// prepare gives the next broker its name, ports and directory.
func (c *cluster) prepare() (*broker, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, errors.New("the cluster is closed")
	}
	name := fmt.Sprintf("b%d", len(c.brokers)+1)
	placed := here
	if c.place != nil {
		placed = c.place
	}
	place, err := placed(name)
	if err != nil {
		return nil, fmt.Errorf("find a place for %s: %w", name, err)
	}
	home := filepath.Join("brokers", name)
	if err := os.MkdirAll(filepath.Join(c.dir, home), 0o755); err != nil {
		return nil, fmt.Errorf("make the broker's directory: %w", err)
	}
	b := &broker{path: c.path, digest: c.digest, place: place,
		Broker: setups.Broker{Name: name, Kafka: place.Kafka, Admin: place.Admin, Raft: place.Raft, Metrics: place.Metrics, LogFile: filepath.Join(home, "log")}}
	b.args = append([]string{"broker", "--data-dir", filepath.Join(c.dir, home, "data"), "--broker-addr", b.Kafka,
		"--raft-addr", b.Raft, "--prom-exporter", b.Metrics, "--admin-addr"}, place.admin()...)
	if c.front != nil {
		advertised, err := c.front(name, b.Raft)
		if err != nil {
			return nil, fmt.Errorf("stand in front of %s: %w", name, err)
		}
		b.args, b.Raft = append(b.args, "--advertised-raft-addr", advertised), advertised
	}
	c.brokers = append(c.brokers, b)
	return b, nil
}

// launch starts the broker's process.
func (c *cluster) launch(b *broker) error {
	home := filepath.Join(c.dir, "brokers", b.Name)
	if err := os.WriteFile(filepath.Join(home, "cmd"), []byte(b.path+" "+strings.Join(b.args, " ")+"\n"), 0o644); err != nil {
		return fmt.Errorf("write the command of %s: %w", b.Name, err)
	}
	config := fmt.Sprintf("name: %s\nkafka: %s\nadmin: %s\nraft: %s\nmetrics: %s\nbinary: %s\nsha256: %s\n", b.Name, b.Kafka, b.Admin, b.Raft, b.Metrics, b.path, b.digest)
	if err := os.WriteFile(filepath.Join(home, "config"), []byte(config), 0o644); err != nil {
		return fmt.Errorf("write the config of %s: %w", b.Name, err)
	}
	log, err := os.OpenFile(filepath.Join(home, "log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return fmt.Errorf("open the log of %s: %w", b.Name, err)
	}
	defer log.Close()
	cmd := exec.Command(b.path, b.args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = home, log, log
	cmd.Env = environment()

	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return errors.New("the cluster is closed")
	}
	if err := b.place.within(func() error { return c.ledger.Start(b.Name, cmd) }); err != nil {
		return err
	}
	b.run = &running{pid: cmd.Process.Pid, done: make(chan struct{})}
	go b.run.wait(cmd, c.ledger)
	return nil
}

// environment is this process's without settings of brokers, which would reach
// every broker alike.
func environment() []string {
	return slices.DeleteFunc(os.Environ(), func(entry string) bool { return strings.HasPrefix(entry, "ISTER_") })
}

// wait reaps the process. Between reaping it and noting so, its id could belong
// to another process group and be signalled; so where the system can tell of an
// end without reaping, the reaping is done under the lock.
func (r *running) wait(cmd *exec.Cmd, ledger *Ledger) {
	if awaitExit(r.pid) {
		r.mu.Lock()
		_ = cmd.Wait() // its error repeats what ProcessState tells
	} else {
		_ = cmd.Wait()
		r.mu.Lock()
	}
	r.ended = true
	r.mu.Unlock()
	r.exit = setups.Exit{Code: cmd.ProcessState.ExitCode()}
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		r.exit.Signal = status.Signal().String()
	}
	_ = ledger.End(r.pid) // a list that cannot be written fails the next start
	close(r.done)
}

// await polls a path of the broker's admin port until it answers 200, or the
// broker ends.
func (c *cluster) await(ctx context.Context, b *broker, path string) (*setups.Exit, error) {
	ticker := time.NewTicker(25 * time.Millisecond)
	defer ticker.Stop()
	last := "no answer"
	for {
		select {
		case <-b.run.done:
			exit := b.run.exit
			return &exit, nil
		case <-ctx.Done():
			return nil, fmt.Errorf("%s: GET http://%s%s: %s: %w; its log ends with:\n%s", b.Name, b.Admin, path, last, ctx.Err(), tail(filepath.Join(c.dir, b.LogFile), 5))
		case <-ticker.C:
		}
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+b.Admin+path, nil)
		if err != nil {
			return nil, err
		}
		response, err := c.http.Do(request)
		if err != nil {
			continue
		}
		body, _ := io.ReadAll(io.LimitReader(response.Body, 4096))
		response.Body.Close()
		if response.StatusCode == http.StatusOK {
			return nil, nil
		}
		last = fmt.Sprintf("status %d %s", response.StatusCode, bytes.TrimSpace(body))
	}
}

func (c *cluster) find(name string) (*broker, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, b := range c.brokers {
		if b.Name == name {
			return b, nil
		}
	}
	return nil, fmt.Errorf("no broker is called %s", name)
}

// alive finds a broker that runs.
func (c *cluster) alive(name string) (*broker, error) {
	b, err := c.find(name)
	if err == nil && (b.run == nil || b.run.over()) {
		err = fmt.Errorf("%s does not run", name)
	}
	return b, err
}

func (c *cluster) Start(ctx context.Context, name string) (*setups.Exit, error) {
	b, err := c.find(name)
	if err != nil {
		return nil, err
	}
	if b.run != nil && !b.run.over() {
		return nil, fmt.Errorf("%s runs already", name)
	}
	if err := c.launch(b); err != nil {
		return nil, err
	}
	return c.await(ctx, b, "/healthz")
}

// Builds implements setups.Builder.
func (c *cluster) Builds(ctx context.Context, upgrade string) (first, next setups.Build, err error) {
	return c.binaries.Two(ctx, c.path, upgrade)
}

// Upgrade implements setups.Upgrader.
func (c *cluster) Upgrade(_ context.Context, name, binary string) error {
	b, err := c.find(name)
	if err != nil {
		return err
	}
	if b.run != nil && !b.run.over() {
		return fmt.Errorf("%s runs: stop it before it gets another binary", name)
	}
	path, digest, err := c.binaries.Accept(binary)
	if err != nil {
		return err
	}
	b.path, b.digest = path, digest
	return nil
}

func (c *cluster) Stop(ctx context.Context, name string, grace time.Duration) (setups.Exit, error) {
	b, err := c.alive(name)
	if err != nil {
		return setups.Exit{}, err
	}
	b.run.signal(syscall.SIGTERM)
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-b.run.done:
		return b.run.exit, nil
	case <-ctx.Done():
		return setups.Exit{}, fmt.Errorf("stop %s: %w", name, ctx.Err())
	case <-timer.C:
		b.run.signal(syscall.SIGKILL)
		<-b.run.done
		return b.run.exit, fmt.Errorf("%s did not end within %s of SIGTERM and was killed", name, grace)
	}
}

func (c *cluster) Kill(ctx context.Context, name string) error {
	b, err := c.alive(name)
	if err != nil {
		return err
	}
	b.run.signal(syscall.SIGKILL)
	select {
	case <-b.run.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("kill %s: %w", name, ctx.Err())
	}
}

func (c *cluster) Pause(name string) error {
	b, err := c.alive(name)
	if err != nil {
		return err
	}
	b.run.signal(syscall.SIGSTOP)
	if !awaitStop(b.run.pid, stopWait) {
		return fmt.Errorf("%s did not freeze within %s of SIGSTOP", name, stopWait)
	}
	return nil
}

func (c *cluster) Resume(name string) error {
	b, err := c.alive(name)
	if err == nil {
		b.run.signal(syscall.SIGCONT)
	}
	return err
}

func (c *cluster) Close(ctx context.Context) []string {
	c.mu.Lock()
	c.closed = true
	var live []*broker
	for _, b := range c.brokers {
		if b.run != nil && !b.run.over() {
			live = append(live, b)
		}
	}
	c.mu.Unlock()
	for _, b := range live {
		b.run.signal(syscall.SIGCONT) // a paused one cannot end
		b.run.signal(syscall.SIGTERM)
	}
	ctx, cancel := context.WithTimeout(ctx, closeGrace)
	defer cancel()
	var left []string
	for _, b := range live {
		select {
		case <-b.run.done:
			continue
		case <-ctx.Done():
		}
		b.run.signal(syscall.SIGKILL)
		select {
		case <-b.run.done:
		case <-time.After(5 * time.Second):
			left = append(left, fmt.Sprintf("process %d (%s)", b.run.pid, b.Name))
		}
	}
	return left
}
