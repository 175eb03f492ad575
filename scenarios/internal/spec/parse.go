package spec

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"gopkg.in/yaml.v3"

	"github.com/ister-mq/ister/setups"
)

// SourceBytesMax bounds a scenario file: a larger one is not parsed.
const SourceBytesMax = 1 << 20

var (
	scenarioID = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)
	stepID     = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)
	yamlLine   = regexp.MustCompile(`line (\d+)`)
)

// Parse reads one scenario file. The error is Problems: every mistake with its
// place. file is <directory>/scenario.yaml; the directory must be the id.
func Parse(file string, source []byte, verbs Verbs) (*Scenario, error) {
	r := &reader{file: file, verbs: verbs, steps: map[string]*Step{}}
	root := r.document(source)
	if root == nil {
		return nil, r.problems
	}
	s := r.scenario(root)
	s.File, s.Source = file, source
	if dir := path.Base(path.Dir(file)); s.ID != "" && dir != "." && dir != s.ID {
		r.problem(r.field(root, "id"), RuleName, fmt.Sprintf("id %s is not the directory name %s", s.ID, dir), "")
	}
	if len(r.problems) > 0 {
		return nil, r.problems.sorted()
	}
	return s, nil
}

// reader walks the YAML nodes and collects problems instead of stopping.
type reader struct {
	file     string
	verbs    Verbs
	problems Problems
	params   Type
	limits   setups.Limits    // of the cluster section
	steps    map[string]*Step // every step by id, for duplicate ids
	homes    map[string]string
}

func (r *reader) problem(node *yaml.Node, rule Rule, message, hint string) {
	p := Problem{File: r.file, Line: 1, Column: 1, Rule: rule, Message: message, Hint: hint}
	if node != nil {
		p.Line, p.Column = node.Line, node.Column
	}
	r.problems = append(r.problems, p)
}

func (r *reader) document(source []byte) *yaml.Node {
	if len(source) > SourceBytesMax {
		r.problem(nil, RuleYAML, fmt.Sprintf("file is larger than %d bytes", SourceBytesMax), "")
		return nil
	}
	decoder := yaml.NewDecoder(bytes.NewReader(source))
	var doc, second yaml.Node
	if err := decoder.Decode(&doc); err != nil {
		message := strings.TrimPrefix(err.Error(), "yaml: ")
		if errors.Is(err, io.EOF) {
			message = "file is empty"
		}
		line := 1
		if m := yamlLine.FindStringSubmatch(message); m != nil {
			line, _ = strconv.Atoi(m[1])
			message = strings.TrimPrefix(message, m[0]+": ")
		}
		hint := ""
		if lines := strings.Split(string(source), "\n"); line <= len(lines) && strings.HasPrefix(strings.TrimLeft(lines[line-1], " "), "\t") {
			hint = "the line begins with a tab: indent with spaces"
		}
		r.problems = append(r.problems, Problem{File: r.file, Line: line, Column: 1, Rule: RuleYAML, Message: message, Hint: hint})
		return nil
	}
	if err := decoder.Decode(&second); !errors.Is(err, io.EOF) {
		r.problem(&second, RuleYAML, "one scenario a file: a second YAML document follows", "")
		return nil
	}
	if alias := findAlias(&doc); alias != nil {
		r.problem(alias, RuleYAML, "YAML aliases are not supported", "write the value out")
		return nil
	}
	root := doc.Content[0]
	if root.Kind != yaml.MappingNode {
		r.problem(root, RuleType, "want a mapping, got "+nodeKind(root), "")
		return nil
	}
	return root
}

func findAlias(node *yaml.Node) *yaml.Node {
	if node.Kind == yaml.AliasNode {
		return node
	}
	for _, child := range node.Content {
		if found := findAlias(child); found != nil {
			return found
		}
	}
	return nil
}

func nodeKind(node *yaml.Node) string {
	switch node.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	default:
		return fmt.Sprintf("%q", node.Value)
	}
}

