package scenarios

import (
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"sort"

	"github.com/ister-mq/ister/scenarios/internal/spec"
	"github.com/ister-mq/ister/scenarios/internal/verb"
)

//go:embed */scenario.yaml
var shipped embed.FS

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
	info, err := os.Stat(file)
	switch {
	case err != nil:
		return nil, noScenario(name, err)
	case info.IsDir():
		file = filepath.Join(file, specFile)
	}
	source, err := readScenario(file)
	if err != nil {
		return nil, err
	}
	return spec.Parse(filepath.ToSlash(file), source, verb.Registry{})
}

// noScenario is the error of a name that stands for nothing.
func noScenario(name string, err error) error {
	if name != "" && !errors.Is(err, fs.ErrNotExist) {
		return &usageError{fmt.Errorf("read scenario: %w", err), ""}
	}
	return &usageError{fmt.Errorf("no scenario %s: neither shipped nor a file", spec.Named(name)), spec.Suggest(name, shippedNames())}
}

// readScenario reads a file no further than where it is too large to be parsed.
func readScenario(file string) ([]byte, error) {
	opened, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &usageError{fmt.Errorf("there is no %s in %s", filepath.Base(file), filepath.Dir(file)), "name a scenario, its file, or its directory"}
	}
	if err != nil {
		return nil, &usageError{fmt.Errorf("read scenario: %w", err), ""}
	}
	defer opened.Close()
	source, err := io.ReadAll(io.LimitReader(opened, spec.SourceBytesMax+1))
	if err != nil {
		return nil, &usageError{fmt.Errorf("read scenario: %w", err), ""}
	}
	return source, nil
}
