package report

import (
	"fmt"
	"html"
	"html/template"
	"math"
	"strings"
	"time"
)

// A plot is drawn in its own units and stretched to the width of the page; its
// words stand beside it as text of the page, so that they keep their size.
const (
	plotWidth  = 1000.0
	plotHeight = 200.0
	// ticksMax bounds the marks on an axis of time.
	ticksMax = 6
	// flagGap is how far apart the numbers of disturbances are, in percent.
	flagGap = 2.2
)

// instant is a value at a time in seconds; NaN breaks a line.
type instant struct{ at, value float64 }

// series is one line of a plot.
type series struct {
	name   string
	class  string // s1, s2, ... the colour and the dashes
	points []instant
	area   bool // filled down to the axis
	steps  bool // holds each value until the next
}

// mark is a shaded time.
type mark struct {
	number   int // shown above; 0: none
	from, to float64
	text     string
}

// plot is a chart over time.
type plot struct {
	id, title, summary string
	unit               string
	from, to           float64 // seconds
	logarithmic        bool
	whole              bool // of whole numbers
	stacked            bool // each line is drawn on top of the one before
	series             []series
	marks              []mark
}

// render draws the plot as a figure.
func (p plot) render() template.HTML {
	low, top, labels := p.scale()
	y := func(v float64) float64 {
		if p.logarithmic {
			v, low, top := math.Log10(math.Max(v, low)), math.Log10(low), math.Log10(top)
			return plotHeight * (1 - (v-low)/(top-low))
		}
		return plotHeight * (1 - (v-low)/(top-low))
	}
	x := func(at float64) float64 {
		return plotWidth * math.Min(1, math.Max(0, (at-p.from)/(p.to-p.from)))
	}
	class := "plot"
	if p.stacked {
		class += " stack"
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<figure class="%s"><figcaption>%s</figcaption><div class="frame"><div class="y" aria-hidden="true">`, class, p.legend())
	for _, l := range labels {
		fmt.Fprintf(&b, `<span style="top:%.2f%%">%s</span>`, y(l)/plotHeight*100, number(l))
	}
	fmt.Fprintf(&b, `</div><div class="flags" aria-hidden="true">%s</div>`, p.flags(x))
	fmt.Fprintf(&b, `<svg class="chart" viewBox="0 0 %g %g" preserveAspectRatio="none" role="img" aria-labelledby="%s-t %s-d"><title id="%s-t">%s</title><desc id="%s-d">%s</desc>`,
		plotWidth, plotHeight, p.id, p.id, p.id, html.EscapeString(p.title), p.id, html.EscapeString(p.summary))
	for _, l := range labels {
		fmt.Fprintf(&b, `<path class="axis" d="M0 %.1fH%g"/>`, y(l), plotWidth)
	}
	for i := range p.series {
		s := p.series[i]
		if p.stacked { // from the top down, so that each covers what belongs to those below it
			s = p.series[len(p.series)-1-i]
		}
		if s.area {
			fmt.Fprintf(&b, `<path class="area %s" d="%s"/>`, s.class, s.path(x, y, true))
		}
		fmt.Fprintf(&b, `<path class="line %s" d="%s"/>`, s.class, s.path(x, y, false))
	}
	for _, m := range p.marks {
		left := x(m.from)
		fmt.Fprintf(&b, `<rect class="mark" x="%.1f" y="0" width="%.1f" height="%g"><title>%s</title></rect>`, left, math.Max(2, x(m.to)-left), plotHeight, html.EscapeString(m.text))
	}
	b.WriteString(`</svg><div class="x" aria-hidden="true">`)
	for _, at := range timeTicks(p.from, p.to) {
		fmt.Fprintf(&b, `<span style="left:%.2f%%">%s</span>`, x(at)/plotWidth*100, seconds1(at, p.to-p.from))
	}
	b.WriteString(`</div></div></figure>`)
	return template.HTML(b.String())
}

// path is the line, or the area under it, for the d attribute.
func (s series) path(x, y func(float64) float64, area bool) string {
	var b strings.Builder
	open, first, last := false, 0.0, instant{}
	end := func() {
		if open && area {
			fmt.Fprintf(&b, "V%g H%.1fZ", plotHeight, first)
		}
		open = false
	}
	for _, p := range s.points {
		switch {
		case math.IsNaN(p.value):
			end()
			continue
		case !open:
			first = x(p.at)
			if area {
				fmt.Fprintf(&b, "M%.1f %gV%.1f", first, plotHeight, y(p.value))
			} else {
				fmt.Fprintf(&b, "M%.1f %.1fh.01", first, y(p.value)) // a lone point shows
			}
		case s.steps && p.value == last.value:
			fmt.Fprintf(&b, "H%.1f", x(p.at))
		case s.steps:
			fmt.Fprintf(&b, "H%.1fV%.1f", x(p.at), y(p.value))
		default:
			fmt.Fprintf(&b, "L%.1f %.1f", x(p.at), y(p.value))
		}
		open, last = true, p
	}
	end()
	return b.String()
}

// legend names the lines.
func (p plot) legend() string {
	var b strings.Builder
	fmt.Fprintf(&b, `<span class="unit">%s</span>`, html.EscapeString(p.unit))
	for _, s := range p.series {
		fmt.Fprintf(&b, ` <span class="key"><svg width="22" height="8" aria-hidden="true"><path class="line %s" d="M1 4H21"/></svg>%s</span>`, s.class, html.EscapeString(s.name))
	}
	if len(p.marks) > 0 {
		b.WriteString(` <span class="key"><svg width="14" height="10" aria-hidden="true"><rect class="mark" width="14" height="10"/></svg>disturbed</span>`)
	}
	return b.String()
}

// flags are the numbers of marks, left out where they would touch.
func (p plot) flags(x func(float64) float64) string {
	var b strings.Builder
	last := -flagGap
	for _, m := range p.marks {
		at := x((m.from+m.to)/2) / plotWidth * 100
		if m.number == 0 || at-last < flagGap {
			continue
		}
		last = at
		fmt.Fprintf(&b, `<span style="left:%.2f%%">%d</span>`, at, m.number)
	}
	return b.String()
}

// scale is the extent of the axis of values, and the values that are written.
func (p plot) scale() (low, top float64, labels []float64) {
	highest := 0.0
	lowest := math.Inf(1)
	for _, s := range p.series {
		for _, at := range s.points {
			if !math.IsNaN(at.value) {
				highest = math.Max(highest, at.value)
				if at.value > 0 {
					lowest = math.Min(lowest, at.value)
				}
			}
		}
	}
	if p.logarithmic {
		low, top = 0.1, 1
		for low*10 <= lowest && low < 1e6 {
			low *= 10
		}
		for top = low * 10; top < highest; {
			top *= 10
		}
		for v := low; v <= top*1.001; v *= 10 {
			labels = append(labels, v)
		}
		return low, top, labels
	}
	step := niceStep(highest / 4)
	if p.whole {
		step = math.Max(1, step)
	}
	labels = []float64{0}
	for v := step; v < highest+step; v += step {
		labels, top = append(labels, v), v
	}
	if top == 0 {
		labels, top = append(labels, step), step
	}
	return 0, top, labels
}

// niceStep is the smallest of 1, 2 and 5 times a power of ten that is no less.
func niceStep(least float64) float64 {
	if least <= 0 {
		return 1
	}
	power := math.Pow(10, math.Floor(math.Log10(least)))
	for _, digit := range []float64{1, 2, 5, 10} {
		if digit*power >= least*0.9999 {
			return digit * power
		}
	}
	return 10 * power
}

var timeSteps = []float64{0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 28800, 86400}

// timeTicks are the times that are written under a plot.
func timeTicks(from, to float64) []float64 {
	step := timeSteps[len(timeSteps)-1]
	for _, s := range timeSteps {
		if (to-from)/s < ticksMax {
			step = s
			break
		}
	}
	var ticks []float64
	for at := math.Ceil(from/step-1e-9) * step; at <= to+1e-9 && len(ticks) <= ticksMax; at += step {
		ticks = append(ticks, at)
	}
	return ticks
}

// seconds1 writes a time of a run for people; the span says how finely.
func seconds1(at, span float64) string {
	switch {
	case span >= 7200:
		return number(math.Round(at/360)/10) + " h"
	case span >= 240:
		return number(math.Round(at/6)/10) + " min"
	default:
		return number(math.Abs(math.Round(at*100)/100)) + " s" // no -0
	}
}

// number writes a value with as many digits as are worth reading.
func number(v float64) string {
	switch a := math.Abs(v); {
	case a >= 1e6:
		return fmt.Sprintf("%.3gM", v/1e6)
	case a >= 1e4:
		return fmt.Sprintf("%.3gk", v/1e3)
	case a >= 100:
		return fmt.Sprintf("%.0f", v)
	default:
		return strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%.2f", v), "0"), ".")
	}
}

// bar is a horizontal bar of a share of the width.
func bar(class string, share float64, label string) string {
	return fmt.Sprintf(`<svg class="bar" aria-hidden="true"><rect class="%s" width="%.2f%%" height="100%%" rx="1.5"><title>%s</title></rect></svg>`, class, math.Min(100, math.Max(0.4, share*100)), html.EscapeString(label))
}

// span is a bar from one time to another, in shares of the width.
func span(class string, from, to float64, label string) template.HTML {
	return template.HTML(fmt.Sprintf(`<svg class="bar" aria-hidden="true"><rect class="%s" x="%.2f%%" width="%.2f%%" height="100%%" rx="1.5"><title>%s</title></rect></svg>`,
		class, from*100, math.Max(0.5, (to-from)*100), html.EscapeString(label)))
}

// duration writes ms for people.
func duration(ms float64) string {
	switch {
	case ms < 10:
		return number(ms) + " ms"
	case ms < 1000:
		return fmt.Sprintf("%.0f ms", ms)
	case ms < 120_000:
		return fmt.Sprintf("%.1f s", ms/1000)
	default:
		return (time.Duration(ms) * time.Millisecond).Round(time.Second).String()
	}
}
