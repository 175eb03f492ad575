package byhand

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// State is how a line or a skill ended.
type State string

const (
	Pass        State = "pass"
	Fail        State = "fail"        // what is stated does not hold
	Broken      State = "error"       // a command failed, or took too long
	NotTried    State = "not_tried"   // it needs what this machine, or this try, has not
	None        State = "none"        // the skill has no section "By hand" with commands
	Environment State = "environment" // a program is missing, or a port is taken
	Interrupted State = "interrupted"
)

const (
	// DefaultLineLimit and DefaultSkillLimit bound a line and a skill.
	DefaultLineLimit  = time.Minute
	DefaultSkillLimit = 5 * time.Minute
	repeatEvery       = 200 * time.Millisecond
	// tailLines and tailBytes bound what is shown of an output.
	tailLines = 15
	tailBytes = 4 << 10
	// logsMax bounds how many logs are shown after a failure, three lines of each.
	logsMax  = 8
	logLines = 3
)

// basics are programs that a reader is told to have; nothing needs to name them.
var basics = []string{"kcat", "jq", "curl"}

// Options of a Tryer.
type Options struct {
	// Bin is a directory with ister and scenario. It comes first in the PATH.
	Bin string
	// Source is the top of the source tree; empty when there is none.
	Source string
	// Docker: blocks that need a Docker engine are tried as well.
	Docker bool
	// LineLimit and SkillLimit bound a line and a skill. Zero takes the default.
	LineLimit, SkillLimit time.Duration
	// Keep leaves the directory of a skill that did not pass.
	Keep bool
	// Say is told of each line when it has ended. It may be nil.
	Say func(file string, line LineResult)
}

// LineResult is how a line ended.
type LineResult struct {
	Number  int     `json:"line"`
	Command string  `json:"command"`
	State   State   `json:"state"`
	Checked bool    `json:"checked"` // something is stated about it
	Seconds float64 `json:"seconds"`
	Problem string  `json:"problem,omitempty"`
	Output  string  `json:"output,omitempty"` // its end, when it did not pass
	Logs    string  `json:"logs,omitempty"`   // the ends of the logs in the directory, likewise
}

// Skipped is a block that was not tried.
type Skipped struct {
	Number int    `json:"line"`
	Lines  int    `json:"lines"`
	Need   string `json:"need"`
}

// Result is how a skill ended.
type Result struct {
	File     string       `json:"file"`
	State    State        `json:"state"`
	Problem  string       `json:"problem,omitempty"`
	Lines    []LineResult `json:"lines"`
	NotTried []Skipped    `json:"not_tried"`
	Seconds  float64      `json:"seconds"`
	// Directory is there when it was kept, or could not be removed.
	Directory string `json:"directory,omitempty"`
	Left      bool   `json:"left,omitempty"` // the directory could not be removed
}

// Tryer tries skills.
type Tryer struct {
	options Options
	apart   separation
	why     string // there is no network of its own
}

// New finds out what a shell can have for itself here.
func New(options Options) *Tryer {
	options.LineLimit, options.SkillLimit = cmp.Or(options.LineLimit, DefaultLineLimit), cmp.Or(options.SkillLimit, DefaultSkillLimit)
	t := &Tryer{options: options, apart: network}
	s, err := startShell(os.TempDir(), os.Environ(), network)
	if err != nil {
		t.apart, t.why = together, err.Error()
		return t
	}
	s.end()
	return t
}

// Alone reports whether tries do not meet each other's ports.
func (t *Tryer) Alone() bool { return t.apart == network }

// Separation says what each try has for itself.
func (t *Tryer) Separation() string {
	if t.why != "" {
		return t.apart.String() + " (" + t.why + ")"
	}
	return t.apart.String()
}

// Try tries the blocks of a skill. The name goes into that of its directory.
func (t *Tryer) Try(ctx context.Context, file, name string, blocks []Block) Result {
	start := time.Now()
	r := Result{File: file, State: Pass, Lines: []LineResult{}, NotTried: []Skipped{}}
	how := t.apart
	var todo []Block
	blocks = slices.DeleteFunc(slices.Clone(blocks), func(b Block) bool { return len(b.Lines) == 0 })
	for _, b := range blocks {
		if need := t.missing(b.Needs); need != "" {
			r.NotTried = append(r.NotTried, Skipped{b.Number, len(b.Lines), need})
			continue
		}
		if slices.Contains(b.Needs, NeedDocker) && how == network {
			how = processes // published ports are of this machine's network
		}
		todo = append(todo, b)
	}
	switch {
	case ctx.Err() != nil:
		r.State, r.Problem = Interrupted, "interrupted before it began"
	case len(blocks) == 0:
		r.State = None
	case len(todo) == 0:
		r.State = NotTried
	default:
		t.try(ctx, &r, name, todo, how)
	}
	r.Seconds = time.Since(start).Seconds()
	return r
}

