package report

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/ister-mq/ister/scenarios/internal/history"
)

// The bounds of tables.
const (
	stepsMax     = 500
	failuresMax  = 30
	movesMax     = 60
	leftoversMax = 50
)

//go:embed page.tmpl
var pageText string

var pageTemplate = template.Must(template.New("report").Parse(pageText))

// page is what the HTML report shows.
type page struct {
	Run  *Run
	Good bool
	// Contradicted: the record says pass, and the history holds violations.
	Contradicted bool

	Started  string
	Took     string
	Tiles    []tile
	Failures []Failure
	Aspects  []pageAspect
	More     map[string]int // left out, by what

	Disturbed  []*disturbed
	Close      []*disturbed
	Rate, Wait template.HTML

	Balances                 []*balanced
	Leaders, Replicas, Moves template.HTML
	Moved                    []pageMove
	Stages                   []pageStage

	Excerpts   []Excerpt
	Unanswered []Entry
	Unsampled  string
	Params     []pair
	Versions   []pair
}

type tile struct{ Label, Value, Note, Class string }

type pair struct{ Name, Value string }

type pageAspect struct {
	ID     string
	Passed int
	Total  int
	Checks []Check
}

type pageStage struct {
	ID    string
	Took  string
	Steps []pageStep
}

type pageStep struct {
	Step
	At, Lasted string
	Bar        template.HTML
}

type pageMove struct {
	Step
	At, Lasted string
	Bar        template.HTML
}

// HTML renders a run, what its clients saw and the samples among its events as
// one page. It refers to nothing outside of itself and has no script. h may be
// nil: then there is nothing about the traffic.
func HTML(r *Run, h *history.History, events []Event) ([]byte, error) {
	p := page{
		Run: r, Good: r.Verdict == Pass, Took: r.took(), Started: r.StartedAt.UTC().Format("2 January 2006, 15:04:05 UTC"), More: map[string]int{},
		Params: pairs(r.Params), Versions: pairs(r.Versions),
	}
	p.Failures = bounded(r.Failures, failuresMax, p.More, "failures")
	for _, id := range aspectsOf(r) {
		p.Aspects = append(p.Aspects, aspectOf(r, id))
	}
	var samples []Event
	for _, e := range events {
		if e.Kind == Sampled && e.Sample != nil {
			samples = append(samples, e)
		}
	}
	if h == nil {
		h = &history.History{}
	}
	if err := p.traffic(h); err != nil {
		return nil, err
	}
	p.Balances = balances(r, samples, p.Disturbed)
	p.Leaders, p.Replicas, p.Moves = overTime(r, samples, marksOf(p.Disturbed))
	if p.Leaders == "" {
		p.Unsampled = whyUnsampled(samples)
	}
	if p.Contradicted = p.Good && len(p.Excerpts) > 0; p.Contradicted {
		p.Good = false
	}
	p.steps(r)
	p.Tiles = tiles(r, h, &p)
	var out bytes.Buffer
	if err := pageTemplate.Execute(&out, &p); err != nil {
		return nil, fmt.Errorf("render html: %w", err)
	}
	return out.Bytes(), nil
}

// bounded cuts a list, and notes how many were left out.
func bounded[T any](list []T, most int, more map[string]int, what string) []T {
	if len(list) <= most {
		return list
	}
	more[what] = len(list) - most
	return list[:most]
}

func aspectOf(r *Run, id string) pageAspect {
	a := pageAspect{ID: id}
	for _, c := range append(append([]Check(nil), r.Criteria...), r.Guards...) {
		if c.Aspect != id {
			continue
		}
		c.Evidence = within(r, c.Evidence)
		a.Checks = append(a.Checks, c)
		if !c.Guard {
			a.Total++
			if c.Status == CheckPass {
				a.Passed++
			}
		}
	}
	return a
}

// within is a file of the run's directory, told from there.
func within(r *Run, path string) string {
	if relative, err := filepath.Rel(r.Directory, path); err == nil && !strings.HasPrefix(relative, "..") {
		return relative
	}
	return path
}

// traffic fills in what the history tells.
func (p *page) traffic(h *history.History) error {
	if len(h.Sends) == 0 {
		return nil
	}
	end := endOf(h)
	p.Disturbed = disturbances(h, end)
	if left := len(h.Disturbances) - len(p.Disturbed); left > 0 {
		p.More["disturbances"] = left
	}
	drawClose(h, p.Disturbed)
	for _, d := range p.Disturbed {
		if d.Charts != nil {
			p.Close = append(p.Close, d)
		}
	}
	p.Rate, p.Wait = overview(h, end, marksOf(p.Disturbed))
	var err error
	var left int
	if p.Excerpts, left, err = violations(h); err != nil {
		return err
	}
	p.More["violations"] = left
	p.Unanswered, left = unanswered(h)
	p.More["unanswered"] = left
	return nil
}

