package spec

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// fakeVerbs are the verbs that the tests of this package know.
type fakeVerbs map[string]Signature

func (f fakeVerbs) Signature(name string) (Signature, bool) { s, ok := f[name]; return s, ok }
func (f fakeVerbs) Names() []string                         { return []string{"look.at", "thing.make"} }

type makeInputs struct {
	Name  string        `json:"name" required:"true"`
	Count int64         `json:"count" default:"1" min:"1" max:"9"`
	Class string        `json:"class" default:"plain" enum:"plain|fancy"`
	Tags  []string      `json:"tags"`
	Pause time.Duration `json:"pause" default:"1s"`
	After StepID        `json:"after"`
}

type makeOutputs struct {
	ID    int64    `json:"id"`
	Names []string `json:"names"`
	Ratio float64  `json:"ratio"`
	Good  bool     `json:"good"`
}

var verbs = fakeVerbs{
	"thing.make": {Name: "thing.make", Risk: Additive, Inputs: TypeOf(makeInputs{}), Outputs: TypeOf(makeOutputs{})},
	"look.at":    {Name: "look.at", Risk: ReadOnly, Inputs: TypeOf(struct{}{}), Outputs: TypeOf(makeOutputs{}), Pollable: true},
}

const good = `apiVersion: scenario/v1
id: sample
title: A sample
description: It has one of everything.
risk: additive
setups: [process]
deadline: 2m
cluster: {brokers: 3}
params:
  many: {type: int, default: 4, min: 1, max: 9, doc: how many}
  bound: {type: float, default: 0.25, max: 1, doc: a bound}
setup:
  - {id: first, use: thing.make, with: {name: "t-${run.id}", count: "${params.many / 2}"}}
aspects:
  - id: one
    title: One
    steps:
      - {id: again, use: thing.make, with: {name: "${first.names[0]}", tags: "${first.names}", pause: 200ms, after: first}}
      - id: look
        use: look.at
        until: {path: id, op: ">=", value: "${again.id + 1}", every: 10ms, within: 2s, stable: 3}
    guards:
      - {id: seen, title: seen, metric: look.good, op: "==", value: true}
    criteria:
      - {id: ratio, title: ratio, metric: look.ratio, op: "<", value: "${params.bound}", detail: "id ${look.id}"}
      - {id: range, title: range, metric: look.names, op: excludes, value: "0..${params.many - 1}"}
  - id: two
    title: Two
    needs: [one]
    steps:
      - {id: third, use: thing.make, with: {name: "${look.id}"}}
    criteria:
      - {id: both, title: both, metric: third.id + look.id, op: "!=", value: 0}
always:
  - {id: last, use: look.at}
`

const goodFile = "scenarios/sample/scenario.yaml"

func TestParseGoodScenario(t *testing.T) {
	s, err := Parse(goodFile, []byte(good), verbs)
	if err != nil {
		t.Fatal(err)
	}
	if s.ID != "sample" || s.Brokers != 3 || s.Deadline != 2*time.Minute || len(s.Aspects) != 2 || len(s.Always) != 1 {
		t.Fatalf("parsed %+v", s)
	}
	values := Values{
		"params": map[string]any{"many": int64(4), "bound": 0.25}, "run": map[string]any{"id": "r1", "seed": int64(1)},
		"first": map[string]any{"names": []any{"a", "b"}}, "again": map[string]any{"id": int64(7)}, "look": map[string]any{"id": int64(9), "ratio": 0.2},
		"third": map[string]any{"id": int64(-9)},
	}
	for _, c := range []struct {
		template *Template
		want     any
	}{
		{s.Setup[0].With["name"], "t-r1"},
		{s.Setup[0].With["count"], int64(2)},
		{s.Aspects[0].Steps[0].With["name"], "a"},
		{s.Aspects[0].Steps[0].With["pause"], 200 * time.Millisecond},
		{s.Aspects[0].Steps[1].Until.Value, int64(8)},
		{s.Aspects[0].Criteria[0].Detail, "id 9"},
		{s.Aspects[0].Criteria[1].Value, "0..3"},
		{s.Aspects[1].Steps[0].With["name"], "9"},
		{s.Aspects[1].Criteria[0].Metric, int64(0)},
	} {
		if got, err := c.template.Eval(values); err != nil || got != c.want {
			t.Errorf("%s is %v (%v), want %v", c.template, got, err, c.want)
		}
	}
}

