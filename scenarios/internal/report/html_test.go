package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/ister-mq/ister/scenarios/internal/history"
)

// recorded is a run that was recorded, of testdata.
func recorded(t *testing.T, name string) (*Run, *history.History, []Event) {
	t.Helper()
	dir := filepath.Join("testdata", name)
	r, err := LoadRun(dir)
	if err != nil {
		t.Fatal(err)
	}
	h, err := history.Load(filepath.Join(dir, "history.ndjson.gz"))
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(dir, "events.ndjson"))
	if err != nil {
		t.Fatal(err)
	}
	var events []Event
	for _, line := range strings.Split(strings.TrimSpace(string(data)), "\n") {
		var e Event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		events = append(events, e)
	}
	return r, h, events
}

// lose takes a record that was acknowledged out of the last read, as if a broker
// had lost it, and returns its uid.
func lose(h *history.History) string {
	read := &h.Reads[len(h.Reads)-1]
	at := len(read.Records) / 2
	uid := read.Records[at].UID
	read.Records = append(append([]history.Receive{}, read.Records[:at]...), read.Records[at+1:]...)
	return uid
}

// parts counts the tags of a page, and checks that it is well formed and refers
// to nothing.
func parts(t *testing.T, data []byte) map[string]int {
	t.Helper()
	tags, open := map[string]int{}, []string{}
	tokens := html.NewTokenizer(bytes.NewReader(data))
	for {
		kind := tokens.Next()
		if kind == html.ErrorToken {
			break
		}
		token := tokens.Token()
		switch kind {
		case html.StartTagToken:
			tags[token.Data]++
			if token.Data != "meta" && token.Data != "br" && token.Data != "link" {
				open = append(open, token.Data)
			}
		case html.EndTagToken:
			if len(open) == 0 || open[len(open)-1] != token.Data {
				t.Fatalf("</%s> closes %v", token.Data, open)
			}
			open = open[:len(open)-1]
		}
		for _, a := range token.Attr {
			if a.Val != "data:," && (a.Key == "src" || a.Key == "href" || a.Key == "xlink:href") || strings.HasPrefix(a.Key, "on") {
				t.Errorf("<%s %s=%q>", token.Data, a.Key, a.Val)
			}
		}
	}
	if len(open) > 0 || tags["script"] > 0 {
		t.Errorf("open %v, tags %v", open, tags)
	}
	if found := regexp.MustCompile(`url\(|@import|NaN|[+-]Inf|ZgotmplZ`).FindAll(data, -1); len(found) > 0 {
		t.Errorf("holds %q", found)
	}
	return tags
}

func TestHTMLOfARecordedRun(t *testing.T) {
	r, h, events := recorded(t, "recorded")
	r.Title = `<script src="x">`
	data, err := HTML(r, h, events)
	if err != nil {
		t.Fatal(err)
	}
	if tags := parts(t, data); tags["svg"] < 40 || tags["figure"] < 20 || tags["desc"] != tags["figure"] {
		t.Errorf("tags %v", tags)
	}
	for _, want := range []string{
		"prefers-color-scheme: dark", r.Repro, "38 of 38", "brokers.rebalance", "ister admin brokers rebalance", "Leaders per broker over the run", "1994 acknowledged"[4:],
		"Moves under way", "hand-over took", "left behind", "events.ndjson",
	} {
		if !bytes.Contains(data, []byte(html.EscapeString(want))) {
			t.Errorf("%q is not there", want)
		}
	}
	if bytes.Contains(data, []byte("Why it did not pass")) || bytes.Contains(data, []byte(`id="violations"`)) {
		t.Error("a run that passed has failures")
	}
}

// A record that is lost is told with what the history has around it.
func TestHTMLShowsALostRecord(t *testing.T) {
	r, h, events := recorded(t, "recorded")
	uid := lose(h)
	data, err := HTML(r, h, events)
	if err != nil {
		t.Fatal(err)
	}
	parts(t, data)
	text := string(data)
	if !strings.Contains(text, `<tr class="subject">`) {
		t.Error("the record's own lines are not marked")
	}
	for _, want := range []string{"acked_lost: " + uid, "no record here", "The record says pass, but", "send by move", "ok after", "delivered to"} {
		if !strings.Contains(text, html.EscapeString(want)) {
			t.Errorf("%q is not there", want)
		}
	}
}

func TestHTMLOfARunThatFailed(t *testing.T) {
	r, h, events := recorded(t, "recorded-failed")
	data, err := HTML(r, h, events)
	if err != nil {
		t.Fatal(err)
	}
	parts(t, data)
	f := r.Failures[len(r.Failures)-1]
	for _, want := range []string{"Why it did not pass", f.Expected, f.Observed, f.Repro, "history.ndjson.gz"} {
		if !strings.Contains(string(data), html.EscapeString(want)) {
			t.Errorf("%q is not there", want)
		}
	}
}

func TestHTMLWithoutHistoryOrSamples(t *testing.T) {
	data, err := HTML(sample(), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	parts(t, data)
	for _, want := range []string{"left no samples", "3120.4", "context deadline exceeded"} {
		if !bytes.Contains(data, []byte(want)) {
			t.Errorf("%q is not there", want)
		}
	}
}

// A soak of hours leaves a page that opens: everything that grows is bounded.
func TestHTMLOfALongRunStaysSmall(t *testing.T) {
	r, h, events := sample(), &history.History{}, []Event{}
	for i := range 200_000 {
		at := int64(i) * 200e6 // 11 hours
		outcome := history.OK
		if i%50 == 0 {
			outcome = history.Unknown
		}
		h.Sends = append(h.Sends, history.Send{Load: "soak", Producer: "soak", UID: fmt.Sprint(i), Call: at, Return: at + 5e6, Outcome: outcome, Offset: int64(i)})
		h.Receives = append(h.Receives, history.Receive{Load: "soak", UID: fmt.Sprint(i), At: at + 6e6, Offset: int64(i)})
	}
	for i := range 1000 {
		h.Disturbances = append(h.Disturbances, history.Disturbance{Step: fmt.Sprintf("kill-%d", i), Kind: "broker.kill", Start: int64(i) * 40e9, End: int64(i)*40e9 + 1e9})
		r.Steps = append(r.Steps, Step{ID: fmt.Sprintf("kill-%d", i), Stage: "one", Use: "broker.kill", Status: StepOK, StartMS: int64(i) * 40_000, TookMS: 1000, Note: strings.Repeat("x", 100)})
		r.Failures = append(r.Failures, r.Failures[0])
	}
	for i := range 20_000 {
		s := &Sample{}
		for b := range 12 {
			s.Brokers = append(s.Brokers, BrokerSample{Name: fmt.Sprintf("b%d", b+1), Leaders: int64(i+b) % 5})
		}
		events = append(events, Event{Kind: Sampled, MS: int64(i) * 2000, Sample: s})
	}
	began := time.Now()
	data, err := HTML(r, h, events)
	if err != nil {
		t.Fatal(err)
	}
	parts(t, data)
	if len(data) > 1_500_000 {
		t.Errorf("%d bytes", len(data))
	}
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("took %s", took)
	}
	for _, want := range []string{"and 900 more", "and 503 more", "others"} {
		if !bytes.Contains(data, []byte(want)) {
			t.Errorf("%q is not there", want)
		}
	}
}
