package mcp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	waitMax  = int64(20) // seconds of one wait
	waitPoll = 100 * time.Millisecond
	// liveEvery is how often a silent run is asked about its runner.
	liveEvery = 2 * time.Second
	// stopMax bounds the wait for a runner's cleanup; the runner goes on with it.
	stopMax = 15 * time.Second
	// liveRunsMax bounds the runs at the same time: each has brokers of its own.
	liveRunsMax = 4
	// eventBytes bounds the events of one result; the rest follows.
	eventBytes = 5 << 10
	logBytes   = 6 << 10
)

var runArgument = argument{name: "run_id", kind: kindString, doc: "run_id that scenario_start returned, or last", required: true, pattern: patternRun}

// runSummary is a run in few words.
type runSummary struct {
	RunID     string    `json:"run_id"`
	Scenario  string    `json:"scenario"`
	Aspects   []string  `json:"aspects"`
	Setup     string    `json:"setup"`
	Verdict   string    `json:"verdict" doc:"running, abandoned, pass, fail, inconclusive, environment, step error or interrupted"`
	Ended     bool      `json:"ended"`
	Live      bool      `json:"live" doc:"its runner runs"`
	Paused    bool      `json:"paused" doc:"it waits for scenario_step or scenario_resume"`
	Processes int       `json:"processes" doc:"what it started and still runs"`
	Kept      bool      `json:"kept" doc:"its cluster was left running"`
	StartedAt time.Time `json:"started_at"`
	TookMS    int64     `json:"took_ms"`
	Seed      int64     `json:"seed"`
}

// listOf makes an absent list an empty one, as the schemas have it.
func listOf[T any](list []T) []T { return append([]T{}, list...) }

// summaryOf: a run whose runner is gone without a word is abandoned, not running.
func summaryOf(info runInfo) runSummary {
	r := info.Run
	out := runSummary{r.ID, r.Scenario, listOf(r.Aspects), r.Setup, r.Verdict, r.Verdict != verdictRunning, info.Live, info.Paused, info.Processes, r.Kept, r.StartedAt, r.TookMS, r.Seed}
	if r.Verdict == verdictRunning && !info.Live {
		out.Verdict, out.Ended = verdictAbandoned, true
	}
	return out
}

type waitedEvent struct {
	Seq      int64  `json:"seq"`
	MS       int64  `json:"ms" doc:"since the start of the run"`
	Event    string `json:"event"`
	Stage    string `json:"stage,omitempty"`
	Step     string `json:"step,omitempty"`
	Check    string `json:"check,omitempty"`
	Title    string `json:"title,omitempty"`
	Status   string `json:"status,omitempty"`
	TookMS   int64  `json:"took_ms,omitempty"`
	Observed string `json:"observed,omitempty"`
	Expected string `json:"expected,omitempty"`
	Text     string `json:"text,omitempty"`
}

type waited struct {
	RunID   string        `json:"run_id"`
	Ended   bool          `json:"ended"`
	Verdict string        `json:"verdict"`
	Doing   string        `json:"doing" doc:"the step under way"`
	Paused  bool          `json:"paused" doc:"it waits for scenario_step or scenario_resume"`
	Pause   *pausedAt     `json:"pause,omitempty"`
	Events  []waitedEvent `json:"events"`
	LastSeq int64         `json:"last_seq" doc:"pass it as after_seq"`
	More    bool          `json:"more" doc:"there are more events already"`
}

type reported struct {
	RunID    string       `json:"run_id"`
	Scenario string       `json:"scenario"`
	Aspects  []string     `json:"aspects"`
	Setup    string       `json:"setup"`
	Seed     int64        `json:"seed"`
	Verdict  string       `json:"verdict"`
	ExitCode int          `json:"exit_code" doc:"0 pass, 1 criteria failed, 3 inconclusive, 4 environment, 5 leftovers, 6 step failed, 130 interrupted"`
	TookMS   int64        `json:"took_ms"`
	Passed   int          `json:"criteria_passed"`
	Failed   int          `json:"criteria_failed"`
	Unmet    int          `json:"guards_unmet"`
	Failures []runFailure `json:"failures"`
	Left     []string     `json:"leftovers"`
	Rows     any          `json:"rows" doc:"what section asked for: checks (failed ones first) or steps"`
	Repro    string       `json:"repro" doc:"the command that runs the same again"`
	Dir      string       `json:"directory" doc:"the evidence"`
}

