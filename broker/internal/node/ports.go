package node

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"syscall"

	"github.com/ister-mq/ister/broker/internal/controlplane"
)

// ports are the bound listeners; metrics is nil when it has no port of its own.
type ports struct{ broker, admin, raft, metrics net.Listener }

// bind takes every port, before anything else is touched: a node that could not
// serve must not register.
func bind(c Config) (p ports, err error) {
	defer func() {
		if err != nil {
			p.close()
			p = ports{}
		}
	}()
	for _, b := range []struct {
		flag, address string
		to            *net.Listener
	}{
		{"broker-addr", c.BrokerAddr, &p.broker}, {"admin-addr", c.AdminAddr, &p.admin},
		{"raft-addr", c.RaftAddr, &p.raft}, {"prom-exporter", c.MetricsAddr, &p.metrics},
	} {
		if b.address == "" {
			continue
		}
		l, err := net.Listen("tcp", b.address)
		if err != nil {
			return p, bindError(b.flag, b.address, err)
		}
		*b.to = l
	}
	return p, nil
}

func bindError(flag, address string, err error) error {
	if errors.Is(err, syscall.EADDRINUSE) {
		dynamic, _ := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
		return &controlplane.Error{
			Code: "ADDRESS_IN_USE", Message: fmt.Sprintf("%s is taken by another process", address),
			Advice:     fmt.Sprintf("give another port with --%s, or end the process that has it (`ss -tanp` shows it)%s", flag, dynamicAdvice(address, string(dynamic))),
			ExitStatus: controlplane.ExitAddressInUse, Err: err,
		}
	}
	return fmt.Errorf("listen on %s (--%s): %w", address, flag, err)
}

// dynamicAdvice is what to do about a port that the machine may give to any outgoing
// connection, so that nobody listens on it and it is taken all the same; "" for
// others. The range is as Linux prints it, "32768 60999".
func dynamicAdvice(address, portRange string) string {
	var first, last int
	_, text, err := net.SplitHostPort(address)
	port, notNumber := strconv.Atoi(text)
	if n, _ := fmt.Sscan(portRange, &first, &last); err != nil || notNumber != nil || n != 2 || port < first || port > last {
		return ""
	}
	return fmt.Sprintf("; the system gives ports %d to %d to outgoing connections, so one may have it: keep it free with `sysctl -w net.ipv4.ip_local_reserved_ports=%d`, with those that are reserved already", first, last, port)
}

func (p ports) close() {
	for _, l := range []net.Listener{p.broker, p.admin, p.raft, p.metrics} {
		if l != nil {
			l.Close()
		}
	}
}
