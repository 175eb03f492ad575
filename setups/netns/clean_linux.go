package netns

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/ister-mq/ister/setups"
)

const (
	// spacesDir is where named namespaces are.
	spacesDir = "/run/netns"
	// killWait bounds the wait for processes that were killed in a namespace.
	killWait = 5 * time.Second
)

// removeRun removes what a run has of namespaces and links, also after its runner
// was killed, and again. A process that is still in one is killed: only brokers of
// the run were started there. It returns what is still there.
func removeRun(r run) (leftovers []string) {
	entries, err := os.ReadDir(spacesDir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		leftovers = append(leftovers, fmt.Sprintf("namespaces: %v", err))
	}
	for _, entry := range entries {
		if !r.has(entry.Name()) {
			continue
		}
		path := filepath.Join(spacesDir, entry.Name())
		if err := emptySpace(path); err != nil {
			leftovers = append(leftovers, fmt.Sprintf("namespace %s: %v", entry.Name(), err))
			continue
		}
		// A file that nothing is mounted on is of a run that was killed while it made
		// the namespace.
		if err := unix.Unmount(path, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) {
			leftovers = append(leftovers, fmt.Sprintf("namespace %s: %v", entry.Name(), err))
			continue
		}
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			leftovers = append(leftovers, fmt.Sprintf("namespace %s: %v", entry.Name(), err))
		}
	}
	return append(leftovers, removeLinks(r)...)
}

// has reports whether a namespace is the run's.
func (r run) has(name string) bool {
	name, ours := strings.CutPrefix(name, strings.TrimSuffix(r.space(hub), hub.String()))
	_, err := endOf(name)
	return ours && (err == nil || name == hub.String())
}

// removeLinks removes this machine's ends of links. They go with the other end as
// well, but only some time after the namespace.
func removeLinks(r run) (leftovers []string) {
	links, err := netlink.LinkList()
	if err != nil {
		return []string{fmt.Sprintf("links: %v", err)}
	}
	for _, link := range links {
		if !strings.HasPrefix(link.Attrs().Name, r.device("b")) {
			continue
		}
		err := netlink.LinkDel(link)
		var gone netlink.LinkNotFoundError
		if err != nil && !errors.Is(err, unix.ENODEV) && !errors.As(err, &gone) {
			leftovers = append(leftovers, fmt.Sprintf("link %s: %v", link.Attrs().Name, err))
		}
	}
	return leftovers
}

// emptySpace kills what runs in a namespace, and waits until it is gone.
func emptySpace(path string) error {
	var space unix.Stat_t
	if err := unix.Stat(path, &space); err != nil {
		return err
	}
	deadline := time.Now().Add(killWait)
	for {
		inside, err := processesIn(space)
		if err != nil || len(inside) == 0 {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("processes %v do not end", inside)
		}
		for _, pid := range inside {
			if err := unix.Kill(pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
				return fmt.Errorf("kill process %d: %w", pid, err)
			}
		}
		time.Sleep(20 * time.Millisecond) // these are no children of ours
	}
}

// processesIn lists the processes whose network namespace is the given one.
func processesIn(space unix.Stat_t) (pids []int, err error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		var own unix.Stat_t
		if unix.Stat(filepath.Join("/proc", entry.Name(), "ns", "net"), &own) == nil && own.Dev == space.Dev && own.Ino == space.Ino {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// checkMachine says what is missing for namespaces, by making one.
func checkMachine() []setups.Finding {
	if os.Geteuid() != 0 {
		return []setups.Finding{{Code: "ROOT", Fatal: true, Message: "this user may not make network namespaces", Remedy: "run it as root (sudo), or use the setup process or container"}}
	}
	for _, probe := range []struct {
		what, module string
		run          func() error
	}{
		{"network namespaces", "a kernel with CONFIG_NET_NS, and in a container --privileged", func() error { return nil }},
		{"bridges", "modprobe bridge", func() error { return probeLink(&netlink.Bridge{LinkAttrs: probeAttrs()}) }},
		{"pairs of links", "modprobe veth", func() error {
			veth := netlink.NewVeth(probeAttrs())
			veth.PeerName = "probe1"
			return probeLink(veth)
		}},
		{"token buckets", "modprobe sch_tbf", probeRate},
	} {
		if err := apart(func() error {
			ns, err := netns.New()
			if err != nil {
				return err
			}
			defer ns.Close()
			return probe.run()
		}); err != nil {
			return []setups.Finding{{Code: "NETWORK_NAMESPACES", Fatal: true, Message: fmt.Sprintf("this kernel gives no %s: %v", probe.what, err), Remedy: probe.module + "; or use the setup process or container"}}
		}
	}
	return []setups.Finding{{Code: "NETWORK_NAMESPACES", OK: true, Message: "namespaces, bridges, links and rates can be made"}}
}

func probeAttrs() netlink.LinkAttrs {
	attrs := netlink.NewLinkAttrs()
	attrs.Name = "probe0"
	return attrs
}

// probeLink makes a link in the namespace of this thread, with which it goes.
func probeLink(link netlink.Link) error {
	handle, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer handle.Close()
	return handle.LinkAdd(link)
}

func probeRate() error {
	handle, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer handle.Close()
	lo, err := handle.LinkByName("lo")
	if err != nil {
		return err
	}
	return (&space{handle: handle}).rate(lo, 1<<20)
}
