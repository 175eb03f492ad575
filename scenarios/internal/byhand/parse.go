package byhand

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

const (
	section     = "## By hand"
	expectWord  = "expect:"
	needsWord   = "needs="
	withinMax   = 5 * time.Minute
	exitMax     = 255
	fenceMarker = "```"
)

// Block is one shell block below "## By hand".
type Block struct {
	Number int      // line of its fence in the file
	Needs  []string // what the machine must have, beside the binaries and kcat, jq, curl
	Lines  []Line
}

// Line is one command.
type Line struct {
	Number  int // line in the file; of several, the first
	Command string
	Expect  Expectation
}

// Expectation is what a command is said to give.
type Expectation struct {
	Texts  []string      // each is printed, on one line
	Exit   int           // exit status
	Within time.Duration // the command is repeated until it holds; 0: it is run once
}

// Background lines go on beside those that follow.
func (l Line) Background() bool { return strings.HasSuffix(l.Command, "&") }

// States reports whether the skill says what the line gives: in words, or as the
// condition of a jq -e or a test.
func (l Line) States() bool {
	return len(l.Expect.Texts) > 0 || l.Expect.Exit != 0 || condition.MatchString(l.Command)
}

var condition = regexp.MustCompile(`(^|[|;&]\s*)(jq -e|test |\[ |cmp |diff |grep )`)

// Mistake is something in a skill that cannot be tried as it stands.
type Mistake struct {
	Number  int
	Message string
	Hint    string
}

// needKinds are the words after needs= that are no names of programs.
const (
	NeedDocker = "docker" // a Docker engine that answers, and this machine's network
	NeedSource = "source" // the source tree: the block's lines run at its top
	needModule = "python:"
)

var needName = regexp.MustCompile(`^(python:)?[a-zA-Z][\w.+-]*$`)

// Parse reads a skill. Lines of its section "## By hand" are commands when they
// stand in a bash block; a line that ends with \ goes on in the next.
func Parse(text string) ([]Block, []Mistake) {
	p := &parser{}
	for i, line := range strings.Split(text, "\n") {
		p.line(i+1, line)
	}
	return p.blocks, p.mistakes
}

type parser struct {
	blocks   []Block
	mistakes []Mistake
	within   bool // the section
	fenced   bool
	shell    bool // the fence is of a shell
	from     string
	began    int // the line that from begins on
}

func (p *parser) line(number int, line string) {
	trimmed := strings.TrimSpace(line)
	if strings.HasPrefix(trimmed, fenceMarker) {
		if p.fenced = !p.fenced; p.fenced {
			p.fence(number, strings.Fields(trimmed[len(fenceMarker):]))
		}
		return
	}
	switch {
	case !p.fenced:
		if strings.HasPrefix(line, "## ") {
			p.within = trimmed == section
		}
		return
	case !p.within || !p.shell:
		return
	}
	if p.from == "" {
		p.began = number
	}
	if rest, more := strings.CutSuffix(line, `\`); more {
		p.from += rest
		return
	}
	command, remark := splitRemark(p.from + line)
	p.from = ""
	p.command(p.began, command, remark)
}

// fence opens a block. Its words are the language and what it needs.
func (p *parser) fence(number int, words []string) {
	p.shell, p.from = len(words) > 0 && (words[0] == "bash" || words[0] == "sh"), ""
	if !p.within || !p.shell {
		return
	}
	block := Block{Number: number}
	for _, word := range words[1:] {
		list, ok := strings.CutPrefix(word, needsWord)
		if !ok {
			p.mistake(number, fmt.Sprintf("the block's word %q is not known", word), "needs=WORD,WORD")
			continue
		}
		for _, need := range strings.Split(list, ",") {
			if !needName.MatchString(need) {
				p.mistake(number, fmt.Sprintf("needs=%s: %q is no need", list, need), "docker, source, the name of a program, or python:MODULE")
				continue
			}
			block.Needs = append(block.Needs, need)
		}
	}
	p.blocks = append(p.blocks, block)
}

func (p *parser) command(number int, command, remark string) {
	block := &p.blocks[len(p.blocks)-1]
	stated, states := strings.CutPrefix(remark, expectWord)
	var expect Expectation
	if states {
		var problem string
		if expect, problem = parseExpectation(stated); problem != "" {
			p.mistake(number, "expect: "+problem, "# expect: TEXT; TEXT; exit N; within 30s")
			return
		}
	}
	switch {
	case command == "" && !states:
	case command == "" && len(block.Lines) == 0:
		p.mistake(number, "expect: there is no command above it in this block", "")
	case command == "": // a remark of its own belongs to the command above
		block.Lines[len(block.Lines)-1].Expect = expect
	default:
		block.Lines = append(block.Lines, Line{number, command, expect})
	}
}

func (p *parser) mistake(number int, message, hint string) {
	p.mistakes = append(p.mistakes, Mistake{number, message, hint})
}

// parseExpectation reads "TEXT; TEXT; exit N; within D".
func parseExpectation(stated string) (e Expectation, problem string) {
	for _, part := range strings.Split(stated, ";") {
		part = strings.Join(strings.Fields(part), " ")
		if status, ok := strings.CutPrefix(part, "exit "); ok {
			code, err := strconv.Atoi(status)
			if err != nil || code < 0 || code > exitMax {
				return e, fmt.Sprintf("exit %s is not a status from 0 to %d", status, exitMax)
			}
			e.Exit = code
			continue
		}
		if rest, within, ok := cutWithin(part); ok {
			limit, err := time.ParseDuration(within)
			if err != nil || limit <= 0 || limit > withinMax {
				return e, fmt.Sprintf("within %s is not a duration up to %s", within, withinMax)
			}
			e.Within, part = limit, rest
			if part == "" {
				continue
			}
		}
		if part == "" {
			return e, "it states nothing"
		}
		e.Texts = append(e.Texts, part)
	}
	return e, ""
}

// cutWithin takes "within D" off the end of a text.
func cutWithin(text string) (rest, within string, ok bool) {
	if within, ok = strings.CutPrefix(text, "within "); ok {
		return "", within, true
	}
	if at := strings.LastIndex(text, " within "); at >= 0 {
		if within = text[at+len(" within "):]; within != "" && within[0] >= '0' && within[0] <= '9' {
			return text[:at], within, true
		}
	}
	return text, "", false
}

// splitRemark parts a line of shell into the command and the text of its
// comment. It knows quotes; a # begins a comment at the start of a word only.
func splitRemark(line string) (command, remark string) {
	quote, word := byte(0), false
	for i := 0; i < len(line); i++ {
		c := line[i]
		switch {
		case quote != 0:
			if c == '\\' && quote == '"' {
				i++
			} else if c == quote {
				quote = 0
			}
			continue
		case c == '\\':
			i++
		case c == '\'' || c == '"':
			quote = c
		case c == '#' && !word:
			return strings.TrimSpace(line[:i]), strings.TrimSpace(line[i+1:])
		}
		word = c != ' ' && c != '\t' && c != ';' && c != '&' && c != '|' && c != '('
	}
	return strings.TrimSpace(line), ""
}
