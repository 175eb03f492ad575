package controlplane

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/ister-mq/ister/broker/internal/metadata"
	"github.com/ister-mq/ister/broker/internal/model"
	"github.com/ister-mq/ister/broker/internal/peer"
	"github.com/ister-mq/ister/broker/internal/quorum"
	"github.com/ister-mq/ister/broker/internal/refusal"
)

// How a node is added. Each step is repeated harmlessly, by AddNode again or by
// the steward, which completes a node that is in the metadata and not in the
// quorum:
//
//	read the node's info at its admin address · reach its raft address from here
//	· metadata.AddNode gives it an id · admit tells it, which writes it to its
//	disk · it becomes a learner

const (
	methodAdmit = "admit"

	infoTimeout  = 3 * time.Second
	infoSizeMax  = 64 << 10
	admitTimeout = 2 * time.Second
)

// InfoPath is where a node's admin endpoint answers its NodeInfo.
const InfoPath = "/ister/node"

// admission tells a node its place.
type admission struct {
	Cluster     model.ClusterID   `json:"cluster"`
	Node        model.NodeID      `json:"node"`
	Incarnation model.Incarnation `json:"incarnation"` // of the node meant
	Fellows     []fellow          `json:"fellows"`
}

type addNode struct {
	Admin  string `json:"admin"`
	DryRun bool   `json:"dry_run"`
}

var verbAddNode = verb[addNode, NodeInfo]{
	name:       "add-node",
	repeatable: always[addNode],
	run:        func(o *office, ctx context.Context, r addNode) (NodeInfo, error) { return o.addNode(ctx, r) },
}

// AddNode admits the node whose admin endpoint (host:port or a URL) is given, as
// a learner. Repeating it completes an admission that was cut short. On a dry
// run everything is checked and nothing written. The result has the node's id
// when it has one.
func (p *Plane) AddNode(ctx context.Context, adminAddress string, dryRun bool) (NodeInfo, error) {
	return ask(p, ctx, verbAddNode, addNode{Admin: adminAddress, DryRun: dryRun})
}

func (o *office) addNode(ctx context.Context, r addNode) (NodeInfo, error) {
	info, err := o.readInfo(ctx, r.Admin)
	if err != nil {
		return info, err
	}
	if err := o.judgeCandidate(ctx, info); err != nil {
		return info, err
	}
	node := metadata.NewNode{ID: info.Node, Incarnation: info.Incarnation, Endpoints: info.Endpoints, Rack: info.Rack, Version: info.Version}
	if node.ID == 0 {
		node.ID = info.Wanted
	}
	cmd := &metadata.AddNode{Node: node}
	if r.DryRun {
		_, err := metadata.Decide(o.plane.Image(), cmd, metadata.Env{Now: time.Now().UTC()})
		return info, err
	}
	out := o.submit(ctx, cmd)
	if out.err != nil {
		return info, out.err
	}
	n := o.plane.Image().Nodes[out.result.(*metadata.NodeResult).ID]
	if n == nil {
		return info, refusal.New(refusal.NodeStateConflict, info.Endpoints.Admin, "the node was removed while it was added", "start it with an empty data directory")
	}
	if err := o.claim(ctx); err != nil {
		return info, err
	}
	defer o.release()
	if err := o.admit(ctx, n); err != nil {
		return info, err
	}
	if err := o.makeLearner(ctx, n); err != nil {
		return info, err
	}
	info.Node, info.Cluster, info.State = n.ID, o.plane.Image().Cluster, StateMember
	o.plane.log.Info("node was added", "node", n.ID, "peer", n.Endpoints.Raft)
	return info, nil
}

// readInfo asks the candidate's admin endpoint who it is.
func (o *office) readInfo(ctx context.Context, admin string) (NodeInfo, error) {
	var info NodeInfo
	unreachable := func(err error) error {
		return refusal.New(refusal.NodeUnreachable, admin, fmt.Sprintf("the node at %s does not tell who it is: %v", admin, err),
			"check that it runs with --join and that its --admin-addr can be reached from the controller")
	}
	address := strings.TrimSuffix(admin, "/")
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	ctx, cancel := context.WithTimeout(ctx, infoTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address+InfoPath, nil)
	if err != nil {
		return info, refusal.New(refusal.InvalidArgument, admin, fmt.Sprintf("node address %q is not a URL: %v", admin, err), "give it as http://HOST:PORT of its --admin-addr")
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		if outer := (*url.Error)(nil); errors.As(err, &outer) {
			err = outer.Err // without the words Get and the URL
		}
		return info, unreachable(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return info, unreachable(fmt.Errorf("HTTP status %s", resp.Status))
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, infoSizeMax)).Decode(&info); err != nil {
		return info, unreachable(err)
	}
	if info.Incarnation == "" {
		return info, unreachable(errors.New("its answer is not that of a broker"))
	}
	return info, nil
}

