package main

import (
	"context"
	"fmt"
	"time"
)

const (
	idlePartitions = 1000
	idleFor        = 10 * time.Second
)

// idleFigures measures what the brokers use while 1,000 partitions do nothing.
func idleFigures(ctx context.Context, c *cluster) error {
	if err := c.createTopic(ctx, "bench-idle", idlePartitions); err != nil {
		return err
	}
	settle := time.NewTimer(5 * time.Second)
	defer settle.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-settle.C:
	}
	before := c.cpu()
	window := time.NewTimer(idleFor)
	defer window.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-window.C:
	}
	used := c.cpu() - before
	share := used.Seconds() / idleFor.Seconds() / float64(len(c.nodes)) * 100
	row(fmt.Sprintf("idle CPU of one broker, %d partitions RF 3", idlePartitions), fmt.Sprintf("%.1f %%", share), "of one core")
	return nil
}
