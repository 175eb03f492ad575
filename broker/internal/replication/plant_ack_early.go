//go:build plant_ack_early

package replication

// PlantAckEarly is a planted bug: it counts an own record, and lets a follower ask past it, before it is synced.
const PlantAckEarly = true
