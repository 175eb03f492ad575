package report

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// The bounds of what a view keeps and draws.
const (
	viewWidthMin  = 40
	viewWidthMax  = 200
	viewHeightMin = 6
	columnsFrom   = 110 // wide enough for two columns
	saidKept      = 6
	ratesKept     = 60
	barMax        = 40
	brokersDrawn  = 12
)

// View is what the live view knows of a run; Take adds an event, and Lines draws
// it. It is a value of the events alone.
type View struct {
	title   string
	started time.Time
	stages  []viewStage
	checks  []Check
	said    []string
	sample  *Sample
	produce []float64 // rates, NaN where unknown
	consume []float64
	gaps    []float64
	note    string // what the run is about besides its steps
	pause   *Pause
}

type viewStage struct {
	id    string
	tried bool // needed and not judged
	steps []Step
}

// Take adds an event. A new run begins anew.
func (v *View) Take(e Event) {
	switch e.Kind {
	case RunStarted:
		*v = View{title: plainText(e.Text), started: e.At.Add(-time.Duration(e.MS) * time.Millisecond)}
	case StageStarted:
		v.stages = append(v.stages, viewStage{id: plainText(e.Stage), tried: !e.Judged})
	case StepStarted:
		s := cleanStep(*e.Step)
		s.Status = running // the event tells it as it will be when nothing goes wrong
		v.stage().steps = append(v.stage().steps, s)
	case StepEnded:
		v.ended(cleanStep(*e.Step))
	case StepSays:
		v.say(e.Text)
	case CheckJudged:
		c := *e.Check
		c.Title, c.Observed, c.Expected = plainText(c.Title), plainText(c.Observed), plainText(c.Expected)
		v.checks = append(v.checks, c)
	case Sampled:
		v.sampled(e.Sample)
	case RunPaused:
		v.pause = e.Pause
	case RunResumed:
		v.pause = nil
	case CleanupBegun:
		v.note = plainText(e.Text)
	case RunEnded:
		v.note = "ended: " + plainText(e.Text)
	}
}

// stage is the one that runs; there is one from the start.
func (v *View) stage() *viewStage {
	if len(v.stages) == 0 {
		v.stages = append(v.stages, viewStage{id: "prepare"})
	}
	return &v.stages[len(v.stages)-1]
}

// ended puts what became of a step in place of the step as it began.
func (v *View) ended(s Step) {
	steps := v.stage().steps
	if n := len(steps); n > 0 && steps[n-1].ID == s.ID {
		steps[n-1] = s
	} else {
		v.stage().steps = append(steps, s)
	}
	if s.Status == StepFailed {
		v.say(s.ID + ": " + s.Error)
	}
}

func (v *View) say(text string) {
	v.said = append(v.said, plainText(text))
	if len(v.said) > saidKept {
		v.said = v.said[1:]
	}
}

func (v *View) sampled(s *Sample) {
	v.sample = s
	slices.SortStableFunc(s.Brokers, func(a, b BrokerSample) int { return byName(a.Name, b.Name) })
	keep := func(rates []float64, rate *float64) []float64 {
		value := math.NaN()
		if rate != nil {
			value = *rate
		}
		rates = append(rates, value)
		return rates[max(0, len(rates)-ratesKept):]
	}
	v.produce, v.consume, v.gaps = keep(v.produce, s.ProduceRate), keep(v.consume, s.ConsumeRate), keep(v.gaps, s.GapMS)
}

// running is a step that has begun and not ended.
const running StepStatus = "running"

// cleanStep is a step whose texts may be shown.
func cleanStep(s Step) Step {
	s.ID, s.Title, s.Note, s.Error = plainText(s.ID), plainText(s.Title), plainText(s.Note), plainText(s.Error)
	return s
}

// plainText is text without anything that a terminal would obey.
func plainText(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text)
}

// A line is pieces of text, each in a colour, or "" for none.
type piece struct{ color, text string }

type line []piece

func plain(format string, args ...any) line { return line{{"", fmt.Sprintf(format, args...)}} }

func (l line) width() int {
	n := 0
	for _, p := range l {
		n += utf8.RuneCountInString(p.text)
	}
	return n
}

