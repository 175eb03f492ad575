package spec

import (
	"fmt"
	"sort"
	"strings"
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

// Suggest returns "did you mean X?" for the nearest known word, or the list of
// known words when none is near and the list is short.
func Suggest(word string, known []string) string {
	best, bestDistance := "", len(word)/2+2
	for _, k := range known {
		if d := distance(word, k); d < bestDistance {
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

// distance is the Levenshtein distance between two words.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diagonal := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			above := row[j]
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(row[j]+1, row[j-1]+1, diagonal+cost)
			diagonal = above
		}
	}
	return row[len(b)]
}
