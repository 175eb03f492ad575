package scenarios

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/ister-mq/ister/scenarios/internal/spec"
	"github.com/ister-mq/ister/scenarios/internal/verb"
	"github.com/ister-mq/ister/setups"
)

// StepTool is a step of a scenario as a tool of an agent. All of it follows from
// the scenario's file and the verb's types.
type StepTool struct {
	Name     string // <scenario>_<step>
	Scenario string
	Stage    string // setup, or an aspect
	Step     string
	Title    string
	Use      string // the verb
	Risk     string
	Doc      string // what the verb does
	Command  string // what a person would type, with what only a run knows in <>
	Inputs   map[string]string
	Until    string // what the step waits for, or ""
	// Otherwise says what to do when it does not hold; "" says nothing.
	Otherwise string
	// Outputs is the JSON Schema of what the step gives.
	Outputs map[string]any
}

// StepTools are the steps of the shipped scenarios, in their order. Steps after
// the verdict are left out: a run does not pause in them.
func StepTools() ([]StepTool, error) {
	var tools []StepTool
	for _, name := range shippedNames() {
		s, err := load(name)
		if err != nil {
			return nil, err
		}
		add := func(stage string, steps []*spec.Step) {
			for _, step := range steps {
				tools = append(tools, stepToolOf(s, stage, step))
			}
		}
		add("setup", s.Setup)
		for _, stage := range s.Stages(nil) {
			add(stage.Aspect.ID, stage.Aspect.Steps)
		}
	}
	return tools, nil
}

func stepToolOf(s *spec.Scenario, stage string, step *spec.Step) StepTool {
	v, _ := verb.Lookup(step.Use) // the parser has looked it up
	t := StepTool{
		Name: stepTool(s.ID, step.ID), Scenario: s.ID, Stage: stage, Step: step.ID, Title: step.Title, Use: step.Use, Risk: string(v.Risk), Doc: v.Doc,
		Inputs: map[string]string{}, Otherwise: step.Otherwise, Outputs: v.Outputs.JSONSchema(),
	}
	if t.Title == "" {
		t.Title = v.Doc
	}
	if !runnerOnly(step) {
		t.Command = stepCommand(s, step)
	}
	for name, template := range step.With {
		t.Inputs[name] = rendered(s, template)
	}
	if u := step.Until; u != nil {
		t.Until = fmt.Sprintf("%s %s %s within %s", u.Path, u.Op, rendered(s, u.Value), u.Within)
	}
	return t
}

// NewCommandOn makes the command tree with other setups than those that ship, in
// the order in which they are looked through.
func NewCommandOn(known ...setups.Setup) *cobra.Command { return newCommand(known...) }
