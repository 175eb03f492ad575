package verb

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/ister-mq/ister/setups"
)

// Bounds of what a soak does to a broker. A lease is 1.5 s: some of these end
// before it is over, and some after.
const (
	soakDown   = 2 * time.Second
	soakFrozen = 4 * time.Second
	soakCut    = 4 * time.Second
	soakLate   = 3 * time.Second
	soakDelay  = 30 * time.Millisecond
	soakGrace  = 20 * time.Second
)

func soakKill(ctx context.Context, s *soak) (string, error) {
	name, err := s.victim()
	if err != nil {
		return name, err
	}
	if err := s.env.Cluster.Kill(ctx, name); err != nil {
		return name, err
	}
	if err := wait(ctx, s.some(soakDown)); err != nil {
		return name, err
	}
	return name, s.start(ctx, name)
}

func soakRestart(ctx context.Context, s *soak) (string, error) {
	name, err := s.victim()
	if err != nil {
		return name, err
	}
	if _, err := s.env.Cluster.Stop(ctx, name, soakGrace); err != nil {
		return name, err
	}
	return name, s.start(ctx, name)
}

func (s *soak) start(ctx context.Context, name string) error {
	exit, err := s.env.Cluster.Start(ctx, name)
	if err == nil && exit != nil {
		err = fmt.Errorf("%s did not come back: exit code %d; its log ends with: %s", name, exit.Code, s.env.lastLine(name))
	}
	return err
}

// lasting does a fault, lets it last, and undoes it.
func (s *soak) lasting(ctx context.Context, k kind, name, detail string, most time.Duration, do func() error) error {
	if _, err := s.env.begin(k, name, detail, do); err != nil {
		return err
	}
	if err := wait(ctx, s.some(most)); err != nil {
		return err
	}
	_, err := undo(k)(ctx, s.env, undoInputs{Broker: name})
	return err
}

func soakPause(ctx context.Context, s *soak) (string, error) {
	name, err := s.victim()
	if err != nil {
		return name, err
	}
	return name, s.lasting(ctx, faultPause, name, "", soakFrozen, func() error { return s.env.Cluster.Pause(name) })
}

func soakCutOff(ctx context.Context, s *soak) (string, error) {
	name, err := s.victim()
	if err != nil {
		return name, err
	}
	able, err := s.env.can(setups.FaultCutOff)
	if err != nil {
		return name, err
	}
	return name, s.lasting(ctx, faultCut, name, "", soakCut, func() error { return able.CutOff(ctx, name) })
}

func soakSlow(ctx context.Context, s *soak) (string, error) {
	name, err := s.victim()
	if err != nil {
		return name, err
	}
	able, err := s.env.can(setups.FaultSlow)
	if err != nil {
		return name, err
	}
	link := setups.Link{Delay: s.some(soakDelay), Jitter: s.some(soakDelay), LossPercent: s.rng.IntN(3)}
	detail := fmt.Sprintf("delay %s, jitter %s, loss %d %%", link.Delay, link.Jitter, link.LossPercent)
	return name, s.lasting(ctx, faultSlow, name, detail, soakLate, func() error { return able.Slow(ctx, name, link) })
}

func soakMove(ctx context.Context, s *soak) (string, error) {
	topic := s.topics[s.rng.IntN(len(s.topics))]
	_, err := topicMove(ctx, s.env, moveInputs{Name: topic})
	return topic, err
}

func soakTransfer(ctx context.Context, s *soak) (string, error) {
	now, err := status(ctx, s.env, none{})
	if err != nil {
		return "the controller", err
	}
	var others []int64
	for _, id := range now.Voters {
		if id != now.Controller {
			others = append(others, id)
		}
	}
	if len(others) == 0 {
		return "the controller", errors.New("there is no other voter")
	}
	to := others[s.rng.IntN(len(others))]
	_, err = transfer(ctx, s.env, nodeInputs{NodeID: to})
	return "the controller to " + s.env.label(to), err
}

// soakScale adds a broker, gives it its share, drains it and removes it.
func soakScale(ctx context.Context, s *soak) (string, error) {
	b, err := brokerStart(ctx, s.env, none{})
	if err != nil {
		return "a new broker", err
	}
	added, err := addNode(ctx, s.env, addNodeInputs{Address: b.Admin})
	if err != nil {
		return b.Name, err
	}
	id := nodeInputs{NodeID: added.NodeID}
	steps := []func() error{
		func() error { _, err := promote(ctx, s.env, id); return err },
		func() error {
			_, err := activate(ctx, s.env, activateInputs{NodeID: added.NodeID, Reason: "soak"})
			return err
		},
		func() error { _, err := rebalance(ctx, s.env, rebalanceInputs{}); return err },
		func() error { return s.unloaded(ctx, added.NodeID) },
		func() error {
			_, err := remove(ctx, s.env, removeInputs{NodeID: added.NodeID, Reason: "soak"})
			return err
		},
		func() error {
			_, err := brokerStop(ctx, s.env, stopInputs{Broker: b.Name, Grace: soakGrace})
			return err
		},
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return b.Name, err
		}
	}
	return b.Name, nil
}

// unloaded drains a broker until its certificate says that it is empty.
func (s *soak) unloaded(ctx context.Context, id int64) error {
	out, err := unload(ctx, s.env, nodeInputs{NodeID: id})
	if err != nil {
		return err
	}
	return poll(ctx, lookEvery, func() (bool, string, error) {
		if err := certificate(ctx, s.env, id, &out); err != nil {
			return false, err.Error(), nil
		}
		return out.Empty, out.Certificate, nil
	})
}

// usage is what the brokers of a cluster use, in the mean.
type usage struct{ memoryMB, files float64 }

// usage asks every broker that runs; nil when they do not tell, as on systems
// without /proc.
func (e *Env) usage(ctx context.Context) (*usage, error) {
	var sum usage
	told := 0.0
	for _, b := range e.Cluster.Brokers() {
		if !b.Running {
			continue
		}
		page, err := getPage(ctx, "http://"+b.Metrics+"/metrics")
		if err != nil {
			return nil, fmt.Errorf("metrics of %s: %w", b.Name, err)
		}
		memory, ok1 := metricOf(page, "process_resident_memory_bytes")
		files, ok2 := metricOf(page, "process_open_fds")
		if !ok1 || !ok2 {
			return nil, nil
		}
		sum.memoryMB, sum.files, told = sum.memoryMB+memory/(1<<20), sum.files+files, told+1
	}
	if told == 0 {
		return nil, nil
	}
	return &usage{tenth(sum.memoryMB / told), tenth(sum.files / told)}, nil
}

// metricOf reads a metric without labels from a page of metrics.
func metricOf(page, name string) (float64, bool) {
	for line := range strings.Lines(page) {
		if text, ok := strings.CutPrefix(line, name+" "); ok {
			value, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
			return value, err == nil
		}
	}
	return 0, false
}
