package scenarios

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ister-mq/ister/scenarios/internal/byhand"
	"github.com/ister-mq/ister/scenarios/internal/spec"
)

// The rules of skills that look beyond one file.
const (
	ruleSkillLink   spec.Rule = "skill-link"
	ruleSkillTool   spec.Rule = "skill-tool"
	ruleSkillByHand spec.Rule = "skill-by-hand"
)

var (
	setupName = regexp.MustCompile(`func \((\w+ )?\*?Setup\) Name\(\) string`)
	mdLink    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	// filePath is a path in running text that names a file of the tree.
	filePath = regexp.MustCompile(`^(\./)?([\w.-]+/)+[\w.-]+\.(md|yaml|sh|py|go)$`)
	toolWord = regexp.MustCompile(`^[a-z]+(_[a-z0-9]+)+$`)
	// pause is a wait for time, where a wait for a condition belongs.
	pause = regexp.MustCompile(`^\s*sleep\s`)
)

// checkCoverage wants a skill for every setup and client. Scenarios without one
// were found when the tree was read, and the top skill's table is generated.
func (tree *skillTree) checkCoverage() spec.Problems {
	var problems spec.Problems
	have := map[string]bool{}
	for _, s := range tree.skills {
		have[path.Dir(s.file)] = true
	}
	want := append(append([]string{}, tree.setups...), tree.clients...)
	for _, dir := range want {
		if !have[dir] {
			problems = append(problems, spec.Problem{File: dir, Line: 1, Column: 1, Rule: ruleSkill, Message: "there is no " + skillFile + " in it", Hint: "every setup and every client has one"})
		}
	}
	return problems
}

// findDirectories notes which setups and clients there are.
func (tree *skillTree) findDirectories(files fs.FS) {
	sources, _ := fs.Glob(files, "setups/*/*.go") // the patterns are constant
	for _, file := range sources {
		text, err := fs.ReadFile(files, file)
		if dir := path.Dir(file); err == nil && setupName.Match(text) && !strings.HasSuffix(file, "_test.go") && !slices.Contains(tree.setups, dir) {
			tree.setups = append(tree.setups, dir)
		}
	}
	entries, _ := fs.ReadDir(files, "clients") // none: there are no clients
	for _, e := range entries {
		if e.IsDir() {
			tree.clients = append(tree.clients, path.Join("clients", e.Name()))
		}
	}
}

// checkText holds links, names of files and names of tools to what there is.
func (tree *skillTree) checkText(s skill) spec.Problems {
	var problems spec.Problems
	inBlock := false
	for i, line := range strings.Split(s.text, "\n") {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			inBlock = !inBlock
			continue
		}
		if inBlock {
			continue
		}
		for _, m := range mdLink.FindAllStringSubmatch(line, -1) {
			target, _, _ := strings.Cut(m[1], "#")
			if target != "" && !strings.Contains(target, "://") && !tree.exists(path.Join(path.Dir(s.file), target)) {
				problems = append(problems, s.problem(i+1, ruleSkillLink, fmt.Sprintf("the link %s leads nowhere", m[1]), ""))
			}
		}
		for _, m := range inlineCode.FindAllStringSubmatch(line, -1) {
			word := m[1]
			if filePath.MatchString(word) && !strings.HasPrefix(word, "runs/") && !tree.exists(path.Clean(word)) && !tree.exists(path.Join(path.Dir(s.file), word)) {
				problems = append(problems, s.problem(i+1, ruleSkillLink, fmt.Sprintf("there is no file %s", word), ""))
			}
			if tree.claimsTool(word) && !tree.tools[word] {
				problems = append(problems, s.problem(i+1, ruleSkillTool, fmt.Sprintf("there is no MCP tool %s", word), spec.Suggest(word, tree.toolNames())))
			}
		}
	}
	return problems
}

// claimsTool: a word that begins as tools do. Without a table of tools nothing does.
func (tree *skillTree) claimsTool(word string) bool {
	if !toolWord.MatchString(word) {
		return false
	}
	group, _, _ := strings.Cut(word, "_")
	if tree.groups[group] {
		return true
	}
	for prefix := range tree.steps {
		if strings.HasPrefix(word, prefix) {
			return true
		}
	}
	return false
}

func (tree *skillTree) toolNames() []string {
	var names []string
	for name := range tree.tools {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// checkByHand wants blocks that can be tried.
func checkByHand(s skill) spec.Problems {
	var problems spec.Problems
	blocks, mistakes := byhand.Parse(s.text)
	for _, m := range mistakes {
		problems = append(problems, s.problem(m.Number, ruleSkillByHand, m.Message, m.Hint))
	}
	for _, b := range blocks {
		for _, l := range b.Lines {
			if pause.MatchString(l.Command) {
				problems = append(problems, s.problem(l.Number, ruleSkillByHand, "it waits for time to pass", "wait for a condition: ister health --wait 30s, or # expect: TEXT within 30s"))
			}
		}
	}
	return problems
}

// learnTools asks the binary's own mcp command for its table, and adds the steps
// of the tree's scenarios, which are tools as well.
func (tree *skillTree) learnTools(binary func() *cobra.Command) error {
	tree.tools, tree.groups, tree.steps = map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, s := range tree.skills {
		if s.scenario == nil {
			continue
		}
		tree.steps[stepTool(s.scenario.ID, "")] = true
		steps := slices.Clone(s.scenario.Setup)
		for _, aspect := range s.scenario.Aspects {
			steps = append(steps, aspect.Steps...)
		}
		for _, step := range steps {
			tree.tools[stepTool(s.scenario.ID, step.ID)] = true
		}
	}
	if binary == nil {
		return nil
	}
	var out bytes.Buffer
	root := binary()
	root.SetArgs([]string{"mcp", "--list-tools"})
	root.SetOut(&out)
	root.SetErr(&out)
	if err := root.Execute(); err != nil {
		return fmt.Errorf("list the MCP tools: %w", err)
	}
	var table map[string]json.RawMessage
	if err := json.Unmarshal(out.Bytes(), &table); err != nil {
		return fmt.Errorf("list the MCP tools: %w", err)
	}
	for name := range table {
		tree.tools[name] = true
		group, _, _ := strings.Cut(name, "_")
		tree.groups[group] = true
	}
	return nil
}
