package docker

import (
	"context"
	"fmt"

	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"
)

// CutOff takes a network from a broker's container. It may be off it already,
// and need not run.
func (e *Engine) CutOff(ctx context.Context, m *Member, networkName string) error {
	if m.Cut {
		return nil
	}
	if err := e.TakeNetwork(ctx, m.Box.ID(), networkName); err != nil {
		return fmt.Errorf("cut %s off: %w", m.Name, err)
	}
	m.Cut = true
	return nil
}

// TakeNetwork takes a network from a container.
func (e *Engine) TakeNetwork(ctx context.Context, id, networkName string) error {
	_, err := e.API.NetworkDisconnect(ctx, networkName, client.NetworkDisconnectOptions{Container: id})
	return err
}

// Heal gives it back, under the same names.
func (e *Engine) Heal(ctx context.Context, m *Member, networkName string, aliases ...string) error {
	if !m.Cut {
		return nil
	}
	if _, err := e.API.NetworkConnect(ctx, networkName, client.NetworkConnectOptions{
		Container: m.Box.ID(), EndpointConfig: &network.EndpointSettings{Aliases: aliases},
	}); err != nil {
		return fmt.Errorf("heal %s: %w", m.Name, err)
	}
	m.Cut = false
	return nil
}
