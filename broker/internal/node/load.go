package node

import (
	"fmt"
	"os"
	"strings"

	"gopkg.in/yaml.v3"
)

// Sources are where settings come from, strongest first: a flag that was given,
// the environment, the config file, the default.
type Sources struct {
	Flag func(name string) (value string, given bool)
	Env  func(name string) (value string, given bool)
	// File is the path of a YAML config file; "" reads none.
	File string
}

// UsageError is wrong input by the person who started the node. Its text names
// where the value came from, what was wrong and what was expected.
type UsageError struct{ Text string }

// Error implements error.
func (e *UsageError) Error() string { return e.Text }

func usage(format string, args ...any) error { return &UsageError{Text: fmt.Sprintf(format, args...)} }

// Load gathers the settings. Every error is a *UsageError, except that the
// config file cannot be read.
func Load(src Sources) (Config, error) {
	var c Config
	file := map[string]fileValue{}
	if src.File != "" {
		data, err := os.ReadFile(src.File)
		if err != nil {
			return c, fmt.Errorf("read config file: %w", err)
		}
		if file, err = parseFile(src.File, data); err != nil {
			return c, err
		}
	}
	for _, s := range Settings {
		value, from := s.Default, "default of --"+s.Name
		if v, ok := file[s.Key()]; ok {
			value, from = v.text, fmt.Sprintf("%s:%d: key %q", src.File, v.line, s.Key())
		}
		if v, ok := lookup(src.Env, s.Env()); ok {
			value, from = v, "environment "+s.Env()
		}
		if v, ok := lookup(src.Flag, s.Name); ok {
			value, from = v, "flag --"+s.Name
		}
		if err := s.set(&c, value); err != nil {
			return c, usage("%s: value %q: %v", from, value, err)
		}
	}
	return c, c.check()
}

func lookup(f func(string) (string, bool), name string) (string, bool) {
	if f == nil {
		return "", false
	}
	return f(name)
}

// check judges settings against each other.
func (c *Config) check() error {
	if c.Join && len(c.SeedNodes) > 0 {
		return usage("--join and --seed-nodes exclude each other: --join waits to be added to a running cluster, --seed-nodes forms a new one; drop one of them")
	}
	byAddress := map[string]string{}
	for _, l := range []struct{ name, address string }{
		{"broker-addr", c.BrokerAddr}, {"admin-addr", c.AdminAddr}, {"raft-addr", c.RaftAddr}, {"prom-exporter", c.MetricsAddr},
	} {
		if l.address == "" || strings.HasSuffix(l.address, ":0") {
			continue
		}
		if other, taken := byAddress[l.address]; taken {
			return usage("--%s and --%s are both %s; give each its own port", other, l.name, l.address)
		}
		byAddress[l.address] = l.name
	}
	return nil
}

type fileValue struct {
	text string
	line int
}

// parseFile reads a flat YAML mapping strictly: an unknown or repeated key and
// a value of the wrong type are errors with file and line.
func parseFile(path string, data []byte) (map[string]fileValue, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		return nil, usage("%s: %s", path, strings.TrimPrefix(err.Error(), "yaml: "))
	}
	out := map[string]fileValue{}
	if len(doc.Content) == 0 {
		return out, nil
	}
	root := doc.Content[0]
	if root.Kind != yaml.MappingNode {
		return nil, usage("%s:%d: expected a mapping of settings such as `broker_addr: 0.0.0.0:6650`", path, root.Line)
	}
	for i := 0; i+1 < len(root.Content); i += 2 {
		key, value := root.Content[i], root.Content[i+1]
		s, ok := lookupKey(key.Value)
		if !ok {
			return nil, usage("%s:%d: key %q: unknown key; %s", path, key.Line, key.Value, suggestion(key.Value))
		}
		if _, twice := out[s.Key()]; twice {
			return nil, usage("%s:%d: key %q: given twice", path, key.Line, key.Value)
		}
		text, err := scalar(s, value)
		if err != nil {
			return nil, usage("%s:%d: key %q: %v", path, value.Line, key.Value, err)
		}
		out[s.Key()] = fileValue{text: text, line: value.Line}
	}
	return out, nil
}

func lookupKey(key string) (Setting, bool) {
	for _, s := range Settings {
		if s.Key() == key {
			return s, true
		}
	}
	return Setting{}, false
}

// scalar checks the YAML type of a value and returns its text.
func scalar(s Setting, v *yaml.Node) (string, error) {
	if s.Type == TypeList && v.Kind == yaml.SequenceNode {
		var parts []string
		for _, item := range v.Content {
			if item.Kind != yaml.ScalarNode || item.Tag == "!!null" {
				return "", fmt.Errorf("line %d: expected an address, got %s", item.Line, describe(item))
			}
			parts = append(parts, item.Value)
		}
		return strings.Join(parts, ","), nil
	}
	if v.Kind != yaml.ScalarNode {
		return "", fmt.Errorf("expected %s, got %s", s.Type, describe(v))
	}
	allowed := map[SettingType][]string{
		TypeString: {"!!str"}, TypeAddress: {"!!str", "!!int"}, TypeList: {"!!str"}, TypeBool: {"!!bool"},
		TypeInteger: {"!!int"}, TypeBytes: {"!!int", "!!str"}, TypeDuration: {"!!str"},
	}[s.Type]
	for _, tag := range allowed {
		if v.Tag == tag {
			return v.Value, nil
		}
	}
	return "", fmt.Errorf("expected %s, got %s", s.Type, describe(v))
}

func describe(v *yaml.Node) string {
	switch v.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	case yaml.AliasNode:
		return "an alias"
	}
	if v.Tag == "!!null" {
		return "nothing"
	}
	return fmt.Sprintf("%s %q", strings.TrimPrefix(v.Tag, "!!"), v.Value)
}

// suggestion names the nearest key, or all of them.
func suggestion(key string) string {
	best, bestDistance := "", len(key)/2+1
	for _, s := range Settings {
		if d := distance(key, s.Key()); d < bestDistance {
			best, bestDistance = s.Key(), d
		}
	}
	if best != "" {
		return fmt.Sprintf("did you mean %q?", best)
	}
	keys := make([]string, len(Settings))
	for i, s := range Settings {
		keys[i] = s.Key()
	}
	return "expected one of " + strings.Join(keys, ", ")
}

// distance is the number of single-byte edits between a and b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diagonal := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			change := diagonal
			if a[i-1] != b[j-1] {
				change++
			}
			diagonal = row[j]
			row[j] = min(change, row[j]+1, row[j-1]+1)
		}
	}
	return row[len(b)]
}
