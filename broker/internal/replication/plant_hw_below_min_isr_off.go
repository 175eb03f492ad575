//go:build !plant_hw_below_min_isr

package replication

// PlantWatermarkBelowMinISR is a planted bug, for the simulator to catch. Off: the build tag
// plant_hw_below_min_isr is not given.
const PlantWatermarkBelowMinISR = false
