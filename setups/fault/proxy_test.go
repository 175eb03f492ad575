package fault

import (
	"bytes"
	"context"
	"crypto/rand"
	"io"
	"net"
	"testing"
	"time"

	"github.com/ister-mq/ister/setups"
)

const patience = 10 * time.Second

// echo starts an end that sends back what it gets until the stream ends, and a
// proxy named b in front of it; connections come from a.
func echo(t *testing.T, n *Network) (address string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_, _ = io.Copy(c, c)
			}()
		}
	}()
	p, err := n.Listen("127.0.0.1:0", "b", func(context.Context) (string, error) { return l.Addr().String(), nil }, func(net.Conn) string { return "a" })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p.Address()
}

func dial(t *testing.T, address string) *net.TCPConn {
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c.(*net.TCPConn)
}

// roundTrip sends and waits for the echo.
func roundTrip(t *testing.T, c net.Conn, data []byte) time.Duration {
	t.Helper()
	started := time.Now()
	if err := c.SetDeadline(started.Add(patience)); err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = c.Write(data) }() // what is not written does not come back
	back := make([]byte, len(data))
	if _, err := io.ReadFull(c, back); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(back, data) {
		t.Fatal("other bytes came back than were sent")
	}
	return time.Since(started)
}

// silent checks that nothing arrives for a while.
func silent(t *testing.T, c net.Conn) {
	t.Helper()
	if err := c.SetReadDeadline(time.Now().Add(100 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if n, err := c.Read(make([]byte, 1)); n > 0 || !isTimeout(err) {
		t.Fatalf("read %d bytes, %v; want silence", n, err)
	}
}

func isTimeout(err error) bool {
	e, ok := err.(net.Error)
	return ok && e.Timeout()
}

func TestForwardsEveryByteAndTheEnd(t *testing.T) {
	var n Network
	c := dial(t, echo(t, &n))
	data := make([]byte, 8<<20)
	if _, err := rand.Read(data); err != nil {
		t.Fatal(err)
	}
	roundTrip(t, c, data)
	if err := c.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if rest, err := io.ReadAll(c); err != nil || len(rest) > 0 {
		t.Fatalf("after the end: %d bytes, %v", len(rest), err)
	}
}

func TestCutLinkStallsAndLosesNothing(t *testing.T) {
	for _, end := range []string{"a", "b"} {
		var n Network
		address := echo(t, &n)
		c := dial(t, address)
		roundTrip(t, c, []byte("before"))
		n.CutOff(end)
		if _, err := c.Write([]byte("during")); err != nil {
			t.Fatal(err)
		}
		silent(t, c)
		late := dial(t, address) // accepted, and silent
		if _, err := late.Write([]byte("late")); err != nil {
			t.Fatal(err)
		}
		silent(t, late)
		n.Heal(end)
		for conn, want := range map[net.Conn]string{c: "during", late: "late"} {
			if err := conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
				t.Fatal(err)
			}
			got := make([]byte, len(want))
			if _, err := io.ReadFull(conn, got); err != nil || string(got) != want {
				t.Errorf("after healing %s: %q, %v", end, got, err)
			}
		}
	}
}

func TestOtherLinksAreNotHindered(t *testing.T) {
	var n Network
	n.CutOff("c")
	n.Slow("d", setups.Link{Delay: time.Hour})
	roundTrip(t, dial(t, echo(t, &n)), []byte("hello"))
}

func TestDelayIsPaidInEachDirection(t *testing.T) {
	var n Network
	c := dial(t, echo(t, &n))
	n.Slow("a", setups.Link{Delay: 20 * time.Millisecond, Jitter: 5 * time.Millisecond})
	n.Slow("b", setups.Link{Delay: 10 * time.Millisecond})
	if took := roundTrip(t, c, []byte("x")); took < 60*time.Millisecond {
		t.Errorf("there and back took %s, want at least 60ms", took)
	}
	data := make([]byte, 1<<20)
	if _, err := rand.Read(data); err != nil {
		t.Fatal(err)
	}
	roundTrip(t, c, data) // in order
}

func TestBandwidthIsBounded(t *testing.T) {
	var n Network
	c := dial(t, echo(t, &n))
	n.Slow("b", setups.Link{BytesPerSecond: 1 << 20})
	if took := roundTrip(t, c, make([]byte, 256<<10)); took < 200*time.Millisecond {
		t.Errorf("256 KiB at 1 MiB/s took %s, want about 250ms", took)
	}
}

func TestCloseEndsWhatIsStalled(t *testing.T) {
	var n Network
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	n.CutOff("a")
	p, err := n.Listen("127.0.0.1:0", "b", func(context.Context) (string, error) { return l.Addr().String(), nil }, func(net.Conn) string { return "a" })
	if err != nil {
		t.Fatal(err)
	}
	c := dial(t, p.Address())
	if err := p.Close(); err != nil { // returns at all
		t.Fatal(err)
	}
	if err := c.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Read(make([]byte, 1)); err == nil || isTimeout(err) {
		t.Errorf("the connection is still there: %v", err)
	}
}

// The echo is behind b: what a sends has to reach b, and the answer a.
func TestCutsOneDirectionOrOnePair(t *testing.T) {
	for _, c := range []struct {
		name  string
		cut   setups.Cut
		stall bool
	}{
		{"what leaves a", setups.Cut{Broker: "a", Direction: setups.Out}, true},
		{"what reaches a", setups.Cut{Broker: "a", Direction: setups.In}, true},
		{"what leaves b for a", setups.Cut{Broker: "b", Peer: "a", Direction: setups.Out}, true},
		{"a and b", setups.Cut{Broker: "a", Peer: "b"}, true},
		{"a and c", setups.Cut{Broker: "a", Peer: "c"}, false},
		{"what leaves c", setups.Cut{Broker: "c", Direction: setups.Out}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var n Network
			conn := dial(t, echo(t, &n))
			roundTrip(t, conn, []byte("before"))
			n.Cut(c.cut)
			if !c.stall {
				roundTrip(t, conn, []byte("whole"))
				return
			}
			if _, err := conn.Write([]byte("during")); err != nil {
				t.Fatal(err)
			}
			silent(t, conn)
			n.Heal(c.cut.Broker)
			got := make([]byte, len("during"))
			if err := conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(conn, got); err != nil || string(got) != "during" {
				t.Fatalf("after healing: %q, %v", got, err)
			}
		})
	}
}

func TestOneWayCutLetsTheOtherDirectionThrough(t *testing.T) {
	var n Network
	n.Cut(setups.Cut{Broker: "b", Direction: setups.Out})
	if cut, _, _ := n.state("a", "b"); cut {
		t.Error("what a sends to b is cut, and only what leaves b should be")
	}
	if cut, _, _ := n.state("b", "a"); !cut {
		t.Error("what b sends to a is not cut")
	}
}

func TestLossIsAStallThatDoubles(t *testing.T) {
	draws := []int{5, 9, 10}
	draw := func(int) int { d := draws[0]; draws = draws[1:]; return d }
	if late := losses(10, draw); late != lossFirst+2*lossFirst {
		t.Errorf("lost twice, it is %s late, want %s", late, 3*lossFirst)
	}
	if late := losses(0, func(int) int { return 0 }); late != 0 {
		t.Errorf("without loss it is %s late", late)
	}
	if late := losses(100, func(int) int { return 99 }); late != lossFirst*(1<<lossRepeats-1) {
		t.Errorf("always lost, it is %s late", late)
	}
}
