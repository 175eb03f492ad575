package run

import (
	"fmt"

	"github.com/ister-mq/ister/scenarios/internal/spec"
	"github.com/ister-mq/ister/setups"
)

// limit gives the cluster, before it forms, what the run's faults need.
func (e *engine) limit(cluster setups.Cluster) error {
	limits := e.options.Scenario.LimitsOf(e.options.Aspects)
	if limits == (setups.Limits{}) {
		return nil
	}
	name := e.options.Setup.Name()
	limiter, ok := cluster.(setups.Limiter)
	if ok {
		if err := limiter.Limit(limits); err != nil {
			return fmt.Errorf("limit the brokers of setup %s: %w", name, err)
		}
		return nil
	}
	// One that hinders traffic by other means needs no limits for that.
	if _, able := cluster.(setups.Faults); able && limits.DiskBytes == 0 {
		return nil
	}
	return &setups.Refused{Setup: name, What: "run these steps", Why: "they need links or disks of the brokers, which it does not have", Remedy: "use the setup process or container, or choose other aspects with --aspect"}
}

// keepable refuses to keep a cluster whose brokers reach each other by way of the
// runner: they would be cut off from each other as soon as it ends.
func keepable(o Options) error {
	if o.Keep == "" || o.Keep == KeepNever || !o.Scenario.LimitsOf(o.Aspects).Links {
		return nil
	}
	return spec.Problems{{File: "--keep", Message: "this run puts links, which live in the runner, between the brokers: the cluster cannot outlive it", Hint: "--pause on-failure keeps the runner, and the cluster with it"}}
}
