package kafka

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ister-mq/ister/broker/internal/record"
)

// These tests write requests byte by byte, where no client would.

type rawClient struct {
	t           testing.TB
	nc          net.Conn
	correlation int32
	answered    int32
}

func dial(t testing.TB, addr string) *rawClient {
	t.Helper()
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	if err := nc.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return &rawClient{t: t, nc: nc}
}

// frame encodes a request with its header and length.
func frame(req kmsg.Request, version int16, correlation int32) []byte {
	req.SetVersion(version)
	b := make([]byte, 4)
	b = appendInt16(b, req.Key())
	b = appendInt16(b, version)
	b = appendInt32(b, correlation)
	b = appendString(b, "raw", false)
	b = appendNoTags(b, req.IsFlexible())
	b = req.AppendTo(b)
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	return b
}

func (c *rawClient) send(req kmsg.Request, version int16) {
	c.t.Helper()
	c.correlation++
	c.write(frame(req, version, c.correlation))
}

func (c *rawClient) write(b []byte) {
	c.t.Helper()
	if _, err := c.nc.Write(b); err != nil {
		c.t.Fatal(err)
	}
}

// body reads the next answer, which must be the next in order, without its
// header.
func (c *rawClient) body(flexibleHeader bool) []byte {
	c.t.Helper()
	var size [4]byte
	if _, err := io.ReadFull(c.nc, size[:]); err != nil {
		c.t.Fatalf("read the answer: %v", err)
	}
	b := make([]byte, binary.BigEndian.Uint32(size[:]))
	if _, err := io.ReadFull(c.nc, b); err != nil {
		c.t.Fatalf("read the answer: %v", err)
	}
	c.answered++
	if got := int32(binary.BigEndian.Uint32(b)); got != c.answered {
		c.t.Fatalf("answer has correlation %d, want %d", got, c.answered)
	}
	b = b[4:]
	if flexibleHeader {
		b = b[1:]
	}
	return b
}

func (c *rawClient) receive(req kmsg.Request, version int16) kmsg.Response {
	c.t.Helper()
	req.SetVersion(version)
	body := c.body(req.IsFlexible() && req.Key() != kmsg.ApiVersions.Int16())
	resp := req.ResponseKind()
	if err := resp.ReadFrom(body); err != nil {
		c.t.Fatalf("decode %T version %d: %v", resp, version, err)
	}
	return resp
}

func (c *rawClient) request(req kmsg.Request, version int16) kmsg.Response {
	c.t.Helper()
	c.send(req, version)
	return c.receive(req, version)
}

// closed fails unless the listener closes the connection without an answer.
func (c *rawClient) closed() {
	c.t.Helper()
	n, err := c.nc.Read(make([]byte, 1))
	if n != 0 || err == nil {
		c.t.Fatal("got an answer, want a closed connection")
	}
	if ne, ok := errors.AsType[net.Error](err); ok && ne.Timeout() {
		c.t.Fatal("the connection stayed open")
	}
}

func batch(values ...string) []byte {
	recs := make([]record.Rec, len(values))
	for i, v := range values {
		recs[i] = record.Rec{Value: []byte(v), Timestamp: 1000}
	}
	return record.Build(record.BuildOptions{}, recs...)
}

func produceRequest(topic string, batches ...[]byte) *kmsg.ProduceRequest {
	req := kmsg.NewPtrProduceRequest()
	req.Acks = -1
	t := kmsg.NewProduceRequestTopic()
	t.Topic = topic
	for i, b := range batches {
		p := kmsg.NewProduceRequestTopicPartition()
		p.Partition, p.Records = int32(i), b
		t.Partitions = append(t.Partitions, p)
	}
	req.Topics = append(req.Topics, t)
	return req
}

func fetchRequest(topic string, offset int64, waitMillis int32) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes, req.SessionEpoch = waitMillis, 1, 1<<20, -1
	p := kmsg.NewFetchRequestTopicPartition()
	p.FetchOffset, p.PartitionMaxBytes = offset, 1<<20
	t := kmsg.NewFetchRequestTopic()
	t.Topic, t.Partitions = topic, []kmsg.FetchRequestTopicPartition{p}
	req.Topics = append(req.Topics, t)
	return req
}

