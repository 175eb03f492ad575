//go:build !plant_stale_epoch_ack

package replication

// PlantStaleEpochAck is a planted bug, for the simulator to catch. Off: the build tag
// plant_stale_epoch_ack is not given.
const PlantStaleEpochAck = false
