package scenarios

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"gopkg.in/yaml.v3"

	"github.com/ister-mq/ister/scenarios/internal/fakecluster"
	"github.com/ister-mq/ister/scenarios/internal/spec"
	"github.com/ister-mq/ister/scenarios/internal/verb"
)

// generated compares what a command makes with the committed file, or rewrites
// that with -rewrite.
func generated(t *testing.T, file string, data []byte) {
	t.Helper()
	if *rewrite {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(data, want) {
		t.Errorf("%s is not what the code makes now; after a change that is meant: go test ./scenarios -run Generated -rewrite", file)
	}
}

func TestGeneratedSchema(t *testing.T) {
	code, out, errOut := scenario(t, fakecluster.Setup{}, "schema")
	if code != 0 {
		t.Fatalf("exit %d: %s", code, errOut)
	}
	generated(t, schemaFile, []byte(out))
}

func TestGeneratedVerbReference(t *testing.T) {
	code, out, errOut := scenario(t, fakecluster.Setup{}, "schema", "--format", "markdown")
	if code != 0 {
		t.Fatalf("exit %d: %s", code, errOut)
	}
	generated(t, "../docs/reference/verbs.md", []byte(out))
}

// schemaOf compiles the schema, with formats and keywords checked.
func schemaOf(t *testing.T) *jsonschema.Schema {
	t.Helper()
	raw, err := spec.Schema(verb.Registry{})
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource(spec.SchemaID, doc); err != nil {
		t.Fatal(err)
	}
	schema, err := compiler.Compile(spec.SchemaID)
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

// validate applies the schema to a YAML text.
func validate(t *testing.T, schema *jsonschema.Schema, source string) error {
	t.Helper()
	var value any
	if err := yaml.Unmarshal([]byte(source), &value); err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	instance, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	return schema.Validate(instance)
}

func TestSchemaAcceptsTheShippedScenarios(t *testing.T) {
	schema := schemaOf(t)
	for _, name := range shippedNames() {
		source, err := shipped.ReadFile(name + "/" + specFile)
		if err != nil {
			t.Fatal(err)
		}
		if err := validate(t, schema, string(source)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if want := schemaLine("../" + schemaFile); !strings.HasPrefix(string(source), want+"\n") {
			t.Errorf("%s: the first line is not %q", name, want)
		}
	}
}

// The schema and lint refuse the same mistakes of form. Lint alone refuses those
// of meaning: the last column says which.
func TestSchemaRefusesWhatLintRefuses(t *testing.T) {
	schema := schemaOf(t)
	base := strings.NewReplacer("      STEPS\n", "", "GUARD", "1").Replace(small)
	lints := func(source string) bool {
		_, err := spec.Parse("small/"+specFile, []byte(source), verb.Registry{})
		return err == nil
	}
	if err := validate(t, schema, base); err != nil || !lints(base) {
		t.Fatalf("the good one is refused: %v", err)
	}
	for _, c := range []struct {
		name, old, new string
		meaning        bool
	}{
		{"unknown key", "title: Small", "titel: Small", false},
		{"missing key", "title: Small\n", "", false},
		{"other version", "scenario/v1", "scenario/v2", false},
		{"bad id", "id: small\n", "id: Small_1\n", false},
		{"unknown risk", "risk: additive", "risk: aditive", false},
		{"unknown setup", "[process]", "[proces]", false},
		{"no setup", "[process]", "[]", false},
		{"bad deadline", "cluster: {", "deadline: 2\ncluster: {", false},
		{"no brokers", "{brokers: 3}", "{brokers: 0}", false},
		{"links that are no switch", "{brokers: 3}", "{brokers: 3, links: yes please}", false},
		{"disk without a unit", "{brokers: 3}", "{brokers: 3, disk: 128}", false},
		{"disk too small", "{brokers: 3}", "{brokers: 3, disk: 1MiB}", true},
		{"unknown verb", "use: cluster.start}", "use: cluster.strat}", false},
		{"unknown input", "name: /default/small}", "nmae: /default/small, name: /default/small}", false},
		{"missing input", "{name: /default/small}", "{count: 1}", false},
		{"missing inputs", ", with: {name: /default/small}}", "}", false},
		{"input of another type", "rate: 200", "rate: fast", false},
		{"input out of bounds", "rate: 200", "rate: -1", false},
		{"input not in the list", "{name: /default/small}", "{name: /default/small, dispatch: reliably}", false},
		{"poll of a change", "with: {name: /default/small}", "with: {name: /default/small}, until: {path: count, op: \"==\", value: 1}", false},
		{"unknown operator", "op: \">=\"", "op: \"=>\"", false},
		{"bad step id", "{id: sent,", "{id: Sent-1,", false},
		{"no criterion", "criteria:\n", "criteria: []\n    guards2:\n", false},
		{"param of another type", "setup:\n", "params: {many: {type: int, default: four, doc: x}}\nsetup:\n", false},
		{"param of no type", "setup:\n", "params: {many: {type: integer, default: 4, doc: x}}\nsetup:\n", false},
		{"list wanted", "always:\n  - {id: last, use: cluster.status}", "always: {id: last, use: cluster.status}", false},

		{"unresolved root", "${topic.kafka_names}", "${tpoic.kafka_names}", true},
		{"unresolved member", "${topic.kafka_names}", "${topic.kafka_nmaes}", true},
		{"step used twice", "{id: stop,", "{id: sent,", true},
		{"criterion of another type", "metric: cluster.count, op: \"==\", value: 3", "metric: cluster.count, op: \"==\", value: three", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if !strings.Contains(base, c.old) {
				t.Fatalf("the good one has no %q", c.old)
			}
			source := strings.Replace(base, c.old, c.new, 1)
			if lints(source) {
				t.Error("lint accepts it")
			}
			if err := validate(t, schema, source); (err == nil) != c.meaning {
				t.Errorf("the schema says: %v", err)
			}
		})
	}
}

func TestSetupsOfTheFormatAreThoseThereAre(t *testing.T) {
	for _, name := range spec.Setups {
		if _, err := os.Stat(filepath.Join("../setups", name)); err != nil {
			t.Errorf("setup %s: %v", name, err)
		}
	}
}
