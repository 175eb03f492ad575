package run

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/ister-mq/ister/scenarios/internal/history"
	"github.com/ister-mq/ister/scenarios/internal/report"
)

// Formats are the reports that a run can leave; run.json is always written.
var Formats = []string{"json", "junit", "md", "html"}

// fileOf names the file of each report in a run's directory.
var fileOf = map[string]string{"json": report.RunFile, "junit": "junit.xml", "md": "summary.md", "html": "report.html"}

// writeReports writes the wanted reports of a run, nil being all, and the script
// that runs it again. run.json is its caller's.
func writeReports(dir string, r *report.Run, h *history.History, formats []string) error {
	script := "#!/bin/sh\n# Runs the same scenario again, in Ister's source tree or with an installed binary named scenario.\nset -e\nif [ -d cmd/scenario ]; then exec go run ./cmd/" + r.Repro + "; fi\nexec " + r.Repro + "\n"
	if err := os.WriteFile(filepath.Join(dir, "repro.sh"), []byte(script), 0o755); err != nil {
		return err
	}
	for _, format := range Formats {
		if format == "json" || formats != nil && !slices.Contains(formats, format) {
			continue
		}
		data, err := render(format, r, dir, h)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, fileOf[format]), data, 0o644)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// render makes a report from the record, the events in dir, and the history,
// which may be nil.
func render(format string, r *report.Run, dir string, h *history.History) ([]byte, error) {
	switch format {
	case "json":
		data, err := json.MarshalIndent(r, "", "  ")
		return append(data, '\n'), err
	case "junit":
		return report.JUnit(r)
	case "md":
		return []byte(report.Markdown(r)), nil
	case "html":
		samples, err := samplesOf(dir)
		if err != nil {
			return nil, err
		}
		return report.HTML(r, h, samples)
	}
	return nil, fmt.Errorf("no report is called %s", format)
}

// Render makes a report of the run in dir again, from its evidence alone. A run
// that ended before there was a history has a page without one.
func Render(format, dir string) ([]byte, error) {
	r, err := report.LoadRun(dir)
	if err != nil {
		return nil, err
	}
	var h *history.History
	if format == "html" {
		h, err = history.Load(filepath.Join(dir, HistoryFile))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
	}
	return render(format, r, dir, h)
}

// Rewrite makes reports of the run in dir again and puts them there, with new
// checksums. It returns the files.
func Rewrite(formats []string, dir string) ([]string, error) {
	var files []string
	for _, format := range formats {
		if format == "json" {
			continue // it is what the others are made from
		}
		data, err := Render(format, dir)
		if err != nil {
			return files, err
		}
		path := filepath.Join(dir, fileOf[format])
		if err := os.WriteFile(path, data, 0o644); err != nil {
			return files, fmt.Errorf("write the report: %w", err)
		}
		files = append(files, path)
	}
	return files, writeSums(dir)
}

// samplesOf reads the samples among a run's events. A line that is cut off, as
// after a crash of the runner, ends them.
func samplesOf(dir string) ([]report.Event, error) {
	file, err := os.Open(filepath.Join(dir, EventsFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // the runner was killed before there was one
	}
	if err != nil {
		return nil, fmt.Errorf("read the samples: %w", err)
	}
	defer file.Close()
	var samples []report.Event
	lines := bufio.NewReader(file)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return samples, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read the samples: %w", err)
		}
		var e report.Event
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("event in %s: %w", file.Name(), err)
		}
		if e.Kind == report.Sampled {
			samples = append(samples, e)
		}
	}
}