// members reads a mapping with exactly the known keys. Unknown and repeated keys
// and missing required ones (marked "!") are problems.
func (r *reader) members(node *yaml.Node, what string, known ...string) map[string]*yaml.Node {
	out := map[string]*yaml.Node{}
	if node.Kind != yaml.MappingNode {
		r.problem(node, RuleType, fmt.Sprintf("%s: want a mapping, got %s", what, nodeKind(node)), "")
		return out
	}
	names := make([]string, len(known))
	for i, k := range known {
		names[i] = strings.TrimSuffix(k, "!")
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		key := node.Content[i]
		switch {
		case !slices.Contains(names, key.Value):
			r.problem(key, RuleUnknownKey, fmt.Sprintf("%s: unknown key %q", what, key.Value), Suggest(key.Value, names))
		case out[key.Value] != nil:
			r.problem(key, RuleRepeated, fmt.Sprintf("%s: key %q is repeated", what, key.Value), "")
		default:
			out[key.Value] = node.Content[i+1]
		}
	}
	for _, k := range known {
		name, required := strings.CutSuffix(k, "!")
		switch value := out[name]; {
		case required && value == nil:
			r.problem(node, RuleMissing, fmt.Sprintf("%s: key %q is missing", what, name), "")
		case required && value.Kind == yaml.ScalarNode && value.Style == 0 && strings.TrimSpace(value.Value) == "":
			r.problem(value, RuleMissing, fmt.Sprintf("%s: key %q is empty", what, name), "")
		}
	}
	return out
}

func (r *reader) field(node *yaml.Node, key string) *yaml.Node {
	for i := 0; i+1 < len(node.Content); i += 2 {
		if node.Content[i].Value == key {
			return node.Content[i+1]
		}
	}
	return node
}

func (r *reader) text(node *yaml.Node) string {
	if node == nil {
		return ""
	}
	if node.Kind != yaml.ScalarNode {
		r.problem(node, RuleType, "want text, got "+nodeKind(node), "")
		return ""
	}
	if strings.ContainsFunc(node.Value, func(c rune) bool { return unicode.IsControl(c) && c != '\n' && c != '\t' }) {
		r.problem(node, RuleValue, fmt.Sprintf("%q has control characters", node.Value), "write plain text: it is shown on terminals")
	}
	return strings.TrimSpace(node.Value)
}

// word reads one of the allowed words.
func (r *reader) word(node *yaml.Node, allowed []string) string {
	text := r.text(node)
	if node != nil && text != "" && !slices.Contains(allowed, text) {
		r.problem(node, RuleValue, fmt.Sprintf("%q is not allowed here", text), Suggest(text, allowed))
	}
	return text
}

func (r *reader) duration(node *yaml.Node, fallback time.Duration) time.Duration {
	if node == nil {
		return fallback
	}
	value, err := ParseScalar(Type{Kind: KindDuration}, node.Value)
	if err == nil && value.(time.Duration) <= 0 {
		err = fmt.Errorf("%q is not above zero", node.Value)
	}
	if err != nil {
		r.problem(node, RuleValue, err.Error(), "")
		return fallback
	}
	return value.(time.Duration)
}

func (r *reader) count(node *yaml.Node, fallback int) int {
	if node == nil {
		return fallback
	}
	n, err := strconv.Atoi(node.Value)
	if err != nil || n < 1 {
		r.problem(node, RuleValue, fmt.Sprintf("%q is not a whole number above zero", node.Value), "")
		return fallback
	}
	return n
}

func (r *reader) words(node *yaml.Node) []*yaml.Node {
	if node == nil {
		return nil
	}
	if node.Kind != yaml.SequenceNode {
		r.problem(node, RuleType, "want a list, got "+nodeKind(node), "")
		return nil
	}
	return node.Content
}

func (r *reader) scenario(root *yaml.Node) *Scenario {
	m := r.members(root, "scenario", scenarioKeys...)
	s := &Scenario{
		ID: r.text(m["id"]), Title: r.text(m["title"]), Description: r.text(m["description"]),
		Risk: Risk(r.word(m["risk"], Risks)), Deadline: r.duration(m["deadline"], deadlineDefault),
	}
	if version := r.text(m["apiVersion"]); version != "" && version != APIVersion {
		r.problem(m["apiVersion"], RuleVersion, fmt.Sprintf("apiVersion %s is not supported", version), "this build reads "+APIVersion)
	}
	if id := m["id"]; id != nil && (s.ID != "" || id.Style != 0) && !scenarioID.MatchString(s.ID) {
		r.problem(id, RuleName, fmt.Sprintf("id %q must be lower-case words joined by single hyphens", s.ID), "")
	}
	for _, node := range r.words(m["setups"]) {
		s.Setups = append(s.Setups, r.word(node, Setups))
	}
	if m["setups"] != nil && len(s.Setups) == 0 {
		r.problem(m["setups"], RuleVacuous, "a scenario needs at least one setup", "known: "+strings.Join(Setups, ", "))
	}
	r.cluster(m["cluster"], s)
	if m["params"] != nil {
		s.Params = r.paramList(m["params"])
	}
	r.params = Type{Kind: KindObject, Fields: s.Params}

	r.homes = map[string]string{}
	base := &stepScope{reader: r, visible: map[string]*Step{}}
	s.Setup = r.stepList(m["setup"], base, "setup")
	for _, node := range r.words(m["aspects"]) {
		if a := r.aspect(node, s, base); a != nil {
			s.Aspects = append(s.Aspects, a)
		}
	}
	if m["aspects"] != nil && len(s.Aspects) == 0 {
		r.problem(m["aspects"], RuleVacuous, "a scenario needs at least one aspect", "")
	}
	s.OnFailure = r.stepList(m["on_failure"], base.clone(), "on_failure")
	s.Always = r.stepList(m["always"], base.clone(), "always")
	return s
}

