package operation

import (
	"github.com/ister-mq/ister/broker/internal/metadata"
	"github.com/ister-mq/ister/broker/internal/model"
	"github.com/ister-mq/ister/broker/internal/placement"
)

// Step returns the next commands for all live operations, in order; none when
// nothing can change.
func Step(im *metadata.Image, obs Observations) []metadata.Command { return nil }

// CertificateOf counts what node still has in im.
func CertificateOf(im *metadata.Image, node model.NodeID) Certificate { return Certificate{} }

// SafeToRemove judges whether node can leave now, and names every blocker.
func SafeToRemove(im *metadata.Image, node model.NodeID, q QuorumView) (bool, []Blocker) {
	return false, nil
}

// SafeToPromote judges whether a learner can become a voter now.
func SafeToPromote(im *metadata.Image, node model.NodeID, q QuorumView) (bool, []Blocker) {
	return false, nil
}

// Preflight judges a request with the code of the run itself. The plan is the
// one that would run; it is empty for membership requests.
func Preflight(w placement.World, q QuorumView, req Request) (placement.Plan, []Finding) {
	return placement.Plan{}, nil
}
