// Package replication holds the rules by which one partition is replicated.
// They are Kafka's, so that what is known of those holds here too:
//
//   - The high watermark is the smallest counted log end over the maximal ISR:
//     the committed ISR, additions that are proposed and may have been accepted,
//     and eligible followers that keep up. It never goes back, and it stands
//     still while the ISR is below min ISR.
//   - A follower may join the ISR when its log end has reached the high watermark
//     and the start of the leader's epoch, and it is known by the node epoch
//     under which it fetches (KIP-903). At most one proposal is in flight.
//   - A log is a prefix of its leader's log when the epoch of its last record
//     ends there no earlier than here (KIP-101, KIP-279, KIP-320).
//
// What counts as log end is the caller's choice: the synced end where records
// are synced before an ack, the written end elsewhere.
//
// Invariants: a function of its arguments (time is one of them); a Leader is
// owned by one goroutine or lock. Non-goals: who leads (metadata decides), bytes
// and files (segment), what to do about a decision (replica).
//
// Files:
//
//	leader.go     Leader: progress of followers, high watermark
//	isr.go        Leader: proposals to shrink and expand the ISR
//	truncation.go where a follower's log leaves its leader's, and what it drops
//
// Planted bugs for the simulator to catch, each behind its build tag:
//
//	plant_ack_early.go        plant_ack_early_off.go
//	plant_hw_below_min_isr.go plant_hw_below_min_isr_off.go
//	plant_stale_epoch_ack.go  plant_stale_epoch_ack_off.go
package replication
