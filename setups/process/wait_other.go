//go:build !linux

package process

import "time"

// awaitExit cannot wait without reaping here.
func awaitExit(int) bool { return false }

// awaitStop cannot look here.
func awaitStop(int, time.Duration) bool { return true }
