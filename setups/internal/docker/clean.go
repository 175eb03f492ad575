package docker

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/client"

	"github.com/ister-mq/ister/setups"
)

// removePause is how long a removal waits for the engine to let go of something.
const removePause = 100 * time.Millisecond

// Clean removes every container, network and volume with the labels of the run,
// and images that it used and nobody uses any more. It returns what is still there.
func (e *Engine) Clean(ctx context.Context, run Run) (leftovers []string, err error) {
	filter := run.filter()
	images, err := notedImages(run.Dir)
	if err != nil {
		return nil, err
	}
	list, err := e.API.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: filter})
	if err != nil {
		return nil, fmt.Errorf("list containers of run %s: %w", run.ID, err)
	}
	for _, c := range list.Items {
		if !slices.Contains(images, c.Image) { // the run's directory may be gone
			images = append(images, c.Image)
		}
		if err := e.RemoveContainer(ctx, c.ID); err != nil {
			leftovers = append(leftovers, fmt.Sprintf("container %s: %v", c.ID[:12], err))
		}
	}
	networks, err := e.API.NetworkList(ctx, client.NetworkListOptions{Filters: filter})
	if err != nil {
		return leftovers, fmt.Errorf("list networks of run %s: %w", run.ID, err)
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
		return leftovers, fmt.Errorf("list volumes of run %s: %w", run.ID, err)
	}
	for _, v := range volumes.Items {
		if err := e.remove(ctx, func() error {
			_, err := e.API.VolumeRemove(ctx, v.Name, client.VolumeRemoveOptions{Force: true})
			return err
		}); err != nil {
			leftovers = append(leftovers, fmt.Sprintf("volume %s: %v", v.Name, err))
		}
	}
	for _, name := range images {
		if !strings.HasPrefix(name, imageRepository+":") {
			continue // not one that EnsureImage built
		}
		if err := e.RemoveImage(ctx, name); err != nil {
			leftovers = append(leftovers, fmt.Sprintf("image %s: %v", name, err))
		}
	}
	// What a build left that was cut short has no name.
	layers, err := e.API.ImageList(ctx, client.ImageListOptions{Filters: filter.Clone().Add("dangling", "true")})
	if err != nil {
		return leftovers, fmt.Errorf("list images of run %s: %w", run.ID, err)
	}
	for _, layer := range layers.Items {
		if err := e.RemoveImage(ctx, layer.ID); err != nil {
			leftovers = append(leftovers, fmt.Sprintf("image %s: %v", layer.ID, err))
		}
	}
	return leftovers, nil
}

// RemoveContainer removes a container, running or not.
func (e *Engine) RemoveContainer(ctx context.Context, id string) error {
	return e.remove(ctx, func() error {
		_, err := e.API.ContainerRemove(ctx, id, client.ContainerRemoveOptions{Force: true})
		return err
	})
}

// CleanRun is Clean for a run whose runner may be gone.
func CleanRun(ctx context.Context, dir string) (leftovers []string, err error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("run directory: %w", err)
	}
	owner, err := setups.Owner(abs)
	if owner == "" {
		return nil, err // nothing was made
	}
	engine, err := Connect(ctx)
	if err != nil {
		return nil, err
	}
	defer engine.Close()
	run := Run{Dir: abs, ID: filepath.Base(abs), Owner: owner}
	if err := run.on(engine.API.DaemonHost()); err != nil {
		return nil, err
	}
	return engine.Clean(ctx, run)
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
