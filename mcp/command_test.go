package mcp

import (
	"bufio"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/client/transport"
)

// TestCommandServesHTTP runs the command as a person does: a token in a file, a
// port of the loopback interface, an end in order.
func TestCommandServesHTTP(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte(testToken+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	reader, writer := io.Pipe()
	command := NewCommand()
	command.SetErr(writer)
	command.SetArgs([]string{"--http", "127.0.0.1:0", "--token-file", token, "--runs-dir", t.TempDir(), "--endpoint", "127.0.0.1:1", "--toolsets", "diagnose"})
	ended := make(chan error, 1)
	go func() { ended <- command.ExecuteContext(ctx) }()
	line, err := bufio.NewReader(reader).ReadString('\n')
	url, isURL := strings.CutPrefix(strings.TrimSpace(line), "mcp serves ")
	if err != nil || !isURL {
		t.Fatalf("it says %q, %v", line, err)
	}
	over, err := transport.NewStreamableHTTP(url, transport.WithHTTPHeaders(map[string]string{"Authorization": "Bearer " + testToken}))
	if err != nil {
		t.Fatal(err)
	}
	c := dial(t, over, revisions[2])
	c.ok("diagnose_machine", nil)
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("ended with %v", err)
	}
}

func TestCommandRefusesWhatIsNotSafe(t *testing.T) {
	short := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(short, []byte("short"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv(TokenVariable, "")
	for _, c := range []struct {
		args string
		says string
	}{
		{"--http 127.0.0.1:0", "--token-file"},
		{"--http 127.0.0.1:0 --token-file " + short, "at least 16 bytes, got 5"},
		{"--http 127.0.0.1:0 --token-file /does/not/exist", "read the token"},
		{"--toolsets everything", "known: default, all, scenario"},
		{"--endpoint ftp://x", "scheme"},
		{"--audit-log /does/not/exist/log", "open the audit log"},
		{"extra", "unknown command"},
	} {
		command := NewCommand()
		command.SetErr(io.Discard)
		command.SetOut(io.Discard)
		command.SetArgs(append(strings.Fields(c.args), "--runs-dir", t.TempDir()))
		if err := command.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %s", c.args, err, c.says)
		}
	}
	t.Setenv(TokenVariable, testToken)
	command := NewCommand()
	command.SetErr(io.Discard)
	command.SetArgs([]string{"--http", ":0", "--runs-dir", t.TempDir()})
	if err := command.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), "name the interface") {
		t.Errorf("all interfaces are taken without being named: %v", err)
	}
}
