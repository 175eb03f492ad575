package adminapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/ister-mq/ister/admin/adminv1"
	"github.com/ister-mq/ister/broker/internal/metadata"
	"github.com/ister-mq/ister/broker/internal/model"
	"github.com/ister-mq/ister/broker/internal/operation"
	"github.com/ister-mq/ister/broker/internal/refusal"
)

type clusterService struct{ *service }

// statusWait bounds how long a status waits for the controller's view.
const statusWait = time.Second

// GetStatus answers about this node, with the members as the controller sees them
// where it can be reached.
func (s clusterService) GetStatus(ctx context.Context, request *adminv1.GetStatusRequest) (*adminv1.GetStatusResponse, error) {
	own := s.ownStatus(ctx)
	if own.GetControllerId() == own.GetSelfNodeId() || own.GetControllerAdminAddress() == "" || forwarded(ctx) {
		return own, nil
	}
	remoteCtx, cancel := context.WithTimeout(ctx, statusWait)
	defer cancel()
	view, err := s.remote.GetStatus(context.WithValue(remoteCtx, statusAddressKey{}, own.GetControllerAdminAddress()), request)
	if err != nil || view.GetControllerId() != view.GetSelfNodeId() {
		return own, nil // the own view, and AnsweredBy says so
	}
	own.Voters, own.Learners, own.AnsweredBy = view.GetVoters(), view.GetLearners(), view.GetAnsweredBy()
	own.MembershipChangePending = view.GetMembershipChangePending()
	own.Revision, own.PlacementRevision = view.GetRevision(), view.GetPlacementRevision()
	own.Brokers, own.ActiveBrokers, own.Topics, own.Partitions = view.GetBrokers(), view.GetActiveBrokers(), view.GetTopics(), view.GetPartitions()
	own.OfflinePartitions, own.UnderReplicatedPartitions, own.UndersizedPartitions = view.GetOfflinePartitions(), view.GetUnderReplicatedPartitions(), view.GetUndersizedPartitions()
	return own, nil
}

// statusAddressKey holds the address to ask for a status.
type statusAddressKey struct{}

// statusTransport sends status requests to the address in their context, over the
// connections of the forwarder.
type statusTransport struct{ forward *forwarder }

func (t statusTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	address, ok := request.Context().Value(statusAddressKey{}).(string)
	if !ok {
		return nil, errors.New("status request without an address")
	}
	out := request.Clone(request.Context())
	out.URL.Host, out.Host = address, address
	self, _ := t.forward.backend.Self()
	out.Header.Set(forwardedHeader, self.String())
	return t.forward.transport.RoundTrip(out)
}

func (s *service) ownStatus(ctx context.Context) *adminv1.GetStatusResponse {
	im, info, quorum := s.backend.Image(), s.backend.Info(), s.backend.Status(ctx)
	self, _ := s.backend.Self()
	ready, reasons := s.backend.Ready()
	out := &adminv1.GetStatusResponse{
		SelfNodeId: int32(self), SelfEndpoints: endpoints(info.Endpoints), SelfIncarnation: string(info.Incarnation), SelfVersion: info.Version,
		Ready: ready, NotReadyReasons: reasons,
		Term: known(quorum.Term), LastApplied: known(quorum.Applied), LastIndex: known(quorum.LastIndex),
		ClusterId: string(info.Cluster), MembershipChangePending: quorum.Pending,
		AnsweredBy: int32(self), Revision: uint64(im.Revision), PlacementRevision: uint64(im.PlacementRevision),
		Brokers: int32(len(im.Nodes)), Topics: int32(len(im.Topics)),
	}
	if n := im.Nodes[self]; n != nil {
		out.SelfState = nodeStates[n.State]
	}
	if controller, ok := s.backend.Controller(); ok {
		out.ControllerId = int32(controller)
		if n := im.Nodes[controller]; n != nil {
			out.ControllerAdminAddress = n.Endpoints.Admin
		}
	}
	out.Voters, out.Learners = votersAndLearners(quorum)
	var all counts
	for _, t := range im.Topics {
		out.Partitions += int32(len(t.Partitions))
		all.add(t)
	}
	// Only the controller knows who is alive, and so who leads and is in sync.
	if out.ControllerId != 0 && out.ControllerId == out.SelfNodeId {
		active := slices.DeleteFunc(im.ActiveNodes(), func(n *metadata.Node) bool { return n.Fenced })
		out.ActiveBrokers = wrapperspb.Int32(int32(len(active)))
		out.OfflinePartitions, out.UnderReplicatedPartitions, out.UndersizedPartitions = wrapperspb.Int32(all.offline), wrapperspb.Int32(all.under), wrapperspb.Int32(all.undersized)
	}
	return out
}

