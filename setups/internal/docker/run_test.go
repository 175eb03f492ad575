package docker

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ister-mq/ister/setups"
)

// testcontainers would take the engine of the default socket.
func TestAnEngineThatWasAskedForIsNotReplacedByAnother(t *testing.T) {
	for _, host := range []string{"tcp://127.0.0.1:1", "unix://" + filepath.Join(t.TempDir(), "none.sock"), "nonsense"} {
		t.Setenv("DOCKER_HOST", host)
		e, err := Connect(t.Context())
		if err == nil {
			t.Fatalf("DOCKER_HOST=%s gave the engine at %s", host, e.API.DaemonHost())
		}
		if text := err.Error(); !strings.Contains(text, "DOCKER_HOST="+host) || !strings.Contains(text, "unset DOCKER_HOST") {
			t.Errorf("DOCKER_HOST=%s: %s", host, text)
		}
		if findings := Check(t.Context()); len(findings) != 1 || !findings[0].Fatal || findings[0].Remedy == "" || strings.Contains(findings[0].Message, findings[0].Remedy) {
			t.Errorf("DOCKER_HOST=%s: doctor says %+v", host, findings)
		}
		dir := t.TempDir()
		if _, _, err := Begin(t.Context(), dir); err == nil {
			t.Errorf("DOCKER_HOST=%s: a run begins", host)
		}
		if left, err := CleanRun(t.Context(), dir); err != nil || len(left) > 0 { // it has made nothing
			t.Errorf("DOCKER_HOST=%s: cleaning: %v, %v", host, left, err)
		}
		if _, err := setups.Own(dir); err != nil {
			t.Fatal(err)
		}
		if _, err := CleanRun(t.Context(), dir); err == nil {
			t.Errorf("DOCKER_HOST=%s: what is on an engine that does not answer counts as removed", host)
		}
	}
}

func TestWhatToDoWithoutAnEngine(t *testing.T) {
	t.Setenv("DOCKER_HOST", "")
	for why, remedy := range map[string]string{
		"permission denied while trying to connect\nrootless Docker not found": "usermod -aG docker",
		"rootless Docker not found": "install Docker Engine",
	} {
		if u := noEngine(errors.New(why)); !strings.Contains(u.remedy, remedy) || strings.Contains(u.why, "\n") {
			t.Errorf("%s: %q", why, u)
		}
	}
}

func TestARunIsLookedForOnItsOwnEngineOnly(t *testing.T) {
	r := Run{Dir: t.TempDir(), ID: "r"}
	if err := r.on("unix:///a"); err != nil {
		t.Errorf("a run that was killed before it noted its engine: %v", err)
	}
	if err := os.WriteFile(filepath.Join(r.Dir, engineFile), []byte("unix:///a\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := r.on("unix:///a"); err != nil {
		t.Error(err)
	}
	if err := r.on("unix:///b"); err == nil || !strings.Contains(err.Error(), "set DOCKER_HOST=unix:///a") {
		t.Errorf("on another engine: %v", err)
	}
}
