package scenarios

import (
	"embed"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"sort"

	"github.com/ister-mq/ister/scenarios/internal/spec"
	"github.com/ister-mq/ister/scenarios/internal/verb"
)

//go:embed */scenario.yaml */SKILL.md
var shipped embed.FS

// Files are the shipped scenarios and their skills: <name>/scenario.yaml and
// <name>/SKILL.md.
func Files() fs.FS { return shipped }

const specFile = "scenario.yaml"

// shippedNames lists the embedded scenarios.
func shippedNames() []string {
	files, err := fs.Glob(shipped, "*/"+specFile)
	if err != nil {
		panic(err) // the pattern is constant
	}
	names := make([]string, len(files))
	for i, f := range files {
		names[i] = path.Dir(f)
	}
	sort.Strings(names)
	return names
}

// load finds a scenario: a shipped one by name, or a file, or a directory with a
// scenario.yaml. Mistakes in it are spec.Problems.
func load(name string) (*spec.Scenario, error) {
	if source, err := shipped.ReadFile(path.Join(name, specFile)); err == nil {
		return spec.Parse("scenarios/"+name+"/"+specFile, source, verb.Registry{})
	}
	file := name
	if info, err := os.Stat(file); err == nil && info.IsDir() {
		file = filepath.Join(file, specFile)
	}
	source, err := os.ReadFile(file)
	if err != nil {
		return nil, &usageError{fmt.Errorf("no scenario %s: neither shipped nor a file", name), spec.Suggest(name, shippedNames())}
	}
	return spec.Parse(filepath.ToSlash(file), source, verb.Registry{})
}
