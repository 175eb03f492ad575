//go:build containers && linux

package netns

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/ister-mq/ister/setups"
)

// These need root: make containers.

// left lists what this machine has of a run.
func left(t *testing.T, r run) (found []string) {
	t.Helper()
	entries, err := os.ReadDir(spacesDir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "ister-"+r.id+"-"+r.owner+"-") {
			found = append(found, e.Name())
		}
	}
	links, err := netlink.LinkList()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range links {
		if strings.HasPrefix(l.Attrs().Name, r.device("")) {
			found = append(found, l.Attrs().Name)
		}
	}
	return found
}

// unique is a run that no other is.
func unique() run {
	return run{fmt.Sprintf("test-%d", time.Now().UnixNano()), fmt.Sprintf("%08x", rand.Uint32())}
}

// made is a network with three ends, and where clients find them.
func made(t *testing.T) (n *network, outer map[end]string) {
	t.Helper()
	n = newNetwork(unique())
	t.Cleanup(func() {
		for _, text := range n.close() {
			t.Errorf("left behind: %s", text)
		}
		if rest := left(t, n.run); len(rest) > 0 {
			t.Errorf("still there: %v", rest)
		}
	})
	outer = map[end]string{}
	for e := end(1); e <= 3; e++ {
		address, err := n.add(e)
		if err != nil {
			t.Fatal(err)
		}
		outer[e] = address
	}
	return n, outer
}

// serve counts what arrives at an end until it is closed, and says so.
func serve(t *testing.T, n *network, e end) {
	t.Helper()
	if err := n.within(e, func() error {
		l, err := net.Listen("tcp4", "0.0.0.0:"+raftPort)
		if err != nil {
			return err
		}
		t.Cleanup(func() { l.Close() })
		go func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				go func() {
					defer conn.Close()
					_, _ = io.Copy(io.Discard, conn)
					_, _ = conn.Write([]byte("all"))
				}()
			}
		}()
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// dial connects from one end to another and bounds the wait.
func dial(n *network, from, to end, within time.Duration) (conn net.Conn, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	err = n.within(from, func() (err error) {
		conn, err = new(net.Dialer).DialContext(ctx, "tcp4", net.JoinHostPort(to.inner(), raftPort))
		return err
	})
	return conn, err
}

const (
	enough  = 10 * time.Second
	tooLong = 500 * time.Millisecond
)

func TestEndsReachEachOtherUntilTheyAreCut(t *testing.T) {
	n, outer := made(t)
	for e := end(1); e <= 3; e++ {
		serve(t, n, e)
	}
	reach := func(from, to end, want bool) {
		t.Helper()
		within := enough
		if !want {
			within = tooLong
		}
		conn, err := dial(n, from, to, within)
		if err == nil {
			conn.Close()
		}
		if (err == nil) != want {
			t.Errorf("%s to %s: %v, want a connection: %v", from, to, err, want)
		}
		// Nothing is refused or reset: the time is up.
		var late net.Error
		if err != nil && !(errors.As(err, &late) && late.Timeout()) {
			t.Errorf("%s to %s: %v, want silence", from, to, err)
		}
	}
	reach(1, 2, true)
	reach(2, 1, true)
	n.cuts.add(setups.Cut{Broker: "b2"})
	if err := n.apply(); err != nil {
		t.Fatal(err)
	}
	reach(1, 2, false)
	reach(2, 3, false)
	reach(1, 3, true)
	if conn, err := net.DialTimeout("tcp4", net.JoinHostPort(outer[2], raftPort), enough); err != nil {
		t.Errorf("a client does not get in: %v", err)
	} else {
		conn.Close()
	}
	n.cuts.heal("b2")
	if err := n.apply(); err != nil {
		t.Fatal(err)
	}
	reach(1, 2, true)
	// One that comes later is cut off as the others are.
	n.cuts.add(setups.Cut{Broker: "b3", Direction: setups.In})
	if _, err := n.add(4); err != nil {
		t.Fatal(err)
	}
	reach(4, 3, false)
	reach(4, 1, true)
}

// What was sent into a cut arrives after it, on the same connection.
func TestAConnectionOutlivesACut(t *testing.T) {
	n, _ := made(t)
	serve(t, n, 2)
	conn, err := dial(n, 1, 2, enough)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	n.cuts.add(setups.Cut{Broker: "b1", Peer: "b2"})
	if err := n.apply(); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write([]byte("into the cut")); err != nil {
		t.Fatal(err)
	}
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	answer := make([]byte, 3)
	_ = conn.SetReadDeadline(time.Now().Add(tooLong))
	if _, err := io.ReadFull(conn, answer); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("an answer through the cut: %q, %v", answer, err)
	}
	n.cuts.heal("b1")
	if err := n.apply(); err != nil {
		t.Fatal(err)
	}
	_ = conn.SetReadDeadline(time.Now().Add(enough))
	if _, err := io.ReadFull(conn, answer); err != nil || string(answer) != "all" {
		t.Fatalf("no answer after the cut: %q, %v", answer, err)
	}
}

