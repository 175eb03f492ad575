package run

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/ister-mq/ister/scenarios/internal/report"
	"github.com/ister-mq/ister/setups/process"
)

// Info is one run of a runs directory.
type Info struct {
	Run *report.Run `json:"run"`
	// Live: its runner is running. Processes counts what it started and still
	// runs.
	Live      bool `json:"live"`
	Paused    bool `json:"paused,omitempty"` // live, and waits for an order
	Processes int  `json:"processes"`
}

// List returns the runs of a directory, oldest first. Folders that are no runs
// are left out.
func List(runsDir string) ([]Info, error) {
	entries, err := os.ReadDir(runsDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list runs: %w", err)
	}
	var infos []Info
	for _, entry := range entries {
		if !entry.IsDir() || strings.HasPrefix(entry.Name(), ".") {
			continue
		}
		if info, err := Inspect(filepath.Join(runsDir, entry.Name())); err == nil {
			infos = append(infos, info)
		}
	}
	// Callers may name runs, so that names say nothing about the order.
	slices.SortStableFunc(infos, func(a, b Info) int { return a.Run.StartedAt.Compare(b.Run.StartedAt) })
	return infos, nil
}

// Inspect reads the record and the processes of the run in dir.
func Inspect(dir string) (Info, error) {
	r, err := report.LoadRun(dir)
	if err != nil {
		return Info{}, err
	}
	ledger, err := process.LoadLedger(dir)
	if err != nil {
		return Info{}, err
	}
	info := Info{Run: r, Live: r.Verdict == report.Running && process.Same(r.Runner.PID, r.Runner.Started), Processes: len(ledger.Alive())}
	if state, err := LoadState(dir); err == nil { // runs of older builds have none
		info.Paused = info.Live && state.Paused()
	}
	return info, nil
}

// Find returns the directory of a run given by id, by a unique part of it, by
// path, or by "last".
func Find(runsDir, name string) (string, error) {
	if _, err := os.Stat(filepath.Join(name, report.RunFile)); err == nil {
		return filepath.Clean(name), nil
	}
	infos, err := List(runsDir)
	if err != nil {
		return "", err
	}
	var found []string
	for i, info := range infos {
		switch {
		case info.Run.ID == name, name == latest && i == len(infos)-1:
			return filepath.Join(runsDir, info.Run.ID), nil
		case strings.Contains(info.Run.ID, name):
			found = append(found, info.Run.ID)
		}
	}
	switch len(found) {
	case 1:
		return filepath.Join(runsDir, found[0]), nil
	case 0:
		return "", fmt.Errorf("no run %s in %s; `scenario runs` lists them", name, runsDir)
	}
	return "", fmt.Errorf("%s could be %s", name, strings.Join(found, ", "))
}

// endGrace is how long processes may take to end in order.
const endGrace = 10 * time.Second

// stopMax bounds how long Stop waits for a runner to clean up.
const stopMax = 2 * time.Minute

// Stop ends a run: its runner is asked to, which then cleans up itself. Where the
// runner is gone, what it had started is ended. It says what is left.
func Stop(ctx context.Context, dir string, say func(string)) ([]string, error) {
	info, err := Inspect(dir)
	if err != nil {
		return nil, err
	}
	if info.Live {
		say(fmt.Sprintf("asking the runner (process %d) to stop", info.Run.Runner.PID))
		if err := syscall.Kill(info.Run.Runner.PID, syscall.SIGTERM); err != nil {
			return nil, fmt.Errorf("signal the runner: %w", err)
		}
		if err := awaitRunner(ctx, info.Run.Runner); err != nil {
			return nil, err
		}
	}
	ledger, err := process.LoadLedger(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range ledger.Alive() {
		say(fmt.Sprintf("ending %s (process %d)", e.Name, e.PID))
	}
	left := ledger.EndAll(endGrace)
	return left, settle(dir)
}

// awaitRunner waits for a runner, which is no child of ours, to end.
func awaitRunner(ctx context.Context, runner report.Process) error {
	ctx, cancel := context.WithTimeout(ctx, stopMax)
	defer cancel()
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for process.Same(runner.PID, runner.Started) {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("the runner (process %d) has not ended: %w", runner.PID, ctx.Err())
		}
	}
	return nil
}

// settle corrects the record of a run whose runner went without a word, and of
// one whose cluster was kept.
func settle(dir string) error {
	r, err := report.LoadRun(dir)
	if err != nil {
		return err
	}
	if r.Verdict != report.Running && !r.Kept {
		return nil
	}
	if r.Verdict == report.Running {
		r.Verdict, r.ExitCode = report.Interrupted, report.ExitInterrupted
		r.Failures = append(r.Failures, report.Failure{Message: "the runner ended without finishing the run", Evidence: []string{filepath.Join(dir, "events.ndjson")}, Repro: r.Repro})
	}
	r.Kept = false
	if err := r.Save(dir); err != nil {
		return err
	}
	return writeSums(dir)
}

// Clean ends what a finished or abandoned run left behind and removes its
// brokers' data; with everything set also its evidence. A live run is refused.
func Clean(dir string, everything bool, say func(string)) ([]string, error) {
	info, err := Inspect(dir)
	if err != nil {
		return nil, err
	}
	if info.Live {
		return nil, fmt.Errorf("run %s is running; end it with: scenario stop %s", info.Run.ID, info.Run.ID)
	}
	ledger, err := process.LoadLedger(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range ledger.Alive() {
		say(fmt.Sprintf("ending %s (process %d)", e.Name, e.PID))
	}
	if left := ledger.EndAll(endGrace); len(left) > 0 {
		return left, nil
	}
	if everything {
		if err := os.RemoveAll(dir); err != nil {
			return nil, fmt.Errorf("remove the run: %w", err)
		}
		log := filepath.Join(filepath.Dir(dir), LogsName, filepath.Base(dir)+".log")
		if err := os.Remove(log); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("remove the supervisor's log: %w", err)
		}
		return nil, nil
	}
	if err := removeData(dir); err != nil {
		return nil, err
	}
	return nil, settle(dir)
}

// RemoveCache deletes what runs share, such as built binaries. No run may be
// live or have kept its cluster.
func RemoveCache(runsDir string) error {
	if err := os.RemoveAll(filepath.Join(runsDir, cacheName)); err != nil {
		return fmt.Errorf("remove the cache: %w", err)
	}
	return nil
}
