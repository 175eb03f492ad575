package metadata

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ister-mq/ister/broker/internal/model"
	"github.com/ister-mq/ister/broker/internal/refusal"
)

// The bounds of one CreateTopic, and the replication factor of reliable topics.
const (
	maxPartitions    = 10_000
	maxReplicas      = 32
	reliableReplicas = 3
)

func decideCreateTopic(im *Image, c *CreateTopic, env Env) (Decision, error) {
	if err := judgeTopicName(im, c.Name); err != nil {
		return Decision{}, err
	}
	dispatch := c.Dispatch
	if dispatch == "" {
		dispatch = Reliable
	}
	if dispatch != Reliable && dispatch != NonReliable {
		return Decision{}, refusal.New(refusal.InvalidArgument, "dispatch strategy",
			fmt.Sprintf("dispatch strategy is %q, expected reliable or non_reliable", dispatch), "")
	}
	if err := CheckConfig(c.Config); err != nil {
		return Decision{}, err
	}
	t := &Topic{
		ID: env.NewUUID(), Name: c.Name, Dispatch: dispatch, Config: c.Config, CreatedAt: env.Now,
	}
	assignment, err := assignTopic(im, c, t)
	if err != nil {
		return Decision{}, err
	}
	if _, explicit := c.Config[KeyMinISR]; explicit && t.MinISR() > t.DesiredReplicas {
		return Decision{}, refusal.New(refusal.InvalidConfig, KeyMinISR,
			fmt.Sprintf("min.insync.replicas is %d with %d replicas: nothing could ever be committed", t.MinISR(), t.DesiredReplicas),
			"lower it, or raise the replication factor")
	}
	for i, replicas := range assignment {
		p := &Partition{
			ID:       model.Partition{Topic: t.ID, Index: int32(i)},
			Replicas: replicas, ISR: liveMembers(im, replicas),
		}
		p.Leader = im.ChooseLeader(p)
		t.Partitions = append(t.Partitions, p)
	}
	d := Decision{Result: &TopicResult{Topic: t}}
	if !c.ValidateOnly {
		d.Records = []Record{&TopicCreated{Topic: t}}
	}
	return d, nil
}

func liveMembers(im *Image, replicas []model.NodeID) []model.NodeID {
	isr := slices.DeleteFunc(slices.Clone(replicas), func(id model.NodeID) bool { return !im.Unfenced(id) })
	return model.SortNodes(isr)
}

func judgeTopicName(im *Image, name model.TopicName) error {
	if err := name.Check(); err != nil {
		return refusal.New(refusal.InvalidName, name.String(), err.Error(), "choose another name")
	}
	if im.Namespaces[name.Namespace] == nil {
		return refusal.New(refusal.NamespaceNotFound, name.Namespace,
			fmt.Sprintf("namespace %q does not exist", name.Namespace), fmt.Sprintf("`namespaces create %s` first", name.Namespace))
	}
	if im.Topic(name) != nil {
		return refusal.New(refusal.TopicExists, name.String(), fmt.Sprintf("topic %s exists", name), "use it, or choose another name")
	}
	// Two names that Kafka clients or their metrics would take for one another.
	alike := strings.ReplaceAll(name.Kafka(), ".", "_")
	for _, t := range im.SortedTopics() {
		if strings.ReplaceAll(t.Name.Kafka(), ".", "_") == alike {
			return refusal.New(refusal.NameCollision, name.String(),
				fmt.Sprintf("topic %s would look like %s to Kafka clients ('.' and '_' count as the same)", name, t.Name), "choose another name")
		}
	}
	return nil
}

// assignTopic gives the replica list of every partition, and sets the topic's
// desired replicas.
func assignTopic(im *Image, c *CreateTopic, t *Topic) ([][]model.NodeID, error) {
	if len(c.Assignment) > 0 {
		return assignAsGiven(im, c, t)
	}
	partitions := c.Partitions
	if partitions == 0 {
		partitions = 1
	}
	if partitions < 1 || partitions > maxPartitions {
		return nil, refusal.New(refusal.InvalidPartition, c.Name.String(),
			fmt.Sprintf("%d partitions, expected 1 to %d", partitions, maxPartitions), "")
	}
	var eligible []*Node
	for _, n := range im.ActiveNodes() {
		if !n.Fenced {
			eligible = append(eligible, n)
		}
	}
	replicas := c.Replicas
	switch {
	case replicas < 0 || replicas > maxReplicas:
		return nil, refusal.New(refusal.InvalidReplicas, c.Name.String(),
			fmt.Sprintf("replication factor is %d, expected 1 to %d", replicas, maxReplicas), "")
	case len(eligible) == 0:
		return nil, refusal.New(refusal.NoPlacement, c.Name.String(), "no active node is alive", "see `cluster members`")
	case replicas > len(eligible):
		return nil, refusal.New(refusal.InvalidReplicas, c.Name.String(),
			fmt.Sprintf("replication factor is %d, but only %d nodes are active and alive", replicas, len(eligible)),
			"lower it, or add nodes")
	}
	t.DesiredReplicas = replicas
	if replicas == 0 {
		t.DesiredReplicas = 1
		if t.Dispatch == Reliable {
			t.DesiredReplicas = reliableReplicas
		}
		replicas = min(t.DesiredReplicas, len(eligible))
	}
	return spread(im, eligible, partitions, replicas), nil
}

