package placement

import (
	"fmt"

	"github.com/ister-mq/ister/broker/internal/metadata"
	"github.com/ister-mq/ister/broker/internal/model"
	"github.com/ister-mq/ister/broker/internal/refusal"
)

// Heal plans more replicas for topics that hold fewer than they desire, as after
// a cluster of one has grown. What still lacks a home is a warning.
func Heal(w World) (Plan, error) {
	s := newState(w)
	s.eachTopic(func(t *metadata.Topic, parts []*part) {
		short, offline := 0, 0
		for _, p := range parts {
			switch {
			case p.locked || len(p.replicas) >= t.DesiredReplicas:
			case p.sourceless():
				offline++
			default:
				s.grow(p, t.DesiredReplicas)
				if len(p.replicas) < t.DesiredReplicas {
					short++
				}
			}
		}
		if offline > 0 {
			s.find(refusal.NotInSync, SeverityWarning, "topic "+t.Name.String(),
				fmt.Sprintf("%s offline and cannot be copied", count(offline, "partition is", "partitions are")),
				"bring back a node that was in sync")
		}
		if short > 0 {
			s.find(refusal.NoPlacement, SeverityWarning, "topic "+t.Name.String(),
				fmt.Sprintf("%s fewer than the desired %s: %s", count(short, "partition has", "partitions have"),
					count(t.DesiredReplicas, "replica", "replicas"), s.homesLeft(model.NoNode)),
				"add or activate a node")
		}
	})
	return s.plan(metadata.OpHeal, "", model.NoNode, byLoad, 0), nil
}

func (s *state) grow(p *part, desired int) {
	for len(p.replicas) < desired {
		home := s.home(p, model.NoNode)
		if home == nil {
			return
		}
		s.place(p, model.NoNode, home.ID)
	}
}
