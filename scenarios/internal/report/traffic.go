package report

import (
	"fmt"
	"html/template"
	"math"
	"sort"

	"github.com/ister-mq/ister/scenarios/internal/history"
	"github.com/ister-mq/ister/scenarios/internal/verdict"
)

// The bounds of what is drawn, so that a soak of hours leaves a page that opens.
const (
	binsMax       = 240
	binLeast      = 250e6 // ns
	closeBins     = 60    // around a disturbance
	disturbedMax  = 100   // rows
	closeMax      = 12    // disturbances drawn by themselves
	settleNS      = 2e9   // after a disturbance, in which gaps still count as its own
	aroundNS      = 2e9   // drawn before and after one
	lookBackNS    = 60e9  // sends begun earlier than this before a disturbance are not looked at
	unansweredMax = 20
)

// traffic is what clients saw in bins of time.
type traffic struct {
	from, width      int64 // ns
	acked, delivered []instant
	median, p99, max []instant
}

// measure sorts a history into n bins between two instants.
func measure(h *history.History, from, to int64, n int) traffic {
	t := traffic{from: from, width: max(1, (to-from)/int64(n))}
	acked, delivered, waits := make([]float64, n), make([]float64, n), make([][]float64, n)
	bin := func(at int64) (int, bool) {
		if at < from || at >= from+t.width*int64(n) {
			return 0, false
		}
		return int((at - from) / t.width), true
	}
	perSecond := 1e9 / float64(t.width)
	for i := range h.Sends {
		s := &h.Sends[i]
		if k, ok := bin(s.Return); ok && s.Outcome == history.OK {
			acked[k] += perSecond
			waits[k] = append(waits[k], float64(s.Return-s.Call)/1e6)
		}
	}
	for i := range h.Receives {
		if k, ok := bin(h.Receives[i].At); ok {
			delivered[k] += perSecond
		}
	}
	for k := range n {
		at := float64(from+t.width*int64(k)+t.width/2) / 1e9
		median, p99, longest := math.NaN(), math.NaN(), math.NaN()
		if w := waits[k]; len(w) > 0 {
			sort.Float64s(w)
			median, p99, longest = w[len(w)/2], w[len(w)*99/100], w[len(w)-1]
		}
		t.acked, t.delivered = append(t.acked, instant{at, acked[k]}), append(t.delivered, instant{at, delivered[k]})
		t.median, t.p99, t.max = append(t.median, instant{at, median}), append(t.p99, instant{at, p99}), append(t.max, instant{at, longest})
	}
	return t
}

// endOf is the last instant of a history in which a client saw something.
func endOf(h *history.History) int64 {
	end := int64(1)
	for i := range h.Sends {
		end = max(end, h.Sends[i].Call, h.Sends[i].Return)
	}
	for i := range h.Receives {
		end = max(end, h.Receives[i].At)
	}
	return end
}

// disturbed is a disturbance with how the load fared.
type disturbed struct {
	Number   int
	Step     string
	Kind     string
	Target   string
	At       string
	Lasted   string
	Sent     bool // sends waited at some time during it
	Acked    int
	Errors   int
	Produce  string // longest gap
	Consume  string
	P99      string
	GapShare template.HTML
	Charts   []template.HTML

	from, to int64
	gapMS    float64
}

// disturbances measures each disturbance, the earliest disturbedMax of them.
func disturbances(h *history.History, end int64) []*disturbed {
	var all []*disturbed
	longest := 1.0
	for i, d := range h.Disturbances {
		if i == disturbedMax {
			break
		}
		to := d.End
		if to == 0 {
			to = max(end, d.Start)
		}
		out := &disturbed{
			Number: i + 1, Step: d.Step, Kind: d.Kind, Target: d.Target, At: seconds1(float64(d.Start)/1e9, 60), Lasted: duration(float64(to-d.Start) / 1e6),
			from: d.Start, to: to, Produce: "none", Consume: "none", P99: "none",
		}
		consumeMS := 0.0
		near := window(h, d.Start-lookBackNS, to+settleNS)
		for _, load := range loadsOf(near) {
			w := verdict.Observe(near, load, d.Start, to, settleNS)
			if w.InFlight == 0 {
				continue
			}
			out.Sent = true
			out.Acked, out.Errors = out.Acked+w.Acked, out.Errors+w.Errors
			if w.ProduceGapMS >= out.gapMS {
				out.gapMS, out.Produce, out.P99 = w.ProduceGapMS, duration(w.ProduceGapMS), duration(w.P99MS)
			}
			consumeMS = max(consumeMS, w.ConsumeGapMS)
			out.Consume = duration(consumeMS)
		}
		longest = max(longest, out.gapMS)
		all = append(all, out)
	}
	for _, d := range all {
		d.GapShare = template.HTML(bar("s1", d.gapMS/longest, d.Produce))
	}
	return all
}

