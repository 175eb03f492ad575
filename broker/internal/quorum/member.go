package quorum

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sort"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	"github.com/ister-mq/ister/broker/internal/model"
)

type hclogLogger = hclog.Logger

// changeTimeout bounds how long a membership change waits to be taken.
const changeTimeout = 5 * time.Second

// ErrConfigurationChanged: the members are no longer those the caller saw.
var ErrConfigurationChanged = errors.New("the members of the quorum changed meanwhile")

// Member is one member of the quorum.
type Member struct {
	Node        model.NodeID
	Incarnation model.Incarnation
	Address     string // host:port
	Voter       bool
}

// Members is a configuration.
type Members struct {
	All   []Member    // sorted by node
	Index model.Index // of the configuration; the fence of a change
	// Pending: it is not committed yet.
	Pending bool
}

// Get finds the member of a node.
func (m Members) Get(node model.NodeID) (Member, bool) {
	for _, one := range m.All {
		if one.Node == node {
			return one, true
		}
	}
	return Member{}, false
}

// Voters counts those that vote.
func (m Members) Voters() int {
	n := 0
	for _, one := range m.All {
		if one.Voter {
			n++
		}
	}
	return n
}

// Members is the latest configuration this member has, committed or not.
func (q *Quorum) Members() (Members, error) {
	f := q.raft.GetConfiguration()
	if err := f.Error(); err != nil {
		return Members{}, fmt.Errorf("read raft configuration: %w", err)
	}
	out := Members{Index: model.Index(f.Index()), Pending: f.Index() > q.raft.CommitIndex()}
	for _, s := range f.Configuration().Servers {
		m, err := parseServerID(s.ID)
		if err != nil {
			return Members{}, err
		}
		m.Address, m.Voter = string(s.Address), s.Suffrage == raft.Voter
		out.All = append(out.All, m)
	}
	sort.Slice(out.All, func(i, j int) bool { return out.All[i].Node < out.All[j].Node })
	return out, nil
}

// configuredAddress looks a member up for the transport.
func (q *Quorum) configuredAddress(id raft.ServerID) (raft.ServerAddress, bool) {
	r := q.started.Load()
	if r == nil {
		return "", false // raft's goroutines run before NewRaft returns
	}
	for _, s := range r.GetConfiguration().Configuration().Servers {
		if s.ID == id {
			return s.Address, true
		}
	}
	return "", false
}

// AddLearner adds a member that receives and does not vote, or changes the
// address of a learner. Seen fences it on the configuration the caller judged.
func (q *Quorum) AddLearner(ctx context.Context, m Member, seen model.Index) error {
	return q.change(ctx, "add learner", q.raft.AddNonvoter(serverID(m), raft.ServerAddress(m.Address), uint64(seen), changeTimeout))
}

// AddVoter makes a learner a voter, or changes the address of a voter. It counts
// for the quorum at once: the caller has checked that it is caught up.
func (q *Quorum) AddVoter(ctx context.Context, m Member, seen model.Index) error {
	return q.change(ctx, "add voter", q.raft.AddVoter(serverID(m), raft.ServerAddress(m.Address), uint64(seen), changeTimeout))
}

// DemoteVoter makes a voter a learner.
func (q *Quorum) DemoteVoter(ctx context.Context, m Member, seen model.Index) error {
	return q.change(ctx, "demote voter", q.raft.DemoteVoter(serverID(m), uint64(seen), changeTimeout))
}

// Remove takes a member out.
func (q *Quorum) Remove(ctx context.Context, m Member, seen model.Index) error {
	return q.change(ctx, "remove member", q.raft.RemoveServer(serverID(m), uint64(seen), changeTimeout))
}

// change waits for a membership change to be committed.
func (q *Quorum) change(ctx context.Context, verb string, f raft.IndexFuture) error {
	err := await(ctx, f)
	switch {
	case err == nil:
		return nil
	case strings.Contains(err.Error(), "configuration changed since"):
		return fmt.Errorf("%s: %w", verb, ErrConfigurationChanged)
	default:
		return fmt.Errorf("%s: %w", verb, proposeError(err))
	}
}

// Transfer hands the leadership to a voter and waits until it is given up. Raft
// does not check that the target votes; this does.
func (q *Quorum) Transfer(ctx context.Context, to model.NodeID) error {
	members, err := q.Members()
	if err != nil {
		return err
	}
	m, ok := members.Get(to)
	if !ok || !m.Voter {
		return fmt.Errorf("transfer leadership: node %v is not a voter", to)
	}
	if err := await(ctx, q.raft.LeadershipTransferToServer(serverID(m), raft.ServerAddress(m.Address))); err != nil {
		return fmt.Errorf("transfer leadership to node %v: %w", to, err)
	}
	return nil
}

// advertised is a layer whose address is the advertised one, which raft puts in
// its messages.
type advertised struct {
	layer
	address string
}

// Addr implements net.Listener.
func (a advertised) Addr() net.Addr { return hostPort(a.address) }

// hostPort is an address that was given as text.
type hostPort string

// Network implements net.Addr.
func (hostPort) Network() string { return "tcp" }

// String implements net.Addr.
func (h hostPort) String() string { return string(h) }
