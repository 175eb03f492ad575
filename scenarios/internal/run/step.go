package run

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ister-mq/ister/scenarios/internal/report"
	"github.com/ister-mq/ister/scenarios/internal/spec"
	"github.com/ister-mq/ister/scenarios/internal/verb"
)

// step runs one step and records it.
func (e *engine) step(ctx context.Context, stage string, s *spec.Step) error {
	began := time.Now()
	record := report.Step{ID: s.ID, Stage: stage, Use: s.Use, Title: titleOf(s), StartMS: began.Sub(e.start).Milliseconds(), Status: report.StepOK, Attempts: 1}
	v, ok := verb.Lookup(s.Use)
	if !ok {
		return fmt.Errorf("no verb %s", s.Use) // the parser has looked it up
	}
	with, err := e.inputs(s)
	if err == nil {
		record.Inputs, record.Command = plain(with), commandOf(s, v, with)
	}
	shown := record
	e.log.Add(report.Event{Kind: report.StepStarted, Stage: stage, Step: &shown})
	var out map[string]any
	if err == nil {
		out, err = e.perform(ctx, s, v, with, &record.Attempts)
	}
	if out != nil {
		record.Outputs, record.Note = plain(out), v.Note(out)
		if err == nil || ctx.Err() == nil { // what an interrupt cut short is no value to judge
			e.values[s.ID] = out
		}
	}
	if err != nil {
		record.Status, record.Error = report.StepFailed, err.Error()
	}
	e.sampler.see(e.env.Cluster.Brokers())
	record.TookMS = time.Since(began).Milliseconds()
	e.record.Steps = append(e.record.Steps, record)
	e.log.Add(report.Event{Kind: report.StepEnded, Stage: stage, Step: &record})
	// The record on disk stays near the truth for `runs` and `stop`.
	if saveErr := e.record.Save(e.dir); err == nil && saveErr != nil {
		return &evidenceError{saveErr}
	}
	return err
}

// evidenceError: what a run has seen could not be written.
type evidenceError struct{ error }

// Unwrap gives the cause.
func (e *evidenceError) Unwrap() error { return e.error }

// commandOf is what a person would type in place of a step with these inputs.
func commandOf(s *spec.Step, v *verb.Verb, with map[string]any) string {
	return v.CommandLine(func(name string) (string, bool) {
		value, given := with[name]
		if !given {
			if f, known := s.Verb.Inputs.Field(name); known && f.Default != nil {
				return spec.Format(f.Default), true
			}
			return "", false
		}
		return spec.Format(value), true
	})
}

func titleOf(s *spec.Step) string {
	if s.Title != "" {
		return s.Title
	}
	return s.Verb.Doc
}

func (e *engine) inputs(s *spec.Step) (map[string]any, error) {
	with := map[string]any{}
	for name, template := range s.With {
		value, err := template.Eval(e.values)
		if err != nil {
			return nil, fmt.Errorf("input %s: %w", name, err)
		}
		with[name] = value
	}
	return with, nil
}

// plain makes values fit for JSON: durations as text.
func plain(values map[string]any) map[string]any {
	out := map[string]any{}
	for name, value := range values {
		if d, ok := value.(time.Duration); ok {
			value = d.String()
		}
		out[name] = value
	}
	return out
}

// perform calls the verb and repeats its read until the step's condition holds.
func (e *engine) perform(ctx context.Context, s *spec.Step, v *verb.Verb, with map[string]any, attempts *int) (map[string]any, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.Timeout, fmt.Errorf("the step's timeout of %s has passed", s.Timeout))
	defer cancel()
	e.env.BeginStep(s.ID)
	call, err := v.NewCall(e.env, with)
	if err != nil {
		return nil, err
	}
	if v.Disturbs {
		handle, err := e.env.BeginDisturbance(s.Use, fmt.Sprint(plain(with)))
		defer e.env.Recorder.EndDisturbance(handle)
		if err != nil {
			return nil, err
		}
	}
	out, err := call.Run(ctx)
	if s.Until == nil || err != nil && s.Verb.Risk != spec.ReadOnly {
		return out, because(ctx, err)
	}
	out, err = e.until(ctx, s.Until, call, out, err, attempts)
	return out, because(ctx, err)
}

