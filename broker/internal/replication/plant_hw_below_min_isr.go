//go:build plant_hw_below_min_isr

package replication

// PlantWatermarkBelowMinISR is a planted bug: it moves the high watermark while the ISR is below min ISR.
const PlantWatermarkBelowMinISR = true
