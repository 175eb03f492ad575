package kafka

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sync/semaphore"

	"github.com/ister-mq/ister/broker/internal/model"
	"github.com/ister-mq/ister/broker/internal/record"
)

// instantBackend commits nothing and answers at once, so that only the listener
// is measured.
type instantBackend struct {
	*fakeNode
	view    View
	records []byte
}

func (b *instantBackend) View() View { return b.view }

func (b *instantBackend) Produce(req *ProduceRequest, done func()) {
	for i := range req.Results {
		req.Results[i] = ProduceResult{Base: 1}
	}
	done()
}

func (b *instantBackend) Fetch(_ context.Context, req *FetchRequest) FetchResponse {
	resp := FetchResponse{Partitions: make([]FetchResult, len(req.Partitions))}
	for i := range resp.Partitions {
		resp.Partitions[i] = FetchResult{HighWatermark: 10, Records: b.records}
	}
	return resp
}

func benchBackend(b *testing.B, partitions int) *instantBackend {
	f, _ := startCluster(b, 1, Config{})
	f.topic(b, "bench", partitions)
	n := &fakeNode{fakeCluster: f, id: 1}
	return &instantBackend{fakeNode: n, view: n.View()}
}

// BenchmarkProduceHandling is one produce request from its bytes to the bytes of
// its answer, without sockets.
func BenchmarkProduceHandling(b *testing.B) {
	for _, c := range []struct{ records, bytes int }{{1, 100}, {1000, 100}, {1000, 1024}} {
		b.Run(fmt.Sprintf("%dx%dB", c.records, c.bytes), func(b *testing.B) {
			backend := benchBackend(b, 1)
			l := &listener{backend: backend, cfg: Config{}.withDefaults(), bytes: semaphore.NewWeighted(1 << 30)}
			conn := newConnection(l, nil)
			recs := make([]record.Rec, c.records)
			for i := range recs {
				recs[i] = record.Rec{Value: make([]byte, c.bytes)}
			}
			req := produceRequest("bench", record.Build(record.BuildOptions{}, recs...))
			wire := frame(req, 9, 1)[4:]
			ctx := context.Background()
			taken := make([]*call, 0, takeMax)
			b.SetBytes(int64(len(wire)))
			b.ReportAllocs()
			for b.Loop() {
				buf := getBuffer(len(wire))
				copy(buf.b, wire)
				if err := conn.dispatch(ctx, buf); err != nil {
					b.Fatal(err)
				}
				taken, _ = conn.queue.take(taken[:0])
				for _, k := range taken {
					conn.out.add(k)
					conn.finish(k)
				}
				conn.out.reset()
			}
		})
	}
}

// BenchmarkProducePipelined is requests of one 100 B record over TCP on loopback,
// many in flight, client included.
func BenchmarkProducePipelined(b *testing.B) {
	for _, depth := range []int{1, 64, 1000} {
		b.Run(fmt.Sprint(depth, "-deep"), func(b *testing.B) {
			backend := benchBackend(b, 1)
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				b.Fatal(err)
			}
			ctx, cancel := context.WithCancel(context.Background())
			served := make(chan error, 1)
			go func() { served <- Serve(ctx, ln, backend, Config{}) }()
			b.Cleanup(func() { cancel(); <-served })
			nc, err := net.Dial("tcp", ln.Addr().String())
			if err != nil {
				b.Fatal(err)
			}
			defer nc.Close()
			wire := frame(produceRequest("bench", record.Build(record.BuildOptions{}, record.Rec{Value: make([]byte, 100)})), 9, 1)
			slots := make(chan struct{}, depth)
			read := make(chan error, 1)
			n := b.N
			b.ReportAllocs()
			go func() {
				in := bufio.NewReaderSize(nc, 64<<10)
				var size [4]byte
				for range n {
					if _, err := io.ReadFull(in, size[:]); err != nil {
						read <- err
						return
					}
					if _, err := in.Discard(int(binary.BigEndian.Uint32(size[:]))); err != nil {
						read <- err
						return
					}
					<-slots
				}
				read <- nil
			}()
			out := bufio.NewWriterSize(nc, 64<<10)
			for range n {
				select {
				case slots <- struct{}{}:
				default:
					if err := out.Flush(); err != nil {
						b.Fatal(err)
					}
					slots <- struct{}{}
				}
				if _, err := out.Write(wire); err != nil {
					b.Fatal(err)
				}
			}
			if err := out.Flush(); err != nil {
				b.Fatal(err)
			}
			if err := <-read; err != nil {
				b.Fatal(err)
			}
		})
	}
}

func benchFetch(partitions, bytes int) *fetchCall {
	f := &fetchCall{}
	topic := kmsg.NewFetchRequestTopic()
	topic.Topic = "bench"
	records := make([]byte, bytes)
	for i := range partitions {
		p := kmsg.NewFetchRequestTopicPartition()
		p.Partition = int32(i)
		topic.Partitions = append(topic.Partitions, p)
		f.parts = append(f.parts, fetchPart{slot: i})
		f.req.Partitions = append(f.req.Partitions, FetchPartition{ID: model.Partition{Index: int32(i)}})
		f.resp.Partitions = append(f.resp.Partitions, FetchResult{HighWatermark: 10, Records: records})
	}
	f.wire.Topics = []kmsg.FetchRequestTopic{topic}
	return f
}

// BenchmarkFetchEncode is one fetch answer encoded and written to a socket that
// takes everything; kmsg is the same answer by AppendTo.
func BenchmarkFetchEncode(b *testing.B) {
	for _, c := range []struct{ partitions, bytes int }{{1, 1 << 20}, {100, 64 << 10}, {1000, 0}} {
		name := fmt.Sprintf("%dx%dKiB", c.partitions, c.bytes>>10)
		b.Run(name, func(b *testing.B) {
			k := &call{connection: &connection{listener: &listener{backend: &instantBackend{}}}, header: header{key: 1, version: 12}, flexibleHeader: true, fetch: benchFetch(c.partitions, c.bytes)}
			var o output
			b.SetBytes(int64(c.partitions * c.bytes))
			b.ReportAllocs()
			for b.Loop() {
				o.add(k)
				if err := o.writeTo(discard{}); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(name+"/kmsg", func(b *testing.B) {
			resp := kmsg.NewPtrFetchResponse()
			resp.SetVersion(12)
			topic := kmsg.NewFetchResponseTopic()
			topic.Topic = "bench"
			for i := range c.partitions {
				p := kmsg.NewFetchResponseTopicPartition()
				p.Partition, p.RecordBatches = int32(i), make([]byte, c.bytes)
				topic.Partitions = append(topic.Partitions, p)
			}
			resp.Topics = append(resp.Topics, topic)
			var out []byte
			b.SetBytes(int64(c.partitions * c.bytes))
			b.ReportAllocs()
			for b.Loop() {
				out = resp.AppendTo(out[:0])
			}
		})
	}
}

// discard is a connection that takes every write.
type discard struct{ net.Conn }

func (discard) Write(b []byte) (int, error) { return len(b), nil }