func (r *reader) paramList(node *yaml.Node) []Field {
	if node.Kind != yaml.MappingNode {
		r.problem(node, RuleType, "params: want a mapping, got "+nodeKind(node), "")
		return nil
	}
	var params []Field
	for i := 0; i+1 < len(node.Content); i += 2 {
		name, body := node.Content[i], node.Content[i+1]
		if !stepID.MatchString(name.Value) {
			r.problem(name, RuleName, fmt.Sprintf("parameter %q must be lower-case letters, digits and _", name.Value), "")
		}
		m := r.members(body, "param "+name.Value, paramKeys...)
		f := Field{Name: name.Value, Doc: r.text(m["doc"])}
		f.Type.Kind = Kind(r.word(m["type"], paramTypes))
		f.Min, f.Max = r.limit(m["min"]), r.limit(m["max"])
		for _, item := range r.words(m["enum"]) {
			f.Enum = append(f.Enum, r.text(item))
		}
		if m["enum"] != nil && f.Type.Kind != KindString {
			r.problem(m["enum"], RuleType, "enum is for a string, and "+name.Value+" is "+f.Type.String(), "")
		}
		for _, bound := range []string{"min", "max"} {
			if m[bound] != nil && f.Type.Kind != KindInt && f.Type.Kind != KindFloat {
				r.problem(m[bound], RuleType, bound+" is for an int or a float, and "+name.Value+" is "+f.Type.String(), "")
			}
		}
		if f.Min != nil && f.Max != nil && *f.Min > *f.Max {
			r.problem(m["max"], RuleValue, fmt.Sprintf("%d is below min, which is %d", *f.Max, *f.Min), "")
		}
		if m["default"] != nil {
			value, err := ParseScalar(f.Type, m["default"].Value)
			if err == nil {
				err = f.CheckBounds(value)
			}
			if err != nil {
				r.problem(m["default"], RuleValue, err.Error(), "")
			}
			f.Default = value
		}
		params = append(params, f)
	}
	return params
}

func (r *reader) limit(node *yaml.Node) *int64 {
	if node == nil {
		return nil
	}
	n, err := strconv.ParseInt(node.Value, 10, 64)
	if err != nil {
		r.problem(node, RuleValue, fmt.Sprintf("%q is not an int", node.Value), "")
		return nil
	}
	return &n
}

func (r *reader) aspect(node *yaml.Node, s *Scenario, base *stepScope) *Aspect {
	m := r.members(node, "aspect", aspectKeys...)
	a := &Aspect{ID: r.text(m["id"]), Title: r.text(m["title"]), Description: r.text(m["description"])}
	if a.ID == "" {
		return nil
	}
	if !scenarioID.MatchString(a.ID) {
		r.problem(m["id"], RuleName, fmt.Sprintf("aspect id %q must be lower-case words joined by single hyphens", a.ID), "")
	}
	if _, taken := s.Aspect(a.ID); taken {
		r.problem(m["id"], RuleRepeated, fmt.Sprintf("aspect %s is defined twice", a.ID), "")
	}
	scope := base.clone()
	for _, need := range r.words(m["needs"]) {
		id := r.text(need)
		_, ok := s.Aspect(id)
		if !ok {
			r.problem(need, RuleReference, fmt.Sprintf("needs: no earlier aspect %s", id), Suggest(id, s.AspectIDs()))
			continue
		}
		a.Needs = append(a.Needs, id)
		for _, stage := range s.Stages([]string{id}) {
			scope.add(stage.Aspect.Steps)
		}
	}
	a.Steps = r.stepList(m["steps"], scope, "aspect "+a.ID)
	seen := map[string]bool{}
	a.Guards = r.checkList(m["guards"], scope, seen)
	a.Criteria = r.checkList(m["criteria"], scope, seen)
	if m["criteria"] != nil && len(a.Criteria) == 0 {
		r.problem(m["criteria"], RuleVacuous, "an aspect needs at least one criterion", "a run that judges nothing proves nothing")
	}
	return a
}

