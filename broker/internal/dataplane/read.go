package dataplane

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/ister-mq/ister/broker/internal/kafka"
	"github.com/ister-mq/ister/broker/internal/model"
	"github.com/ister-mq/ister/broker/internal/refusal"
)

// poll is one consumer fetch that waits for high watermarks to move.
type poll struct{ wake chan struct{} }

func (q *poll) notify() { kick(q.wake) }

// Fetch implements kafka.Backend.
func (p *Plane) Fetch(ctx context.Context, request *kafka.FetchRequest) kafka.FetchResponse {
	out := &fetched{results: make([]kafka.FetchResult, len(request.Partitions))}
	p.fetch(ctx, request, out)
	total := 0
	for i := range out.results {
		total += len(out.results[i].Records)
	}
	p.metrics.FetchConsumer.Add(float64(total))
	return kafka.FetchResponse{Partitions: out.results, Release: out.release}
}

// fetched is an answer and the buffers it is in.
type fetched struct {
	results []kafka.FetchResult
	lent    []buffer
	refused bool // a partition was
}

func (f *fetched) release() {
	for i := range f.lent {
		f.lent[i].put()
	}
	f.lent = f.lent[:0]
}

func (p *Plane) fetch(ctx context.Context, request *kafka.FetchRequest, out *fetched) {
	enough := p.collect(request, out)
	if out.refused { // looked at only now: most fetches are for what this node leads
		p.awaitEpochs(ctx, len(request.Partitions), func(i int) (model.Partition, model.LeaderEpoch) {
			return request.Partitions[i].ID, request.Partitions[i].LeaderEpoch
		})
		enough = p.collect(request, out)
	}
	if enough || request.MaxWait <= 0 || len(request.Partitions) == 0 {
		return
	}
	wait := &poll{wake: make(chan struct{}, 1)}
	timer := time.NewTimer(request.MaxWait)
	defer timer.Stop()
	defer p.leave(request, wait)
	p.join(request, wait)
	for {
		// Collected again after joining, so that no move in between is missed.
		if p.collect(request, out) {
			return
		}
		select {
		case <-wait.wake:
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		case <-p.ctx.Done():
			return
		}
	}
}

// collect reads every partition and reports whether the answer should go out.
func (p *Plane) collect(request *kafka.FetchRequest, out *fetched) (enough bool) {
	out.release()
	out.refused = false
	total := 0
	for i := range request.Partitions {
		part := &request.Partitions[i]
		result, lent := p.read(part, min(part.MaxBytes, request.MaxBytes-total), total == 0)
		if lent.memory != nil {
			out.lent = append(out.lent, lent)
		}
		out.results[i] = result
		total += len(result.Records)
		out.refused = out.refused || result.Err != nil
		enough = enough || result.Diverging != nil
	}
	return enough || out.refused || total >= request.MinBytes
}

// read answers one partition. AtLeastOne lets the first batch exceed maxBytes.
func (p *Plane) read(part *kafka.FetchPartition, maxBytes int, atLeastOne bool) (kafka.FetchResult, buffer) {
	l := p.local(part.ID)
	if l == nil {
		return kafka.FetchResult{Err: errNotLeading(part.ID), HighWatermark: -1, LogStart: -1}, buffer{}
	}
	l.mu.Lock()
	if err := l.serving(part.LeaderEpoch); err != nil {
		l.mu.Unlock()
		return kafka.FetchResult{Err: err, HighWatermark: -1, LogStart: -1}, buffer{}
	}
	log := l.log
	result := kafka.FetchResult{HighWatermark: l.replica.HighWatermark(), LogStart: log.LogStart()}
	end := log.LogEnd()
	if part.LastFetchedEpoch != model.NoEpoch {
		if epoch, at := log.EndOffsetFor(part.LastFetchedEpoch); epoch < part.LastFetchedEpoch || at < part.Offset {
			l.mu.Unlock()
			result.Diverging = &kafka.Divergence{Epoch: epoch, End: at}
			return result, buffer{}
		}
	}
	l.mu.Unlock()
	switch {
	case part.Offset < result.LogStart || part.Offset > end:
		result.Err = outOfRange(part.ID, part.Offset, result.LogStart, end)
		return result, buffer{}
	case part.Offset >= result.HighWatermark || maxBytes <= 0 && !atLeastOne:
		return result, buffer{}
	}
	// What is below the high watermark does not change, so it is read without
	// the lock; retention may overtake it, and then says so.
	records, lent, err := readLog(log, part.Offset, max(maxBytes, 0), result.HighWatermark, atLeastOne)
	if err != nil {
		if refusal.As(err) == nil {
			l.fault("read", err)
			err = errNotLeading(part.ID)
		}
		result.Err = err
		return result, buffer{}
	}
	result.Records = records
	return result, lent
}

