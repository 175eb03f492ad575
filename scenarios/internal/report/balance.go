package report

import (
	"cmp"
	"fmt"
	"html/template"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// The bounds of what is drawn of samples.
const (
	samplesDrawn = 300
	linesMax     = 8 // lines: with more brokers the last line is of the others together
)

// balanced is a comparison of brokers before and after something.
type balanced struct {
	Title string
	Rows  []balancedRow
}

type balancedRow struct {
	Name          string
	Before, After string // counts; "" for none
	Bars          template.HTML
}

// compare makes the rows of two counts per broker; nil when there are none.
func compare(title string, before, after map[string]int64) *balanced {
	top, seen := int64(1), map[string]bool{}
	for _, counts := range []map[string]int64{before, after} {
		for name, n := range counts {
			top, seen[name] = max(top, n), true
		}
	}
	names := slices.Collect(maps.Keys(seen))
	if len(names) == 0 {
		return nil
	}
	slices.SortFunc(names, byName)
	out := &balanced{Title: title}
	for _, name := range names {
		row := balancedRow{Name: name}
		var bars string
		if n, ok := before[name]; ok {
			row.Before = strconv.FormatInt(n, 10)
			bars += bar("s4", float64(n)/float64(top), fmt.Sprintf("%s before: %d", name, n))
		}
		if n, ok := after[name]; ok {
			row.After = strconv.FormatInt(n, 10)
			bars += bar("s1", float64(n)/float64(top), fmt.Sprintf("%s after: %d", name, n))
		}
		row.Bars = template.HTML(bars)
		out.Rows = append(out.Rows, row)
	}
	return out
}

// byName puts b10 after b9.
func byName(a, b string) int {
	return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
}

var vectorPart = regexp.MustCompile(`^(.+) (\d+)$`)

// vectorOf reads "b1 4, b2 3".
func vectorOf(text string) map[string]int64 {
	counts := map[string]int64{}
	for _, part := range strings.Split(text, ", ") {
		if m := vectorPart.FindStringSubmatch(part); m != nil {
			counts[m[1]], _ = strconv.ParseInt(m[2], 10, 64) // digits
		}
	}
	return counts
}

// balances compares the last sample before the first disturbance, or else the
// first, with the last of all, and what steps have told of before and after.
func balances(r *Run, samples []Event, all []*disturbed) []*balanced {
	undisturbed := int64(math.MaxInt64)
	if len(all) > 0 {
		undisturbed = r.PreparedMS + all[0].from/1e6
	}
	return append(ofSamples(samples, undisturbed), ofSteps(r)...)
}

// ofSamples compares samples; those until undisturbed, in ms, are of before.
func ofSamples(samples []Event, undisturbed int64) []*balanced {
	var all []*balanced
	var first, last *Sample
	for i := range samples {
		if s := samples[i].Sample; leadersOf(s) > 0 {
			if first == nil || samples[i].MS <= undisturbed && undisturbed < math.MaxInt64 {
				first = s
			}
			last = s
		}
	}
	if first != nil {
		leaders := func(b BrokerSample) int64 { return b.Leaders }
		replicas := func(b BrokerSample) int64 { return b.Replicas }
		all = append(all, compare("Leaders, undisturbed and at the end", countsOf(first, leaders), countsOf(last, leaders)),
			compare("Replicas, undisturbed and at the end", countsOf(first, replicas), countsOf(last, replicas)))
	}
	return all
}

// ofSteps compares what steps have told of before and after.
func ofSteps(r *Run) []*balanced {
	var all []*balanced
	for i := range r.Steps {
		s := &r.Steps[i]
		before, _ := s.Outputs["before"].(string)
		after, _ := s.Outputs["after"].(string)
		if s.Outputs["state"] == "planned" || before == "" {
			continue
		}
		if b := compare(fmt.Sprintf("Leaders, %s/%s: %s", s.Stage, s.ID, s.Title), vectorOf(before), vectorOf(after)); b != nil {
			all = append(all, b)
		}
	}
	return all
}

func leadersOf(s *Sample) int64 {
	total := int64(0)
	for _, b := range s.Brokers {
		total += b.Leaders
	}
	return total
}

func countsOf(s *Sample, count func(BrokerSample) int64) map[string]int64 {
	counts := map[string]int64{}
	for _, b := range s.Brokers {
		counts[b.Name] = count(b)
	}
	return counts
}

// overTime draws leaders, replicas and moves as the samples have them. The
// samples' clock began with the run, that of the history once it was prepared.
func overTime(r *Run, samples []Event, marks []mark) (leaders, replicas, moves template.HTML) {
	if len(samples) == 0 {
		return "", "", ""
	}
	every := (len(samples) + samplesDrawn - 1) / samplesDrawn
	seen := map[string]bool{}
	var drawn []Event
	for i := 0; i < len(samples); i += every {
		drawn = append(drawn, samples[i])
		for _, b := range samples[i].Sample.Brokers {
			seen[b.Name] = true
		}
	}
	names := slices.Collect(maps.Keys(seen))
	slices.SortFunc(names, byName)
	seconds := func(e Event) float64 { return float64(e.MS-r.PreparedMS) / 1000 }
	end := seconds(drawn[len(drawn)-1])
	if len(names) == 0 || end <= 0 {
		return "", "", ""
	}
	var inFlight, under []instant
	for _, e := range drawn {
		inFlight, under = append(inFlight, instant{seconds(e), orNaN(e.Sample.Moves)}), append(under, instant{seconds(e), orNaN(e.Sample.UnderReplicated)})
	}
	p := plot{from: 0, to: end, marks: marks, whole: true}
	draw := func(id, what string, count func(BrokerSample) int64) template.HTML {
		p := p
		p.id, p.title, p.unit, p.stacked = id, what+" per broker over the run", what+", stacked", true
		p.summary = fmt.Sprintf("%s of %s, as the controller told.", what, strings.Join(names, ", "))
		sums := make([]float64, len(drawn))
		for i, name := range names {
			s := series{name: name, class: fmt.Sprintf("s%d", i+1), steps: true, area: true}
			if i >= linesMax-1 && len(names) > linesMax {
				s.name, s.class = "others", fmt.Sprintf("s%d", linesMax)
			}
			for k, e := range drawn {
				if e.Sample.Brokers == nil {
					sums[k] = math.NaN()
				}
				sums[k] += float64(countsOf(e.Sample, count)[name])
				s.points = append(s.points, instant{seconds(e), sums[k]})
			}
			if n := len(p.series); n == linesMax {
				p.series[n-1].points = s.points // the others together
				continue
			}
			p.series = append(p.series, s)
		}
		return p.render()
	}
	leaders, replicas = draw("leaders", "Leaders", func(b BrokerSample) int64 { return b.Leaders }), draw("replicas", "Replicas", func(b BrokerSample) int64 { return b.Replicas })
	p.id, p.title, p.unit = "moves", "Moves under way over the run", "count"
	p.summary = "How many replica moves and hand-overs were under way, and how many partitions were under-replicated."
	p.series = []series{{name: "moves under way", class: "s1", points: inFlight, steps: true, area: true}, {name: "under-replicated partitions", class: "s3", points: under, steps: true}}
	return leaders, replicas, p.render()
}

func orNaN(n *int64) float64 {
	if n == nil {
		return math.NaN()
	}
	return float64(*n)
}
