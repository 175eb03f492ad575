package report

import (
	"fmt"
	"html"
	"html/template"
	"math"
	"regexp"
	"sort"
	"strconv"
	"strings"

	"github.com/ister-mq/ister/scenarios/internal/history"
)

// The sizes of charts, in their own units.
const (
	chartWidth, chartHeight = 900.0, 180.0
	chartLeft, chartBottom  = 50.0, 20.0
	binsMax                 = 150
)

// traffic draws rates and latencies over time, with disturbances shaded.
func traffic(h *history.History) (rate, latency template.HTML) {
	end := int64(1)
	for i := range h.Sends {
		end = max(end, h.Sends[i].Call, h.Sends[i].Return)
	}
	for i := range h.Receives {
		end = max(end, h.Receives[i].At)
	}
	width := max(int64(250e6), end/binsMax)
	bins := int(end/width) + 1
	acked, delivered := make([]float64, bins), make([]float64, bins)
	waits := make([][]float64, bins)
	perSecond := 1e9 / float64(width)
	for i := range h.Sends {
		if s := &h.Sends[i]; s.Outcome == history.OK {
			acked[s.Return/width] += perSecond
			waits[s.Return/width] = append(waits[s.Return/width], float64(s.Return-s.Call)/1e6)
		}
	}
	for i := range h.Receives {
		delivered[h.Receives[i].At/width] += perSecond
	}
	median, p99, longest := make([]float64, bins), make([]float64, bins), make([]float64, bins)
	for i, w := range waits {
		if len(w) == 0 {
			continue
		}
		sort.Float64s(w)
		median[i], p99[i], longest[i] = w[len(w)/2], w[len(w)*99/100], w[len(w)-1]
	}
	seconds := float64(end) / 1e9
	return lines(seconds, h.Disturbances, acked, delivered), lines(seconds, h.Disturbances, median, p99, longest)
}

// lines draws series that share an axis of time.
func lines(seconds float64, disturbances []history.Disturbance, series ...[]float64) template.HTML {
	top := 1.0
	for _, values := range series {
		for _, v := range values {
			top = math.Max(top, v)
		}
	}
	var b strings.Builder
	plotWidth, plotHeight := chartWidth-chartLeft, chartHeight-chartBottom
	fmt.Fprintf(&b, `<svg viewBox="0 0 %g %g" role="img">`, chartWidth, chartHeight)
	for _, d := range disturbances {
		from, to := float64(d.Start)/1e9, float64(d.End)/1e9
		if d.End == 0 {
			to = seconds
		}
		from, to = math.Min(from, seconds), math.Min(to, seconds)
		fmt.Fprintf(&b, `<rect class="mark" x="%.1f" y="0" width="%.1f" height="%g"><title>%s: %s, %.1f s to %.1f s</title></rect>`,
			chartLeft+from/seconds*plotWidth, math.Max(2, (to-from)/seconds*plotWidth), plotHeight, html.EscapeString(d.Step), html.EscapeString(d.Kind), from, to)
	}
	for i := 0; i <= 4; i++ {
		y := plotHeight * float64(i) / 4
		fmt.Fprintf(&b, `<line class="axis" x1="%g" x2="%g" y1="%.1f" y2="%.1f"/><text x="%g" y="%.1f" text-anchor="end">%.4g</text>`,
			chartLeft, chartWidth, y, y, chartLeft-4, math.Max(10, y), top*float64(4-i)/4)
		fmt.Fprintf(&b, `<text x="%.1f" y="%g" text-anchor="middle">%.3g s</text>`, chartLeft+(plotWidth-40)*float64(i)/4+15, chartHeight-4, seconds*float64(i)/4)
	}
	for i, values := range series {
		points := make([]string, len(values))
		for k, v := range values {
			points[k] = fmt.Sprintf("%.1f,%.1f", chartLeft+plotWidth*(float64(k)+0.5)/float64(len(values)), plotHeight*(1-v/top))
		}
		fmt.Fprintf(&b, `<polyline class="l%d" points="%s"/>`, i+1, strings.Join(points, " "))
	}
	b.WriteString("</svg>")
	return template.HTML(b.String())
}

var vectorPart = regexp.MustCompile(`^(.+) (\d+)$`)

// vectorOf reads "b1 4, b2 3".
func vectorOf(text string) map[string]int {
	counts := map[string]int{}
	for _, part := range strings.Split(text, ", ") {
		if m := vectorPart.FindStringSubmatch(part); m != nil {
			counts[m[1]], _ = strconv.Atoi(m[2]) // digits
		}
	}
	return counts
}

// bars draws two vectors of counts per broker side by side; "" for none.
func bars(before, after string) template.HTML {
	old, now := vectorOf(before), vectorOf(after)
	names, top := []string{}, 1
	for _, counts := range []map[string]int{old, now} {
		for name, n := range counts {
			names, top = append(names, name), max(top, n)
		}
	}
	if len(names) == 0 {
		return ""
	}
	sort.Strings(names)
	var b strings.Builder
	row, at := 26.0, 0.0
	var rows strings.Builder
	for i, name := range names {
		if i > 0 && names[i-1] == name {
			continue
		}
		fmt.Fprintf(&rows, `<text x="%g" y="%.1f" text-anchor="end">%s</text>`, 90.0, at+14, html.EscapeString(name))
		for k, counts := range []map[string]int{old, now} {
			if n, ok := counts[name]; ok {
				width := float64(n) / float64(top) * 740
				fmt.Fprintf(&rows, `<rect class="b%d" x="96" y="%.1f" width="%.1f" height="9"/><text x="%.1f" y="%.1f">%d</text>`, k+1, at+float64(k)*10, width, 102+width, at+float64(k)*10+9, n)
			}
		}
		at += row
	}
	fmt.Fprintf(&b, `<svg viewBox="0 0 %g %g" role="img">%s</svg>`, chartWidth, at, rows.String())
	return template.HTML(b.String())
}

// timeline draws every step as a bar over time; moves say what they moved.
func timeline(r *Run) template.HTML {
	end := int64(1)
	for i := range r.Steps {
		end = max(end, r.Steps[i].StartMS+r.Steps[i].TookMS)
	}
	begin := min(r.PreparedMS, end-1)
	var b strings.Builder
	fmt.Fprintf(&b, `<svg viewBox="0 0 %g %d" role="img">`, chartWidth, 18*len(r.Steps)+4)
	for i := range r.Steps {
		s := &r.Steps[i]
		scale := (chartWidth - 360) / float64(end-begin)
		x, width := 160+float64(max(0, s.StartMS-begin))*scale, math.Max(2, float64(s.TookMS)*scale)
		class := "b1"
		switch {
		case s.Status == StepFailed:
			class = "bad"
		case strings.HasSuffix(s.Use, ".move") || s.Use == "brokers.rebalance" || s.Use == "broker.unload":
			class = "b2"
		}
		y := 18 * i
		fmt.Fprintf(&b, `<text x="154" y="%d" text-anchor="end">%s</text><rect class="%s" x="%.1f" y="%d" width="%.1f" height="11"><title>%s</title></rect><text x="%.1f" y="%d">%.1f s</text>`,
			y+12, html.EscapeString(s.Stage[:min(8, len(s.Stage))]+"/"+s.ID), class, x, y+3, width, html.EscapeString(s.Title+": "+s.Note), x+width+4, y+12, float64(s.TookMS)/1000)
	}
	b.WriteString("</svg>")
	return template.HTML(b.String())
}