func assignAsGiven(im *Image, c *CreateTopic, t *Topic) ([][]model.NodeID, error) {
	if len(c.Assignment) > maxPartitions {
		return nil, refusal.New(refusal.InvalidPartition, c.Name.String(), fmt.Sprintf("%d partitions, at most %d", len(c.Assignment), maxPartitions), "")
	}
	t.DesiredReplicas = len(c.Assignment[0])
	for i, replicas := range c.Assignment {
		seen := map[model.NodeID]bool{}
		for _, id := range replicas {
			if seen[id] || !im.CanPlace(id) {
				return nil, refusal.New(refusal.InvalidReplicas, c.Name.String(),
					fmt.Sprintf("partition %d: node %d is named twice, or is not active and alive", i, id), "see `cluster members`")
			}
			seen[id] = true
		}
		if len(replicas) == 0 || len(replicas) != t.DesiredReplicas {
			return nil, refusal.New(refusal.InvalidReplicas, c.Name.String(),
				fmt.Sprintf("partition %d has %d replicas, partition 0 has %d", i, len(replicas), t.DesiredReplicas), "give each the same number, at least 1")
		}
	}
	return c.Assignment, nil
}

// spread places new partitions: the leader where there are fewest leaders, the
// rest where there are fewest replicas, racks apart as long as they last.
func spread(im *Image, eligible []*Node, partitions, replicas int) [][]model.NodeID {
	load := map[model.NodeID]Load{}
	for _, n := range eligible {
		load[n.ID] = im.NodeLoad(n.ID)
	}
	out := make([][]model.NodeID, partitions)
	for i := range out {
		chosen := make([]model.NodeID, 0, replicas)
		racks := map[string]bool{}
		for len(chosen) < replicas {
			best := pick(eligible, load, chosen, racks, len(chosen) == 0)
			l := load[best.ID]
			l.Replicas++
			if len(chosen) == 0 {
				l.Leaders++
			}
			load[best.ID] = l
			racks[best.Rack] = best.Rack != ""
			chosen = append(chosen, best.ID)
		}
		out[i] = chosen
	}
	return out
}

func pick(eligible []*Node, load map[model.NodeID]Load, chosen []model.NodeID, racks map[string]bool, leader bool) *Node {
	var best *Node
	better := func(a, b *Node) bool {
		if racks[a.Rack] != racks[b.Rack] {
			return !racks[a.Rack]
		}
		la, lb := load[a.ID], load[b.ID]
		if leader && la.Leaders != lb.Leaders {
			return la.Leaders < lb.Leaders
		}
		if la.Replicas != lb.Replicas {
			return la.Replicas < lb.Replicas
		}
		return a.ID < b.ID
	}
	for _, n := range eligible {
		if !model.HasNode(chosen, n.ID) && (best == nil || better(n, best)) {
			best = n
		}
	}
	return best
}

func decideDeleteTopic(im *Image, c *DeleteTopic, env Env) (Decision, error) {
	t := im.Topics[c.ID]
	if c.ID.IsZero() {
		t = im.Topic(c.Name)
	}
	if t == nil {
		return Decision{}, refusal.New(refusal.TopicNotFound, c.Name.String(), "the topic does not exist", "see `topics list`")
	}
	if err := im.CheckPlacement(c.PlacementRevision); err != nil {
		return Decision{}, err
	}
	d := Decision{Records: []Record{&TopicDeleted{ID: t.ID}}}
	for _, o := range im.LiveOperations() {
		for _, m := range o.Moves {
			if m.Partition.Topic == t.ID && !m.State.Done() {
				d.Records = append(d.Records, &MoveChanged{Operation: o.ID, Partition: m.Partition,
					State: MoveCancelled, Reason: string(refusal.TopicNotFound), UpdatedAt: env.Now})
			}
		}
	}
	return d, nil
}