type logged struct {
	RunID   string   `json:"run_id"`
	Source  string   `json:"source"`
	Sources []string `json:"sources"`
	Lines   []string `json:"lines"`
	Cursor  string   `json:"next_cursor" doc:"goes on after these lines, also when more is written later"`
	More    bool     `json:"more"`
}

func runTools() []tool {
	return []tool{
		startTool(),
		{
			name: "scenario_wait", title: "Wait for a run", toolset: toolsetScenario, risk: ReadOnly,
			doc: "Wait for news of a run and return its events after after_seq. Returns early when the run ends or pauses, when a step or criterion fails, and when until says so. Call it again with last_seq until ended or paused is true.",
			arguments: []argument{
				runArgument,
				{name: "after_seq", kind: kindInteger, doc: "last_seq of the result before; 0: from the beginning", fallback: int64(0)},
				{name: "max_wait_s", kind: kindInteger, doc: "seconds to wait at most", max: waitMax, fallback: waitMax},
				{name: "until", kind: kindString, doc: "what to wait for: any event, the next stage, or the end", oneOf: []string{"event", "stage", "end"}, fallback: "stage"},
			},
			result: typeSchema[waited](), run: waitScenario,
		},
		{
			name: "scenario_status", title: "Status of runs", toolset: toolsetScenario, risk: ReadOnly, list: "runs",
			doc:       "Say how a run is, or list all runs, newest first, when run_id is left out.",
			arguments: []argument{{name: "run_id", kind: kindString, doc: "one run; left out: all", pattern: patternRun}},
			result: typeSchema[struct {
				Runs []runSummary `json:"runs"`
			}](), run: statusScenario,
		},
		{
			name: "scenario_report", title: "Report of a run", toolset: toolsetScenario, risk: ReadOnly, list: "rows",
			doc:       "The verdict of a run: each criterion and guard with what was expected and observed, what failed, the evidence, and the command to run it again.",
			arguments: []argument{runArgument, {name: "section", kind: kindString, doc: "checks, or the steps with their outputs", oneOf: []string{"checks", "steps"}, fallback: "checks"}},
			result:    typeSchema[reported](), run: reportScenario,
		},
		{
			name: "scenario_logs", title: "Logs of a run", toolset: toolsetScenario, risk: ReadOnly,
			doc: "Read a log of a run: of the runner or of one of its brokers. Without a cursor the last lines.",
			arguments: []argument{
				runArgument,
				{name: "source", kind: kindString, doc: "runner, events, or a broker such as b1", fallback: "runner", pattern: `^[a-z0-9][a-z0-9-]{0,63}$`},
				{name: "lines", kind: kindInteger, doc: "so many lines at most", min: 1, max: 200, fallback: int64(50)},
				{name: "cursor", kind: kindString, doc: "next_cursor of the result before", pattern: `^[0-9]{1,18}$`},
			},
			result: typeSchema[logged](), run: logsScenario,
		},
		{
			name: "scenario_stop", title: "Stop a run", toolset: toolsetScenario, risk: Contained, repeatable: true,
			doc:       "End a run, or the cluster that it kept. Ends only what the run itself started; the evidence stays.",
			arguments: []argument{runArgument},
			result:    typeSchema[runSummary](), run: stopScenario,
		},
	}
}

// waiting is one scenario_wait under way.
type waiting struct {
	server *Server
	out    waited
	bytes  int
	until  string
	reason bool // there is reason to return now
}

