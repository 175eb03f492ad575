// Package client speaks the admin API to a running cluster.
//
// It takes several endpoints and stays with one that works. It repeats what is
// safe: a call that was never sent or that the node refused without doing it
// (no controller, or a node that is no member), and, where the API declares the method free of side
// effects or idempotent, also a call whose outcome is unknown. A call of another
// method whose outcome is unknown is returned as OUTCOME_UNKNOWN, never repeated.
//
// Errors are a *Refusal (the cluster works and says no), an *Unreachable (no
// endpoint answered), a *NotAdmin (something else answered), or a context error.
//
// It holds no state of the cluster, and does not look for the controller: every
// node forwards.
//
// File map:
//
//	client.go   Options, Client, New, plain HTTP calls
//	errors.go   Refusal, Unreachable, NotAdmin and how answers become them
//	retry.go    endpoints and what is tried again
//	wait.go     waiting for operations and drains, with progress
package client
