package scenarios

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/ister-mq/ister"
	"github.com/ister-mq/ister/scenarios/internal/byhand"
	"github.com/ister-mq/ister/scenarios/internal/report"
)

// jobsMax bounds how many skills are tried at once, each with brokers of its own.
const jobsMax = 16

// tries are the flags of `skills try`.
type tries struct {
	root     string
	binary   string
	docker   bool
	keep     bool
	quiet    bool
	timeout  time.Duration
	lineTime time.Duration
	jobs     int
}

// tried is the result of `skills try`.
type tried struct {
	Result     byhand.State    `json:"result"`
	ExitCode   int             `json:"exit_code"`
	Separation string          `json:"separation"`
	Skills     []byhand.Result `json:"skills"`
}

func (c *common) trySkillsCommand(root *string) *cobra.Command {
	t := tries{}
	cmd := &cobra.Command{
		Use: "try [SKILL.md|DIR...]", Short: "Type what skills tell to type by hand, and check what they say it gives",
		Long: `Run the shell blocks below "## By hand" of the given skills, or of every skill below --root, line by line in
one shell for each skill, and check what each line is said to give: # expect: TEXT. The convention is in
docs/reference/skills.md. Each try has a directory of its own and, on Linux as root or where user namespaces
are allowed, a network and a process table of its own, so that the documented ports are free and nothing is
left; elsewhere the ports have to be free on this machine.

Exit codes: 0 everything tried holds, 1 something stated does not, 2 usage, 3 nothing could be tried,
4 environment, 5 something was left behind, 6 a command failed or took too long, 130 interrupted.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			t.root = *root
			return c.trySkills(cmd, t, args)
		},
	}
	cmd.Flags().StringVar(&t.binary, "ister-bin", "", "the ister binary (default: this one, the one beside it, or one built from --root)")
	cmd.Flags().BoolVar(&t.docker, "docker", false, "also try blocks that need a Docker engine, on this machine's network")
	cmd.Flags().BoolVar(&t.keep, "keep", false, "keep the directory of a skill that does not pass")
	cmd.Flags().BoolVarP(&t.quiet, "quiet", "q", false, "only the table, and what fails")
	cmd.Flags().IntVar(&t.jobs, "jobs", 2, "how many skills at a time, where each has a network of its own")
	cmd.Flags().DurationVar(&t.timeout, "timeout", byhand.DefaultSkillLimit, "how long one skill may take")
	cmd.Flags().DurationVar(&t.lineTime, "line-timeout", byhand.DefaultLineLimit, "how long one line may take")
	return cmd
}

func (c *common) trySkills(cmd *cobra.Command, t tries, args []string) error {
	if t.timeout <= 0 || t.lineTime <= 0 {
		return &usageError{fmt.Errorf("--timeout and --line-timeout are %s and %s, want more than 0", t.timeout, t.lineTime), ""}
	}
	if t.jobs < 1 || t.jobs > jobsMax {
		return &usageError{fmt.Errorf("--jobs is %d, want 1 to %d", t.jobs, jobsMax), ""}
	}
	skills, err := skillsToTry(t.root, args)
	if err != nil {
		return err
	}
	out := c.progressOut(cmd)
	bin, err := os.MkdirTemp("", "ister-try-bin-")
	if err != nil {
		return environment(fmt.Errorf("make a directory: %w", err))
	}
	defer os.RemoveAll(bin)
	source := sourceTree(t.root)
	if err := binaries(cmd.Context(), bin, source, t.binary, out); err != nil {
		return environment(err)
	}
	show := &tryDisplay{out: out, quiet: t.quiet}
	tryer := byhand.New(byhand.Options{Bin: bin, Source: source, Docker: t.docker, LineLimit: t.lineTime, SkillLimit: t.timeout, Keep: t.keep, Say: show.line})
	result := tried{Separation: tryer.Separation()}
	if !t.quiet {
		fmt.Fprintf(out, "each try has: %s\n", result.Separation)
	}
	blocks := make([][]byhand.Block, len(skills))
	for i, s := range skills {
		var mistakes []byhand.Mistake
		if blocks[i], mistakes = byhand.Parse(s.text); len(mistakes) > 0 {
			return &usageError{fmt.Errorf("%s:%d: %s", s.file, mistakes[0].Number, mistakes[0].Message), mistakes[0].Hint}
		}
	}
	jobs := t.jobs
	if !tryer.Alone() || t.docker { // the ports are those of this machine
		jobs = 1
	}
	result.Skills = atOnce(jobs, skills, func(i int, s skill) byhand.Result {
		r := tryer.Try(cmd.Context(), s.file, s.name, blocks[i])
		show.skill(r)
		return r
	})
	result.judge(cmd.Context())
	if c.json() {
		if err := printJSON(cmd.OutOrStdout(), result); err != nil {
			return err
		}
	} else {
		result.table(out)
	}
	if result.ExitCode != report.ExitPass {
		return &exitError{code: result.ExitCode, silent: true}
	}
	return nil
}

// atOnce calls do for each skill, so many at a time, and returns the results in
// the order of the skills.
func atOnce(jobs int, skills []skill, do func(int, skill) byhand.Result) []byhand.Result {
	results := make([]byhand.Result, len(skills))
	places := make(chan struct{}, jobs)
	var all sync.WaitGroup
	for i, s := range skills {
		places <- struct{}{}
		all.Go(func() {
			results[i] = do(i, s)
			<-places
		})
	}
	all.Wait()
	return results
}

// skillsToTry reads the given skills, or all of the tree, or those that this
// binary has.
func skillsToTry(root string, args []string) ([]skill, error) {
	var skills []skill
	for _, arg := range args {
		file := arg
		if info, err := os.Stat(file); err == nil && info.IsDir() {
			file = filepath.Join(file, skillFile)
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, &usageError{fmt.Errorf("read skill: %w", err), "give a " + skillFile + " or a directory with one"}
		}
		full, err := filepath.Abs(file)
		if err != nil {
			return nil, &usageError{fmt.Errorf("read skill: %w", err), ""}
		}
		skills = append(skills, skill{file: filepath.ToSlash(file), name: filepath.Base(filepath.Dir(full)), text: string(text)})
	}
	if len(args) > 0 {
		return skills, nil
	}
	if sourceTree(root) != "" {
		tree, err := readSkills(root)
		if err != nil {
			return nil, err
		}
		return tree.skills, nil
	}
	err := fs.WalkDir(ister.Skills(), ".", func(name string, _ fs.DirEntry, err error) error {
		if err != nil || path.Base(name) != skillFile {
			return err
		}
		text, err := fs.ReadFile(ister.Skills(), name)
		if dir := path.Base(path.Dir(name)); dir == "." {
			skills = append(skills, skill{file: name, name: installName, text: string(text)})
		} else {
			skills = append(skills, skill{file: name, name: dir, text: string(text)})
		}
		return err
	})
	if err != nil {
		panic(err) // they are in the binary
	}
	return skills, nil
}

// sourceTree is the absolute path of a directory with a go.mod; empty for others.
func sourceTree(root string) string {
	full, err := filepath.Abs(root)
	if err != nil {
		return ""
	}
	if _, err := os.Stat(filepath.Join(full, "go.mod")); err != nil {
		return ""
	}
	return full
}

// binaries puts ister and scenario into a directory.
func binaries(ctx context.Context, dir, source, explicit string, out io.Writer) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this executable: %w", err)
	}
	ister, beside := explicit, filepath.Join(filepath.Dir(self), "ister")
	switch info, statErr := os.Stat(beside); {
	case explicit != "":
	case filepath.Base(self) == "ister":
		ister = self
	case statErr == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0:
		ister = beside
	case source == "":
		return errors.New("there is no ister binary: give it with --ister-bin, or the source tree with --root")
	default:
		fmt.Fprintln(out, "building ./cmd/ister (the first build takes a while)")
		build := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-o", filepath.Join(dir, "ister"), "./cmd/ister")
		build.Dir, build.Env = source, append(os.Environ(), "CGO_ENABLED=0")
		if said, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("go build ./cmd/ister in %s: %w\n%s", source, err, strings.TrimSpace(string(said)))
		}
	}
	if ister != "" {
		if ister, err = filepath.Abs(ister); err != nil {
			return fmt.Errorf("find the ister binary: %w", err)
		}
		if info, err := os.Stat(ister); err != nil || !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
			return fmt.Errorf("%s is not an executable file: give the ister binary with --ister-bin", ister)
		}
		if err := os.Symlink(ister, filepath.Join(dir, "ister")); err != nil {
			return fmt.Errorf("link the ister binary: %w", err)
		}
	}
	// The runner of the same binary, whatever this process is.
	script := "#!/bin/sh\nexec '" + filepath.Join(dir, "ister") + "' scenario \"$@\"\n"
	if err := os.WriteFile(filepath.Join(dir, "scenario"), []byte(script), 0o755); err != nil {
		return fmt.Errorf("write the scenario command: %w", err)
	}
	return nil
}

// judge sums up: the first of what is worst.
func (t *tried) judge(ctx context.Context) {
	worst := []struct {
		state byhand.State
		code  int
	}{
		{byhand.Interrupted, report.ExitInterrupted}, {byhand.Fail, report.ExitFail}, {byhand.Broken, report.ExitStep}, {byhand.Environment, report.ExitEnvironment}, {byhand.Pass, report.ExitPass},
	}
	if ctx.Err() != nil {
		t.Result, t.ExitCode = byhand.Interrupted, report.ExitInterrupted
		return
	}
	t.Result, t.ExitCode = byhand.NotTried, report.ExitInconclusive
	for _, w := range worst {
		if slices.ContainsFunc(t.Skills, func(r byhand.Result) bool { return r.State == w.state }) {
			t.Result, t.ExitCode = w.state, w.code
			break
		}
	}
	if t.ExitCode == report.ExitPass && slices.ContainsFunc(t.Skills, func(r byhand.Result) bool { return r.Left }) {
		t.ExitCode = report.ExitLeftovers
	}
}

// table is what a person reads last.
func (t *tried) table(out io.Writer) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\nSKILL\tRESULT\tLINES\tCHECKED\tSECONDS\tNOT TRIED")
	passed, without, lines, checked, skipped := 0, 0, 0, 0, 0
	for _, r := range t.Skills {
		sure := 0
		for _, l := range r.Lines {
			if l.Checked {
				sure++
			}
		}
		var needs []string
		for _, s := range r.NotTried {
			skipped += s.Lines
			if text := "needs " + s.Need; !slices.Contains(needs, text) {
				needs = append(needs, text)
			}
		}
		switch r.State {
		case byhand.Pass:
			passed++
		case byhand.None:
			without++
		}
		lines, checked = lines+len(r.Lines), checked+sure
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%.1f\t%s\n", strings.TrimSuffix(r.File, "/"+skillFile), stateWord(r.State), len(r.Lines), sure, r.Seconds, strings.Join(needs, ", "))
	}
	_ = w.Flush() // to where the lines went
	fmt.Fprintf(out, "\n%s: %d of %d skills with something by hand pass; %d lines tried, %d with a stated result; %d lines not tried\n", stateWord(t.Result), passed, len(t.Skills)-without, lines, checked, skipped)
}

// stateWord is a state as a person reads it.
func stateWord(s byhand.State) string {
	return map[byhand.State]string{byhand.Pass: "PASS", byhand.Fail: "FAIL", byhand.Broken: "ERROR", byhand.NotTried: "not tried", byhand.None: "nothing by hand", byhand.Environment: "ENVIRONMENT", byhand.Interrupted: "INTERRUPTED"}[s]
}

// tryDisplay shows lines as they end.
type tryDisplay struct {
	out   io.Writer
	quiet bool

	mu   sync.Mutex
	file string // whose lines are being shown
}

func (d *tryDisplay) line(file string, l byhand.LineResult) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.quiet && l.State == byhand.Pass {
		return
	}
	mark := "ran"
	if l.Checked {
		mark = "ok"
	}
	if l.State != byhand.Pass {
		mark = stateWord(l.State)
	}
	if d.file != file {
		d.file = file
		fmt.Fprintln(d.out, file)
	}
	text := fmt.Sprintf("  %-5s %6.1fs %4d  ", mark, l.Seconds, l.Number)
	if room := report.Width - len(text); room > 0 && len(l.Command) > room {
		l.Command = l.Command[:max(room-3, 0)] + "..."
	}
	fmt.Fprintln(d.out, text+l.Command)
	if l.State == byhand.Pass {
		return
	}
	fmt.Fprintf(d.out, "        %s:%d: %s\n", file, l.Number, l.Problem)
	for _, part := range []string{l.Output, l.Logs} {
		for line := range strings.Lines(part) {
			fmt.Fprintf(d.out, "        | %s\n", strings.TrimSuffix(line, "\n"))
		}
	}
}

// skill says what concerns a whole skill.
func (d *tryDisplay) skill(r byhand.Result) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if r.Problem != "" && len(r.Lines) == 0 {
		fmt.Fprintf(d.out, "%s: %s: %s\n", r.File, stateWord(r.State), r.Problem)
	}
	switch {
	case r.Left:
		fmt.Fprintf(d.out, "%s: could not remove %s\n", r.File, r.Directory)
	case r.Directory != "":
		fmt.Fprintf(d.out, "%s: kept %s\n", r.File, r.Directory)
	}
}
