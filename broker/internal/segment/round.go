package segment

import (
	"fmt"
	"path"

	"github.com/ister-mq/ister/broker/internal/model"
)

// piece is a run of batches in one segment that is durable nowhere yet.
type piece struct {
	segment *segment
	handle  *handle // with a reference
	at      int64
	bytes   int
	base    model.Offset
	next    model.Offset
	epoch   model.LeaderEpoch
}

// unsecuredBytes is what a journal round would have to write; l.mu is held.
func (l *Log) unsecuredBytes() int64 {
	var n int64
	for i := len(l.segments) - 1; i >= 0; i-- {
		s := l.segments[i]
		if s.size > segmentHeader && s.secured >= s.size {
			break
		}
		n += s.size - max(s.secured, segmentHeader)
	}
	return n
}

// unsecured lists what is durable nowhere, oldest first; l.mu is held.
func (l *Log) unsecured() []piece {
	first := len(l.segments)
	for first > 0 && (l.segments[first-1].secured < l.segments[first-1].size || l.segments[first-1].size == segmentHeader) {
		first--
	}
	var out []piece
	for _, s := range l.segments[first:] {
		at := max(s.secured, segmentHeader)
		if at == s.size {
			continue
		}
		s.handle.refs++ // dirty segments are never evicted
		out = append(out, piece{s, s.handle, at, int(s.size - at), s.securedNext, s.next, l.epochs.at(s.securedNext)})
	}
	return out
}

// member is one log's part of a journal round; its syncing is held.
type member struct {
	log    *Log
	pieces []piece
	end    model.Offset
}

// journalRound makes logs durable by way of the journal, and answers their waiters.
// It returns those that it could not serve, untouched: they are to be synced in
// place.
//
// Lock order: the syncing of each log, by TryLock, since a truncation may hold one
// while it waits for journal.writing; then journal.writing.
func (f *Flusher) journalRound(logs []*Log) (rest []*Log) {
	var members []member
	entries, payload := 0, 0
	for _, l := range logs {
		if entries >= maxJournalEntries || !l.syncing.TryLock() {
			rest = append(rest, l)
			continue
		}
		m, ok := l.join()
		if !ok || entries+len(m.pieces) > maxJournalEntries {
			m.leave()
			rest = append(rest, l)
			continue
		}
		for _, p := range m.pieces {
			entries++
			payload += entryHeader + entryAlign + len(path.Base(l.cfg.Dir)) + p.bytes
		}
		members = append(members, m)
	}
	written, err := f.writeRound(members, entries, payload)
	for i := range members {
		if !written && err == nil {
			rest = append(rest, members[i].log)
			members[i].leave()
			continue
		}
		waiters := f.takeEarlier(members[i])
		var fault error
		if err == nil || len(members[i].pieces) == 0 {
			members[i].secure()
		} else {
			fault = members[i].log.poison(err)
		}
		members[i].leave()
		answer(waiters, members[i].log.Durable(), fault)
		f.served(members[i].log, nil)
	}
	return rest
}

// takeEarlier takes the waiters that a round has served: those up to its end.
func (f *Flusher) takeEarlier(m member) []waiter {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := m.log.flush.waiters
	n := 0
	for n < len(all) && all[n].end <= m.end {
		n++
	}
	served := all[:n:n]
	m.log.flush.waiters = append([]waiter(nil), all[n:]...)
	return served
}

// join readies a log for a journal round; l.syncing is held. ok is false when the
// log cannot be used, which syncing in place will tell.
func (l *Log) join() (member, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	m := member{log: l, end: l.end}
	if l.usable() != nil {
		return m, false
	}
	m.pieces = l.unsecured()
	return m, true
}

// leave gives back what join took.
func (m *member) leave() {
	for _, p := range m.pieces {
		m.log.release(p.handle)
	}
	m.log.syncing.Unlock()
}

// secure publishes that the journal has the pieces.
func (m *member) secure() {
	l := m.log
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range m.pieces {
		p.segment.secured, p.segment.securedNext = p.at+int64(p.bytes), p.next
	}
	l.durable = max(l.durable, m.end)
}

// writeRound writes the members' pieces as one round and syncs it. Not written
// without an error means that the journal has no room, or a segment could not be
// read. An error is a fault of the journal.
func (f *Flusher) writeRound(members []member, entries, payload int) (written bool, err error) {
	j := f.journal
	j.writing.Lock()
	defer j.writing.Unlock()
	if entries == 0 {
		return true, nil
	}
	h, ok := j.reserve(int64(payload), false)
	if !ok {
		return false, nil
	}
	if err := j.begin(h); err != nil {
		return false, err
	}
	for _, m := range members {
		for _, p := range m.pieces {
			entries--
			e := entry{
				Kind: entryData, Generation: j.generation, Round: j.round, Identity: m.log.identity,
				Base: p.base, Next: p.next, Epoch: p.epoch, Left: uint16(entries), Name: path.Base(m.log.cfg.Dir),
			}
			at := len(j.buf)
			var room []byte
			j.buf, room = e.append(j.buf, p.bytes)
			if n, err := p.handle.file.ReadAt(room, p.at); n < len(room) {
				_ = err // syncing in place meets the same fault, and reports it
				return false, nil
			}
			sealEntry(j.buf[at:])
		}
	}
	if err := j.write(h); err != nil {
		return false, fmt.Errorf("journal round: %w", err)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, m := range members {
		if len(m.pieces) > 0 {
			h.logs[m.log.identity] = journalled{m.log, m.end}
		}
	}
	return true, nil
}
