package report

import (
	"fmt"
	"io"
	"sort"
	"strings"
	"time"
	"unicode/utf8"
)

// Width is the widest line that is written on purpose, also where there is more room.
const Width = 100

// widthMin is the narrowest that rows are made for.
const widthMin = 60

// Terminal shows a run as it goes: one line per step. On a terminal the running
// step is shown and replaced; elsewhere every line is final.
type Terminal struct {
	out     io.Writer
	live    bool // a terminal: lines can be replaced
	color   bool
	quiet   bool
	pending bool // a replaceable line is shown
	width   int  // of the widest line that is written on purpose
}

// NewTerminal shows a run on out. quiet shows failures only.
func NewTerminal(out io.Writer, live, color, quiet bool) *Terminal {
	wide, _ := sizeOf(out)
	return &Terminal{out: out, live: live, color: color, quiet: quiet, width: max(widthMin, min(Width, wide))}
}

const (
	green  = "32"
	red    = "31"
	yellow = "33"
	dim    = "2"
	bold   = "1"
)

func (t *Terminal) paint(code, text string) string {
	if !t.color {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// line writes a final line, in place of a replaceable one.
func (t *Terminal) line(format string, args ...any) {
	if t.pending {
		fmt.Fprint(t.out, "\r\x1b[2K")
		t.pending = false
	}
	fmt.Fprintf(t.out, format+"\n", args...)
}

// replaceable shows a line that the next one replaces; nothing off a terminal.
func (t *Terminal) replaceable(text string) {
	if !t.live || t.quiet {
		return
	}
	fmt.Fprint(t.out, "\r\x1b[2K"+clip(text, t.width-1))
	t.pending = true
}

// Event implements Sink.
func (t *Terminal) Event(e Event) {
	if t.quiet && e.Kind != RunPaused && !(e.Kind == StepEnded && e.Step.Status == StepFailed) {
		return
	}
	switch e.Kind {
	case RunStarted, CleanupBegun:
		t.line("%s", e.Text)
	case StageStarted:
		note := ""
		if !e.Judged {
			note = t.paint(dim, "  (needed; not judged)")
		}
		t.line("%s%s", t.paint(bold, e.Stage), note)
	case StepStarted:
		t.replaceable("  ..    " + e.Step.Title)
	case StepSays:
		if t.live {
			t.replaceable("  ..    " + e.Text)
		} else {
			t.line("        %s", clip(e.Text, t.width-8))
		}
	case RunPaused:
		t.line("%s", strings.Join(e.Pause.Lines(), "\n"))
	case StepEnded:
		t.stepEnded(e.Step)
	}
}

func (t *Terminal) stepEnded(s *Step) {
	took := fmt.Sprintf("%6.1fs", float64(s.TookMS)/1000)
	if s.Status == StepFailed {
		t.line("  %s %s  %s", t.paint(red, "FAIL"), took, clip(s.Title, t.width-16))
		for _, l := range wrap(s.Error, t.width-10) {
			t.line("          %s", l)
		}
		return
	}
	text := s.Title
	if s.Note != "" {
		text += t.paint(dim, ": "+clip(s.Note, max(10, t.width-18-utf8.RuneCountInString(s.Title))))
	}
	t.line("  %s   %s  %s", t.paint(green, "ok"), took, text)
}

func clip(text string, width int) string {
	text = strings.ReplaceAll(text, "\n", " ")
	if utf8.RuneCountInString(text) <= width {
		return text
	}
	return string([]rune(text)[:max(0, width-3)]) + "..."
}

// wrap breaks text at spaces into lines of at most width, and clips words that
// are longer. Lines of the text stay lines.
func wrap(text string, width int) []string {
	var lines []string
	for _, paragraph := range strings.Split(strings.TrimRight(text, "\n"), "\n") {
		indent := paragraph[:len(paragraph)-len(strings.TrimLeft(paragraph, " "))]
		line := indent
		for _, word := range strings.Fields(paragraph) {
			word = clip(word, width-len(indent))
			switch {
			case line == indent:
				line += word
			case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width:
				lines = append(lines, line)
				line = indent + word
			default:
				line += " " + word
			}
		}
		lines = append(lines, line)
	}
	return lines
}

// Close implements Display: there is nothing to end.
func (t *Terminal) Close() {}

// Summary writes the tables of a finished run and its last lines.
func (t *Terminal) Summary(r *Run) {
	t.line("")
	for _, aspect := range aspectsOf(r) {
		t.line("%s", t.paint(bold, aspect))
		for _, c := range r.Guards {
			if c.Aspect == aspect && c.Status != CheckPass {
				t.check(c)
			}
		}
		for _, c := range r.Criteria {
			if c.Aspect == aspect {
				t.check(c)
			}
		}
	}
	t.line("")
	t.verdict(r)
}

func aspectsOf(r *Run) []string {
	var aspects []string
	seen := map[string]bool{}
	for _, c := range append(append([]Check(nil), r.Guards...), r.Criteria...) {
		if !seen[c.Aspect] {
			seen[c.Aspect] = true
			aspects = append(aspects, c.Aspect)
		}
	}
	order := map[string]int{}
	for i, id := range r.Aspects {
		order[id] = i
	}
	sort.SliceStable(aspects, func(i, j int) bool { return order[aspects[i]] < order[aspects[j]] })
	return aspects
}

// check writes one row: mark, title, observed, expected; detail below.
func (t *Terminal) check(c Check) {
	mark := map[CheckStatus]string{CheckPass: t.paint(green, "PASS "), CheckFail: t.paint(red, "FAIL "), NotEvaluated: t.paint(yellow, "NONE ")}[c.Status]
	title := c.Title
	if c.Guard {
		mark, title = t.paint(yellow, "UNMET"), "guard: "+title
	}
	value, room := 18, t.width-46
	if t.width < Width {
		value, room = 14, t.width-38
	}
	t.line("  %s %s %s %s", mark, pad(clip(title, room), room), pad(clip(c.Observed, value), value), clip("want "+c.Op+" "+c.Expected, value))
	if c.Status == NotEvaluated {
		return // the failed step tells why
	}
	for _, l := range wrap(c.Detail, t.width-8) {
		if l != "" {
			t.line("        %s", t.paint(dim, l))
		}
	}
}

func pad(text string, width int) string {
	return text + strings.Repeat(" ", max(0, width-utf8.RuneCountInString(text)))
}

func (t *Terminal) verdict(r *Run) {
	code := map[Verdict]string{Pass: green, Inconclusive: yellow, Interrupted: yellow}[r.Verdict]
	if code == "" {
		code = red
	}
	passed, judged := r.Passed()
	for _, f := range r.Failures {
		t.line("%s", strings.Join(f.Lines(), "\n"))
	}
	for _, l := range r.Leftovers {
		t.line("left behind: %s", l)
	}
	t.line("%s  %s: %d of %d criteria, %s, seed %d", t.paint(code, strings.ToUpper(string(r.Verdict))), r.Scenario, passed, judged, r.took(), r.Seed)
	t.line("evidence: %s", r.Directory)
	if r.Kept {
		t.line("the cluster was left running: addresses in %s/brokers/*/config; end it with: scenario stop %s", r.Directory, r.Name())
	}
}

// took is how long the run took, with what came before it apart where that is
// worth a word.
func (r *Run) took() string {
	round := func(ms int64) time.Duration {
		return (time.Duration(ms) * time.Millisecond).Round(100 * time.Millisecond)
	}
	if r.PreparedMS < 1000 {
		return round(r.TookMS).String()
	}
	return fmt.Sprintf("%s (and %s to prepare)", round(r.TookMS-r.PreparedMS), round(r.PreparedMS))
}

// Lines is the failure as text: what, evidence, and how to do it again.
func (f Failure) Lines() []string {
	lines := wrap("FAIL "+f.Message, Width)
	if f.Expected != "" {
		lines = append(append(lines, labelled("expected", f.Expected)...), labelled("observed", f.Observed)...)
	}
	for _, file := range f.Evidence {
		lines = append(lines, "     evidence "+file)
	}
	return append(lines, "     repro    "+f.Repro)
}

// labelled is text beside a label, on as many lines as it takes.
func labelled(label, text string) []string {
	var lines []string
	for i, l := range wrap(text, Width-14) {
		if i > 0 {
			label = ""
		}
		lines = append(lines, "     "+pad(label, 8)+" "+l)
	}
	return lines
}
