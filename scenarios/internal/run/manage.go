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

	"github.com/ister-mq/ister/scenarios/internal/history"
	"github.com/ister-mq/ister/scenarios/internal/report"
	"github.com/ister-mq/ister/setups"
	"github.com/ister-mq/ister/setups/process"
)

// Info is one run of a runs directory.
type Info struct {
	Run *report.Run `json:"run"`
	// State is one of States.
	State string `json:"state"`
	// Live: its runner is running. Processes counts what it started and still
	// runs.
	Live      bool `json:"live"`
	Paused    bool `json:"paused,omitempty"` // live, and waits for an order
	Processes int  `json:"processes"`
	// Problem says why the record cannot be read; Run has then no more than the
	// name and the time of the folder.
	Problem string `json:"problem,omitempty"`
}

// States are what a run can be, in words: its verdict, once it has one.
var States = []string{
	string(report.Pass), string(report.Fail), string(report.Inconclusive), string(report.Environment), string(report.StepError), string(report.Interrupted),
	string(report.Running), statePaused, Abandoned, stateUnreadable,
}

// Abandoned is the state of a run whose runner is gone without a verdict.
const Abandoned = "abandoned"

// stateUnreadable is that of one with a Problem.
const stateUnreadable = "unreadable"

// List returns the runs of a directory, oldest first. Folders that are no runs
// are left out.
func List(runsDir string) ([]Info, error) {
	infos, err := ListAll(runsDir)
	return slices.DeleteFunc(infos, func(i Info) bool { return i.Problem != "" }), err
}

