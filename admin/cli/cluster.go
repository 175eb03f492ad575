package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/ister-mq/ister/admin/adminv1"
	"github.com/ister-mq/ister/admin/client"
)

func (a *app) clusterCommand() *cobra.Command {
	return newGroup("cluster", "Members of the cluster, and operations under way",
		"Members of the cluster, and operations under way.",
		a.statusCommand(), a.healthCommand(), a.membersCommand(), a.addNodeCommand(), a.promoteNodeCommand(), a.demoteNodeCommand(), a.removeNodeCommand(),
		a.transferCommand(), a.movesCommand(), a.operationsCommand())
}

func (a *app) statusCommand() *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: "Show the node asked, and the cluster as a whole",
		Long: `Show the node asked, and the cluster as a whole.

The lines from "Self Node ID" to "Last Applied" are about the node that --endpoint
names. Voters and learners come from the controller, or from the node asked when
the controller cannot be reached; "Answered By" says which. Which brokers are alive,
and with them the state of partitions, is unknown where no controller answers.

Offline partitions have no leader. Under-replicated ones have a replica that is not
in sync. Undersized ones have fewer replicas than their topic wants, because there
were too few brokers; replicas are added when brokers are.`,
		Args: noArguments,
		RunE: a.run(func(c *call) error {
			s, err := c.Cluster.GetStatus(c.context, &adminv1.GetStatusRequest{})
			if err != nil {
				return err
			}
			return c.print(s, func(w io.Writer) { printStatus(w, s) })
		}),
	}
}

func printStatus(w io.Writer, s *adminv1.GetStatusResponse) {
	var f fields
	self := idOrNone(s.GetSelfNodeId())
	if s.GetSelfNodeId() == 0 {
		self = "none (not admitted yet)"
	}
	f.add("Cluster ID", orDash(s.GetClusterId()))
	f.add("Self Node ID", self)
	if s.GetSelfNodeId() != 0 {
		f.add("Self State", lower(s.GetSelfState()))
	}
	ready := yesNo(s.GetReady())
	if len(s.GetNotReadyReasons()) > 0 && !s.GetReady() {
		ready += ": " + strings.Join(s.GetNotReadyReasons(), "; ")
	}
	f.add("Self Ready", ready)
	f.add("Kafka Address", orDash(s.GetSelfEndpoints().GetKafka()))
	f.add("Admin Address", orDash(s.GetSelfEndpoints().GetAdmin()))
	f.add("Raft Address", orDash(s.GetSelfEndpoints().GetRaft()))
	f.add("Version", orDash(s.GetSelfVersion()))
	f.add("Term", fmt.Sprint(s.GetTerm()))
	f.add("Last Applied", fmt.Sprint(s.GetLastApplied()))
	f.add("Leader", idOrNone(s.GetControllerId()))
	f.add("Leader Address", orDash(s.GetControllerAdminAddress()))
	f.add("Voters", list(s.GetVoters()))
	f.add("Learners", list(s.GetLearners()))
	f.add("Change Pending", yesNo(s.GetMembershipChangePending()))
	f.add("Answered By", idOrNone(s.GetAnsweredBy()))
	f.add("Revision", fmt.Sprintf("%d (placement %d)", s.GetRevision(), s.GetPlacementRevision()))
	f.add("Brokers", fmt.Sprintf("%d, %s active", s.GetBrokers(), knownCount(s.GetActiveBrokers())))
	f.add("Topics", fmt.Sprintf("%d, %s", s.GetTopics(), plural(int(s.GetPartitions()), "partition", "partitions")))
	f.add("Offline", knownPartitions(s.GetOfflinePartitions()))
	f.add("Under-replicated", knownPartitions(s.GetUnderReplicatedPartitions()))
	if n := s.GetUndersizedPartitions().GetValue(); n > 0 {
		f.add("Undersized", knownPartitions(s.GetUndersizedPartitions())+" with fewer replicas than wanted: add brokers")
	}
	f.print(w)
	if s.GetActiveBrokers() == nil && s.GetSelfNodeId() != 0 {
		fmt.Fprintf(w, "\nNo controller answers, so this is only what node %d knew. A majority of the voters must run and reach each other.\n", s.GetAnsweredBy())
	}
}

// knownCount prints a number that may not be known; unknown is not 0.
func knownCount(n *wrapperspb.Int32Value) string {
	if n == nil {
		return "unknown"
	}
	return number(n.GetValue())
}

func knownPartitions(n *wrapperspb.Int32Value) string {
	if n == nil {
		return "unknown"
	}
	return plural(int(n.GetValue()), "partition", "partitions")
}

