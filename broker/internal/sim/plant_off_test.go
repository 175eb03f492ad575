//go:build !plant_ack_early && !plant_hw_below_min_isr && !plant_remove_early && !plant_stale_epoch_ack

package sim

const planted = false
