package replica

import (
	"github.com/ister-mq/ister/broker/internal/model"
)

// Log is the partition log as a replica uses it: *segment.Log.
type Log interface {
	AppendLeader(batches []byte, epoch model.LeaderEpoch) (first, last model.Offset, err error)
	AppendFollower(batches []byte) (last model.Offset, err error)
	Read(from model.Offset, maxBytes int, upTo model.Offset, atLeastOne bool) ([]byte, error)
	LogStart() model.Offset
	LogEnd() model.Offset
	Durable() model.Offset
	TruncateTo(off model.Offset) error
	ResetTo(off model.Offset) error
	DeleteTo(off model.Offset) error
	AssignEpoch(epoch model.LeaderEpoch, start model.Offset) error
	LastEpoch() model.LeaderEpoch
	EndOffsetFor(epoch model.LeaderEpoch) (found model.LeaderEpoch, end model.Offset)
}
