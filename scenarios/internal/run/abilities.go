package run

import (
	"fmt"
	"strings"

	"github.com/ister-mq/ister/scenarios/internal/spec"
	"github.com/ister-mq/ister/scenarios/internal/verb"
	"github.com/ister-mq/ister/setups"
)

// Obstacle is a step that needs what a setup cannot do.
type Obstacle struct {
	Stage, Step, Verb string
	Ability           setups.Ability
	Refused           *setups.Refused
}

// String names the step, the ability, why it is missing, and what to do.
func (o Obstacle) String() string {
	return fmt.Sprintf("step %s (%s) of %s needs the ability %s: %v", o.Step, o.Verb, o.Stage, o.Ability, o.Refused)
}

// Obstacles are the steps of the chosen aspects (all when none is chosen), of
// what they need, and of the parts around them, that a setup cannot do. Steps
// after until, when it is given, do not run.
func Obstacles(s *spec.Scenario, aspects []string, until string, setup setups.Setup) []Obstacle {
	var found []Obstacle
	reached := true
	look := func(stage string, steps []*spec.Step) {
		for _, step := range steps {
			v, known := verb.Lookup(step.Use)
			if !known || !reached {
				continue
			}
			for _, ability := range v.Needs {
				if refused := setups.Cannot(setup, ability); refused != nil {
					found = append(found, Obstacle{Stage: stage, Step: step.ID, Verb: step.Use, Ability: ability, Refused: refused})
				}
			}
			reached = step.ID != until
		}
	}
	look("setup", s.Setup)
	for _, stage := range s.Stages(aspects) {
		look("aspect "+stage.Aspect.ID, stage.Aspect.Steps)
	}
	reached, until = true, ""
	look("on_failure", s.OnFailure)
	look("always", s.Always)
	return found
}

// RunnableAspects are the aspects that meet no obstacle on a setup, with what
// they need. lifted leaves out the obstacles that a flag would take away.
func RunnableAspects(s *spec.Scenario, setup setups.Setup, lifted bool) []string {
	runnable := []string{}
	for _, id := range s.AspectIDs() {
		blocked := false
		for _, o := range Obstacles(s, []string{id}, "", setup) {
			blocked = blocked || !lifted || o.Refused.Flag == ""
		}
		if !blocked {
			runnable = append(runnable, id)
		}
	}
	return runnable
}

// UnableError says that a scenario cannot run on a setup, before anything was
// done.
type UnableError struct {
	Scenario, Setup string
	Obstacles       []Obstacle
	Runnable        []string // aspects that could be chosen instead
}

// Error has a line for each ability that is missing, with the first step that
// needs it.
func (u *UnableError) Error() string {
	var out strings.Builder
	fmt.Fprintf(&out, "scenario %s cannot run on setup %s; nothing was started", u.Scenario, u.Setup)
	told := map[setups.Ability]bool{}
	for _, o := range u.Obstacles {
		if told[o.Ability] {
			continue
		}
		told[o.Ability] = true
		fmt.Fprintf(&out, "\n  %s", o)
		if more := u.others(o); more > 0 {
			fmt.Fprintf(&out, " (%d more steps need it)", more)
		}
	}
	if len(u.Runnable) > 0 {
		fmt.Fprintf(&out, "\n  what can run here: --aspect %s", strings.Join(u.Runnable, " --aspect "))
	}
	return out.String()
}

// others counts the further steps that need the same ability.
func (u *UnableError) others(first Obstacle) int {
	n := -1
	for _, o := range u.Obstacles {
		if o.Ability == first.Ability {
			n++
		}
	}
	return n
}

// CheckAbilities is nil when the setup can do every step, and else an
// *UnableError.
func CheckAbilities(s *spec.Scenario, aspects []string, until string, setup setups.Setup) error {
	obstacles := Obstacles(s, aspects, until, setup)
	if len(obstacles) == 0 {
		return nil
	}
	return &UnableError{Scenario: s.ID, Setup: setup.Name(), Obstacles: obstacles, Runnable: RunnableAspects(s, setup, false)}
}
