package spec

import (
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// Kind is the sort of a value.
type Kind string

// The kinds. A Duration is written as "200ms"; a StepID names an earlier step.
const (
	KindInt      Kind = "int"
	KindFloat    Kind = "float"
	KindBool     Kind = "bool"
	KindString   Kind = "string"
	KindDuration Kind = "duration"
	KindStep     Kind = "step"
	KindList     Kind = "list"
	KindObject   Kind = "object"
)

// Type is the static type of a value. Elem is set for lists, Fields for objects.
type Type struct {
	Kind   Kind    `json:"kind"`
	Elem   *Type   `json:"elem,omitempty"`
	Fields []Field `json:"fields,omitempty"`
}

// Field is one member of an object type, an input or an output of a verb.
type Field struct {
	Name     string   `json:"name"`
	Type     Type     `json:"type"`
	Required bool     `json:"required,omitempty"`
	Default  any      `json:"default,omitempty"`
	Doc      string   `json:"doc,omitempty"`
	Enum     []string `json:"enum,omitempty"`
	Min      *int64   `json:"min,omitempty"`
	Max      *int64   `json:"max,omitempty"`
	// Shell: a shell runs the value. Of a parameter: the value comes to such an input.
	Shell bool `json:"shell,omitempty"`
}

// String is the type as a person reads it: "list of int".
func (t Type) String() string {
	switch t.Kind {
	case KindList:
		return "list of " + t.Elem.String()
	default:
		return string(t.Kind)
	}
}

// Field returns the named member of an object type.
func (t Type) Field(name string) (Field, bool) {
	for _, f := range t.Fields {
		if f.Name == name {
			return f, true
		}
	}
	return Field{}, false
}

// Names lists the members of an object type in order.
func (t Type) Names() []string {
	names := make([]string, 0, len(t.Fields))
	for _, f := range t.Fields {
		names = append(names, f.Name)
	}
	return names
}

// assignable reports whether a value of type from may stand where to is wanted.
// An int is a float, and a string may name a step; nothing else converts.
func assignable(to, from Type) bool {
	switch {
	case to.Kind == from.Kind && to.Kind == KindList:
		return assignable(*to.Elem, *from.Elem)
	case to.Kind == from.Kind:
		return true
	case to.Kind == KindFloat && from.Kind == KindInt:
		return true
	}
	return false
}

var durationType = reflect.TypeOf(time.Duration(0))

// StepID is a string input that names an earlier step.
type StepID string

var stepType = reflect.TypeOf(StepID(""))

// TypeOf derives the object type of a struct from its fields' tags:
// `json:"name"`, `doc:"..."`, `default:"..."`, `required:"true"`, `enum:"a|b"`,
// `min:"1"`, `max:"9"`, `shell:"true"`. It panics on a struct that cannot be described, which is
// a programming error.
func TypeOf(sample any) Type {
	return typeOf(reflect.TypeOf(sample))
}

func typeOf(t reflect.Type) Type {
	switch {
	case t == durationType:
		return Type{Kind: KindDuration}
	case t == stepType:
		return Type{Kind: KindStep}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return typeOf(t.Elem())
	case reflect.Bool:
		return Type{Kind: KindBool}
	case reflect.Int, reflect.Int16, reflect.Int32, reflect.Int64:
		return Type{Kind: KindInt}
	case reflect.Float64:
		return Type{Kind: KindFloat}
	case reflect.String:
		return Type{Kind: KindString}
	case reflect.Slice:
		elem := typeOf(t.Elem())
		return Type{Kind: KindList, Elem: &elem}
	case reflect.Struct:
		out := Type{Kind: KindObject}
		for i := range t.NumField() {
			out.Fields = append(out.Fields, fieldOf(t.Field(i)))
		}
		return out
	default:
		panic(fmt.Sprintf("spec: %s has no scenario type", t))
	}
}

func fieldOf(sf reflect.StructField) Field {
	name, _, _ := strings.Cut(sf.Tag.Get("json"), ",")
	if name == "" {
		panic("spec: field " + sf.Name + " has no json name")
	}
	f := Field{Name: name, Type: typeOf(sf.Type), Doc: sf.Tag.Get("doc"), Required: sf.Tag.Get("required") == "true", Shell: sf.Tag.Get("shell") == "true"}
	if enum := sf.Tag.Get("enum"); enum != "" {
		f.Enum = strings.Split(enum, "|")
	}
	f.Min, f.Max = bound(sf.Tag.Get("min")), bound(sf.Tag.Get("max"))
	if text, ok := sf.Tag.Lookup("default"); ok {
		value, err := ParseScalar(f.Type, text)
		if err != nil {
			panic(fmt.Sprintf("spec: default of %s: %v", name, err))
		}
		f.Default = value
	}
	return f
}

func bound(text string) *int64 {
	if text == "" {
		return nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		panic("spec: bound " + text)
	}
	return &n
}

// ParseScalar reads one scalar of the given type from text.
func ParseScalar(t Type, text string) (any, error) {
	switch t.Kind {
	case KindInt:
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%q is not an int", text)
		}
		return n, nil
	case KindFloat:
		f, err := strconv.ParseFloat(text, 64)
		if err != nil || math.IsNaN(f) || math.IsInf(f, 0) { // no bound could be told from those
			return nil, fmt.Errorf("%q is not a number", text)
		}
		return f, nil
	case KindBool:
		switch text {
		case "true":
			return true, nil
		case "false":
			return false, nil
		}
		return nil, fmt.Errorf("%q is not true or false", text)
	case KindDuration:
		d, err := time.ParseDuration(text)
		if err != nil || d < 0 {
			return nil, fmt.Errorf("%q is not a duration such as 200ms or 5s", text)
		}
		return d, nil
	case KindString, KindStep:
		return text, nil
	default:
		return nil, fmt.Errorf("%q cannot be a %s", text, t)
	}
}

// CheckBounds applies a field's enum, min and max to a value of its type.
func (f Field) CheckBounds(value any) error {
	if text, ok := value.(string); ok && len(f.Enum) > 0 {
		for _, allowed := range f.Enum {
			if text == allowed {
				return nil
			}
		}
		return fmt.Errorf("%q is not one of %s", text, strings.Join(f.Enum, ", "))
	}
	if f.Type.Kind != KindInt && f.Type.Kind != KindFloat {
		return nil
	}
	n, ok := number(value)
	if ok && f.Min != nil && n < float64(*f.Min) {
		return fmt.Errorf("%s is below the minimum %d", Format(value), *f.Min)
	}
	if ok && f.Max != nil && n > float64(*f.Max) {
		return fmt.Errorf("%s is above the maximum %d", Format(value), *f.Max)
	}
	return nil
}
