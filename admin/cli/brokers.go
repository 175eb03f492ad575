package cli

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/ister-mq/ister/admin/adminv1"
)

func (a *app) brokersCommand() *cobra.Command {
	return newGroup("brokers", "Brokers, and how topics are spread over them",
		"Brokers, and how topics are spread over them.",
		a.brokersListCommand(), a.leaderBrokerCommand(), a.balanceCommand(), a.rebalanceCommand(), a.unloadCommand(),
		a.activateCommand(), a.cordonCommand(), a.uncordonCommand())
}

func (a *app) brokersListCommand() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List brokers with what they hold", Args: noArguments,
		RunE: a.run(func(c *call) error {
			r, err := c.Brokers.ListBrokers(c.context, &adminv1.ListBrokersRequest{})
			if err != nil {
				return err
			}
			return c.print(r, func(w io.Writer) { printBrokers(w, r.GetBrokers()) })
		}),
	}
}

func printBrokers(w io.Writer, brokers []*adminv1.Broker) {
	t := newTable("BROKER", "STATE", "ALIVE", "ROLE", "KAFKA ADDRESS", "ADMIN ADDRESS", "LEADERS", "REPLICAS", "BYTES")
	for _, b := range brokers {
		role := lower(b.GetRole())
		if b.GetController() {
			role = "controller"
		}
		t.row(number(b.GetBrokerId()), lower(b.GetState()), alive(b.GetFenced()), role, b.GetEndpoints().GetKafka(), b.GetEndpoints().GetAdmin(),
			number(b.GetLeaders()), number(b.GetReplicas()), knownSize(b.GetBytes()))
	}
	t.print(w)
}

func (a *app) leaderBrokerCommand() *cobra.Command {
	return &cobra.Command{
		Use: "leader-broker", Short: "Show the broker that is the controller", Args: noArguments,
		RunE: a.run(func(c *call) error {
			r, err := c.Brokers.GetLeaderBroker(c.context, &adminv1.GetLeaderBrokerRequest{})
			if err != nil {
				return err
			}
			b := r.GetBroker()
			return c.print(b, func(w io.Writer) {
				var f fields
				f.add("Leader Broker", number(b.GetBrokerId()))
				f.add("State", lower(b.GetState()))
				f.add("Kafka Address", b.GetEndpoints().GetKafka())
				f.add("Admin Address", b.GetEndpoints().GetAdmin())
				f.print(w)
			})
		}),
	}
}

func (a *app) balanceCommand() *cobra.Command {
	return &cobra.Command{
		Use: "balance", Short: "Measure how evenly leaders and replicas are spread",
		Long: `Measure how evenly leaders and replicas are spread over the active brokers.

The coefficient of variation is the population standard deviation of the counts
per active broker, divided by their mean: 0 is even. It has no value (null in
JSON) while nothing is placed.`,
		Args: noArguments,
		RunE: a.run(func(c *call) error {
			r, err := c.Brokers.GetBalance(c.context, &adminv1.GetBalanceRequest{})
			if err != nil {
				return err
			}
			return c.print(r.GetBalance(), func(w io.Writer) { printBalance(w, r.GetBalance()) })
		}),
	}
}

func (a *app) rebalanceCommand() *cobra.Command {
	var request adminv1.RebalanceRequest
	var waits bool
	c := &cobra.Command{
		Use: "rebalance", Short: "Spread replicas and leaders evenly over the active brokers",
		Long: `Spread replicas and leaders evenly over the active brokers.

The plan is shown and then carried out as an operation that survives a change of
controller. While one is running, the same request attaches to it.`,
		Args: noArguments,
		RunE: a.run(func(c *call) error {
			r, err := c.Brokers.Rebalance(c.context, &request)
			if err != nil {
				return err
			}
			waited := waits && r.GetOperation() != nil
			var waitErr error
			if waited {
				r.Operation, waitErr = c.wait(r.GetOperation())
			}
			s := started{"rebalance", r.GetPlan(), r.GetOperation(), r.GetAttached(), r.GetDryRun(), waited}
			if err := c.print(r, s.print); err != nil {
				return err
			}
			return waitErr
		}),
	}
	c.Flags().Int32Var(&request.MaxMoves, "max-moves", 0, "the most partitions to touch (0: no bound)")
	fenceFlag(c, &request.PlacementRevision)
	dryRunFlag(c, &request.DryRun)
	waitFlag(c, &waits)
	return c
}

func (a *app) brokerIDFlag(c *cobra.Command, value *int32) {
	c.Flags().Var(idValue{value}, "broker-id", "the broker")
	_ = c.RegisterFlagCompletionFunc("broker-id", a.complete(nodeIDs))
}

