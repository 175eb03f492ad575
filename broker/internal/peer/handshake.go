package peer

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/ister-mq/ister/broker/internal/refusal"
)

// stream says what a connection carries.
type stream byte

const (
	streamRaft    stream = 1
	streamControl stream = 2
	streamFetch   stream = 3
)

const (
	wireMagic   = 0x49535450 // "ISTP"
	wireVersion = 1

	// prefaceSize is magic, version, kind (or status) and body length.
	prefaceSize  = 4 + 1 + 1 + 2
	helloSizeMax = 8 << 10

	handshakeTimeout = 2 * time.Second
)

const (
	statusWelcome byte = 0
	statusRefused byte = 1
)

// hello opens a connection.
type hello struct {
	From          Identity `json:"from"`
	ToNode        int32    `json:"to_node,omitempty"`
	ToIncarnation string   `json:"to_incarnation,omitempty"`
}

// welcome answers a hello. On a control connection Refusal may come with
// statusWelcome: the caller may then use only the methods for Anyone.
type welcome struct {
	By      Identity         `json:"by"`
	Refusal *refusal.Refusal `json:"refusal,omitempty"`
}

var errNotIster = errors.New("the other end does not speak the node-to-node protocol of ister")

// writePreface writes one handshake message: magic, version, kind, length, JSON.
func writePreface(c net.Conn, kind byte, body any) error {
	payload, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("encode handshake: %w", err)
	}
	if len(payload) > helloSizeMax {
		return fmt.Errorf("encode handshake: %d bytes, at most %d", len(payload), helloSizeMax)
	}
	b := make([]byte, prefaceSize, prefaceSize+len(payload))
	binary.BigEndian.PutUint32(b, wireMagic)
	b[4], b[5] = wireVersion, kind
	binary.BigEndian.PutUint16(b[6:], uint16(len(payload)))
	_, err = c.Write(append(b, payload...))
	return err
}

// readPreface reads one handshake message and checks its fields in order.
func readPreface(c net.Conn, body any) (kind byte, err error) {
	var head [prefaceSize]byte
	if _, err := io.ReadFull(c, head[:]); err != nil {
		return 0, fmt.Errorf("read handshake: %w", err)
	}
	if binary.BigEndian.Uint32(head[:]) != wireMagic {
		return 0, errNotIster
	}
	if head[4] != wireVersion {
		return 0, fmt.Errorf("handshake version %d, this node speaks %d; upgrade the older node", head[4], wireVersion)
	}
	size := int(binary.BigEndian.Uint16(head[6:]))
	if size > helloSizeMax {
		return 0, fmt.Errorf("handshake of %d bytes, at most %d", size, helloSizeMax)
	}
	payload := make([]byte, size)
	if _, err := io.ReadFull(c, payload); err != nil {
		return 0, fmt.Errorf("read handshake: %w", err)
	}
	if err := json.Unmarshal(payload, body); err != nil {
		return 0, fmt.Errorf("decode handshake: %w", err)
	}
	return head[5], nil
}

// judge decides whether a hello may go on. The order matters: a connection for
// somebody else says nothing about its sender.
func (e *Endpoint) judge(self Identity, h hello) *refusal.Refusal {
	from := h.From
	if h.ToIncarnation != "" && h.ToIncarnation != string(self.Incarnation) ||
		h.ToNode != 0 && h.ToNode != int32(self.Node) {
		return refusal.New(refusal.WrongIncarnation, fmt.Sprintf("node %d", h.ToNode),
			fmt.Sprintf("this is node %v incarnation %s, not node %d incarnation %s", self.Node, self.Incarnation, h.ToNode, h.ToIncarnation),
			"the address belongs to another node now; re-read the cluster's members")
	}
	if self.Cluster == "" || from.Cluster == "" || from.Cluster != self.Cluster {
		return refusal.New(refusal.WrongCluster, fmt.Sprintf("node %v", from.Node),
			fmt.Sprintf("node %v of %s called %s", from.Node, clusterWords(from), clusterWords(self)),
			"check that --raft-addr and --seed-nodes name nodes of one cluster")
	}
	if verify := e.verifier.Load(); verify != nil {
		return (*verify)(from)
	}
	return nil
}

func clusterWords(id Identity) string {
	if id.Cluster == "" {
		return "no cluster"
	}
	return "cluster " + string(id.Cluster)
}

// accept runs the acceptor's half of the handshake. A nil error with a refusal
// happens on control connections only.
func (e *Endpoint) accept(c net.Conn) (stream, hello, *refusal.Refusal, error) {
	var h hello
	_ = c.SetDeadline(time.Now().Add(handshakeTimeout))
	kind, err := readPreface(c, &h)
	if err != nil {
		return 0, h, nil, err
	}
	s := stream(kind)
	if s != streamRaft && s != streamControl && s != streamFetch {
		return 0, h, nil, fmt.Errorf("handshake asks for unknown stream %d", kind)
	}
	self := e.Identity()
	no := e.judge(self, h)
	status := statusWelcome
	if no != nil && s != streamControl {
		status = statusRefused
	}
	if err := writePreface(c, status, welcome{By: self, Refusal: no}); err != nil {
		return 0, h, nil, fmt.Errorf("answer handshake: %w", err)
	}
	if status == statusRefused {
		return 0, h, nil, no
	}
	return s, h, no, c.SetDeadline(time.Time{})
}

// greet runs the dialer's half.
func (e *Endpoint) greet(c net.Conn, s stream, to Target, deadline time.Time) (Identity, *refusal.Refusal, error) {
	_ = c.SetDeadline(deadline)
	h := hello{From: e.Identity(), ToNode: int32(to.Node), ToIncarnation: string(to.Incarnation)}
	if err := writePreface(c, byte(s), h); err != nil {
		return Identity{}, nil, fmt.Errorf("send handshake: %w", err)
	}
	var w welcome
	status, err := readPreface(c, &w)
	if err != nil {
		return Identity{}, nil, err
	}
	if w.Refusal != nil {
		if hook := e.onRefused.Load(); hook != nil {
			(*hook)(w.By, w.Refusal)
		}
	}
	if status != statusWelcome {
		if w.Refusal == nil {
			return w.By, nil, fmt.Errorf("handshake refused without a reason (status %d)", status)
		}
		return w.By, w.Refusal, w.Refusal
	}
	return w.By, w.Refusal, c.SetDeadline(time.Time{})
}
