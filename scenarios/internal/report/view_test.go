package report

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

var escapes = regexp.MustCompile("\x1b\\[[0-9;?]*[A-Za-z]")

// viewAt is the view of a recorded run as it was at an event.
func viewAt(t *testing.T, name string, until func(Event) bool) (*View, time.Time) {
	t.Helper()
	_, _, events := recorded(t, name)
	v := &View{}
	for _, e := range events {
		v.Take(e)
		if until(e) {
			return v, e.At
		}
	}
	t.Fatal("no such event")
	return nil, time.Time{}
}

// Screens of a recorded run, as a person would see them.
func TestViewGoldens(t *testing.T) {
	began := func(id string) func(Event) bool {
		return func(e Event) bool { return e.Kind == StepStarted && e.Step.ID == id }
	}
	failed := func(e Event) bool { return e.Kind == StepEnded && e.Step.Status == StepFailed }
	ended := func(e Event) bool { return e.Kind == RunEnded }
	var all strings.Builder
	for _, c := range []struct {
		title, name   string
		until         func(Event) bool
		width, height int
	}{
		{"the start", "recorded", func(e Event) bool { return e.Kind == StageStarted }, 100, 24},
		{"a rebalance", "recorded", began("balance_up"), 100, 40},
		{"a removal, wide", "recorded", began("removed_five"), 160, 30},
		{"a removal, small", "recorded", began("removed_five"), 80, 14},
		{"a removal, tiny", "recorded", began("removed_five"), 60, 7},
		{"a move", "recorded", began("relocated"), 120, 24},
		{"a failure", "recorded-failed", failed, 100, 24},
		{"the end", "recorded", ended, 100, 50},
	} {
		v, at := viewAt(t, c.name, c.until)
		lines := v.Lines(c.width, c.height, at.Add(1500*time.Millisecond), false)
		fmt.Fprintf(&all, "== %s, %dx%d\n%s\n", c.title, c.width, c.height, strings.Join(lines, "\n"))
	}
	golden(t, "view.txt", all.String())
}

// Whatever the size, the view fits it, shows what runs, and colours change no
// text.
func TestViewFitsEveryScreen(t *testing.T) {
	_, _, events := recorded(t, "recorded")
	v := &View{}
	for _, e := range events {
		v.Take(e)
		if e.Kind != StepStarted && e.Kind != Sampled && e.Kind != RunEnded {
			continue
		}
		for _, size := range [][2]int{{40, 6}, {80, 24}, {109, 10}, {110, 12}, {137, 33}, {200, 60}, {400, 100}} {
			lines := v.Lines(size[0], size[1], e.At, false)
			if len(lines) > size[1] {
				t.Fatalf("event %d: %d lines of %d", e.Seq, len(lines), size[1])
			}
			for _, l := range lines {
				if n := utf8.RuneCountInString(l); n > size[0] || strings.ContainsAny(l, "\x1b\r\n\t") {
					t.Fatalf("event %d: %d columns of %d: %q", e.Seq, n, size[0], l)
				}
			}
			colored := escapes.ReplaceAllString(strings.Join(v.Lines(size[0], size[1], e.At, true), "\n"), "")
			trimmed := regexp.MustCompile(` +(\n|$)`).ReplaceAllString(colored, "$1")
			if want := strings.Join(lines, "\n"); trimmed != want {
				t.Fatalf("event %d: with colours\n%s\nwithout\n%s", e.Seq, trimmed, want)
			}
			if e.Kind == StepStarted && !strings.Contains(strings.Join(lines, "\n"), ">>") {
				t.Fatalf("event %d, %v: the running step does not show:\n%s", e.Seq, size, strings.Join(lines, "\n"))
			}
		}
	}
}

func TestViewObeysNothingThatAStepSays(t *testing.T) {
	v := &View{}
	v.Take(Event{Kind: RunStarted, Text: "t\x1b[2J"})
	v.Take(Event{Kind: StepStarted, Step: &Step{ID: "a", Title: "one\r\x1b[31mtwo\nthree"}})
	v.Take(Event{Kind: StepSays, Text: "\x1b]0;title\x07\tsaid"})
	text := strings.Join(v.Lines(80, 24, time.Now(), false), "")
	if strings.ContainsAny(text, "\x1b\r\x07\t") || !strings.Contains(text, "said") || !strings.Contains(text, "two three") {
		t.Errorf("%q", text)
	}
}

func TestSparkLeavesUnknownBlank(t *testing.T) {
	nan := (&View{})
	nan.sampled(&Sample{})
	nan.sampled(&Sample{ProduceRate: ptr(0.0)})
	nan.sampled(&Sample{ProduceRate: ptr(50.0)})
	nan.sampled(&Sample{ProduceRate: ptr(100.0)})
	if got := spark(nan.produce, 10); got != " _+#" {
		t.Errorf("%q", got)
	}
	if got := spark(nan.produce, 2); got != "+#" {
		t.Errorf("%q", got)
	}
}

func ptr[T any](v T) *T { return &v }
