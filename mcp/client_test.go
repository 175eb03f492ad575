package mcp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	protocol "github.com/mark3labs/mcp-go/mcp"
)

const testToken = "a-token-for-tests-only"

var revisions = []string{protocol.ProtocolVersion20250618, protocol.ProtocolVersion20251125, protocol.ProtocolVersion20260728}

// connected is a client of mcp-go.
type connected struct {
	*client.Client
	t      *testing.T
	server *Server // where it is in this process: results are held to its schemas
}

// dial opens a client over any transport, in a revision of the protocol.
func dial(t *testing.T, over transport.Interface, revision string) *connected {
	t.Helper()
	c := client.NewClient(over, client.WithProtocolVersion(revision))
	t.Cleanup(func() { _ = c.Close() })
	if err := c.Start(t.Context()); err != nil { // the transport lives as long as this context
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	request := protocol.InitializeRequest{}
	request.Params.ProtocolVersion = revision
	request.Params.ClientInfo = protocol.Implementation{Name: "tester", Version: "1"}
	result, err := c.Initialize(ctx, request)
	if err != nil {
		t.Fatal(err)
	}
	if result.ProtocolVersion != revision || c.ProtocolVersion() != revision {
		t.Fatalf("revision %s was agreed on, want %s", result.ProtocolVersion, revision)
	}
	return &connected{Client: c, t: t}
}

// called is the result of a call of a tool.
type called struct {
	isError bool
	body    map[string]any
	bytes   int
}

func (c *connected) call(name string, args map[string]any) called {
	c.t.Helper()
	out, err := c.try(c.t.Context(), name, args)
	if err != nil {
		c.t.Fatalf("%s: %v", name, err)
	}
	return out
}

func (c *connected) try(ctx context.Context, name string, args map[string]any) (called, error) {
	request := protocol.CallToolRequest{}
	request.Params.Name, request.Params.Arguments = name, args
	started := time.Now()
	result, err := c.CallTool(ctx, request)
	if err != nil {
		return called{}, err
	}
	if took := time.Since(started); took > CallMax {
		c.t.Errorf("%s took %s", name, took)
	}
	text := result.Content[0].(protocol.TextContent).Text
	body := map[string]any{}
	if err := json.Unmarshal([]byte(text), &body); err != nil {
		c.t.Fatalf("%s: the text is no JSON: %v\n%s", name, err, text)
	}
	structured, _ := json.Marshal(result.StructuredContent)
	same := map[string]any{}
	_ = json.Unmarshal(structured, &same)
	a, _ := json.Marshal(body)
	b, _ := json.Marshal(same)
	if !bytes.Equal(a, b) {
		c.t.Errorf("%s: text and structured content differ:\n%s\n%s", name, a, b)
	}
	if len(text) > ResultMax {
		c.t.Errorf("%s: %d bytes", name, len(text))
	}
	if c.server != nil && !result.IsError {
		checkResult(c.t, c.server.tools[name], body)
	}
	return called{result.IsError, body, len(text)}, nil
}

// ok calls a tool that must succeed.
func (c *connected) ok(name string, args map[string]any) map[string]any {
	c.t.Helper()
	out := c.call(name, args)
	if out.isError {
		c.t.Fatalf("%s: %v", name, out.body)
	}
	if summary, _ := out.body["summary"].(string); summary == "" {
		c.t.Errorf("%s: no summary", name)
	}
	return out.body
}

// fails calls a tool that must answer with an error of this code.
func (c *connected) fails(name string, args map[string]any, code string) map[string]any {
	c.t.Helper()
	out := c.call(name, args)
	if !out.isError || out.body["code"] != code {
		c.t.Fatalf("%s: got isError %v, %v, want the error %s", name, out.isError, out.body, code)
	}
	for _, field := range []string{"message", "got", "expected"} {
		if text, _ := out.body[field].(string); text == "" {
			c.t.Errorf("%s: %s: no %s", name, code, field)
		}
	}
	return out.body
}

// overPipes connects to a server inside this process.
func overPipes(t *testing.T, s *Server, revision string) (*connected, func()) {
	t.Helper()
	fromClient, toServer := io.Pipe()
	fromServer, toClient := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.ServeStdio(ctx, fromClient, toClient, io.Discard) }()
	c := dial(t, transport.NewIO(fromServer, toServer, io.NopCloser(strings.NewReader(""))), revision)
	c.server = s
	closed := false
	end := func() {
		if closed {
			return
		}
		closed = true
		_ = toServer.Close()
		cancel()
		if err := <-done; err != nil {
			t.Errorf("serve: %v", err)
		}
		_ = toClient.Close()
	}
	t.Cleanup(end)
	return c, end
}

