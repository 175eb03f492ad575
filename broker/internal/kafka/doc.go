// Package kafka serves the Kafka wire protocol to clients, on top of a Backend
// that it defines.
//
// # Invariants
//
//   - Answers go out in the order of the requests of their connection, whatever
//     order the backend completes them in.
//   - Reading does not wait for acknowledgements: up to
//     Config.RequestsInFlightMax produces of one connection are open at once.
//   - Record bytes are not copied: a produced batch aliases the request's buffer,
//     and fetched records go from the backend's buffer to the socket.
//   - Everything a client can make grow has a bound in Config. A claimed length
//     costs no memory before its bytes arrive.
//   - What is not a valid request ends its own connection and nothing else.
//   - Clients are never told of a node that is not alive, nor of a leader that
//     they could not reach.
//   - Every refusal.Reason has one Kafka error, in errors.go.
//
// # Not here
//
// Consumer groups, transactions, fetch sessions, quotas (throttle times are 0),
// auto-creation of topics, authentication and TLS. UNSUPPORTED.md has the APIs and
// versions that are not served, and why.
//
// # Files
//
//	backend.go                  the Backend interface and its types
//	config.go                   Config: the bounds
//	serve.go                    Serve: accepts connections
//	connection.go               one connection: reader and writer
//	queue.go                    the open requests of a connection, in order
//	call.go                     one request: dispatch and its answer
//	output.go                   answers on their way to one vectored write
//	buffers.go                  pooled request buffers
//	wire.go                     primitive types and the request header
//	versions.go                 the table of APIs and versions
//	errors.go                   refusals to Kafka errors
//	hints.go                    KIP-951 leader hints, advertised addresses
//	api_versions.go             ApiVersions
//	create_topics.go            CreateTopics
//	delete_topics.go            DeleteTopics
//	describe_cluster.go         DescribeCluster
//	describe_configs.go         DescribeConfigs
//	fetch.go                    Fetch: the request
//	fetch_encode.go             Fetch: the answer
//	find_coordinator.go         FindCoordinator
//	init_producer_id.go         InitProducerId
//	list_offsets.go             ListOffsets
//	metadata.go                 Metadata
//	offset_for_leader_epoch.go  OffsetForLeaderEpoch
//	produce.go                  Produce
package kafka