func TestStagesRunNeedsWithoutJudgingThem(t *testing.T) {
	s, err := Parse(goodFile, []byte(good), verbs)
	if err != nil {
		t.Fatal(err)
	}
	text := func(stages []Stage) string {
		var words []string
		for _, stage := range stages {
			word := stage.Aspect.ID
			if stage.Judged {
				word += "!"
			}
			words = append(words, word)
		}
		return strings.Join(words, " ")
	}
	for _, c := range []struct {
		chosen []string
		want   string
	}{{nil, "one! two!"}, {[]string{"two"}, "one two!"}, {[]string{"one"}, "one!"}, {[]string{"two", "one"}, "one! two!"}} {
		if got := text(s.Stages(c.chosen)); got != c.want {
			t.Errorf("%v: %s, want %s", c.chosen, got, c.want)
		}
	}
}

// Each case changes one line of the good scenario; the problem must be at the
// place and in the words given.
func TestParseRefusesMistakesWithTheirPlace(t *testing.T) {
	for _, c := range []struct{ name, old, new, want string }{
		{"unknown key", "title: A sample", "titel: A sample", `sample/scenario.yaml:3:1: scenario: unknown key "titel" (did you mean title?)`},
		{"missing key", "title: A sample\n", "", `:1:1: scenario: key "title" is missing`},
		{"repeated key", "title: A sample", "title: A\ntitle: B", `:4:1: scenario: key "title" is repeated`},
		{"other version", "scenario/v1", "scenario/v2", `:1:13: apiVersion scenario/v2 is not supported (this build reads scenario/v1)`},
		{"id is not the directory", "id: sample", "id: other", `:2:5: id other is not the directory name sample`},
		{"bad id", "id: sample", "id: Sample_1", `id "Sample_1" must be lower-case words`},
		{"unknown risk", "risk: additive", "risk: aditive", `:5:7: "aditive" is not allowed here (did you mean additive?)`},
		{"bad duration", "deadline: 2m", "deadline: 2", `:7:11: "2" is not a duration such as 200ms or 5s`},
		{"no brokers", "{brokers: 3}", "{brokers: 0}", `:8:20: "0" is not a whole number above zero`},
		{"mapping wanted", "cluster: {brokers: 3}", "cluster: 3", `:8:10: cluster: want a mapping, got "3"`},
		{"links that are no switch", "{brokers: 3}", "{brokers: 3, links: ture}", `:8:30: "ture" is not allowed here (did you mean true?)`},
		{"near a key of cluster", "{brokers: 3}", "{brokers: 3, link: true}", `:8:23: cluster: unknown key "link" (did you mean links?)`},
		{"disk without a unit", "{brokers: 3}", "{brokers: 3, disk: 128}", `:8:29: "128" is not a size such as 384MiB or 1GiB`},
		{"disk with another unit", "{brokers: 3}", "{brokers: 3, disk: 128MB}", `:8:29: "128MB" is not a size such as 384MiB or 1GiB`},
		{"disk too small", "{brokers: 3}", "{brokers: 3, disk: 383MiB}", `:8:29: a disk of 383MiB is out of bounds: at least 384MiB, since brokers keep a reserve of 256MiB, at most 64GiB`},
		{"disk beyond numbers", "{brokers: 3}", "{brokers: 3, disk: 9999999999999999999GiB}", `"9999999999999999999GiB" is too large`},
		{"param out of bounds", "default: 4,", "default: 40,", `:10:30: 40 is above the maximum 9`},
		{"empty title", "title: A sample", "title:", `:3:7: scenario: key "title" is empty`},
		{"empty id", "id: sample", "id:", `:2:4: scenario: key "id" is empty`},
		{"quoted empty id", "id: sample", `id: ""`, `:2:5: id "" must be lower-case words`},
		{"title that changes a terminal", "title: A sample", `title: "A \e[31m sample"`, `:3:8: "A \x1b[31m sample" has control characters`},
		{"tab", "  many:", "\tmany:", `(the line begins with a tab: indent with spaces)`},
		{"float out of bounds", "default: 0.25,", "default: 1.25,", `1.25 is above the maximum 1`},
		{"bounds the wrong way round", "min: 1, max: 9,", "min: 9, max: 1,", `1 is below min, which is 9`},
		{"bound of a text", "{type: float, default: 0.25, max: 1,", "{type: string, default: x, max: 1,", `max is for an int or a float, and bound is string`},
		{"enum of a number", "{type: float, default: 0.25, max: 1,", "{type: float, default: 0.25, enum: [a],", `enum is for a string, and bound is float`},
		{"duration below zero", "pause: 200ms", "pause: -200ms", `"-200ms" is not a duration`},
		{"param of another type", "default: 4,", "default: four,", `"four" is not an int`},
		{"unknown verb", "use: look.at\n        until", "use: look.ta\n        until", `no verb is called look.ta (did you mean look.at?)`},
		{"unknown input", "count: \"${params.many / 2}\"", "cuont: 1", `unknown key "cuont" (did you mean count?)`},
		{"missing input", `with: {name: "t-${run.id}", count`, `with: {count`, `:13:5: thing.make needs name (string)`},
		{"input of another type", `count: "${params.many / 2}"`, "count: two", `:13:69: "two" is not an int`},
		{"input out of bounds", `count: "${params.many / 2}"`, "count: 10", `count: 10 is above the maximum 9`},
		{"input not in the list", `count: "${params.many / 2}"`, "class: shiny", `"shiny" is not one of plain, fancy`},
		{"reference of another type", `count: "${params.many / 2}"`, `count: "${run.id}"`, `${run.id} is string, want int`},
		{"unresolved root", "${first.names[0]}", "${frist.names[0]}", `nothing here is called frist (did you mean first?)`},
		{"unresolved member", "${first.names[0]}", "${first.name[0]}", `first has no member name (did you mean names?)`},
		{"unknown parameter", "${params.many / 2}", "${params.mnay / 2}", `params has no member mnay (did you mean many?)`},
		{"not a list", "${first.names[0]}", "${first.id[0]}", `first.id is int, not a list`},
		{"no arithmetic on text", "${params.many / 2}", "${params.many / run.id}", `int / string has no meaning`},
		{"unclosed reference", "${first.names[0]}", "${first.names[0]", `missing } after ${`},
		{"bad expression", "${params.many / 2}", "${params.many ** 2}", `unexpected "*" in expression`},
		{"empty expression", "${params.many / 2}", "${}", `expression "" ends too early`},
		{"a later step", `{id: first, use: thing.make, with: {name: "t-${run.id}"`, `{id: first, use: thing.make, with: {name: "t-${again.id}"`, `nothing here is called again`},
		{"a step of another aspect", "needs: [one]\n    ", "", `step look belongs to aspect one and has not run here`},
		{"unknown need", "needs: [one]", "needs: [three]", `no earlier aspect three`},
		{"step used twice", "{id: third,", "{id: again,", `step id again is used twice in this file`},
		{"bad step id", "{id: third,", "{id: third-step,", `step id "third-step" must be`},
		{"after is no step", "after: first", "after: nobody", `nobody is not an earlier step`},
		{"until on a change", "- {id: last, use: look.at}", "- {id: last, use: thing.make, with: {name: x}, until: {path: id, op: \"==\", value: 1}}", `thing.make cannot be polled`},
		{"until beyond the timeout", "within: 2s", "within: 2m", `within 2m0s is not below the step's timeout 1m0s`},
		{"until on an unknown output", "path: id,", "path: idd,", `nothing here is called idd (did you mean id?)`},
		{"unknown operator", `op: "<", value: "${params.bound}"`, `op: "=<", value: "${params.bound}"`, `"=<" is not allowed here`},
		{"order of text", `metric: look.names, op: excludes`, `metric: look.names, op: "<"`, `< compares numbers, and look.names is list of string`},
		{"contains needs a list", `metric: look.good, op: "=="`, `metric: look.good, op: contains`, `contains needs a list, and look.good is bool`},
		{"criterion of another type", "metric: look.good, op: \"==\", value: true", "metric: look.good, op: \"==\", value: 3", `"3" is not true or false`},
		{"check used twice", "{id: range,", "{id: ratio,", `check id ratio is used twice in this aspect`},
		{"no criterion", "criteria:\n      - {id: both, title: both, metric: third.id + look.id, op: \"!=\", value: 0}", "criteria: []", `an aspect needs at least one criterion`},
		{"alias", "title: A sample", "title: &a A sample\ndescription: *a", `YAML aliases are not supported`},
		{"second document", "always:", "---\nalways:", `a second YAML document follows`},
		{"not YAML", "params:", "params: [", `:8:1: did not find expected`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if strings.Count(good, c.old) == 0 {
				t.Fatalf("the good scenario has no %q", c.old)
			}
			_, err := Parse(goodFile, []byte(strings.Replace(good, c.old, c.new, 1)), verbs)
			var problems Problems
			if !errors.As(err, &problems) {
				t.Fatalf("no problems: %v", err)
			}
			if !strings.Contains(problems.Error(), c.want) {
				t.Fatalf("got:\n%s\nwant: %s", problems.Error(), c.want)
			}
		})
	}
}