func TestUnknownApiVersionsIsAnsweredInVersion0(t *testing.T) {
	_, addrs := startCluster(t, 1, Config{})
	for _, version := range []int16{5, 99, 32767, -1} {
		c := dial(t, addrs[0])
		c.correlation++
		b := make([]byte, 4)
		b = appendInt16(b, 18)
		b = appendInt16(b, version)
		b = appendInt32(b, c.correlation)
		b = append(b, "whatever comes in a future header"...)
		binary.BigEndian.PutUint32(b, uint32(len(b)-4))
		c.write(b)
		resp := kmsg.NewPtrApiVersionsResponse()
		if err := resp.ReadFrom(c.body(false)); err != nil {
			t.Fatal(err)
		}
		if resp.ErrorCode != 35 || len(resp.ApiKeys) != 1 || resp.ApiKeys[0].ApiKey != 18 || resp.ApiKeys[0].MinVersion != 0 || resp.ApiKeys[0].MaxVersion != 4 {
			t.Errorf("version %d: %+v", version, resp)
		}
		// The connection goes on.
		req := kmsg.NewPtrApiVersionsRequest()
		req.ClientSoftwareName, req.ClientSoftwareVersion = "test", "1.0"
		if resp := c.request(req, 4).(*kmsg.ApiVersionsResponse); resp.ErrorCode != 0 || len(resp.ApiKeys) != len(versions) {
			t.Errorf("then version 4: %+v", resp)
		}
	}
}

func TestApiVersionsChecksTheClientsName(t *testing.T) {
	_, addrs := startCluster(t, 1, Config{})
	c := dial(t, addrs[0])
	for _, bad := range [][2]string{{"", "1"}, {"a", ""}, {"-a", "1"}, {"a", "1."}, {"a b", "1"}} {
		req := kmsg.NewPtrApiVersionsRequest()
		req.ClientSoftwareName, req.ClientSoftwareVersion = bad[0], bad[1]
		if resp := c.request(req, 3).(*kmsg.ApiVersionsResponse); resp.ErrorCode != kerr.InvalidRequest.Code {
			t.Errorf("name %q version %q: error %d", bad[0], bad[1], resp.ErrorCode)
		}
		if resp := c.request(req, 2).(*kmsg.ApiVersionsResponse); resp.ErrorCode != 0 {
			t.Errorf("version 2 has no name, error %d", resp.ErrorCode)
		}
	}
}

// Every version of every API is answered in its own encoding.
func TestEveryVersionAnswers(t *testing.T) {
	f, addrs := startCluster(t, 1, Config{})
	topic := f.topic(t, "all", 1)
	for _, v := range versions {
		for version := v.min; version <= v.max; version++ {
			req := kmsg.RequestForKey(v.key.Int16())
			switch r := req.(type) {
			case *kmsg.ApiVersionsRequest:
				r.ClientSoftwareName, r.ClientSoftwareVersion = "test", "1"
			case *kmsg.ProduceRequest:
				*r = *produceRequest("all", batch("x"))
			case *kmsg.FetchRequest:
				*r = *fetchRequest("all", 0, 0)
				r.Topics[0].TopicID = topic.ID
			case *kmsg.DescribeClusterRequest:
				r.EndpointType = 1
			}
			resp := dial(t, addrs[0]).request(req, version)
			if resp.GetVersion() != version {
				t.Errorf("%s version %d: %+v", v.name, version, resp)
			}
			switch r := resp.(type) {
			case *kmsg.ProduceResponse:
				want := kerr.UnsupportedForMessageFormat.Code
				if version >= 3 {
					want = 0
				}
				if got := r.Topics[0].Partitions[0].ErrorCode; got != want {
					t.Errorf("produce version %d: error %d, want %d", version, got, want)
				}
			case *kmsg.FetchResponse:
				p := r.Topics[0].Partitions[0]
				if p.ErrorCode != 0 || len(p.RecordBatches) == 0 || p.LastStableOffset != p.HighWatermark || r.SessionID != 0 {
					t.Errorf("fetch version %d: %+v", version, r)
				}
			case *kmsg.DescribeClusterResponse:
				if r.ErrorCode != 0 || len(r.Brokers) != 1 || r.ControllerID != 1 {
					t.Errorf("describe cluster version %d: %+v", version, r)
				}
			}
		}
	}
}

