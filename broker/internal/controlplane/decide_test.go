package controlplane

import (
	"strings"
	"testing"
	"time"

	"github.com/ister-mq/ister/broker/internal/metadata"
	"github.com/ister-mq/ister/broker/internal/model"
	"github.com/ister-mq/ister/broker/internal/quorum"
	"github.com/ister-mq/ister/broker/internal/refusal"
)

// deskOffice is an office without a quorum, to judge with.
func deskOffice() *office {
	p := &Plane{machine: newMachine(), store: &identityStore{}, log: testLog("desk")}
	o := &office{plane: p, queue: make(chan *request, queueSize), done: make(chan struct{}), contacts: map[model.NodeID]*contact{}}
	commit(p.machine, o, &metadata.FormCluster{Cluster: "c", Nodes: []metadata.NewNode{{ID: 1, Incarnation: "i"}}})
	return o
}

func ask1(cmd metadata.Command) *request { return &request{cmd: cmd, reply: make(chan outcome, 1)} }

func commit(m *machine, o *office, commands ...metadata.Command) []any {
	var requests []*request
	for _, c := range commands {
		requests = append(requests, ask1(c))
	}
	_, entry, err := o.judge(requests)
	if err != nil {
		panic(err)
	}
	return m.Apply([]quorum.Entry{{Index: 1, Data: entry}})
}

func TestCommandsThatWaitTogetherAreOneEntry(t *testing.T) {
	o := deskOffice()
	before := o.plane.Image().Revision
	requests := []*request{
		ask1(&metadata.CreateNamespace{Name: "a"}),
		ask1(&metadata.CreateNamespace{Name: "a"}), // rests on the first, which is not committed yet
		ask1(&metadata.CreateNamespace{Name: "b"}),
	}
	verdicts, entry, err := o.judge(requests)
	if err != nil {
		t.Fatal(err)
	}
	if !refusal.Is(verdicts[1].outcome.err, refusal.NamespaceExists) {
		t.Errorf("the second was judged on an old image: %v", verdicts[1].outcome.err)
	}
	if o.plane.Image().Revision != before {
		t.Error("judging changed the image")
	}
	applied := o.plane.machine.Apply([]quorum.Entry{{Data: entry}})[0].([]bool)
	if len(applied) != 2 || !applied[0] || !applied[1] || o.plane.Image().Revision != before+2 {
		t.Errorf("applied %v, revision %d, want two batches from %d", applied, o.plane.Image().Revision, before)
	}
	// The same entry again, as after a restore, changes nothing.
	applied = o.plane.machine.Apply([]quorum.Entry{{Data: entry}})[0].([]bool)
	if applied[0] || applied[1] || o.plane.Image().Revision != before+2 {
		t.Errorf("a stale entry was applied: %v", applied)
	}
}

func TestFailedEntryTakesDownWhatRestsOnIt(t *testing.T) {
	o := deskOffice()
	requests := []*request{
		ask1(&metadata.DeleteNamespace{Name: "none"}),   // a refusal on committed state
		ask1(&metadata.CreateNamespace{Name: "a"}),      // written
		ask1(&metadata.CreateNamespace{Name: "a"}),      // a refusal that rests on it
		ask1(&metadata.DeleteNamespace{Name: "nobody"}), // another one after it
	}
	verdicts, _, err := o.judge(requests)
	if err != nil {
		t.Fatal(err)
	}
	o.fail(verdicts, quorum.ErrOutcomeUnknown)
	want := []refusal.Reason{refusal.NamespaceNotFound, refusal.OutcomeUnknown, refusal.OutcomeUnknown, refusal.OutcomeUnknown}
	for i, r := range requests {
		if out := <-r.reply; !refusal.Is(out.err, want[i]) {
			t.Errorf("command %d: %v, want %s", i, out.err, want[i])
		}
	}
	verdicts, _, _ = o.judge([]*request{ask1(&metadata.CreateNamespace{Name: "a"})})
	o.fail(verdicts, quorum.ErrNotController)
	if out := <-verdicts[0].request.reply; !refusal.Is(out.err, refusal.NotController) {
		t.Errorf("nothing was written: %v, want NOT_CONTROLLER", out.err)
	}
}