// whyUnsampled is why the charts of balance are not there.
func whyUnsampled(samples []Event) string {
	for i := len(samples) - 1; i >= 0; i-- {
		if reason := samples[i].Sample.Unread["brokers"]; reason != "" {
			return "The cluster's balance was never read: " + reason + "."
		}
	}
	return "The run left no samples of the cluster: it ended before the first."
}

// steps fills in the tables of steps, and the timeline of what moved or
// disturbed.
func (p *page) steps(r *Run) {
	end := int64(1)
	for i := range r.Steps {
		end = max(end, r.Steps[i].StartMS+r.Steps[i].TookMS)
	}
	begin := min(r.PreparedMS, end-1)
	disturbs := map[string]bool{}
	for _, d := range p.Disturbed {
		disturbs[d.Step] = true
	}
	for _, s := range bounded(r.Steps, stepsMax, p.More, "steps") {
		share := func(ms int64) float64 {
			return min(1, max(0, float64(ms-begin)/float64(end-begin)))
		}
		class := "s1"
		if s.Status == StepFailed {
			class = "bad"
		}
		row := pageStep{Step: s, At: seconds1(float64(s.StartMS-r.PreparedMS)/1000, 60), Lasted: duration(float64(s.TookMS))}
		row.Bar = span(class, share(s.StartMS), share(s.StartMS+s.TookMS), s.Title+": "+row.Lasted)
		if n := len(p.Stages); n == 0 || p.Stages[n-1].ID != s.Stage {
			p.Stages = append(p.Stages, pageStage{ID: s.Stage})
		}
		stage := &p.Stages[len(p.Stages)-1]
		stage.Steps = append(stage.Steps, row)
		if s.Outputs["state"] != "planned" && (disturbs[s.ID] || slices.Contains([]string{"brokers.rebalance", "broker.unload", "topic.move"}, s.Use)) {
			p.Moved = append(p.Moved, pageMove{s, row.At, row.Lasted, row.Bar})
		}
	}
	p.Moved = bounded(p.Moved, movesMax, p.More, "moves")
	for i := range p.Stages {
		total := int64(0)
		for _, s := range p.Stages[i].Steps {
			total += s.TookMS
		}
		p.Stages[i].Took = duration(float64(total))
	}
}

// tiles are the figures at the top.
func tiles(r *Run, h *history.History, p *page) []tile {
	passed, judged := r.Passed()
	all := []tile{{"criteria passed", fmt.Sprintf("%d of %d", passed, judged), "", classOf(passed == judged && passed > 0)}}
	if len(h.Sends) > 0 {
		acked, unknown := 0, 0
		for i := range h.Sends {
			switch h.Sends[i].Outcome {
			case history.OK:
				acked++
			case history.Unknown, history.Pending:
				unknown++
			}
		}
		violated := len(p.Excerpts) + p.More["violations"]
		all = append(all, tile{"records acknowledged", count(acked), fmt.Sprintf("%s sent, %s of unknown outcome", count(len(h.Sends)), count(unknown)), ""},
			tile{"violations found", count(violated), fmt.Sprintf("in %s complete reads", count(len(h.Reads))), classOf(violated == 0)})
		if len(h.Reads) == 0 {
			all[2].Class, all[2].Value, all[2].Note = "", "not judged", "the history holds no complete read"
		}
	}
	var worst *disturbed
	for _, d := range p.Disturbed {
		if worst == nil || d.gapMS > worst.gapMS {
			worst = d
		}
	}
	if worst != nil && worst.Sent {
		all = append(all, tile{"longest produce gap", worst.Produce, fmt.Sprintf("at %s, one of %d disturbances", worst.Step, len(h.Disturbances)), ""})
	}
	if len(r.Leftovers) > 0 {
		all = append(all, tile{"left behind", count(len(r.Leftovers)), "by the cleanup", "bad"})
	}
	return all
}

func classOf(good bool) string {
	if good {
		return "good"
	}
	return "bad"
}

// count writes a number with its thousands apart.
func count(n int) string {
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "\u202f" + text[i:]
	}
	return text
}

func pairs(values map[string]string) []pair {
	var all []pair
	for name, value := range values {
		all = append(all, pair{name, value})
	}
	sort.Slice(all, func(i, j int) bool { return all[i].Name < all[j].Name })
	return all
}

// Ended is when the run ended, for people.
func (p *page) Ended() string {
	if p.Run.EndedAt.IsZero() {
		return "not ended"
	}
	return p.Run.EndedAt.UTC().Format(time.RFC3339)
}

// Leftovers are what the cleanup left, as many as fit.
func (p *page) Leftovers() []string {
	return p.Run.Leftovers[:min(leftoversMax, len(p.Run.Leftovers))]
}

// Evidence is a file of the run's directory, told from there.
func (p *page) Evidence(path string) string { return within(p.Run, path) }