func TestUnsupportedRequestsCloseTheConnection(t *testing.T) {
	_, addrs := startCluster(t, 1, Config{})
	for name, req := range map[string][2]int16{
		"join group": {11, 0}, "produce 13": {0, 13}, "fetch 3": {1, 3}, "fetch 18": {1, 18},
		"metadata -1": {3, -1}, "no such key": {9999, 0}, "negative key": {-5, 0},
	} {
		t.Run(name, func(t *testing.T) {
			c := dial(t, addrs[0])
			b := appendInt32(nil, 10)
			b = appendInt16(b, req[0])
			b = appendInt16(b, req[1])
			b = appendInt32(b, 1)
			b = appendInt16(b, -1)
			c.write(b)
			c.closed()
		})
	}
}

func TestHostileBytesCloseOnlyTheirConnection(t *testing.T) {
	_, addrs := startCluster(t, 1, Config{RequestBytesMax: 1 << 20})
	good := dial(t, addrs[0])
	huge := make([]byte, 64<<10)
	for name, b := range map[string][]byte{
		"negative size":         appendInt32(nil, -1),
		"most negative size":    appendInt32(nil, -1<<31),
		"size 0":                appendInt32(nil, 0),
		"size 7":                append(appendInt32(nil, 7), make([]byte, 7)...),
		"too large":             appendInt32(nil, 1<<20+1),
		"http":                  []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
		"tls":                   {0x16, 0x03, 0x01, 0x02, 0x00, 0x01, 0x00, 0x01, 0xfc},
		"header cut":            append(appendInt32(nil, 8), 0, 3, 0, 9, 0, 0, 0, 1),
		"client id runs over":   append(appendInt32(nil, 10), 0, 3, 0, 1, 0, 0, 0, 1, 0x7f, 0xff),
		"tags run over":         append(appendInt32(nil, 12), 0, 3, 0, 9, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0x7f),
		"metadata array":        append(appendInt32(nil, 14), 0, 3, 0, 1, 0, 0, 0, 1, 0xff, 0xff, 0x7f, 0xff, 0xff, 0xff),
		"produce topics":        append(appendInt32(nil, 22), 0, 0, 0, 8, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff, 0, 1, 0, 0, 0, 9, 0x7f, 0xff, 0xff, 0xff),
		"large and meaningless": append(appendInt32(nil, int32(len(huge))), huge...),
	} {
		t.Run(name, func(t *testing.T) {
			c := dial(t, addrs[0])
			c.write(b)
			if tcp := c.nc.(*net.TCPConn); name == "tls" || name == "http" {
				_ = tcp.CloseWrite()
			}
			if name == "large and meaningless" { // a produce of version 0 without topics: answered
				c.nc.Close()
				return
			}
			c.closed()
		})
	}
	if resp := good.request(kmsg.NewPtrMetadataRequest(), 9).(*kmsg.MetadataResponse); len(resp.Brokers) != 1 {
		t.Errorf("the good connection got %+v", resp)
	}
}

func TestHalfARequestIsCutOff(t *testing.T) {
	_, addrs := startCluster(t, 1, Config{StallTimeout: 50 * time.Millisecond})
	c := dial(t, addrs[0])
	whole := frame(kmsg.NewPtrMetadataRequest(), 9, 1)
	c.write(whole[:len(whole)-1])
	c.closed()
}

func TestAnIdleConnectionIsClosed(t *testing.T) {
	_, addrs := startCluster(t, 1, Config{IdleTimeout: 50 * time.Millisecond})
	dial(t, addrs[0]).closed()
}

func TestConnectionsAreBounded(t *testing.T) {
	_, addrs := startCluster(t, 1, Config{ConnectionsMax: 2})
	a, b := dial(t, addrs[0]), dial(t, addrs[0])
	a.request(kmsg.NewPtrMetadataRequest(), 1)
	b.request(kmsg.NewPtrMetadataRequest(), 1)
	dial(t, addrs[0]).closed()
	a.request(kmsg.NewPtrMetadataRequest(), 1)
}

// A client that sends and never reads is cut off, and nobody else waits for it.
func TestAClientThatDoesNotReadIsCutOff(t *testing.T) {
	f, addrs := startCluster(t, 1, Config{StallTimeout: 300 * time.Millisecond, PaceMin: 1 << 30})
	f.fill(f.topic(t, "unread", 1), 8)
	c := dial(t, addrs[0])
	fetch := fetchRequest("unread", 0, 0)
	fetch.MaxBytes, fetch.Topics[0].Partitions[0].PartitionMaxBytes = 16<<20, 16<<20
	wire := frame(fetch, 12, 1)
	other := dial(t, addrs[0])
	for {
		if _, err := c.nc.Write(wire); err != nil {
			break
		}
		other.request(kmsg.NewPtrMetadataRequest(), 9)
	}
}

