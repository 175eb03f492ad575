package load

import (
	"context"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ister-mq/ister/scenarios/internal/history"
	"github.com/ister-mq/ister/scenarios/internal/verdict"
)

// streamOn is a stream over a fake cluster with topics of 3 partitions.
func streamOn(t *testing.T, topics ...string) (*Stream, *history.Recorder, []string) {
	t.Helper()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(3), kfake.SeedTopics(3, topics...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	recorder := history.NewRecorder()
	return NewStream("s", recorder), recorder, cluster.ListenAddrs()
}

func judged(t *testing.T, s *Stream, recorder *history.Recorder, bootstrap []string, drained bool) (*verdict.Verdict, Kinds) {
	t.Helper()
	id, kinds, err := s.Read(t.Context(), bootstrap, drained)
	if err != nil {
		t.Fatal(err)
	}
	v, err := verdict.Judge(recorder.Snapshot(), "s", id)
	if err != nil {
		t.Fatal(err)
	}
	return v, kinds
}

func TestStreamReadsWhatItWroteInEveryShapeAndCodec(t *testing.T) {
	s, recorder, bootstrap := streamOn(t, "a", "b")
	for _, codec := range codecNames {
		sent, err := s.Send(t.Context(), Batch{Bootstrap: bootstrap, Topics: []string{"a", "b"}, Count: 70, Size: 300, Codec: codec, Keys: 5, Headers: 2, Shape: ShapeMixed})
		if err != nil || sent.Acked != 140 || sent.Unknown+sent.Refused != 0 {
			t.Fatalf("%s: %+v, %v", codec, sent, err)
		}
	}
	v, kinds := judged(t, s, recorder, bootstrap, false)
	if v.Violations() != 0 || v.Acked != 700 || v.InLog != 700 {
		t.Fatalf("%+v", v)
	}
	if kinds.NullKeys != 200 || kinds.EmptyKeys != 100 || kinds.NullValues != 200 || kinds.EmptyValues != 100 || kinds.Headers < 1400 || !slices.Equal(kinds.Codecs, codecNames) {
		t.Errorf("%+v", kinds)
	}
}

// A record that somebody changes by one header, or writes beside the stream, must
// be found: the judge is only as good as the checksum.
func TestStreamFindsForeignAndChangedRecords(t *testing.T) {
	s, recorder, bootstrap := streamOn(t, "a")
	if _, err := s.Send(t.Context(), Batch{Bootstrap: bootstrap, Topics: []string{"a"}, Count: 5, Size: 60, Codec: "none", Keys: 2}); err != nil {
		t.Fatal(err)
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(bootstrap...))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	changed, _ := s.record(Batch{Size: 60, Keys: 2}, "a", time.Now())
	changed.Headers = append(changed.Headers, kgo.RecordHeader{Key: "added"})
	foreign := &kgo.Record{Topic: "a", Value: []byte("foreign")}
	if err := client.ProduceSync(t.Context(), foreign, changed).FirstErr(); err != nil {
		t.Fatal(err)
	}
	if v, _ := judged(t, s, recorder, bootstrap, false); v.Counts[verdict.Phantom] != 2 {
		t.Errorf("%+v", v.Counts)
	}
}

func TestAReaderThatComesBackGoesOnWhereItEnded(t *testing.T) {
	s, recorder, bootstrap := streamOn(t, "a")
	send := func() {
		if _, err := s.Send(t.Context(), Batch{Bootstrap: bootstrap, Topics: []string{"a"}, Count: 50, Size: 60, Codec: "none", Keys: 5}); err != nil {
			t.Fatal(err)
		}
	}
	take := func(reader, from string, most int64) Taken {
		taken, err := s.Take(t.Context(), bootstrap, reader, from, most)
		if err != nil {
			t.Fatal(err)
		}
		return taken
	}
	send()
	if first := take("r", FromEarliest, 20); first.Resumed || first.Received != 20 || first.Behind != 30 {
		t.Errorf("first: %+v", first)
	}
	if late := take("late", FromLatest, 0); late.Received != 0 || late.Behind != 0 {
		t.Errorf("late: %+v", late)
	}
	send()
	if rest := take("r", FromEarliest, 0); !rest.Resumed || rest.Received != 80 || rest.Behind != 0 {
		t.Errorf("rest: %+v", rest)
	}
	if v, _ := judged(t, s, recorder, bootstrap, false); v.Violations() != 0 || v.Received != 100 {
		t.Errorf("%+v", v)
	}
	take("late", FromLatest, 0)
	if v, _ := judged(t, s, recorder, bootstrap, true); v.Counts[verdict.NeverDelivered] == 0 {
		t.Error("a reader that began at the end was given everything")
	}
}

// The size that fills a batch is computed from the format; the client's own
// encoding is the judge of it.
func TestARecordFillsItsBatchToTheByte(t *testing.T) {
	s, _, bootstrap := streamOn(t, "a")
	client, err := kgo.NewClient(kgo.SeedBrokers(bootstrap...))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for _, fill := range []int{1024, 16_500, 1_048_588} {
		for _, allowed := range []int{fill, fill - 1} {
			sent, err := s.Send(t.Context(), Batch{Bootstrap: bootstrap, Topics: []string{limited(t, client, allowed)}, Count: 1, Size: 1, FillBatch: fill, Codec: "none", Keys: 3, Headers: 1, Once: true})
			if want := allowed == fill; err != nil || (sent.Acked == 1) != want {
				t.Errorf("a batch of %d where %d are allowed: %+v, %v", fill, allowed, sent, err)
			}
		}
	}
}

// limited makes a topic that takes batches of at most so many bytes.
func limited(t *testing.T, client *kgo.Client, allowed int) string {
	t.Helper()
	name, limit := "limit-"+strconv.Itoa(allowed)+"-"+strconv.Itoa(int(time.Now().UnixNano()%1e9)), strconv.Itoa(allowed)
	if _, err := kadm.NewClient(client).CreateTopic(context.Background(), 1, 1, map[string]*string{"max.message.bytes": &limit}, name); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestRepeatedBatchesKeepTheirOffsets(t *testing.T) {
	_, _, bootstrap := streamOn(t, "a")
	r, err := Repeat(t.Context(), bootstrap, "a", 8, 3)
	if err != nil || len(r.Offsets) != 8 || r.LogEnd != 24 || r.GapError != "OUT_OF_ORDER_SEQUENCE_NUMBER" {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := Repeat(t.Context(), bootstrap, "a", 5, 3); err == nil {
		t.Error("five batches are all remembered: expected a refusal")
	}
}