// fit cuts a line to a width, or pads it.
func (l line) fit(width int) line {
	var out line
	left := width
	for _, p := range l {
		if left == 0 {
			break
		}
		if n := utf8.RuneCountInString(p.text); n > left {
			p.text = clip(p.text, left)
			if left < 4 {
				p.text = strings.Repeat(".", left)
			}
		}
		left -= utf8.RuneCountInString(p.text)
		out = append(out, p)
	}
	if left > 0 {
		out = append(out, piece{"", strings.Repeat(" ", left)})
	}
	return out
}

func (l line) render(color bool) string {
	var b strings.Builder
	for _, p := range l {
		if color && p.color != "" && p.text != "" {
			b.WriteString("\x1b[" + p.color + "m" + p.text + "\x1b[0m")
		} else {
			b.WriteString(p.text)
		}
	}
	return strings.TrimRight(b.String(), " ")
}

// block is a part of the screen. It is drawn with as many lines as it is given,
// from least to what it wants.
type block struct {
	lines func(width, height int) []line
	least int
	wants int
}

// Lines draws the view at a time of the run, at most height lines of at most
// width.
func (v *View) Lines(width, height int, now time.Time, color bool) []string {
	width, height = min(viewWidthMax, max(viewWidthMin, width)), max(viewHeightMin, height)
	head := v.head(width, now)
	left := height - len(head)
	var lines []line
	steps, checks, brokers, clients, said := v.stepsBlock(now), v.checksBlock(), v.brokersBlock(), v.clientsBlock(), v.saidBlock()
	if width >= columnsFrom {
		half := (width - 2) / 2
		tall := share(left, []block{beside(steps, checks, half), beside(brokers, clients, half), said})
		lines = append(lines, beside(steps, checks, half).lines(width, tall[0])...)
		lines = append(lines, beside(brokers, clients, half).lines(width, tall[1])...)
		lines = append(lines, said.lines(width, tall[2])...)
	} else {
		blocks := []block{steps, clients, checks, brokers, said}
		for i, n := range share(left, blocks) {
			lines = append(lines, blocks[i].lines(width, n)...)
		}
	}
	var out []string
	for _, l := range append(head, lines...) {
		out = append(out, l.fit(width).render(color))
	}
	return out[:min(len(out), height)]
}

// share gives lines to blocks: each its least while there are two or more, then
// what it wants, the first ones first.
func share(left int, blocks []block) []int {
	out := make([]int, len(blocks))
	for i, b := range blocks {
		if left >= min(2, b.wants) {
			out[i] = min(b.least, b.wants, left)
			left -= out[i]
		}
	}
	for i, b := range blocks {
		more := max(0, min(left, b.wants-out[i]))
		if out[i] == 0 && b.least > 0 {
			continue // not even the least
		}
		out[i], left = out[i]+more, left-more
	}
	return out
}

// beside draws two blocks beside each other.
func beside(a, b block, half int) block {
	return block{least: max(a.least, b.least), wants: max(a.wants, b.wants), lines: func(_, height int) []line {
		left, right := a.lines(half, height), b.lines(half, height)
		var out []line
		for i := range max(len(left), len(right)) {
			var l, r line
			if i < len(left) {
				l = left[i]
			}
			if i < len(right) {
				r = right[i]
			}
			out = append(out, append(append(l.fit(half), piece{"", "  "}), r.fit(half)...))
		}
		return out
	}}
}

// head is the title with the time, and the stages.
func (v *View) head(width int, now time.Time) []line {
	elapsed := max(0, now.Sub(v.started)).Truncate(time.Second).String()
	if v.started.IsZero() {
		elapsed = ""
	}
	title := line{{bold, clip(v.title, max(10, width-len(elapsed)-2))}}
	out := []line{append(title.fit(max(0, width-len(elapsed))), piece{dim, elapsed})}
	var stages line
	for i, s := range v.stages {
		if i > 0 {
			stages = append(stages, piece{dim, " > "})
		}
		color := dim
		if i == len(v.stages)-1 && v.note == "" {
			color = bold
		}
		stages = append(stages, piece{color, s.id})
	}
	if v.note != "" {
		stages = append(stages, piece{dim, " > "}, piece{bold, v.note})
	}
	for i := 0; i < len(v.stages) && stages.width() > width; i++ { // the newest ones count
		stages = append(line{{dim, ".. > "}}, stages[2+min(1, i):]...)
	}
	return append(out, stages, line{{dim, strings.Repeat("-", width)}})
}

