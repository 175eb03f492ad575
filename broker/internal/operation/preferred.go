package operation

import (
	"github.com/ister-mq/ister/broker/internal/metadata"
	"github.com/ister-mq/ister/broker/internal/model"
)

// maxPreferred bounds the hand-overs of one PreferredLeaders.
const maxPreferred = 100

// PreferredLeaders lists the hand-overs that bring leadership back to the first
// replica of each partition, as Kafka's preferred leader election does: where
// that node is active, alive and in sync, and leads nothing yet of this
// partition, and its disk is known to have room. Partitions that are moving, and
// everything while an operation lives, are left alone. At most 100 at a time, in
// topic order.
func PreferredLeaders(im *metadata.Image, disks Disks) []metadata.Election {
	if len(im.LiveOperations()) > 0 {
		return nil
	}
	var out []metadata.Election
	for _, p := range im.SortedPartitions() {
		preferred := p.Replicas[0]
		if p.Leader == preferred || p.Leader == model.NoNode || len(p.Target) > 0 ||
			!im.CanPlace(preferred) || !model.HasNode(p.ISR, preferred) || disks[preferred] != DiskHasRoom {
			continue
		}
		out = append(out, metadata.Election{Partition: p.ID, Leader: preferred})
		if len(out) == maxPreferred {
			break
		}
	}
	return out
}
