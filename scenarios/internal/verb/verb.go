package verb

import (
	"context"
	"fmt"
	"regexp"
	"sort"
	"strings"

	"github.com/ister-mq/ister/scenarios/internal/spec"
	"github.com/ister-mq/ister/setups"
)

// Verb is one thing that a step can do.
type Verb struct {
	spec.Signature
	// Command is the equivalent for a person, with {input} for inputs and [ ] for
	// parts that need an input which is given.
	Command string
	// note is what is worth a word when it is done; see meta.
	note string
	// Disturbs: the step is recorded in the history as a disturbance.
	Disturbs bool
	// Needs are what a setup must be able to do for it.
	Needs []setups.Ability

	run  func(context.Context, *Env, map[string]any) (any, error)
	poll func(context.Context, *Env, map[string]any, any) (any, error) // nil: run is a read
}

// registry is every verb by name; filled by this package's variables and init.
var registry = map[string]*Verb{}

// Registry implements spec.Verbs.
type Registry struct{}

// Signature implements spec.Verbs.
func (Registry) Signature(name string) (spec.Signature, bool) {
	v, ok := registry[name]
	if !ok {
		return spec.Signature{}, false
	}
	return v.Signature, true
}

// Names implements spec.Verbs.
func (Registry) Names() []string {
	names := make([]string, 0, len(registry))
	for name := range registry {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}

// Lookup returns a verb.
func Lookup(name string) (*Verb, bool) {
	v, ok := registry[name]
	return v, ok
}

// meta is what define is told besides the functions.
type meta struct {
	name, doc, command string
	// note is the summary of a step that was done, with {output} for outputs. Its
	// parts are separated by commas; a part whose output is not set is left out.
	note     string
	risk     spec.Risk
	disturbs bool
	needs    []setups.Ability
}

// define registers a verb. poll, when not nil, re-reads what run returned
// without doing the change again; read-only verbs need none.
func define[In, Out any](m meta, run func(context.Context, *Env, In) (Out, error), poll func(context.Context, *Env, In, Out) (Out, error)) {
	if _, taken := registry[m.name]; taken {
		panic("verb: " + m.name + " is defined twice")
	}
	var in In
	var out Out
	v := &Verb{
		Signature: spec.Signature{Name: m.name, Doc: m.doc, Risk: m.risk, Inputs: spec.TypeOf(in), Outputs: spec.TypeOf(out), Pollable: m.risk == spec.ReadOnly || poll != nil},
		Command:   m.command, note: m.note, Disturbs: m.disturbs, Needs: m.needs,
	}
	for _, name := range outputsOf(m.note) {
		if _, ok := v.Outputs.Field(name); !ok {
			panic("verb: the note of " + m.name + " names " + name + ", which is no output of it")
		}
	}
	for _, ability := range m.needs {
		v.Limits.Links = v.Limits.Links || ability == setups.AbilityCutOff || ability == setups.AbilitySlow
		v.Limits.Disk = v.Limits.Disk || ability == setups.AbilityFillDisk
	}
	v.run = func(ctx context.Context, env *Env, with map[string]any) (any, error) {
		var in In
		if err := spec.FromValue(with, &in); err != nil {
			return nil, err
		}
		return run(ctx, env, in)
	}
	if poll != nil {
		v.poll = func(ctx context.Context, env *Env, with map[string]any, before any) (any, error) {
			var in In
			if err := spec.FromValue(with, &in); err != nil {
				return nil, err
			}
			return poll(ctx, env, in, before.(Out))
		}
	}
	registry[m.name] = v
}

// Call is one use of a verb in a run: it keeps what the verb returned, so that
// Poll can read again.
type Call struct {
	verb *Verb
	env  *Env
	with map[string]any
	last any
}

// NewCall prepares a call. Inputs that are not given take their defaults.
func (v *Verb) NewCall(env *Env, with map[string]any) (*Call, error) {
	full := map[string]any{}
	for _, f := range v.Inputs.Fields {
		value, given := with[f.Name]
		if !given {
			value = f.Default
		}
		if value == nil {
			continue
		}
		if err := f.CheckBounds(value); err != nil {
			return nil, fmt.Errorf("%s: %s: %w", v.Name, f.Name, err)
		}
		full[f.Name] = value
	}
	return &Call{verb: v, env: env, with: full}, nil
}

// Run does it, and returns the outputs. Outputs are set also with an error, as
// far as there are any.
func (c *Call) Run(ctx context.Context) (map[string]any, error) {
	out, err := c.verb.run(ctx, c.env, c.with)
	c.last = out
	return outputs(out), err
}

// Poll reads again.
func (c *Call) Poll(ctx context.Context) (map[string]any, error) {
	var out any
	var err error
	if c.verb.poll == nil {
		out, err = c.verb.run(ctx, c.env, c.with)
	} else {
		out, err = c.verb.poll(ctx, c.env, c.with, c.last)
	}
	if err == nil {
		c.last = out
	}
	return outputs(c.last), err
}

func outputs(out any) map[string]any {
	if out == nil {
		return nil
	}
	object, _ := spec.ToValue(out).(map[string]any)
	return object
}

var noteOutput = regexp.MustCompile(`\{(\w+)\}`)

// outputsOf lists the outputs that a note names.
func outputsOf(note string) []string {
	var names []string
	for _, m := range noteOutput.FindAllStringSubmatch(note, -1) {
		names = append(names, m[1])
	}
	return names
}

// Note is a short summary of what the verb returned.
func (v *Verb) Note(outputs map[string]any) string {
	var parts []string
	for _, part := range strings.Split(v.note, ", ") {
		missing := false
		text := noteOutput.ReplaceAllStringFunc(part, func(named string) string {
			value, ok := outputs[strings.Trim(named, "{}")]
			missing = missing || !ok
			return spec.Format(value)
		})
		if !missing && text != "" {
			parts = append(parts, text)
		}
	}
	return strings.Join(parts, ", ")
}

// CommandLine renders the equivalent command. value gives the text of an input and
// whether it is given.
func (v *Verb) CommandLine(value func(name string) (string, bool)) string {
	return renderCommand(v.Command, value)
}

func renderCommand(pattern string, value func(string) (string, bool)) string {
	var out strings.Builder
	for pattern != "" {
		open := strings.IndexAny(pattern, "[{")
		if open < 0 {
			out.WriteString(pattern)
			break
		}
		out.WriteString(pattern[:open])
		closing := map[byte]string{'[': "]", '{': "}"}[pattern[open]]
		end := strings.Index(pattern[open:], closing)
		if end < 0 {
			out.WriteString(pattern[open:])
			break
		}
		inner := pattern[open+1 : open+end]
		if closing == "]" {
			if optional, ok := renderOptional(inner, value); ok {
				out.WriteString(optional)
			}
		} else if text, ok := value(inner); ok {
			out.WriteString(text)
		} else {
			out.WriteString("<" + inner + ">")
		}
		pattern = pattern[open+end+1:]
	}
	return strings.Join(strings.Fields(out.String()), " ")
}

// renderOptional renders " --flag {input}" when the input is given. A part that
// is " --flag?input" is there when the input is true, " --flag?!input" when it is
// not.
func renderOptional(part string, value func(string) (string, bool)) (string, bool) {
	if flag, input, isSwitch := strings.Cut(part, "?"); isSwitch {
		name, negated := strings.CutPrefix(input, "!")
		text, ok := value(name)
		return flag, (ok && text == "true") != negated
	}
	missing := false
	text := renderCommand(part, func(name string) (string, bool) {
		got, ok := value(name)
		missing = missing || !ok || got == "" || got == "0"
		return got, ok
	})
	return " " + text, !missing
}