// At the end, a client that does not read is not waited for.
func TestServeEndsDespiteAClientThatDoesNotRead(t *testing.T) {
	f, _ := startCluster(t, 1, Config{})
	f.fill(f.topic(t, "stuck", 1), 8)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- Serve(ctx, ln, &fakeNode{fakeCluster: f, id: 1}, Config{DrainTimeout: 20 * time.Millisecond})
	}()
	c := dial(t, ln.Addr().String())
	fetch := fetchRequest("stuck", 0, 0)
	fetch.MaxBytes, fetch.Topics[0].Partitions[0].PartitionMaxBytes = 16<<20, 16<<20
	c.send(fetch, 12)
	if _, err := io.ReadFull(c.nc, make([]byte, 1000)); err != nil { // the answer is on its way
		t.Fatal(err)
	}
	cancel()
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("Serve: %v", err)
		}
	case <-testContext(t).Done():
		t.Fatal("Serve did not end")
	}
}

func TestAThousandProducesInFlightAreAnsweredInOrder(t *testing.T) {
	f, addrs := startCluster(t, 1, Config{})
	f.topic(t, "deep", 1)
	f.hold()
	c := dial(t, addrs[0])
	const n = 1000
	go func() {
		for i := range int32(n) {
			if _, err := c.nc.Write(frame(produceRequest("deep", batch("x")), 9, i+1)); err != nil {
				t.Error(err)
				return
			}
		}
	}()
	f.waitHeld(t, n)
	f.release() // the newest first
	for i := range int64(n) {
		resp := c.receive(kmsg.NewPtrProduceRequest(), 9).(*kmsg.ProduceResponse)
		if p := resp.Topics[0].Partitions[0]; p.ErrorCode != 0 || p.BaseOffset != i {
			t.Fatalf("answer %d: %+v", i, p)
		}
	}
}

// A reader at its bound waits, and goes on when answers are taken.
func TestInFlightBoundsHoldTheReaderBack(t *testing.T) {
	for name, cfg := range map[string]Config{
		"requests":         {RequestsInFlightMax: 4},
		"connection bytes": {ConnectionBytesMax: 1000},
		"listener bytes":   {ListenerBytesMax: 1000},
		"one at a time":    {ConnectionBytesMax: 1},
	} {
		t.Run(name, func(t *testing.T) {
			f, addrs := startCluster(t, 1, cfg)
			f.topic(t, "bounded", 1)
			f.hold()
			c := dial(t, addrs[0])
			const n = 50
			go func() {
				for i := range int32(n) {
					_, _ = c.nc.Write(frame(produceRequest("bounded", batch("x")), 9, i+1))
				}
			}()
			f.waitHeld(t, 1)
			f.release()
			for i := range int64(n) {
				resp := c.receive(kmsg.NewPtrProduceRequest(), 9).(*kmsg.ProduceResponse)
				if p := resp.Topics[0].Partitions[0]; p.BaseOffset != i {
					t.Fatalf("answer %d: %+v", i, p)
				}
			}
		})
	}
}

func TestPipelinedRequestsOfEveryKindKeepTheirOrder(t *testing.T) {
	f, addrs := startCluster(t, 1, Config{})
	f.topic(t, "mixed", 1)
	c := dial(t, addrs[0])
	kinds := []func() (kmsg.Request, int16){
		func() (kmsg.Request, int16) { return produceRequest("mixed", batch("x")), 9 },
		func() (kmsg.Request, int16) { return kmsg.NewPtrMetadataRequest(), 12 },
		func() (kmsg.Request, int16) { return fetchRequest("mixed", 0, 10), 12 },
		func() (kmsg.Request, int16) { return fetchRequest("mixed", 0, 10), 4 },
	}
	for i := range 40 {
		req, version := kinds[i%len(kinds)]()
		c.send(req, version)
	}
	for i := range 40 {
		req, version := kinds[i%len(kinds)]()
		c.receive(req, version)
	}
}

func TestAFailedUnacknowledgedProduceClosesTheConnection(t *testing.T) {
	_, addrs := startCluster(t, 1, Config{})
	c := dial(t, addrs[0])
	req := produceRequest("nowhere", batch("x"))
	req.Acks = 0
	c.send(req, 9)
	c.closed()
}