// stepsBlock are the steps of the stage that runs, scrolled so that the last one
// shows.
func (v *View) stepsBlock(now time.Time) block {
	var steps []line
	stage := viewStage{id: "prepare"}
	if n := len(v.stages); n > 0 {
		stage = v.stages[n-1]
	}
	for _, s := range stage.steps {
		switch s.Status {
		case running:
			took := max(0, now.Sub(v.started)-time.Duration(s.StartMS)*time.Millisecond)
			steps = append(steps, line{{yellow, ">>   "}, {"", fmt.Sprintf("%6.1fs  ", took.Seconds())}, {bold, s.Title}})
		case StepFailed:
			steps = append(steps, line{{red, "FAIL "}, {"", fmt.Sprintf("%6.1fs  %s", float64(s.TookMS)/1000, s.Title)}})
		default:
			l := line{{green, "ok   "}, {"", fmt.Sprintf("%6.1fs  %s", float64(s.TookMS)/1000, s.Title)}}
			if s.Note != "" {
				l = append(l, piece{dim, ": " + s.Note})
			}
			steps = append(steps, l)
		}
	}
	if v.pause != nil {
		for _, text := range v.pause.Lines() {
			steps = append(steps, line{{yellow, plainText(text)}})
		}
	}
	title := "Steps of " + stage.id
	if stage.tried {
		title += " (needed; not judged)"
	}
	return block{least: 2, wants: 1 + len(steps), lines: func(_, height int) []line {
		if height == 0 {
			return nil
		}
		shown := steps[max(0, len(steps)-(height-1)):]
		heading := title
		if hidden := len(steps) - len(shown); hidden > 0 {
			heading += fmt.Sprintf(", %d more above", hidden)
		}
		return append([]line{{{bold, heading}}}, shown...)
	}}
}

// checksBlock are guards and criteria as judged, the newest at the bottom; those
// that do not hold come first when there is no room for all.
func (v *View) checksBlock() block {
	if len(v.checks) == 0 {
		return block{lines: func(int, int) []line { return nil }}
	}
	passed := 0
	for _, c := range v.checks {
		if c.Status == CheckPass {
			passed++
		}
	}
	return block{least: 2, wants: 1 + len(v.checks), lines: func(width, height int) []line {
		if height == 0 {
			return nil
		}
		room := height - 1
		var bad, good []Check
		for _, c := range v.checks {
			if c.Status == CheckPass {
				good = append(good, c)
			} else {
				bad = append(bad, c)
			}
		}
		if len(bad) > room {
			bad = bad[len(bad)-room:]
		}
		good = good[max(0, len(good)-(room-len(bad))):]
		out := []line{{{bold, fmt.Sprintf("Criteria: %d of %d hold", passed, len(v.checks))}}}
		for _, c := range append(bad, good...) {
			out = append(out, checkLine(c, width))
		}
		return out
	}}
}

func checkLine(c Check, width int) line {
	mark := map[CheckStatus]piece{CheckPass: {green, "PASS "}, CheckFail: {red, "FAIL "}, NotEvaluated: {yellow, "NONE "}}[c.Status]
	title := c.Title
	if c.Guard {
		title = "guard: " + title
	}
	result := fmt.Sprintf("%s, want %s %s", c.Observed, c.Op, c.Expected)
	room := max(8, width-5-2-min(utf8.RuneCountInString(result), width/2))
	return line{mark, {"", pad(clip(title, room), room) + "  "}, {"", result}}
}

// brokersBlock is a bar of leaders and one of replicas for each broker.
func (v *View) brokersBlock() block {
	if v.sample == nil {
		return block{lines: func(int, int) []line { return nil }}
	}
	brokers := v.sample.Brokers
	if brokers == nil {
		reason := "Brokers: " + plainText(v.sample.Unread["brokers"])
		return block{least: 1, wants: 1, lines: func(_, height int) []line {
			return []line{{{dim, reason}}}[:min(1, height)]
		}}
	}
	wants := 1 + min(brokersDrawn, len(brokers))
	return block{least: min(5, wants), wants: wants, lines: func(width, height int) []line {
		if height == 0 {
			return nil
		}
		return append([]line{{{bold, "Brokers"}, {dim, "  leaders, replicas"}}}, brokerBars(brokers, width, height-1)...)
	}}
}

