package scenarios

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ister-mq/ister/admin/cli"
	"github.com/ister-mq/ister/scenarios/internal/spec"
)

// mounted are subcommands of ister and scenario that are put in by the binaries;
// the tree that this package makes does not have them.
var mounted = []string{"broker", "health", "mcp", "version", "help", "completion"}

var (
	placeholder = regexp.MustCompile(`<[a-zA-Z][^<>|` + "`" + `]*>`)
	inlineCode  = regexp.MustCompile("`([^`\n]+)`")
	assignment  = regexp.MustCompile(`^[A-Za-z_]\w*=`)
	capitals    = regexp.MustCompile(`^[A-Z][A-Z_0-9-]*$`)
	plainWord   = regexp.MustCompile(`^[a-z0-9-]+$`)
)

// checkCommands finds the commands of a skill, in its shell blocks and in inline
// code, and holds those of this product against the command trees.
func (tree *skillTree) checkCommands(s skill) spec.Problems {
	var problems spec.Problems
	report := func(line int, message string) {
		problems = append(problems, s.problem(line, ruleSkillCommand, message, ""))
	}
	inBlock, shell, from := false, false, ""
	for i, line := range strings.Split(s.text, "\n") {
		if fence, ok := strings.CutPrefix(strings.TrimSpace(line), "```"); ok {
			inBlock, shell, from = !inBlock, fence == "bash" || fence == "sh", ""
			continue
		}
		switch {
		case inBlock && shell:
			if rest, continued := strings.CutSuffix(line, `\`); continued {
				from += rest
				continue
			}
			for _, words := range shellCommands(from + line) {
				if message := tree.checkWords(words, false); message != "" {
					report(i+1, message)
				}
			}
			from = ""
		case !inBlock:
			for _, m := range inlineCode.FindAllStringSubmatch(line, -1) {
				for _, words := range shellCommands(strings.ReplaceAll(m[1], `\|`, "|")) {
					if message := tree.checkWords(words, true); message != "" {
						report(i+1, message)
					}
				}
			}
		}
	}
	return problems
}

// checkWords says what is wrong with one command; "" for nothing, and for
// commands of others. In running text a group of commands may be named alone.
func (tree *skillTree) checkWords(words []string, groupsToo bool) string {
	for len(words) > 0 && assignment.MatchString(words[0]) {
		words = words[1:]
	}
	if len(words) >= 3 && words[0] == "go" && words[1] == "run" {
		words = append([]string{path.Base(words[2])}, words[3:]...)
	}
	if len(words) < 2 {
		return ""
	}
	var root *cobra.Command
	switch name, next := path.Base(words[0]), words[1]; {
	case name == "make" && tree.targets != nil:
		return tree.checkMake(words[1:])
	case name == "ister" && next == "admin":
		root, words = cli.NewCommand(), words[2:]
	case name == "ister" && next == "scenario":
		root, words = NewCommand(), words[2:]
	case name == "scenario":
		root, words = NewCommand(), words[1:]
	case name == "ister" && !slices.Contains(mounted, next) && !strings.HasPrefix(next, "-"):
		return fmt.Sprintf("ister has no command %s", next)
	}
	if root == nil {
		root, words = tree.own(path.Base(words[0]), words[1:])
	}
	if root == nil || len(words) == 0 || slices.Contains([]string{"help", "completion"}, words[0]) || root.Name() == "scenario" && slices.Contains(mounted, words[0]) {
		return ""
	}
	return checkTree(root, words, groupsToo)
}

// own is the tree of the binary that checks, for a command that is one of its
// own: those of ister only when that binary is ister.
func (tree *skillTree) own(name string, words []string) (*cobra.Command, []string) {
	if tree.binary == nil || name != "ister" && name != "scenario" {
		return nil, words
	}
	root := tree.binary()
	if child, _, err := root.Find(words[:1]); err != nil || child == root {
		return nil, words
	}
	return root, words
}

func (tree *skillTree) checkMake(words []string) string {
	for _, w := range words {
		if strings.HasPrefix(w, "-") || strings.ContainsAny(w, "=$") || w == "…" {
			continue
		}
		if !tree.targets[w] {
			return "the Makefile has no target " + w
		}
	}
	return ""
}

// checkTree resolves a command, its flags with their values, and the number of
// its arguments.
func checkTree(root *cobra.Command, words []string, groupsToo bool) string {
	line := root.Name() + " " + strings.Join(words, " ")
	cmd, rest, err := root.Find(words)
	if err != nil || cmd.HasSubCommands() && !(groupsToo && len(rest) == 0) {
		return fmt.Sprintf("there is no command `%s`", line)
	}
	if cmd.HasSubCommands() {
		return ""
	}
	var arguments []string
	for i := 0; i < len(rest); i++ {
		word := rest[i]
		if len(word) < 2 || word[0] != '-' {
			arguments = append(arguments, word)
			continue
		}
		name, value, given := strings.Cut(strings.TrimLeft(word, "-"), "=")
		flag := lookupFlag(cmd, word, name)
		if flag == nil {
			return fmt.Sprintf("`%s` has no flag %s", cmd.CommandPath(), word)
		}
		if !given && flag.NoOptDefVal == "" {
			if i++; i == len(rest) {
				return fmt.Sprintf("`%s`: flag %s needs a value", line, word)
			}
			value, given = rest[i], true
		}
		if !given {
			value = flag.NoOptDefVal // of a switch: what it is set to by its name alone
		}
		if !open(value) {
			if err := flag.Value.Set(value); err != nil {
				return fmt.Sprintf("`%s`: flag %s: %v", line, word, err)
			}
		}
	}
	if groupsToo && len(arguments) == 0 {
		return "" // named in running text
	}
	if slices.ContainsFunc(arguments, func(a string) bool { return strings.HasPrefix(a, "$") }) {
		return "" // a variable may hold flags, and any number of them
	}
	if err := cmd.ValidateArgs(arguments); err != nil {
		return err.Error()
	}
	if root.Name() == "scenario" && slices.Contains([]string{"run", "show", "plan"}, cmd.Name()) && plainWord.MatchString(arguments[0]) && !slices.Contains(shippedNames(), arguments[0]) {
		return fmt.Sprintf("`%s`: there is no scenario %s", line, arguments[0])
	}
	return ""
}

func lookupFlag(cmd *cobra.Command, word, name string) *pflag.Flag {
	for _, set := range []*pflag.FlagSet{cmd.Flags(), cmd.InheritedFlags()} {
		flag := set.Lookup(name)
		if !strings.HasPrefix(word, "--") {
			flag = nil
			if len(name) == 1 {
				flag = set.ShorthandLookup(name)
			}
		}
		if flag != nil {
			return flag
		}
	}
	return nil
}

// open values stand for something else.
func open(value string) bool {
	return strings.Contains(value, "$") || strings.Contains(value, openWord) || capitals.MatchString(value)
}

// openWord replaces <what a reader fills in>, which a shell would take for
// redirections.
const openWord = "OPEN"

// shellCommands splits one line of shell into its commands, those in $(...)
// included. It knows quotes, comments, separators and redirections; nothing else
// is needed to find which command is called.
func shellCommands(line string) [][]string {
	l := &shellLine{text: placeholder.ReplaceAllString(line, openWord)}
	l.scan()
	return l.commands
}

type shellLine struct {
	text     string
	commands [][]string
	words    []string
	word     strings.Builder
	started  bool
	skip     bool // the next word is the target of a redirection
}

// endWord closes the current word. Words that only open a block are dropped.
func (l *shellLine) endWord() {
	if !l.started {
		return
	}
	word := l.word.String()
	l.word.Reset()
	l.started = false
	switch {
	case l.skip:
		l.skip = false
	case len(l.words) == 0 && slices.Contains([]string{"do", "then", "else", "if", "while", "!", "{", "(", "done", "fi", "time", "sudo"}, word):
	default:
		l.words = append(l.words, word)
	}
}

func (l *shellLine) endCommand() {
	l.endWord()
	if len(l.words) > 0 {
		l.commands = append(l.commands, l.words)
	}
	l.words, l.skip = nil, false
}

func (l *shellLine) scan() {
	for i := 0; i < len(l.text); i++ {
		c := l.text[i]
		switch {
		case c == '\'' || c == '"':
			end := strings.IndexByte(l.text[i+1:], c)
			if end < 0 {
				end = len(l.text) - i - 1
			}
			l.started = true
			l.word.WriteString(l.text[i+1 : i+1+end])
			i += end + 1
		case c == '$' && strings.HasPrefix(l.text[i:], "$("):
			end := closing(l.text, i+1)
			if !strings.HasPrefix(l.text[i:], "$((") {
				l.commands = append(l.commands, shellCommands(l.text[i+2:min(end, len(l.text))])...)
			}
			l.started = true
			l.word.WriteString("$OPEN")
			i = end
		case c == '#' && !l.started:
			l.endCommand()
			return
		case c == ' ' || c == '\t':
			l.endWord()
		case c == '>' || c == '<':
			l.word.Reset() // a file descriptor, as in 2>
			l.started, l.skip = false, true
			for i+1 < len(l.text) && (l.text[i+1] == '>' || l.text[i+1] == '&') {
				i++
			}
		case c == ';' || c == '|' || c == '&' || c == '(' || c == ')':
			l.endCommand()
		default:
			l.started = true
			l.word.WriteByte(c)
		}
	}
	l.endCommand()
}

// closing is the index of the ) that closes the ( at open, or the length.
func closing(text string, open int) int {
	depth := 0
	for i := open; i < len(text); i++ {
		switch text[i] {
		case '(':
			depth++
		case ')':
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return len(text)
}
