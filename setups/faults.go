package setups

import (
	"context"
	"fmt"
	"time"
)

// Fault names something that can be done to a broker beside ending it.
type Fault string

// The faults.
const (
	FaultCutOff   Fault = "cut_off"   // no traffic between it and the other brokers
	FaultSlow     Fault = "slow"      // delayed or narrow traffic between it and the other brokers
	FaultFillDisk Fault = "fill_disk" // no room on its data's file system
)

// Faults is what a Cluster may implement beside its life. Clients reach a broker
// through all of them. A method that does not work here returns a *Refused, and
// did nothing.
type Faults interface {
	// Can lists the faults that work on this cluster, as it was limited.
	Can() []Fault
	// CutOff takes the network between a broker and every other one away: what is
	// sent vanishes, nothing is refused or reset. Cutting one that is cut off is
	// fine. It lasts over a restart of the broker.
	CutOff(ctx context.Context, name string) error
	// Heal ends CutOff and Slow.
	Heal(ctx context.Context, name string) error
	// Slow changes every connection between a broker and the others.
	Slow(ctx context.Context, name string, link Link) error
	// FillDisk leaves so many bytes free on the file system of a broker's data,
	// FreeDisk takes back what FillDisk wrote.
	FillDisk(ctx context.Context, name string, leaveBytes int64) error
	FreeDisk(ctx context.Context, name string) error
}

// Direction of a cut, as the broker that is cut sees it.
type Direction string

// The directions.
const (
	Both Direction = "both"
	In   Direction = "in"  // nothing reaches it
	Out  Direction = "out" // nothing that it sends arrives
)

// Cut is a part of what CutOff takes away.
type Cut struct {
	Broker    string
	Peer      string    // only between Broker and this one; "": every other
	Direction Direction // "": both
}

// Cutter is a Faults that can also take a part of a broker's network away. Heal
// of either end ends it.
type Cutter interface {
	Cut(ctx context.Context, cut Cut) error
}

// Link is how traffic is hindered, in each direction. The zero value is a link
// without a hindrance.
type Link struct {
	// Delay is added to everything that is sent; up to Jitter more at random,
	// never changing the order.
	Delay  time.Duration
	Jitter time.Duration
	// BytesPerSecond bounds each connection; 0 is no bound.
	BytesPerSecond int64
	// LossPercent is the chance that a piece of a connection's stream is lost on
	// its way and sent again. TCP hides a loss behind a stall: what was lost, and
	// all that follows, is late by a retransmission timeout, which doubles when
	// the repeat is lost as well.
	LossPercent int
}

// Limits of a cluster's brokers, needed by some faults.
type Limits struct {
	// DiskBytes is the size of the file system under each broker's data, kept in
	// memory. 0: none of its own. At least MinDiskBytes.
	DiskBytes int64
	// Links puts something that can hinder traffic between the brokers.
	Links bool
}

// MinDiskBytes is the least size of a data file system of its own: a broker takes
// no records while less than its reserve of 256 MiB is free, and its metadata log
// has 64 MiB from the start.
const MinDiskBytes = 384 << 20

// Check refuses limits that brokers could not run within.
func (l Limits) Check() error {
	if l.DiskBytes != 0 && l.DiskBytes < MinDiskBytes {
		return fmt.Errorf("disk of %d bytes: at least %d are needed", l.DiskBytes, int64(MinDiskBytes))
	}
	return nil
}

// Limiter is a Cluster that can limit its brokers. Limit is called before Form.
type Limiter interface {
	Limit(Limits) error
}

// Fronter is a Cluster that lets something stand in front of its brokers'
// node-to-node ports. Front is called before Form; the function is called once
// for each broker before its first start, with the address it listens on, and
// returns the one to advertise.
type Fronter interface {
	Front(func(name, listens string) (advertised string, err error))
}

// Inner is a Cluster whose brokers reach each other under other addresses than
// clients reach them.
type Inner interface {
	// InnerAdmin is the broker's admin address as other brokers reach it: what
	// `cluster add-node --node-addr` needs.
	InnerAdmin(name string) string
}

// AdminForBrokers is the admin address of a broker as the other brokers of its
// cluster reach it.
func AdminForBrokers(c Cluster, b Broker) string {
	if inner, ok := c.(Inner); ok {
		if address := inner.InnerAdmin(b.Name); address != "" {
			return address
		}
	}
	return b.Admin
}

// Refused is the error of a setup that cannot do what was asked, whatever the
// state of its cluster.
type Refused struct {
	Setup  string
	What   string // the verb and its object
	Why    string
	Remedy string
	// Flag is the flag of the command line that would lift the refusal; "" when
	// nothing does.
	Flag string
	// Here says that it is this machine, or the user's rights on it: elsewhere the
	// setup may do it.
	Here bool
}

// Error implements error.
func (r *Refused) Error() string {
	s := fmt.Sprintf("setup %s cannot %s: %s", r.Setup, r.What, r.Why)
	if r.Remedy != "" {
		s += "; " + r.Remedy
	}
	return s
}
