package report

import (
	"bytes"
	"fmt"
	"html/template"

	"github.com/ister-mq/ister/scenarios/internal/history"
)

// page is what the HTML report shows.
type page struct {
	Run      *Run
	Took     string
	Aspects  []pageAspect
	Rate     template.HTML
	Latency  template.HTML
	Timeline template.HTML
	Balances []pageBalance
	Excerpts []Excerpt
	Failures []string
}

type pageAspect struct {
	ID     string
	Checks []Check
}

type pageBalance struct {
	Title string
	Chart template.HTML
}

// HTML renders a run and what its clients saw as one page. It refers to nothing
// outside of itself and has no script. h may be nil: then there are no charts of
// the traffic.
func HTML(r *Run, h *history.History, excerpts []Excerpt) ([]byte, error) {
	p := page{Run: r, Took: r.took(), Timeline: timeline(r), Excerpts: excerpts}
	for _, id := range aspectsOf(r) {
		a := pageAspect{ID: id}
		for _, c := range append(append([]Check(nil), r.Guards...), r.Criteria...) {
			if c.Aspect == id {
				a.Checks = append(a.Checks, c)
			}
		}
		p.Aspects = append(p.Aspects, a)
	}
	if h != nil && len(h.Sends) > 0 {
		p.Rate, p.Latency = traffic(h)
	}
	for i := range r.Steps {
		s := &r.Steps[i]
		before, _ := s.Outputs["before"].(string)
		after, _ := s.Outputs["after"].(string)
		if vector, ok := s.Outputs["vector"].(string); ok && s.Use == "brokers.balance" {
			after = vector
		}
		if chart := bars(before, after); chart != "" && s.Outputs["state"] != "planned" {
			p.Balances = append(p.Balances, pageBalance{fmt.Sprintf("%s/%s: %s", s.Stage, s.ID, s.Title), chart})
		}
	}
	for _, f := range r.Failures {
		text := ""
		for _, l := range f.Lines() {
			text += l + "\n"
		}
		p.Failures = append(p.Failures, text)
	}
	var out bytes.Buffer
	if err := pageTemplate.Execute(&out, p); err != nil {
		return nil, fmt.Errorf("render html: %w", err)
	}
	return out.Bytes(), nil
}

// Excerpt is a violation with the lines of the history around it.
type Excerpt struct {
	Message string
	Lines   []string
}

var pageTemplate = template.Must(template.New("report").Parse(`<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{.Run.Scenario}}: {{.Run.Verdict}}</title>
<style>
:root { color-scheme: light dark; --back: #fff; --text: #1d2430; --dim: #667; --line: #d6dae2; --one: #2267c4; --two: #c4622d; --three: #8a4fbf; --good: #1a7f4b; --bad: #c02a2a; --mark: #f0c24b55; }
@media (prefers-color-scheme: dark) { :root { --back: #14181f; --text: #dde3ee; --dim: #98a2b3; --line: #333b49; --one: #6aa6f5; --two: #f0965f; --three: #c596f2; --good: #4fc98a; --bad: #ff7a70; --mark: #f0c24b33; } }
body { background: var(--back); color: var(--text); font: 15px/1.45 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2rem; } h3 { font-size: 1rem; }
table { border-collapse: collapse; width: 100%; } th, td { border-bottom: 1px solid var(--line); padding: .3rem .5rem; text-align: left; vertical-align: top; }
pre { border: 1px solid var(--line); padding: .6rem; overflow-x: auto; white-space: pre-wrap; }
.dim { color: var(--dim); } .pass { color: var(--good); } .fail, .none { color: var(--bad); }
svg { width: 100%; height: auto; } svg text { fill: var(--dim); font: 11px system-ui, sans-serif; }
.axis { stroke: var(--line); } .mark { fill: var(--mark); } .l1, .l2, .l3 { fill: none; stroke-width: 1.5; }
.l1 { stroke: var(--one); } .l2 { stroke: var(--two); } .l3 { stroke: var(--three); } .b1 { fill: var(--one); } .b2 { fill: var(--two); } .bad { fill: var(--bad); }
.k1 { color: var(--one); } .k2 { color: var(--two); } .k3 { color: var(--three); }
</style>
</head>
<body>
<h1>{{.Run.Scenario}}: <span class="{{if eq .Run.Verdict "pass"}}pass{{else}}fail{{end}}">{{.Run.Verdict}}</span></h1>
<p>{{.Run.Title}}<br><span class="dim">run {{.Run.ID}}, setup {{.Run.Setup}}, seed {{.Run.Seed}}, {{.Took}}</span></p>
{{range .Failures}}<pre>{{.}}</pre>{{end}}
{{range .Aspects}}<h2>{{.ID}}</h2>
<table><tr><th></th><th>criterion</th><th>observed</th><th>want</th></tr>
{{range .Checks}}<tr><td class="{{if eq .Status "pass"}}pass{{else if eq .Status "fail"}}fail{{else}}none{{end}}">{{.Status}}</td><td>{{if .Guard}}guard: {{end}}{{.Title}}</td><td>{{.Observed}}{{if .Detail}}<br><span class="dim">{{.Detail}}</span>{{end}}</td><td>{{.Op}} {{.Expected}}</td></tr>
{{end}}</table>
{{end}}{{if .Excerpts}}<h2>Violations</h2>
{{range .Excerpts}}<p class="fail">{{.Message}}</p><pre>{{range .Lines}}{{.}}
{{end}}</pre>{{end}}{{end}}
{{if .Rate}}<h2>Records per second</h2><p class="dim"><span class="k1">acknowledged</span>, <span class="k2">delivered</span>; shaded: disturbances</p>{{.Rate}}
<h2>Time to acknowledgement</h2><p class="dim"><span class="k1">median</span>, <span class="k2">p99</span>, <span class="k3">longest</span>, ms; shaded: disturbances</p>{{.Latency}}{{end}}
{{if .Balances}}<h2>Leaders per broker</h2><p class="dim"><span class="k1">before</span>, <span class="k2">after</span></p>{{range .Balances}}<h3>{{.Title}}</h3>{{.Chart}}{{end}}{{end}}
<h2>Timeline</h2>{{.Timeline}}
<p class="dim">Again: <code>{{.Run.Repro}}</code></p>
</body>
</html>
`))
