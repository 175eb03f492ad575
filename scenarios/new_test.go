package scenarios

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ister-mq/ister/scenarios/internal/fakecluster"
	"github.com/ister-mq/ister/scenarios/internal/report"
)

// A new scenario is complete: it passes lint, the schema, the check of skills,
// and a run.
func TestNewScenarioIsComplete(t *testing.T) {
	root := t.TempDir()
	code, out, errOut := scenario(t, fakecluster.Setup{}, "new", "my-own", "--dir", root)
	if code != 0 || !strings.Contains(out, filepath.Join(root, "my-own", specFile)) {
		t.Fatalf("exit %d, %s%s", code, out, errOut)
	}
	for _, args := range [][]string{{"lint", root}, {"skills", "check", "--root", root}, {"plan", filepath.Join(root, "my-own")}} {
		if code, out, errOut := scenario(t, fakecluster.Setup{}, args...); code != 0 {
			t.Errorf("%v: exit %d, %s%s", args, code, out, errOut)
		}
	}
	source, err := os.ReadFile(filepath.Join(root, "my-own", specFile))
	if err != nil {
		t.Fatal(err)
	}
	if err := validate(t, schemaOf(t), string(source)); err != nil || !strings.HasPrefix(string(source), "# yaml-language-server: $schema=https://") {
		t.Errorf("%v\n%s", err, source)
	}
	r, log := ran(t, fakecluster.Setup{}, filepath.Join(root, "my-own"), "-p", "rate=200", "-p", "messages=40")
	if r.Verdict != report.Pass {
		t.Errorf("%s: %+v\n%s", r.Verdict, r.Failures, log)
	}
	if code, _, errOut := scenario(t, fakecluster.Setup{}, "new", "my-own", "--dir", root); code != 2 || !strings.Contains(errOut, "exists") {
		t.Errorf("a second time: exit %d, %s", code, errOut)
	}
}

func TestNewRefusesNames(t *testing.T) {
	root := t.TempDir()
	for _, name := range []string{"My-Own", "../out", "a--b", "", "a b", "a: b"} {
		if code, _, errOut := scenario(t, fakecluster.Setup{}, "new", name, "--dir", root); code != 2 || !strings.Contains(errOut, "cannot be the name") {
			t.Errorf("%q: exit %d, %s", name, code, errOut)
		}
	}
	if left, err := os.ReadDir(root); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
}
