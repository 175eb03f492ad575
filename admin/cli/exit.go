package cli

import (
	"context"
	"errors"

	"github.com/ister-mq/ister/admin/adminv1"
	"github.com/ister-mq/ister/admin/client"
)

// The exit statuses, stable for scripts.
const (
	ExitOK           = 0   // done
	ExitFault        = 1   // internal error or fault
	ExitUsage        = 2   // fix the arguments
	ExitMissing      = 3   // not found, or exists already
	ExitPrecondition = 4   // change the world first
	ExitStale        = 5   // read again, plan again
	ExitUnavailable  = 6   // try again later
	ExitInterrupted  = 130 // interrupted by the user
)

// exits is the one mapping of refusal kinds to exit statuses.
var exits = map[adminv1.Refusal_Kind]int{
	adminv1.Refusal_KIND_UNSPECIFIED: ExitFault,
	adminv1.Refusal_INVALID:          ExitUsage,
	adminv1.Refusal_NOT_FOUND:        ExitMissing,
	adminv1.Refusal_EXISTS:           ExitMissing,
	adminv1.Refusal_PRECONDITION:     ExitPrecondition,
	adminv1.Refusal_STALE:            ExitStale,
	adminv1.Refusal_REDIRECT:         ExitUnavailable,
	adminv1.Refusal_EXHAUSTED:        ExitUnavailable,
	adminv1.Refusal_UNAVAILABLE:      ExitUnavailable,
	adminv1.Refusal_INTERNAL:         ExitFault,
}

const exitHelp = `Exit status:
  0    done
  1    internal error or fault: report it, with the broker's log
  2    wrong usage or invalid argument: fix the command
  3    not found, or exists already: look again
  4    the state of the cluster does not allow it: do what the message says first
  5    the state changed in between: read and plan again
  6    unavailable, overloaded, or not finished in time: try again
  130  interrupted`

// ExitStatus of an error that a command returned.
func ExitStatus(err error) int {
	var usage *usageError
	var unfinished *unfinishedError
	var ended *endedError
	var unreachable *client.Unreachable
	refusal := client.AsRefusal(err)
	switch {
	case err == nil:
		return ExitOK
	case errors.As(err, &usage):
		return ExitUsage
	case errors.As(err, &unfinished):
		return unfinished.exit
	case errors.As(err, &ended):
		return ExitPrecondition
	case refusal != nil:
		return exits[refusal.Kind]
	case errors.Is(err, context.Canceled):
		return ExitInterrupted
	case errors.As(err, &unreachable), errors.Is(err, context.DeadlineExceeded):
		return ExitUnavailable
	}
	return ExitFault
}
