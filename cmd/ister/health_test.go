package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// node answers as a broker's admin port does; ready after so many looks.
func node(t *testing.T, readyAfter int) string {
	t.Helper()
	var looks atomic.Int64
	mux := http.NewServeMux()
	mux.HandleFunc("/ister/node", func(w http.ResponseWriter, _ *http.Request) {
		w.Write([]byte(`{"node_id":4,"incarnation":"i","state":"member","version":"v1"}`))
	})
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		if looks.Add(1) <= int64(readyAfter) {
			w.WriteHeader(http.StatusServiceUnavailable)
			w.Write([]byte(`{"ready":false,"reasons":["no controller","the replicas are being opened"]}`))
			return
		}
		w.Write([]byte(`{"ready":true,"reasons":[]}`))
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://")
}

func healthOf(args ...string) (status int, out, errOut string) {
	var stdout, stderr bytes.Buffer
	status = run(context.Background(), append([]string{"health"}, args...), &stdout, &stderr)
	return status, stdout.String(), stderr.String()
}

// nobody is an address that nothing listens on.
func nobody(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func TestHealthTellsAliveFromReady(t *testing.T) {
	never, ready, down := node(t, 1<<30), node(t, 0), nobody(t)
	other := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(other.Close)
	for _, c := range []struct {
		args   string
		status int
		want   string
	}{
		{"--admin-addr " + never, 0, "alive, not ready " + never + " node 4: no controller; the replicas are being opened\n"},
		{"--ready --admin-addr " + never, 1, "alive, not ready " + never + " node 4: no controller; the replicas are being opened\n"},
		{"--ready --admin-addr http://" + ready, 0, "ready " + ready + " node 4\n"},
		{"--ready --admin-addr " + ready + "," + never, 1, "ready " + ready + " node 4\nalive, not ready " + never},
		{"--admin-addr " + down, 1, "down " + down + ": no answer from http://" + down},
		{"--admin-addr " + other.URL, 1, "down " + strings.TrimPrefix(other.URL, "http://")},
	} {
		if status, out, errOut := healthOf(strings.Fields(c.args)...); status != c.status || !strings.HasPrefix(out, c.want) || errOut != "" {
			t.Errorf("%s: status %d, printed %q and %q, want %d and %q", c.args, status, out, errOut, c.status, c.want)
		}
	}
}

func TestHealthWaitsUntilItIsSo(t *testing.T) {
	address := node(t, 3)
	if status, out, _ := healthOf("--ready", "--wait", "1m", "--admin-addr", address); status != 0 || out != "ready "+address+" node 4\n" {
		t.Errorf("status %d, printed %q", status, out)
	}
	start := time.Now()
	if status, _, _ := healthOf("--wait", "200ms", "--admin-addr", nobody(t)); status != 1 || time.Since(start) < 200*time.Millisecond {
		t.Errorf("status %d after %s, want 1 after the wait", status, time.Since(start))
	}
}

func TestHealthEndsWhenANodeHangs(t *testing.T) {
	release := make(chan struct{})
	hangs := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(hangs.Close)
	t.Cleanup(func() { close(release) })
	if status, out, _ := healthOf("--timeout", "50ms", "--admin-addr", hangs.URL); status != 1 || !strings.Contains(out, "within 50ms") {
		t.Errorf("status %d, printed %q", status, out)
	}
}

func TestHealthAsJSON(t *testing.T) {
	address := node(t, 0)
	status, out, _ := healthOf("--ready", "-o", "json", "--admin-addr", address)
	var answer health
	if err := json.Unmarshal([]byte(out), &answer); err != nil || status != 0 {
		t.Fatalf("status %d, %v: %s", status, err, out)
	}
	if n := answer.Nodes[0]; !answer.Healthy || answer.Probe != "ready" || n.Address != address || n.Node != 4 || n.Version != "v1" || n.Reasons == nil {
		t.Errorf("got %+v", answer)
	}
}

// A probe beside a broker is told by the broker's own setting, which is an
// address to listen on.
func TestHealthAsksTheBrokerBesideIt(t *testing.T) {
	_, port, _ := net.SplitHostPort(node(t, 0))
	for _, listen := range []string{"0.0.0.0:" + port, ":" + port, "[::]:" + port} {
		t.Setenv(adminAddrVariable, listen)
		if status, out, errOut := healthOf(); status != 0 || !strings.HasPrefix(out, "ready 127.0.0.1:"+port) {
			t.Errorf("%s: status %d, printed %q, %q", listen, status, out, errOut)
		}
	}
}

func TestHealthRefusesWrongUsage(t *testing.T) {
	for args, want := range map[string]string{
		"--output yaml":          "expected text or json",
		"--timeout 0s":           "expected a duration above 0",
		"--wait -1s":             "expected a duration of 0 or more",
		"--wait soon":            "invalid argument",
		"--admin-addr here":      "the host or the port is missing",
		"--admin-addr https://a": "not supported",
		"extra":                  "unknown command",
	} {
		if status, _, errOut := healthOf(strings.Fields(args)...); status != 2 || !strings.Contains(errOut, want) {
			t.Errorf("%s: status %d, %q, want 2 and %q", args, status, errOut, want)
		}
	}
}
