package node

import (
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/ister-mq/ister/broker/internal/metadata"
)

// defaultRaftPort completes a seed given without a port.
const defaultRaftPort = "7650"

// parseListen reads host:port, :port or a bare port; the absent host is every
// interface.
func parseListen(s string) (string, error) {
	if _, err := strconv.ParseUint(s, 10, 16); err == nil {
		return "0.0.0.0:" + s, nil
	}
	host, port, err := splitHostPort(s)
	if err != nil {
		return "", err
	}
	if host == "" {
		host = "0.0.0.0"
	}
	return net.JoinHostPort(host, port), nil
}

// parseAdvertised reads an address that others can connect to: no wildcard, no
// port 0.
func parseAdvertised(s string) (string, error) {
	host, port, err := splitHostPort(s)
	switch {
	case err != nil:
		return "", err
	case host == "" || isWildcard(host):
		return "", fmt.Errorf("nobody can connect to a wildcard address; give the host name or IP that others use")
	case port == "0":
		return "", fmt.Errorf("nobody can connect to port 0; give the port that others use")
	}
	return net.JoinHostPort(host, port), nil
}

// parseSeed reads host:port, or a host with the default port.
func parseSeed(s string) (string, error) {
	if _, err := strconv.ParseUint(s, 10, 16); err == nil {
		s = "127.0.0.1:" + s
	} else if !strings.Contains(s, ":") {
		s = net.JoinHostPort(s, defaultRaftPort)
	}
	return parseAdvertised(s)
}

func splitHostPort(s string) (host, port string, err error) {
	host, port, err = net.SplitHostPort(s)
	if err != nil {
		return "", "", fmt.Errorf("expected host:port, :port or port (an IPv6 address in brackets)")
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return "", "", fmt.Errorf("port %q: expected a number from 0 to 65535", port)
	}
	return host, port, nil
}

func isWildcard(host string) bool {
	ip := net.ParseIP(host)
	return ip != nil && ip.IsUnspecified()
}

// advertise decides the addresses that others are given, from the listeners that
// are already bound. An explicit setting wins; then the listen host; for a
// wildcard, the host under which the seeds know this node, or the address that
// routes to them. With no hint it is 127.0.0.1, and hint is false: only this
// machine can connect then.
func advertise(c Config, broker, admin, raft, metrics net.Listener) (endpoints metadata.Endpoints, hint bool) {
	fallback, hint := fallbackHost(c.SeedNodes, portOf(raft))
	derive := func(explicit string, l net.Listener) string {
		if explicit != "" {
			return explicit
		}
		host, _, _ := net.SplitHostPort(l.Addr().String())
		if isWildcard(host) {
			host = fallback
		}
		return net.JoinHostPort(host, portOf(l))
	}
	endpoints = metadata.Endpoints{
		Kafka: derive(c.AdvertisedBroker, broker),
		Admin: derive(c.AdvertisedAdmin, admin),
		Raft:  derive(c.AdvertisedRaft, raft),
	}
	if metrics != nil {
		endpoints.Metrics = derive("", metrics)
	}
	return endpoints, hint || c.AdvertisedBroker != "" || !listensWild(broker)
}

func listensWild(l net.Listener) bool {
	host, _, _ := net.SplitHostPort(l.Addr().String())
	return isWildcard(host)
}

func portOf(l net.Listener) string {
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

// fallbackHost is the host to advertise for a wildcard listener.
func fallbackHost(seeds []string, raftPort string) (host string, hint bool) {
	local := localAddresses()
	for _, s := range seeds {
		seedHost, seedPort, _ := net.SplitHostPort(s)
		if seedPort != raftPort {
			continue
		}
		for _, ip := range resolve(seedHost) {
			if ip.IsLoopback() || local[ip.String()] {
				return seedHost, true
			}
		}
	}
	for _, s := range seeds {
		// Connecting a UDP socket sends nothing; it asks for the route.
		conn, err := net.Dial("udp", s)
		if err != nil {
			continue
		}
		address := conn.LocalAddr().(*net.UDPAddr).IP
		conn.Close()
		return address.String(), true
	}
	return "127.0.0.1", false
}

func resolve(host string) []net.IP {
	if ip := net.ParseIP(host); ip != nil {
		return []net.IP{ip}
	}
	ips, err := net.LookupIP(host)
	if err != nil {
		return nil
	}
	return ips
}

func localAddresses() map[string]bool {
	out := map[string]bool{}
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return out
	}
	for _, a := range addresses {
		if network, ok := a.(*net.IPNet); ok {
			out[network.IP.String()] = true
		}
	}
	return out
}