// known prints an absent number as zero, which no term or index has.
func known[T ~uint64](v *T) uint64 {
	if v == nil {
		return 0
	}
	return uint64(*v)
}

func votersAndLearners(q QuorumStatus) (voters, learners []int32) {
	for _, m := range q.Members {
		if m.Voter {
			voters = append(voters, int32(m.Node))
		} else {
			learners = append(learners, int32(m.Node))
		}
	}
	return voters, learners
}

func (s *service) voters(ctx context.Context) []int32 {
	voters, _ := votersAndLearners(s.backend.Status(ctx))
	return voters
}

// ListMembers lists the quorum's members, and registered nodes that are in none.
func (s clusterService) ListMembers(ctx context.Context, _ *adminv1.ListMembersRequest) (*adminv1.ListMembersResponse, error) {
	im, quorum := s.backend.Image(), s.backend.Status(ctx)
	roles := make(map[model.NodeID]Member, len(quorum.Members))
	var order []model.NodeID
	for _, m := range quorum.Members {
		roles[m.Node] = m
		order = append(order, m.Node)
	}
	for _, n := range im.SortedNodes() {
		if _, ok := roles[n.ID]; !ok {
			order = append(order, n.ID)
		}
	}
	out := &adminv1.ListMembersResponse{MembershipChangePending: quorum.Pending}
	for _, id := range model.SortNodes(order) {
		out.Members = append(out.Members, member(id, roles, im, quorum))
	}
	return out, nil
}

func member(id model.NodeID, roles map[model.NodeID]Member, im *metadata.Image, quorum QuorumStatus) *adminv1.Member {
	out := &adminv1.Member{NodeId: int32(id), Role: role(id, roles), Controller: quorum.Controller == id}
	if m, ok := roles[id]; ok {
		out.Incarnation, out.RaftAddress = string(m.Incarnation), m.Address
	}
	if n := im.Nodes[id]; n != nil {
		out.State, out.Fenced, out.AdminAddress = nodeStates[n.State], n.Fenced, n.Endpoints.Admin
		out.Incarnation, out.RaftAddress = string(n.Incarnation), n.Endpoints.Raft
	}
	return out
}

func role(id model.NodeID, roles map[model.NodeID]Member) adminv1.Member_Role {
	m, ok := roles[id]
	switch {
	case !ok:
		return adminv1.Member_NONE
	case m.Voter:
		return adminv1.Member_VOTER
	}
	return adminv1.Member_LEARNER
}

// AddNode admits a node as a learner.
func (s clusterService) AddNode(ctx context.Context, request *adminv1.AddNodeRequest) (*adminv1.AddNodeResponse, error) {
	address, err := hostPort("node_addr", request.GetNodeAddr())
	if err != nil {
		return nil, err
	}
	before := s.backend.Image()
	info, err := s.backend.AddNode(ctx, address, request.GetDryRun())
	if err != nil {
		return nil, err
	}
	quorum := s.backend.Status(ctx)
	out := &adminv1.AddNodeResponse{
		NodeId: int32(info.Node), DryRun: request.GetDryRun(), RaftAddress: info.Endpoints.Raft, Incarnation: string(info.Incarnation),
		Role: adminv1.Member_LEARNER,
	}
	for _, n := range before.Nodes {
		out.Already = out.Already || n.Incarnation == info.Incarnation
	}
	for _, m := range quorum.Members {
		if m.Node == info.Node && m.Voter {
			out.Role = adminv1.Member_VOTER
		}
	}
	return out, nil
}

// hostPort reads http://host:port or host:port.
func hostPort(field, text string) (string, error) {
	rest := strings.TrimSuffix(strings.TrimPrefix(text, "http://"), "/")
	host, port, ok := strings.Cut(rest, ":")
	if strings.HasPrefix(rest, "[") { // IPv6
		host, port, ok = strings.Cut(rest, "]:")
	}
	if !ok || host == "" || port == "" || strings.ContainsAny(rest, "/ \t?#@") {
		return "", invalid(field, fmt.Sprintf("%q", text), "the admin address of the node, such as http://127.0.0.1:50054")
	}
	return rest, nil
}

