package refusal

// The reasons, by what they are about. Add a reason here and to every edge's
// mapping in the same change; a test walks the table through all of them.
const (
	InvalidArgument  Reason = "INVALID_ARGUMENT"
	InvalidName      Reason = "INVALID_NAME"
	InvalidConfig    Reason = "INVALID_CONFIG"
	InvalidReplicas  Reason = "INVALID_REPLICATION_FACTOR"
	InvalidPartition Reason = "INVALID_PARTITIONS"
	NameCollision    Reason = "NAME_COLLISION"

	TopicNotFound     Reason = "TOPIC_NOT_FOUND"
	PartitionNotFound Reason = "PARTITION_NOT_FOUND"
	NamespaceNotFound Reason = "NAMESPACE_NOT_FOUND"
	NodeNotFound      Reason = "NODE_NOT_FOUND"
	OperationNotFound Reason = "OPERATION_NOT_FOUND"

	TopicExists       Reason = "TOPIC_EXISTS"
	NamespaceExists   Reason = "NAMESPACE_EXISTS"
	NodeExists        Reason = "NODE_EXISTS"
	OperationConflict Reason = "OPERATION_CONFLICT"

	NamespaceNotEmpty   Reason = "NAMESPACE_NOT_EMPTY"
	NamespaceProtected  Reason = "NAMESPACE_PROTECTED"
	NodeRemoved         Reason = "NODE_REMOVED"
	NodeHoldsReplicas   Reason = "NODE_HOLDS_REPLICAS"
	NodeHoldsLeaders    Reason = "NODE_HOLDS_LEADERS"
	NodeHasMoves        Reason = "NODE_HAS_MOVES"
	NodeNotDrained      Reason = "NODE_NOT_DRAINED"
	NodeNotCaughtUp     Reason = "NODE_NOT_CAUGHT_UP"
	NodeUnreachable     Reason = "NODE_UNREACHABLE"
	NodeNotVoter        Reason = "NODE_NOT_VOTER"
	NodeStateConflict   Reason = "NODE_STATE_CONFLICT"
	NodeInOtherCluster  Reason = "NODE_IN_OTHER_CLUSTER"
	EndpointInUse       Reason = "ENDPOINT_IN_USE"
	WrongCluster        Reason = "WRONG_CLUSTER"
	WrongIncarnation    Reason = "WRONG_INCARNATION"
	QuorumAtRisk        Reason = "QUORUM_AT_RISK"
	MembershipPending   Reason = "MEMBERSHIP_CHANGE_PENDING"
	LastVoter           Reason = "LAST_VOTER"
	NoPlacement         Reason = "NO_PLACEMENT"
	NotEnoughReplicas   Reason = "NOT_ENOUGH_REPLICAS"
	MinISRAtRisk        Reason = "MIN_ISR_AT_RISK"
	UnknownHealth       Reason = "UNKNOWN_HEALTH"
	NotInSync           Reason = "NOT_IN_SYNC"
	UncleanRefused      Reason = "UNCLEAN_ELECTION_REFUSED"
	OperationFinished   Reason = "OPERATION_FINISHED"
	OperationPastCancel Reason = "OPERATION_PAST_CANCEL"

	StaleRevision       Reason = "STALE_REVISION"
	StaleNodeEpoch      Reason = "STALE_NODE_EPOCH"
	FencedLeaderEpoch   Reason = "FENCED_LEADER_EPOCH"
	UnknownLeaderEpoch  Reason = "UNKNOWN_LEADER_EPOCH"
	StalePartitionEpoch Reason = "STALE_PARTITION_EPOCH"
	IneligibleReplica   Reason = "INELIGIBLE_REPLICA"

	NotController Reason = "NOT_CONTROLLER"
	NotLeader     Reason = "NOT_LEADER"

	Overloaded Reason = "OVERLOADED"
	DiskFull   Reason = "DISK_FULL"

	NoController   Reason = "NO_CONTROLLER"
	NodeNotReady   Reason = "NODE_NOT_READY"
	LeaseExpired   Reason = "LEASE_EXPIRED"
	OutcomeUnknown Reason = "OUTCOME_UNKNOWN"

	OffsetOutOfRange      Reason = "OFFSET_OUT_OF_RANGE"
	OffsetNotAvailable    Reason = "OFFSET_NOT_AVAILABLE"
	CorruptBatch          Reason = "CORRUPT_BATCH"
	BatchTooLarge         Reason = "BATCH_TOO_LARGE"
	UnsupportedFormat     Reason = "UNSUPPORTED_FORMAT"
	OutOfOrderSequence    Reason = "OUT_OF_ORDER_SEQUENCE"
	InvalidProducerEpoch  Reason = "INVALID_PRODUCER_EPOCH"
	UnknownProducer       Reason = "UNKNOWN_PRODUCER"
	ReplicaQuarantined    Reason = "REPLICA_QUARANTINED"
	LogStartMoved         Reason = "LOG_START_MOVED"
	InternalInconsistency Reason = "INTERNAL"
)

var kinds = map[Reason]Kind{
	InvalidArgument: Invalid, InvalidName: Invalid, InvalidConfig: Invalid, InvalidReplicas: Invalid,
	InvalidPartition: Invalid, NameCollision: Invalid, CorruptBatch: Invalid, BatchTooLarge: Invalid,
	UnsupportedFormat: Invalid, OffsetOutOfRange: Invalid,

	TopicNotFound: NotFound, PartitionNotFound: NotFound, NamespaceNotFound: NotFound,
	NodeNotFound: NotFound, OperationNotFound: NotFound, UnknownProducer: NotFound,

	TopicExists: Exists, NamespaceExists: Exists, NodeExists: Exists,

	OperationConflict: Precondition, NamespaceNotEmpty: Precondition, NamespaceProtected: Precondition,
	NodeRemoved: Precondition, NodeHoldsReplicas: Precondition, NodeHoldsLeaders: Precondition,
	NodeHasMoves: Precondition, NodeNotDrained: Precondition, NodeNotCaughtUp: Precondition,
	NodeUnreachable: Precondition, NodeNotVoter: Precondition, NodeStateConflict: Precondition,
	NodeInOtherCluster: Precondition, EndpointInUse: Precondition, WrongCluster: Precondition,
	WrongIncarnation: Precondition, QuorumAtRisk: Precondition, MembershipPending: Precondition,
	LastVoter: Precondition, NoPlacement: Precondition, NotEnoughReplicas: Precondition,
	MinISRAtRisk: Precondition, UnknownHealth: Precondition, NotInSync: Precondition,
	UncleanRefused: Precondition, OperationFinished: Precondition, OperationPastCancel: Precondition,
	ReplicaQuarantined: Precondition,

	StaleRevision: Stale, StaleNodeEpoch: Stale, FencedLeaderEpoch: Stale, UnknownLeaderEpoch: Stale,
	StalePartitionEpoch: Stale, IneligibleReplica: Stale, OutOfOrderSequence: Stale,
	InvalidProducerEpoch: Stale, LogStartMoved: Stale,

	NotController: Redirect, NotLeader: Redirect,

	Overloaded: Exhausted, DiskFull: Exhausted,

	NoController: Unavailable, NodeNotReady: Unavailable, LeaseExpired: Unavailable,
	OutcomeUnknown: Unavailable, OffsetNotAvailable: Unavailable,

	InternalInconsistency: Internal,
}
