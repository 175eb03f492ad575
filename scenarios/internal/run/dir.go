package run

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"sort"
	"strings"
	"time"

	"github.com/ister-mq/ister/scenarios/internal/spec"
)

// cacheName is the folder of the runs directory that is shared by runs.
const cacheName = ".cache"

// buildName is the folder of a run's directory in which its setup builds the
// broker; it is no evidence.
const buildName = "build"

// LogsName is the folder of the runs directory with what supervisors printed: one
// file for each run, named for it.
const LogsName = ".runner"

// idMax bounds an id that a caller chooses: setups make names of machines from it.
const idMax = 63

// safeID is what such an id may be: it is a name of a folder, of networks and of
// topics, and no flag.
var safeID = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`)

// RunsDirHint is what to do about a runs directory that cannot be written.
const RunsDirHint = "give a directory that can be written with --runs-dir"

// latest is what commands call the newest run.
const latest = "last"

// CheckID says what is wrong with an id that a caller chose, as Problems.
func CheckID(id string) error {
	problem := func(message, hint string) error {
		return spec.Problems{{File: "--run-id", Message: message, Hint: hint}}
	}
	switch {
	case id == latest:
		return problem(latest+" is the name of the newest run", "choose another one")
	case len(id) > idMax:
		return problem(fmt.Sprintf("%q has %d characters", id, len(id)), fmt.Sprintf("at most %d", idMax))
	case !safeID.MatchString(id):
		return problem(fmt.Sprintf("%q is no name of a run", id), "lower-case letters, digits and -, with a letter or digit first and last")
	}
	return nil
}

// newDir makes the directory of a new run and returns the run's id: the wanted
// one, which must be free, or one of the scenario and the time. A second run in
// the same second takes the next free number.
func newDir(runsDir, wanted, scenario string, now time.Time) (id, dir string, err error) {
	if err := os.MkdirAll(runsDir, 0o755); err != nil {
		return "", "", fmt.Errorf("make the runs directory: %w; %s", err, RunsDirHint)
	}
	if wanted != "" {
		if err := CheckID(wanted); err != nil {
			return "", "", err
		}
		dir = filepath.Join(runsDir, wanted)
		err = os.Mkdir(dir, 0o755)
		if errors.Is(err, fs.ErrExist) {
			return "", "", spec.Problems{{File: "--run-id", Message: "there is a " + dir + " already", Hint: "choose another name, or remove that run: scenario clean --purge " + dir}}
		}
		if err != nil {
			return "", "", fmt.Errorf("make the run's directory: %w; %s", err, RunsDirHint)
		}
		return wanted, dir, nil
	}
	base := now.UTC().Format("20060102-150405")
	for n := 1; n <= 1000; n++ {
		id = base + "-" + scenario
		if n > 1 {
			id = fmt.Sprintf("%s-%d-%s", base, n, scenario) // no id is the beginning of another
		}
		dir = filepath.Join(runsDir, id)
		err = os.Mkdir(dir, 0o755)
		if err == nil {
			return id, dir, nil
		}
		if !errors.Is(err, fs.ErrExist) {
			return "", "", fmt.Errorf("make the run's directory: %w; %s", err, RunsDirHint)
		}
	}
	return "", "", fmt.Errorf("no free name for a run in %s", runsDir)
}

// sumsName is the list of checksums of a run's evidence.
const sumsName = "SHA256SUMS"

// writeSums lists the SHA-256 of every file of the evidence. Brokers' data is no
// evidence: it goes with the cluster.
func writeSums(dir string) error {
	var lines []string
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if relative == buildName || entry.Name() == "data" && strings.HasPrefix(relative, "brokers"+string(filepath.Separator)) {
				return filepath.SkipDir
			}
			return nil
		}
		if !entry.Type().IsRegular() || relative == sumsName {
			return nil
		}
		sum, err := sumOf(path)
		lines = append(lines, sum+"  "+filepath.ToSlash(relative)+"\n")
		return err
	})
	if err != nil {
		return fmt.Errorf("checksum the evidence: %w", err)
	}
	sort.Slice(lines, func(i, j int) bool { return lines[i][66:] < lines[j][66:] })
	path := filepath.Join(dir, sumsName)
	if err := os.WriteFile(path, []byte(strings.Join(lines, "")), 0o644); err != nil {
		_ = os.Remove(path) // half of it
		return fmt.Errorf("write the checksums: %w", err)
	}
	return nil
}

// sumOf is the SHA-256 of a file, in hex.
func sumOf(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, file); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// CheckSum compares a file of a run's evidence with the checksums, which a run
// without an end has not.
func CheckSum(dir, name string) error {
	sums, err := os.ReadFile(filepath.Join(dir, sumsName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the checksums: %w", err)
	}
	got, err := sumOf(filepath.Join(dir, name))
	if err != nil {
		return fmt.Errorf("checksum %s: %w", name, err)
	}
	for line := range strings.Lines(string(sums)) {
		if want, found := strings.CutSuffix(strings.TrimSuffix(line, "\n"), "  "+name); found {
			if got != want {
				return fmt.Errorf("%s is not the file that the run wrote: its SHA-256 is %s, %s has %s; get the file or the list again from where the evidence was kept", filepath.Join(dir, name), got, sumsName, want)
			}
			return nil
		}
	}
	return fmt.Errorf("%s does not list %s: the evidence is not whole; get it again from where it was kept", filepath.Join(dir, sumsName), name)
}

// removeData deletes the brokers' data directories of a run, and what a build
// left half done.
func removeData(dir string) error {
	if err := os.RemoveAll(filepath.Join(dir, buildName)); err != nil {
		return fmt.Errorf("remove a build: %w", err)
	}
	homes, err := filepath.Glob(filepath.Join(dir, "brokers", "*", "data"))
	if err != nil {
		return err
	}
	for _, home := range homes {
		if err := os.RemoveAll(home); err != nil {
			return fmt.Errorf("remove broker data: %w", err)
		}
	}
	return nil
}
