package kafka

import (
	"context"
	"io"
	"net"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sync/semaphore"
)

// FuzzConnection sends arbitrary bytes to a connection. It must not panic, must
// end when the client does, and must give back every bound it took.
func FuzzConnection(f *testing.F) {
	for _, v := range versions {
		for _, version := range []int16{v.min, v.max} {
			req := kmsg.RequestForKey(v.key.Int16())
			switch r := req.(type) {
			case *kmsg.ProduceRequest:
				*r = *produceRequest("fuzzed", batch("x", "y"))
			case *kmsg.FetchRequest:
				*r = *fetchRequest("fuzzed", 0, 1)
			case *kmsg.CreateTopicsRequest:
				r.Topics = []kmsg.CreateTopicsRequestTopic{{Topic: "new", NumPartitions: 1, ReplicationFactor: 1,
					Configs: []kmsg.CreateTopicsRequestTopicConfig{{Name: "retention.ms", Value: kmsg.StringPtr("1")}}}}
			case *kmsg.ListOffsetsRequest:
				r.Topics = []kmsg.ListOffsetsRequestTopic{{Topic: "fuzzed", Partitions: []kmsg.ListOffsetsRequestTopicPartition{{Timestamp: -1}}}}
			}
			one := frame(req, version, 1)
			f.Add(one)
			f.Add(append(one, one...))
			f.Add(one[:len(one)/2])
		}
	}
	f.Add([]byte{})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff})
	cluster, _ := startCluster(f, 1, Config{})
	cluster.topic(f, "fuzzed", 2)
	f.Fuzz(func(t *testing.T, input []byte) {
		l := &listener{backend: &fakeNode{fakeCluster: cluster, id: 1}, cfg: Config{
			RequestBytesMax: 1 << 20, ConnectionBytesMax: 1 << 20, ListenerBytesMax: 1 << 20, RequestsInFlightMax: 4,
			WaitMax: 5 * time.Millisecond,
		}.withDefaults()}
		l.bytes = semaphore.NewWeighted(1 << 20)
		ours, theirs := net.Pipe()
		c := newConnection(l, ours)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = c.serve(context.Background())
		}()
		read := make(chan struct{})
		go func() {
			defer close(read)
			_, _ = io.Copy(io.Discard, theirs)
		}()
		_, _ = theirs.Write(input)
		theirs.Close()
		<-ended
		<-read
		if !l.bytes.TryAcquire(1<<20) || !c.bytes.TryAcquire(1<<20) || len(c.fetchSlot) != 0 {
			t.Fatal("a bound was not given back")
		}
	})
}

// FuzzProduceBody compares the produce decoder with kmsg on what both take.
func FuzzProduceBody(f *testing.F) {
	for version := int16(0); version <= 12; version++ {
		req := produceRequest("fuzzed", batch("x"), nil)
		req.SetVersion(version)
		f.Add(req.AppendTo(nil), version)
	}
	f.Fuzz(func(t *testing.T, body []byte, version int16) {
		version = int16(uint16(version) % 13)
		var p produceCall
		err := p.decode(body, version)
		if len(p.parts) > len(body) || len(p.topics) > len(body) {
			t.Fatalf("%d topics and %d partitions from %d bytes", len(p.topics), len(p.parts), len(body))
		}
		ref := kmsg.NewPtrProduceRequest()
		ref.SetVersion(version)
		if refErr := ref.ReadFrom(body); err != nil || refErr != nil {
			return
		}
		if len(p.topics) != len(ref.Topics) || int16(p.req.Acks) != ref.Acks {
			t.Fatalf("got %+v, kmsg %+v", p, ref)
		}
		for i, topic := range p.topics {
			if topic.name != ref.Topics[i].Topic || topic.parts != len(ref.Topics[i].Partitions) {
				t.Fatalf("topic %d: got %+v, kmsg %+v", i, topic, ref.Topics[i])
			}
		}
	})
}
