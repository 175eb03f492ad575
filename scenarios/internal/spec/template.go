package spec

import (
	"errors"
	"fmt"
	"strings"

	"gopkg.in/yaml.v3"
)

// Template is a YAML value that may hold ${expressions}. A scalar that is one
// ${expression} and nothing else keeps the expression's type; otherwise the
// parts join into a string.
type Template struct {
	parts        []expr // scalar
	joined       bool   // parts make a string
	list         []*Template
	isList       bool
	text         string // as written
	line, column int
}

// String is the template as written.
func (t *Template) String() string {
	if !t.isList {
		return t.text
	}
	parts := make([]string, len(t.list))
	for i, item := range t.list {
		parts[i] = item.String()
	}
	return "[" + strings.Join(parts, ", ") + "]"
}

// Eval computes the value. Errors name what has no value.
func (t *Template) Eval(values Values) (any, error) {
	if t.isList {
		out := make([]any, 0, len(t.list))
		for _, item := range t.list {
			value, err := item.Eval(values)
			if err != nil {
				return nil, err
			}
			out = append(out, value)
		}
		return out, nil
	}
	if !t.joined {
		return t.parts[0].eval(values)
	}
	var b strings.Builder
	for _, part := range t.parts {
		value, err := part.eval(values)
		if err != nil {
			return nil, err
		}
		b.WriteString(Format(value))
	}
	return b.String(), nil
}

// templateOf reads a node that should give a value of the wanted type. Problems
// go to the reader with their place.
func (r *reader) templateOf(node *yaml.Node, want Type, scope Scope) *Template {
	t := &Template{line: node.Line, column: node.Column, text: node.Value}
	switch {
	case node.Kind == yaml.SequenceNode && want.Kind == KindList:
		t.isList = true
		for _, item := range node.Content {
			if child := r.templateOf(item, *want.Elem, scope); child != nil {
				t.list = append(t.list, child)
			}
		}
		return t
	case node.Kind != yaml.ScalarNode:
		r.problem(node, RuleType, fmt.Sprintf("want %s, got %s", want, nodeKind(node)), "")
		return nil
	}
	got, err := t.scan(node.Value, scope)
	if err != nil {
		r.problem(node, RuleExpression, err.Error(), hintOf(err))
		return nil
	}
	if got != nil { // holds an expression
		if want.Kind == KindString && got.Kind != KindList && got.Kind != KindObject {
			t.joined = true // any scalar reads as text
			return t
		}
		if want.Kind != "" && !assignable(want, *got) {
			r.problem(node, RuleType, fmt.Sprintf("%s is %s, want %s", node.Value, *got, want), "")
			return nil
		}
		return t
	}
	return r.literalOf(t, node, want)
}

// literalOf types a scalar without an expression by what is wanted.
func (r *reader) literalOf(t *Template, node *yaml.Node, want Type) *Template {
	if want.Kind == "" {
		want = literalType(node)
	}
	if want.Kind == KindString && node.Tag != "!!str" && node.Tag != "" && node.Tag != "!!int" && node.Tag != "!!float" {
		r.problem(node, RuleType, fmt.Sprintf("want string, got %s", node.Value), "quote it")
		return nil
	}
	value, err := ParseScalar(want, node.Value)
	if err != nil {
		r.problem(node, RuleValue, err.Error(), "")
		return nil
	}
	t.parts, t.joined = []expr{literal{value, want}}, false
	return t
}

func literalType(node *yaml.Node) Type {
	switch node.Tag {
	case "!!int":
		return Type{Kind: KindInt}
	case "!!float":
		return Type{Kind: KindFloat}
	case "!!bool":
		return Type{Kind: KindBool}
	}
	return Type{Kind: KindString}
}

// scan splits text into literals and ${expressions}. The type is nil when there
// is no expression in it.
func (t *Template) scan(text string, scope Scope) (*Type, error) {
	var found *Type
	rest := text
	for {
		literalText, after, ok := strings.Cut(rest, "${")
		if literalText != "" {
			t.parts = append(t.parts, literal{literalText, Type{Kind: KindString}})
		}
		if !ok {
			break
		}
		inner, next, closed := strings.Cut(after, "}")
		if !closed {
			return nil, fmt.Errorf("missing } after ${ in %q", text)
		}
		e, err := parseExpr(strings.TrimSpace(inner))
		if err != nil {
			return nil, err
		}
		typ, err := e.check(scope)
		if err != nil {
			return nil, err
		}
		t.parts, found, rest = append(t.parts, e), &typ, next
	}
	if found != nil && len(t.parts) > 1 {
		t.joined = true
		return &Type{Kind: KindString}, nil
	}
	return found, nil
}

// expressionOf reads a node that is an expression without ${}: a metric.
func (r *reader) expressionOf(node *yaml.Node, scope Scope) (*Template, Type) {
	if node.Kind != yaml.ScalarNode {
		r.problem(node, RuleType, "want an expression such as step.output, got "+nodeKind(node), "")
		return nil, Type{}
	}
	e, err := parseExpr(strings.TrimSpace(node.Value))
	var typ Type
	if err == nil {
		typ, err = e.check(scope)
	}
	if err != nil {
		r.problem(node, RuleExpression, err.Error(), hintOf(err))
		return nil, Type{}
	}
	return &Template{parts: []expr{e}, text: node.Value, line: node.Line, column: node.Column}, typ
}

func hintOf(err error) string {
	var h *hinted
	if errors.As(err, &h) {
		return h.hint
	}
	return ""
}
