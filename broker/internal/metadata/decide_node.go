package metadata

import (
	"fmt"
	"strings"

	"github.com/ister-mq/ister/broker/internal/model"
	"github.com/ister-mq/ister/broker/internal/refusal"
)

func removedRefusal(t *Tombstone) error {
	return refusal.New(refusal.NodeRemoved, t.ID.String(),
		fmt.Sprintf("node %d was removed from this cluster and its id is retired", t.ID),
		"start with an empty data directory and --join to come back as a new node")
}

func nodeNotFound(id model.NodeID) error {
	return refusal.New(refusal.NodeNotFound, id.String(), fmt.Sprintf("node %d is not a member", id), "see `cluster members`")
}

// endpointTaken finds another node that advertises one of the endpoints.
func endpointTaken(im *Image, self model.NodeID, e Endpoints) error {
	for _, n := range im.SortedNodes() {
		if n.ID == self {
			continue
		}
		for _, pair := range [][3]string{
			{"broker", e.Kafka, n.Endpoints.Kafka}, {"admin", e.Admin, n.Endpoints.Admin}, {"raft", e.Raft, n.Endpoints.Raft},
		} {
			if pair[1] == pair[2] {
				return refusal.New(refusal.EndpointInUse, pair[1],
					fmt.Sprintf("%s address %s is advertised by node %d already", pair[0], pair[1], n.ID),
					"give this node its own advertised addresses")
			}
		}
	}
	return nil
}

func tombstoned(im *Image, inc model.Incarnation) *Tombstone {
	for _, t := range im.Tombstones {
		if t.Incarnation == inc {
			return t
		}
	}
	return nil
}

func decideAddNode(im *Image, c *AddNode) (Decision, error) {
	n := c.Node
	if n.Incarnation == "" || n.Endpoints.Kafka == "" || n.Endpoints.Admin == "" || n.Endpoints.Raft == "" {
		return Decision{}, refusal.New(refusal.InvalidArgument, "node", "a node needs an incarnation and its three addresses", "")
	}
	if t := tombstoned(im, n.Incarnation); t != nil {
		return Decision{}, removedRefusal(t)
	}
	for _, known := range im.SortedNodes() {
		if known.Incarnation == n.Incarnation {
			return Decision{Result: &NodeResult{ID: known.ID, Epoch: known.Epoch}}, nil
		}
	}
	id := n.ID
	switch {
	case id == model.NoNode:
		id = im.NextNode
	case im.Tombstones[id] != nil:
		return Decision{}, removedRefusal(im.Tombstones[id])
	case im.Nodes[id] != nil:
		return Decision{}, refusal.New(refusal.NodeExists, id.String(),
			fmt.Sprintf("node id %d belongs to another node (incarnation %s)", id, im.Nodes[id].Incarnation),
			"leave --node-id out, or remove that node first")
	case id < 0:
		return Decision{}, refusal.New(refusal.InvalidArgument, id.String(), fmt.Sprintf("node id is %d, expected 1 or more", id), "")
	}
	if err := endpointTaken(im, id, n.Endpoints); err != nil {
		return Decision{}, err
	}
	return Decision{
		Records: []Record{&NodeChanged{Node: &Node{
			ID: id, Incarnation: n.Incarnation, State: NodeJoining, Fenced: true,
			Endpoints: n.Endpoints, Rack: n.Rack, Version: n.Version,
		}}},
		Result: &NodeResult{ID: id},
	}, nil
}

func decideRegister(im *Image, c *RegisterNode) (Decision, error) {
	if c.Cluster != im.Cluster {
		return Decision{}, refusal.New(refusal.WrongCluster, string(c.Cluster),
			fmt.Sprintf("the node belongs to cluster %s, this is %s", c.Cluster, im.Cluster), "check the seed addresses and the data directory")
	}
	if t := im.Tombstones[c.ID]; t != nil {
		return Decision{}, removedRefusal(t)
	}
	n := im.Nodes[c.ID]
	if n == nil {
		return Decision{}, nodeNotFound(c.ID)
	}
	if n.Incarnation != c.Incarnation {
		return Decision{}, refusal.New(refusal.WrongIncarnation, c.ID.String(),
			fmt.Sprintf("node %d has incarnation %s, got %s: its data directory is not the one it joined with", c.ID, n.Incarnation, c.Incarnation),
			"restore the directory, or remove the node and join as a new one")
	}
	if err := endpointTaken(im, c.ID, c.Endpoints); err != nil {
		return Decision{}, err
	}
	changed := *n
	changed.Epoch = model.NodeEpoch(im.Revision + 1)
	changed.Fenced = true
	changed.Endpoints, changed.Rack, changed.Version = c.Endpoints, c.Rack, c.Version
	d := Decision{Records: []Record{&NodeChanged{Node: &changed}}, Result: &NodeResult{ID: c.ID, Epoch: changed.Epoch}}
	after := im.withNode(&changed)
	for _, t := range im.SortedTopics() {
		// What was acked under flush.policy=sync is on this disk still, so the
		// node keeps its place; else an unclean stop may have lost the tail.
		leave := !c.Clean && !t.FlushSync()
		for _, p := range t.Partitions {
			if np := after.afterFence(p, c.ID, leave); np != nil {
				d.Records = append(d.Records, &PartitionChanged{Partition: np})
			}
		}
	}
	return d, nil
}

