package netns

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/ister-mq/ister/setups"
	"github.com/ister-mq/ister/setups/fault"
	"github.com/ister-mq/ister/setups/process"
)

const (
	name = "netns"
	// cleanGrace is how long what a run left may take to end in order.
	cleanGrace = 5 * time.Second
)

// Setup implements setups.Setup.
type Setup struct{}

// Name implements setups.Setup.
func (Setup) Name() string { return name }

// Check implements setups.Setup.
func (Setup) Check(ctx context.Context) []setups.Finding {
	return append(checkMachine(), fault.Setup{}.Check(ctx)...)
}

// Cannot implements setups.Limited: it has all faults.
func (Setup) Cannot(ability setups.Ability) *setups.Refused {
	switch ability {
	case setups.AbilityUpgrade, setups.AbilityMistake, setups.AbilityCutOff, setups.AbilitySlow, setups.AbilityFillDisk:
		return nil
	}
	return setups.StartsBrokers(name, ability)
}

// run is whose namespaces and links are: the id is for people, the owner's mark
// tells it from a run of the same id in another runs directory.
type run struct{ id, owner string }

// New implements setups.Setup. The id of the run is the last element of its
// directory.
func (Setup) New(ctx context.Context, options setups.Options) (setups.Cluster, error) {
	for _, f := range checkMachine() {
		if f.Fatal {
			return nil, &setups.Refused{Setup: name, What: "start brokers", Why: f.Message, Remedy: f.Remedy, Here: true}
		}
	}
	inner, err := fault.Setup{}.New(ctx, options)
	if err != nil {
		return nil, err
	}
	dir, err := filepath.Abs(options.Dir)
	if err != nil {
		return nil, fmt.Errorf("run directory: %w", err)
	}
	owner, err := setups.Own(dir)
	if err != nil {
		return nil, err
	}
	c := &cluster{Cluster: inner, net: newNetwork(run{filepath.Base(dir), owner})}
	placer, ok := setups.As[process.Placer](inner)
	if !ok {
		panic("netns: the process setup gives its brokers no places")
	}
	placer.Place(c.place)
	return c, nil
}

// Clean implements setups.Cleaner: it ends the run's processes, then removes its
// namespaces, with all that is in them, and its links.
func (Setup) Clean(ctx context.Context, dir string) (leftovers []string, err error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("run directory: %w", err)
	}
	ledger, err := process.LoadLedger(abs)
	if err != nil {
		return nil, err
	}
	leftovers = ledger.EndAll(cleanGrace)
	owner, err := setups.Owner(abs)
	if err != nil {
		return leftovers, err
	}
	if owner != "" {
		leftovers = append(leftovers, removeRun(run{filepath.Base(abs), owner})...)
	}
	disks, err := fault.Setup{}.Clean(ctx, abs)
	return append(leftovers, disks...), err
}