func TestOversizedChangeIsRefusedAlone(t *testing.T) {
	o := deskOffice()
	huge := &metadata.SetNodeState{ID: 1, State: metadata.NodeCordoned, Reason: strings.Repeat("x", quorum.EntrySizeMax+1)}
	if _, _, err := o.judge([]*request{ask1(huge)}); !refusal.Is(err, refusal.InvalidArgument) {
		t.Errorf("got %v", err)
	}
}

func TestFullQueueRefuses(t *testing.T) {
	o := deskOffice()
	for range queueSize {
		o.queue <- ask1(&metadata.CreateNamespace{Name: "a"})
	}
	if out := o.submit(t.Context(), &metadata.CreateNamespace{Name: "b"}); !refusal.Is(out.err, refusal.Overloaded) {
		t.Errorf("got %v", out.err)
	}
}

// TestLookFencesByLeaseAndByDeath walks the cases of one look at a contact.
func TestLookFencesByLeaseAndByDeath(t *testing.T) {
	now := time.Now()
	n := &metadata.Node{ID: 2, Incarnation: "i2", Epoch: 5}
	for name, c := range map[string]struct {
		fenced  bool
		contact contact
		want    string
	}{
		"heard lately":                       {false, contact{heard: now, epoch: 5, revision: 5}, ""},
		"silent":                             {false, contact{heard: now.Add(-2 * time.Second), epoch: 5, revision: 5}, "fence"},
		"process gone":                       {false, contact{heard: now, epoch: 5, revision: 5, gone: true}, "fence"},
		"never heard, looked for a minute":   {false, contact{since: now.Add(-time.Minute)}, "fence"},
		"never heard, just added":            {false, contact{since: now}, ""},
		"fenced and back":                    {true, contact{heard: now, epoch: 5, revision: 5}, "unfence"},
		"fenced, has not seen its own epoch": {true, contact{heard: now, epoch: 5, revision: 4}, ""},
		"fenced, older process":              {true, contact{heard: now, epoch: 4, revision: 9}, ""},
		"fenced and silent":                  {true, contact{heard: now.Add(-time.Second), epoch: 5, revision: 5}, ""},
		"being decided":                      {false, contact{since: now, gone: true, changed: true}, ""},
	} {
		o := deskOffice()
		o.plane.timing = Timing{}.withDefaults()
		o.plane.timing.Heartbeat = time.Hour // no probe
		o.self = 1
		node := *n
		node.Fenced = c.fenced
		held := c.contact
		o.contacts[2] = &held
		o.look(t.Context(), &node)
		got := ""
		if held.changed && !c.contact.changed {
			r := <-o.queue
			r.reply <- outcome{}
			switch cmd := r.cmd.(type) {
			case *metadata.FenceNode:
				got = "fence"
			case *metadata.UnfenceNode:
				got = "unfence"
			default:
				t.Errorf("%s: %T", name, cmd)
			}
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestSilenceOfANewMemberIsUnknownForALease: a node that was just added had no time
// to say anything, however long the office has lasted. A promotion waits for it.
func TestSilenceOfANewMemberIsUnknownForALease(t *testing.T) {
	o := deskOffice()
	o.plane.timing = Timing{}.withDefaults()
	added := time.Now()
	if known, _, _, _ := o.judgeMember(4, quorum.Status{}, added); known {
		t.Error("a node is judged before it could say anything")
	}
	late := added.Add(2 * o.plane.timing.Lease)
	if known, alive, silent, _ := o.judgeMember(4, quorum.Status{}, late); !known || alive || silent < o.plane.timing.Lease {
		t.Errorf("after a lease of silence: known %v, alive %v, silent %v", known, alive, silent)
	}
	o.contact(4).gone = true
	if known, alive, _, _ := o.judgeMember(4, quorum.Status{}, added); !known || alive {
		t.Errorf("its process is gone: known %v, alive %v", known, alive)
	}
}
