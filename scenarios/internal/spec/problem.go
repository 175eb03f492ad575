package spec

import (
	"fmt"
	"sort"
	"strconv"
	"strings"
	"unicode"
)

// Rule is the sort of a mistake: a stable word for tools.
type Rule string

// The rules.
const (
	RuleYAML        Rule = "yaml"
	RuleVersion     Rule = "version"
	RuleUnknownKey  Rule = "unknown-key"
	RuleRepeated    Rule = "repeated"
	RuleMissing     Rule = "missing"
	RuleName        Rule = "name"
	RuleType        Rule = "type"
	RuleValue       Rule = "value"
	RuleUnknownVerb Rule = "unknown-verb"
	RuleReference   Rule = "reference"
	RuleExpression  Rule = "expression"
	RulePoll        Rule = "poll"
	RuleTimeout     Rule = "timeout"
	RuleVacuous     Rule = "vacuous"
	RuleAbility     Rule = "ability"
)

// Rules describes every rule, in the order of the constants.
var Rules = []struct {
	Rule Rule
	Doc  string
}{
	{RuleYAML, "The file is not one plain YAML document."},
	{RuleVersion, "The format version is not one that this build reads."},
	{RuleUnknownKey, "A key is not part of the format."},
	{RuleRepeated, "A key or an id is there twice."},
	{RuleMissing, "A required key or input is not there."},
	{RuleName, "An id is not of the required shape."},
	{RuleType, "A value is of the wrong type."},
	{RuleValue, "A value is not allowed here."},
	{RuleUnknownVerb, "A step uses a verb that does not exist."},
	{RuleReference, "A step or an aspect that is named does not come earlier."},
	{RuleExpression, "An expression cannot be read, or refers to nothing."},
	{RulePoll, "A step that changes something is polled."},
	{RuleTimeout, "A poll may outlast its step."},
	{RuleVacuous, "Nothing would be judged."},
	{RuleAbility, "A setup that is listed cannot do what a step needs."},
}

// Problem is one mistake in a scenario file, at a place a person can jump to.
type Problem struct {
	File    string `json:"file"`
	Line    int    `json:"line"`
	Column  int    `json:"column"`
	Rule    Rule   `json:"rule,omitempty"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
}

// String is "file:line:column: message (hint)".
func (p Problem) String() string {
	text := fmt.Sprintf("%s:%d:%d: %s", p.File, p.Line, p.Column, p.Message)
	if p.Line == 0 { // a flag, or a file as a whole
		text = p.File + ": " + p.Message
	}
	if p.Hint != "" {
		text += " (" + p.Hint + ")"
	}
	return text
}

// Problems is every mistake found in one file, in file order. It is an error.
type Problems []Problem

// Error lists the problems, one a line.
func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

func (ps Problems) sorted() Problems {
	sort.SliceStable(ps, func(i, j int) bool {
		if ps[i].Line != ps[j].Line {
			return ps[i].Line < ps[j].Line
		}
		return ps[i].Column < ps[j].Column
	})
	return ps
}

// suggestMax bounds a word for which a near one is looked for.
const suggestMax = 64

// Suggest returns "did you mean X?" for the nearest known word, or the list of
// known words when none is near and the list is short.
func Suggest(word string, known []string) string {
	best, bestDistance := "", max(1, (len(word)+1)/3)+1 // a third of the word may be wrong
	for _, k := range known {
		if len(word) > suggestMax {
			break
		}
		d := distance(word, k)
		if len(word) > 1 && strings.HasPrefix(k, word) {
			d = 1
		}
		if d < bestDistance {
			best, bestDistance = k, d
		}
	}
	if best != "" {
		return "did you mean " + best + "?"
	}
	if len(known) > 0 && len(known) <= 12 {
		return "known: " + strings.Join(known, ", ")
	}
	return ""
}

// Choice is "a, b or c".
func Choice(words []string) string {
	last := len(words) - 1
	if last < 1 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// Named is a word for the middle of a sentence: as it is, or in quotes where it
// would be lost there.
func Named(word string) string {
	if word == "" || strings.ContainsFunc(word, func(r rune) bool { return !unicode.IsGraphic(r) || unicode.IsSpace(r) }) {
		return strconv.Quote(word)
	}
	return word
}

// distance counts the letters to put in, take out, change or swap with their
// neighbour to make one word of another.
func distance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}
