// Package adminapi serves the admin API of one node: ister.admin.v1 by Connect,
// gRPC, gRPC-Web and HTTP+JSON on one port, and beside it GET /healthz, /readyz,
// /metrics and /ister/node.
//
// Invariants:
//
//   - Any node answers. What needs the controller is sent on to it, once: a
//     request that was sent on and meets a node that is not the controller is
//     refused with NOT_CONTROLLER, so that it cannot go in circles.
//   - A request waits a bounded time while there is no controller, and is then
//     refused with NO_CONTROLLER, having changed nothing.
//   - A call whose answer was lost is repeated only where the API declares the
//     method idempotent or free of side effects; otherwise the caller is told
//     OUTCOME_UNKNOWN.
//   - A dry run decides with the code of the run itself and writes nothing.
//
// It does not plan, decide or store anything: that is the Backend's, which node
// implements from the planes.
//
// File map:
//
//	backend.go     what the node has to offer
//	handler.go     Handler, NewServer, the plain HTTP paths
//	forward.go     sending requests on to the controller
//	errors.go      refusals and faults as Connect errors
//	codec.go       JSON with the field names of the .proto files
//	convert.go     metadata as messages
//	cluster.go     ClusterService
//	brokers.go     BrokersService
//	topics.go      TopicsService and NamespacesService
//	operations.go  OperationsService, and plans and moves as messages
package adminapi
