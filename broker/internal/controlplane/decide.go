package controlplane

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/ister-mq/ister/broker/internal/metadata"
	"github.com/ister-mq/ister/broker/internal/model"
	"github.com/ister-mq/ister/broker/internal/quorum"
	"github.com/ister-mq/ister/broker/internal/refusal"
)

const (
	// commandsPerEntry bounds the commands decided for one raft entry.
	commandsPerEntry = 256
	// decideAttempts bounds how often a stale command is decided again.
	decideAttempts = 8
	commitTimeout  = 5 * time.Second
)

// request is one command that waits to be decided. Reply has room for one
// outcome and gets exactly one.
type request struct {
	cmd   metadata.Command
	reply chan outcome
}

// outcome is what became of a command. Revision has the change applied.
type outcome struct {
	result   any
	revision model.Revision
	err      error
}

// submit queues a command and waits for its outcome.
func (o *office) submit(ctx context.Context, cmd metadata.Command) outcome {
	r := &request{cmd: cmd, reply: make(chan outcome, 1)}
	select {
	case <-o.done:
		return outcome{err: o.plane.notController()}
	default:
	}
	select {
	case o.queue <- r:
	default:
		return outcome{err: refusal.New(refusal.Overloaded, "controller", fmt.Sprintf("%d commands wait to be decided", queueSize), "retry later")}
	}
	select {
	case out := <-r.reply:
		return out
	case <-ctx.Done():
		return outcome{err: refusal.New(refusal.OutcomeUnknown, "", "the command was not decided in time", "look at the present state before you repeat it")}
	case <-o.done:
	}
	// The office is lost: the decider or drain answers soon, unless the request
	// came in after both had looked.
	t := time.NewTimer(commitTimeout)
	defer t.Stop()
	select {
	case out := <-r.reply:
		return out
	case <-ctx.Done():
	case <-t.C:
	}
	return outcome{err: refusal.New(refusal.OutcomeUnknown, "", "this node lost the controller's office meanwhile", "look at the present state before you repeat it")}
}

// decide is the controller's only writer: it decides commands in order, each on
// the image the ones before it lead to.
func (o *office) decide(ctx context.Context) {
	batch := make([]*request, 0, commandsPerEntry)
	for {
		select {
		case r := <-o.queue:
			batch = append(batch[:0], r)
		case <-ctx.Done():
			return
		}
	more:
		for len(batch) < commandsPerEntry {
			select {
			case r := <-o.queue:
				batch = append(batch, r)
			default:
				break more
			}
		}
		o.round(ctx, batch)
		clear(batch)
	}
}

// verdict is a request with its answer, to be given when what it rests on is
// committed.
type verdict struct {
	request *request
	outcome outcome
	batch   int // its index in the entry; -1: nothing to write
}

// round decides and commits some requests; each gets its reply.
func (o *office) round(ctx context.Context, requests []*request) {
	for attempt := 0; len(requests) > 0 && ctx.Err() == nil; attempt++ {
		if attempt == decideAttempts {
			for _, r := range requests {
				r.reply <- outcome{err: refusal.New(refusal.StaleRevision, "", "the metadata changed again and again meanwhile", "retry")}
			}
			return
		}
		verdicts, entry, err := o.judge(requests)
		if err != nil {
			if len(requests) > 1 { // too large together: one by one
				for i := range requests {
					o.round(ctx, requests[i:i+1])
				}
				return
			}
			requests[0].reply <- outcome{err: err}
			return
		}
		requests = o.commit(ctx, verdicts, entry)
	}
	for _, r := range requests {
		r.reply <- outcome{err: o.plane.notController()}
	}
}

// judge decides requests on successive images.
func (o *office) judge(requests []*request) ([]verdict, []byte, error) {
	im := o.plane.Image()
	env := metadata.Env{Now: time.Now().UTC(), NewUUID: func() [16]byte { return uuid.New() }}
	verdicts := make([]verdict, 0, len(requests))
	var batches []metadata.Batch
	for _, r := range requests {
		v := verdict{request: r, batch: -1}
		d, err := metadata.Decide(im, r.cmd, env)
		switch {
		case err != nil:
			v.outcome.err = err
		case len(d.Records) == 0:
			v.outcome.result = d.Result
		default:
			b := metadata.Batch{Base: im.Revision, Records: d.Records}
			im, _ = im.Apply(b)
			v.outcome.result, v.batch = d.Result, len(batches)
			batches = append(batches, b)
		}
		v.outcome.revision = im.Revision
		verdicts = append(verdicts, v)
	}
	if len(batches) == 0 {
		return verdicts, nil, nil
	}
	entry, err := metadata.EncodeBatches(batches)
	if err != nil {
		return nil, nil, fmt.Errorf("encode metadata: %w", err)
	}
	if len(entry) > quorum.EntrySizeMax {
		return nil, nil, refusal.New(refusal.InvalidArgument, "", fmt.Sprintf("the change is %d bytes, at most %d fit the metadata log", len(entry), quorum.EntrySizeMax), "split it")
	}
	return verdicts, entry, nil
}

// commit proposes an entry and answers; it returns the requests to be decided
// again because their base was stale.
func (o *office) commit(ctx context.Context, verdicts []verdict, entry []byte) (again []*request) {
	var applied []bool
	if entry != nil {
		// The end of the office must not hide the fate of an entry: raft tells it.
		pctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitTimeout)
		result, _, err := o.quorum.Propose(pctx, entry)
		cancel()
		if err != nil {
			o.fail(verdicts, err)
			return nil
		}
		applied = result.([]bool)
	}
	stale := false
	for _, v := range verdicts {
		if v.batch >= 0 {
			stale = stale || !applied[v.batch]
		}
		if stale {
			again = append(again, v.request)
			continue
		}
		v.request.reply <- v.outcome
	}
	return again
}

// fail answers a round whose entry was not committed for certain. Refusals given
// before the first batch rest on committed state and stand.
func (o *office) fail(verdicts []verdict, err error) {
	var no error
	switch {
	case errors.Is(err, quorum.ErrNotController), errors.Is(err, quorum.ErrClosed):
		no = o.plane.notController()
	case errors.Is(err, quorum.ErrBusy):
		no = refusal.New(refusal.Overloaded, "controller", err.Error(), "retry later")
	default:
		no = refusal.New(refusal.OutcomeUnknown, "", err.Error(), "look at the present state before you repeat it")
	}
	written := false
	for _, v := range verdicts {
		written = written || v.batch >= 0
		if written {
			v.outcome = outcome{err: no}
		}
		v.request.reply <- v.outcome
	}
}