// stepScope resolves references at one place in the file: params, run, and the
// steps that ran before.
type stepScope struct {
	reader  *reader
	visible map[string]*Step
	self    *Type // outputs of the step whose `until` is read
}

func (sc *stepScope) clone() *stepScope {
	out := &stepScope{reader: sc.reader, visible: map[string]*Step{}}
	for id, step := range sc.visible {
		out.visible[id] = step
	}
	return out
}

func (sc *stepScope) add(steps []*Step) {
	for _, step := range steps {
		sc.visible[step.ID] = step
	}
}

// steps lists the ids of the steps that ran before, sorted.
func (sc *stepScope) steps() []string { return slices.Sorted(maps.Keys(sc.visible)) }

// RunType is the type of the root "run".
var RunType = Type{Kind: KindObject, Fields: []Field{
	{Name: "id", Type: Type{Kind: KindString}, Doc: "the run's id"},
	{Name: "seed", Type: Type{Kind: KindInt}, Doc: "the run's seed"},
}}

// RootType implements Scope.
func (sc *stepScope) RootType(name string) (Type, error) {
	if sc.self != nil {
		if f, ok := sc.self.Field(name); ok {
			return f.Type, nil
		}
	}
	switch name {
	case "params":
		return sc.reader.params, nil
	case "run":
		return RunType, nil
	}
	if step, ok := sc.visible[name]; ok {
		return step.Verb.Outputs, nil
	}
	if home, ok := sc.reader.homes[name]; ok {
		return Type{}, fmt.Errorf("step %s belongs to %s and has not run here: add it to needs, or move it", name, home)
	}
	known := append(sc.steps(), "params", "run")
	if sc.self != nil {
		known = append(known, sc.self.Names()...)
	}
	return Type{}, &hinted{"nothing here is called " + name, Suggest(name, slices.Sorted(slices.Values(known)))}
}

func (r *reader) stepList(node *yaml.Node, scope *stepScope, home string) []*Step {
	var steps []*Step
	for _, item := range r.words(node) {
		step := r.step(item, scope)
		if step == nil {
			continue
		}
		if _, taken := r.steps[step.ID]; taken {
			r.problem(item, RuleRepeated, fmt.Sprintf("step id %s is used twice in this file", step.ID), "")
		}
		r.steps[step.ID], r.homes[step.ID] = step, home
		scope.visible[step.ID] = step
		steps = append(steps, step)
	}
	return steps
}

func (r *reader) step(node *yaml.Node, scope *stepScope) *Step {
	m := r.members(node, "step", stepKeys...)
	s := &Step{ID: r.text(m["id"]), Title: r.text(m["title"]), Use: r.text(m["use"]), Otherwise: r.text(m["otherwise"]), Timeout: r.duration(m["timeout"], stepTimeoutDefault),
		With: map[string]*Template{}, Line: node.Line}
	if s.ID == "" || s.Use == "" {
		return nil
	}
	if !stepID.MatchString(s.ID) || s.ID == "params" || s.ID == "run" {
		r.problem(m["id"], RuleName, fmt.Sprintf("step id %q must be lower-case letters, digits and _, and not params or run", s.ID), "")
	}
	signature, ok := r.verbs.Signature(s.Use)
	if !ok {
		r.problem(m["use"], RuleUnknownVerb, fmt.Sprintf("no verb is called %s", s.Use), Suggest(s.Use, r.verbs.Names()))
		return nil
	}
	s.Verb = signature
	r.limited(m["use"], s)
	r.inputs(s, m["with"], node, scope)
	if m["until"] != nil {
		s.Until = r.until(m["until"], s, scope)
	}
	return s
}

var paramName = regexp.MustCompile(`\bparams\.([a-z0-9_]+)`)

// markShell marks the parameters that come to a shell: who gives them says what it
// runs.
func (r *reader) markShell(t *Template) {
	for _, found := range paramName.FindAllStringSubmatch(t.String(), -1) {
		for i := range r.params.Fields { // the scenario's own
			if r.params.Fields[i].Name == found[1] {
				r.params.Fields[i].Shell = true
			}
		}
	}
}