func (a *app) membersCommand() *cobra.Command {
	return &cobra.Command{
		Use: "members", Short: "List voters and learners", Args: noArguments,
		RunE: a.run(func(c *call) error {
			m, err := c.Cluster.ListMembers(c.context, &adminv1.ListMembersRequest{})
			if err != nil {
				return err
			}
			return c.print(m, func(w io.Writer) {
				t := newTable("NODE", "ROLE", "CONTROLLER", "STATE", "ALIVE", "RAFT ADDRESS", "ADMIN ADDRESS")
				for _, n := range m.GetMembers() {
					t.row(number(n.GetNodeId()), lower(n.GetRole()), yesNo(n.GetController()), lower(n.GetState()), alive(n.GetFenced()), n.GetRaftAddress(), n.GetAdminAddress())
				}
				t.print(w)
				if m.GetMembershipChangePending() {
					fmt.Fprintln(w, "A change of members is under way.")
				}
			})
		}),
	}
}

func alive(fenced bool) string {
	if fenced {
		return "fenced"
	}
	return "yes"
}

func (a *app) addNodeCommand() *cobra.Command {
	var request adminv1.AddNodeRequest
	c := &cobra.Command{
		Use: "add-node --node-addr ADDRESS", Short: "Admit a node that was started with --join, as a learner",
		Long: `Admit a node that was started with --join, as a learner.

It gets its node id and the metadata, votes on nothing and serves nothing yet.
Next: cluster promote-node, brokers activate, brokers rebalance. Repeating it for
an admitted node changes nothing and shows its id.`,
		Example: "  ister admin cluster add-node --node-addr http://127.0.0.1:50054",
		Args:    noArguments,
		RunE: a.run(func(c *call) error {
			if err := requireFlag(c.command, "node-addr", "http://127.0.0.1:50054"); err != nil {
				return err
			}
			if _, err := client.ParseEndpoint(request.GetNodeAddr()); err != nil {
				return &usageError{message: "--node-addr: " + err.Error(), advice: "give the admin address of the node to add", command: c.command.CommandPath()}
			}
			r, err := c.Cluster.AddNode(c.context, &request)
			if err != nil {
				return err
			}
			return c.print(r, func(w io.Writer) {
				switch {
				case r.GetAlready():
					fmt.Fprintf(w, "Node %d is a %s already; nothing was changed.\n", r.GetNodeId(), lower(r.GetRole()))
				case r.GetDryRun():
					fmt.Fprintf(w, "Dry run: the node at %s would be added as a learner; nothing was changed.\n", request.GetNodeAddr())
				default:
					fmt.Fprintf(w, "Added node %d as a learner.\nNext: cluster promote-node --node-id %d\n", r.GetNodeId(), r.GetNodeId())
				}
			})
		}),
	}
	c.Flags().StringVar(&request.NodeAddr, "node-addr", "", "admin address of the node, such as http://127.0.0.1:50054")
	dryRunFlag(c, &request.DryRun)
	return c
}

func (a *app) nodeIDFlag(c *cobra.Command, value *int32, usage string) {
	c.Flags().Var(idValue{value}, "node-id", usage)
	_ = c.RegisterFlagCompletionFunc("node-id", a.complete(nodeIDs))
}

func (a *app) promoteNodeCommand() *cobra.Command {
	var request adminv1.PromoteNodeRequest
	c := &cobra.Command{
		Use: "promote-node --node-id ID", Short: "Make a caught-up learner a voter",
		Long: `Make a caught-up learner a voter.

Refused unless the controller reaches the node, the node has caught up, no other
change of members is under way, and enough voters are alive for the larger quorum.`,
		Args: noArguments,
		RunE: a.run(func(c *call) error {
			if err := requireFlag(c.command, "node-id", "4"); err != nil {
				return err
			}
			r, err := c.Cluster.PromoteNode(c.context, &request)
			if err != nil {
				return err
			}
			return c.print(r, func(w io.Writer) {
				change(w, fmt.Sprintf("node %d", r.GetNodeId()), "a voter", r.GetAlready(), r.GetDryRun())
				fmt.Fprintf(w, "Voters: %s\n", list(r.GetVoters()))
			})
		}),
	}
	a.nodeIDFlag(c, &request.NodeId, "the learner")
	dryRunFlag(c, &request.DryRun)
	return c
}

func (a *app) demoteNodeCommand() *cobra.Command {
	var request adminv1.DemoteNodeRequest
	c := &cobra.Command{
		Use: "demote-node --node-id ID", Short: "Make a voter a learner", Args: noArguments,
		RunE: a.run(func(c *call) error {
			if err := requireFlag(c.command, "node-id", "4"); err != nil {
				return err
			}
			r, err := c.Cluster.DemoteNode(c.context, &request)
			if err != nil {
				return err
			}
			return c.print(r, func(w io.Writer) {
				change(w, fmt.Sprintf("node %d", r.GetNodeId()), "a learner", r.GetAlready(), r.GetDryRun())
				fmt.Fprintf(w, "Voters: %s\n", list(r.GetVoters()))
			})
		}),
	}
	a.nodeIDFlag(c, &request.NodeId, "the voter")
	dryRunFlag(c, &request.DryRun)
	return c
}

