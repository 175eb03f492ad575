package docker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/client"
)

// RunLabel is on everything that a run makes, with the run's id.
const RunLabel = "ister.run"

// removePause is how long a removal waits for the engine to let go of something.
const removePause = 100 * time.Millisecond

// Clean removes every container, network and volume with the run's label, and
// images that its containers used and nobody uses any more. It returns what is
// still there.
func (e *Engine) Clean(ctx context.Context, run string) (leftovers []string, err error) {
	filter := make(client.Filters).Add("label", RunLabel+"="+run)
	images := map[string]bool{}
	list, err := e.API.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: filter})
	if err != nil {
		return nil, fmt.Errorf("list containers of run %s: %w", run, err)
	}
	for _, c := range list.Items {
		images[c.Image] = true
		if err := e.remove(ctx, func() error {
			_, err := e.API.ContainerRemove(ctx, c.ID, client.ContainerRemoveOptions{Force: true})
			return err
		}); err != nil {
			leftovers = append(leftovers, fmt.Sprintf("container %s: %v", c.ID[:12], err))
		}
	}
	networks, err := e.API.NetworkList(ctx, client.NetworkListOptions{Filters: filter})
	if err != nil {
		return leftovers, fmt.Errorf("list networks of run %s: %w", run, err)
	}
	for _, n := range networks.Items {
		if err := e.remove(ctx, func() error {
			_, err := e.API.NetworkRemove(ctx, n.ID, client.NetworkRemoveOptions{})
			return err
		}); err != nil {
			leftovers = append(leftovers, fmt.Sprintf("network %s: %v", n.Name, err))
		}
	}
	volumes, err := e.API.VolumeList(ctx, client.VolumeListOptions{Filters: filter})
	if err != nil {
		return leftovers, fmt.Errorf("list volumes of run %s: %w", run, err)
	}
	for _, v := range volumes.Items {
		if err := e.remove(ctx, func() error {
			_, err := e.API.VolumeRemove(ctx, v.Name, client.VolumeRemoveOptions{Force: true})
			return err
		}); err != nil {
			leftovers = append(leftovers, fmt.Sprintf("volume %s: %v", v.Name, err))
		}
	}
	for name := range images {
		if err := e.RemoveImage(ctx, name); err != nil {
			leftovers = append(leftovers, fmt.Sprintf("image %s: %v", name, err))
		}
	}
	return leftovers, nil
}

// remove repeats a removal that conflicts with one still under way.
func (e *Engine) remove(ctx context.Context, try func() error) error {
	for attempt := 0; ; attempt++ {
		err := try()
		if err == nil || errdefs.IsNotFound(err) {
			return nil
		}
		if attempt == 50 {
			return err
		}
		timer := time.NewTimer(removePause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return errors.Join(err, ctx.Err())
		case <-timer.C:
		}
	}
}
