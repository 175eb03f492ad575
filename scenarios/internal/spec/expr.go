package spec

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Scope answers what a reference stands for, at load time by type and at run
// time by value. Roots are step ids, "params" and "run".
type Scope interface {
	// RootType is the type of a root name; the error says why there is none.
	RootType(name string) (Type, error)
}

// Values holds the value of each root at run time.
type Values map[string]any

// expr is one node of a parsed expression.
type expr interface {
	check(Scope) (Type, error)
	eval(Values) (any, error)
}

type literal struct {
	value any
	typ   Type
}

type reference struct {
	root string
	path []selector
}

type selector struct {
	name  string
	index int // used when name is empty
}

type binary struct {
	op          byte
	left, right expr
}

type negation struct{ operand expr }

func (l literal) check(Scope) (Type, error) { return l.typ, nil }
func (l literal) eval(Values) (any, error)  { return l.value, nil }

func (r reference) check(scope Scope) (Type, error) {
	t, err := scope.RootType(r.root)
	if err != nil {
		return Type{}, err
	}
	at := r.root
	for _, sel := range r.path {
		if sel.name == "" {
			if t.Kind != KindList {
				return Type{}, fmt.Errorf("%s is %s, not a list", at, t)
			}
			t, at = *t.Elem, fmt.Sprintf("%s[%d]", at, sel.index)
			continue
		}
		if t.Kind != KindObject {
			return Type{}, fmt.Errorf("%s is %s and has no member %s", at, t, sel.name)
		}
		field, ok := t.Field(sel.name)
		if !ok {
			return Type{}, &hinted{fmt.Sprintf("%s has no member %s", at, sel.name), Suggest(sel.name, t.Names())}
		}
		t, at = field.Type, at+"."+sel.name
	}
	return t, nil
}

func (r reference) eval(values Values) (any, error) {
	value, ok := values[r.root]
	if !ok {
		return nil, fmt.Errorf("%s has no value: its step did not run", r.root)
	}
	at := r.root
	for _, sel := range r.path {
		if sel.name == "" {
			list, _ := value.([]any)
			if sel.index >= len(list) {
				return nil, fmt.Errorf("%s has %d entries, no [%d]", at, len(list), sel.index)
			}
			value, at = list[sel.index], fmt.Sprintf("%s[%d]", at, sel.index)
			continue
		}
		object, ok := value.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("%s has no value", at)
		}
		value, at = object[sel.name], at+"."+sel.name
	}
	return value, nil
}

func (n negation) check(scope Scope) (Type, error) {
	t, err := n.operand.check(scope)
	if err == nil && t.Kind != KindInt && t.Kind != KindFloat && t.Kind != KindDuration {
		err = fmt.Errorf("- needs a number, got %s", t)
	}
	return t, err
}

func (n negation) eval(values Values) (any, error) {
	return arithmetic('-', int64(0), n.operand, values)
}

func (b binary) check(scope Scope) (Type, error) {
	left, err := b.left.check(scope)
	if err != nil {
		return Type{}, err
	}
	right, err := b.right.check(scope)
	if err != nil {
		return Type{}, err
	}
	numeric := func(t Type) bool { return t.Kind == KindInt || t.Kind == KindFloat }
	duration := func(t Type) bool { return t.Kind == KindDuration }
	switch {
	case left.Kind == KindInt && right.Kind == KindInt:
		return left, nil
	case numeric(left) && numeric(right):
		return Type{Kind: KindFloat}, nil
	case duration(left) && duration(right) && (b.op == '+' || b.op == '-'),
		duration(left) && right.Kind == KindInt && (b.op == '*' || b.op == '/'):
		return left, nil
	case left.Kind == KindString && right.Kind == KindString && b.op == '+':
		return left, nil
	}
	return Type{}, fmt.Errorf("%s %c %s has no meaning", left, b.op, right)
}

func (b binary) eval(values Values) (any, error) {
	left, err := b.left.eval(values)
	if err != nil {
		return nil, err
	}
	return arithmetic(b.op, left, b.right, values)
}

func arithmetic(op byte, left any, operand expr, values Values) (any, error) {
	right, err := operand.eval(values)
	if err != nil {
		return nil, err
	}
	if l, ok := left.(string); ok {
		return l + Format(right), nil
	}
	if l, ok := left.(int64); ok {
		switch r := right.(type) {
		case int64:
			return integers(op, l, r)
		case time.Duration: // only a negation gets here
			return -r, nil
		}
	}
	if l, ok := left.(time.Duration); ok {
		n, err := integers(op, int64(l), toInt(right))
		return time.Duration(n), err
	}
	l, lok := number(left)
	r, rok := number(right)
	if !lok || !rok {
		return nil, fmt.Errorf("cannot compute with %s and %s", Format(left), Format(right))
	}
	switch op {
	case '+':
		return l + r, nil
	case '-':
		return l - r, nil
	case '*':
		return l * r, nil
	default:
		if r == 0 {
			return nil, fmt.Errorf("division by zero")
		}
		return l / r, nil
	}
}

func toInt(v any) int64 {
	switch n := v.(type) {
	case int64:
		return n
	case time.Duration:
		return int64(n)
	}
	return 0
}