// take adds an event, unless the result is full.
func (w *waiting) take(e runEvent) bool {
	if e.Event == "sampled" { // twice a second; the report shows them
		w.out.LastSeq = e.Seq
		return true
	}
	if e.Event == "step_started" {
		if e.Step != nil {
			w.out.Doing = e.Step.Stage + "/" + e.Step.ID + ": " + e.Step.Title
		}
		w.out.LastSeq = e.Seq
		return true
	}
	row := waitedEvent{Seq: e.Seq, MS: e.MS, Event: e.Event, Stage: e.Stage, Text: abridge(e.Text)}
	if e.Step != nil {
		row.Step, row.Title, row.Status, row.TookMS, row.Text = e.Step.ID, e.Step.Title, e.Step.Status, e.Step.TookMS, abridge(e.Step.Error)
	}
	if e.Check != nil {
		row.Check, row.Title, row.Status, row.Observed, row.Expected = e.Check.ID, e.Check.Title, e.Check.Status, abridge(e.Check.Observed), abridge(e.Check.Op+" "+e.Check.Expected)
	}
	size := len(mustJSON(row))
	if len(w.out.Events) > 0 && w.bytes+size > eventBytes {
		w.out.More = true
		return false
	}
	w.bytes += size
	w.out.Events, w.out.LastSeq = append(w.out.Events, row), e.Seq
	switch {
	case e.Event == "step_ended":
		w.out.Doing = ""
	case e.Event == "run_ended":
		w.reason = true
	}
	failed := row.Status == "failed" || row.Status == "fail"
	w.reason = w.reason || failed || w.until == "event" || w.until == "stage" && e.Event == "stage_started" && e.Stage != "setup"
	return true
}

