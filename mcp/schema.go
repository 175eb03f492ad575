package mcp

import (
	"encoding/json"
	"reflect"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// schema is a JSON Schema of an object.
type schema map[string]any

// schemaDepth bounds how deep messages are described: what lies deeper is an
// object without further words, so that a list of tools stays short.
const schemaDepth = 2

// outputSchema is the schema of a result. No field is required, since a tool
// error is a result as well, and some clients hold it to the same schema.
func (t *tool) outputSchema() json.RawMessage {
	properties := map[string]any{}
	own, _ := t.result["properties"].(map[string]any)
	for name, s := range own {
		properties[name] = s
	}
	properties["summary"] = map[string]any{"type": "string", "description": "the result in one line"}
	properties["next"] = map[string]any{"type": "array", "items": map[string]any{"type": "object"}, "description": "calls that make sense now: tool, args, why"}
	if t.list != "" {
		properties["total"] = map[string]any{"type": "integer", "description": "rows of " + t.list}
		properties["next_cursor"] = map[string]any{"type": "string", "description": "there are more rows: pass it as cursor"}
	}
	if t.planned() {
		properties["status"] = map[string]any{"type": "string", "enum": []string{statusPlanned, statusDone}}
		properties["effect"] = map[string]any{"type": "object", "description": "of a plan: what would be done"}
		properties["plan_id"] = map[string]any{"type": "string"}
		properties["expires_at"] = map[string]any{"type": "string"}
	}
	return mustJSON(map[string]any{"type": "object", "properties": properties})
}

// messageSchema describes a message in the JSON that the admin CLI prints too.
func messageSchema(m proto.Message) schema {
	return describe(m.ProtoReflect().Descriptor(), schemaDepth)
}

func describe(d protoreflect.MessageDescriptor, depth int) schema {
	properties := map[string]any{}
	for i := range d.Fields().Len() {
		f := d.Fields().Get(i)
		var s map[string]any
		switch {
		case f.IsMap():
			s = map[string]any{"type": "object", "additionalProperties": describeOne(f.MapValue(), depth)}
		case f.IsList():
			s = map[string]any{"type": "array", "items": describeOne(f, depth)}
		default:
			s = describeOne(f, depth)
		}
		properties[string(f.Name())] = s
	}
	return schema{"type": "object", "properties": properties}
}

func describeOne(f protoreflect.FieldDescriptor, depth int) map[string]any {
	switch f.Kind() {
	case protoreflect.BoolKind:
		return map[string]any{"type": "boolean"}
	case protoreflect.Int32Kind, protoreflect.Uint32Kind:
		return map[string]any{"type": "integer"}
	case protoreflect.DoubleKind, protoreflect.FloatKind:
		return map[string]any{"type": "number"}
	case protoreflect.EnumKind:
		names := []string{}
		for i := range f.Enum().Values().Len() {
			names = append(names, string(f.Enum().Values().Get(i).Name()))
		}
		return map[string]any{"type": "string", "enum": names}
	case protoreflect.MessageKind:
		switch f.Message().FullName() {
		case "google.protobuf.DoubleValue":
			return map[string]any{"type": []string{"number", "null"}}
		case "google.protobuf.Int32Value":
			return map[string]any{"type": []string{"integer", "null"}}
		case "google.protobuf.Int64Value", "google.protobuf.Timestamp":
			return map[string]any{"type": []string{"string", "null"}}
		}
		out := map[string]any{"type": []string{"object", "null"}}
		if depth > 1 {
			out["properties"] = describe(f.Message(), depth-1)["properties"]
		}
		return out
	}
	return map[string]any{"type": "string"} // strings, and 64-bit numbers, which JSON readers would round
}

// typeSchema describes a Go type by its json and doc tags.
func typeSchema[T any]() schema { return schema(describeType(reflect.TypeFor[T]())) }

func describeType(t reflect.Type) map[string]any {
	switch {
	case t == reflect.TypeFor[time.Time]():
		return map[string]any{"type": "string"}
	case t == reflect.TypeFor[json.RawMessage]():
		return map[string]any{}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return describeType(t.Elem())
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Int, reflect.Int32, reflect.Int64:
		return map[string]any{"type": "integer"}
	case reflect.Float64:
		return map[string]any{"type": "number"}
	case reflect.String:
		return map[string]any{"type": "string"}
	case reflect.Slice:
		return map[string]any{"type": "array", "items": describeType(t.Elem())}
	case reflect.Map:
		return map[string]any{"type": "object"}
	case reflect.Struct:
		properties := map[string]any{}
		addFields(properties, t)
		return map[string]any{"type": "object", "properties": properties}
	}
	return map[string]any{}
}

func addFields(properties map[string]any, t reflect.Type) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous && name == "" {
			addFields(properties, f.Type)
			continue
		}
		if name == "" || name == "-" {
			continue
		}
		s := describeType(f.Type)
		if f.Type.Kind() == reflect.Pointer && !strings.Contains(options, "omitempty") {
			s["type"] = []any{s["type"], "null"} // unknown
		}
		if doc := f.Tag.Get("doc"); doc != "" {
			s["description"] = doc
		}
		properties[name] = s
	}
}