// change says what became of a subject.
func change(w io.Writer, subject, state string, already, dryRun bool) {
	switch {
	case already:
		fmt.Fprintf(w, "%s is %s already; nothing was changed.\n", capital(subject), state)
	case dryRun:
		fmt.Fprintf(w, "Dry run: %s would become %s; nothing was changed.\n", subject, state)
	default:
		fmt.Fprintf(w, "%s is now %s.\n", capital(subject), state)
	}
}

func (a *app) removeNodeCommand() *cobra.Command {
	var request adminv1.RemoveNodeRequest
	c := &cobra.Command{
		Use: "remove-node --node-id ID", Short: "Remove an empty node for ever",
		Long: `Remove an empty node for ever: it leaves the quorum and its id is never used again.

Refused, with every blocker named, while the node leads a partition, holds a
replica, takes part in a move, or is needed for the quorum. Run
brokers unload --broker-id ID --wait first. It can be sent to any node. A dry run
exits as the removal would: with 4 when the node is not safe to remove.`,
		Args: noArguments,
		RunE: a.run(func(c *call) error {
			if err := requireFlag(c.command, "node-id", "4"); err != nil {
				return err
			}
			r, err := c.Cluster.RemoveNode(c.context, &request)
			if err != nil {
				return err
			}
			if err := c.print(r, func(w io.Writer) { printRemoved(w, r) }); err != nil {
				return err
			}
			if r.GetDryRun() && !r.GetSafeToRemove() {
				return unsafe(r)
			}
			return nil
		}),
	}
	a.nodeIDFlag(c, &request.NodeId, "the node")
	c.Flags().StringVar(&request.Reason, "reason", "", "why, for the record")
	fenceFlag(c, &request.PlacementRevision)
	dryRunFlag(c, &request.DryRun)
	return c
}

// unsafe is what a dry run of an unsafe removal ends with.
func unsafe(r *adminv1.RemoveNodeResponse) error {
	out := &client.Refusal{
		Kind: adminv1.Refusal_PRECONDITION, Reason: "UNKNOWN_HEALTH", Subject: fmt.Sprintf("node %d", r.GetNodeId()),
		Message: fmt.Sprintf("node %d is not safe to remove", r.GetNodeId()),
	}
	if b := r.GetBlockers(); len(b) > 0 {
		out.Reason, out.Advice = b[0].GetCode(), b[0].GetRemedy()
	}
	return out
}

func printRemoved(w io.Writer, r *adminv1.RemoveNodeResponse) {
	switch {
	case r.GetAlready():
		fmt.Fprintf(w, "Node %d was removed already; nothing was changed.\n", r.GetNodeId())
	case r.GetDryRun() && r.GetSafeToRemove():
		fmt.Fprintf(w, "Dry run: node %d is safe to remove; nothing was changed.\n", r.GetNodeId())
	case r.GetDryRun():
		fmt.Fprintf(w, "Dry run: node %d is not safe to remove; nothing was changed.\n", r.GetNodeId())
	default:
		fmt.Fprintf(w, "Node %d is removed. It stops serving, and its id is never used again.\n", r.GetNodeId())
	}
	printFindings(w, r.GetBlockers())
	fmt.Fprintf(w, "Voters: %s\n", list(r.GetVoters()))
}

func (a *app) transferCommand() *cobra.Command {
	var request adminv1.TransferLeadershipRequest
	c := &cobra.Command{
		Use: "transfer-leadership", Short: "Hand the controller role to another voter", Args: noArguments,
		RunE: a.run(func(c *call) error {
			r, err := c.Cluster.TransferLeadership(c.context, &request)
			if err != nil {
				return err
			}
			return c.print(r, func(w io.Writer) {
				if r.GetControllerId() == 0 {
					fmt.Fprintf(w, "Node %d gave up the controller role; who has it now is not known yet.\n", r.GetFromNodeId())
					return
				}
				fmt.Fprintf(w, "Node %d is now the controller; it was node %d.\n", r.GetControllerId(), r.GetFromNodeId())
			})
		}),
	}
	c.Flags().Var(idValue{&request.ToNodeId}, "to", "the voter to hand it to (default: any other)")
	c.Flags().Var(idValue{&request.FromNodeId}, "from", "refuse unless this node is still the controller")
	_ = c.RegisterFlagCompletionFunc("to", a.complete(nodeIDs))
	return c
}
