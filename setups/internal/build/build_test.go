package build

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ister-mq/ister/setups"
)

// script is a file that answers `version` as a binary of the broker does.
func script(t *testing.T, version string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ister")
	if err := os.WriteFile(path, []byte(fmt.Sprintf("#!/bin/sh\necho ister %s go1.26 linux/amd64\n", version)), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func target(t *testing.T) Target {
	return Target{Setup: "process", CacheDir: t.TempDir(), Usable: Executable, Say: func(text string) { t.Log(text) }}
}

func TestTwoGivenBuildsAreDescribed(t *testing.T) {
	old, next := script(t, "v1.0.0"), script(t, "v1.1.0")
	first, second, err := target(t).Two(t.Context(), old, next)
	if err != nil {
		t.Fatal(err)
	}
	if first.Path != old || first.Version != "v1.0.0" || second.Path != next || second.Version != "v1.1.0" || len(second.SHA256) != 64 || first.SHA256 == second.SHA256 {
		t.Errorf("%+v, %+v", first, second)
	}
}

func TestBuildsThatNobodyCanTellApartAreRefused(t *testing.T) {
	one := script(t, "v1.0.0")
	other := script(t, "v1.0.0")
	if err := os.WriteFile(other, []byte("#!/bin/sh\n# another file\necho ister v1.0.0\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for what, second := range map[string]string{"the same file": one, "the same version": other} {
		var refused *setups.Refused
		if _, _, err := target(t).Two(t.Context(), one, second); !errors.As(err, &refused) || !strings.Contains(refused.Remedy, "--upgrade-bin") || !strings.Contains(refused.Why, "v1.0.0") {
			t.Errorf("%s: %v, want a refusal with a remedy", what, err)
		}
	}
}

func TestWithoutASourceTreeAnotherBuildIsAskedFor(t *testing.T) {
	t.Chdir(t.TempDir())
	var refused *setups.Refused
	if _, _, err := target(t).Two(t.Context(), script(t, "v1.0.0"), ""); !errors.As(err, &refused) || !strings.Contains(refused.Remedy, "--upgrade-bin FILE") {
		t.Errorf("%v, want a refusal that names --upgrade-bin", err)
	}
	if _, _, err := target(t).Find(t.Context(), ""); err == nil || !strings.Contains(err.Error(), "--ister-bin") {
		t.Errorf("%v, want an error that names --ister-bin", err)
	}
	if f := target(t).Check(); f.OK || !f.Fatal || f.Remedy == "" {
		t.Errorf("%+v, want a fatal finding with a remedy", f)
	}
}

func TestWhatCannotRunIsNoBuild(t *testing.T) {
	plain := filepath.Join(t.TempDir(), "ister")
	if err := os.WriteFile(plain, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{plain, t.TempDir(), filepath.Join(t.TempDir(), "none")} {
		if _, _, err := target(t).Two(t.Context(), script(t, "v1.0.0"), path); err == nil || !strings.Contains(err.Error(), "not an executable file") {
			t.Errorf("%s: %v", path, err)
		}
	}
}
