package process

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/ister-mq/ister/setups"
)

// Mistake implements setups.Mistaker.
func (c *cluster) Mistake(ctx context.Context, name string, mistake setups.Mistake) (setups.Mistaken, error) {
	b, err := c.find(name)
	if err != nil {
		return setups.Mistaken{}, err
	}
	running := b.run != nil && !b.run.over()
	if wants := mistake == setups.MistakeDataInUse || mistake == setups.MistakePortInUse; running != wants {
		return setups.Mistaken{}, fmt.Errorf("mistake %s: %s runs: %t, expected %t", mistake, name, running, wants)
	}
	home := filepath.Join("brokers", name, "mistake-"+string(mistake))
	if err := os.MkdirAll(filepath.Join(c.dir, home), 0o755); err != nil {
		return setups.Mistaken{}, fmt.Errorf("make a directory: %w", err)
	}
	data := filepath.Join(c.dir, home, "data")
	defer os.RemoveAll(data)
	double := &broker{Broker: b.Broker, place: b.place, path: b.path, digest: b.digest, args: slices.Clone(b.args)}
	double.Name, double.LogFile = filepath.Join(name, filepath.Base(home)), filepath.Join(home, "log")
	switch mistake {
	case setups.MistakeDataInUse:
		err = double.move()
	case setups.MistakeForeign:
		double.set("--data-dir", data)
		err = c.found(ctx, home, data)
	case setups.MistakePortInUse, setups.MistakeWiped:
		double.set("--data-dir", data)
	default:
		err = fmt.Errorf("mistake %q: expected one of %v", mistake, setups.Mistakes)
	}
	if err != nil {
		return setups.Mistaken{}, err
	}
	exit, err := c.untilEnd(ctx, double)
	return setups.Mistaken{Exit: exit, Says: tail(filepath.Join(c.dir, double.LogFile), 1)[2:]}, err
}

// found makes the data of a cluster of one.
func (c *cluster) found(ctx context.Context, home, data string) error {
	other := &broker{path: c.path, digest: c.digest, args: []string{"broker", "--data-dir", data}}
	other.Name, other.LogFile = filepath.Join(filepath.Base(filepath.Dir(home)), filepath.Base(home)), filepath.Join(home, "log")
	if err := other.move(); err != nil {
		return err
	}
	if err := c.launch(other); err != nil {
		return err
	}
	if exit, err := c.await(ctx, other, "/readyz"); err != nil || exit != nil {
		_ = c.end(ctx, other)
		return fmt.Errorf("form another cluster: exit %v: %w", exit, err)
	}
	return c.end(ctx, other)
}

// end ends a process in order.
func (c *cluster) end(ctx context.Context, b *broker) error {
	b.run.signal(syscall.SIGTERM)
	select {
	case <-b.run.done:
		return nil
	case <-ctx.Done():
		b.run.signal(syscall.SIGKILL)
		<-b.run.done
		return fmt.Errorf("%s did not end in time and was killed: %w", b.Name, ctx.Err())
	}
}

func (c *cluster) untilEnd(ctx context.Context, b *broker) (setups.Exit, error) {
	if err := c.launch(b); err != nil {
		return setups.Exit{}, err
	}
	select {
	case <-b.run.done:
		return b.run.exit, nil
	case <-ctx.Done():
		b.run.signal(syscall.SIGKILL)
		<-b.run.done
		return b.run.exit, fmt.Errorf("%s still ran and was killed: %w", b.Name, ctx.Err())
	}
}

// move gives a broker ports of its own.
func (b *broker) move() error {
	ports, err := setups.FreePorts(4)
	if err != nil {
		return err
	}
	at := func(i int) string { return fmt.Sprintf("127.0.0.1:%d", ports[i]) }
	b.Kafka, b.Admin, b.Raft, b.Metrics = at(0), at(1), at(2), at(3)
	b.set("--broker-addr", b.Kafka)
	b.set("--admin-addr", b.Admin)
	b.set("--raft-addr", b.Raft)
	b.set("--prom-exporter", b.Metrics)
	return nil
}

// set gives a flag another value.
func (b *broker) set(flag, value string) {
	if i := slices.Index(b.args, flag); i >= 0 {
		b.args[i+1] = value
		return
	}
	b.args = append(b.args, flag, value)
}

// Cannot implements setups.Limited: a process can also be started wrongly.
func (Setup) Cannot(ability setups.Ability) *setups.Refused {
	switch ability {
	case setups.AbilityMistake, setups.AbilityUpgrade:
		return nil
	}
	return setups.StartsBrokers("process", ability)
}
