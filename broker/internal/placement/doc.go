// Package placement plans where replicas and leaders should be. A plan is a
// value: the same world gives the same plan, and planning again after a plan
// has run gives an empty one.
//
// What every plan keeps, in this order: replicas of a partition on distinct
// nodes; new replicas only on nodes that are active and not fenced; no fewer
// racks per partition than before; below 85 % disk at the peak, which counts
// both copies of everything planned or under way (a node whose disk is unknown
// is used, with a warning); the number of replicas; min ISR at every step. A
// partition of an operation under way counts as if it had finished and is not
// planned again. Within that a plan moves as few replicas as it can, and
// prefers a change of leadership to a move of data.
//
// Not here: carrying a plan out (operation), judging whether a node may leave
// (operation), and placing the partitions of a new topic (metadata).
//
//	plan.go      World, Plan, Finding, Balance: the values
//	state.go     the planner's scratch copy of the cluster
//	goals.go     the hard goals: may this replica be there
//	rebalance.go Rebalance: spread replicas over the nodes
//	leaders.go   spread leaders, by hand-over and as a last resort by data
//	unload.go    Unload: empty a node
//	topic.go     MoveTopic: hand over or relocate one topic
//	heal.go      Heal: raise topics to the replicas they desire
//	order.go     from changed partitions to ordered moves and findings
package placement
