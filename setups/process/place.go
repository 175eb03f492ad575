package process

import (
	"fmt"
	"net"

	"github.com/ister-mq/ister/setups"
)

// Place is where one broker listens and its process lives.
type Place struct {
	// Kafka, Admin, Raft and Metrics are the addresses it listens on, which are
	// those that others are told; Admin is the one for clients on this machine.
	Kafka, Admin, Raft, Metrics string
	// InnerAdmin is the admin address for other brokers, where that is another
	// one; the broker then listens on all its addresses.
	InnerAdmin string
	// Within starts the process in its place; nil: here.
	Within func(start func() error) error
}

// Placer is a cluster of processes whose brokers somebody else gives places.
// Place is called before Form; the function is called once for each broker,
// before its first start.
type Placer interface {
	Place(func(name string) (Place, error))
}

// Place implements Placer.
func (c *cluster) Place(place func(name string) (Place, error)) { c.place = place }

// here is a place on this machine, on free ports.
func here(string) (Place, error) {
	ports, err := setups.FreePorts(4)
	if err != nil {
		return Place{}, err
	}
	at := func(i int) string { return fmt.Sprintf("127.0.0.1:%d", ports[i]) }
	return Place{Kafka: at(0), Admin: at(1), Raft: at(2), Metrics: at(3)}, nil
}

// admin is the value of --admin-addr, and what goes with it.
func (p Place) admin() []string {
	if p.InnerAdmin == "" {
		return []string{p.Admin}
	}
	_, port, _ := net.SplitHostPort(p.Admin) // placed by this program
	return []string{"0.0.0.0:" + port, "--advertised-admin-addr", p.InnerAdmin}
}

// within runs start where the broker's process has to be started.
func (p Place) within(start func() error) error {
	if p.Within == nil {
		return start()
	}
	return p.Within(start)
}
