package dataplane

import (
	"context"
	"sync"

	"github.com/ister-mq/ister/broker/internal/kafka"
	"github.com/ister-mq/ister/broker/internal/metadata"
	"github.com/ister-mq/ister/broker/internal/model"
	"github.com/ister-mq/ister/broker/internal/peer"
	"github.com/ister-mq/ister/broker/internal/refusal"
)

var (
	_ kafka.Backend     = (*Plane)(nil)
	_ peer.FetchHandler = (*Plane)(nil)
)

// View implements kafka.Backend. It is the control plane's newest image, which
// can be a moment ahead of what the replicas here have carried out.
func (p *Plane) View() kafka.View {
	self, _ := p.control.Self()
	controller, _ := p.control.Controller()
	return kafka.View{Image: p.control.Image(), Self: self, Controller: controller}
}

// Propose implements kafka.Backend.
func (p *Plane) Propose(ctx context.Context, cmd metadata.Command) (any, error) {
	return p.control.Propose(ctx, cmd)
}

// producerIDs is the rest of the block that the controller reserved.
type producerIDs struct {
	mu         sync.Mutex
	next, last model.ProducerID // [next, last)
}

// AllocateProducerID implements kafka.Backend. Ids come in blocks, one command
// for many; what is left of a block at a stop is never used.
func (p *Plane) AllocateProducerID(ctx context.Context) (model.ProducerID, error) {
	ids := &p.producers
	ids.mu.Lock()
	defer ids.mu.Unlock()
	if ids.next == ids.last {
		self, _ := p.control.Self()
		answer, err := p.control.Propose(ctx, &metadata.AllocateProducers{Node: self, Count: producerBlock})
		if err != nil {
			return model.NoProducer, err
		}
		block, ok := answer.(*metadata.ProducersResult)
		if !ok || block.Count < 1 {
			return model.NoProducer, refusal.New(refusal.InternalInconsistency, "", "the controller answered no block of producer ids", "")
		}
		ids.next, ids.last = block.First, block.First+model.ProducerID(block.Count)
	}
	id := ids.next
	ids.next++
	return id, nil
}