// window is the part of a history that happened between two instants.
func window(h *history.History, from, to int64) *history.History {
	out := &history.History{}
	for i := range h.Sends {
		if s := &h.Sends[i]; s.Call >= from && s.Call <= to {
			out.Sends = append(out.Sends, *s)
		}
	}
	for i := range h.Receives {
		if r := &h.Receives[i]; r.At >= from && r.At <= to+lookBackNS {
			out.Receives = append(out.Receives, *r)
		}
	}
	return out
}

func loadsOf(h *history.History) []string {
	var loads []string
	seen := map[string]bool{}
	for i := range h.Sends {
		if load := h.Sends[i].Load; !seen[load] {
			seen[load] = true
			loads = append(loads, load)
		}
	}
	return loads
}

// drawClose draws what clients saw around the disturbances with the longest
// gaps, in order of time.
func drawClose(h *history.History, all []*disturbed) {
	byGap := append([]*disturbed(nil), all...)
	sort.SliceStable(byGap, func(i, j int) bool { return byGap[i].gapMS > byGap[j].gapMS })
	for _, d := range byGap[:min(closeMax, len(byGap))] {
		if !d.Sent {
			continue
		}
		from, to := max(0, d.from-aroundNS), d.to+aroundNS
		t := measure(h, from, to, closeBins)
		p := plot{from: float64(from) / 1e9, to: float64(to) / 1e9, marks: []mark{{from: float64(d.from) / 1e9, to: float64(d.to) / 1e9, text: d.Step}}}
		name := fmt.Sprintf("disturbance %d, %s", d.Number, d.Step)
		rate := p
		rate.id, rate.title, rate.unit = fmt.Sprintf("rate%d", d.Number), "Records per second around "+name, "records/s"
		rate.summary = fmt.Sprintf("%d records were acknowledged while it lasted (%s); the longest produce gap was %s.", d.Acked, d.Lasted, d.Produce)
		rate.series = []series{{name: "acknowledged", class: "s1", points: t.acked, area: true}, {name: "delivered", class: "s2", points: t.delivered}}
		wait := p
		wait.id, wait.title, wait.unit = fmt.Sprintf("wait%d", d.Number), "Time to acknowledgement around "+name, "ms to ack (log)"
		wait.summary, wait.logarithmic = "99th percentile during it: "+d.P99+".", true
		wait.series = []series{{name: "median", class: "s1", points: t.median}, {name: "longest", class: "s3", points: t.max}}
		d.Charts = []template.HTML{rate.render(), wait.render()}
	}
}

// marksOf shades disturbances.
func marksOf(all []*disturbed) []mark {
	var marks []mark
	for _, d := range all {
		marks = append(marks, mark{number: d.Number, from: float64(d.from) / 1e9, to: float64(d.to) / 1e9, text: fmt.Sprintf("%d: %s (%s), at %s for %s", d.Number, d.Step, d.Kind, d.At, d.Lasted)})
	}
	return marks
}

// overview draws the whole run.
func overview(h *history.History, end int64, marks []mark) (rate, wait template.HTML) {
	n := int(min(binsMax, max(1, end/binLeast)))
	t := measure(h, 0, end, n)
	p := plot{from: 0, to: float64(end) / 1e9, marks: marks}
	p.id, p.title, p.unit = "rate", "Records per second over the run", "records/s"
	p.summary = fmt.Sprintf("Acknowledged and delivered records per second in steps of %s; %d disturbances are shaded.", duration(float64(t.width)/1e6), len(marks))
	p.series = []series{{name: "acknowledged", class: "s1", points: t.acked, area: true}, {name: "delivered", class: "s2", points: t.delivered}}
	rate = p.render()
	p.id, p.title, p.unit, p.logarithmic = "wait", "Time to acknowledgement over the run", "ms, logarithmic", true
	p.summary = "Median, 99th percentile and longest time from a send to its acknowledgement."
	p.series = []series{{name: "median", class: "s1", points: t.median}, {name: "p99", class: "s2", points: t.p99}, {name: "longest", class: "s3", points: t.max}}
	return rate, p.render()
}