func integers(op byte, l, r int64) (int64, error) {
	switch op {
	case '+':
		return l + r, nil
	case '-':
		return l - r, nil
	case '*':
		return l * r, nil
	}
	if r == 0 {
		return 0, fmt.Errorf("division by zero")
	}
	return l / r, nil
}

// hinted is an error with a suggestion beside it.
type hinted struct{ message, hint string }

func (h *hinted) Error() string { return h.message }

// parseExpr reads one expression such as "params.messages / 2".
func parseExpr(text string) (expr, error) {
	p := &exprParser{text: text}
	e, err := p.sum()
	if err != nil {
		return nil, err
	}
	p.space()
	if p.at < len(p.text) {
		return nil, fmt.Errorf("unexpected %q in expression %q", p.text[p.at:], text)
	}
	return e, nil
}

// exprDepthMax bounds parentheses, so that a hostile file cannot exhaust the
// stack.
const exprDepthMax = 32

type exprParser struct {
	text  string
	at    int
	depth int
}

func (p *exprParser) space() {
	for p.at < len(p.text) && p.text[p.at] == ' ' {
		p.at++
	}
}

// operator consumes and returns the next operator out of set, or 0.
func (p *exprParser) operator(set string) byte {
	p.space()
	if p.at < len(p.text) && strings.IndexByte(set, p.text[p.at]) >= 0 {
		p.at++
		return p.text[p.at-1]
	}
	return 0
}

func (p *exprParser) sum() (expr, error) { return p.chain("+-", p.product) }

func (p *exprParser) product() (expr, error) { return p.chain("*/", p.unary) }

func (p *exprParser) chain(operators string, next func() (expr, error)) (expr, error) {
	left, err := next()
	if err != nil {
		return nil, err
	}
	for {
		op := p.operator(operators)
		if op == 0 {
			return left, nil
		}
		right, err := next()
		if err != nil {
			return nil, err
		}
		left = binary{op, left, right}
	}
}

func (p *exprParser) unary() (expr, error) {
	if p.depth++; p.depth > exprDepthMax {
		return nil, fmt.Errorf("expression is nested more than %d deep", exprDepthMax)
	}
	defer func() { p.depth-- }()
	if p.operator("-") != 0 {
		operand, err := p.unary()
		return negation{operand}, err
	}
	if p.operator("(") != 0 {
		inner, err := p.sum()
		if err != nil {
			return nil, err
		}
		if p.operator(")") == 0 {
			return nil, fmt.Errorf("missing ) in expression %q", p.text)
		}
		return inner, nil
	}
	return p.primary()
}

func (p *exprParser) primary() (expr, error) {
	p.space()
	start := p.at
	if p.at == len(p.text) {
		return nil, fmt.Errorf("expression %q ends too early", p.text)
	}
	switch c := p.text[p.at]; {
	case c == '\'':
		end := strings.IndexByte(p.text[p.at+1:], '\'')
		if end < 0 {
			return nil, fmt.Errorf("unterminated ' in expression %q", p.text)
		}
		p.at += end + 2
		return literal{p.text[start+1 : p.at-1], Type{Kind: KindString}}, nil
	case c >= '0' && c <= '9':
		return p.numeral()
	case identStart(c):
		return p.reference()
	default:
		return nil, fmt.Errorf("unexpected %q in expression %q", string(c), p.text)
	}
}

func (p *exprParser) numeral() (expr, error) {
	start := p.at
	for p.at < len(p.text) && (identPart(p.text[p.at]) || p.text[p.at] == '.') {
		p.at++
	}
	text := p.text[start:p.at]
	for _, kind := range []Kind{KindInt, KindFloat, KindDuration} {
		if value, err := ParseScalar(Type{Kind: kind}, text); err == nil {
			return literal{value, Type{Kind: kind}}, nil
		}
	}
	return nil, fmt.Errorf("%q is neither a number nor a duration", text)
}

func (p *exprParser) ident() string {
	start := p.at
	for p.at < len(p.text) && identPart(p.text[p.at]) {
		p.at++
	}
	return p.text[start:p.at]
}

func (p *exprParser) reference() (expr, error) {
	ref := reference{root: p.ident()}
	switch ref.root {
	case "true", "false":
		return literal{ref.root == "true", Type{Kind: KindBool}}, nil
	}
	for p.at < len(p.text) {
		switch p.text[p.at] {
		case '.':
			p.at++
			name := p.ident()
			if name == "" {
				return nil, fmt.Errorf("a name must follow . in expression %q", p.text)
			}
			ref.path = append(ref.path, selector{name: name})
		case '[':
			end := strings.IndexByte(p.text[p.at:], ']')
			if end < 0 {
				return nil, fmt.Errorf("missing ] in expression %q", p.text)
			}
			index, err := strconv.Atoi(p.text[p.at+1 : p.at+end])
			if err != nil || index < 0 {
				return nil, fmt.Errorf("index %q is not a whole number", p.text[p.at+1:p.at+end])
			}
			p.at += end + 1
			ref.path = append(ref.path, selector{index: index})
		default:
			return ref, nil
		}
	}
	return ref, nil
}

func identStart(c byte) bool { return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }
func identPart(c byte) bool  { return identStart(c) || c >= '0' && c <= '9' }
