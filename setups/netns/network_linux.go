package netns

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

const (
	// brokersMax is how many /30 networks to this machine fit in a run's /24, and
	// how many neighbours every namespace knows.
	brokersMax = 60
	// hubIndex is the address of the bridge, where proxies listen.
	hubIndex = 254
	// nobody is the last byte of a hardware address that no end has.
	nobody = 255
	// clientDevice and clusterDevice are a broker's ends of its two links.
	clientDevice  = "clients0"
	clusterDevice = "cluster0"
	bridgeDevice  = "cluster"
	// lockFile keeps runs that choose addresses apart.
	lockFile = "/run/lock/ister-netns.lock"
	// burstMin is the least that a rate lets through at once: a segment as TCP hands
	// it to the device.
	burstMin = 64 << 10
)

// clientNetworks is where runs take the addresses of clients' links from: it is
// set aside for tests of networks (RFC 2544), so that nobody routes it.
var clientNetworks = netip.MustParsePrefix("198.18.0.0/15")

// end is a broker by its number, or the hub of the network between them.
type end int

const hub end = hubIndex

// endOf is the end of a broker, b1, b2, ...
func endOf(broker string) (end, error) {
	n, err := strconv.Atoi(strings.TrimPrefix(broker, "b"))
	if err != nil || n < 1 || n > brokersMax {
		return 0, fmt.Errorf("broker %s: this setup has room for b1 to b%d", broker, brokersMax)
	}
	return end(n), nil
}

func (e end) String() string {
	if e == hub {
		return "hub"
	}
	return fmt.Sprintf("b%d", int(e))
}

// inner is its address on the network between brokers, which only namespaces of
// the run have, so that every run uses the same.
func (e end) inner() string { return fmt.Sprintf("10.66.0.%d", int(e)) }

// hardware is its hardware address there.
func (e end) hardware() net.HardwareAddr {
	return net.HardwareAddr{0x02, 0x49, 0x53, 0x54, 0, byte(e)}
}

// ownerOf names the broker that has an address on the network between brokers.
func ownerOf(a net.Addr) string {
	at, err := netip.ParseAddrPort(a.String())
	if err != nil || !at.Addr().Unmap().Is4() {
		return ""
	}
	bytes := at.Addr().Unmap().As4()
	return end(bytes[3]).String()
}

// network is what a run has of namespaces. Its methods may be called from any
// goroutine.
type network struct {
	run  run
	cuts cuts

	mu      sync.Mutex
	spaces  map[end]*space // guarded by mu
	clients netip.Prefix   // guarded by mu; of this run, once there is a broker
	closed  bool           // guarded by mu
}

// space is one namespace.
type space struct {
	ns     netns.NsHandle
	handle *netlink.Handle
	inside netlink.Link // its device on the network between brokers
}

func newNetwork(r run) *network { return &network{run: r, spaces: map[end]*space{}} }

// space is the name of an end's namespace.
func (r run) space(e end) string { return "ister-" + r.id + "-" + r.owner + "-" + e.String() }

// device is the name of this machine's end of a broker's link; it has room for 15
// bytes, so that only the owner's mark tells the run.
func (r run) device(rest string) string { return "is" + r.owner + rest }

// add makes the namespace of a broker and both its links, and returns its address
// for clients.
func (n *network) add(e end) (outer string, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return "", errors.New("the network is closed")
	}
	if n.spaces[hub] == nil {
		if err := n.addHub(); err != nil {
			return "", fmt.Errorf("make the network between brokers: %w", err)
		}
	}
	s, err := n.open(e)
	if err != nil {
		return "", err
	}
	if err := n.plugIn(s, e); err != nil {
		return "", fmt.Errorf("put %s on the network between brokers: %w", e, err)
	}
	outer, err = n.plugOut(s, e)
	if err != nil {
		return "", fmt.Errorf("link %s to this machine: %w", e, err)
	}
	return outer, n.applyLocked()
}

// open makes a namespace and its loopback.
func (n *network) open(e end) (*space, error) {
	var ns netns.NsHandle
	if err := apart(func() (err error) {
		ns, err = netns.NewNamed(n.run.space(e))
		return err
	}); err != nil {
		return nil, fmt.Errorf("make namespace %s: %w", n.run.space(e), err)
	}
	s := &space{ns: ns}
	n.spaces[e] = s
	var err error
	if s.handle, err = netlink.NewHandleAt(ns, unix.NETLINK_ROUTE); err != nil {
		return nil, fmt.Errorf("talk to namespace %s: %w", n.run.space(e), err)
	}
	return s, s.up("lo", "")
}

