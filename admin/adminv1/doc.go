// Package adminv1 is the admin API: the protobuf messages and services of
// ister.admin.v1, generated from the .proto files beside this file by
// `make proto`. The services by area: ClusterService, BrokersService,
// TopicsService, NamespacesService, OperationsService. Every refusal carries a
// Refusal as its error detail.
package adminv1
