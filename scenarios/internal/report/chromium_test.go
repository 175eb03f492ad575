//go:build browser

package report

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"
)

// answerMax bounds one answer of the browser, on a busy machine.
const answerMax = 60 * time.Second

// chromium is a headless browser that is driven by the DevTools protocol over a
// pipe: messages are JSON, each ended by a zero byte. One goroutine of the test
// uses it.
type chromium struct {
	t        *testing.T
	in       *os.File
	messages chan message
	last     int
	session  string
	seen     []message // events, since the last look
}

type message struct {
	ID     int             `json:"id,omitempty"`
	Method string          `json:"method,omitempty"`
	Params json.RawMessage `json:"params,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
	Error  *struct {
		Message string `json:"message"`
	} `json:"error,omitempty"`
}

// startChromium starts the browser with one blank page.
func startChromium(t *testing.T) *chromium {
	t.Helper()
	path := os.Getenv("CHROMIUM")
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); path == "" && err == nil {
			path = found
		}
	}
	if path == "" {
		t.Fatal("no chromium on PATH: apt-get install chromium, or name one in CHROMIUM")
	}
	theirIn, ourOut, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	ourIn, theirOut, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	// Without a sandbox: it does not start as root, and the page is our own.
	cmd := exec.Command(path, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--hide-scrollbars",
		"--disable-background-networking", "--disable-component-update", "--disable-extensions", "--remote-debugging-pipe", "--user-data-dir="+t.TempDir(), "about:blank")
	cmd.ExtraFiles = []*os.File{theirIn, theirOut} // 3 and 4
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	theirIn.Close()
	theirOut.Close()
	c := &chromium{t: t, in: ourOut, messages: make(chan message, 1000)}
	go c.read(ourIn)
	t.Cleanup(func() {
		c.session = ""
		c.call("Browser.close", nil, nil)
		ourOut.Close()
		if err := cmd.Wait(); err != nil {
			t.Logf("chromium ended: %v", err)
		}
	})
	var target struct{ TargetID string }
	c.call("Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	var attached struct{ SessionID string }
	c.call("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached)
	c.session = attached.SessionID
	for _, domain := range []string{"Page", "Network", "Log", "Runtime"} {
		c.call(domain+".enable", nil, nil)
	}
	return c
}

func (c *chromium) read(in *os.File) {
	defer close(c.messages)
	reader := bufio.NewReader(in)
	for {
		data, err := reader.ReadBytes(0)
		if err != nil {
			return // it ended
		}
		var m message
		if err := json.Unmarshal(data[:len(data)-1], &m); err != nil {
			m.Method = "unreadable: " + err.Error()
		}
		c.messages <- m
	}
}

// next is the next message.
func (c *chromium) next() (message, error) {
	deadline := time.NewTimer(answerMax)
	defer deadline.Stop()
	select {
	case m, ok := <-c.messages:
		if !ok {
			return m, errors.New("chromium has ended")
		}
		return m, nil
	case <-deadline.C:
		return message{}, fmt.Errorf("chromium said nothing for %s", answerMax)
	}
}

// call does a command and waits for its answer; events go to seen.
func (c *chromium) call(method string, params, result any) {
	c.t.Helper()
	c.last++
	command := map[string]any{"id": c.last, "method": method}
	if params != nil {
		command["params"] = params
	}
	if c.session != "" {
		command["sessionId"] = c.session
	}
	data, err := json.Marshal(command)
	if err == nil {
		_, err = c.in.Write(append(data, 0))
	}
	if err != nil {
		c.t.Fatalf("%s: %v", method, err)
	}
	for {
		m, err := c.next()
		switch {
		case err != nil && method == "Browser.close":
			return
		case err != nil:
			c.t.Fatalf("%s: %v", method, err)
		case m.ID != c.last:
			c.seen = append(c.seen, m)
			continue
		case m.Error != nil:
			c.t.Fatalf("%s: %s", method, m.Error.Message)
		case result != nil:
			if err := json.Unmarshal(m.Result, result); err != nil {
				c.t.Fatalf("%s: %v", method, err)
			}
		}
		return
	}
}

// open goes to a page, waits until it has loaded, and returns the events.
func (c *chromium) open(url string) []message {
	c.t.Helper()
	c.seen = nil
	c.call("Page.navigate", map[string]any{"url": url}, nil)
	for {
		for _, m := range c.seen {
			if m.Method == "Page.loadEventFired" {
				return c.seen
			}
		}
		m, err := c.next()
		if err != nil {
			c.t.Fatalf("open %s: %v", url, err)
		}
		c.seen = append(c.seen, m)
	}
}

// evaluate runs an expression in the page and decodes its value.
func (c *chromium) evaluate(expression string, value any) {
	c.t.Helper()
	var answer struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails json.RawMessage
	}
	c.call("Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true}, &answer)
	if answer.ExceptionDetails != nil {
		c.t.Fatalf("evaluate: %s", answer.ExceptionDetails)
	}
	if err := json.Unmarshal(answer.Result.Value, value); err != nil {
		c.t.Fatalf("evaluate: %v", err)
	}
}
