package spec

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// SchemaID is the address of the published JSON Schema.
const SchemaID = "https://raw.githubusercontent.com/ister-mq/ister/main/scenarios/schema/scenario.v1.json"

// object is one JSON Schema. encoding/json writes its keys sorted, so that the
// same format gives the same bytes.
type object map[string]any

// The patterns of scalars. A value that is an expression stands for any type.
const (
	expressionPattern = `\$\{.+\}`
	durationPattern   = `^[0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h)([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))*$`
	intPattern        = `^-?[0-9]+$`
	floatPattern      = `^-?[0-9]+(\.[0-9]+)?$`
)

// Schema is the JSON Schema (draft 2020-12) of scenario files that use the given
// verbs. It accepts what Parse accepts, apart from unusual spellings of scalars
// (+5, .5s). It cannot resolve references and knows no uniqueness: a file that
// it accepts may still have problems.
func Schema(verbs Verbs) ([]byte, error) {
	names := slices.Sorted(slices.Values(verbs.Names()))
	root := mapping(scenarioKeys, object{
		"apiVersion":  object{"const": APIVersion, "description": "version of the format"},
		"id":          named(scenarioID.String(), "name of the scenario, and of its directory"),
		"title":       text("what it shows, in one line"),
		"description": text("what happens"),
		"risk":        object{"enum": Risks, "description": "how much it may change, at the most"},
		"setups":      object{"type": "array", "minItems": 1, "items": object{"enum": Setups}, "description": "the setups that it runs on; the first is the default"},
		"deadline":    duration(deadlineDefault, "bound on the whole run, cleanup excluded"),
		"cluster": mapping(clusterKeys, object{
			"brokers": count("brokers that form the cluster"),
			"links":   object{"enum": []any{true, false, "true", "false"}, "default": false, "description": "traffic between the brokers can be cut off and slowed down; it goes through a proxy when a step of the run does so"},
			"disk":    object{"type": "string", "pattern": sizePattern, "description": "size of a file system of its own for each broker's data, in memory, when a step of the run fills it; such as 384MiB"},
		}),
		"params":     object{"type": "object", "propertyNames": object{"pattern": stepID.String()}, "additionalProperties": definition("param"), "description": "what a run may set with --param"},
		"setup":      list("step", 0, "steps before the first aspect"),
		"aspects":    list("aspect", 1, "parts that can be run and judged alone"),
		"on_failure": list("step", 0, "steps after a failure, while the cluster is still there"),
		"always":     list("step", 0, "steps at the end of every run, however it ended"),
	})
	root["$schema"], root["$id"], root["title"] = "https://json-schema.org/draft/2020-12/schema", SchemaID, "Scenario, format "+APIVersion
	root["$defs"] = object{"param": paramSchema(), "aspect": aspectSchema(), "step": stepSchema(names, verbs), "until": untilSchema(), "check": checkSchema()}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(root); err != nil {
		return nil, fmt.Errorf("write schema: %w", err)
	}
	return out.Bytes(), nil
}

// mapping is an object with exactly the given keys. Keys without a property, and
// properties without a key, are a bug of this package.
func mapping(keys []string, properties object) object {
	required := []string{}
	for _, key := range keys {
		name, needed := strings.CutSuffix(key, "!")
		if properties[name] == nil {
			panic("spec: key " + name + " has no schema")
		}
		if needed {
			required = append(required, name)
		}
	}
	if len(properties) != len(keys) {
		panic(fmt.Sprintf("spec: %d keys, %d schemas", len(keys), len(properties)))
	}
	return object{"type": "object", "additionalProperties": false, "required": required, "properties": properties}
}

func definition(name string) object { return object{"$ref": "#/$defs/" + name} }

func list(def string, least int, doc string) object {
	out := object{"type": "array", "items": definition(def), "description": doc}
	if least > 0 {
		out["minItems"] = least
	}
	return out
}

// text is any scalar that reads as text.
func text(doc string) object {
	return object{"type": []string{"string", "number", "boolean"}, "description": doc}
}

func named(pattern, doc string) object {
	return object{"type": "string", "pattern": pattern, "description": doc}
}

func duration(fallback time.Duration, doc string) object {
	return object{"type": "string", "pattern": durationPattern, "default": fallback.String(), "description": doc + "; such as 200ms or 5s"}
}

func count(doc string) object {
	return object{"anyOf": []object{{"type": "integer", "minimum": 1}, {"type": "string", "pattern": `^[0-9]+$`}}, "description": doc}
}

func paramSchema() object {
	out := mapping(paramKeys, object{
		"type": object{"enum": paramTypes}, "default": object{"type": []string{"string", "number", "boolean"}, "description": "its value unless a run sets another"},
		"min": literalSchema(Field{Type: Type{Kind: KindInt}}), "max": literalSchema(Field{Type: Type{Kind: KindInt}}),
		"enum": object{"type": "array", "items": text("an allowed value")}, "doc": text("what it is, with its unit"),
	})
	var typed []object
	for _, kind := range paramTypes {
		typed = append(typed, object{
			"if":   object{"properties": object{"type": object{"const": kind}}, "required": []string{"type"}},
			"then": object{"properties": object{"default": literalSchema(Field{Type: Type{Kind: Kind(kind)}})}},
		})
	}
	out["allOf"] = typed
	return out
}

