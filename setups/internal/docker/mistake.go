package docker

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"

	"github.com/ister-mq/ister/setups"
)

// mistakeData is where a broker that is started wrongly has its data.
const mistakeData = "/mistake"

// mistakeRemoval bounds the removal of such a broker's container.
const mistakeRemoval = 15 * time.Second

// Mistake implements setups.Mistaker: a container beside the broker's own, made
// from it, which is removed afterwards with its data. cluster is the network on
// which brokers reach each other.
func (f *Fleet) Mistake(ctx context.Context, cluster, name string, mistake setups.Mistake) (setups.Mistaken, error) {
	m, err := f.Find(name)
	if err != nil {
		return setups.Mistaken{}, err
	}
	if wants := mistake == setups.MistakeDataInUse || mistake == setups.MistakePortInUse; m.Box.Running() != wants {
		return setups.Mistaken{}, fmt.Errorf("mistake %s: %s runs: %t, expected %t", mistake, name, !wants, wants)
	}
	info, err := m.Box.engine.API.ContainerInspect(ctx, m.Box.id, client.ContainerInspectOptions{})
	if err != nil {
		return setups.Mistaken{}, fmt.Errorf("inspect %s: %w", name, err)
	}
	d := &double{engine: m.Box.engine, run: f.Run, of: info.Container, name: name, log: filepath.Join(f.Run.Dir, "brokers", name, "mistake-"+string(mistake)+".log")}
	defer d.remove(ctx)
	host := &container.HostConfig{NetworkMode: "none"}
	args := withData(info.Container.Config.Cmd, mistakeData)
	switch mistake {
	case setups.MistakeDataInUse:
		host.VolumesFrom, args = []string{m.Box.id}, slices.Clone(info.Container.Config.Cmd)
	case setups.MistakePortInUse:
		host.NetworkMode = container.NetworkMode("container:" + m.Box.id)
	case setups.MistakeWiped:
		host.NetworkMode = container.NetworkMode(cluster)
	case setups.MistakeForeign:
		founder, err := d.found(ctx, args)
		if err != nil {
			return setups.Mistaken{}, err
		}
		host.NetworkMode, host.VolumesFrom = container.NetworkMode(cluster), []string{founder.id}
	default:
		return setups.Mistaken{}, fmt.Errorf("mistake %q: expected one of %v", mistake, setups.Mistakes)
	}
	box, err := d.start(ctx, host, args)
	if err != nil {
		return setups.Mistaken{}, err
	}
	exit, err := untilEnd(ctx, box)
	return setups.Mistaken{Exit: exit, Says: lastLine(box)}, err
}

func lastLine(box *Box) string {
	lines := strings.Split(box.Tail(), "\n")
	return strings.TrimSpace(lines[len(lines)-1])
}

// withData gives a broker's arguments another data directory.
func withData(args []string, dir string) []string {
	out := slices.Clone(args)
	if i := slices.Index(out, "--data-dir"); i >= 0 {
		out[i+1] = dir
		return out
	}
	return append(out, "--data-dir", dir)
}

// double makes containers in the likeness of a broker's.
type double struct {
	engine    *Engine
	run       Run
	of        container.InspectResponse
	name, log string
	made      []string // ids
}

// start makes a container that carries the run's labels, and starts it.
func (d *double) start(ctx context.Context, host *container.HostConfig, args []string) (*Box, error) {
	options := client.ContainerCreateOptions{
		Config:     &container.Config{Image: d.of.Config.Image, Cmd: args, Env: d.of.Config.Env, Labels: d.run.Labels()},
		HostConfig: host,
	}
	if host.VolumesFrom == nil {
		options.Config.Volumes = map[string]struct{}{mistakeData: {}}
	}
	if host.NetworkMode.IsUserDefined() { // under the broker's own names
		if own := d.of.NetworkSettings.Networks[string(host.NetworkMode)]; own != nil {
			options.NetworkingConfig = &network.NetworkingConfig{EndpointsConfig: map[string]*network.EndpointSettings{string(host.NetworkMode): {Aliases: own.Aliases}}}
		}
	}
	made, err := d.engine.API.ContainerCreate(ctx, options)
	if err != nil {
		return nil, fmt.Errorf("create a container beside %s: %w", d.name, err)
	}
	d.made = append(d.made, made.ID)
	box := d.engine.NewBox(made.ID, d.name, d.log)
	return box, box.Start(ctx)
}

// found makes the data of a cluster of one, in a volume of the container that is
// returned.
func (d *double) found(ctx context.Context, args []string) (*Box, error) {
	if i := slices.Index(args, "--seed-nodes"); i >= 0 {
		args = slices.Delete(slices.Clone(args), i, i+2)
	}
	box, err := d.start(ctx, &container.HostConfig{NetworkMode: "none"}, args)
	if err != nil {
		return nil, err
	}
	if err := d.ready(ctx, box); err != nil {
		return nil, fmt.Errorf("form another cluster: %w", err)
	}
	_, err = box.Stop(ctx, stopGrace)
	return box, err
}

// ready waits inside the container, which has no port that is reached from here.
func (d *double) ready(ctx context.Context, box *Box) error {
	made, err := d.engine.API.ExecCreate(ctx, box.id, client.ExecCreateOptions{Cmd: []string{"/ister", "health", "--ready", "--wait", "20s"}})
	if err != nil {
		return fmt.Errorf("look into the container: %w", err)
	}
	if _, err := d.engine.API.ExecStart(ctx, made.ID, client.ExecStartOptions{Detach: true}); err != nil {
		return fmt.Errorf("look into the container: %w", err)
	}
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		look, err := d.engine.API.ExecInspect(ctx, made.ID, client.ExecInspectOptions{})
		switch {
		case err != nil:
			return fmt.Errorf("look into the container: %w", err)
		case !look.Running && look.ExitCode != 0:
			return fmt.Errorf("it is not ready (exit code %d); its log ends with:\n%s", look.ExitCode, box.Tail())
		case !look.Running:
			return nil
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func untilEnd(ctx context.Context, box *Box) (setups.Exit, error) {
	r := box.current()
	select {
	case <-r.done:
		return r.exit, nil
	case <-ctx.Done():
	}
	err := box.Kill(context.WithoutCancel(ctx))
	if err == nil {
		err = fmt.Errorf("%s still ran and was killed: %w", box.name, ctx.Err())
	}
	return setups.Exit{Code: -1, Signal: "killed"}, err
}

// remove removes what was made, with its volumes. What it cannot remove carries
// the run's labels, for Close and clean.
func (d *double) remove(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), mistakeRemoval)
	defer cancel()
	for _, id := range slices.Backward(d.made) {
		_, _ = d.engine.API.ContainerRemove(ctx, id, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
	}
}
