package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	protocol "github.com/mark3labs/mcp-go/mcp"

	"github.com/ister-mq/ister/admin/adminv1"
	"github.com/ister-mq/ister/admin/client"
)

// The codes of this package. Refusals of a cluster carry their own reason.
const (
	codeUnknownArgument = "UNKNOWN_ARGUMENT"
	codeMissingArgument = "MISSING_ARGUMENT"
	codeInvalidArgument = "INVALID_ARGUMENT"
	codeToolUnknown     = "TOOL_UNKNOWN"
	codePlanUnknown     = "PLAN_UNKNOWN"
	codePlanExpired     = "PLAN_EXPIRED"
	codePlanArguments   = "PLAN_FOR_OTHER_ARGUMENTS"
	codePlanDrifted     = "PLAN_DRIFTED"
	codeRunUnknown      = "RUN_UNKNOWN"
	codeRunExists       = "RUN_EXISTS"
	codeRunAmbiguous    = "RUN_AMBIGUOUS"
	codeRunEnded        = "RUN_ENDED"
	codeRunAbandoned    = "RUN_ABANDONED"
	codeRunNotPaused    = "RUN_NOT_PAUSED"
	codeRunNotContained = "RUN_NOT_CONTAINED"
	codeRunnerEnded     = "RUNNER_ENDED"
	codeStepUnknown     = "STEP_NOT_IN_RUN"
	codeStepNotNext     = "STEP_NOT_NEXT"
	codeStepFailed      = "STEP_FAILED"
	codePlanRequired    = "PLAN_REQUIRED"
	codeCommands        = "COMMANDS_NOT_ALLOWED"
	codeScenario        = "SCENARIO_REFUSED"
	codeTimeout         = "TIMEOUT"
	codeUnreachable     = "UNREACHABLE"
	codeNotAdmin        = "NOT_ADMIN_API"
	codeInterrupted     = "INTERRUPTED"
	codeInternal        = "INTERNAL"
)

// fix is the call that repairs, or leads on.
type fix struct {
	Tool string         `json:"tool"`
	Args map[string]any `json:"args"`
	Why  string         `json:"why,omitempty"`
}

// blocker is one thing in the way.
type blocker struct {
	Code    string `json:"code"`
	Object  string `json:"object"`
	Message string `json:"message"`
	Remedy  string `json:"remedy,omitempty"`
}

// failure is an error as an agent reads it.
type failure struct {
	Code     string    `json:"code"`           // stable, UPPER_SNAKE
	Kind     string    `json:"kind,omitempty"` // of a refusal: what can be done about it
	Message  string    `json:"message"`
	Got      string    `json:"got"`
	Expected string    `json:"expected"`
	Advice   string    `json:"advice,omitempty"`
	Blockers []blocker `json:"blockers,omitempty"`
	// Retry: the same call may succeed later.
	Retry bool `json:"retry"`
	Fix   *fix `json:"fix,omitempty"`
	// Plan is what would be done, where a plan_id is asked for.
	Plan map[string]any `json:"plan,omitempty"`
}

// Error implements error.
func (f *failure) Error() string { return f.Code + ": " + f.Message }

// repair says which tool repairs, or leads on, after a refusal. An empty tool is
// the tool that was called.
type repair struct {
	tool  string
	takes string // name of its argument that takes the node or topic of the call
	why   string
}

// again is the repair of calling the same tool.
var again = repair{why: "the same call, later"}

