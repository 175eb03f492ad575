//go:build browser

package report

import (
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// looks are the ways in which the page is opened.
var looks = []struct {
	width  int
	scheme string
	mobile bool
}{{390, "light", true}, {390, "dark", true}, {800, "light", false}, {1400, "light", false}, {1400, "dark", false}}

// shown is what the page looks like, as measure.js finds it.
type shown struct {
	Overflow []string `json:"overflow"` // elements that stick out at the right
	Charts   []box    `json:"charts"`
	Sections []box    `json:"sections"`
	Bars     int      `json:"bars"`
	Hidden   []string `json:"hidden"`   // graphics without an extent
	Contrast []string `json:"contrast"` // texts that are hard to read
	Small    []string `json:"small"`    // texts that are too small
	Back     float64  `json:"back"`     // luminance of the background, 0 to 1
}

type box struct {
	ID     string  `json:"id"`
	X      float64 `json:"x"`
	Width  float64 `json:"width"`
	Height float64 `json:"height"`
}

//go:embed testdata/measure.js
var measureJS string

// The page of a recorded run, of a run that failed and of one with a record lost:
// one file, no complaint of the browser, every chart there, nothing that sticks
// out, texts that can be read, in light and dark. Pictures go to the directory in
// BROWSER_SHOTS.
func TestPageInABrowser(t *testing.T) {
	c := startChromium(t)
	for _, name := range []string{"recorded", "recorded-failed", "lost"} {
		path := filepath.Join(t.TempDir(), name+".html")
		if err := os.WriteFile(path, pageOf(t, name), 0o644); err != nil {
			t.Fatal(err)
		}
		boxes := map[string]shown{}
		for _, look := range looks {
			title := fmt.Sprintf("%s-%d-%s", name, look.width, look.scheme)
			c.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": look.width, "height": 900, "deviceScaleFactor": 1, "mobile": look.mobile}, nil)
			c.call("Emulation.setEmulatedMedia", map[string]any{"features": []any{map[string]any{"name": "prefers-color-scheme", "value": look.scheme}}}, nil)
			for _, complaint := range complaints(c.open("file://"+path), "file://"+path) {
				t.Errorf("%s: %s", title, complaint)
			}
			var s shown
			c.evaluate(measureJS, &s)
			checkShown(t, title, s, look.scheme)
			boxes[fmt.Sprint(look.width)] = shown{Charts: s.Charts, Sections: s.Sections}
			shoot(t, c, title)
		}
		var pdf struct{ Data string }
		c.call("Page.printToPDF", nil, &pdf)
		if len(pdf.Data) < 20_000 {
			t.Errorf("%s: printed, the page is %d characters of base64", name, len(pdf.Data))
		}
		if name == "recorded" {
			checkLayout(t, boxes)
		}
	}
}

// pageOf renders a recorded run; "lost" is one with a record lost.
func pageOf(t *testing.T, name string) []byte {
	t.Helper()
	from := name
	if name == "lost" {
		from = "recorded"
	}
	r, h, events := recorded(t, from)
	if name == "lost" {
		lose(h)
	}
	data, err := HTML(r, h, events)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// complaints are requests besides the page itself, and all that the browser has
// to say.
func complaints(events []message, page string) []string {
	var found []string
	for _, m := range events {
		switch m.Method {
		case "Network.requestWillBeSent":
			var p struct{ Request struct{ URL string } }
			if err := json.Unmarshal(m.Params, &p); err != nil || p.Request.URL != page && !strings.HasPrefix(p.Request.URL, "data:") {
				found = append(found, "asked for "+p.Request.URL)
			}
		case "Log.entryAdded", "Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Network.loadingFailed":
			found = append(found, m.Method+": "+string(m.Params))
		}
	}
	return found
}

func checkShown(t *testing.T, title string, s shown, scheme string) {
	t.Helper()
	for what, found := range map[string][]string{"sticks out": s.Overflow, "cannot be seen": s.Hidden, "is hard to read": s.Contrast, "is too small": s.Small} {
		for i, name := range found {
			if i < 5 {
				t.Errorf("%s: %s %s", title, name, what)
			}
		}
	}
	if len(s.Charts) < 6 || s.Bars < 10 {
		t.Errorf("%s: %d charts and %d bars", title, len(s.Charts), s.Bars)
	}
	if dark := s.Back < 0.1; s.Back > 0.1 && s.Back < 0.8 || dark != (scheme == "dark") {
		t.Errorf("%s: the background has a luminance of %.2f", title, s.Back)
	}
}

// Boxes depend on the fonts of the machine: widths a little, heights of charts
// not at all.
const (
	widthTolerance  = 16.0
	heightTolerance = 4.0
)

// checkLayout compares the boxes of sections and charts with the golden.
func checkLayout(t *testing.T, got map[string]shown) {
	t.Helper()
	path := filepath.Join("testdata", "layout.json")
	if *rewrite {
		data, err := json.MarshalIndent(got, "", " ")
		if err == nil {
			err = os.WriteFile(path, append(data, '\n'), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var want map[string]shown
	if err := json.Unmarshal(data, &want); err != nil {
		t.Fatal(err)
	}
	for width, s := range want {
		compareBoxes(t, width+" wide, chart", s.Charts, got[width].Charts, heightTolerance)
		compareBoxes(t, width+" wide, section", s.Sections, got[width].Sections, math.Inf(1)) // text wraps as fonts have it
	}
}

func compareBoxes(t *testing.T, what string, want, got []box, height float64) {
	t.Helper()
	if len(want) != len(got) {
		t.Errorf("%s: %d boxes, want %d", what, len(got), len(want))
		return
	}
	for i, w := range want {
		g := got[i]
		if g.ID != w.ID || math.Abs(g.X-w.X) > widthTolerance || math.Abs(g.Width-w.Width) > widthTolerance || math.Abs(g.Height-w.Height) > height {
			t.Errorf("%s: %+v, want %+v (go test -tags browser -rewrite, and look at the pictures)", what, g, w)
		}
	}
}

// shoot takes a picture of the whole page.
func shoot(t *testing.T, c *chromium, title string) {
	t.Helper()
	dir := os.Getenv("BROWSER_SHOTS")
	if dir == "" {
		return
	}
	var shot struct{ Data string }
	c.call("Page.captureScreenshot", map[string]any{"captureBeyondViewport": true}, &shot)
	data, err := base64.StdEncoding.DecodeString(shot.Data)
	if err == nil {
		err = os.MkdirAll(dir, 0o755)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, title+".png"), data, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}
