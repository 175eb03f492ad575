package placement

import "github.com/ister-mq/ister/broker/internal/model"

// MeasureWorld is Measure with bytes where w.Bytes knows them.
func MeasureWorld(w World) Balance { return Balance{} }

// Rebalance spreads replicas, then leaders.
func Rebalance(w World, opts Options) (Plan, error) { return Plan{}, nil }

// Unload empties a node as far as other nodes have room. A plan whose node is
// unknown is refused with NODE_NOT_FOUND.
func Unload(w World, node model.NodeID) (Plan, error) { return Plan{}, nil }

// MoveTopic hands over a topic's leadership (replicas false) or relocates its
// replica data (replicas true) to node to; 0 is the best other node.
func MoveTopic(w World, topic model.TopicName, to model.NodeID, replicas bool) (Plan, error) {
	return Plan{}, nil
}

// Heal raises topics that hold fewer replicas than they desire.
func Heal(w World) (Plan, error) { return Plan{}, nil }