// repairs is the one mapping of reasons; a reason that is not here takes that of
// its kind.
var repairs = map[string]repair{
	"TOPIC_NOT_FOUND":            {tool: "topics_list", why: "see which topics there are"},
	"PARTITION_NOT_FOUND":        {tool: "topics_describe", takes: "name", why: "see which partitions there are"},
	"NAMESPACE_NOT_FOUND":        {tool: "namespaces_list", why: "see which namespaces there are"},
	"NODE_NOT_FOUND":             {tool: "brokers_list", why: "see which nodes there are"},
	"OPERATION_NOT_FOUND":        {tool: "operations_list", why: "see which operations there are"},
	"TOPIC_EXISTS":               {tool: "topics_describe", takes: "name", why: "see whether it is what is wanted"},
	"NAMESPACE_EXISTS":           {tool: "namespaces_list", why: "see it"},
	"NODE_EXISTS":                {tool: "cluster_members", why: "see it"},
	"OPERATION_CONFLICT":         {tool: "operations_list", why: "see which operation is in the way; wait for it or cancel it"},
	"NAMESPACE_NOT_EMPTY":        {tool: "topics_list", takes: "namespace", why: "see which topics are in it"},
	"NAMESPACE_PROTECTED":        {tool: "namespaces_list", why: "choose another one"},
	"NODE_REMOVED":               {tool: "cluster_members", why: "see who is a member; a removed id is never used again"},
	"NODE_HOLDS_REPLICAS":        {tool: "brokers_unload", takes: "broker_id", why: "move its replicas away first"},
	"NODE_HOLDS_LEADERS":         {tool: "brokers_unload", takes: "broker_id", why: "move its leaders away first"},
	"NODE_NOT_DRAINED":           {tool: "brokers_unload", takes: "broker_id", why: "drain it first"},
	"NODE_HAS_MOVES":             {tool: "cluster_moves", why: "wait until its moves are done"},
	"NODE_NOT_CAUGHT_UP":         again,
	"NODE_NOT_VOTER":             {tool: "cluster_promote_node", takes: "node_id", why: "make it a voter first"},
	"NODE_STATE_CONFLICT":        {tool: "brokers_list", why: "see its state"},
	"QUORUM_AT_RISK":             {tool: "cluster_members", why: "see which voters are not there"},
	"MEMBERSHIP_CHANGE_PENDING":  again,
	"LAST_VOTER":                 {tool: "cluster_members", why: "another voter is needed first"},
	"INVALID_REPLICATION_FACTOR": {tool: "brokers_list", why: "see how many brokers can take replicas; then the same call with fewer"},
	"NO_PLACEMENT":               {tool: "brokers_list", why: "see which brokers can take replicas"},
	"OPERATION_FINISHED":         {tool: "operations_show", takes: "operation_id", why: "see how it ended"},
	"OPERATION_PAST_CANCEL":      {tool: "operations_show", takes: "operation_id", why: "see how far it is"},
	"NO_CONTROLLER":              {tool: "diagnose_health", why: "see which voters are there; then the same call"},
	"OUTCOME_UNKNOWN":            {tool: "cluster_status", why: "it may have been done: look before calling again"},
}

// repairsOfKind is what is left to do for each kind of refusal.
var repairsOfKind = map[adminv1.Refusal_Kind]repair{
	adminv1.Refusal_INVALID:      {why: "the same call with corrected arguments"},
	adminv1.Refusal_NOT_FOUND:    {tool: "cluster_status", why: "look again"},
	adminv1.Refusal_EXISTS:       {tool: "cluster_status", why: "it is there already"},
	adminv1.Refusal_PRECONDITION: {tool: "diagnose_health", why: "see what stands in the way"},
	adminv1.Refusal_STALE:        {why: "plan again: the state changed in between"},
	adminv1.Refusal_REDIRECT:     again,
	adminv1.Refusal_EXHAUSTED:    again,
	adminv1.Refusal_UNAVAILABLE:  again,
	adminv1.Refusal_INTERNAL:     {tool: "diagnose_health", why: "report it, with what this says"},
}

// retriable are the kinds after which the same call may succeed.
var retriable = map[adminv1.Refusal_Kind]bool{
	adminv1.Refusal_STALE: true, adminv1.Refusal_REDIRECT: true, adminv1.Refusal_EXHAUSTED: true, adminv1.Refusal_UNAVAILABLE: true,
}

