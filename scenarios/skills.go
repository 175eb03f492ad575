package scenarios

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"sort"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ister-mq/ister/scenarios/internal/report"
	"github.com/ister-mq/ister/scenarios/internal/spec"
	"github.com/ister-mq/ister/scenarios/internal/verb"
)

const (
	skillFile = "SKILL.md"
	// skillLinesMax bounds a skill, so that an agent can afford to read it.
	skillLinesMax = 150
	// skillsMax bounds how many skills a tree may hold.
	skillsMax = 200
)

// The rules of skills, beside those of scenarios.
const (
	ruleSkill        spec.Rule = "skill"
	ruleSkillStale   spec.Rule = "skill-stale"
	ruleSkillCommand spec.Rule = "skill-command"
)

func (c *common) skillsCommand() *cobra.Command {
	var root string
	cmd := &cobra.Command{
		Use: "skills", Short: "Generate, check, try and install skills (SKILL.md files)",
		Args: subcommand, RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.PersistentFlags().StringVar(&root, "root", ".", "top directory of the source tree")
	gen := &cobra.Command{
		Use: "gen", Short: "Write the generated blocks: of each scenario's skill, and of the top one; and the links by which agents find skills", Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			tree, err := readSkills(root)
			if err != nil {
				return err
			}
			for _, s := range tree.skills {
				text, problems := tree.fillBlocks(s)
				if len(problems) > 0 {
					return &usageError{problems, ""}
				}
				if text == s.text {
					continue
				}
				if err := os.WriteFile(filepath.Join(root, s.file), []byte(text), 0o644); err != nil {
					return &exitError{code: report.ExitEnvironment, err: fmt.Errorf("write skill: %w", err)}
				}
				fmt.Fprintln(cmd.OutOrStdout(), s.file)
			}
			links, err := tree.writeLinks()
			if err != nil {
				return environment(fmt.Errorf("write link: %w", err))
			}
			for _, link := range links {
				fmt.Fprintln(cmd.OutOrStdout(), link)
			}
			return nil
		},
	}
	check := &cobra.Command{
		Use: "check", Short: "Check every skill: front matter, length, generated blocks, commands",
		Long: `Check every SKILL.md below --root: the front matter of the Agent Skills format, at most ` + fmt.Sprint(skillLinesMax) + ` lines,
generated blocks that are what the scenario's YAML gives now, commands that the command trees have, by-hand
blocks that can be tried, links and files and MCP tools that exist, a skill for each scenario, setup and
client, and a top skill that leads to all of them. The flags of ister broker and ister health are checked
by ister scenario skills check, not by the smaller scenario binary.

Exit codes: 0 nothing found, 2 something was found.`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			tree, err := readSkills(root)
			if err != nil {
				return err
			}
			tree.binary = c.binary
			if err := tree.learnTools(c.binary); err != nil {
				return environment(err)
			}
			problems := tree.check()
			out := cmd.OutOrStdout()
			if c.json() {
				if err := printJSON(out, problems); err != nil {
					return err
				}
			} else {
				for _, p := range problems {
					fmt.Fprintln(out, p)
				}
			}
			if len(problems) > 0 {
				return &exitError{code: report.ExitUsage, err: errors.New(count(len(problems), "problem")), silent: c.json()}
			}
			if !c.json() {
				fmt.Fprintln(out, fine(len(tree.skills), "skill"))
			}
			return nil
		},
	}
	cmd.AddCommand(gen, check, c.trySkillsCommand(&root), installSkillsCommand())
	return cmd
}

// skill is one SKILL.md.
type skill struct {
	file     string // from the root, with slashes
	name     string // what its front matter must say
	text     string
	scenario *spec.Scenario // of the same directory; nil when there is none
}

// skillTree is every skill of a source tree, and what their commands may name.
type skillTree struct {
	skills  []skill
	targets map[string]bool // of the Makefile; nil when there is none
	missing spec.Problems   // scenarios without a skill, and scenarios that do not parse
	setups  []string        // directories
	clients []string        // directories
	tools   map[string]bool // of MCP, and steps of scenarios
	groups  map[string]bool // first words of tools
	steps   map[string]bool // what the tools of a scenario's steps begin with
	root    string
	linked  []string // what is in .agents/skills
	exists  func(string) bool
	binary  func() *cobra.Command // makes the whole command tree; nil when it is not known
}