func TestParseReportsAllMistakesInOrder(t *testing.T) {
	source := strings.NewReplacer("risk: additive", "risk: none", "many: {type: int", "many: {type: integer", "use: look.at}", "use: look}").Replace(good)
	_, err := Parse(goodFile, []byte(source), verbs)
	var problems Problems
	if !errors.As(err, &problems) || len(problems) < 3 {
		t.Fatalf("got %v", err)
	}
	for i := 1; i < len(problems); i++ {
		if problems[i].Line < problems[i-1].Line {
			t.Fatalf("problems are not in order:\n%v", problems)
		}
	}
}

func TestParseRefusesHostileFiles(t *testing.T) {
	for name, source := range map[string]string{
		"empty": "", "scalar": "hello", "list": "- 1", "large": strings.Repeat("#", SourceBytesMax+1),
		"deep": strings.Replace(good, "${params.many / 2}", "${"+strings.Repeat("(", 5000)+"1"+strings.Repeat(")", 5000)+"}", 1),
	} {
		if _, err := Parse(goodFile, []byte(source), verbs); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(good)
	f.Add("aspects: [{id: a, criteria: [{}]}]")
	f.Add("params: {a: {type: [}}")
	f.Fuzz(func(t *testing.T, source string) {
		s, err := Parse(goodFile, []byte(source), verbs)
		if (s == nil) == (err == nil) {
			t.Fatalf("scenario %v and error %v", s, err)
		}
	})
}

// TestParametersThatAShellRunsAreMarked: alone, in the middle of a text, and not
// those beside it.
func TestParametersThatAShellRunsAreMarked(t *testing.T) {
	type runInputs struct {
		Command string `json:"command" shell:"true"`
		Where   string `json:"where"`
	}
	known := fakeVerbs{"shell.run": {Name: "shell.run", Risk: Destructive, Inputs: TypeOf(runInputs{})}, "look.at": verbs["look.at"]}
	for command, want := range map[string]string{`"${params.cmd}"`: "cmd", `"echo ${ params.cmd } ${params.more}"`: "cmd more", `"date"`: "", `"params.cmd"`: "cmd"} {
		s, err := Parse(goodFile, []byte(`apiVersion: scenario/v1
id: sample
title: A sample
description: It runs something.
risk: destructive
setups: [process]
cluster: {brokers: 1}
params:
  cmd: {type: string, default: "", doc: a command}
  more: {type: string, default: "", doc: more of it}
  place: {type: string, default: "", doc: no command}
setup:
  - {id: ran, use: shell.run, with: {command: `+command+`, where: "${params.place}"}}
aspects:
  - {id: one, title: One, steps: [{id: look, use: look.at}], criteria: [{id: id, title: id, metric: look.id, op: "==", value: 1}]}
`), known)
		if err != nil {
			t.Fatal(err)
		}
		marked := []string{}
		for _, p := range s.Params {
			if p.Shell {
				marked = append(marked, p.Name)
			}
		}
		if got := strings.Join(marked, " "); got != want {
			t.Errorf("%s: marked %q, want %q", command, got, want)
		}
	}
}

func TestResolveParams(t *testing.T) {
	s, err := Parse(goodFile, []byte(good), verbs)
	if err != nil {
		t.Fatal(err)
	}
	values, problems := s.ResolveParams(map[string]string{"many": "9"})
	if len(problems) > 0 || values["many"] != int64(9) || values["bound"] != 0.25 {
		t.Fatalf("%v %v", values, problems)
	}
	for given, want := range map[string]string{"mani=1": "unknown parameter mani (did you mean many?)", "many=x": "not an int", "many=0": "below the minimum 1", "bound=1.5": "1.5 is above the maximum 1", "bound=NaN": `"NaN" is not a number`, "bound=-inf": "is not a number", "=1": `unknown parameter ""`} {
		name, value, _ := strings.Cut(given, "=")
		if _, problems := s.ResolveParams(map[string]string{name: value}); !strings.Contains(problems.Error(), want) {
			t.Errorf("%s: got %v, want %s", given, problems, want)
		}
	}
}

func TestCompareAndFormat(t *testing.T) {
	for _, c := range []struct {
		op   string
		a, b any
		want bool
	}{
		{"==", int64(3), 3.0, true}, {"<", 0.2, 0.25, true}, {"<", nil, 0.25, false}, {">=", int64(2), int64(2), true}, {"!=", "a", "b", true},
		{"contains", []any{int64(1), int64(2)}, int64(2), true}, {"excludes", []any{int64(1)}, int64(2), true}, {"excludes", nil, int64(2), false},
		{"<=", 2 * time.Second, 3 * time.Second, true},
	} {
		if got, err := Compare(c.op, c.a, c.b); err != nil || got != c.want {
			t.Errorf("%v %s %v: %v, %v", c.a, c.op, c.b, got, err)
		}
	}
	if _, err := Compare("<", "a", "b"); err == nil {
		t.Error("text was ordered")
	}
	for value, want := range map[any]string{0.23570226: "0.2357", 3.0: "3", int64(7): "7", nil: "none", true: "true", 2 * time.Second: "2s"} {
		if got := Format(value); got != want {
			t.Errorf("Format(%v) is %q, want %q", value, got, want)
		}
	}
}