// failureOf puts any error of a call into words.
func failureOf(err error, in input) *failure {
	var f *failure
	var down *client.Unreachable
	var notAdmin *client.NotAdmin
	refusal := client.AsRefusal(err)
	switch {
	case errors.As(err, &f):
		return f
	case refusal != nil:
		return refused(refusal, in)
	case errors.As(err, &down):
		return &failure{Code: codeUnreachable, Message: err.Error(), Got: "no answer", Expected: "the admin API of a broker", Advice: down.Advice(), Retry: true, Fix: &fix{Tool: "diagnose_health", Args: map[string]any{}, Why: "tries again and says what is known"}}
	case errors.As(err, &notAdmin):
		return &failure{Code: codeNotAdmin, Message: err.Error(), Got: "another answer", Expected: "the admin API of a broker", Advice: notAdmin.Advice()}
	case errors.Is(err, context.DeadlineExceeded):
		return &failure{Code: codeTimeout, Message: "no result in time", Got: "none within " + CallMax.String(), Expected: "a result", Advice: unknownOutcome(in), Retry: in.tool.risk == ReadOnly, Fix: &fix{Tool: "cluster_status", Args: map[string]any{}, Why: "look before calling again"}}
	case errors.Is(err, context.Canceled):
		return &failure{Code: codeInterrupted, Message: "the call was given up", Got: "an end of the call", Expected: "a result", Advice: unknownOutcome(in), Retry: true}
	}
	return &failure{Code: codeInternal, Message: err.Error(), Got: "a fault", Expected: "a result", Advice: "report it with this message"}
}

// unknownOutcome: a fault during a change is never "failed".
func unknownOutcome(in input) string {
	if in.tool.risk == ReadOnly {
		return ""
	}
	return "whether it was done is not known: look before calling again"
}

func refused(r *client.Refusal, in input) *failure {
	f := &failure{
		Code: r.Reason, Kind: r.Kind.String(), Message: r.Message, Got: r.Subject, Expected: r.Advice, Advice: r.Advice, Retry: retriable[r.Kind],
		Blockers: blockers(r.Blockers),
	}
	if f.Got == "" {
		f.Got = r.Message
	}
	repair, isKnown := repairs[r.Reason]
	if !isKnown {
		if repair, isKnown = repairsOfKind[r.Kind]; !isKnown {
			repair = repairsOfKind[adminv1.Refusal_INTERNAL]
		}
	}
	f.Retry = f.Retry || repair == again
	if f.Expected == "" {
		f.Expected = repair.why
	}
	f.Fix = &fix{Tool: repair.tool, Args: map[string]any{}, Why: repair.why}
	if repair.tool == "" {
		f.Fix.Tool, f.Fix.Args = in.tool.name, in.given()
	}
	if r.Kind == adminv1.Refusal_INVALID && repair.tool == "" && r.Advice != "" {
		f.Fix.Why += ": " + r.Advice // these are still the wrong ones
	}
	if repair.takes != "" {
		f.Fix.Args = subjectOf(in, repair.takes)
	}
	return f
}

// subjectOf finds what a call was about, under the name that another tool has
// for it.
func subjectOf(in input, name string) map[string]any {
	alike := [][]string{{"node_id", "broker_id"}, {"name", "namespace", "topic"}, {"operation_id"}}
	for _, names := range alike {
		for _, candidate := range append([]string{name}, names...) {
			for _, n := range names {
				if n == name && in.values[candidate] != nil {
					return map[string]any{name: in.values[candidate]}
				}
			}
		}
	}
	return map[string]any{}
}

// blockersMax bounds the blockers of one failure.
const blockersMax = 10

func blockers(findings []*adminv1.Finding) []blocker {
	out := []blocker{}
	for _, f := range findings[:min(len(findings), blockersMax)] {
		out = append(out, blocker{f.GetCode(), f.GetObject(), f.GetMessage(), f.GetRemedy()})
	}
	if more := len(findings) - len(out); more > 0 {
		out = append(out, blocker{Code: "MORE", Message: fmt.Sprintf("%d more", more)})
	}
	return out
}

// errorResult renders a failure. A fix with a tool that is not offered gives way
// to the call that offers it, or is left out.
func (s *Server) errorResult(f *failure) *protocol.CallToolResult {
	if f.Fix != nil {
		if call, ok := s.offered(step{f.Fix.Tool, f.Fix.Args, f.Fix.Why}); ok {
			f.Fix = &fix{call.Tool, call.Args, call.Why}
		} else {
			f.Fix = nil
		}
	}
	raw := mustJSON(f)
	if len(raw) > ResultMax {
		if out, err := object(f); err == nil {
			if short, err := shorten(out); err == nil {
				raw = short
			}
		}
	}
	return &protocol.CallToolResult{IsError: true, Content: []protocol.Content{protocol.NewTextContent(string(raw))}, StructuredContent: json.RawMessage(raw)}
}
