package scenarios

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/ister-mq/ister/scenarios/internal/spec"
	"github.com/ister-mq/ister/scenarios/internal/verb"
)

// A generated block stands between two marker lines.
func blockBegin(name string) string {
	return "<!-- BEGIN " + name + " (scenario skills gen) -->"
}
func blockEnd(name string) string { return "<!-- END " + name + " -->" }

// skillBlocks are the blocks of a scenario's skill.
var skillBlocks = []struct {
	name string
	make func(*spec.Scenario) []string
}{
	{"criteria", criteriaBlock},
	{"steps", stepsBlock},
}

// topBlock is the table of the top skill that leads to every other.
const topBlock = "skills"

// topRows are the lines of that table: scenarios first, and then what else there
// is, each with the first sentence of its description.
func topRows(skills []skill) []string {
	lines := []string{"| What | Skill |", "|---|---|"}
	for _, scenario := range []bool{true, false} {
		for _, s := range skills {
			if s.file != skillFile && strings.HasPrefix(s.file, "scenarios/") == scenario {
				what, _, _ := strings.Cut(frontValue(s, "description"), ". ")
				lines = append(lines, fmt.Sprintf("| %s | `%s` |", cell(strings.TrimSuffix(what, ".")), s.file))
			}
		}
	}
	return lines
}

// toolNameMax bounds the name of a step's MCP tool, in bytes.
const toolNameMax = 48

// stepTool is the name of a step's MCP tool.
func stepTool(scenario, step string) string {
	return strings.ReplaceAll(scenario, "-", "_") + "_" + step
}

// findBlock returns the lines after the begin marker and of the end marker,
// counted from 0.
func findBlock(lines []string, name string) (first, end int, found bool) {
	first = -1
	for i, line := range lines {
		switch strings.TrimSpace(line) {
		case blockBegin(name):
			first = i + 1
		case blockEnd(name):
			if first >= 0 {
				return first, i, true
			}
		}
	}
	return 0, 0, false
}

// fillBlocks returns the skill's text with its blocks made anew. Skills without a
// scenario have none, but for the top one.
func (tree *skillTree) fillBlocks(s skill) (string, spec.Problems) {
	lines := strings.Split(s.text, "\n")
	var problems spec.Problems
	fill := func(name string, content []string) {
		first, end, found := findBlock(lines, name)
		if !found {
			problems = append(problems, s.problem(1, ruleSkillStale, "there is no generated block "+name, "add the lines "+blockBegin(name)+" and "+blockEnd(name)))
			return
		}
		lines = append(append(append([]string{}, lines[:first]...), content...), lines[end:]...)
	}
	switch {
	case s.scenario != nil:
		for _, b := range skillBlocks {
			fill(b.name, b.make(s.scenario))
		}
	case s.file == skillFile:
		fill(topBlock, topRows(tree.skills))
	}
	return strings.Join(lines, "\n"), problems
}

// checkBlocks compares the blocks with what they would be made to now.
func (tree *skillTree) checkBlocks(s skill) spec.Problems {
	want, problems := tree.fillBlocks(s)
	got, wanted := strings.Split(s.text, "\n"), strings.Split(want, "\n")
	for i := range wanted {
		if i >= len(got) || got[i] != wanted[i] {
			problems = append(problems, s.problem(i+1, ruleSkillStale, fmt.Sprintf("a generated block is not what it is made from now: want %s", wanted[i]), "run: scenario skills gen"))
			break
		}
	}
	if s.scenario == nil {
		return problems
	}
	for _, stage := range s.scenario.Stages(nil) {
		for _, step := range stage.Aspect.Steps {
			if tool := stepTool(s.scenario.ID, step.ID); len(tool) > toolNameMax {
				problems = append(problems, spec.Problem{File: s.scenario.File, Line: step.Line, Column: 1, Rule: spec.RuleName, Message: fmt.Sprintf("%s, the tool of this step, has more than %d characters", tool, toolNameMax), Hint: "shorten the step's id"})
			}
		}
	}
	return problems
}

// nested is <a <b> c>, which reads as <a b c>.
var nested = regexp.MustCompile(`<([^<>]*)<([^<>]*)>([^<>]*)>`)

var expression = regexp.MustCompile(`\$\{([^}]*)\}`)

// rendered is a template as a person reads it: with the parameters' defaults,
// and <what> for what only a run knows.
func rendered(s *spec.Scenario, t *spec.Template) string {
	params := map[string]any{}
	for _, f := range s.Params {
		params[f.Name] = f.Default
	}
	if value, err := t.Eval(spec.Values{"params": params}); err == nil {
		return spec.Format(value)
	}
	return expression.ReplaceAllString(t.String(), "<$1>")
}

// cell makes a text fit for a table.
func cell(text string) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(text), " "), "|", `\|`)
}

func code(text string) string {
	if text == "" {
		return ""
	}
	return "`" + text + "`"
}