func TestARateIsHeldAndLifted(t *testing.T) {
	n, _ := made(t)
	serve(t, n, 2)
	send := func(bytes int) time.Duration {
		t.Helper()
		conn, err := dial(n, 1, 2, enough)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		started := time.Now()
		_ = conn.SetDeadline(started.Add(4 * enough))
		if _, err := conn.Write(make([]byte, bytes)); err != nil {
			t.Fatal(err)
		}
		if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(conn, make([]byte, 3)); err != nil {
			t.Fatal(err)
		}
		return time.Since(started)
	}
	const size, rate = 1 << 20, 512 << 10
	if err := n.limit("b2", rate); err != nil {
		t.Fatal(err)
	}
	if err := n.limit("b2", rate); err != nil { // again, and over it
		t.Fatal(err)
	}
	narrow := send(size)
	for range 2 { // lifting what is lifted is fine
		if err := n.limit("b2", 0); err != nil {
			t.Fatal(err)
		}
	}
	wide := send(size)
	t.Logf("%d bytes took %s at %d bytes/s, and %s without", size, narrow, rate, wide)
	if narrow < time.Second { // two, less what is let through at once
		t.Errorf("%s is quicker than the rate", narrow)
	}
	if wide > narrow/2 {
		t.Errorf("%s: the rate was not lifted", wide)
	}
}

// The runner was killed: nothing of it is there but namespaces, links and a
// process that no ledger knows.
func TestARunIsRemovedByItsNameAlone(t *testing.T) {
	n, _ := made(t)
	others := []*network{
		newNetwork(run{n.run.id + "-" + n.run.owner + "-b1", unique().owner}), // its names begin with those of the run
		newNetwork(run{n.run.id, unique().owner}),                             // of another runs directory
	}
	for _, other := range others {
		t.Cleanup(func() { other.close() })
		if _, err := other.add(1); err != nil {
			t.Fatal(err)
		}
	}
	sleeper := exec.Command("sleep", "600")
	if err := n.within(2, sleeper.Start); err != nil {
		t.Fatal(err)
	}
	half := filepath.Join(spacesDir, n.run.space(9)) // killed while it made one
	if err := os.WriteFile(half, nil, 0o444); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- sleeper.Wait() }()
	for range 2 {
		if rest := removeRun(n.run); len(rest) > 0 {
			t.Fatalf("not removed: %v", rest)
		}
	}
	select {
	case <-ended:
	case <-time.After(enough):
		t.Error("a process in a namespace of the run still runs")
	}
	if _, err := os.Stat(half); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("half a namespace is left: %v", err)
	}
	for _, other := range others {
		if rest := left(t, other.run); len(rest) != 3 { // the hub, b1, and a link
			t.Errorf("of another run there is only %v", rest)
		}
	}
}

func TestThisMachineHasWhatItTakes(t *testing.T) {
	for _, f := range checkMachine() {
		if !f.OK {
			t.Errorf("%+v", f)
		}
	}
}