// ListAll is List with the folders that hold no record of a run, or one that
// cannot be read.
func ListAll(runsDir string) ([]Info, error) {
	entries, err := os.ReadDir(runsDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list runs: %w; name the directory of the runs with --runs-dir", err)
	}
	var infos []Info
	for _, entry := range entries {
		if !entry.IsDir() || strings.HasPrefix(entry.Name(), ".") {
			continue
		}
		dir := filepath.Join(runsDir, entry.Name())
		info, err := Inspect(dir)
		if err != nil {
			info = Info{Run: &report.Run{ID: entry.Name(), Directory: dir}, State: stateUnreadable, Problem: err.Error()}
			if folder, err := entry.Info(); err == nil {
				info.Run.StartedAt = folder.ModTime().UTC()
			}
		}
		// The folder may have been renamed, or brought from elsewhere.
		info.Run.ID = entry.Name()
		infos = append(infos, info)
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
	info := Info{Run: r, State: string(r.Verdict), Live: r.Verdict == report.Running && process.Same(r.Runner.PID, r.Runner.Started), Processes: len(ledger.Alive())}
	if state, err := LoadState(dir); err == nil { // runs of older builds have none
		info.Paused = info.Live && state.Paused()
	}
	switch {
	case info.Paused:
		info.State = statePaused
	case r.Verdict == report.Running && !info.Live:
		info.State = Abandoned
	}
	return info, nil
}

// Find returns the directory of a run given by id, by a unique part of it, by
// path, or by "last".
func Find(runsDir, name string) (string, error) {
	if name == "" {
		return "", errors.New("the name of the run is empty; `scenario runs` lists them, last is the newest")
	}
	if _, err := os.Stat(filepath.Join(name, report.RunFile)); err == nil {
		return filepath.Clean(name), nil
	}
	infos, err := ListAll(runsDir)
	if err != nil {
		return "", err
	}
	var ids, found []string
	newest := ""
	for _, info := range infos {
		ids = append(ids, info.Run.ID)
		if info.Problem == "" {
			newest = info.Run.ID
		}
		if strings.Contains(info.Run.ID, name) {
			found = append(found, info.Run.ID)
		}
	}
	switch {
	case name == latest && newest != "":
		return filepath.Join(runsDir, newest), nil
	case slices.Contains(ids, name):
		return filepath.Join(runsDir, name), nil
	case len(found) == 1:
		return filepath.Join(runsDir, found[0]), nil
	case len(found) == 0:
		return "", fmt.Errorf("no run %s in %s; `scenario runs` lists them", name, runsDir)
	}
	return "", fmt.Errorf("%s could be %s", name, strings.Join(found, ", "))
}

// ErrRunning refuses to clean what goes on.
var ErrRunning = errors.New("is running")

// endGrace is how long processes may take to end in order.
const endGrace = 10 * time.Second

// stopMax bounds how long Stop waits for a runner to clean up.
const stopMax = 2 * time.Minute

// Stop ends a run: its runner is asked to, which then cleans up itself. Where the
// runner is gone, or has kept its cluster, what it had started is ended; cleaner
// is its setup's, or nil. It says what is left.
func Stop(ctx context.Context, dir string, cleaner setups.Cleaner, say func(string)) ([]string, error) {
	info, err := Inspect(dir)
	if err != nil {
		return nil, err
	}
	if err := elsewhere(dir, info.Run); err != nil {
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
		if info, err = Inspect(dir); err != nil {
			return nil, err
		}
	}
	if r := info.Run; r.Verdict != report.Running && !r.Kept && len(r.Leftovers) == 0 && info.Processes == 0 {
		return nil, nil // it has cleaned up
	}
	if left, err := end(ctx, dir, cleaner, say); err != nil || len(left) > 0 {
		return left, err
	}
	return nil, settle(dir)
}

// end ends the processes that a run recorded, and then has its setup remove what
// else it made outside the run's directory.
func end(ctx context.Context, dir string, cleaner setups.Cleaner, say func(string)) (left []string, err error) {
	ledger, err := process.LoadLedger(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range ledger.Alive() {
		say(fmt.Sprintf("ending %s (process %d)", e.Name, e.PID))
	}
	for _, text := range ledger.Strangers() {
		say(text)
	}
	left = ledger.EndAll(endGrace)
	if cleaner == nil {
		return left, nil
	}
	more, err := cleaner.Clean(ctx, dir)
	if err != nil {
		err = fmt.Errorf("what run %s made may still be there: %w", filepath.Base(dir), err)
	}
	return append(left, more...), err
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
// one whose cluster was kept or not wholly ended, and writes what the runner did
// not.
func settle(dir string) error {
	r, err := report.LoadRun(dir)
	if err != nil {
		return err
	}
	abandoned := r.Verdict == report.Running
	if !abandoned && !r.Kept && len(r.Leftovers) == 0 {
		return nil
	}
	r.Kept, r.Leftovers = false, nil
	if abandoned {
		r.Verdict, r.EndedAt = report.Interrupted, lastWord(dir, r.StartedAt)
		r.TookMS = r.EndedAt.Sub(r.StartedAt).Milliseconds()
		r.Failures = append(r.Failures, report.Failure{
			Message: "the runner ended without finishing the run", Expected: "a verdict", Observed: "a runner that is gone", Evidence: []string{filepath.Join(dir, EventsFile)}, Repro: r.Repro,
		})
	}
	r.ExitCode = r.Exit()
	if abandoned {
		seen, err := history.Load(filepath.Join(dir, HistoryFile))
		if err != nil {
			seen = nil // none was begun, or not even its first line was written
		}
		if err := writeReports(dir, r, seen, nil); err != nil {
			return err
		}
		if err := (&engine{record: r, dir: dir}).saveState(stateEnded, nil); err != nil {
			return err
		}
	}
	if err := r.Save(dir); err != nil {
		return err
	}
	return writeSums(dir)
}

// quietAfter is how long a run of another machine must have written nothing to
// count as abandoned: one that goes on writes every second.
const quietAfter = 2 * time.Minute

// elsewhere is the error of a run whose runner is on another machine, as far as
// one can tell, and was at work just now: its directory is shared.
func elsewhere(dir string, r *report.Run) error {
	if r.Verdict != report.Running || !process.Elsewhere(r.Runner.Started) || time.Since(lastWord(dir, r.StartedAt)) > quietAfter {
		return nil
	}
	return fmt.Errorf("run %s was begun on another machine, or before this one's last start, and wrote something within the last %s: stop it there, or wait, or remove it all with: scenario clean %s --purge", r.ID, quietAfter, r.Name())
}

// lastWord is when a run wrote its last event.
func lastWord(dir string, otherwise time.Time) time.Time {
	info, err := os.Stat(filepath.Join(dir, EventsFile))
	if err != nil || info.ModTime().Before(otherwise) {
		return otherwise
	}
	return info.ModTime().UTC()
}

// Clean ends what a finished or abandoned run left behind and removes its
// brokers' data; with everything set also its evidence. A live run is refused.
// cleaner is that of the run's setup, or nil.
func Clean(ctx context.Context, dir string, cleaner setups.Cleaner, everything bool, say func(string)) ([]string, error) {
	info, err := Inspect(dir)
	if err != nil {
		return nil, err
	}
	if info.Live {
		return nil, fmt.Errorf("run %s %w; end it with: scenario stop %s", info.Run.ID, ErrRunning, info.Run.Name())
	}
	if err := elsewhere(dir, info.Run); err != nil && !everything {
		return nil, err
	}
	if left, err := end(ctx, dir, cleaner, say); err != nil || len(left) > 0 {
		return left, err
	}
	half, _ := filepath.Glob(filepath.Join(dir, "*.new")) // the pattern is well formed
	for _, file := range half {
		if err := os.Remove(file); err != nil { // written when the runner was killed
			return nil, fmt.Errorf("remove half a file: %w", err)
		}
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