// PromoteNode makes a learner a voter.
func (s clusterService) PromoteNode(ctx context.Context, request *adminv1.PromoteNodeRequest) (*adminv1.PromoteNodeResponse, error) {
	id, err := nodeID("node_id", request.GetNodeId())
	if err != nil {
		return nil, err
	}
	im, quorum := s.backend.Image(), s.backend.Status(ctx)
	if _, err := registered(im, id); err != nil {
		return nil, err
	}
	out := &adminv1.PromoteNodeResponse{NodeId: request.GetNodeId(), DryRun: request.GetDryRun()}
	switch {
	case quorum.has(id, true):
		out.Already = true
	case request.GetDryRun():
		safe, blockers, err := s.safety(ctx, func(im *metadata.Image, q operation.QuorumView) (bool, []operation.Blocker) {
			return operation.SafeToPromote(im, id, q)
		})
		if err != nil {
			return nil, err
		}
		if !safe {
			return nil, refuseBlocked("promote", id, blockers)
		}
	default:
		if err := s.backend.PromoteNode(ctx, id); err != nil {
			return nil, err
		}
	}
	out.Voters = s.voters(ctx)
	return out, nil
}

// DemoteNode makes a voter a learner.
func (s clusterService) DemoteNode(ctx context.Context, request *adminv1.DemoteNodeRequest) (*adminv1.DemoteNodeResponse, error) {
	id, err := nodeID("node_id", request.GetNodeId())
	if err != nil {
		return nil, err
	}
	quorum := s.backend.Status(ctx)
	if _, err := registered(s.backend.Image(), id); err != nil {
		return nil, err
	}
	out := &adminv1.DemoteNodeResponse{NodeId: request.GetNodeId(), DryRun: request.GetDryRun()}
	voters, _ := votersAndLearners(quorum)
	switch {
	case quorum.has(id, false):
		out.Already = true
	case request.GetDryRun():
		if len(voters) == 1 {
			return nil, refusal.New(refusal.LastVoter, fmt.Sprintf("node %d", id), fmt.Sprintf("node %d is the only voter", id), "promote another node first")
		}
		if quorum.Pending {
			return nil, refusal.New(refusal.MembershipPending, fmt.Sprintf("node %d", id), "another change of members is under way", "repeat it when that is done; see `cluster status`")
		}
	default:
		if err := s.backend.DemoteNode(ctx, id); err != nil {
			return nil, err
		}
	}
	out.Voters = s.voters(ctx)
	return out, nil
}

// RemoveNode removes an empty node for ever.
func (s clusterService) RemoveNode(ctx context.Context, request *adminv1.RemoveNodeRequest) (*adminv1.RemoveNodeResponse, error) {
	id, err := nodeID("node_id", request.GetNodeId())
	if err != nil {
		return nil, err
	}
	im, quorum := s.backend.Image(), s.backend.Status(ctx)
	out := &adminv1.RemoveNodeResponse{NodeId: request.GetNodeId(), DryRun: request.GetDryRun()}
	if im.Tombstones[id] != nil && !quorum.has(id, true) && !quorum.has(id, false) {
		out.Already, out.Removed, out.SafeToRemove, out.Voters = true, true, true, s.voters(ctx)
		return out, nil
	}
	if im.Tombstones[id] == nil {
		if _, err := registered(im, id); err != nil {
			return nil, err
		}
	}
	if request.GetDryRun() {
		safe, blockers, err := s.safety(ctx, func(im *metadata.Image, q operation.QuorumView) (bool, []operation.Blocker) {
			if im.Tombstones[id] != nil { // the quorum still has to let go of it
				return true, nil
			}
			return operation.SafeToRemove(im, id, q)
		})
		if err != nil {
			return nil, err
		}
		out.SafeToRemove, out.Blockers, out.Voters = safe, findings(blockers), s.voters(ctx)
		return out, nil
	}
	options := RemoveOptions{PlacementRevision: model.Revision(request.GetPlacementRevision()), Reason: request.GetReason()}
	if err := s.backend.RemoveNode(ctx, id, options); err != nil {
		return nil, s.withBlockers(ctx, id, err)
	}
	out.Removed, out.SafeToRemove, out.Voters = true, true, s.voters(ctx)
	return out, nil
}