// because adds why the context ended, when that is why the step did.
func because(ctx context.Context, err error) error {
	if err == nil || ctx.Err() == nil {
		return err
	}
	cause := context.Cause(ctx)
	if cause == nil || errors.Is(cause, context.Canceled) {
		return fmt.Errorf("interrupted: %w", err)
	}
	return fmt.Errorf("%w (%w)", err, cause)
}

// unmet: a step's condition did not come to hold.
type unmet struct {
	expected, last, after string
	cause                 error // nil: its time was up
}

// Error implements error.
func (u *unmet) Error() string {
	text := fmt.Sprintf("expected %s, last value %s, %s", u.expected, u.last, u.after)
	if u.cause != nil {
		text += ": " + u.cause.Error()
	}
	return text
}

// Unwrap gives the cause.
func (u *unmet) Unwrap() error { return u.cause }

// failureOf tells a step that failed as what was expected and what was observed.
func (e *engine) failureOf(s *spec.Step, err error) report.Failure {
	f := report.Failure{
		Message: fmt.Sprintf("step %s (%s): %v", s.ID, s.Use, err), Expected: fmt.Sprintf("the step done within %s", s.Timeout), Observed: short(err.Error()),
		Evidence: e.evidence(), Repro: e.record.Repro,
	}
	var condition *unmet
	if errors.As(err, &condition) {
		f.Expected, f.Observed = condition.expected, condition.last+" "+condition.after
	}
	var deadline *pastDeadline
	if errors.As(err, &deadline) { // whatever the step was about: it had no time
		f.Expected = fmt.Sprintf("the run at its end within %s", deadline.limit)
		f.Observed = fmt.Sprintf("step %s under way, %d more to come: %s", s.ID, len(e.left), f.Observed)
	}
	return f
}

// until repeats the read until the condition held so many times in a row. A look
// that fails counts as one that does not hold.
func (e *engine) until(ctx context.Context, u *spec.Until, call *verb.Call, out map[string]any, err error, attempts *int) (map[string]any, error) {
	began := time.Now()
	deadline := time.NewTimer(u.Within)
	defer deadline.Stop()
	ticker := time.NewTicker(u.Every)
	defer ticker.Stop()
	held, last, expected := 0, "no value", ""
	for {
		if err == nil {
			ok, observed, want, compareErr := e.holds(u, out)
			if compareErr != nil {
				return out, compareErr
			}
			last, expected = observed, want
			if held++; !ok {
				held = 0
			}
			if held >= u.Stable {
				return out, nil
			}
		} else {
			held, last = 0, err.Error()
		}
		select {
		case <-ticker.C:
		case <-deadline.C:
			return out, &unmet{fmt.Sprintf("%s %s %s", u.Path, u.Op, expected), last, fmt.Sprintf("after %d attempts in %.1f s", *attempts, time.Since(began).Seconds()), nil}
		case <-ctx.Done():
			return out, &unmet{fmt.Sprintf("%s %s %s", u.Path, u.Op, expected), last, fmt.Sprintf("after %d attempts", *attempts), ctx.Err()}
		}
		*attempts++
		var polled map[string]any
		if polled, err = call.Poll(ctx); err == nil {
			out = polled
		}
	}
}

// holds compares a step's outputs with its condition.
func (e *engine) holds(u *spec.Until, out map[string]any) (ok bool, observed, expected string, err error) {
	scope := spec.Values{}
	for name, value := range e.values {
		scope[name] = value
	}
	for name, value := range out {
		scope[name] = value
	}
	got, err := u.Path.Eval(scope)
	if err != nil {
		return false, "", "", err
	}
	want, err := u.Value.Eval(scope)
	if err != nil {
		return false, "", "", err
	}
	ok, err = spec.Compare(u.Op, got, want)
	return ok, spec.Format(got), spec.Format(want), err
}
