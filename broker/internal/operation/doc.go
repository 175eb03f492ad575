// Package operation drives accepted plans. An operation is a durable object in
// the metadata; this package looks at it and says which commands come next, and
// whether a node may leave or join the metadata quorum. Everything here is a
// function of its arguments.
//
// What holds: Step proposes only what metadata.Decide accepts on the same image,
// and each command can be proposed twice without harm. When nothing changed since
// the last step there is nothing to propose, so the metadata log does not grow
// while operations wait. An operation that cannot go on is blocked with a reason
// and goes on by itself when the reason is gone. A dead replica that a move keeps
// does not hold the move up; a dead target ends that move, and the next plan
// finds another. What is unknown is never safe.
//
// Not here: making plans (placement), the rules of each stage (metadata), moving
// bytes (replication, dataplane), changing the quorum (quorum, controlplane).
// Operations of the kinds add_node, promote and remove_node are driven by the
// control plane; Step leaves them alone.
//
//	operation.go   Observations, Limits, QuorumView, Request: the values
//	step.go        Step: the next commands of each live operation
//	move.go        the stages of one move
//	certificate.go what a node still has
//	safety.go      SafeToRemove, SafeToPromote
//	preferred.go   PreferredLeaders: leadership goes back after a restart
//	relief.go      Relief: leadership leaves a node whose disk is full
//	preflight.go   Preflight: a request judged before it runs
package operation
