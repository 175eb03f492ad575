package docker

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ister-mq/ister/setups"
)

func TestPublishedPortsAreDialledWhereTheEngineIs(t *testing.T) {
	for _, c := range []struct{ override, daemon, host, bind string }{
		{"", "unix:///var/run/docker.sock", "127.0.0.1", "127.0.0.1"},
		{"", "npipe:////./pipe/docker_engine", "127.0.0.1", "127.0.0.1"},
		{"", "tcp://localhost:2375", "127.0.0.1", "127.0.0.1"},
		{"", "tcp://build7:2375", "build7", "0.0.0.0"},
		{"localhost", "tcp://build7:2375", "127.0.0.1", "127.0.0.1"},
		{"10.0.0.7", "unix:///var/run/docker.sock", "10.0.0.7", "0.0.0.0"},
	} {
		if host, bind := publishedAt(c.override, c.daemon); host != c.host || bind.String() != c.bind {
			t.Errorf("override %q, engine %s: dialled at %s, published on %s; want %s, %s", c.override, c.daemon, host, bind, c.host, c.bind)
		}
	}
}

func TestVersionsAreComparedAsNumbers(t *testing.T) {
	for _, c := range []struct {
		have, want string
		older      bool
	}{{"1.40", "1.41", true}, {"1.41", "1.41", false}, {"1.9", "1.41", true}, {"2.0", "1.41", false}, {"", "1.41", true}} {
		if older(c.have, c.want) != c.older {
			t.Errorf("%q is older than %s: want %v", c.have, c.want, c.older)
		}
	}
}

func TestExitStatusTellsSignals(t *testing.T) {
	for status, want := range map[int64]setups.Exit{
		0: {}, 10: {Code: 10}, 128: {Code: 128}, 137: {Code: -1, Signal: "killed"}, 143: {Code: -1, Signal: "terminated"}, 255: {Code: 255},
	} {
		if got := exitOf(status); got != want {
			t.Errorf("status %d is %+v, want %+v", status, got, want)
		}
	}
}

func TestWhatCannotRunInTheImageIsRefused(t *testing.T) {
	script := filepath.Join(t.TempDir(), "ister")
	if err := os.WriteFile(script, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := checkStatic(script, "amd64"); err == nil || !strings.Contains(err.Error(), "CGO_ENABLED=0") {
		t.Errorf("a script: %v, want how to build a binary", err)
	}
	if err := checkStatic(filepath.Join(t.TempDir(), "none"), "amd64"); err == nil {
		t.Error("a file that does not exist")
	}
}
