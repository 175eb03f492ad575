package run

import (
	"fmt"
	"sort"

	"github.com/ister-mq/ister/scenarios/internal/history"
	"github.com/ister-mq/ister/scenarios/internal/report"
	"github.com/ister-mq/ister/scenarios/internal/verdict"
)

// Formats are the reports that a run can leave; run.json is always written.
var Formats = []string{"json", "junit", "md", "html"}

// Page renders the HTML report of a run with its history, which may be nil.
func Page(r *report.Run, h *history.History) ([]byte, error) {
	var excerpts []report.Excerpt
	if h != nil {
		for _, read := range h.Reads {
			v, err := verdict.Judge(h, read.Load, read.ID)
			if err != nil {
				return nil, fmt.Errorf("judge for the report: %w", err)
			}
			for _, f := range v.Findings {
				excerpts = append(excerpts, report.Excerpt{Message: fmt.Sprintf("%s: %s", f.Check, f.Message), Lines: around(h, &read, f)})
			}
		}
	}
	return report.HTML(r, h, excerpts)
}

// aroundOffsets is how far from a violation the excerpt goes.
const aroundOffsets = 2

// around lists what the history has near a violation, in order of time.
func around(h *history.History, read *history.Read, f verdict.Finding) []string {
	near := func(s history.Slot, offset int64) bool {
		return s == f.Slot && offset >= f.Offset-aroundOffsets && offset <= f.Offset+aroundOffsets
	}
	type entry struct {
		at   int64
		text string
	}
	var entries []entry
	for i := range h.Sends {
		if s := &h.Sends[i]; s.Load == read.Load && near(s.Slot, s.Offset) {
			answer := "no answer"
			if s.Return > 0 {
				answer = fmt.Sprintf("after %.1f ms", float64(s.Return-s.Call)/1e6)
			}
			entries = append(entries, entry{s.Call, fmt.Sprintf("%10.3f s  send %s, %s at offset %d, %s", float64(s.Call)/1e9, s.UID, s.Outcome, s.Offset, answer)})
		}
	}
	for i := range h.Receives {
		if r := &h.Receives[i]; r.Load == read.Load && near(r.Slot, r.Offset) {
			entries = append(entries, entry{r.At, fmt.Sprintf("%10.3f s  delivered to %s: %s at offset %d", float64(r.At)/1e9, r.Consumer, r.UID, r.Offset)})
		}
	}
	for i := range read.Records {
		if r := &read.Records[i]; near(r.Slot, r.Offset) {
			entries = append(entries, entry{read.End, fmt.Sprintf("%10.3f s  read %s: %s at offset %d", float64(read.End)/1e9, read.ID, r.UID, r.Offset)})
		}
	}
	sort.SliceStable(entries, func(a, b int) bool { return entries[a].at < entries[b].at })
	lines := make([]string, len(entries))
	for i, e := range entries {
		lines[i] = e.text
	}
	return lines
}
