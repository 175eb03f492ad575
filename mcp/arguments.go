package mcp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

type kind string

const (
	kindString  kind = "string"
	kindInteger kind = "integer"
	kindBoolean kind = "boolean"
	kindStrings kind = "list of strings"
	kindMap     kind = "object with string values"
)

// argument is one named argument of a tool.
type argument struct {
	name     string
	kind     kind
	doc      string
	required bool
	oneOf    []string // of a string or of each of a list
	pattern  string   // of a string; anchored
	min, max int64    // of an integer, both inclusive; max 0: no bound
	fallback any      // the value when it is left out
}

// The bounds of arguments.
const (
	textMax      = 512 // bytes of one string
	listMax      = 64  // elements of one list or map
	limitDefault = int64(50)
	limitMax     = 500
	nodeIDMax    = 1<<31 - 1
)

// The patterns of names. A name never leads out of its directory.
const (
	patternRun       = `^[a-z0-9][a-z0-9-]{0,100}$`
	patternNewRun    = `^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`
	patternStep      = `^[a-z][a-z0-9_]{0,63}$`
	patternScenario  = `^[a-z0-9][a-z0-9-]{0,63}$`
	patternTopic     = `^/?[A-Za-z0-9._/-]+$`
	patternNamespace = `^[A-Za-z0-9_-]+$`
	patternOperation = `^(op-)?[0-9]{1,20}$`
)

// inputSchema is the JSON Schema of arguments. Unknown ones are refused.
func inputSchema(args []argument) json.RawMessage {
	properties, required := map[string]any{}, []string{}
	for _, a := range args {
		properties[a.name] = a.schema()
		if a.required {
			required = append(required, a.name)
		}
	}
	out := map[string]any{"type": "object", "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		out["required"] = required
	}
	return mustJSON(out)
}

func (a argument) schema() map[string]any {
	out := map[string]any{"description": a.doc}
	one := map[string]any{"type": "string"}
	if len(a.oneOf) > 0 {
		one["enum"] = a.oneOf
	}
	switch a.kind {
	case kindString:
		maps.Copy(out, one)
		if a.pattern != "" {
			out["pattern"] = a.pattern
		}
	case kindInteger:
		out["type"], out["minimum"] = "integer", a.min
		if a.max > 0 {
			out["maximum"] = a.max
		}
	case kindBoolean:
		out["type"] = "boolean"
	case kindStrings:
		out["type"], out["items"], out["maxItems"] = "array", one, listMax
	case kindMap:
		out["type"], out["additionalProperties"], out["maxProperties"] = "object", map[string]any{"type": "string"}, listMax
	}
	if a.fallback != nil {
		out["default"] = a.fallback
	}
	return out
}

// input is the validated arguments of a call.
type input struct {
	tool   *tool
	values map[string]any
	// revision is the placement revision of the plan that is carried out, and
	// controller who had that role in it. They go with the request, so that the
	// cluster itself refuses what has changed since the plan was checked.
	revision   uint64
	controller int32
}

func (in input) text(name string) string    { v, _ := in.values[name].(string); return v }
func (in input) number(name string) int64   { v, _ := in.values[name].(int64); return v }
func (in input) id(name string) int32       { return int32(in.number(name)) }
func (in input) yes(name string) bool       { v, _ := in.values[name].(bool); return v }
func (in input) texts(name string) []string { v, _ := in.values[name].([]string); return v }
func (in input) pairs(name string) map[string]string {
	v, _ := in.values[name].(map[string]string)
	return v
}

func (in input) operation(name string) uint64 {
	id, _ := strconv.ParseUint(strings.TrimPrefix(in.text(name), "op-"), 10, 64)
	return id
}

// given is the arguments without those that only the table knows: what a plan is
// bound to, and what a fix repeats.
func (in input) given() map[string]any {
	out := maps.Clone(in.values)
	for _, name := range []string{"plan_id", "limit", "cursor"} {
		delete(out, name)
	}
	for _, a := range in.tool.arguments {
		if v, ok := out[a.name]; ok && a.fallback != nil && fmt.Sprint(v) == fmt.Sprint(a.fallback) {
			delete(out, a.name)
		}
	}
	return out
}

// validate reads the arguments of a call. What is wrong is a failure that says
// how to call the tool right.
func validate(t *tool, raw json.RawMessage) (input, error) {
	in := input{tool: t, values: map[string]any{}}
	given := map[string]json.RawMessage{}
	if trimmed := bytes.TrimSpace(raw); len(trimmed) > 0 && !bytes.Equal(trimmed, []byte("null")) {
		if err := json.Unmarshal(trimmed, &given); err != nil {
			return in, &failure{Code: codeInvalidArgument, Message: "the arguments are no object", Got: abridge(string(trimmed)), Expected: "a JSON object"}
		}
	}
	args := t.allArguments()
	names := make([]string, len(args))
	for i, a := range args {
		names[i] = a.name
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if !slices.Contains(names, name) {
			expected := "one of: " + strings.Join(names, ", ")
			if len(names) == 0 {
				expected = "no arguments"
			}
			return in, &failure{Code: codeUnknownArgument, Message: fmt.Sprintf("%s has no argument %q%s", t.name, name, didYouMean(name, names)), Got: name, Expected: expected, Fix: t.corrected(given, name, closest(name, names))}
		}
	}
	for _, a := range args {
		value, isThere := given[a.name]
		if !isThere || bytes.Equal(bytes.TrimSpace(value), []byte("null")) {
			if a.required {
				return in, &failure{Code: codeMissingArgument, Message: fmt.Sprintf("%s needs the argument %s", t.name, a.name), Got: "nothing", Expected: fmt.Sprintf("%s (%s): %s", a.name, a.kind, a.doc)}
			}
			if a.fallback != nil {
				in.values[a.name] = a.fallback
			}
			continue
		}
		parsed, problem := a.parse(value)
		if problem != "" {
			return in, &failure{Code: codeInvalidArgument, Message: fmt.Sprintf("%s: %s", a.name, problem), Got: abridge(string(value)), Expected: a.expected()}
		}
		in.values[a.name] = parsed
	}
	return in, nil
}