func (r *reader) inputs(s *Step, with, stepNode *yaml.Node, scope *stepScope) {
	given := map[string]*yaml.Node{}
	if with != nil {
		given = r.members(with, "with of "+s.Use, s.Verb.Inputs.Names()...)
	}
	for _, f := range s.Verb.Inputs.Fields {
		node, ok := given[f.Name]
		if !ok {
			if f.Required {
				r.problem(stepNode, RuleMissing, fmt.Sprintf("%s needs %s (%s)", s.Use, f.Name, f.Type), f.Doc)
			}
			continue
		}
		t := r.templateOf(node, f.Type, scope)
		if t == nil {
			continue
		}
		s.With[f.Name] = t
		if f.Shell {
			r.markShell(t)
		}
		if f.Type.Kind == KindStep {
			if _, visible := scope.visible[node.Value]; !visible {
				r.problem(node, RuleReference, fmt.Sprintf("%s is not an earlier step", node.Value), Suggest(node.Value, scope.steps()))
			}
			continue
		}
		if value, constant := t.constant(); constant {
			if err := f.CheckBounds(value); err != nil {
				hint := ""
				if text, isText := value.(string); isText {
					hint = Suggest(text, f.Enum)
				}
				r.problem(node, RuleValue, fmt.Sprintf("%s: %v", f.Name, err), hint)
			}
		}
	}
}

// constant returns the value of a template without expressions.
func (t *Template) constant() (any, bool) {
	if t.isList || len(t.parts) != 1 {
		return nil, false
	}
	l, ok := t.parts[0].(literal)
	return l.value, ok
}

func (r *reader) until(node *yaml.Node, s *Step, scope *stepScope) *Until {
	m := r.members(node, "until", untilKeys...)
	if !s.Verb.Pollable {
		r.problem(node, RulePoll, fmt.Sprintf("%s cannot be polled: repeating it would do the change again", s.Use), "poll with a read-only step after it")
	}
	inner := scope.clone()
	inner.self = &s.Verb.Outputs
	u := &Until{Every: r.duration(m["every"], untilEveryDefault), Within: r.duration(m["within"], untilWithinDefault), Stable: r.count(m["stable"], 1)}
	if u.Within >= s.Timeout {
		r.problem(node, RuleTimeout, fmt.Sprintf("within %s is not below the step's timeout %s", u.Within, s.Timeout), "raise timeout")
	}
	u.Path, u.Op, u.Value = r.comparison(m["path"], m["op"], m["value"], inner)
	return u
}

// comparison reads metric, operator and expected value, and checks that they fit.
func (r *reader) comparison(metric, op, value *yaml.Node, scope *stepScope) (*Template, string, *Template) {
	operator := r.word(op, ops)
	if metric == nil || value == nil || op == nil {
		return nil, operator, nil
	}
	m, typ := r.expressionOf(metric, scope)
	if m == nil {
		return nil, operator, nil
	}
	want := typ
	switch operator {
	case "<", "<=", ">", ">=":
		if typ.Kind != KindInt && typ.Kind != KindFloat && typ.Kind != KindDuration {
			r.problem(op, RuleType, fmt.Sprintf("%s compares numbers, and %s is %s", operator, metric.Value, typ), "")
		}
	case "contains", "excludes":
		if typ.Kind != KindList {
			r.problem(op, RuleType, fmt.Sprintf("%s needs a list, and %s is %s", operator, metric.Value, typ), "")
			return m, operator, nil
		}
		want = *typ.Elem
	}
	return m, operator, r.templateOf(value, want, scope)
}

func (r *reader) checkList(node *yaml.Node, scope *stepScope, seen map[string]bool) []*Check {
	var checks []*Check
	for _, item := range r.words(node) {
		m := r.members(item, "check", checkKeys...)
		c := &Check{ID: r.text(m["id"]), Title: r.text(m["title"]), Line: item.Line}
		if c.ID != "" && !stepID.MatchString(c.ID) {
			r.problem(m["id"], RuleName, fmt.Sprintf("check id %q must be lower-case letters, digits and _", c.ID), "")
		}
		if seen[c.ID] {
			r.problem(item, RuleRepeated, fmt.Sprintf("check id %s is used twice in this aspect", c.ID), "")
		}
		seen[c.ID] = true
		c.Metric, c.Op, c.Value = r.comparison(m["metric"], m["op"], m["value"], scope)
		if m["detail"] != nil {
			c.Detail = r.templateOf(m["detail"], Type{Kind: KindString}, scope)
		}
		checks = append(checks, c)
	}
	return checks
}