func brokerBars(brokers []BrokerSample, width, height int) []line {
	leaders, replicas, name := int64(1), int64(1), 2
	for _, b := range brokers {
		leaders, replicas, name = max(leaders, b.Leaders), max(replicas, b.Replicas), max(name, utf8.RuneCountInString(b.Name))
	}
	long := min(barMax, max(4, (width-min(name, 12)-14)/2))
	var out []line
	for i, b := range brokers {
		if i == height-1 && len(brokers) > height {
			return append(out, line{{dim, fmt.Sprintf("and %d more brokers", len(brokers)-i)}})
		}
		l := line{{"", pad(clip(plainText(b.Name), 12), min(name, 12)) + " "}, {green, hashes(b.Leaders, leaders, long)}, {"", fmt.Sprintf(" %-4d ", b.Leaders)}, {yellow, hashes(b.Replicas, replicas, long)}, {"", fmt.Sprintf(" %d", b.Replicas)}}
		if b.Fenced {
			l = append(l, piece{red, " down"})
		}
		out = append(out, l)
	}
	return out[:min(len(out), height)]
}

// hashes is a bar in plain characters: # for the count, dots for the rest.
func hashes(n, most int64, long int) string {
	full := int(math.Round(float64(n) / float64(most) * float64(long)))
	if n > 0 {
		full = max(1, full)
	}
	return strings.Repeat("#", full) + strings.Repeat(".", long-full)
}

// clientsBlock are the rates and waits of the clients, and the health of the
// cluster.
func (v *View) clientsBlock() block {
	s := v.sample
	if s == nil {
		return block{lines: func(int, int) []line { return nil }}
	}
	figure := func(n *float64, unit string) string {
		if n == nil {
			return "?"
		}
		return number(*n) + unit
	}
	total := func(n *int64) string {
		if n == nil {
			return "?"
		}
		return fmt.Sprint(*n)
	}
	return block{least: 5, wants: 5, lines: func(width, height int) []line {
		if height == 0 {
			return nil
		}
		long := max(8, min(ratesKept, width-32))
		row := func(name, value string, values []float64) line {
			return line{{"", pad(name, 9)}, {"", pad(value, 12)}, {green, spark(values, long)}}
		}
		gap := row("gap now", figure(s.GapMS, " ms"), v.gaps)
		gap[2].color = yellow
		out := []line{
			{{bold, "Clients"}, {dim, "  time to ack " + figure(s.AckMS, " ms")}},
			row("produce", figure(s.ProduceRate, "/s"), v.produce), row("consume", figure(s.ConsumeRate, "/s"), v.consume), gap,
			{{dim, fmt.Sprintf("moves %s, voters %s, under-replicated %s", total(s.Moves), total(s.Voters), total(s.UnderReplicated))}},
		}
		if height < 4 { // what matters most in one line
			short := plain("produce %s, consume %s, gap %s", figure(s.ProduceRate, "/s"), figure(s.ConsumeRate, "/s"), figure(s.GapMS, " ms"))
			return []line{out[0], short, out[4]}[:height]
		}
		return out[:min(len(out), height)]
	}}
}

// sparks are the heights of a spark line, low to high.
const sparks = "_.-=+*#"

// spark draws values as a line of characters; a blank is one that is not known.
func spark(values []float64, width int) string {
	values = values[max(0, len(values)-width):]
	top := 0.0
	for _, v := range values {
		if !math.IsNaN(v) {
			top = math.Max(top, v)
		}
	}
	var b strings.Builder
	for _, v := range values {
		switch {
		case math.IsNaN(v):
			b.WriteByte(' ')
		case v <= 0 || top == 0:
			b.WriteByte(sparks[0])
		default:
			b.WriteByte(sparks[min(len(sparks)-1, 1+int(v/top*float64(len(sparks)-1)))])
		}
	}
	return b.String()
}

// saidBlock are the last lines that steps said.
func (v *View) saidBlock() block {
	if len(v.said) == 0 {
		return block{lines: func(int, int) []line { return nil }}
	}
	return block{least: 2, wants: 1 + len(v.said), lines: func(_, height int) []line {
		if height == 0 {
			return nil
		}
		out := []line{{{bold, "Said"}}}
		for _, text := range v.said[max(0, len(v.said)-(height-1)):] {
			out = append(out, line{{dim, text}})
		}
		return out
	}}
}
