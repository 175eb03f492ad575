// Package quorum replicates the metadata log with hashicorp/raft. It is the only
// package that knows raft and badger.
//
// What holds:
//   - An entry whose Propose returned is on the disks of a majority.
//   - A failed Propose says whether the entry can still be committed
//     (ErrOutcomeUnknown) or certainly is not (ErrNotController, ErrBusy).
//   - Membership changes are single steps, each fenced on the configuration the
//     caller saw; nothing changes the voters by itself.
//   - A member is named by node id and incarnation, so that a wiped disk is a new
//     member and never votes as the old one.
//   - Followers learn of a commit at once, not at raft's next timer: see nudge.go.
//
// What it does not do: it does not read the entries, decide who may be a member,
// or open sockets (Streams does).
//
// Files:
//
//	quorum.go     Quorum: opening, proposing, status, closing
//	member.go     members, configurations, membership changes
//	machine.go    the state machine port and raft's calls of it, restore alarm
//	transport.go  raft's transport over Streams
//	nudge.go      early commit notices to followers
//	store.go      raft's log and stable store on badger
//	room_linux.go blocks on the disk for what badger writes by way of memory
//	room_other.go none elsewhere
//	log.go        raft's and badger's log lines
package quorum