// healthWait bounds how long a dry run waits for a new controller to hear from
// everybody.
const healthWait = 2 * time.Second

func (s clusterService) safety(ctx context.Context, judge func(*metadata.Image, operation.QuorumView) (bool, []operation.Blocker)) (bool, []operation.Blocker, error) {
	for started := time.Now(); ; {
		safe, blockers := judge(s.backend.Image(), quorumView(s.backend.Status(ctx)))
		if safe || time.Since(started) > healthWait || !onlyUnknown(blockers) {
			return safe, blockers, nil
		}
		if err := look(ctx); err != nil {
			return false, nil, err
		}
	}
}

func onlyUnknown(blockers []operation.Blocker) bool {
	return !slices.ContainsFunc(blockers, func(b operation.Blocker) bool { return b.Code != refusal.UnknownHealth })
}

// withBlockers adds every blocker to a refusal to remove a node.
func (s clusterService) withBlockers(ctx context.Context, id model.NodeID, err error) error {
	r := refusal.As(err)
	if r == nil || r.Kind != refusal.Precondition {
		return err
	}
	_, blockers := operation.SafeToRemove(s.backend.Image(), id, quorumView(s.backend.Status(ctx)))
	if !slices.ContainsFunc(blockers, func(b operation.Blocker) bool { return b.Code == r.Reason }) {
		return err // about something else, or no longer so
	}
	return &blocked{refusal: r, blockers: blockers}
}

// refuseBlocked names the first blocker as the reason and lists all.
func refuseBlocked(verb string, id model.NodeID, blockers []operation.Blocker) error {
	subject := fmt.Sprintf("node %d", id)
	if len(blockers) == 0 {
		return refusal.New(refusal.UnknownHealth, subject, fmt.Sprintf("cannot %s node %d: its state is not known well enough", verb, id), "try again when the controller has heard from every node")
	}
	words := make([]string, len(blockers))
	for i, b := range blockers {
		words[i] = b.Message
	}
	r := refusal.New(blockers[0].Code, subject, fmt.Sprintf("cannot %s node %d: %s", verb, id, strings.Join(words, "; ")), blockers[0].Remedy)
	return &blocked{refusal: r, blockers: blockers}
}

// TransferLeadership hands the controller role over.
func (s clusterService) TransferLeadership(ctx context.Context, request *adminv1.TransferLeadershipRequest) (*adminv1.TransferLeadershipResponse, error) {
	to := model.NodeID(request.GetToNodeId())
	if to != model.NoNode {
		if _, err := nodeID("to_node_id", request.GetToNodeId()); err != nil {
			return nil, err
		}
		if _, err := registered(s.backend.Image(), to); err != nil {
			return nil, err
		}
	}
	self, _ := s.backend.Self()
	controller, err := s.backend.TransferLeadership(ctx, Transfer{To: to, From: model.NodeID(request.GetFromNodeId())})
	if err != nil {
		return nil, err
	}
	return &adminv1.TransferLeadershipResponse{FromNodeId: int32(self), ControllerId: int32(controller)}, nil
}

// has reports whether the node is a voter (or a learner).
func (q QuorumStatus) has(id model.NodeID, voter bool) bool {
	for _, m := range q.Members {
		if m.Node == id && m.Voter == voter {
			return true
		}
	}
	return false
}

// quorumView is the status as the decisions read it: what is absent is unknown.
func quorumView(q QuorumStatus) operation.QuorumView {
	view := operation.QuorumView{Controller: q.Controller, Pending: q.Pending, MinVoters: q.MinVoters}
	for _, m := range q.Members {
		out := operation.Member{Node: m.Node, Known: m.Alive != nil}
		if m.Alive != nil {
			out.Alive = *m.Alive
		}
		if m.Lag != nil {
			out.AppliedLag = *m.Lag
		} else if m.Node != q.Controller {
			out.Known = false
		}
		if m.Voter {
			view.Voters = append(view.Voters, out)
		} else {
			view.Learners = append(view.Learners, out)
		}
	}
	return view
}