var (
	moduleLine = regexp.MustCompile(`(?m)^module (\S+)$`)
	targetLine = regexp.MustCompile(`(?m)^([a-zA-Z][\w-]*):`)
)

// readSkills reads the tree below root. Directories that hold no sources are
// passed over.
func readSkills(root string) (*skillTree, error) {
	files := os.DirFS(root)
	tree := &skillTree{root: root, exists: func(name string) bool { _, err := fs.Stat(files, name); return err == nil }}
	tree.findDirectories(files)
	entries, _ := fs.ReadDir(files, agentSkills) // none: nothing is linked
	for _, e := range entries {
		tree.linked = append(tree.linked, e.Name())
	}
	err := fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir():
			base := path.Base(name)
			if name != "." && (strings.HasPrefix(base, ".") || base == "runs" || base == "bin" || base == "node_modules" || base == "testdata") {
				return fs.SkipDir
			}
			return nil
		case path.Base(name) == specFile:
			if _, err := fs.Stat(files, path.Join(path.Dir(name), skillFile)); err != nil {
				tree.missing = append(tree.missing, spec.Problem{File: name, Line: 1, Column: 1, Rule: ruleSkill, Message: "there is no " + skillFile + " beside it", Hint: "scenario new shows one"})
			}
			return nil
		case path.Base(name) != skillFile:
			return nil
		}
		if len(tree.skills) == skillsMax {
			return fmt.Errorf("more than %d skills", skillsMax)
		}
		s, problems, err := readSkill(files, name)
		tree.skills, tree.missing = append(tree.skills, s), append(tree.missing, problems...)
		return err
	})
	if err != nil {
		return nil, &usageError{fmt.Errorf("read skills: %w", err), ""}
	}
	if len(tree.skills) == 0 {
		return nil, &usageError{fmt.Errorf("there is no %s below %s", skillFile, root), "give the top directory of the source tree with --root"}
	}
	sort.Slice(tree.skills, func(i, j int) bool { return tree.skills[i].file < tree.skills[j].file })
	if makefile, err := fs.ReadFile(files, "Makefile"); err == nil {
		tree.targets = makeTargets(makefile)
	}
	return tree, nil
}

func makeTargets(makefile []byte) map[string]bool {
	targets := map[string]bool{}
	for _, m := range targetLine.FindAllSubmatch(makefile, -1) {
		targets[string(m[1])] = true
	}
	return targets
}

func readSkill(files fs.FS, name string) (skill, spec.Problems, error) {
	text, err := fs.ReadFile(files, name)
	if err != nil {
		return skill{}, nil, err
	}
	s := skill{file: name, name: path.Base(path.Dir(name)), text: string(text)}
	if s.name == "." { // the directory of a checkout may be called anything: the module says its name
		module, err := fs.ReadFile(files, "go.mod")
		if m := moduleLine.FindSubmatch(module); err == nil && m != nil {
			s.name = path.Base(string(m[1]))
		} else {
			s.name = ""
		}
	}
	source, err := fs.ReadFile(files, path.Join(path.Dir(name), specFile))
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil, nil
	}
	if err != nil {
		return s, nil, err
	}
	s.scenario, err = spec.Parse(path.Join(path.Dir(name), specFile), source, verb.Registry{})
	var problems spec.Problems
	if err != nil && !errors.As(err, &problems) {
		return s, nil, err
	}
	return s, problems, nil
}

// check returns everything that is wrong with the skills, in order.
func (tree *skillTree) check() spec.Problems {
	problems := append(append(append(spec.Problems{}, tree.missing...), tree.checkCoverage()...), tree.checkLinks()...)
	for _, s := range tree.skills {
		problems = append(problems, checkFrontMatter(s)...)
		if lines := strings.Count(s.text, "\n"); lines > skillLinesMax {
			problems = append(problems, s.problem(skillLinesMax+1, ruleSkill, fmt.Sprintf("%d lines, want at most %d", lines, skillLinesMax), "move details to references/"))
		}
		problems = append(problems, tree.checkBlocks(s)...)
		problems = append(problems, tree.checkCommands(s)...)
		problems = append(problems, checkByHand(s)...)
		problems = append(problems, tree.checkText(s)...)
	}
	return problems
}

func (s skill) problem(line int, rule spec.Rule, message, hint string) spec.Problem {
	return spec.Problem{File: s.file, Line: line, Column: 1, Rule: rule, Message: message, Hint: hint}
}