func aspectSchema() object {
	return mapping(aspectKeys, object{
		"id": named(scenarioID.String(), "name of the aspect, for --aspect"), "title": text("what holds afterwards, in one line"), "description": text("what happens"),
		"needs": object{"type": "array", "items": object{"type": "string"}, "description": "earlier aspects whose steps run before"},
		"steps": list("step", 0, "what is done, in order"), "guards": list("check", 0, "unmet: the run proves nothing and is inconclusive"),
		"criteria": list("check", 1, "unmet: the run fails"),
	})
}

func untilSchema() object {
	return mapping(untilKeys, object{
		"path": object{"type": "string", "minLength": 1, "description": "an output of this step, or an expression over it"}, "op": object{"enum": ops}, "value": valueSchema(),
		"every": duration(untilEveryDefault, "pause between reads"), "within": duration(untilWithinDefault, "bound on the polling; below the step's timeout"),
		"stable": count("reads in a row for which it must hold"),
	})
}

func checkSchema() object {
	return mapping(checkKeys, object{
		"id": named(stepID.String(), "name, unique in its aspect"), "title": text("what is measured, with its unit"),
		"metric": object{"type": []string{"string", "number", "boolean"}, "description": "an expression over the outputs of steps, such as verify.acked_missing"},
		"op":     object{"enum": ops}, "value": valueSchema(), "detail": text("what to show beside the observed value"),
	})
}

func valueSchema() object {
	return object{"type": []string{"string", "number", "boolean", "array"}, "description": "what is wanted, of the type of the other side"}
}

func stepSchema(names []string, verbs Verbs) object {
	docs := make([]string, len(names))
	var perVerb []object
	for i, name := range names {
		signature, _ := verbs.Signature(name)
		docs[i] = fmt.Sprintf("%s (%s)", signature.Doc, signature.Risk)
		perVerb = append(perVerb, verbSchema(name, signature))
	}
	out := mapping(stepKeys, object{
		"id":      named(stepID.String(), "name of the step; later expressions read its outputs by it"),
		"title":   text("what it does, in a few words"),
		"use":     object{"enum": names, "markdownEnumDescriptions": docs, "description": "the verb"},
		"with":    object{"type": "object", "description": "the inputs of the verb"},
		"until":   definition("until"),
		"timeout": duration(stepTimeoutDefault, "bound on the step, until included"), "otherwise": text("what to do when it does not hold"),
	})
	out["allOf"] = perVerb
	return out
}

// verbSchema says what a step with this verb may hold.
func verbSchema(name string, signature Signature) object {
	properties, required := object{}, []string{}
	for _, f := range signature.Inputs.Fields {
		properties[f.Name] = inputSchema(f)
		if f.Required {
			required = append(required, f.Name)
		}
	}
	then := object{"properties": object{"with": object{"additionalProperties": false, "properties": properties, "required": required}}}
	if len(required) > 0 {
		then["required"] = []string{"with"}
	}
	if !signature.Pollable {
		then["properties"].(object)["until"] = false
	}
	return object{"if": object{"properties": object{"use": object{"const": name}}, "required": []string{"use"}}, "then": then}
}

// inputSchema is the schema of an input: a literal, or an expression.
func inputSchema(f Field) object {
	var out object
	switch f.Type.Kind {
	case KindList:
		out = object{"anyOf": []object{{"type": "array", "items": inputSchema(Field{Type: *f.Type.Elem})}, {"type": "string", "pattern": expressionPattern}}}
	case KindStep:
		out = object{"type": "string", "pattern": stepID.String()}
	default:
		out = object{"anyOf": []object{literalSchema(f), {"type": "string", "pattern": expressionPattern}}}
	}
	if f.Doc != "" {
		out["description"] = f.Doc
	}
	if f.Default != nil {
		out["default"] = f.Default
		if d, ok := f.Default.(time.Duration); ok {
			out["default"] = d.String()
		}
	}
	return out
}

// literalSchema is the schema of a scalar as it is written, quoted or not.
func literalSchema(f Field) object {
	switch f.Type.Kind {
	case KindInt, KindFloat:
		number, pattern := object{"type": "integer"}, intPattern
		if f.Type.Kind == KindFloat {
			number["type"], pattern = "number", floatPattern
		}
		if f.Min != nil {
			number["minimum"] = *f.Min
		}
		if f.Max != nil {
			number["maximum"] = *f.Max
		}
		return object{"anyOf": []object{number, {"type": "string", "pattern": pattern}}}
	case KindBool:
		return object{"enum": []any{true, false, "true", "false"}}
	case KindDuration:
		return object{"type": "string", "pattern": durationPattern}
	}
	if len(f.Enum) > 0 {
		return object{"enum": f.Enum}
	}
	return object{"type": []string{"string", "number"}}
}
