package spec

// JSONSchema describes values of a type as JSON has them: a duration is text such
// as "1.5s", and what is not known is null.
func (t Type) JSONSchema() map[string]any {
	switch t.Kind {
	case KindInt:
		return orNull("integer")
	case KindFloat:
		return orNull("number")
	case KindBool:
		return orNull("boolean")
	case KindList:
		out := orNull("array")
		out["items"] = t.Elem.JSONSchema()
		return out
	case KindObject:
		properties := map[string]any{}
		for _, f := range t.Fields {
			one := f.Type.JSONSchema()
			if f.Doc != "" {
				one["description"] = f.Doc
			}
			properties[f.Name] = one
		}
		out := orNull("object")
		out["properties"] = properties
		return out
	}
	return orNull("string")
}

func orNull(kind string) map[string]any { return map[string]any{"type": []string{kind, "null"}} }
