package scenarios

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"sort"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ister-mq/ister/scenarios/internal/report"
	"github.com/ister-mq/ister/scenarios/internal/run"
	"github.com/ister-mq/ister/scenarios/internal/spec"
	"github.com/ister-mq/ister/scenarios/internal/verb"
)

// lintFilesMax bounds how many files one lint reads.
const lintFilesMax = 1000

func (c *common) lintCommand() *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use: "lint [SCENARIO|FILE|DIRECTORY...]", Short: "Check scenario files (default: the shipped ones)",
		Long: `Check scenario files completely, without running anything: unknown keys and verbs, references that lead
nowhere, values of the wrong type, polls that would repeat a change. A directory stands for every
scenario.yaml below it.

Exit codes: 0 nothing found, 2 something was found or a file cannot be read.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if c.json() && !cmd.Flags().Changed("format") {
				format = "json"
			}
			if err := oneOf("format", format, "text", "json", "sarif"); err != nil {
				return err
			}
			sources, err := lintSources(args)
			if err != nil {
				return err
			}
			problems := spec.Problems{}
			for _, s := range sources {
				parsed, err := spec.Parse(s.file, s.data, verb.Registry{})
				var found spec.Problems
				switch {
				case err == nil:
					problems = append(problems, c.lintAbilities(parsed)...)
				case errors.As(err, &found):
					problems = append(problems, found...)
				default:
					return err
				}
			}
			if err := printProblems(cmd.OutOrStdout(), format, len(sources), problems); err != nil {
				return err
			}
			if len(problems) > 0 {
				return &exitError{code: report.ExitUsage, err: errors.New(count(len(problems), "problem")), silent: format != "text"}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&format, "format", "text", "text, json or sarif (2.1.0, for code scanning)")
	return cmd
}

// lintAbilities finds the steps that a listed setup cannot do, however it is
// configured. A setup that this build does not have says nothing.
func (c *common) lintAbilities(s *spec.Scenario) spec.Problems {
	lines := map[string]int{}
	note := func(steps []*spec.Step) {
		for _, step := range steps {
			lines[step.ID] = step.Line
		}
	}
	note(s.Setup)
	for _, a := range s.Aspects {
		note(a.Steps)
	}
	note(s.OnFailure)
	note(s.Always)
	var problems spec.Problems
	for _, name := range s.Setups {
		setup, err := c.setupOf(s, name)
		if err != nil {
			continue
		}
		for _, o := range run.Obstacles(s, nil, "", setup) {
			if o.Refused.Flag != "" || o.Refused.Here {
				continue // a run may be given the flag, or be elsewhere
			}
			hint := "take " + name + " out of setups, or the step out of the scenario"
			problems = append(problems, spec.Problem{File: s.File, Line: lines[o.Step], Column: 1, Rule: spec.RuleAbility, Message: o.String(), Hint: hint})
		}
	}
	return problems
}

// lintSource is one file to check. Its name is as a person gave it, with
// slashes.
type lintSource struct {
	file string
	data []byte
}

// lintSources reads what the arguments stand for, each file once, in order.
func lintSources(args []string) ([]lintSource, error) {
	if len(args) == 0 {
		args = shippedNames()
	}
	var sources []lintSource
	seen := map[string]bool{}
	add := func(file string, data []byte) error {
		if file = filepath.ToSlash(filepath.Clean(file)); seen[file] {
			return nil
		}
		seen[file] = true
		sources = append(sources, lintSource{file, data})
		if len(sources) > lintFilesMax {
			return &usageError{fmt.Errorf("more than %d files", lintFilesMax), "name fewer"}
		}
		return nil
	}
	for _, arg := range args {
		if data, err := shipped.ReadFile(path.Join(arg, specFile)); err == nil {
			if err := add("scenarios/"+arg+"/"+specFile, data); err != nil {
				return nil, err
			}
			continue
		}
		files, err := scenarioFiles(arg)
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			data, err := readScenario(file)
			if err != nil {
				return nil, err
			}
			if err := add(file, data); err != nil {
				return nil, err
			}
		}
	}
	return sources, nil
}

// scenarioFiles is the file itself, or every scenario.yaml below a directory.
func scenarioFiles(arg string) ([]string, error) {
	info, err := os.Stat(arg)
	if err != nil {
		return nil, noScenario(arg, err)
	}
	if !info.IsDir() {
		return []string{arg}, nil
	}
	var files []string
	err = filepath.WalkDir(arg, func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && name != arg && strings.HasPrefix(entry.Name(), "."):
			return filepath.SkipDir
		case !entry.IsDir() && entry.Name() == specFile:
			files = append(files, name)
		}
		return nil
	})
	if err != nil {
		return nil, &usageError{fmt.Errorf("look for scenarios: %w", err), ""}
	}
	if len(files) == 0 {
		return nil, &usageError{fmt.Errorf("there is no %s below %s", specFile, arg), ""}
	}
	sort.Strings(files)
	return files, nil
}

func printProblems(out io.Writer, format string, files int, problems spec.Problems) error {
	switch format {
	case "json":
		return printJSON(out, problems)
	case "sarif":
		return printJSON(out, sarifOf(problems))
	}
	for _, p := range problems {
		fmt.Fprintln(out, p)
	}
	if len(problems) == 0 {
		fmt.Fprintln(out, fine(files, "scenario"))
	}
	return nil
}
