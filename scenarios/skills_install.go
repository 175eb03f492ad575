package scenarios

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ister-mq/ister"
	"github.com/ister-mq/ister/scenarios/internal/spec"
)

const (
	// agentSkills is where agents look for skills, whoever made them.
	agentSkills = ".agents/skills"
	// claudeSkills is where one that does not look there looks.
	claudeSkills = ".claude/skills"
	// installName is the directory of the installed skills: that of the top one,
	// which leads to the others below it.
	installName = "ister"
)

func installSkillsCommand() *cobra.Command {
	var to string
	var force bool
	cmd := &cobra.Command{
		Use: "install", Short: "Write the skills of this binary to a directory, for agents", Args: exactly(),
		Long: `Write the skills that this binary holds, with the files they refer to, to DIR/` + installName + `. Agents that read DIR find the
skill ` + installName + `, which leads to all the others. Files that were changed there are not written over without --force.

Exit codes: 0 written, 2 something there is different, 4 the directory cannot be written.`,
		Example: "  scenario skills install\n  scenario skills install --to .claude/skills",
	}
	cmd.Flags().StringVar(&to, "to", agentSkills, "directory with the skills of a project")
	cmd.Flags().BoolVar(&force, "force", false, "write over files that are different")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		dir := filepath.Join(to, installName)
		installed, err := installSkills(ister.Skills(), dir, force)
		if err != nil {
			return err
		}
		if cmd.Flag("output").Value.String() == "json" {
			return printJSON(cmd.OutOrStdout(), installed)
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: %d files written, %d as they were, %d skills\n", dir, installed.Written, installed.Kept, installed.Skills)
		return err
	}
	return cmd
}

// installation says what an install did.
type installation struct {
	Directory string `json:"directory"`
	Skills    int    `json:"skills"`
	Written   int    `json:"written"`
	Kept      int    `json:"kept"` // were there already, with the same content
}

// installSkills copies the files. It looks at all before it writes one.
func installSkills(files fs.FS, dir string, force bool) (installation, error) {
	done := installation{Directory: dir}
	var write, differ []string
	err := fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		if path.Base(name) == skillFile {
			done.Skills++
		}
		want, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		switch got, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name))); {
		case errors.Is(err, fs.ErrNotExist):
			write = append(write, name)
		case err != nil:
			return err
		case bytes.Equal(got, want):
			done.Kept++
		default:
			write, differ = append(write, name), append(differ, name)
		}
		return nil
	})
	if err != nil {
		return done, environment(fmt.Errorf("look at %s: %w", dir, err))
	}
	if len(differ) > 0 && !force {
		return done, &usageError{fmt.Errorf("%s: different from this binary's: %s", dir, strings.Join(differ, ", ")), "another version wrote them, or somebody changed them; --force writes over them"}
	}
	for _, name := range write {
		if err := installFile(files, name, filepath.Join(dir, filepath.FromSlash(name))); err != nil {
			return done, environment(fmt.Errorf("write skill: %w", err))
		}
		done.Written++
	}
	return done, nil
}

func installFile(files fs.FS, name, target string) error {
	data, err := fs.ReadFile(files, name)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return err
	}
	mode := fs.FileMode(0o644)
	if bytes.HasPrefix(data, []byte("#!")) {
		mode = 0o755
	}
	return os.WriteFile(target, data, mode)
}

// links are the symbolic links by which agents find the skills of a checkout:
// from the path of the link, below the root, to what it holds.
func (tree *skillTree) links() map[string]string {
	out := map[string]string{claudeSkills: "../" + agentSkills}
	for _, s := range tree.skills {
		if s.file == skillFile {
			// A link to the root would hold itself: the top skill is a directory with
			// the file alone.
			out[path.Join(agentSkills, s.name, skillFile)] = path.Join("../../..", skillFile)
			continue
		}
		out[path.Join(agentSkills, s.name)] = path.Join("../..", path.Dir(s.file))
	}
	return out
}

// staleLinks are those that are not there or lead elsewhere. Only a tree with a
// top skill has links.
func (tree *skillTree) staleLinks() []string {
	if !tree.exists(skillFile) {
		return nil
	}
	var stale []string
	for link, target := range tree.links() {
		if got, err := os.Readlink(filepath.Join(tree.root, filepath.FromSlash(link))); err != nil || filepath.ToSlash(got) != target {
			stale = append(stale, link)
		}
	}
	slices.Sort(stale)
	return stale
}

// writeLinks makes those that are stale, and returns them. What is there and is
// no link stays, and is an error.
func (tree *skillTree) writeLinks() ([]string, error) {
	stale, links := tree.staleLinks(), tree.links()
	for _, link := range stale {
		file := filepath.Join(tree.root, filepath.FromSlash(link))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return nil, err
		}
		if info, err := os.Lstat(file); err == nil {
			if info.Mode()&fs.ModeSymlink == 0 {
				return nil, fmt.Errorf("%s is there and is no link", file)
			}
			if err := os.Remove(file); err != nil {
				return nil, err
			}
		}
		if err := os.Symlink(links[link], file); err != nil {
			return nil, err
		}
	}
	return stale, nil
}

// checkLinks wants agents to find every skill, and each name once.
func (tree *skillTree) checkLinks() spec.Problems {
	var problems spec.Problems
	for _, link := range tree.staleLinks() {
		problems = append(problems, spec.Problem{File: link, Line: 1, Column: 1, Rule: ruleSkillLink, Message: "it should be a link to " + tree.links()[link], Hint: "run: scenario skills gen"})
	}
	for _, entry := range tree.linked {
		link := path.Join(agentSkills, entry)
		links := tree.links()
		if links[link] == "" && links[path.Join(link, skillFile)] == "" {
			problems = append(problems, spec.Problem{File: link, Line: 1, Column: 1, Rule: ruleSkillLink, Message: "there is no such skill", Hint: "remove it"})
		}
	}
	names := map[string]string{}
	for _, s := range tree.skills {
		if other, twice := names[s.name]; twice {
			problems = append(problems, s.problem(2, ruleSkill, fmt.Sprintf("%s has the same name", other), "agents find skills by name"))
		}
		names[s.name] = s.file
	}
	return problems
}
