package scenarios

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"github.com/ister-mq/ister/scenarios/internal/fakecluster"
	"github.com/ister-mq/ister/scenarios/internal/spec"
)

func TestMatrix(t *testing.T) {
	code, out, errOut := scenario(t, fakecluster.Setup{}, "matrix", "--format", "github")
	var matrix struct {
		Include []matrixCell `json:"include"`
	}
	if err := json.Unmarshal([]byte(out), &matrix); err != nil || code != 0 || strings.Count(out, "\n") != 1 {
		t.Fatalf("exit %d, %v, %s%s", code, err, out, errOut)
	}
	seen := map[string]matrixCell{}
	for _, cell := range matrix.Include {
		seen[cell.Scenario+" "+cell.Setup] = cell
	}
	for _, name := range shippedNames() {
		s, err := load(name)
		if err != nil {
			t.Fatal(err)
		}
		cell, ok := seen[name+" process"]
		if !ok {
			continue // does not run on the one setup that this test has
		}
		if cell.TimeoutMinutes <= int(s.Deadline.Minutes()) || cell.Needs == nil || cell.Command != "scenario run "+name+" --setup process" {
			t.Errorf("%+v", cell)
		}
	}
	if _, ok := seen["broker-scaling process"]; !ok {
		t.Errorf("%v", seen)
	}
	if code, out, _ := scenario(t, fakecluster.Setup{}, "matrix"); code != 0 || !strings.HasPrefix(out, "[\n") {
		t.Errorf("exit %d, %s", code, out)
	}
	if code, _, errOut := scenario(t, fakecluster.Setup{}, "matrix", "--format", "xml"); code != 2 || !strings.Contains(errOut, "github or json") {
		t.Errorf("exit %d, %s", code, errOut)
	}
}

func TestMatrixForCILeavesOutWhatNeedsACluster(t *testing.T) {
	var cells []matrixCell
	for _, setup := range spec.Setups {
		cells = append(cells, matrixCell{Setup: setup, Needs: setupNeeds[setup]})
	}
	kept := forCI(cells)
	if len(kept) != len(spec.Setups)-1 || len(cells) != len(spec.Setups) {
		t.Errorf("%+v", kept)
	}
	for _, cell := range kept {
		if cell.Setup == "attach" {
			t.Errorf("%+v", cell)
		}
	}
}

// workflow is what these tests look at in a workflow file.
type workflow struct {
	Name string         `yaml:"name"`
	On   map[string]any `yaml:"on"`
	Jobs map[string]struct {
		Timeout  any `yaml:"timeout-minutes"`
		Strategy *struct {
			FailFast *bool  `yaml:"fail-fast"`
			Matrix   string `yaml:"matrix"`
		} `yaml:"strategy"`
		Steps []struct {
			Uses string         `yaml:"uses"`
			Run  string         `yaml:"run"`
			If   string         `yaml:"if"`
			With map[string]any `yaml:"with"`
		} `yaml:"steps"`
	} `yaml:"jobs"`
}

// The workflows parse, are bounded in time, and call make targets and commands
// that exist.
func TestWorkflowsCallWhatThereIs(t *testing.T) {
	tree, err := readSkills("..")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("../.github/workflows/*.yml")
	if err != nil || len(files) < 2 {
		t.Fatalf("%v, %v", files, err)
	}
	ours := 0
	for _, file := range files {
		var w workflow
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := yaml.Unmarshal(raw, &w); err != nil || w.Name == "" || len(w.On) == 0 || len(w.Jobs) == 0 {
			t.Fatalf("%s: %v, %+v", file, err, w)
		}
		for id, job := range w.Jobs {
			if job.Timeout == nil || len(job.Steps) == 0 {
				t.Errorf("%s: %s has no bound or no steps", file, id)
			}
			if job.Strategy != nil && (job.Strategy.FailFast == nil || *job.Strategy.FailFast || !strings.Contains(job.Strategy.Matrix, "fromJSON")) {
				t.Errorf("%s: %s: %+v", file, id, job.Strategy)
			}
			for _, step := range job.Steps {
				if strings.Contains(step.Uses, "upload-artifact") && (step.If != "always()" || step.With["path"] == nil) {
					t.Errorf("%s: %s: evidence is kept only sometimes: %+v", file, id, step)
				}
				for _, line := range strings.Split(step.Run, "\n") {
					for _, words := range shellCommands(strings.TrimPrefix(strings.TrimSpace(line), "$SUDO ")) {
						if len(words) > 1 && (words[0] == "make" || words[0] == "go" || strings.HasPrefix(words[0], "bin/")) {
							ours++
						}
						if message := tree.checkWords(words, false); message != "" {
							t.Errorf("%s: %s: %s", file, id, message)
						}
					}
				}
			}
		}
	}
	if ours < 7 {
		t.Errorf("only %d commands were found", ours)
	}
}
