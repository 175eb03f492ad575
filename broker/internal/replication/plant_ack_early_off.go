//go:build !plant_ack_early

package replication

// PlantAckEarly is a planted bug, for the simulator to catch. Off: the build tag
// plant_ack_early is not given.
const PlantAckEarly = false
