package sim

import (
	"time"

	"github.com/ister-mq/ister/broker/internal/model"
)

// client is the address of everything that is not a node: its links lose
// messages but are never cut.
const client model.NodeID = 0

// links is the network between nodes.
type links struct {
	s *Sim
	// cut holds directed links that carry nothing.
	cut map[[2]model.NodeID]bool
	// loss is the chance in 1000 that a message is lost, repeated or very late.
	loss, repeat, late int
}

func newLinks(s *Sim) links {
	return links{s: s, cut: map[[2]model.NodeID]bool{}, loss: s.random.IntN(30), repeat: s.random.IntN(20), late: s.random.IntN(40)}
}

func (l *links) connected(a, b model.NodeID) bool {
	return a == b || !l.cut[[2]model.NodeID{a, b}] && !l.cut[[2]model.NodeID{b, a}]
}

func (l *links) delay() time.Duration {
	if l.s.random.IntN(1000) < l.late {
		return l.s.between(5*time.Millisecond, 1200*time.Millisecond)
	}
	return l.s.between(100*time.Microsecond, 2*time.Millisecond)
}

// send delivers once, later, twice or never. What reaches a node that restarted
// since is gone, as with its connections. A nil node is the client side.
func (l *links) send(from, to *node, deliver func()) {
	source, target := client, client
	if from != nil {
		source = from.id
	}
	if to != nil {
		target = to.id
	}
	if l.cut[[2]model.NodeID{source, target}] || l.s.random.IntN(1000) < l.loss {
		return
	}
	copies := 1
	if l.s.random.IntN(1000) < l.repeat {
		copies = 2
	}
	for range copies {
		arrive := func() {
			if !l.cut[[2]model.NodeID{source, target}] {
				deliver()
			}
		}
		if to == nil {
			l.s.after(l.delay(), arrive)
		} else {
			to.after(l.delay(), arrive)
		}
	}
}

// call sends a request and waits for one answer; done is called once, with false
// when none came in time. Serve may answer later, or never; repeated requests and
// answers after the first are dropped, as a connection would.
func (l *links) call(from, to *node, timeout time.Duration, serve func(answer func(func())), done func(ok bool)) {
	served, finished := false, false
	finish := func(ok bool) {
		if !finished {
			finished = true
			done(ok)
		}
	}
	expire := func() { finish(false) }
	if from != nil {
		from.after(timeout, expire)
	} else {
		l.s.after(timeout, expire)
	}
	if to == nil {
		return // nobody is known to ask
	}
	l.send(from, to, func() {
		if served {
			return
		}
		served = true
		serve(func(deliver func()) {
			l.send(to, from, func() {
				if !finished {
					deliver()
					finish(true)
				}
			})
		})
	})
}
