package node

import (
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/ister-mq/ister/broker/internal/controlplane"
)

// TestPortOfOutgoingConnectionsIsSaidToBeOne: the default admin ports lie where Linux
// takes the ports of outgoing connections from; `ss -l` then shows nobody.
func TestPortOfOutgoingConnectionsIsSaidToBeOne(t *testing.T) {
	const linux = "32768\t60999\n"
	for _, c := range []struct{ address, portRange, want string }{
		{"127.0.0.1:50051", linux, "net.ipv4.ip_local_reserved_ports=50051"},
		{"[::1]:32768", linux, "ports 32768 to 60999"},
		{"0.0.0.0:60999", linux, "=60999"},
		{"127.0.0.1:6650", linux, ""},
		{"127.0.0.1:61000", linux, ""},
		{"127.0.0.1:50051", "", ""}, // no Linux
		{"127.0.0.1:50051", "32768", ""},
		{"50051", linux, ""},
	} {
		got := dynamicAdvice(c.address, c.portRange)
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s in %q: %q, want %q", c.address, c.portRange, got, c.want)
		}
	}
}

func TestTakenPortIsNamedWithItsFlag(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	_, err = bind(Config{AdminAddr: taken.Addr().String()})
	var e *controlplane.Error
	if !errors.As(err, &e) || e.Code != "ADDRESS_IN_USE" || e.ExitStatus != controlplane.ExitAddressInUse ||
		!strings.Contains(e.Message, taken.Addr().String()) || !strings.Contains(e.Advice, "--admin-addr") {
		t.Errorf("got %v", err)
	}
}
