package kafka

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/ister-mq/ister/broker/internal/refusal"
)

// codes maps every refusal to the Kafka error that makes clients do the right
// thing. It is the only such table; a test walks refusal.Reasons through it.
var codes = map[refusal.Reason]*kerr.Error{
	refusal.InvalidArgument:  kerr.InvalidRequest,
	refusal.InvalidName:      kerr.InvalidTopicException,
	refusal.InvalidConfig:    kerr.InvalidConfig,
	refusal.InvalidReplicas:  kerr.InvalidReplicationFactor,
	refusal.InvalidPartition: kerr.InvalidPartitions,
	refusal.NameCollision:    kerr.InvalidTopicException,

	refusal.TopicNotFound:     kerr.UnknownTopicOrPartition,
	refusal.PartitionNotFound: kerr.UnknownTopicOrPartition,
	refusal.NamespaceNotFound: kerr.InvalidTopicException,
	refusal.NodeNotFound:      kerr.BrokerIDNotRegistered,
	refusal.OperationNotFound: kerr.NoReassignmentInProgress,

	refusal.TopicExists:       kerr.TopicAlreadyExists,
	refusal.NamespaceExists:   kerr.InvalidRequest,
	refusal.NodeExists:        kerr.DuplicateBrokerRegistration,
	refusal.OperationConflict: kerr.ReassignmentInProgress,

	refusal.NamespaceNotEmpty:   kerr.PolicyViolation,
	refusal.NamespaceProtected:  kerr.PolicyViolation,
	refusal.NodeRemoved:         kerr.BrokerIDNotRegistered,
	refusal.NodeHoldsReplicas:   kerr.PolicyViolation,
	refusal.NodeHoldsLeaders:    kerr.PolicyViolation,
	refusal.NodeHasMoves:        kerr.PolicyViolation,
	refusal.NodeNotDrained:      kerr.PolicyViolation,
	refusal.NodeNotCaughtUp:     kerr.PolicyViolation,
	refusal.NodeUnreachable:     kerr.PolicyViolation,
	refusal.NodeNotVoter:        kerr.PolicyViolation,
	refusal.NodeStateConflict:   kerr.PolicyViolation,
	refusal.NodeInOtherCluster:  kerr.InconsistentClusterID,
	refusal.EndpointInUse:       kerr.DuplicateBrokerRegistration,
	refusal.WrongCluster:        kerr.InconsistentClusterID,
	refusal.WrongIncarnation:    kerr.DuplicateBrokerRegistration,
	refusal.QuorumAtRisk:        kerr.PolicyViolation,
	refusal.MembershipPending:   kerr.PolicyViolation,
	refusal.LastVoter:           kerr.PolicyViolation,
	refusal.NoPlacement:         kerr.InvalidReplicationFactor,
	refusal.NotEnoughReplicas:   kerr.NotEnoughReplicas,
	refusal.MinISRAtRisk:        kerr.PolicyViolation,
	refusal.UnknownHealth:       kerr.PolicyViolation,
	refusal.NotInSync:           kerr.PreferredLeaderNotAvailable,
	refusal.UncleanRefused:      kerr.EligibleLeadersNotAvailable,
	refusal.OperationFinished:   kerr.NoReassignmentInProgress,
	refusal.OperationPastCancel: kerr.PolicyViolation,

	refusal.StaleRevision:       kerr.PolicyViolation,
	refusal.StaleNodeEpoch:      kerr.StaleBrokerEpoch,
	refusal.FencedLeaderEpoch:   kerr.FencedLeaderEpoch,
	refusal.UnknownLeaderEpoch:  kerr.UnknownLeaderEpoch,
	refusal.StalePartitionEpoch: kerr.InvalidUpdateVersion,
	refusal.IneligibleReplica:   kerr.IneligibleReplica,

	refusal.NotController: kerr.NotController,
	refusal.NotLeader:     kerr.NotLeaderForPartition,

	refusal.Overloaded: kerr.ThrottlingQuotaExceeded,
	// A full disk is retriable as storage error: the client looks for a new
	// leader and backs off meanwhile.
	refusal.DiskFull: kerr.KafkaStorageError,

	// All three are retriable, and none makes an idempotent producer give up.
	// NOT_CONTROLLER makes an admin client ask again; every node forwards.
	refusal.NoController: kerr.NotController,
	refusal.NodeNotReady: kerr.NotLeaderForPartition,
	refusal.LeaseExpired: kerr.NotLeaderForPartition,
	// The request may or may not have taken effect; idempotent producers retry it
	// safely.
	refusal.OutcomeUnknown: kerr.RequestTimedOut,

	refusal.OffsetOutOfRange:     kerr.OffsetOutOfRange,
	refusal.OffsetNotAvailable:   kerr.OffsetNotAvailable,
	refusal.CorruptBatch:         kerr.CorruptMessage,
	refusal.BatchTooLarge:        kerr.MessageTooLarge,
	refusal.UnsupportedFormat:    kerr.UnsupportedForMessageFormat,
	refusal.OutOfOrderSequence:   kerr.OutOfOrderSequenceNumber,
	refusal.InvalidProducerEpoch: kerr.InvalidProducerEpoch,
	refusal.UnknownProducer:      kerr.UnknownProducerID,
	refusal.ReplicaQuarantined:   kerr.KafkaStorageError,
	refusal.LogStartMoved:        kerr.OffsetOutOfRange,

	refusal.InternalInconsistency: kerr.UnknownServerError,
}

// codeOf is the Kafka error code of an outcome; 0 is success. A fault is
// UNKNOWN_SERVER_ERROR, except a passed deadline, which says that nobody knows.
func codeOf(err error) int16 {
	if err == nil {
		return 0
	}
	if r := refusal.As(err); r != nil {
		if e, ok := codes[r.Reason]; ok {
			return e.Code
		}
		return kerr.UnknownServerError.Code
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return kerr.RequestTimedOut.Code
	}
	return kerr.UnknownServerError.Code
}

// dataCodeOf is codeOf for reads and writes of one partition. A fault or an
// overload becomes KAFKA_STORAGE_ERROR: every client takes that as "this replica
// cannot serve now: look the leader up again and retry", where
// UNKNOWN_SERVER_ERROR and THROTTLING_QUOTA_EXCEEDED make some give up.
func dataCodeOf(err error) int16 {
	code := codeOf(err)
	if code == kerr.UnknownServerError.Code || code == kerr.ThrottlingQuotaExceeded.Code {
		return kerr.KafkaStorageError.Code
	}
	return code
}

// messageOf is the error text for people; nil for success. Faults keep their
// text to the logs of the node, since they may name its paths.
func messageOf(err error) *string {
	if err == nil {
		return nil
	}
	text := "the node failed to carry out the request; its log says why"
	if r := refusal.As(err); r != nil {
		text = r.Error()
	}
	return &text
}
