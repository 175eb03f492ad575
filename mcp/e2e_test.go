//go:build e2e

package mcp

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestAForeignClientScalesRealBrokers is the same with the built binary and real
// brokers: over stdio up to the rebalance, then over HTTP with another server.
func TestAForeignClientScalesRealBrokers(t *testing.T) {
	dir := t.TempDir()
	bin := filepath.Join(t.TempDir(), "ister")
	if out, err := exec.Command("go", "build", "-o", bin, "../cmd/ister").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Cleanup(func() { // also of a test that failed in the middle
		_ = exec.Command(bin, "scenario", "stop", "last", "--runs-dir", dir).Run()
	})
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte(testToken), 0o600); err != nil {
		t.Fatal(err)
	}
	drive{
		scenario: "broker-scaling", cutAt: "balance_up", runsDir: dir,
		start: map[string]any{"aspects": []string{"scale-up", "scale-down"}, "params": map[string]string{"topics": "4", "gap_max": "20000"}, "seed": 7},
		stdio: func() *foreign {
			return connectForeign(t, &mcp.CommandTransport{Command: exec.Command(bin, "mcp", "--runs-dir", dir)})
		},
		http: func() *foreign {
			return foreignHTTP(t, serveRealHTTP(t, bin, dir, token))
		},
	}.run(t)
}

// serveRealHTTP starts a server that ends with the test, and returns its address.
func serveRealHTTP(t *testing.T, bin, dir, token string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 5*time.Minute)
	server := exec.CommandContext(ctx, bin, "mcp", "--http", "127.0.0.1:0", "--token-file", token, "--runs-dir", dir, "--toolsets", "default,broker-scaling")
	server.Cancel = func() error { return server.Process.Signal(syscall.SIGTERM) }
	out, err := server.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = server.Wait() // it was told to end
	})
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if _, url, ok := strings.Cut(lines.Text(), "mcp serves "); ok {
			return url
		}
	}
	t.Fatal("the server does not say where it serves")
	return ""
}