// criteriaBlock is the table of criteria and the guards below it. Equal criteria
// of several aspects share a row, and so do those of one aspect that want the
// same.
func criteriaBlock(s *spec.Scenario) []string {
	type row struct{ titles, want, aspects string }
	var rows []*row
	find := func(same func(*row) bool) *row {
		for _, r := range rows {
			if same(r) {
				return r
			}
		}
		return nil
	}
	var guards []string
	for _, a := range s.Aspects {
		for _, c := range a.Criteria {
			title, want := cell(c.Title), c.Op+" "+rendered(s, c.Value)
			if r := find(func(r *row) bool { return r.titles == title && r.want == want }); r != nil {
				r.aspects += ", " + a.ID
				continue
			}
			rows = append(rows, &row{title, want, a.ID})
		}
		for _, g := range a.Guards {
			guards = append(guards, fmt.Sprintf("%s (`%s %s`)", cell(g.Title), g.Op, rendered(s, g.Value)))
		}
	}
	all := rows
	rows = nil
	for _, r := range all {
		if same := find(func(x *row) bool { return x.want == r.want && x.aspects == r.aspects }); same != nil {
			same.titles += "; " + r.titles
			continue
		}
		rows = append(rows, r)
	}
	lines := []string{"| Criterion | Want | Aspects |", "|---|---|---|"}
	for _, r := range rows {
		lines = append(lines, fmt.Sprintf("| %s | %s | %s |", r.titles, code(cell(r.want)), r.aspects))
	}
	if len(guards) > 0 {
		lines = append(lines, "", "Guards; one that is unmet makes the run inconclusive (exit code 3): "+strings.Join(guards, "; ")+".")
	}
	return lines
}

// stepsBlock is the table of steps. Neighbours share a row when only the runner
// can do them, and when nothing is said about what they should give.
func stepsBlock(s *spec.Scenario) []string {
	lines := []string{"| Step | Command | MCP tool | Expect | Otherwise |", "|---|---|---|---|---|"}
	add := func(stage string, steps []*spec.Step) {
		if len(steps) > 0 {
			lines = append(lines, fmt.Sprintf("| **%s** | | | | |", stage))
		}
		for i := 0; i < len(steps); {
			group := steps[i : i+1]
			for len(group) < len(steps)-i && kindOf(s, steps[i]) != "" && kindOf(s, steps[i]) == kindOf(s, steps[i+len(group)]) {
				group = steps[i : i+len(group)+1]
			}
			i += len(group)
			lines = append(lines, stepRow(s, group))
		}
	}
	add("setup", s.Setup)
	for _, a := range s.Aspects {
		add(a.ID, a.Steps)
	}
	return lines
}

// kindOf is equal for steps that may share a row, and empty for one that may not.
func kindOf(s *spec.Scenario, step *spec.Step) string {
	switch {
	case runnerOnly(step):
		return "runner"
	case step.Otherwise == "" && len(expectations(s, step)) == 0:
		return "plain"
	}
	return ""
}

// runnerOnly: there is no command for it, so that its pattern is a description.
func runnerOnly(step *spec.Step) bool {
	v, _ := verb.Lookup(step.Use)
	return strings.HasPrefix(v.Command, "<") && strings.HasSuffix(v.Command, ">")
}

func stepRow(s *spec.Scenario, group []*spec.Step) string {
	var names, commands, tools, expects, otherwise []string
	for _, step := range group {
		title := step.ID
		if step.Title != "" {
			title += ": " + step.Title
		}
		names, tools = append(names, cell(title)), append(tools, code(stepTool(s.ID, step.ID)))
		if !runnerOnly(step) {
			commands = append(commands, code(cell(stepCommand(s, step))))
		}
		expects = append(expects, expectations(s, step)...)
		if step.Otherwise != "" {
			otherwise = append(otherwise, cell(step.Otherwise))
		}
	}
	if len(commands) == 0 {
		commands = []string{"the runner's own"}
	}
	columns := []string{strings.Join(names, "; "), strings.Join(commands, "; "), strings.Join(tools, ", "), strings.Join(expects, ", "), strings.Join(otherwise, "; ")}
	return "| " + strings.Join(columns, " | ") + " |"
}

func stepCommand(s *spec.Scenario, step *spec.Step) string {
	v, _ := verb.Lookup(step.Use)
	line := v.CommandLine(func(name string) (string, bool) {
		if t, ok := step.With[name]; ok {
			return rendered(s, t), true
		}
		if f, ok := step.Verb.Inputs.Field(name); ok && f.Default != nil {
			return spec.Format(f.Default), true
		}
		return "", false
	})
	return nested.ReplaceAllString(line, "<$1$2$3>")
}

// expectations are what the step waits for, and what the checks want of it.
func expectations(s *spec.Scenario, step *spec.Step) []string {
	var out []string
	seen := map[string]bool{}
	add := func(text, within string) {
		if !seen[text] {
			seen[text] = true
			out = append(out, code(cell(text+within)))
		}
	}
	if u := step.Until; u != nil {
		add(fmt.Sprintf("%s %s %s", u.Path, u.Op, rendered(s, u.Value)), " within "+u.Within.String())
	}
	root := regexp.MustCompile(`\b` + step.ID + `\.`)
	for _, a := range s.Aspects {
		for _, c := range append(append([]*spec.Check{}, a.Guards...), a.Criteria...) {
			if root.MatchString(c.Metric.String()) {
				add(fmt.Sprintf("%s %s %s", root.ReplaceAllString(c.Metric.String(), ""), c.Op, rendered(s, c.Value)), "")
			}
		}
	}
	return out
}