// up sets a device up, with an address unless that is "".
func (s *space) up(device, address string) error {
	link, err := s.handle.LinkByName(device)
	if err != nil {
		return fmt.Errorf("find device %s: %w", device, err)
	}
	if address != "" {
		a, err := netlink.ParseAddr(address)
		if err != nil {
			return fmt.Errorf("address %s: %w", address, err)
		}
		if err := s.handle.AddrAdd(link, a); err != nil {
			return fmt.Errorf("give %s the address %s: %w", device, address, err)
		}
	}
	if err := s.handle.LinkSetUp(link); err != nil {
		return fmt.Errorf("set %s up: %w", device, err)
	}
	return nil
}

// addHub makes the bridge between the brokers, in a namespace of its own: this
// machine's rules for bridges and forwarding do not reach it.
func (n *network) addHub() error {
	s, err := n.open(hub)
	if err != nil {
		return err
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.HardwareAddr = bridgeDevice, hub.hardware()
	if err := s.handle.LinkAdd(&netlink.Bridge{LinkAttrs: attrs}); err != nil {
		return fmt.Errorf("make a bridge: %w", err)
	}
	if err := s.up(bridgeDevice, hub.inner()+"/24"); err != nil {
		return err
	}
	s.inside, err = s.handle.LinkByName(bridgeDevice)
	return err
}

// plugIn links a namespace with the bridge.
func (n *network) plugIn(s *space, e end) error {
	bridge := n.spaces[hub]
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MasterIndex = e.String(), bridge.inside.Attrs().Index
	veth := netlink.NewVeth(attrs)
	veth.PeerName, veth.PeerHardwareAddr, veth.PeerNamespace = clusterDevice, e.hardware(), netlink.NsFd(s.ns)
	if err := bridge.handle.LinkAdd(veth); err != nil {
		return fmt.Errorf("make a link: %w", err)
	}
	if err := errors.Join(bridge.up(e.String(), ""), s.up(clusterDevice, e.inner()+"/24")); err != nil {
		return err
	}
	var err error
	s.inside, err = s.handle.LinkByName(clusterDevice)
	return err
}

// plugOut links a namespace with this machine.
func (n *network) plugOut(s *space, e end) (outer string, err error) {
	unlock, err := lock()
	if err != nil {
		return "", err
	}
	defer unlock()
	if !n.clients.IsValid() {
		if n.clients, err = freeNetwork(); err != nil {
			return "", err
		}
	}
	bytes := n.clients.Addr().As4()
	at := func(i int) string { return fmt.Sprintf("%d.%d.%d.%d", bytes[0], bytes[1], bytes[2], 4*int(e)+i) }
	here := &space{}
	if here.handle, err = netlink.NewHandle(unix.NETLINK_ROUTE); err != nil {
		return "", fmt.Errorf("talk to this machine's network: %w", err)
	}
	defer here.handle.Close()
	attrs := netlink.NewLinkAttrs()
	attrs.Name = n.run.device(e.String())
	veth := netlink.NewVeth(attrs)
	veth.PeerName, veth.PeerNamespace = clientDevice, netlink.NsFd(s.ns)
	if err := here.handle.LinkAdd(veth); err != nil {
		return "", fmt.Errorf("make a link: %w", err)
	}
	link, err := here.handle.LinkByName(attrs.Name)
	if err == nil {
		err = here.handle.LinkSetAlias(link, "ister run "+n.run.id+" "+e.String())
	}
	if err != nil {
		return "", fmt.Errorf("name link %s: %w", attrs.Name, err)
	}
	return at(2), errors.Join(here.up(attrs.Name, at(1)+"/30"), s.up(clientDevice, at(2)+"/30"))
}

// lock keeps other runs from choosing addresses meanwhile.
func lock() (unlock func(), err error) {
	if err := os.MkdirAll("/run/lock", 0o755); err != nil {
		return nil, fmt.Errorf("make a folder for locks: %w", err)
	}
	file, err := os.OpenFile(lockFile, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", lockFile, err)
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX); err != nil {
		file.Close()
		return nil, fmt.Errorf("lock %s: %w", lockFile, err)
	}
	return func() { file.Close() }, nil
}

// freeNetwork finds a /24 that this machine has no route to.
func freeNetwork() (netip.Prefix, error) {
	routes, err := netlink.RouteList(nil, netlink.FAMILY_V4)
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("list this machine's routes: %w", err)
	}
	var taken []netip.Prefix
	for _, r := range routes {
		if r.Dst == nil {
			continue
		}
		ip, _ := netip.AddrFromSlice(r.Dst.IP.To4())
		if ones, _ := r.Dst.Mask.Size(); ip.IsValid() && ones > 0 {
			taken = append(taken, netip.PrefixFrom(ip, ones))
		}
	}
	base := clientNetworks.Addr().As4()
	for _, i := range rand.Perm(512) {
		p := netip.PrefixFrom(netip.AddrFrom4([4]byte{base[0], base[1] + byte(i/256), byte(i % 256), 0}), 24)
		free := true
		for _, t := range taken {
			free = free && !t.Overlaps(p)
		}
		if free {
			return p, nil
		}
	}
	return netip.Prefix{}, fmt.Errorf("every network of %s is in use: end what routes it, such as old runs (scenario clean --all)", clientNetworks)
}

