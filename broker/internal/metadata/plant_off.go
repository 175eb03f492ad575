//go:build !plant_remove_early

package metadata

// plantRemoveEarly plants the bug "a replica set changes before the new copies
// have caught up", to prove that the simulator catches it.
const plantRemoveEarly = false
