package peer

import (
	"github.com/ister-mq/ister/broker/internal/model"
)

// Identity says who a node is. The zero Cluster and Node belong to a node that
// is in no cluster yet; Epoch is 0 until it has registered in this process.
type Identity struct {
	Cluster     model.ClusterID   `json:"cluster,omitempty"`
	Node        model.NodeID      `json:"node,omitempty"`
	Incarnation model.Incarnation `json:"incarnation"`
	Epoch       model.NodeEpoch   `json:"epoch,omitempty"`
}

// Target is whom a connection is for. Node 0 and Incarnation "" mean whoever
// answers at Address.
type Target struct {
	Address     string // host:port of its --raft-addr listener
	Node        model.NodeID
	Incarnation model.Incarnation
}