// apply writes the neighbours of every namespace: who hears whom.
func (n *network) apply() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.applyLocked()
}

func (n *network) applyLocked() error {
	for from, s := range n.spaces {
		if s.inside == nil {
			continue // it is being made
		}
		for to := range end(hubIndex + 1) {
			if to == from || to == 0 || to > brokersMax && to != hub {
				continue
			}
			address := to.hardware()
			if n.cuts.lost(from.String(), to.String()) {
				address = end(nobody).hardware()
			}
			if err := s.handle.NeighSet(&netlink.Neigh{LinkIndex: s.inside.Attrs().Index, Family: unix.AF_INET, State: netlink.NUD_PERMANENT,
				IP: net.ParseIP(to.inner()), HardwareAddr: address}); err != nil {
				return fmt.Errorf("tell %s where %s is: %w", from, to, err)
			}
		}
	}
	return nil
}

// limit bounds what a broker sends to the others, and what it gets, each; 0 is no
// bound.
func (n *network) limit(broker string, bytesPerSecond int64) error {
	e, err := endOf(broker)
	if err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	own, bridge := n.spaces[e], n.spaces[hub]
	if own == nil || bridge == nil {
		return fmt.Errorf("%s has no namespace", broker)
	}
	port, err := bridge.handle.LinkByName(e.String())
	if err != nil {
		return fmt.Errorf("find the link of %s: %w", broker, err)
	}
	return errors.Join(own.rate(own.inside, bytesPerSecond), bridge.rate(port, bytesPerSecond))
}

// rate bounds what leaves by a device.
func (s *space) rate(link netlink.Link, bytesPerSecond int64) error {
	root := netlink.QdiscAttrs{LinkIndex: link.Attrs().Index, Handle: netlink.MakeHandle(1, 0), Parent: netlink.HANDLE_ROOT}
	if bytesPerSecond == 0 {
		err := s.handle.QdiscDel(&netlink.Tbf{QdiscAttrs: root})
		if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EINVAL) { // there is none
			return nil
		}
		return err
	}
	burst := max(burstMin, bytesPerSecond/10)
	// The buffer is a time: how long the burst takes at the rate, in the kernel's
	// ticks.
	err := s.handle.QdiscReplace(&netlink.Tbf{QdiscAttrs: root, Rate: uint64(bytesPerSecond), Limit: uint32(4 * burst),
		Buffer: netlink.Xmittime(uint64(bytesPerSecond), uint32(burst))})
	if err != nil {
		return fmt.Errorf("bound the rate of %s (token bucket, sch_tbf): %w", link.Attrs().Name, err)
	}
	return nil
}

// within runs f on a thread that is in an end's namespace. What f starts or opens
// stays there.
func (n *network) within(e end, f func() error) error {
	n.mu.Lock()
	s := n.spaces[e]
	n.mu.Unlock()
	if s == nil {
		return fmt.Errorf("%s has no namespace", e)
	}
	return apart(func() error {
		if err := netns.Set(s.ns); err != nil {
			return fmt.Errorf("enter the namespace of %s: %w", e, err)
		}
		return f()
	})
}

// dial connects from the hub.
func (n *network) dial(ctx context.Context, address string) (conn net.Conn, err error) {
	err = n.within(hub, func() (err error) {
		conn, err = new(net.Dialer).DialContext(ctx, "tcp", address)
		return err
	})
	return conn, err
}

// apart runs f on a thread of its own, which ends with it: one that changed its
// namespace must not serve another goroutine.
func apart(f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		done <- f()
	}()
	return <-done
}

// close removes everything, and returns what it could not.
func (n *network) close() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.closed = true
	for _, s := range n.spaces {
		if s.handle != nil {
			s.handle.Close()
		}
		_ = s.ns.Close()
	}
	clear(n.spaces)
	return removeRun(n.run)
}