func (a *app) unloadCommand() *cobra.Command {
	var request adminv1.UnloadRequest
	var waits bool
	c := &cobra.Command{
		Use: "unload --broker-id ID", Short: "Drain a broker: hand away its leaders, and move every replica that has another home",
		Long: `Drain a broker: hand away its leaders, and move every replica that has another home.

The broker stays a member and can be taken back with brokers activate. A replica
that fits nowhere else stays, since the cluster must keep its replication factor.
With --wait the command ends with the drain certificate, which counts what the
broker still holds. The same request attaches to an unload that is running.`,
		Args: noArguments,
		RunE: a.run(func(c *call) error {
			if err := requireFlag(c.command, "broker-id", "4"); err != nil {
				return err
			}
			r, err := c.Brokers.Unload(c.context, &request)
			if err != nil {
				return err
			}
			waited := waits && !r.GetDryRun()
			var waitErr error
			if waited {
				waitErr = c.waitUnloaded(r)
			}
			s := started{fmt.Sprintf("unload of broker %d", request.GetBrokerId()), r.GetPlan(), r.GetOperation(), r.GetAttached(), r.GetDryRun(), waited}
			if err := c.print(r, func(w io.Writer) {
				s.print(w)
				if waited {
					printCertificate(w, r.GetCertificate())
				}
			}); err != nil {
				return err
			}
			return waitErr
		}),
	}
	a.brokerIDFlag(c, &request.BrokerId)
	fenceFlag(c, &request.PlacementRevision)
	dryRunFlag(c, &request.DryRun)
	waitFlag(c, &waits)
	return c
}

// waitUnloaded waits for the operation and takes a new certificate, also when the
// wait ended badly: what is left then matters most.
func (c *call) waitUnloaded(r *adminv1.UnloadResponse) error {
	var waitErr error
	if r.GetOperation() != nil {
		r.Operation, waitErr = c.wait(r.GetOperation())
	}
	certificate, err := c.Brokers.GetDrainCertificate(c.context, &adminv1.GetDrainCertificateRequest{BrokerId: r.GetCertificate().GetBrokerId()})
	if err == nil {
		r.Certificate = certificate.GetCertificate()
	}
	if waitErr != nil {
		return waitErr
	}
	return err
}

// stateFlags are those of activate, cordon and uncordon.
func (a *app) stateFlags(c *cobra.Command, broker *int32, reason *string, dryRun *bool) {
	a.brokerIDFlag(c, broker)
	c.Flags().StringVar(reason, "reason", "", "why, for the record")
	dryRunFlag(c, dryRun)
}

func (a *app) activateCommand() *cobra.Command {
	var request adminv1.ActivateRequest
	c := &cobra.Command{
		Use: "activate --broker-id ID", Short: "Let a broker take replicas and lead", Args: noArguments,
		Long: `Let a broker take replicas and lead: a new one, or one that was cordoned or unloaded.

Nothing moves to it by itself: next is brokers rebalance.`,
		RunE: a.run(func(c *call) error {
			if err := requireFlag(c.command, "broker-id", "4"); err != nil {
				return err
			}
			r, err := c.Brokers.Activate(c.context, &request)
			if err != nil {
				return err
			}
			return c.print(r, func(w io.Writer) {
				change(w, fmt.Sprintf("broker %d", request.GetBrokerId()), "active", r.GetAlready(), r.GetDryRun())
			})
		}),
	}
	a.stateFlags(c, &request.BrokerId, &request.Reason, &request.DryRun)
	return c
}

func (a *app) cordonCommand() *cobra.Command {
	var request adminv1.CordonRequest
	c := &cobra.Command{
		Use: "cordon --broker-id ID", Short: "Keep new replicas off a broker; it keeps what it has", Args: noArguments,
		RunE: a.run(func(c *call) error {
			if err := requireFlag(c.command, "broker-id", "4"); err != nil {
				return err
			}
			r, err := c.Brokers.Cordon(c.context, &request)
			if err != nil {
				return err
			}
			return c.print(r, func(w io.Writer) {
				change(w, fmt.Sprintf("broker %d", request.GetBrokerId()), "cordoned", r.GetAlready(), r.GetDryRun())
			})
		}),
	}
	a.stateFlags(c, &request.BrokerId, &request.Reason, &request.DryRun)
	return c
}

func (a *app) uncordonCommand() *cobra.Command {
	var request adminv1.UncordonRequest
	c := &cobra.Command{
		Use: "uncordon --broker-id ID", Short: "Take a cordon back", Args: noArguments,
		RunE: a.run(func(c *call) error {
			if err := requireFlag(c.command, "broker-id", "4"); err != nil {
				return err
			}
			r, err := c.Brokers.Uncordon(c.context, &request)
			if err != nil {
				return err
			}
			return c.print(r, func(w io.Writer) {
				change(w, fmt.Sprintf("broker %d", request.GetBrokerId()), "active", r.GetAlready(), r.GetDryRun())
			})
		}),
	}
	a.stateFlags(c, &request.BrokerId, &request.Reason, &request.DryRun)
	return c
}
