package mcp

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// The part of run.json and events.ndjson that is read here. Both are published
// formats; run.json says its version.
type runRecord struct {
	SchemaVersion int               `json:"schema_version"`
	ID            string            `json:"run_id"`
	Scenario      string            `json:"scenario"`
	Aspects       []string          `json:"aspects"`
	Setup         string            `json:"setup"`
	Verdict       string            `json:"verdict"`
	ExitCode      int               `json:"exit_code"`
	Seed          int64             `json:"seed"`
	Params        map[string]string `json:"params"`
	StartedAt     time.Time         `json:"started_at"`
	TookMS        int64             `json:"took_ms"`
	Criteria      []runCheck        `json:"criteria"`
	Guards        []runCheck        `json:"guards"`
	Steps         []runStep         `json:"steps"`
	Failures      []runFailure      `json:"failures"`
	Leftovers     []string          `json:"leftovers"`
	Kept          bool              `json:"kept"`
	Runner        struct {
		PID int `json:"pid"`
	} `json:"runner"`
	Repro string `json:"repro"`
}

type runCheck struct {
	Aspect   string `json:"aspect"`
	ID       string `json:"id"`
	Title    string `json:"title"`
	Guard    bool   `json:"guard,omitempty"`
	Op       string `json:"op"`
	Expected string `json:"expected"`
	Observed string `json:"observed"`
	Detail   string `json:"detail,omitempty"`
	Status   string `json:"status" doc:"pass, fail or not evaluated"`
	Evidence string `json:"evidence,omitempty" doc:"file in the run's directory"`
}

type runStep struct {
	ID       string         `json:"id"`
	Stage    string         `json:"stage"`
	Use      string         `json:"use"`
	Title    string         `json:"title"`
	Command  string         `json:"command,omitempty"`
	Status   string         `json:"status"`
	TookMS   int64          `json:"took_ms"`
	Attempts int            `json:"attempts,omitempty"`
	Error    string         `json:"error,omitempty"`
	Outputs  map[string]any `json:"outputs,omitempty"`
}

type runFailure struct {
	Message  string   `json:"message"`
	Expected string   `json:"expected,omitempty"`
	Observed string   `json:"observed,omitempty"`
	Evidence []string `json:"evidence"`
	Repro    string   `json:"repro"`
}

type runEvent struct {
	Seq   int64     `json:"seq"`
	MS    int64     `json:"ms"`
	Event string    `json:"event"`
	Stage string    `json:"stage"`
	Step  *runStep  `json:"step"`
	Check *runCheck `json:"check"`
	Text  string    `json:"text"`
}

// runInfo is a run in the list of the scenario command.
type runInfo struct {
	Run       runRecord `json:"run"`
	Live      bool      `json:"live"`
	Paused    bool      `json:"paused"`
	Processes int       `json:"processes"`
}

// runState is the part of state.json that is read here.
type runState struct {
	SchemaVersion int       `json:"schema_version"`
	State         string    `json:"state"`
	Pause         *runPause `json:"pause"`
	StepsLeft     []string  `json:"steps_left"`
}

// runPause is why a run waits. Step is the one that comes next, or that failed;
// it is empty where a check failed.
type runPause struct {
	Number    int      `json:"number"`
	Failed    bool     `json:"failed"`
	Stage     string   `json:"stage"`
	Step      string   `json:"step"`
	Message   string   `json:"message"`
	Use       string   `json:"use"`
	Risk      string   `json:"risk"`
	Command   string   `json:"command"`
	Bootstrap []string `json:"bootstrap"`
	Admin     []string `json:"admin"`
}

const (
	recordVersion    = 1
	statePaused      = "paused"
	stateFile        = "state.json"
	stageOnFailure   = "on_failure"
	stageAlways      = "always"
	stepOK           = "ok"
	verdictRunning   = "running"
	verdictAbandoned = "abandoned" // not in the record: its runner is gone
	latest           = "last"      // the newest run
	runFile          = "run.json"
	eventsFile       = "events.ndjson"
	// runnerLogs is the folder of the runs directory with what runners printed. It
	// is not in a run's directory, whose files are covered by checksums that are
	// written before the runner prints its last line.
	runnerLogs = ".runner"
	// startMax bounds how long a runner may take to make its run's directory.
	startMax = 10 * time.Second
	// scenarioInID is how much of a scenario's name is in the id of a run.
	scenarioInID = 40
	// recordMax bounds files that are read whole.
	recordMax = 16 << 20
)

// loadRun reads the record of a run.
func loadRun(dir string) (*runRecord, error) {
	raw, err := readBounded(filepath.Join(dir, runFile), recordMax)
	if err != nil {
		return nil, err
	}
	var r runRecord
	if err := json.Unmarshal(raw, &r); err != nil {
		return nil, fmt.Errorf("read %s: %w", filepath.Join(dir, runFile), err)
	}
	if r.SchemaVersion != recordVersion {
		return nil, fmt.Errorf("%s has schema version %d: this build reads %d", filepath.Join(dir, runFile), r.SchemaVersion, recordVersion)
	}
	return &r, nil
}

// loadState reads where a run stands; one of an older build has no state.
func loadState(dir string) (*runState, error) {
	raw, err := readBounded(filepath.Join(dir, stateFile), recordMax)
	if errors.Is(err, fs.ErrNotExist) {
		return &runState{}, nil
	}
	if err != nil {
		return nil, err
	}
	var state runState
	if err := json.Unmarshal(raw, &state); err != nil {
		return nil, fmt.Errorf("read %s: %w", filepath.Join(dir, stateFile), err)
	}
	if state.SchemaVersion != recordVersion {
		return nil, fmt.Errorf("%s has schema version %d: this build reads %d", filepath.Join(dir, stateFile), state.SchemaVersion, recordVersion)
	}
	return &state, nil
}

