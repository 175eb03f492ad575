package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func fakeBrokers(t *testing.T) *kfake.Cluster {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(3, "orders"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func TestRoundTripReadsWhatItWrote(t *testing.T) {
	brokers := fakeBrokers(t).ListenAddrs()
	for range 2 { // the second time there are records of others before its own
		if err := roundTrip(t.Context(), brokers, "orders", 500); err != nil {
			t.Fatal(err)
		}
	}
}

func TestRoundTripSaysWhatIsMissing(t *testing.T) {
	c := fakeBrokers(t)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	c.ControlKey(int16(kmsg.Fetch), func(kmsg.Request) (kmsg.Response, error, bool) {
		cancel() // records were written, and nothing can be read any more
		return nil, nil, false
	})
	if err := roundTrip(ctx, c.ListenAddrs(), "orders", 5); err == nil || !strings.Contains(err.Error(), "5 of 5 records were not read") {
		t.Errorf("got %v", err)
	}
}

func TestRoundTripRefusesATopicThatIsNotThere(t *testing.T) {
	if err := roundTrip(t.Context(), fakeBrokers(t).ListenAddrs(), "nosuch", 1); err == nil || !strings.Contains(err.Error(), "write to nosuch: UNKNOWN_TOPIC_OR_PARTITION") {
		t.Errorf("got %v", err)
	}
}
