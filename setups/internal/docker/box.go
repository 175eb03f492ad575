package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/ister-mq/ister/setups"
)

const (
	// logDrain is how long the end of a container waits for the rest of its log.
	logDrain = 2 * time.Second
	// killWait bounds the wait for the end of a container after SIGKILL.
	killWait = 15 * time.Second
	// pollInterval is how often a broker that starts is asked.
	pollInterval = 25 * time.Millisecond
	// logTail is how many lines of a log an error shows.
	logTail = 5
)

// Box is one container, over all its starts. Its methods may be called from any
// goroutine.
type Box struct {
	engine *Engine
	id     string
	name   string // of the broker
	log    string // file that its output is appended to

	mu  sync.Mutex
	run *run // guarded by mu; nil before the first start
}

// run is one start of a container. done is closed when it has ended and its log
// is complete; exit is set before.
type run struct {
	done chan struct{}
	exit setups.Exit
}

// NewBox wraps a container that exists. Its output goes to the file.
func (e *Engine) NewBox(id, name, logFile string) *Box {
	return &Box{engine: e, id: id, name: name, log: logFile}
}

// ID is the container's.
func (b *Box) ID() string { return b.id }

// Running reports whether it runs, paused or not.
func (b *Box) Running() bool {
	r := b.current()
	if r == nil {
		return false
	}
	select {
	case <-r.done:
		return false
	default:
		return true
	}
}

func (b *Box) current() *run {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.run
}

// Start starts the container. It does not wait for the broker in it, and it is
// not started through testcontainers, whose Start takes a container that ends at
// once (a removed node does) for one that failed.
func (b *Box) Start(ctx context.Context) error {
	if b.Running() {
		return fmt.Errorf("%s runs already", b.name)
	}
	if _, err := b.engine.API.ContainerStart(ctx, b.id, client.ContainerStartOptions{}); err != nil {
		return fmt.Errorf("start %s: %w", b.name, err)
	}
	return b.Adopt(ctx)
}

// Adopt takes over a container that was just started: its log and its end.
func (b *Box) Adopt(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	next := b.engine.API.ContainerWait(ctx, b.id, client.ContainerWaitOptions{Condition: container.WaitConditionNotRunning})
	info, err := b.engine.API.ContainerInspect(ctx, b.id, client.ContainerInspectOptions{})
	if err != nil {
		return fmt.Errorf("inspect %s: %w", b.name, err)
	}
	r := &run{done: make(chan struct{})}
	b.mu.Lock()
	b.run = r
	b.mu.Unlock()
	logged := make(chan struct{})
	go func() {
		defer close(logged)
		b.copyLog(ctx, info.Container.State.StartedAt)
	}()
	go func() {
		defer close(r.done)
		select {
		case end := <-next.Result:
			r.exit = exitOf(end.StatusCode)
		case <-next.Error: // the container or the engine is gone
			r.exit = setups.Exit{Code: -1, Signal: "lost"}
		}
		select {
		case <-logged:
		case <-time.After(logDrain):
		}
	}()
	return nil
}

// exitOf reads a container's status, in which an end by a signal is 128 and the
// signal.
func exitOf(status int64) setups.Exit {
	if status > 128 && status < 128+65 {
		return setups.Exit{Code: -1, Signal: syscall.Signal(status - 128).String()}
	}
	return setups.Exit{Code: int(status)}
}

// copyLog appends what the container says from a start on until it ends.
func (b *Box) copyLog(ctx context.Context, since string) {
	file, err := os.OpenFile(b.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return // the run directory is gone
	}
	defer file.Close()
	stream, err := b.engine.API.ContainerLogs(ctx, b.id, client.ContainerLogsOptions{ShowStdout: true, ShowStderr: true, Follow: true, Since: since})
	if err == nil {
		defer stream.Close()
		_, err = stdcopy.StdCopy(file, file, stream)
	}
	if err != nil && !errdefs.IsNotFound(err) {
		fmt.Fprintf(file, "(the log was cut off here: %v)\n", err)
	}
}

// Signal sends a signal to the broker, thawing it first.
func (b *Box) Signal(ctx context.Context, signal string) error {
	if err := b.Resume(ctx); err != nil {
		return err
	}
	_, err := b.engine.API.ContainerKill(ctx, b.id, client.ContainerKillOptions{Signal: signal})
	if err != nil && !errdefs.IsConflict(err) { // it ended by itself meanwhile
		return fmt.Errorf("signal %s: %w", b.name, err)
	}
	return nil
}

