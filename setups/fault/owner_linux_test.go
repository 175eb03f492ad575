package fault

import (
	"net"
	"os"
	"testing"
)

func TestOwnerOfALocalConnection(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	far := dial(t, l.Addr().String())
	near, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer near.Close()
	self := os.Getpid()
	if got := ownerOf(near, map[int]string{1: "other", self: "self"}); got != self {
		t.Errorf("the owner is %d, want %d", got, self)
	}
	if got := ownerOf(near, map[int]string{1: "other"}); got != 0 && got != 1 {
		t.Errorf("the owner is %d, which is none of those asked for", got)
	}
	far.Close()
}
