//go:build plant_stale_epoch_ack

package replication

// PlantStaleEpochAck is a planted bug: it acknowledges a record by the high watermark of a later epoch than the one that wrote it.
const PlantStaleEpochAck = true