// judgeCandidate refuses a node of another cluster, a removed one, and one whose
// raft address does not lead to it from here.
func (o *office) judgeCandidate(ctx context.Context, info NodeInfo) error {
	cluster := o.plane.Image().Cluster
	switch {
	case info.State == StateRemoved:
		return refusal.New(refusal.NodeRemoved, info.Node.String(), fmt.Sprintf("the node was node %v of cluster %s and was removed", info.Node, info.Cluster),
			"start it with an empty data directory and --join")
	case info.Cluster != "" && info.Cluster != cluster:
		return refusal.New(refusal.NodeInOtherCluster, info.Endpoints.Admin, fmt.Sprintf("the node is in cluster %s, this is %s", info.Cluster, cluster),
			"start it with an empty data directory and --join")
	}
	ctx, cancel := context.WithTimeout(ctx, admitTimeout)
	defer cancel()
	by, err := o.plane.peer.Probe(ctx, peer.Target{Address: info.Endpoints.Raft})
	if err != nil && !refusal.Is(err, refusal.NodeRemoved) {
		return refusal.New(refusal.NodeUnreachable, info.Endpoints.Raft, fmt.Sprintf("the node's raft address %s cannot be reached from the controller: %v", info.Endpoints.Raft, err),
			"check its advertised --raft-addr and the network between")
	}
	if by.Incarnation != info.Incarnation {
		return refusal.New(refusal.EndpointInUse, info.Endpoints.Raft, fmt.Sprintf("another node answers at the raft address %s", info.Endpoints.Raft),
			"give the new node its own advertised --raft-addr")
	}
	return nil
}

// admit tells a node its place.
func (o *office) admit(ctx context.Context, n *metadata.Node) error {
	im := o.plane.Image()
	a := admission{Cluster: im.Cluster, Node: n.ID, Incarnation: n.Incarnation}
	for _, other := range im.SortedNodes() {
		if other.ID != n.ID {
			a.Fellows = append(a.Fellows, fellow{Node: other.ID, Address: other.Endpoints.Raft})
		}
	}
	ctx, cancel := context.WithTimeout(ctx, admitTimeout)
	defer cancel()
	err := o.plane.peer.Call(ctx, peer.Target{Address: n.Endpoints.Raft, Incarnation: n.Incarnation}, methodAdmit, a, nil)
	if r := refusal.As(err); r != nil {
		return r
	}
	if err != nil {
		return refusal.New(refusal.NodeUnreachable, n.ID.String(), fmt.Sprintf("node %v could not be told its place: %v", n.ID, err), "repeat the request; the controller also goes on trying")
	}
	return nil
}

// handleAdmit takes the place that the controller gives to this node.
func (p *Plane) handleAdmit(_ context.Context, _ peer.Identity, body json.RawMessage) (any, error) {
	var a admission
	if err := json.Unmarshal(body, &a); err != nil {
		return nil, fmt.Errorf("decode %s: %w", methodAdmit, err)
	}
	id := p.store.get()
	switch {
	case a.Incarnation != id.Incarnation:
		return nil, refusal.New(refusal.WrongIncarnation, a.Node.String(), fmt.Sprintf("this node has incarnation %s, not %s", id.Incarnation, a.Incarnation), "add it again")
	case id.State == StateRemoved:
		return nil, removedRefusal(id)
	case id.State == StateFresh && !p.cfg.Join:
		return nil, refusal.New(refusal.NodeStateConflict, a.Node.String(), "this node was started to form a cluster, not to join one", "start it with --join")
	case id.State != StateFresh && (id.Cluster != a.Cluster || id.Node != a.Node):
		return nil, refusal.New(refusal.NodeInOtherCluster, id.Node.String(), fmt.Sprintf("this is node %v of cluster %s", id.Node, id.Cluster), "start it with an empty data directory and --join")
	}
	if id.State == StateFresh {
		err := p.store.update(func(i *identity) {
			i.Cluster, i.Node, i.State, i.Fellows = a.Cluster, a.Node, StateMember, a.Fellows
		})
		if err != nil {
			return nil, err
		}
		p.log.Info("node was admitted", "node", a.Node)
		p.identify(0)
	}
	p.enterSoon(p.store.get())
	return nil, nil
}

func removedRefusal(id identity) error {
	return refusal.New(refusal.NodeRemoved, id.Node.String(), fmt.Sprintf("node %v was removed from cluster %s", id.Node, id.Cluster), "start it with an empty data directory and --join")
}

// makeLearner adds a node to the quorum unless it is there.
func (o *office) makeLearner(ctx context.Context, n *metadata.Node) error {
	return o.change(ctx, func(m quorum.Members) (func() error, error) {
		if _, ok := m.Get(n.ID); ok {
			return nil, nil
		}
		return func() error {
			return o.quorum.AddLearner(ctx, quorum.Member{Node: n.ID, Incarnation: n.Incarnation, Address: n.Endpoints.Raft}, m.Index)
		}, nil
	})
}
