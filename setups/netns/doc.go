// Package netns runs a cluster as processes of the ister binary, each in a
// network namespace of its own: a link from this machine to each broker, for
// clients, and a network between the brokers that reaches nobody else. What is
// cut off is lost as packets, on the wire, while clients still get in.
//
// It composes the process setup (life, ledger, binary) and the fault setup
// (small disks), and adds only the network. It needs root on Linux.
//
// Which end hears which is a table of fixed neighbours in every namespace: a cut
// points an entry to a hardware address that nobody has. There is no address
// resolution whose failure would tell a broker that its peer is gone.
//
// File map:
//
//	doc.go            this page
//	netns.go          the setup
//	cluster.go        the cluster, its faults and its end
//	cuts.go           which end hears which
//	network_linux.go  namespaces, links and rates
//	clean_linux.go    what a run left, and what this machine lacks
//	other.go          none of it elsewhere
package netns
