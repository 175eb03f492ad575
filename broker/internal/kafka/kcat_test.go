//go:build kcat

package kafka

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/ister-mq/ister/broker/internal/record"
)

// These tests need kcat (librdkafka) in PATH: go test -tags kcat.

func kcat(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, "kcat", args...)
	cmd.Stdin = strings.NewReader(stdin)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		t.Fatalf("kcat %v: %v\n%s", args, err, errs.String())
	}
	return out.String()
}

func TestKcatProducesAndConsumesWithEveryCodec(t *testing.T) {
	f, addrs := startCluster(t, 3, Config{})
	const n = 10_000
	var lines strings.Builder
	for i := range n {
		fmt.Fprintf(&lines, "record %d of this test, long enough to compress\n", i)
	}
	for codec, want := range map[string]record.Codec{
		"none": record.None, "gzip": record.Gzip, "snappy": record.Snappy, "lz4": record.LZ4, "zstd": record.Zstd,
	} {
		for _, idempotent := range []string{"true", "false"} {
			t.Run(codec+"/idempotent="+idempotent, func(t *testing.T) {
				name := "kcat-" + codec + "-" + idempotent
				topic := f.topic(t, name, 1, 2) // led by one node, reached through the others
				kcat(t, lines.String(), "-P", "-b", addrs[0], "-t", name, "-p", "0", "-z", codec, "-X", "enable.idempotence="+idempotent)
				got := kcat(t, "", "-C", "-b", addrs[2], "-t", name, "-p", "0", "-o", "beginning", "-e", "-q")
				if got != lines.String() {
					t.Errorf("read %d bytes, want the %d produced", len(got), lines.Len())
				}
				f.mu.Lock()
				defer f.mu.Unlock()
				for _, b := range f.logs[topic.Partitions[0].ID].batches {
					// librdkafka leaves a batch alone where compression does not help,
					// so that only the many large ones tell.
					if h, _, err := record.Parse(b); err != nil || h.Records > 100 && h.Codec() != want {
						t.Fatalf("a batch of %d records has codec %d, want %d (%v)", h.Records, h.Codec(), want, err)
					}
				}
			})
		}
	}
}

func TestKcatListsAndQueries(t *testing.T) {
	f, addrs := startCluster(t, 3, Config{})
	f.topic(t, "listed", 3, 1, 2, 3)
	out := kcat(t, "", "-L", "-b", addrs[1])
	for _, want := range []string{"3 brokers:", "1 topics:", `topic "listed" with 3 partitions:`, addrs[2]} {
		if !strings.Contains(out, want) {
			t.Errorf("kcat -L lacks %q:\n%s", want, out)
		}
	}
	kcat(t, "a\nb\nc\n", "-P", "-b", addrs[0], "-t", "listed", "-p", "0")
	if out := kcat(t, "", "-Q", "-b", addrs[0], "-t", "listed:0:-1"); !strings.Contains(out, "offset 3") {
		t.Errorf("the end is %q, want offset 3", out)
	}
}
