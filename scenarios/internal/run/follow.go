package run

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/ister-mq/ister/scenarios/internal/report"
	"github.com/ister-mq/ister/setups/process"
)

// EventsFile is the list of a run's events, in its directory.
const EventsFile = "events.ndjson"

// HistoryFile is what clients saw, in a run's directory.
const HistoryFile = "history.ndjson.gz"

// followEvery is how often a run of another process is looked at.
const followEvery = 50 * time.Millisecond

// ErrAbandoned: the runner went without finishing the run.
var ErrAbandoned = errors.New("the runner is gone and has not finished the run")

// Follow passes the events of a run, of this process or another, on to show
// until it has ended or enough says so, and returns the record of then. A run
// whose runner is gone is ErrAbandoned.
func Follow(ctx context.Context, dir string, show report.Sink, enough func(report.Event) bool) (*report.Run, error) {
	file, err := os.Open(filepath.Join(dir, EventsFile))
	if err != nil {
		return nil, fmt.Errorf("follow the run: %w", err)
	}
	defer file.Close()
	ticker := time.NewTicker(followEvery)
	defer ticker.Stop()
	var partial []byte
	for {
		// The record is read before the events: what it calls ended has written them.
		r, err := report.LoadRun(dir)
		if err != nil {
			return nil, err
		}
		alive := process.Same(r.Runner.PID, r.Runner.Started)
		news, err := io.ReadAll(file)
		if err != nil {
			return nil, fmt.Errorf("follow the run: %w", err)
		}
		partial = append(partial, news...)
		for {
			line, rest, whole := bytes.Cut(partial, []byte("\n"))
			if !whole {
				break
			}
			partial = rest
			var e report.Event
			if err := json.Unmarshal(line, &e); err != nil {
				return nil, fmt.Errorf("event of run %s: %w", r.ID, err)
			}
			show.Event(e)
			if enough != nil && enough(e) {
				return r, nil
			}
		}
		switch _, sumsErr := os.Stat(filepath.Join(dir, sumsName)); {
		case r.Verdict != report.Running && (sumsErr == nil || !alive): // the checksums come last
			return r, nil
		case !alive && r.Verdict == report.Running:
			return r, ErrAbandoned
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return r, ctx.Err()
		}
	}
}