func outOfRange(id model.Partition, offset, start, end model.Offset) error {
	return refusal.New(refusal.OffsetOutOfRange, id.String(), fmt.Sprintf("offset %d is not within %d to %d", offset, start, end), "start from the earliest or latest offset")
}

// join registers a poll with every partition of a request; leave takes it off.
func (p *Plane) join(request *kafka.FetchRequest, q *poll) {
	for i := range request.Partitions {
		if l := p.local(request.Partitions[i].ID); l != nil {
			l.mu.Lock()
			l.polls = append(l.polls, q)
			l.mu.Unlock()
		}
	}
}

func (p *Plane) leave(request *kafka.FetchRequest, q *poll) {
	for i := range request.Partitions {
		if l := p.local(request.Partitions[i].ID); l != nil {
			l.mu.Lock()
			if at := slices.Index(l.polls, q); at >= 0 {
				l.polls = slices.Delete(l.polls, at, at+1)
			}
			l.mu.Unlock()
		}
	}
}

// ListOffsets implements kafka.Backend.
func (p *Plane) ListOffsets(ctx context.Context, queries []kafka.OffsetQuery) []kafka.OffsetAnswer {
	p.awaitEpochs(ctx, len(queries), func(i int) (model.Partition, model.LeaderEpoch) { return queries[i].ID, queries[i].LeaderEpoch })
	answers := make([]kafka.OffsetAnswer, len(queries))
	for i, q := range queries {
		answers[i] = p.listOffset(q)
	}
	return answers
}

func (p *Plane) listOffset(q kafka.OffsetQuery) kafka.OffsetAnswer {
	none := kafka.OffsetAnswer{Offset: -1, Timestamp: -1, LeaderEpoch: model.NoEpoch}
	l := p.local(q.ID)
	if l == nil {
		none.Err = errNotLeading(q.ID)
		return none
	}
	l.mu.Lock()
	if none.Err = l.serving(q.LeaderEpoch); none.Err != nil {
		l.mu.Unlock()
		return none
	}
	log, epoch := l.log, l.replica.LeaderEpoch()
	latest, err := l.replica.LatestOffset()
	l.mu.Unlock()

	switch q.Timestamp {
	case kafka.TimestampEarliest:
		return kafka.OffsetAnswer{Offset: log.LogStart(), Timestamp: -1, LeaderEpoch: log.EpochAt(log.LogStart())}
	case kafka.TimestampLatest:
		if err != nil {
			none.Err = err
			return none
		}
		return kafka.OffsetAnswer{Offset: latest, Timestamp: -1, LeaderEpoch: epoch}
	}
	if err != nil {
		none.Err = err
		return none
	}
	wanted := q.Timestamp
	if wanted == kafka.TimestampMax {
		wanted = -1
		for _, s := range log.Segments() {
			wanted = max(wanted, s.MaxTimestamp)
		}
		if wanted < 0 {
			return none
		}
	}
	offset, at, found, ok, err := log.OffsetForTime(wanted)
	if err != nil {
		if refusal.As(err) == nil {
			l.fault("read", err)
			err = errNotLeading(q.ID)
		}
		none.Err = err
		return none
	}
	if !ok || offset >= latest {
		return none
	}
	return kafka.OffsetAnswer{Offset: offset, Timestamp: at, LeaderEpoch: found}
}

// OffsetForLeaderEpoch implements kafka.Backend.
func (p *Plane) OffsetForLeaderEpoch(ctx context.Context, queries []kafka.EpochQuery) []kafka.EpochAnswer {
	p.awaitEpochs(ctx, len(queries), func(i int) (model.Partition, model.LeaderEpoch) { return queries[i].ID, queries[i].CurrentEpoch })
	answers := make([]kafka.EpochAnswer, len(queries))
	for i, q := range queries {
		answers[i] = kafka.EpochAnswer{Epoch: model.NoEpoch, End: -1}
		l := p.local(q.ID)
		if l == nil {
			answers[i].Err = errNotLeading(q.ID)
			continue
		}
		l.mu.Lock()
		if answers[i].Err = l.serving(q.CurrentEpoch); answers[i].Err == nil {
			answers[i].Epoch, answers[i].End = l.log.EndOffsetFor(q.Epoch)
		}
		l.mu.Unlock()
	}
	return answers
}
