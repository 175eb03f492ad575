package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// shape is how one-record requests are sent.
type shape struct {
	name                           string
	partitions, connections, depth int
	requests                       int // in all
}

var shapes = []shape{
	{"1 partition, 1 connection, 1 in flight", 1, 1, 1, 1_000},
	{"6 partitions, 64 connections, 1 in flight", 6, 64, 1, 60_000},
	{"1 partition, 16 connections, 64 in flight", 1, 16, 64, 200_000},
}

func singleFigures(ctx context.Context, c *cluster) error {
	for i, s := range shapes {
		topic := fmt.Sprintf("bench-single-%d", i)
		if err := c.createTopic(ctx, topic, int32(s.partitions)); err != nil {
			return err
		}
		leaders, err := c.leaders(ctx, topic, s.partitions)
		if err != nil {
			return err
		}
		if _, _, err := singles(topic, leaders, s, s.requests/10); err != nil {
			return err
		}
		before := c.cpu()
		took, latencies, err := singles(topic, leaders, s, s.requests)
		if err != nil {
			return err
		}
		perRequest := (c.cpu() - before) / time.Duration(len(latencies))
		row("one record a request, "+s.name, fmt.Sprintf("%.0f/s", float64(len(latencies))/took.Seconds()),
			fmt.Sprintf("p50 %s p99 %s", percentile(latencies, 0.5).Round(10*time.Microsecond), percentile(latencies, 0.99).Round(10*time.Microsecond)),
			fmt.Sprintf("broker CPU %d µs a request", perRequest.Microseconds()))
	}
	return nil
}

// leaders gives the Kafka address of each partition's leader.
func (c *cluster) leaders(ctx context.Context, topic string, n int) ([]string, error) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.seeds()...))
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	meta, err := kadm.NewClient(cl).Metadata(ctx, topic)
	if err != nil {
		return nil, err
	}
	out := make([]string, n)
	for _, p := range meta.Topics[topic].Partitions {
		for _, b := range meta.Brokers {
			if b.NodeID == p.Leader {
				out[p.Partition] = net.JoinHostPort(b.Host, fmt.Sprint(b.Port))
			}
		}
	}
	return out, nil
}

// singles sends pre-encoded requests of one 100-byte record each, keeping depth
// in flight on every connection.
func singles(topic string, leaders []string, s shape, requests int) (time.Duration, []time.Duration, error) {
	var (
		mu        sync.Mutex
		latencies []time.Duration
		firstErr  error
		wg        sync.WaitGroup
	)
	each := max(1, requests/s.connections)
	began := time.Now()
	for i := 0; i < s.connections; i++ {
		partition := i % s.partitions
		wg.Add(1)
		go func() {
			defer wg.Done()
			got, err := pump(leaders[partition], produceRequest(topic, int32(partition)), each, s.depth)
			mu.Lock()
			defer mu.Unlock()
			latencies = append(latencies, got...)
			if err != nil && firstErr == nil {
				firstErr = err
			}
		}()
	}
	wg.Wait()
	return time.Since(began), latencies, firstErr
}

func produceRequest(topic string, partition int32) []byte {
	var batch kmsg.RecordBatch
	rec := kmsg.Record{Value: make([]byte, 100)}
	rec.Length = int32(len(rec.AppendTo(nil)) - 1)
	body := rec.AppendTo(nil)
	batch.Magic, batch.NumRecords, batch.Records = 2, 1, body
	now := time.Now().UnixMilli()
	batch.FirstTimestamp, batch.MaxTimestamp = now, now
	batch.ProducerID, batch.ProducerEpoch, batch.FirstSequence, batch.PartitionLeaderEpoch = -1, -1, -1, -1
	raw := batch.AppendTo(nil)
	binary.BigEndian.PutUint32(raw[8:], uint32(len(raw)-12))
	binary.BigEndian.PutUint32(raw[17:], crc32.Checksum(raw[21:], crc32.MakeTable(crc32.Castagnoli)))

	req := kmsg.NewPtrProduceRequest()
	req.Version, req.Acks, req.TimeoutMillis = 9, -1, 30_000
	t := kmsg.NewProduceRequestTopic()
	t.Topic = topic
	p := kmsg.NewProduceRequestTopicPartition()
	p.Partition, p.Records = partition, raw
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return kmsg.NewRequestFormatter(kmsg.FormatterClientID("bench")).AppendRequest(nil, req, 1)
}

// pump sends the request n times with depth in flight and measures each.
func pump(addr string, request []byte, n, depth int) ([]time.Duration, error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	sent := make(chan time.Time, depth)
	room := make(chan struct{}, depth) // a token for each request in flight
	failed := make(chan error, 1)
	go func() {
		defer close(sent)
		for i := 0; i < n; i++ {
			room <- struct{}{}
			sent <- time.Now()
			if _, err := conn.Write(request); err != nil {
				failed <- err
				return
			}
		}
	}()
	latencies := make([]time.Duration, 0, n)
	buf := make([]byte, 4096)
	for at := range sent {
		if err := readResponse(conn, &buf); err != nil {
			return latencies, err
		}
		latencies = append(latencies, time.Since(at))
		<-room
	}
	select {
	case err := <-failed:
		return latencies, err
	default:
		return latencies, nil
	}
}

func readResponse(conn net.Conn, buf *[]byte) error {
	var head [4]byte
	if _, err := io.ReadFull(conn, head[:]); err != nil {
		return err
	}
	size := int(binary.BigEndian.Uint32(head[:]))
	if size > len(*buf) {
		*buf = make([]byte, size)
	}
	body := (*buf)[:size]
	if _, err := io.ReadFull(conn, body); err != nil {
		return err
	}
	resp := kmsg.NewPtrProduceResponse()
	resp.Version = 9
	if err := resp.ReadFrom(body[5:]); err != nil { // correlation id, empty tags
		return err
	}
	if code := resp.Topics[0].Partitions[0].ErrorCode; code != 0 {
		return fmt.Errorf("produce answered error code %d", code)
	}
	return nil
}
