// Package metadata is the control plane's state and its rules. Decide answers a
// command on an image with facts (records) or a refusal; Apply puts facts in
// place and is the only thing that replay runs. Both are functions of their
// arguments: no clock, no I/O, no goroutine.
//
// What must hold: an Image never changes once published; a batch applies only
// on the revision it was decided on; a partition's leader is a member of its
// ISR, its ISR a subset of its replicas and never empty; leader and partition
// epochs only grow; node and topic ids are never reused.
//
// It does not place replicas of running clusters (placement), advance
// operations by itself (operation), or know who is alive: fencing is a command.
//
// Files: image.go (the state), command.go (what can be asked), record.go (the
// facts), decide.go, decide_node.go, decide_partition.go, decide_topic.go and
// decide_operation.go (the rules), apply.go (replay), lookup.go (reading),
// config.go (topic settings), codec.go (bytes), plant_on.go and plant_off.go (a
// planted bug for testing the simulator).
package metadata
