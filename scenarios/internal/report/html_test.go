package report

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/ister-mq/ister/scenarios/internal/history"
)

func TestHTMLIsOneFileThatRefersToNothing(t *testing.T) {
	h := &history.History{
		Sends:        []history.Send{{Call: 1e9, Return: 2e9, Outcome: history.OK}, {Call: 3e9, Outcome: history.Pending}},
		Receives:     []history.Receive{{At: 25e8}},
		Disturbances: []history.Disturbance{{Step: "move", Kind: "topic.move", Start: 15e8}},
	}
	r := sample()
	r.Title = `<script src="x">`
	r.Steps[1].Outputs["before"] = "b1 6, b2 6"
	data, err := HTML(r, h, []Excerpt{{"acked_lost: uid 3", []string{"offset 3: nothing"}}})
	if err != nil {
		t.Fatal(err)
	}
	charts, open := map[string]int{}, []string{}
	tokens := html.NewTokenizer(bytes.NewReader(data))
	for {
		kind := tokens.Next()
		if kind == html.ErrorToken {
			break
		}
		token := tokens.Token()
		switch kind {
		case html.StartTagToken:
			charts[token.Data]++
			if token.Data != "meta" && token.Data != "br" {
				open = append(open, token.Data)
			}
		case html.EndTagToken:
			if len(open) == 0 || open[len(open)-1] != token.Data {
				t.Fatalf("</%s> closes %v", token.Data, open)
			}
			open = open[:len(open)-1]
		}
		for _, a := range token.Attr {
			if a.Key == "src" || a.Key == "href" || a.Key == "xlink:href" || strings.HasPrefix(a.Key, "on") {
				t.Errorf("<%s %s=%q>", token.Data, a.Key, a.Val)
			}
		}
	}
	if len(open) > 0 || charts["script"] > 0 || charts["svg"] != 4 || charts["link"] > 0 {
		t.Errorf("open %v, tags %v", open, charts)
	}
	if found := regexp.MustCompile(`https?://|url\(|@import|NaN|Inf`).FindAll(data, -1); len(found) > 0 {
		t.Errorf("refers to %q", found)
	}
	for _, want := range []string{"prefers-color-scheme: dark", "acked_lost: uid 3", "offset 3: nothing", "topic.move", "3120.4"} {
		if !bytes.Contains(data, []byte(want)) {
			t.Errorf("%q is not there", want)
		}
	}
}
