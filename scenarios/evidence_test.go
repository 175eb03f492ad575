package scenarios

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/ister-mq/ister/scenarios/internal/fakecluster"
	"github.com/ister-mq/ister/scenarios/internal/report"
)

// obstructed is a setup that, while a run goes on, puts a folder where the run
// will write a file.
func obstructed(t *testing.T, runs, file string) fakecluster.Setup {
	return fakecluster.Setup{OnForm: func(*kfake.Cluster) {
		dirs, err := filepath.Glob(filepath.Join(runs, "*", "run.json"))
		if err != nil || len(dirs) != 1 {
			t.Errorf("%v, %v", dirs, err)
			return
		}
		path := filepath.Join(filepath.Dir(dirs[0]), file)
		if err := os.RemoveAll(path); err != nil {
			t.Error(err)
		}
		if err := os.MkdirAll(filepath.Join(path, "full"), 0o755); err != nil {
			t.Error(err)
		}
	}}
}

// A run whose evidence cannot be written has not passed, whatever it saw.
func TestARunWithoutItsEvidenceIsNoPass(t *testing.T) {
	for _, file := range []string{"history.ndjson.gz", "junit.xml", "report.html", "state.json", "SHA256SUMS", "run.json"} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			runs := t.TempDir()
			code, out, errOut := scenario(t, obstructed(t, runs, file), "run", smallFile(t, "", "1"), "--runs-dir", runs, "--seed", "7")
			if code != report.ExitEnvironment || !strings.Contains(out, "ENVIRONMENT") || !strings.Contains(out, "write the evidence: ") || !strings.Contains(out, "--runs-dir") {
				t.Fatalf("exit %d\n%s%s", code, out, errOut)
			}
			if file == "run.json" {
				return // then nothing can tell it afterwards
			}
			if code, out, _ := scenario(t, fakecluster.Setup{}, "watch", "last", "--runs-dir", runs); code != report.ExitEnvironment || !strings.Contains(out, "ENVIRONMENT") {
				t.Errorf("watch: exit %d\n%s", code, out)
			}
			junit, err := filepath.Glob(filepath.Join(runs, "*", "junit.xml"))
			if err != nil || len(junit) != 1 {
				t.Fatalf("%v, %v", junit, err)
			}
			if text, err := os.ReadFile(junit[0]); file != "junit.xml" && file != "SHA256SUMS" && (err != nil || !strings.Contains(string(text), "write the evidence")) {
				t.Errorf("junit.xml does not tell, %v:\n%s", err, text)
			}
		})
	}
}

func TestVerifyJudgesOnlyTheHistoryThatTheRunWrote(t *testing.T) {
	r, _ := ran(t, fakecluster.Setup{}, smallFile(t, "", "1"))
	history, sums := filepath.Join(r.Directory, "history.ndjson.gz"), filepath.Join(r.Directory, "SHA256SUMS")
	whole, err := os.ReadFile(history)
	if err != nil {
		t.Fatal(err)
	}
	listed, err := os.ReadFile(sums)
	if err != nil {
		t.Fatal(err)
	}
	flipped := append([]byte(nil), whole...)
	flipped[len(flipped)/2] ^= 0xff
	other, _ := ran(t, fakecluster.Setup{}, smallFile(t, "", "1"))
	another, err := os.ReadFile(filepath.Join(other.Directory, "history.ndjson.gz"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name      string
		data, sum []byte // nil: no file
		exit      int
		says      string
	}{
		{"as it was", whole, listed, report.ExitPass, "0 violations"},
		{"of another run", another, listed, report.ExitEnvironment, "is not the file that the run wrote"},
		{"cut off", whole[:len(whole)/2], listed, report.ExitEnvironment, "is not the file that the run wrote"},
		{"cut off, no checksums", whole[:len(whole)/2], nil, report.ExitEnvironment, "read history"},
		{"corrupt, no checksums", flipped, nil, report.ExitEnvironment, "read history"},
		{"no gzip, no checksums", []byte("{}"), nil, report.ExitEnvironment, "not a gzip file"},
		{"empty, no checksums", []byte{}, nil, report.ExitEnvironment, "read history"},
		{"checksums of other files", whole, []byte("00  run.json\n"), report.ExitEnvironment, "does not list history.ndjson.gz"},
		{"checksums that are none", whole, []byte{0, 1, 2}, report.ExitEnvironment, "does not list history.ndjson.gz"},
		{"no history", nil, listed, report.ExitInconclusive, "nothing can be judged"},
	} {
		for path, data := range map[string][]byte{history: c.data, sums: c.sum} {
			if err := os.RemoveAll(path); err != nil {
				t.Fatal(err)
			}
			if data != nil {
				if err := os.WriteFile(path, data, 0o644); err != nil {
					t.Fatal(err)
				}
			}
		}
		code, out, errOut := scenario(t, fakecluster.Setup{}, "verify", "last", "--runs-dir", filepath.Dir(r.Directory))
		if code != c.exit || !strings.Contains(out+errOut, c.says) {
			t.Errorf("%s: exit %d: %s%s", c.name, code, out, errOut)
		}
	}
}

// The command that repeats a run finds its scenario from any directory.
func TestAScenarioOfAFileIsRepeatedFromItsFile(t *testing.T) {
	dir := smallFile(t, "", "41")
	t.Chdir(filepath.Dir(dir))
	r, _ := ran(t, fakecluster.Setup{}, "./small")
	if want := "scenario run " + dir + " --seed 7"; r.Repro != want || r.Failures[0].Repro != want {
		t.Errorf("%q, want %q", r.Repro, want)
	}
}
