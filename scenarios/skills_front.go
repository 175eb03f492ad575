package scenarios

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"

	"github.com/ister-mq/ister/scenarios/internal/spec"
)

// The Agent Skills format (agentskills.io): the keys it allows, and its bounds in
// characters.
var (
	frontKeys = []string{"name", "description", "license", "compatibility", "metadata", "allowed-tools"}
	frontName = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)
)

const (
	frontNameMax          = 64
	frontDescriptionMax   = 1024
	frontCompatibilityMax = 500
)

// checkFrontMatter holds the front matter of a skill to the format.
func checkFrontMatter(s skill) spec.Problems {
	rest, opened := strings.CutPrefix(s.text, "---\n")
	front, _, closed := strings.Cut(rest, "\n---\n")
	if !opened || !closed {
		return spec.Problems{s.problem(1, ruleSkill, "there is no front matter between --- lines", "it needs name and description")}
	}
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(front), &doc); err != nil {
		return spec.Problems{s.problem(1, ruleSkill, "front matter: "+err.Error(), "")}
	}
	if len(doc.Content) == 0 || doc.Content[0].Kind != yaml.MappingNode {
		return spec.Problems{s.problem(1, ruleSkill, "front matter: want a mapping", "")}
	}
	var problems spec.Problems
	values := map[string]*yaml.Node{}
	members := doc.Content[0].Content
	for i := 0; i+1 < len(members); i += 2 {
		key := members[i].Value
		if !slices.Contains(frontKeys, key) {
			problems = append(problems, s.problem(members[i].Line+1, ruleSkill, fmt.Sprintf("front matter: unknown key %q", key), spec.Suggest(key, frontKeys)))
		}
		values[key] = members[i+1]
	}
	for _, c := range []struct {
		key      string
		required bool
		most     int
	}{{"name", true, frontNameMax}, {"description", true, frontDescriptionMax}, {"compatibility", false, frontCompatibilityMax}, {"license", false, frontCompatibilityMax}, {"allowed-tools", false, frontDescriptionMax}} {
		value := values[c.key]
		if value == nil {
			if c.required {
				problems = append(problems, s.problem(1, ruleSkill, fmt.Sprintf("front matter: key %q is missing", c.key), ""))
			}
			continue
		}
		if size := utf8.RuneCountInString(value.Value); value.Tag != "!!str" || size < 1 || size > c.most {
			problems = append(problems, s.problem(value.Line+1, ruleSkill, fmt.Sprintf("front matter: %s must be text of 1 to %d characters", c.key, c.most), ""))
		}
	}
	if name := values["name"]; name != nil && (name.Value != s.name || !frontName.MatchString(name.Value)) {
		problems = append(problems, s.problem(name.Line+1, ruleSkill, fmt.Sprintf("front matter: name is %q, the directory %q", name.Value, s.name), "they must be the same, in lower-case words joined by single hyphens"))
	}
	if metadata := values["metadata"]; metadata != nil {
		var pairs map[string]string
		if err := metadata.Decode(&pairs); err != nil {
			problems = append(problems, s.problem(metadata.Line+1, ruleSkill, "front matter: metadata must map text to text", ""))
		}
	}
	return problems
}

// frontValue is a text of the front matter; empty when there is none.
func frontValue(s skill, key string) string {
	rest, _ := strings.CutPrefix(s.text, "---\n")
	front, _, _ := strings.Cut(rest, "\n---\n")
	var values map[string]any
	if yaml.Unmarshal([]byte(front), &values) != nil {
		return ""
	}
	text, _ := values[key].(string)
	return text
}