// missing is the first need that is not met; empty when all are.
func (t *Tryer) missing(needs []string) string {
	for _, need := range needs {
		module, isModule := strings.CutPrefix(need, needModule)
		met := false
		switch {
		case need == NeedDocker:
			met = t.options.Docker && exec.Command("docker", "info").Run() == nil
		case need == NeedSource:
			met = t.options.Source != ""
		case isModule: // Debian's modules are of this interpreter
			met = exec.Command("/usr/bin/python3", "-c", "import "+module).Run() == nil
		default:
			_, err := exec.LookPath(need)
			met = err == nil
		}
		if !met {
			return need
		}
	}
	return ""
}

// try makes the directory and the shell, runs the lines, and ends both.
func (t *Tryer) try(ctx context.Context, r *Result, name string, blocks []Block, how separation) {
	if problem := t.unfit(blocks, how); problem != "" {
		r.State, r.Problem = Environment, problem
		return
	}
	dir, err := os.MkdirTemp("", "ister-try-"+name+"-")
	if err != nil {
		r.State, r.Problem = Environment, fmt.Sprintf("make a directory: %v", err)
		return
	}
	defer func() {
		if t.options.Keep && r.State != Pass {
			r.Directory = dir
			return
		}
		if err := os.RemoveAll(dir); err != nil {
			r.Directory, r.Left = dir, true
		}
	}()
	for _, sub := range []string{"work", "home", "tmp", "out"} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o755); err != nil {
			r.State, r.Problem = Environment, fmt.Sprintf("make a directory: %v", err)
			return
		}
	}
	s, err := startShell(filepath.Join(dir, "work"), t.environment(dir), how)
	if err != nil {
		r.State, r.Problem = Environment, err.Error()
		return
	}
	defer s.end()
	ctx, cancel := context.WithTimeout(ctx, t.options.SkillLimit)
	defer cancel()
	a := &attempt{t, s, r.File, dir, 0}
	for _, b := range blocks {
		if !a.block(ctx, r, b) {
			return
		}
	}
}

// unfit says what this machine lacks for the lines; empty for nothing.
func (t *Tryer) unfit(blocks []Block, how separation) string {
	ports := map[string]bool{}
	for _, b := range blocks {
		for _, l := range b.Lines {
			for _, program := range basics {
				if uses(l.Command, program) {
					if _, err := exec.LookPath(program); err != nil {
						return fmt.Sprintf("line %d needs %s, which is not installed (Debian: apt-get install kcat jq curl)", l.Number, program)
					}
				}
			}
			for _, m := range localPort.FindAllStringSubmatch(l.Command, -1) {
				ports[m[1]] = true
			}
		}
	}
	if how == network {
		return ""
	}
	var taken []string
	for port := range ports {
		listener, err := net.Listen("tcp", "127.0.0.1:"+port)
		if err != nil {
			taken = append(taken, port)
			continue
		}
		listener.Close()
	}
	if len(taken) == 0 {
		return ""
	}
	slices.Sort(taken)
	return fmt.Sprintf("ports that the skill uses are taken by something else: %s; end that, or try as root on Linux, where each try has a network of its own", strings.Join(taken, ", "))
}

var localPort = regexp.MustCompile(`127\.0\.0\.1:(\d+)`)

func uses(command, program string) bool {
	return slices.Contains(strings.FieldsFunc(command, func(r rune) bool { return strings.ContainsRune(" \t|;&()$`", r) }), program)
}

// environment of a try: that of this process, without what it says to Ister, and
// with a home of its own. Caches of Go stay where they are.
func (t *Tryer) environment(dir string) []string {
	var env []string
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "ISTER_") && !strings.HasPrefix(e, "BASH_ENV=") {
			env = append(env, e)
		}
	}
	if cache, err := os.UserCacheDir(); err == nil && os.Getenv("GOCACHE") == "" {
		env = append(env, "GOCACHE="+filepath.Join(cache, "go-build"))
	}
	if home, err := os.UserHomeDir(); err == nil && os.Getenv("GOPATH") == "" {
		env = append(env, "GOPATH="+filepath.Join(home, "go"))
	}
	return append(env, "HOME="+filepath.Join(dir, "home"), "TMPDIR="+filepath.Join(dir, "tmp"),
		"PATH="+t.options.Bin+string(os.PathListSeparator)+os.Getenv("PATH"))
}