// corrected repeats a call with an argument renamed, where the name is clear.
func (t *tool) corrected(given map[string]json.RawMessage, wrong, right string) *fix {
	if right == "" || given[right] != nil {
		return nil
	}
	args := map[string]any{}
	for name, value := range given {
		if name == wrong {
			name = right
		}
		args[name] = value
	}
	return &fix{Tool: t.name, Args: args}
}

func (a argument) expected() string {
	text := string(a.kind)
	if a.kind == kindString || a.kind == kindBoolean {
		text = "a " + text
	} else if a.kind == kindInteger {
		text = "an integer"
		if a.max > 0 {
			text += fmt.Sprintf(" from %d to %d", a.min, a.max)
		} else {
			text += fmt.Sprintf(" of at least %d", a.min)
		}
	} else {
		text = "a " + text
	}
	if len(a.oneOf) > 0 {
		text += ", one of: " + strings.Join(a.oneOf, ", ")
	}
	if a.pattern != "" {
		text += " matching " + a.pattern
	}
	return text
}

// parse reads one value; problem is "" when it is right.
func (a argument) parse(raw json.RawMessage) (value any, problem string) {
	switch a.kind {
	case kindInteger:
		number := json.Number("")
		decoder := json.NewDecoder(bytes.NewReader(raw))
		decoder.UseNumber()
		if bytes.HasPrefix(raw, []byte(`"`)) || decoder.Decode(&number) != nil {
			return nil, "is no number"
		}
		n, err := number.Int64()
		if whole, floatErr := number.Float64(); err != nil && floatErr == nil && whole == math.Trunc(whole) && math.Abs(whole) < 1<<53 {
			n, err = int64(whole), nil // 4.0 is an integer of JSON Schema
		}
		if err != nil {
			return nil, "is no integer"
		}
		if n < a.min || a.max > 0 && n > a.max {
			return nil, "is out of bounds"
		}
		return n, ""
	case kindBoolean:
		var yes bool
		if json.Unmarshal(raw, &yes) != nil {
			return nil, "is no boolean"
		}
		return yes, ""
	case kindStrings:
		var list []string
		if json.Unmarshal(raw, &list) != nil {
			return nil, "is no list of strings"
		}
		if len(list) > listMax {
			return nil, fmt.Sprintf("has more than %d elements", listMax)
		}
		for _, text := range list {
			if problem := a.checkText(text); problem != "" {
				return nil, fmt.Sprintf("%q %s", abridge(text), problem)
			}
		}
		return list, ""
	case kindMap:
		var pairs map[string]string
		if json.Unmarshal(raw, &pairs) != nil {
			return nil, "is no object with string values"
		}
		if len(pairs) > listMax {
			return nil, fmt.Sprintf("has more than %d entries", listMax)
		}
		return pairs, ""
	}
	var text string
	if json.Unmarshal(raw, &text) != nil {
		return nil, "is no string"
	}
	return text, a.checkText(text)
}

func (a argument) checkText(text string) string {
	switch {
	case len(text) > textMax:
		return fmt.Sprintf("is longer than %d bytes", textMax)
	case a.required && text == "":
		return "is empty"
	case len(a.oneOf) > 0 && !slices.Contains(a.oneOf, text):
		return "is not known" + didYouMean(text, a.oneOf)
	case a.pattern != "" && text != "" && !regexp.MustCompile(a.pattern).MatchString(text):
		return "is not well formed"
	}
	return ""
}

func abridge(text string) string { return abridgeTo(text, 120) }

func abridgeTo(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "..."
}

func didYouMean(text string, known []string) string {
	if c := closest(text, known); c != "" {
		return fmt.Sprintf("; did you mean %s?", c)
	}
	return ""
}

// closest finds the known word that text was probably meant to be, or "".
func closest(text string, known []string) string {
	best, bestDistance := "", 1+max(2, len(text)/3)
	for _, k := range known {
		d := distance(strings.ToLower(text), k)
		if strings.Contains(k, text) && len(text) > 2 || strings.Contains(text, k) && len(k) > 2 {
			d = min(d, 2)
		}
		if d < bestDistance {
			best, bestDistance = k, d
		}
	}
	return best
}

// distance counts the edits between two words.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diagonal := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := diagonal
			if a[i-1] != b[j-1] {
				cost++
			}
			diagonal = row[j]
			row[j] = min(cost, row[j]+1, row[j-1]+1)
		}
	}
	return row[len(b)]
}

func mustJSON(value any) json.RawMessage {
	data, err := json.Marshal(value)
	if err != nil {
		panic(err) // of constant shapes
	}
	return data
}
