package main

import (
	"slices"
	"time"
)

func median(v []float64) float64 {
	s := slices.Sorted(slices.Values(v))
	return s[len(s)/2]
}

func minimum(v []float64) float64 { return slices.Min(v) }
func maximum(v []float64) float64 { return slices.Max(v) }

// percentile of durations, p in 0..1.
func percentile(v []time.Duration, p float64) time.Duration {
	s := slices.Sorted(slices.Values(v))
	return s[int(p*float64(len(s)-1))]
}
