package scenarios

import "github.com/ister-mq/ister/scenarios/internal/spec"

// The parts of SARIF 2.1.0 (OASIS) that a lint needs.
type sarifLog struct {
	Schema  string     `json:"$schema"`
	Version string     `json:"version"`
	Runs    []sarifRun `json:"runs"`
}

type sarifRun struct {
	Tool       sarifTool     `json:"tool"`
	ColumnKind string        `json:"columnKind"`
	Results    []sarifResult `json:"results"`
}

type sarifTool struct {
	Driver sarifDriver `json:"driver"`
}

type sarifDriver struct {
	Name  string      `json:"name"`
	Rules []sarifRule `json:"rules"`
}

type sarifRule struct {
	ID    string    `json:"id"`
	Short sarifText `json:"shortDescription"`
}

type sarifText struct {
	Text string `json:"text"`
}

type sarifResult struct {
	RuleID    string          `json:"ruleId"`
	RuleIndex int             `json:"ruleIndex"`
	Level     string          `json:"level"`
	Message   sarifText       `json:"message"`
	Locations []sarifLocation `json:"locations"`
}

type sarifLocation struct {
	Physical sarifPhysical `json:"physicalLocation"`
}

type sarifPhysical struct {
	Artifact sarifArtifact `json:"artifactLocation"`
	Region   sarifRegion   `json:"region"`
}

type sarifArtifact struct {
	URI string `json:"uri"`
}

type sarifRegion struct {
	StartLine   int `json:"startLine"`
	StartColumn int `json:"startColumn"`
}

// sarifOf is the log of one lint. Every rule is described, found or not, so that
// a reader knows what was looked for.
func sarifOf(problems spec.Problems) sarifLog {
	run := sarifRun{Tool: sarifTool{sarifDriver{Name: "scenario lint"}}, ColumnKind: "unicodeCodePoints", Results: []sarifResult{}}
	index := map[spec.Rule]int{}
	for i, rule := range spec.Rules {
		index[rule.Rule] = i
		run.Tool.Driver.Rules = append(run.Tool.Driver.Rules, sarifRule{string(rule.Rule), sarifText{rule.Doc}})
	}
	for _, p := range problems {
		text := p.Message
		if p.Hint != "" {
			text += " (" + p.Hint + ")"
		}
		run.Results = append(run.Results, sarifResult{
			RuleID: string(p.Rule), RuleIndex: index[p.Rule], Level: "error", Message: sarifText{text},
			Locations: []sarifLocation{{sarifPhysical{sarifArtifact{p.File}, sarifRegion{max(p.Line, 1), max(p.Column, 1)}}}},
		})
	}
	return sarifLog{Schema: "https://json.schemastore.org/sarif-2.1.0.json", Version: "2.1.0", Runs: []sarifRun{run}}
}
