package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ister-mq/ister/broker/internal/model"
	"github.com/ister-mq/ister/broker/internal/refusal"
)

// initProducerID gives an idempotent producer a new id, at epoch 0. A producer
// that names its old id (KIP-360) gets a new one too, which starts its sequences
// anew. Transactions are refused with the error that every client takes as final.
func initProducerID(ctx context.Context, l *listener, req *kmsg.InitProducerIDRequest, resp *kmsg.InitProducerIDResponse) {
	resp.ProducerID, resp.ProducerEpoch = int64(model.NoProducer), -1
	if req.TransactionalID != nil {
		resp.ErrorCode = kerr.TransactionalIDAuthorizationFailed.Code
		return
	}
	id, err := l.backend.AllocateProducerID(ctx)
	if err != nil {
		resp.ErrorCode = producerIDCode(err)
		return
	}
	resp.ProducerID, resp.ProducerEpoch = int64(id), 0
}

// producerIDCode maps the refusal of an id. Not reaching the controller is
// COORDINATOR_LOAD_IN_PROGRESS, as in Kafka: the one retriable error that every
// client expects here.
func producerIDCode(err error) int16 {
	if r := refusal.As(err); r == nil || r.Kind == refusal.Unavailable || r.Kind == refusal.Redirect || r.Kind == refusal.Exhausted {
		return kerr.CoordinatorLoadInProgress.Code
	}
	return codeOf(err)
}
