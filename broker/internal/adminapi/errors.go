package adminapi

import (
	"context"
	"errors"
	"fmt"

	"connectrpc.com/connect"

	"github.com/ister-mq/ister/admin/adminv1"
	"github.com/ister-mq/ister/broker/internal/model"
	"github.com/ister-mq/ister/broker/internal/operation"
	"github.com/ister-mq/ister/broker/internal/refusal"
)

// codes is the one mapping of refusal kinds to the codes of Connect and gRPC.
var codes = map[refusal.Kind]connect.Code{
	refusal.Invalid:      connect.CodeInvalidArgument,
	refusal.NotFound:     connect.CodeNotFound,
	refusal.Exists:       connect.CodeAlreadyExists,
	refusal.Precondition: connect.CodeFailedPrecondition,
	refusal.Stale:        connect.CodeAborted,
	refusal.Redirect:     connect.CodeUnavailable,
	refusal.Exhausted:    connect.CodeResourceExhausted,
	refusal.Unavailable:  connect.CodeUnavailable,
	refusal.Internal:     connect.CodeInternal,
}

// kinds is the same set as messages.
var kinds = map[refusal.Kind]adminv1.Refusal_Kind{
	refusal.Invalid:      adminv1.Refusal_INVALID,
	refusal.NotFound:     adminv1.Refusal_NOT_FOUND,
	refusal.Exists:       adminv1.Refusal_EXISTS,
	refusal.Precondition: adminv1.Refusal_PRECONDITION,
	refusal.Stale:        adminv1.Refusal_STALE,
	refusal.Redirect:     adminv1.Refusal_REDIRECT,
	refusal.Exhausted:    adminv1.Refusal_EXHAUSTED,
	refusal.Unavailable:  adminv1.Refusal_UNAVAILABLE,
	refusal.Internal:     adminv1.Refusal_INTERNAL,
}

// blocked is a refusal with all its blockers.
type blocked struct {
	refusal  *refusal.Refusal
	blockers []operation.Blocker
}

func (b *blocked) Error() string { return b.refusal.Error() }
func (b *blocked) Unwrap() error { return b.refusal }

// connectError is how every error leaves the API. A refusal keeps its words and
// becomes the error's detail; a fault becomes an INTERNAL one. controller is the
// hint given with a redirect.
func connectError(err error, controller model.NodeID) error {
	if err == nil {
		return nil
	}
	var already *connect.Error
	if errors.As(err, &already) {
		return already
	}
	r := refusal.As(err)
	switch {
	case r != nil:
	case errors.Is(err, context.Canceled):
		return connect.NewError(connect.CodeCanceled, err)
	case errors.Is(err, context.DeadlineExceeded):
		return connect.NewError(connect.CodeDeadlineExceeded, err)
	default:
		r = refusal.New(refusal.InternalInconsistency, "", err.Error(), "see the log of the node")
	}
	detail := &adminv1.Refusal{Kind: kinds[r.Kind], Reason: string(r.Reason), Subject: r.Subject, Message: r.Message, Advice: r.Advice}
	if r.Kind == refusal.Redirect {
		detail.Controller = int32(controller)
	}
	var b *blocked
	if errors.As(err, &b) {
		detail.Blockers = findings(b.blockers)
	}
	out := connect.NewError(codes[r.Kind], errors.New(r.Error()))
	if d, detailErr := connect.NewErrorDetail(detail); detailErr == nil {
		out.AddDetail(d)
	}
	return out
}

func noController(waited fmt.Stringer) *refusal.Refusal {
	return refusal.New(refusal.NoController, "", fmt.Sprintf("no controller was found within %s, so nothing was done", waited),
		"try again; if it persists, a majority of the voters is down: see `cluster status` of each node")
}

// notMember refuses what only a member can have answered.
func notMember(info NodeInfo) *refusal.Refusal {
	advice := "ask a member of the cluster"
	if info.State == "removed" {
		return refusal.New(refusal.NodeNotReady, info.Endpoints.Admin, "this node was removed from its cluster and answers for none; nothing was done", advice)
	}
	return refusal.New(refusal.NodeNotReady, info.Endpoints.Admin, "this node is not a member of a cluster yet, so it knows no controller; nothing was done",
		advice+"; to make this node one, send `cluster add-node --node-addr "+info.Endpoints.Admin+"` to a member")
}

func notController(controller model.NodeID) *refusal.Refusal {
	message := "this node is not the controller and does not know it; nothing was done"
	if controller != model.NoNode {
		message = fmt.Sprintf("this node is not the controller, node %d is; nothing was done", controller)
	}
	return refusal.New(refusal.NotController, "", message, "send the request again")
}

func outcomeUnknown(procedure string, cause error) *refusal.Refusal {
	return refusal.New(refusal.OutcomeUnknown, procedure,
		fmt.Sprintf("the request was sent to the controller and the answer was lost (%v), so it may or may not have been done", cause),
		"look at the present state before repeating it")
}

func invalid(field, got, expected string) *refusal.Refusal {
	return refusal.New(refusal.InvalidArgument, field, fmt.Sprintf("%s: got %s, expected %s", field, got, expected), "correct "+field)
}
