package spec

import (
	"fmt"
	"reflect"
	"sort"
	"strconv"
	"strings"
	"time"
)

// Values at run time are int64, float64, bool, string, time.Duration, []any and
// map[string]any, as their types say.

// ToValue turns a verb's typed output into a value.
func ToValue(v any) any { return toValue(reflect.ValueOf(v)) }

func toValue(v reflect.Value) any {
	if v.Type() == durationType {
		return time.Duration(v.Int())
	}
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return nil
		}
		return toValue(v.Elem())
	case reflect.Bool:
		return v.Bool()
	case reflect.Int, reflect.Int16, reflect.Int32, reflect.Int64:
		return v.Int()
	case reflect.Float64:
		return v.Float()
	case reflect.String:
		return v.String()
	case reflect.Slice:
		out := make([]any, 0, v.Len())
		for i := range v.Len() {
			out = append(out, toValue(v.Index(i)))
		}
		return out
	case reflect.Struct:
		out := map[string]any{}
		for i := range v.NumField() {
			name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
			out[name] = toValue(v.Field(i))
		}
		return out
	default:
		panic(fmt.Sprintf("spec: %s is not a scenario value", v.Type()))
	}
}

// FromValue fills the struct that target points to from an object value. Fields
// without a value keep their zero.
func FromValue(value map[string]any, target any) error {
	v := reflect.ValueOf(target).Elem()
	for i := range v.NumField() {
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		given, ok := value[name]
		if !ok || given == nil {
			continue
		}
		if err := setValue(v.Field(i), given); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func setValue(field reflect.Value, given any) error {
	switch {
	case field.Kind() == reflect.Slice:
		list, ok := given.([]any)
		if !ok {
			return fmt.Errorf("want a list, got %T", given)
		}
		out := reflect.MakeSlice(field.Type(), len(list), len(list))
		for i, item := range list {
			if err := setValue(out.Index(i), item); err != nil {
				return err
			}
		}
		field.Set(out)
		return nil
	case field.Kind() == reflect.Float64:
		if n, ok := given.(int64); ok {
			field.SetFloat(float64(n))
			return nil
		}
	}
	source := reflect.ValueOf(given)
	if !source.CanConvert(field.Type()) || (field.Kind() == reflect.String) != (source.Kind() == reflect.String) {
		return fmt.Errorf("want %s, got %T", field.Type(), given)
	}
	field.Set(source.Convert(field.Type()))
	return nil
}

// Format renders a value for people: short, stable, without Go syntax.
func Format(value any) string {
	switch v := value.(type) {
	case nil:
		return "none"
	case string:
		return v
	case bool:
		return strconv.FormatBool(v)
	case int64:
		return strconv.FormatInt(v, 10)
	case float64:
		return formatFloat(v)
	case time.Duration:
		return v.String()
	case []any:
		parts := make([]string, len(v))
		for i, item := range v {
			parts[i] = Format(item)
		}
		return strings.Join(parts, " ")
	case map[string]any:
		keys := make([]string, 0, len(v))
		for k := range v {
			keys = append(keys, k)
		}
		sort.Strings(keys)
		parts := make([]string, len(keys))
		for i, k := range keys {
			parts[i] = k + "=" + Format(v[k])
		}
		return strings.Join(parts, " ")
	default:
		return fmt.Sprint(v)
	}
}

// formatFloat keeps four decimals at most: 0.2357, 12.5, 3.
func formatFloat(f float64) string {
	text := strconv.FormatFloat(f, 'f', 4, 64)
	text = strings.TrimRight(text, "0")
	return strings.TrimSuffix(text, ".")
}

// Compare applies an operator of a criterion. The operands have been
// type-checked; an error means that there is no value to compare (none).
func Compare(op string, observed, expected any) (bool, error) {
	if observed == nil {
		return false, nil
	}
	switch op {
	case "==":
		return equal(observed, expected), nil
	case "!=":
		return !equal(observed, expected), nil
	case "contains":
		list, ok := observed.([]any)
		if !ok {
			return false, fmt.Errorf("contains needs a list, got %T", observed)
		}
		for _, item := range list {
			if equal(item, expected) {
				return true, nil
			}
		}
		return false, nil
	case "excludes":
		contains, err := Compare("contains", observed, expected)
		return !contains, err
	}
	a, aok := number(observed)
	b, bok := number(expected)
	if !aok || !bok {
		return false, fmt.Errorf("%s needs numbers, got %s and %s", op, Format(observed), Format(expected))
	}
	switch op {
	case "<":
		return a < b, nil
	case "<=":
		return a <= b, nil
	case ">":
		return a > b, nil
	case ">=":
		return a >= b, nil
	}
	return false, fmt.Errorf("unknown operator %q", op)
}

func number(v any) (float64, bool) {
	switch n := v.(type) {
	case int64:
		return float64(n), true
	case float64:
		return n, true
	case time.Duration:
		return float64(n), true
	}
	return 0, false
}

func equal(a, b any) bool {
	if x, ok := number(a); ok {
		y, ok := number(b)
		return ok && x == y
	}
	return reflect.DeepEqual(a, b)
}