// withNode is the image with one node replaced, for choosing leaders; it is
// never published.
func (im *Image) withNode(n *Node) *Image {
	d := newDraft(im)
	own(&d.nodes, &d.image.Nodes)[n.ID] = n
	return d.image
}

func decideFence(im *Image, c *FenceNode) (Decision, error) {
	n := im.Nodes[c.ID]
	if n == nil {
		return Decision{}, nodeNotFound(c.ID)
	}
	if n.Fenced || n.Epoch != c.Epoch {
		return Decision{}, nil
	}
	changed := *n
	changed.Fenced = true
	d := Decision{Records: []Record{&NodeChanged{Node: &changed}}}
	after := im.withNode(&changed)
	for _, p := range im.SortedPartitions() {
		if np := after.afterFence(p, c.ID, true); np != nil {
			d.Records = append(d.Records, &PartitionChanged{Partition: np})
		}
	}
	return d, nil
}

func decideUnfence(im *Image, c *UnfenceNode) (Decision, error) {
	n := im.Nodes[c.ID]
	switch {
	case n == nil && im.Tombstones[c.ID] != nil:
		return Decision{}, removedRefusal(im.Tombstones[c.ID])
	case n == nil:
		return Decision{}, nodeNotFound(c.ID)
	case n.Epoch != c.Epoch:
		return Decision{}, refusal.New(refusal.StaleNodeEpoch, c.ID.String(),
			fmt.Sprintf("node %d is at epoch %d, got %d", c.ID, n.Epoch, c.Epoch), "register again")
	case !n.Fenced:
		return Decision{}, nil
	}
	changed := *n
	changed.Fenced = false
	d := Decision{Records: []Record{&NodeChanged{Node: &changed}}}
	after := im.withNode(&changed)
	for _, p := range im.SortedPartitions() {
		if p.Leader == model.NoNode && model.HasNode(p.ISR, c.ID) {
			d.Records = append(d.Records, &PartitionChanged{Partition: after.elected(p, after.ChooseLeader(p))})
		}
	}
	return d, nil
}

func decideNodeState(im *Image, c *SetNodeState) (Decision, error) {
	n := im.Nodes[c.ID]
	if n == nil {
		if t := im.Tombstones[c.ID]; t != nil {
			return Decision{}, removedRefusal(t)
		}
		return Decision{}, nodeNotFound(c.ID)
	}
	if n.State == c.State {
		return Decision{}, nil
	}
	conflict := func(message, advice string) (Decision, error) {
		return Decision{}, refusal.New(refusal.NodeStateConflict, c.ID.String(), message, advice)
	}
	if n.State == NodeLeaving && c.State != NodeLeaving {
		return conflict(fmt.Sprintf("node %d is leaving", c.ID), "let the removal finish; then join as a new node")
	}
	switch c.State {
	case NodeActive:
		if n.Epoch == 0 {
			return conflict(fmt.Sprintf("node %d has not registered yet", c.ID), "start it and wait until `cluster members` shows it alive")
		}
		if o := im.liveUnload(c.ID); o != nil {
			return Decision{}, refusal.New(refusal.OperationConflict, c.ID.String(),
				fmt.Sprintf("node %d is being unloaded by %s", c.ID, o.ID), fmt.Sprintf("cancel it first: `cluster operations cancel %s`", o.ID))
		}
	case NodeCordoned:
		if n.State != NodeActive {
			return conflict(fmt.Sprintf("node %d is %s; only an active node can be cordoned", c.ID, n.State), "")
		}
	case NodeLeaving:
		if blockers := removalBlockers(im, n); len(blockers) > 0 {
			return Decision{}, blockers[0]
		}
	default:
		return Decision{}, refusal.New(refusal.InvalidArgument, string(c.State),
			fmt.Sprintf("state %q cannot be set by hand, expected active, cordoned or leaving", c.State), "use `brokers unload` to drain")
	}
	changed := *n
	changed.State, changed.Reason = c.State, c.Reason
	return Decision{Records: []Record{&NodeChanged{Node: &changed}}}, nil
}