// overHTTP connects over a real listener.
func overHTTP(t *testing.T, s *Server, revision string) (*connected, string) {
	t.Helper()
	handler, err := s.Handler(HTTPOptions{Token: testToken, Origins: []string{"https://app.example.com"}})
	if err != nil {
		t.Fatal(err)
	}
	h := httptest.NewServer(handler)
	t.Cleanup(h.Close)
	over, err := transport.NewStreamableHTTP(h.URL+Path, transport.WithHTTPHeaders(map[string]string{"Authorization": "Bearer " + testToken}))
	if err != nil {
		t.Fatal(err)
	}
	c := dial(t, over, revision)
	c.server = s
	return c, h.URL + Path
}

// overProcess connects to the command as a process of its own.
func overProcess(t *testing.T, revision string, args ...string) *connected {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	over := transport.NewStdio(self, nil, append([]string{roleCommand}, args...)...)
	return dial(t, over, revision)
}

func TestEveryRevisionOverEveryTransport(t *testing.T) {
	cluster := newStub(t)
	for _, revision := range revisions {
		for name, open := range map[string]func(t *testing.T) *connected{
			"pipes": func(t *testing.T) *connected {
				c, _ := overPipes(t, newTestServer(t, func(c *Config) { c.Endpoints = []string{cluster.url} }), revision)
				return c
			},
			"http": func(t *testing.T) *connected {
				c, _ := overHTTP(t, newTestServer(t, func(c *Config) { c.Endpoints = []string{cluster.url} }), revision)
				return c
			},
			"process": func(t *testing.T) *connected {
				return overProcess(t, revision, "--endpoint", cluster.url, "--runs-dir", t.TempDir())
			},
		} {
			t.Run(name+" "+revision, func(t *testing.T) {
				c := open(t)
				list, err := c.ListTools(t.Context(), protocol.ListToolsRequest{})
				if err != nil || len(list.Tools) == 0 || len(list.Tools) > 40 || list.NextCursor != "" {
					t.Fatalf("%d tools, next %q, %v", len(list.Tools), list.NextCursor, err)
				}
				c.ok("scenario_list", nil)
				if status := c.ok("cluster_status", map[string]any{}); status["revision"] != "9007199254740993" {
					t.Errorf("revision %v has lost digits", status["revision"])
				}
				c.fails("topics_describe", map[string]any{"name": "/default/none"}, "TOPIC_NOT_FOUND")
			})
		}
	}
}

