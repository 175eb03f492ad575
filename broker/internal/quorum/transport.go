package quorum

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/raft"
	"github.com/ister-mq/ister/broker/internal/model"
)

// Streams is where raft's connections come from and go to. The peer package's
// endpoint implements it, with handshakes that check both ends.
type Streams interface {
	net.Listener
	// Dial opens a stream to the member, refused when another one answers.
	Dial(to Member, timeout time.Duration) (net.Conn, error)
}

// Addresses gives a node's present raft address when it is known to differ from
// the one in raft's configuration (it restarted on another one).
type Addresses func(model.NodeID) (address string, ok bool)

// serverID names a member to raft: node id and incarnation.
func serverID(m Member) raft.ServerID {
	return raft.ServerID(m.Node.String() + ":" + string(m.Incarnation))
}

func parseServerID(id raft.ServerID) (Member, error) {
	node, incarnation, ok := strings.Cut(string(id), ":")
	n, err := strconv.ParseInt(node, 10, 32)
	if !ok || err != nil || n <= 0 || incarnation == "" {
		return Member{}, fmt.Errorf("raft server id %q: expected NODE:INCARNATION", id)
	}
	return Member{Node: model.NodeID(n), Incarnation: model.Incarnation(incarnation)}, nil
}

// resolver gives raft's transport an "address" that carries the whole member,
// since Dial is told nothing else: NODE:INCARNATION@HOST:PORT.
type resolver struct {
	addresses Addresses
	// configured is the address in raft's configuration.
	configured func(raft.ServerID) (raft.ServerAddress, bool)
}

// ServerAddr implements raft.ServerAddressProvider.
func (r resolver) ServerAddr(id raft.ServerID) (raft.ServerAddress, error) {
	m, err := parseServerID(id)
	if err != nil {
		return "", err
	}
	address, ok := "", false
	if r.addresses != nil {
		address, ok = r.addresses(m.Node)
	}
	if !ok {
		a, known := r.configured(id)
		if !known {
			return "", fmt.Errorf("address of member %s is unknown", id)
		}
		address = string(a)
	}
	return raft.ServerAddress(string(id) + "@" + address), nil
}

// layer is raft's StreamLayer over Streams.
type layer struct{ Streams }

// Dial implements raft.StreamLayer.
func (l layer) Dial(address raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	id, host, ok := strings.Cut(string(address), "@")
	if !ok {
		return nil, fmt.Errorf("dial %s: the address names no member", address)
	}
	m, err := parseServerID(raft.ServerID(id))
	if err != nil {
		return nil, err
	}
	m.Address = host
	return l.Streams.Dial(m, timeout)
}

// transport is raft's network transport with nudging pipelines.
type transport struct {
	*raft.NetworkTransport
	nudges *nudger

	// beating is held, shared, while a heartbeat is handled. Raft does that on the
	// connection's goroutine, which its Shutdown does not wait for, and a new term is
	// written to the store: a store closed meanwhile makes raft panic.
	beating sync.RWMutex
	muted   bool // under beating: heartbeats are no longer handled
}

// SetHeartbeatHandler implements raft.Transport.
func (t *transport) SetHeartbeatHandler(handle func(raft.RPC)) {
	t.NetworkTransport.SetHeartbeatHandler(func(rpc raft.RPC) {
		t.beating.RLock()
		defer t.beating.RUnlock()
		if !t.muted {
			handle(rpc)
		}
	})
}

// mute waits for the heartbeats under way and has no other handled. The transport
// is closed, which answers those who sent them.
func (t *transport) mute() {
	t.beating.Lock()
	defer t.beating.Unlock()
	t.muted = true
}

// AppendEntriesPipeline implements raft.Transport.
func (t *transport) AppendEntriesPipeline(id raft.ServerID, target raft.ServerAddress) (raft.AppendPipeline, error) {
	p, err := t.NetworkTransport.AppendEntriesPipeline(id, target)
	if err != nil {
		return nil, err
	}
	return t.nudges.wrap(p), nil
}

// The optional halves of raft's transport that must not get lost in the wrapping.
var (
	_ raft.WithPreVote = (*transport)(nil)
	_ raft.WithClose   = (*transport)(nil)
)