func readBounded(path string, most int64) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	raw, err := io.ReadAll(io.LimitReader(file, most+1))
	if err == nil && int64(len(raw)) > most {
		err = fmt.Errorf("%s is larger than %d bytes", path, most)
	}
	return raw, err
}

// findRun returns the directory and the record of a run by its id, or of the
// newest for "last".
func (s *Server) findRun(id string) (string, *runRecord, error) {
	if id == latest {
		ids, err := s.runIDs()
		if err != nil {
			return "", nil, err
		}
		if len(ids) > 0 {
			id = ids[0]
		}
	}
	dir := filepath.Join(s.config.RunsDir, id)
	r, err := loadRun(dir)
	if errors.Is(err, fs.ErrNotExist) {
		ids, _ := s.runIDs()
		return "", nil, &failure{Code: codeRunUnknown, Message: fmt.Sprintf("no run is called %s in %s%s", id, s.config.RunsDir, didYouMean(id, ids)), Got: id, Expected: "the run_id that scenario_start returned", Fix: &fix{Tool: "scenario_status", Args: map[string]any{}, Why: "lists the runs"}}
	}
	return dir, r, err
}

// runIDs lists the folders of the runs directory that have a record, the
// newest first.
func (s *Server) runIDs() ([]string, error) {
	entries, err := os.ReadDir(s.config.RunsDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list runs: %w", err)
	}
	ids, begun := []string{}, map[string]time.Time{}
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), ".") || !entry.IsDir() {
			continue
		}
		r, err := loadRun(filepath.Join(s.config.RunsDir, entry.Name()))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if ids = append(ids, entry.Name()); err == nil { // else it is told to who asks for it
			begun[entry.Name()] = r.StartedAt
		}
	}
	slices.SortStableFunc(ids, func(a, b string) int { return begun[b].Compare(begun[a]) })
	return ids, nil
}

// runs asks the scenario command, which also knows what still runs.
func (s *Server) runs(ctx context.Context) ([]runInfo, error) {
	infos := []runInfo{}
	if err := s.command(ctx, &infos, "runs"); err != nil {
		return nil, err
	}
	slices.Reverse(infos)
	return infos, nil
}

// runInfoOf is what the scenario command knows of one run.
func (s *Server) runInfoOf(ctx context.Context, id string) (runInfo, error) {
	infos, err := s.runs(ctx)
	if err != nil {
		return runInfo{}, err
	}
	for _, info := range infos {
		if info.Run.ID == id {
			return info, nil
		}
	}
	return runInfo{}, fmt.Errorf("run %s is not in the list any more", id)
}

// newRunID names a run: by its time and scenario, so that a list is easy to read,
// and by chance, so that two starts do not meet.
func (s *Server) newRunID(scenario string) string {
	chance := make([]byte, 2)
	_, _ = rand.Read(chance) // never fails
	at := s.config.Now().UTC().Format("20060102-150405")
	return fmt.Sprintf("%s-%s-%s", at, strings.TrimRight(scenario[:min(len(scenario), scenarioInID)], "-"), hex.EncodeToString(chance))
}

// startRun has the scenario command start a run of this id, which then belongs to
// a supervisor: it outlives this process and the client.
func (s *Server) startRun(ctx context.Context, id string, args []string) error {
	words := slices.Concat(s.config.Runner, args, []string{"--detach", "--run-id", id, "--no-color", "--runs-dir", s.config.RunsDir})
	starter := exec.Command(words[0], words[1:]...)
	var said bytes.Buffer
	starter.Stderr = &said
	starter.Env = slices.DeleteFunc(os.Environ(), func(pair string) bool { return strings.HasPrefix(pair, TokenVariable+"=") })
	starter.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := starter.Start(); err != nil {
		return fmt.Errorf("start the runner: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- starter.Wait() }() // it ends soon, whoever still waits for it
	deadline := time.NewTimer(startMax)
	defer deadline.Stop()
	select {
	case err := <-ended:
		if err == nil {
			return nil
		}
		text := strings.TrimPrefix(strings.TrimSpace(said.String()), "Error: ")
		return &failure{Code: codeRunnerEnded, Message: abridgeTo(text, 600), Got: fmt.Sprintf("the runner ended (%v) before it made a run", err), Expected: "arguments that the scenario takes", Fix: &fix{Tool: "scenario_show", Args: map[string]any{}, Why: "see what it takes"}}
	case <-deadline.C:
		return &failure{Code: codeTimeout, Message: "the runner has been started, but has not made its run yet", Got: "no run " + id, Expected: "a run within " + startMax.String(), Advice: "do not start another one: look for it", Fix: &fix{Tool: "scenario_status", Args: map[string]any{}, Why: "lists the runs"}}
	case <-ctx.Done():
		return ctx.Err()
	}
}

// events reads a run's events from an offset of the file on. It returns whole
// lines only, since the last one may still be being written.
func events(dir string, offset int64) ([]runEvent, int64, error) {
	file, err := os.Open(filepath.Join(dir, eventsFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, offset, nil
	}
	if err != nil {
		return nil, offset, fmt.Errorf("read events: %w", err)
	}
	defer file.Close()
	raw, err := io.ReadAll(io.LimitReader(io.NewSectionReader(file, offset, recordMax), recordMax))
	if err != nil {
		return nil, offset, fmt.Errorf("read events: %w", err)
	}
	var found []runEvent
	for {
		line, rest, whole := bytes.Cut(raw, []byte("\n"))
		if !whole {
			return found, offset, nil
		}
		var e runEvent
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, offset, fmt.Errorf("read event at byte %d: %w", offset, err)
		}
		found, raw, offset = append(found, e), rest, offset+int64(len(line))+1
	}
}