func waitScenario(ctx context.Context, s *Server, in input) (*answer, error) {
	dir, record, err := s.findRun(in.text("run_id"))
	if err != nil {
		return nil, err
	}
	after := in.number("after_seq")
	look := &watcher{dir: dir}
	w := &waiting{server: s, until: in.text("until"), out: waited{RunID: record.ID, Events: []waitedEvent{}, LastSeq: after}}
	deadline := time.NewTimer(time.Duration(in.number("max_wait_s")) * time.Second)
	defer deadline.Stop()
	ticker := time.NewTicker(waitPoll)
	defer ticker.Stop()
	var asked time.Time
	var final *runSummary // how it ended, by its runner being gone
	for over := false; ; {
		// The record and the state are read before the events: what they call ended
		// or paused has written them.
		at, err := look.look()
		if err != nil {
			return nil, err
		}
		record = at.record
		w.out.Verdict, w.out.Ended = record.Verdict, record.Verdict != verdictRunning
		if !w.out.Ended && final != nil {
			w.out.Verdict, w.out.Ended = final.Verdict, true
		}
		for _, e := range at.events {
			if e.Seq > after && !w.take(e) {
				break
			}
		}
		if !w.out.Ended && !w.out.More && time.Since(asked) > liveEvery {
			info, err := s.runInfoOf(ctx, record.ID)
			if err != nil {
				return nil, err
			}
			asked = time.Now()
			if seen := summaryOf(info); seen.Ended {
				final = &seen
				continue // once more, for what was written until then
			}
		}
		w.out.Paused, w.out.Pause = at.paused() && !w.out.Ended && !w.out.More, nil
		if w.out.Paused {
			w.out.Pause = s.pausedAt(at)
		}
		if over || w.out.More || w.out.Ended || w.out.Paused || w.reason {
			return w.answer(), nil
		}
		select {
		case <-ticker.C:
		case <-deadline.C:
			over = true
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (w *waiting) answer() *answer {
	a := &answer{body: w.out}
	again := step{"scenario_wait", map[string]any{"run_id": w.out.RunID, "after_seq": w.out.LastSeq}, "go on"}
	switch {
	case w.out.More:
		a.summary, a.next = "More events are there already", []step{again}
	case w.out.Ended:
		a.summary = "The run has ended: " + w.out.Verdict
		a.next = []step{{"scenario_report", map[string]any{"run_id": w.out.RunID}, "see the verdict"}}
		if w.out.Verdict == verdictAbandoned {
			a.next = append(a.next, step{"scenario_stop", map[string]any{"run_id": w.out.RunID}, "its runner is gone: end what it left"})
		}
	case w.out.Paused:
		a.summary = w.out.Pause.Message
		a.next = w.server.nextOfPause(w.out.RunID, w.out.Pause)
	default:
		a.summary, a.next = "The run goes on", []step{again}
		if w.out.Doing != "" {
			a.summary += ": " + w.out.Doing
		}
	}
	// The end is known from the record, a moment after the event was read.
	w.out.Ended = w.out.Ended && !w.out.More
	a.body = w.out
	return a
}

func statusScenario(ctx context.Context, s *Server, in input) (*answer, error) {
	only := in.text("run_id")
	if only != "" {
		_, record, err := s.findRun(only)
		if err != nil {
			return nil, err
		}
		only = record.ID
	}
	infos, err := s.runs(ctx)
	if err != nil {
		return nil, err
	}
	rows, live := []runSummary{}, 0
	for _, info := range infos {
		if only == "" || info.Run.ID == only {
			rows = append(rows, summaryOf(info))
			if info.Live {
				live++
			}
		}
	}
	a := &answer{body: map[string]any{"runs": rows}, summary: fmt.Sprintf("%s, %d live", plural(len(rows), "run", "runs"), live)}
	if only != "" && len(rows) == 1 {
		a.summary = rows[0].RunID + ": " + rows[0].Verdict
		a.next = nextOfRun(rows[0])
	}
	return a, nil
}

func nextOfRun(r runSummary) []step {
	id := map[string]any{"run_id": r.RunID}
	if !r.Ended {
		next := []step{{"scenario_wait", id, "follow it"}}
		if r.Paused {
			next[0].Why = "it is paused: see at which step"
		}
		return next
	}
	next := []step{{"scenario_report", id, "see the verdict"}}
	if r.Kept || r.Processes > 0 {
		next = append(next, step{"scenario_stop", id, "end what still runs"})
	}
	return next
}

func reportScenario(_ context.Context, s *Server, in input) (*answer, error) {
	dir, r, err := s.findRun(in.text("run_id"))
	if err != nil {
		return nil, err
	}
	out := reported{
		RunID: r.ID, Scenario: r.Scenario, Aspects: listOf(r.Aspects), Setup: r.Setup, Seed: r.Seed, Verdict: r.Verdict, ExitCode: r.ExitCode, TookMS: r.TookMS,
		Failures: listOf(r.Failures[:min(len(r.Failures), 3)]), Left: listOf(r.Leftovers), Repro: r.Repro, Dir: dir,
	}
	checks := []runCheck{}
	for _, c := range slices.Concat(r.Criteria, r.Guards) {
		switch {
		case c.Guard && c.Status != "pass":
			out.Unmet++
		case c.Guard:
		case c.Status == "pass":
			out.Passed++
		default:
			out.Failed++
		}
		checks = append(checks, c)
	}
	slices.SortStableFunc(checks, func(a, b runCheck) int { return order(a) - order(b) })
	out.Rows = checks
	if in.text("section") == "steps" {
		out.Rows = append([]runStep{}, r.Steps...)
	}
	a := &answer{body: out, summary: fmt.Sprintf("%s: %s; %d criteria passed, %d did not, %d guards unmet", r.Scenario, strings.ToUpper(r.Verdict), out.Passed, out.Failed, out.Unmet)}
	switch {
	case r.Verdict == verdictRunning:
		a.next = []step{{"scenario_wait", map[string]any{"run_id": r.ID}, "it has not ended"}}
	case r.Verdict != "pass":
		a.next = []step{{"scenario_report", map[string]any{"run_id": r.ID, "section": "steps"}, "what the steps did"}, {"scenario_logs", map[string]any{"run_id": r.ID, "source": "b1"}, "what a broker said"}}
	}
	return a, nil
}

// order puts what failed first.
func order(c runCheck) int { return slices.Index([]string{"fail", "not evaluated", "pass"}, c.Status) }

func logsScenario(_ context.Context, s *Server, in input) (*answer, error) {
	dir, r, err := s.findRun(in.text("run_id"))
	if err != nil {
		return nil, err
	}
	paths := map[string]string{"runner": filepath.Join(s.config.RunsDir, runnerLogs, r.ID+".log"), "events": filepath.Join(dir, eventsFile)}
	found, err := filepath.Glob(filepath.Join(dir, "brokers", "*", "log"))
	if err != nil {
		return nil, fmt.Errorf("find logs: %w", err)
	}
	for _, path := range found {
		paths[filepath.Base(filepath.Dir(path))] = path
	}
	sources := slices.Sorted(maps.Keys(paths))
	if err := oneOf("source", in.text("source"), sources); err != nil {
		return nil, err
	}
	out := logged{RunID: r.ID, Source: in.text("source"), Sources: sources}
	if err := out.read(paths[out.Source], in.text("cursor"), int(in.number("lines"))); err != nil {
		return nil, err
	}
	a := &answer{body: out, summary: fmt.Sprintf("%s of %s", plural(len(out.Lines), "line", "lines"), out.Source)}
	if out.More {
		a.next = []step{{"scenario_logs", map[string]any{"run_id": r.ID, "source": out.Source, "cursor": out.Cursor}, "go on"}}
	}
	return a, nil
}

// read takes whole lines: after the cursor, a byte offset, or the last ones.
func (l *logged) read(path, cursor string, most int) error {
	const window, lineMax = 256 << 10, 400 // of which at most logBytes are returned
	l.Lines, l.Cursor = []string{}, "0"
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // a run that a person started has no log of the runner
	}
	if err != nil {
		return fmt.Errorf("read log: %w", err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return fmt.Errorf("read log: %w", err)
	}
	offset, tail := max(0, info.Size()-window), cursor == ""
	if !tail {
		if offset, err = strconv.ParseInt(cursor, 10, 64); err != nil || offset > info.Size() {
			return &failure{Code: codeInvalidArgument, Message: "the cursor lies beyond the log", Got: cursor, Expected: "the next_cursor of the result before, or none"}
		}
	}
	raw, err := io.ReadAll(io.NewSectionReader(file, offset, window))
	if err != nil {
		return fmt.Errorf("read log: %w", err)
	}
	if tail && offset > 0 {
		if at := bytes.IndexByte(raw, '\n'); at >= 0 {
			offset, raw = offset+int64(at)+1, raw[at+1:]
		}
	}
	lines := bytes.SplitAfter(raw, []byte("\n"))
	if last := len(lines) - 1; len(lines[last]) == 0 || len(lines[last]) < window { // empty, or not yet whole
		lines = lines[:last]
	}
	if tail { // the last lines that fit
		first, used := len(lines), 0
		for first > 0 && len(lines)-first < most && used+min(len(lines[first-1]), lineMax) < logBytes {
			first--
			used += min(len(lines[first]), lineMax) + 8
		}
		for _, line := range lines[:first] {
			offset += int64(len(line))
		}
		lines = lines[first:]
	}
	used := 0
	for i, line := range lines {
		text := strings.ToValidUTF8(strings.TrimRight(string(line), "\r\n"), "?")
		if len(text) > lineMax {
			text = strings.ToValidUTF8(text[:lineMax], "") + "..."
		}
		if i >= most || i > 0 && used+len(mustJSON(text)) > logBytes {
			l.More = true
			break
		}
		used += len(mustJSON(text)) + 1
		offset += int64(len(line))
		l.Lines = append(l.Lines, text)
	}
	l.Cursor = strconv.FormatInt(offset, 10)
	return nil
}

func stopScenario(ctx context.Context, s *Server, in input) (*answer, error) {
	_, record, err := s.findRun(in.text("run_id"))
	if err != nil {
		return nil, err
	}
	waiting, cancel := context.WithTimeout(ctx, stopMax)
	defer cancel()
	err = s.command(waiting, nil, "stop", record.ID)
	if ctx.Err() == nil && waiting.Err() != nil {
		info, infoErr := s.runInfoOf(ctx, record.ID)
		if infoErr != nil {
			return nil, infoErr
		}
		return &answer{body: summaryOf(info), summary: "The run was asked to stop and is cleaning up", next: []step{{"scenario_wait", map[string]any{"run_id": record.ID, "until": "end"}, "wait for its end"}}}, nil
	}
	if err != nil {
		return nil, err
	}
	info, err := s.runInfoOf(ctx, record.ID)
	if err != nil {
		return nil, err
	}
	return &answer{body: summaryOf(info), summary: "The run has ended: " + info.Run.Verdict, next: nextOfRun(summaryOf(info))}, nil
}
