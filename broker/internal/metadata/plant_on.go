//go:build plant_remove_early

package metadata

const plantRemoveEarly = true
