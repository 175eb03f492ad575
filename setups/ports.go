package setups

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strings"
)

// PortLow and PortHigh bound the ports that FreePorts takes. They are below the
// range from which the system gives ports to outgoing connections: a broker that
// was killed must find its port free when it comes back, and a client that dials
// it meanwhile must not connect to itself.
const (
	PortLow  = 20000
	PortHigh = 32000
)

// FreePorts finds n ports of 127.0.0.1 that nobody listens on, in no order that
// another run would try as well. The listeners are closed before it returns,
// since somebody else has to bind them.
func FreePorts(n int) ([]int, error) {
	high := PortHigh
	if data, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range"); err == nil {
		var first, last int
		if _, err := fmt.Sscan(strings.TrimSpace(string(data)), &first, &last); err == nil && first > PortLow+2000 {
			high = min(high, first)
		}
	}
	var ports []int
	var held []net.Listener
	defer func() {
		for _, l := range held {
			l.Close()
		}
	}()
	for range 200 * n {
		port := PortLow + rand.IntN(high-PortLow)
		l, err := net.Listen("tcp4", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			continue
		}
		held, ports = append(held, l), append(ports, port)
		if len(ports) == n {
			return ports, nil
		}
	}
	return nil, fmt.Errorf("found only %d of %d free ports in %d..%d", len(ports), n, PortLow, high)
}