// TestOnlyProtocolOnStandardOutput writes lines, also bad ones, to the process and
// holds each line that it prints to JSON-RPC.
func TestOnlyProtocolOnStandardOutput(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := exec.Command(self, roleCommand, "--runs-dir", t.TempDir(), "--audit-log", "-", "--endpoint", "127.0.0.1:1")
	var errOut bytes.Buffer
	p.Stderr = &errOut
	in, _ := p.StdinPipe()
	out, _ := p.StdoutPipe()
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	lines := []string{
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"raw","version":"1"}}}`,
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
		`this is no JSON`,
		`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"scenario_plan","arguments":{"scenario":"kill-and-recover"}}}`,
		`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"diagnose_machine"}}`,
		`{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"scenario_start","arguments":["no","object"]}}`,
		`{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"no_such_tool"}}`,
		`{"jsonrpc":"2.0","id":6,"method":"tools/call","params":{"name":"diagnose_health"}}`,
		`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"scenario_stop","arguments":{"run_id":"../etc"}}}`,
	}
	answers := map[float64]map[string]any{}
	reader := bufio.NewScanner(out)
	reader.Buffer(nil, 1<<20)
	if _, err := io.WriteString(in, strings.Join(lines, "\n")+"\n"); err != nil {
		t.Fatal(err)
	}
	for len(answers) < 7 && reader.Scan() {
		message := map[string]any{}
		if err := json.Unmarshal(reader.Bytes(), &message); err != nil || message["jsonrpc"] != "2.0" {
			t.Fatalf("not of the protocol: %s", reader.Text())
		}
		if id, ok := message["id"].(float64); ok {
			answers[id] = message
		}
	}
	_ = in.Close()
	for reader.Scan() {
		t.Errorf("more output: %s", reader.Text())
	}
	if err := p.Wait(); err != nil {
		t.Errorf("it ended with %v\n%s", err, errOut.String())
	}
	if answers[5]["error"] == nil {
		t.Error("an unknown tool is no protocol error")
	}
	for _, id := range []float64{4, 7} {
		if result, _ := answers[id]["result"].(map[string]any); result["isError"] != true {
			t.Errorf("%v: %v", id, answers[id])
		}
	}
	if !strings.Contains(errOut.String(), `"tool":"scenario_plan"`) {
		t.Errorf("no audit log on standard error: %s", errOut.String())
	}
}

func TestHTTPRefuses(t *testing.T) {
	s := newTestServer(t, nil)
	_, url := overHTTP(t, s, protocol.ProtocolVersion20251125)
	ask := func(change func(*http.Request)) int {
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"raw","version":"1"}}}`))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		r.Header.Set("Authorization", "Bearer "+testToken)
		change(r)
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		if origin := r.Header.Get("Origin"); origin != "" && (answer.StatusCode == 403) == (answer.Header.Get("Access-Control-Allow-Origin") == origin) {
			t.Errorf("%s may read the answer: %q, status %d", origin, answer.Header.Get("Access-Control-Allow-Origin"), answer.StatusCode)
		}
		return answer.StatusCode
	}
	for _, c := range []struct {
		name   string
		change func(*http.Request)
		want   int
	}{
		{"all is well", func(*http.Request) {}, 200},
		{"no token", func(r *http.Request) { r.Header.Del("Authorization") }, 401},
		{"wrong token", func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+testToken+"x") }, 401},
		{"token without its scheme", func(r *http.Request) { r.Header.Set("Authorization", testToken) }, 401},
		{"page of elsewhere", func(r *http.Request) { r.Header.Set("Origin", "https://evil.example.com") }, 403},
		{"page that looks like here", func(r *http.Request) { r.Header.Set("Origin", "http://localhost.evil.example.com") }, 403},
		{"page without an origin of its own", func(r *http.Request) { r.Header.Set("Origin", "null") }, 403},
		{"page of this machine", func(r *http.Request) { r.Header.Set("Origin", "http://localhost:3000") }, 200},
		{"page that is allowed", func(r *http.Request) { r.Header.Set("Origin", "https://app.example.com") }, 200},
		{"scheme in other letters", func(r *http.Request) { r.Header.Set("Authorization", "bearer "+testToken) }, 200},
		{"other scheme", func(r *http.Request) { r.Header.Set("Authorization", "Basic "+testToken) }, 401},
		{"too long", func(r *http.Request) {
			r.Body = io.NopCloser(strings.NewReader(strings.Repeat("x", requestMax+1)))
			r.ContentLength = -1
		}, 413},
		{"a page asks first", func(r *http.Request) {
			r.Method = http.MethodOptions
			r.Header.Del("Authorization")
			r.Header.Set("Origin", "https://app.example.com")
		}, 204},
		{"another page asks first", func(r *http.Request) {
			r.Method = http.MethodOptions
			r.Header.Set("Origin", "https://evil.example.com")
		}, 403},
		{"asks first from no page", func(r *http.Request) { r.Method = http.MethodOptions; r.Header.Del("Authorization") }, 401},
		{"rebound name", func(r *http.Request) { r.Host = "evil.example.com" }, 403},
		{"other path", func(r *http.Request) { r.URL.Path = "/" }, 404},
	} {
		if got := ask(c.change); got != c.want {
			t.Errorf("%s: status %d, want %d", c.name, got, c.want)
		}
	}
	if _, err := s.Handler(HTTPOptions{Token: "short"}); err == nil || !strings.Contains(err.Error(), "--token-file") {
		t.Errorf("a short token is taken: %v", err)
	}
	if _, err := s.Handler(HTTPOptions{Token: testToken, Origins: []string{"app.example.com"}}); err == nil {
		t.Error("an origin without a scheme is taken")
	}
}
