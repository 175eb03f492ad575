package metadata

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/ister-mq/ister/broker/internal/model"
	"github.com/ister-mq/ister/broker/internal/refusal"
)

// Env is what Decide may know beside the image: the time, and fresh UUIDs.
// Whatever it takes from here is written in the records.
type Env struct {
	Now     time.Time
	NewUUID func() [16]byte
}

// Decision is the answer to a command: the facts to write, and the result for
// the caller. No records means that nothing has to be written.
type Decision struct {
	Records []Record
	Result  any
}

// Decide answers a command on an image: a decision, or a *refusal.Refusal. It
// is a function of its arguments alone.
func Decide(im *Image, cmd Command, env Env) (Decision, error) {
	if _, form := cmd.(*FormCluster); !form && im.Cluster == "" {
		return Decision{}, refusal.New(refusal.NodeNotReady, "", "the cluster is not formed yet", "wait until every seed is up")
	}
	switch c := cmd.(type) {
	case *FormCluster:
		return decideForm(im, c, env)
	case *AddNode:
		return decideAddNode(im, c)
	case *RegisterNode:
		return decideRegister(im, c)
	case *FenceNode:
		return decideFence(im, c)
	case *UnfenceNode:
		return decideUnfence(im, c)
	case *SetNodeState:
		return decideNodeState(im, c)
	case *RemoveNode:
		return decideRemoveNode(im, c, env)
	case *CreateNamespace:
		return decideCreateNamespace(im, c, env)
	case *DeleteNamespace:
		return decideDeleteNamespace(im, c)
	case *CreateTopic:
		return decideCreateTopic(im, c, env)
	case *DeleteTopic:
		return decideDeleteTopic(im, c, env)
	case *AlterISR:
		return decideAlterISR(im, c)
	case *ElectLeaders:
		return decideElect(im, c)
	case *AllocateProducers:
		return decideProducers(im, c)
	case *StartOperation:
		return decideStart(im, c, env)
	case *AdvanceMove:
		return decideAdvance(im, c, env)
	case *FinishOperation:
		return decideFinish(im, c, env)
	case *CancelOperation:
		return decideCancel(im, c, env)
	case *ReplicaRetired:
		return decideRetired(im, c)
	}
	panic(fmt.Sprintf("metadata: decide: command %T is not known", cmd))
}

func decideForm(im *Image, c *FormCluster, env Env) (Decision, error) {
	if im.Cluster == c.Cluster {
		return Decision{}, nil
	}
	if im.Cluster != "" {
		return Decision{}, refusal.New(refusal.WrongCluster, string(im.Cluster),
			fmt.Sprintf("this is cluster %s, it cannot be formed again as %s", im.Cluster, c.Cluster), "start with an empty data directory")
	}
	d := Decision{Records: []Record{&ClusterFormed{Cluster: c.Cluster}}}
	for _, n := range c.Nodes {
		d.Records = append(d.Records, &NodeChanged{Node: &Node{
			ID: n.ID, Incarnation: n.Incarnation, State: NodeActive, Fenced: true,
			Endpoints: n.Endpoints, Rack: n.Rack, Version: n.Version,
		}})
	}
	d.Records = append(d.Records, &NamespaceCreated{Namespace: &Namespace{Name: model.DefaultNamespace, CreatedAt: env.Now}})
	return d, nil
}

func decideCreateNamespace(im *Image, c *CreateNamespace, env Env) (Decision, error) {
	if err := model.CheckNamespace(c.Name); err != nil {
		return Decision{}, refusal.New(refusal.InvalidName, c.Name, err.Error(), "choose another name")
	}
	if im.Namespaces[c.Name] != nil {
		return Decision{}, refusal.New(refusal.NamespaceExists, c.Name, fmt.Sprintf("namespace %q exists", c.Name), "use it, or choose another name")
	}
	return Decision{Records: []Record{&NamespaceCreated{Namespace: &Namespace{Name: c.Name, CreatedAt: env.Now}}}}, nil
}

func decideDeleteNamespace(im *Image, c *DeleteNamespace) (Decision, error) {
	switch {
	case im.Namespaces[c.Name] == nil:
		return Decision{}, refusal.New(refusal.NamespaceNotFound, c.Name, fmt.Sprintf("namespace %q does not exist", c.Name), "see `namespaces list`")
	case c.Name == model.DefaultNamespace:
		return Decision{}, refusal.New(refusal.NamespaceProtected, c.Name, "the default namespace cannot be deleted", "delete its topics instead")
	}
	if err := im.CheckPlacement(c.PlacementRevision); err != nil {
		return Decision{}, err
	}
	topics := 0
	for _, t := range im.Topics {
		if t.Name.Namespace == c.Name {
			topics++
		}
	}
	if topics > 0 {
		return Decision{}, refusal.New(refusal.NamespaceNotEmpty, c.Name,
			fmt.Sprintf("namespace %q holds %d topics", c.Name, topics), "delete the topics first")
	}
	return Decision{Records: []Record{&NamespaceDeleted{Name: c.Name}}}, nil
}

// maxProducerBlock bounds one AllocateProducers.
const maxProducerBlock = 10_000

func decideProducers(im *Image, c *AllocateProducers) (Decision, error) {
	if c.Count < 1 || c.Count > maxProducerBlock {
		return Decision{}, refusal.New(refusal.InvalidArgument, "count",
			fmt.Sprintf("count is %d, expected 1 to %d", c.Count, maxProducerBlock), "")
	}
	return Decision{
		Records: []Record{&ProducersAllocated{Next: im.NextProducer + model.ProducerID(c.Count)}},
		Result:  &ProducersResult{First: im.NextProducer, Count: c.Count},
	}, nil
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