// Stop asks the broker to end and waits; after grace it is killed, which is an
// error with the exit.
func (b *Box) Stop(ctx context.Context, grace time.Duration) (setups.Exit, error) {
	r := b.current()
	if err := b.mustRun(); err != nil {
		return setups.Exit{}, err
	}
	if err := b.Signal(ctx, "SIGTERM"); err != nil {
		return setups.Exit{}, err
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-r.done:
		return r.exit, nil
	case <-ctx.Done():
		return setups.Exit{}, fmt.Errorf("stop %s: %w", b.name, ctx.Err())
	case <-timer.C:
	}
	if err := b.Kill(ctx); err != nil {
		return setups.Exit{}, err
	}
	return r.exit, fmt.Errorf("%s did not end within %s of SIGTERM and was killed", b.name, grace)
}

// Kill ends the broker at once, frozen or not.
func (b *Box) Kill(ctx context.Context) error {
	r := b.current()
	if err := b.mustRun(); err != nil {
		return err
	}
	if _, err := b.engine.API.ContainerKill(ctx, b.id, client.ContainerKillOptions{Signal: "SIGKILL"}); err != nil && !errdefs.IsConflict(err) {
		return fmt.Errorf("kill %s: %w", b.name, err)
	}
	ctx, cancel := context.WithTimeout(ctx, killWait)
	defer cancel()
	select {
	case <-r.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("kill %s: %w", b.name, ctx.Err())
	}
}

func (b *Box) mustRun() error {
	if !b.Running() {
		return fmt.Errorf("%s does not run", b.name)
	}
	return nil
}

// Pause freezes the broker. One that is frozen stays so.
func (b *Box) Pause(ctx context.Context) error {
	if err := b.mustRun(); err != nil {
		return err
	}
	return b.freeze(ctx, true)
}

// Resume thaws the broker, if it is frozen.
func (b *Box) Resume(ctx context.Context) error {
	if err := b.mustRun(); err != nil {
		return err
	}
	return b.freeze(ctx, false)
}

func (b *Box) freeze(ctx context.Context, frozen bool) error {
	info, err := b.engine.API.ContainerInspect(ctx, b.id, client.ContainerInspectOptions{})
	if err != nil {
		return fmt.Errorf("inspect %s: %w", b.name, err)
	}
	switch {
	case info.Container.State.Paused == frozen:
		return nil
	case frozen:
		_, err = b.engine.API.ContainerPause(ctx, b.id, client.ContainerPauseOptions{})
	default:
		_, err = b.engine.API.ContainerUnpause(ctx, b.id, client.ContainerUnpauseOptions{})
	}
	if err != nil {
		return fmt.Errorf("freeze or thaw %s: %w", b.name, err)
	}
	return nil
}

// Await polls a path of the broker's admin port until it answers 200, or the
// broker ends, which gives its exit.
func (b *Box) Await(ctx context.Context, url string) (*setups.Exit, error) {
	r := b.current()
	if r == nil {
		return nil, fmt.Errorf("%s was not started", b.name)
	}
	caller := &http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	last := "no answer"
	for {
		select {
		case <-r.done:
			exit := r.exit
			return &exit, nil
		case <-ctx.Done():
			return nil, fmt.Errorf("%s: GET %s: %s: %w; its log ends with:\n%s", b.name, url, last, ctx.Err(), b.Tail())
		case <-ticker.C:
		}
		status, body, err := get(ctx, caller, url)
		switch {
		case err != nil:
			last = err.Error()
		case status == http.StatusOK:
			return nil, nil
		default:
			last = fmt.Sprintf("status %d %s", status, body)
		}
	}
}

func get(ctx context.Context, caller *http.Client, url string) (int, string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, "", err
	}
	response, err := caller.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, 4096))
	return response.StatusCode, strings.TrimSpace(string(body)), err
}

// early is the error of a broker that ended while it was starting.
func (b *Box) early(exit setups.Exit) error {
	how := exit.Signal
	if how == "" {
		how = fmt.Sprintf("exit code %d", exit.Code)
	}
	return fmt.Errorf("%s ended while starting (%s); its log ends with:\n%s", b.name, how, b.Tail())
}

// Tail is the end of the broker's log.
func (b *Box) Tail() string {
	data, err := os.ReadFile(b.log)
	if err != nil {
		return "  " + err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	return "  " + strings.Join(lines[max(0, len(lines)-logTail):], "\n  ")
}

// Record writes what a broker is started with beside its log.
func Record(dir string, b setups.Broker, binary, digest string, args []string) error {
	home := filepath.Join(dir, filepath.Dir(b.LogFile))
	if err := os.MkdirAll(home, 0o755); err != nil {
		return fmt.Errorf("make the broker's directory: %w", err)
	}
	config := fmt.Sprintf("name: %s\nkafka: %s\nadmin: %s\nraft: %s\nmetrics: %s\nbinary: %s\nsha256: %s\n", b.Name, b.Kafka, b.Admin, b.Raft, b.Metrics, binary, digest)
	return errors.Join(
		os.WriteFile(filepath.Join(home, "cmd"), []byte(binary+" "+strings.Join(args, " ")+"\n"), 0o644),
		os.WriteFile(filepath.Join(home, "config"), []byte(config), 0o644))
}
