package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/ister-mq/ister/admin/adminv1"
	"github.com/ister-mq/ister/admin/client"
)

// usageError is a mistake in the command line.
type usageError struct {
	message string
	advice  string
	command string // path of the command, for the pointer to its help
}

func (e *usageError) Error() string { return e.message }

// unfinishedError: the wait ended before the operation did.
type unfinishedError struct {
	operation *adminv1.Operation
	after     time.Duration
	exit      int // ExitUnavailable, or ExitInterrupted
}

func (e *unfinishedError) Error() string {
	word := "not finished"
	if e.exit == ExitInterrupted {
		word = "interrupted while waiting"
	}
	if e.operation == nil {
		return fmt.Sprintf("%s after %s", word, round(e.after))
	}
	op := e.operation
	s := fmt.Sprintf("%s after %s: %s is %s with %d of %d moves done", word, round(e.after), operationName(op.GetOperationId()), lower(op.GetState()), op.GetMovesDone(), op.GetMovesTotal())
	if op.GetReason() != "" {
		s += fmt.Sprintf(" (%s: %s)", op.GetReason(), op.GetMessage())
	}
	return s
}

// endedError: the operation ended without succeeding.
type endedError struct{ operation *adminv1.Operation }

func (e *endedError) Error() string {
	op := e.operation
	s := fmt.Sprintf("%s ended %s with %d of %d moves done", operationName(op.GetOperationId()), lower(op.GetState()), op.GetMovesDone(), op.GetMovesTotal())
	if op.GetMessage() != "" {
		s += ": " + op.GetMessage()
	}
	return s
}

// report is an error as it is printed.
type report struct {
	Kind     string          `json:"kind"`
	Reason   string          `json:"reason"`
	Subject  string          `json:"subject,omitempty"`
	Message  string          `json:"message"`
	Advice   string          `json:"advice,omitempty"`
	Blockers []reportBlocker `json:"blockers,omitempty"`
	Exit     int             `json:"exit_status"`
}

type reportBlocker struct {
	Code    string `json:"code"`
	Object  string `json:"object,omitempty"`
	Message string `json:"message"`
	Remedy  string `json:"remedy,omitempty"`
}

// reportOf puts any error into words.
func reportOf(err error) report {
	r := report{Message: err.Error(), Exit: ExitStatus(err)}
	var usage *usageError
	var unfinished *unfinishedError
	var ended *endedError
	var unreachable *client.Unreachable
	var notAdmin *client.NotAdmin
	switch refusal := client.AsRefusal(err); {
	case errors.As(err, &usage):
		r.Kind, r.Reason, r.Advice = "INVALID", "USAGE", usage.advice
	case errors.As(err, &unfinished):
		r.Kind, r.Reason = "UNAVAILABLE", "NOT_FINISHED"
		if op := unfinished.operation; op != nil {
			name := operationName(op.GetOperationId())
			r.Subject = name
			r.Advice = fmt.Sprintf("it goes on by itself: watch it with `cluster operations show %s`, stop it with `cluster operations cancel %s`", name, name)
		}
	case errors.As(err, &ended):
		r.Kind, r.Reason, r.Subject = "PRECONDITION", ended.operation.GetReason(), operationName(ended.operation.GetOperationId())
		if r.Reason == "" {
			r.Reason = "OPERATION_" + ended.operation.GetState().String()
		}
		r.Advice = fmt.Sprintf("see `cluster operations show %s` for each move; then ask again, which plans anew", r.Subject)
	case refusal != nil:
		r.Kind, r.Reason, r.Subject, r.Message, r.Advice = refusal.Kind.String(), refusal.Reason, refusal.Subject, refusal.Message, refusal.Advice
		for _, b := range refusal.Blockers {
			r.Blockers = append(r.Blockers, reportBlocker{Code: b.GetCode(), Object: b.GetObject(), Message: b.GetMessage(), Remedy: b.GetRemedy()})
		}
	case errors.As(err, &unreachable):
		r.Kind, r.Reason, r.Advice = "UNAVAILABLE", "UNREACHABLE", unreachable.Advice()
	case errors.As(err, &notAdmin):
		r.Kind, r.Reason, r.Advice = "INTERNAL", "NOT_ADMIN_API", notAdmin.Advice()
	case errors.Is(err, context.Canceled):
		r.Kind, r.Reason = "UNAVAILABLE", "INTERRUPTED"
	case errors.Is(err, context.DeadlineExceeded):
		r.Message = strings.ReplaceAll(r.Message, context.DeadlineExceeded.Error(), "the time ran out")
		r.Kind, r.Reason, r.Advice = "UNAVAILABLE", "TIMEOUT", "give more time with --timeout, or see `cluster status`"
	default:
		r.Kind, r.Reason = "INTERNAL", "FAULT"
	}
	return r
}

// printError writes an error to w: as JSON when results are JSON or YAML, so that
// one reader suffices, else as text.
func printError(w io.Writer, err error, format string) int {
	r := reportOf(err)
	if format == formatJSON || format == formatYAML {
		raw, marshalErr := json.MarshalIndent(map[string]report{"error": r}, "", "  ")
		if marshalErr == nil {
			fmt.Fprintln(w, string(raw))
			return r.Exit
		}
	}
	fmt.Fprintf(w, "Error: %s [%s]\n", r.Message, r.Reason)
	if len(r.Blockers) > 1 {
		fmt.Fprintln(w, "Blockers:")
		for _, b := range r.Blockers {
			fmt.Fprintf(w, "  %s  %s: %s\n", b.Code, b.Object, b.Message)
			if b.Remedy != "" {
				fmt.Fprintf(w, "      %s\n", b.Remedy)
			}
		}
	}
	if r.Advice != "" {
		end := "."
		if strings.HasSuffix(r.Advice, ".") || strings.HasSuffix(r.Advice, "?") {
			end = ""
		}
		fmt.Fprintf(w, "What to do: %s%s\n", r.Advice, end)
	}
	var usage *usageError
	if errors.As(err, &usage) && usage.command != "" {
		fmt.Fprintf(w, "Help: %s --help\n", usage.command)
	}
	return r.Exit
}