// attempt is the run of one skill's lines.
type attempt struct {
	*Tryer
	shell *shell
	file  string
	dir   string
	count int // outputs so far
}

// block runs the lines of a block, and reports whether all passed.
func (a *attempt) block(ctx context.Context, r *Result, b Block) bool {
	if slices.Contains(b.Needs, NeedSource) {
		if _, err := a.shell.do(ctx, "cd '"+a.options.Source+"'", os.DevNull); err != nil {
			r.State, r.Problem = Broken, err.Error()
			return false
		}
		defer a.shell.do(ctx, "cd '"+filepath.Join(a.dir, "work")+"'", os.DevNull) // the shell is of no more use when it fails
	}
	for _, line := range b.Lines {
		result := a.line(ctx, line)
		r.Lines = append(r.Lines, result)
		if a.options.Say != nil {
			a.options.Say(a.file, result)
		}
		if result.State != Pass {
			r.State, r.Problem = result.State, fmt.Sprintf("line %d: %s", line.Number, result.Problem)
			return false
		}
	}
	return true
}

// line runs one command, again and again where its expectation has time.
func (a *attempt) line(ctx context.Context, line Line) LineResult {
	start := time.Now()
	r := LineResult{Number: line.Number, Command: line.Command, Checked: line.States()}
	a.count++
	file := filepath.Join(a.dir, "out", fmt.Sprint(a.count))
	limit := a.options.LineLimit + line.Expect.Within
	within, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	r.State, r.Problem = a.until(within, line, file)
	r.Seconds = time.Since(start).Seconds()
	switch {
	case r.State == Pass:
		return r
	case errors.Is(context.Cause(ctx), context.Canceled):
		r.State, r.Problem = Interrupted, "interrupted"
	case ctx.Err() != nil:
		r.Problem = fmt.Sprintf("the skill takes longer than %s", a.options.SkillLimit)
	case within.Err() != nil:
		r.Problem = fmt.Sprintf("not ended after %s", limit)
	}
	r.Output, r.Logs = tail(file, tailLines), a.logs()
	return r
}

// until runs the command until what is stated of it holds or cannot any more. A
// background line runs once, and what it prints is looked at until then.
func (a *attempt) until(ctx context.Context, line Line, file string) (State, string) {
	start := time.Now()
	tick := time.NewTicker(repeatEvery)
	defer tick.Stop()
	for again := true; ; {
		status := line.Expect.Exit
		if again {
			ran, err := a.shell.do(ctx, line.Command, file)
			if err != nil {
				return Broken, err.Error()
			}
			again = !line.Background()
			if again || ran != 0 {
				status = ran
			}
		}
		printed, err := os.ReadFile(file)
		if err != nil {
			return Broken, fmt.Sprintf("read what was printed: %v", err)
		}
		unmet := line.Expect.Unmet(string(printed), status)
		waits := line.Expect.Within > 0 && time.Since(start) < line.Expect.Within || line.Background() && len(line.Expect.Texts) > 0 && line.Expect.Within == 0
		switch {
		case unmet == "":
			return Pass, ""
		case !waits && len(line.Expect.Texts) == 0 && line.Expect.Exit == 0:
			return Broken, unmet
		case !waits && line.Expect.Within > 0:
			return Fail, fmt.Sprintf("%s within %s", unmet, line.Expect.Within)
		case !waits:
			return Fail, unmet
		}
		select {
		case <-ctx.Done():
			return Fail, unmet
		case <-tick.C:
		}
	}
}

// logs are the ends of the logs that the lines wrote.
func (a *attempt) logs() string {
	files, _ := filepath.Glob(filepath.Join(a.dir, "work", "*.log")) // the pattern is constant
	var out strings.Builder
	for _, file := range files[:min(len(files), logsMax)] {
		if text := tail(file, logLines); text != "" {
			fmt.Fprintf(&out, "%s:\n%s\n", filepath.Base(file), text)
		}
	}
	return strings.TrimSpace(out.String())
}

// tail is the last lines of a file; empty when it cannot be read.
func tail(file string, lines int) string {
	data, _ := os.ReadFile(file)
	text := strings.TrimRight(string(data[max(0, len(data)-tailBytes):]), "\n")
	all := strings.Split(text, "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