func (im *Image) liveUnload(id model.NodeID) *Operation {
	for _, o := range im.LiveOperations() {
		if o.Kind == OpUnload && o.Node == id {
			return o
		}
	}
	return nil
}

// removalBlockers lists why the metadata forbids removing a node.
func removalBlockers(im *Image, n *Node) []*refusal.Refusal {
	var out []*refusal.Refusal
	load := im.NodeLoad(n.ID)
	drain := fmt.Sprintf("run `brokers unload --broker-id %d --wait` first", n.ID)
	if load.Leaders > 0 {
		out = append(out, refusal.New(refusal.NodeHoldsLeaders, n.ID.String(), fmt.Sprintf("node %d leads %d partitions", n.ID, load.Leaders), drain))
	}
	if load.Replicas > 0 {
		out = append(out, refusal.New(refusal.NodeHoldsReplicas, n.ID.String(), fmt.Sprintf("node %d holds %d replicas", n.ID, load.Replicas), drain))
	}
	for _, o := range im.LiveOperations() {
		for _, m := range o.Moves {
			if !m.State.Done() && (model.HasNode(m.To, n.ID) || model.HasNode(m.From, n.ID)) {
				out = append(out, refusal.New(refusal.NodeHasMoves, n.ID.String(),
					fmt.Sprintf("node %d takes part in moves of %s", n.ID, o.ID), "wait for it, or cancel it"))
				break
			}
		}
	}
	// A copy that a live node has still to give up is not kept by its removal:
	// only a node that can answer is waited for.
	if load.Retiring > 0 && !n.Fenced {
		out = append(out, refusal.New(refusal.NodeHoldsReplicas, n.ID.String(),
			fmt.Sprintf("node %d is still giving up %d copies", n.ID, load.Retiring), "wait a moment and repeat"))
	}
	return out
}

func decideRemoveNode(im *Image, c *RemoveNode, env Env) (Decision, error) {
	n := im.Nodes[c.ID]
	if n == nil {
		if im.Tombstones[c.ID] != nil {
			return Decision{}, nil
		}
		return Decision{}, nodeNotFound(c.ID)
	}
	if err := im.CheckPlacement(c.PlacementRevision); err != nil {
		return Decision{}, err
	}
	if len(im.Nodes) == 1 {
		return Decision{}, refusal.New(refusal.LastVoter, c.ID.String(), "the last node cannot be removed", "stop it instead")
	}
	if blockers := removalBlockers(im, n); len(blockers) > 0 {
		return Decision{}, joinRefusals(blockers)
	}
	d := Decision{Records: []Record{&NodeRemoved{Tombstone: &Tombstone{
		ID: n.ID, Incarnation: n.Incarnation, RemovedAt: env.Now, Reason: c.Reason,
	}}}}
	for _, p := range im.SortedPartitions() {
		if model.HasNode(p.Retiring, c.ID) {
			np := p.clone()
			np.Retiring = model.WithoutNode(p.Retiring, c.ID)
			d.Records = append(d.Records, &PartitionChanged{Partition: np})
		}
	}
	return d, nil
}

// joinRefusals names every blocker in one refusal with the first one's reason.
func joinRefusals(all []*refusal.Refusal) *refusal.Refusal {
	first := *all[0]
	messages := make([]string, len(all))
	for i, r := range all {
		messages[i] = r.Message
	}
	first.Message = strings.Join(messages, "; ")
	return &first
}

// CheckPlacement refuses a fence that is not at the present placement, with
// STALE_REVISION. 0 is no fence.
func (im *Image) CheckPlacement(fence model.Revision) error {
	if fence == 0 || fence == im.PlacementRevision {
		return nil
	}
	return staleRevision(im, fence)
}

func staleRevision(im *Image, got model.Revision) error {
	return refusal.New(refusal.StaleRevision, "placement",
		fmt.Sprintf("the placement changed since revision %d (now %d)", got, im.PlacementRevision), "read again and plan again")
}
