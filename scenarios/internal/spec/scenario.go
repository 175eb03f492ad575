package spec

import (
	"slices"
	"sort"
	"time"

	"github.com/ister-mq/ister/setups"
)

// APIVersion is the only format version this build reads.
const APIVersion = "scenario/v1"

// Risk says how much a step or a scenario changes.
type Risk string

// The risks, from least to most.
const (
	ReadOnly    Risk = "read-only"
	Additive    Risk = "additive"
	Disruptive  Risk = "disruptive"
	Destructive Risk = "destructive"
)

// Risks lists the risks in order.
var Risks = []string{string(ReadOnly), string(Additive), string(Disruptive), string(Destructive)}

// Signature is what the parser has to know about a verb.
type Signature struct {
	Name, Doc       string
	Risk            Risk
	Inputs, Outputs Type
	// Pollable verbs may carry `until`: they are read-only, or have a read that
	// `until` repeats without doing the change again.
	Pollable bool
	// Limits are what the cluster section has to give the brokers for it.
	Limits Limits
}

// Limits of a cluster, as far as a verb may need them.
type Limits struct{ Links, Disk bool }

// Verbs looks a verb up by name.
type Verbs interface {
	Signature(name string) (Signature, bool)
	Names() []string
}

// Scenario is one parsed and checked file.
type Scenario struct {
	ID, Title, Description string
	Risk                   Risk
	Setups                 []string
	Deadline               time.Duration // bounds the whole run, cleanup excluded
	Brokers                int           // how many form the cluster
	Limits                 setups.Limits // what steps may use; LimitsOf is what a run does
	Params                 []Field
	Setup                  []*Step // run once before the first aspect
	Aspects                []*Aspect
	OnFailure, Always      []*Step
	Source                 []byte
	File                   string
}

// Aspect is a part of a scenario that can be run and judged alone.
type Aspect struct {
	ID, Title, Description string
	// Needs are aspects whose steps run before this one. They are judged only
	// when they were asked for themselves.
	Needs            []string
	Steps            []*Step
	Guards, Criteria []*Check
}

// Step is one use of a verb.
type Step struct {
	ID, Title string
	Use       string
	Verb      Signature
	With      map[string]*Template
	Until     *Until
	Timeout   time.Duration // bounds the step, until included
	Otherwise string        // what to do when it does not hold; "" says nothing
	Line      int
}

// Until repeats a step's read until a value holds.
type Until struct {
	Path          *Template // over the step's own outputs
	Op            string
	Value         *Template
	Every, Within time.Duration
	Stable        int // so many reads in a row
}

// Check is a guard or a criterion.
type Check struct {
	ID, Title string
	Metric    *Template
	Op        string
	Value     *Template
	Detail    *Template // optional text beside the observed value
	Line      int
}

// Defaults of the optional keys.
const (
	stepTimeoutDefault = time.Minute
	deadlineDefault    = 10 * time.Minute
	untilEveryDefault  = 200 * time.Millisecond
	untilWithinDefault = 20 * time.Second
)

// LimitsOf is what a run of the chosen aspects (all when none is chosen) needs of
// its cluster: what no step uses costs something and is left out.
func (s *Scenario) LimitsOf(chosen []string) setups.Limits {
	steps := slices.Clone(s.Setup)
	for _, stage := range s.Stages(chosen) {
		steps = append(steps, stage.Aspect.Steps...)
	}
	var out setups.Limits
	for _, step := range steps {
		out.Links = out.Links || step.Verb.Limits.Links
		if step.Verb.Limits.Disk {
			out.DiskBytes = s.Limits.DiskBytes
		}
	}
	return out
}

// Aspect returns the named aspect.
func (s *Scenario) Aspect(id string) (*Aspect, bool) {
	for _, a := range s.Aspects {
		if a.ID == id {
			return a, true
		}
	}
	return nil, false
}

// AspectIDs lists the aspects in order.
func (s *Scenario) AspectIDs() []string {
	ids := make([]string, len(s.Aspects))
	for i, a := range s.Aspects {
		ids[i] = a.ID
	}
	return ids
}

// Stage is one aspect in the order of a run.
type Stage struct {
	Aspect *Aspect
	Judged bool // false: only a need of another aspect
}

// Stages orders the chosen aspects (all when none is chosen) and what they need,
// in file order.
func (s *Scenario) Stages(chosen []string) []Stage {
	judged, needed := map[string]bool{}, map[string]bool{}
	if len(chosen) == 0 {
		chosen = s.AspectIDs()
	}
	var need func(id string)
	need = func(id string) {
		if needed[id] {
			return
		}
		needed[id] = true
		if a, ok := s.Aspect(id); ok {
			for _, n := range a.Needs {
				need(n)
			}
		}
	}
	for _, id := range chosen {
		judged[id] = true
		need(id)
	}
	var stages []Stage
	for _, a := range s.Aspects {
		if needed[a.ID] {
			stages = append(stages, Stage{a, judged[a.ID]})
		}
	}
	return stages
}

// ResolveParams checks given parameters (name to text) and fills in defaults.
func (s *Scenario) ResolveParams(given map[string]string) (map[string]any, Problems) {
	var problems Problems
	object := Type{Kind: KindObject, Fields: s.Params}
	values := map[string]any{}
	for _, f := range s.Params {
		values[f.Name] = f.Default
	}
	names := make([]string, 0, len(given))
	for name := range given {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		f, ok := object.Field(name)
		if !ok {
			problems = append(problems, Problem{File: "--param", Message: "unknown parameter " + Named(name), Hint: Suggest(name, object.Names())})
			continue
		}
		value, err := ParseScalar(f.Type, given[name])
		if err == nil {
			err = f.CheckBounds(value)
		}
		if err != nil {
			problems = append(problems, Problem{File: "--param", Message: name + ": " + err.Error(), Hint: f.Doc})
			continue
		}
		values[name] = value
	}
	return values, problems
}
