// Package refusal is how the system says no. A refusal means that the system
// works and declines: it has a closed Kind, a stable Reason, the subject, one
// sentence, and advice on what would make the request succeed. Broken disks and
// networks are faults (wrapped errors), never refusals.
package refusal

import (
	"errors"
	"fmt"
	"sort"
)

// Kind groups reasons by what a caller can do about them.
type Kind string

// The kinds. Each edge (admin API, Kafka, CLI exit, MCP) maps them in one file.
const (
	Invalid      Kind = "invalid"      // fix the arguments
	NotFound     Kind = "not_found"    // look again
	Exists       Kind = "exists"       // treat as done if it is the same
	Precondition Kind = "precondition" // change the world first
	Stale        Kind = "stale"        // re-read, re-plan
	Redirect     Kind = "redirect"     // ask the controller or leader
	Exhausted    Kind = "exhausted"    // wait
	Unavailable  Kind = "unavailable"  // retry
	Internal     Kind = "internal"     // report
)

// Reason is a stable UPPER_SNAKE code. Public: it changes only with the
// changelog.
type Reason string

// Refusal is an expected "no".
type Refusal struct {
	Kind    Kind   `json:"kind"`
	Reason  Reason `json:"reason"`
	Subject string `json:"subject,omitempty"`
	Message string `json:"message"`
	Advice  string `json:"advice,omitempty"`
}

// Error implements error: "REASON: message; advice".
func (r *Refusal) Error() string {
	s := string(r.Reason) + ": " + r.Message
	if r.Advice != "" {
		s += "; " + r.Advice
	}
	return s
}

// New builds a refusal; the kind follows from the reason. It panics on a reason
// that is not in the table, since the set is closed.
func New(reason Reason, subject, message, advice string) *Refusal {
	kind, ok := kinds[reason]
	if !ok {
		panic(fmt.Sprintf("refusal: reason %q is not in the table", reason))
	}
	return &Refusal{Kind: kind, Reason: reason, Subject: subject, Message: message, Advice: advice}
}

// As returns the refusal in err's chain, or nil.
func As(err error) *Refusal {
	var r *Refusal
	if errors.As(err, &r) {
		return r
	}
	return nil
}

// Is reports whether err is a refusal with this reason.
func Is(err error, reason Reason) bool {
	r := As(err)
	return r != nil && r.Reason == reason
}

// Reasons lists every reason, sorted.
func Reasons() []Reason {
	out := make([]Reason, 0, len(kinds))
	for r := range kinds {
		out = append(out, r)
	}
	sort.Slice(out, func(i, j int) bool { return out[i] < out[j] })
	return out
}

// KindOf returns the kind of a reason, Internal when it is unknown.
func KindOf(reason Reason) Kind {
	if k, ok := kinds[reason]; ok {
		return k
	}
	return Internal
}
