package adminapi_test

import (
	"bytes"
	"context"
	"testing"

	"github.com/ister-mq/ister/admin/cli"
	"github.com/ister-mq/ister/broker/internal/refusal"
)

// TestEveryReasonHasAnExitStatus walks the closed set from the broker to the exit
// status of the command line.
func TestEveryReasonHasAnExitStatus(t *testing.T) {
	want := map[refusal.Kind]int{
		refusal.Invalid: 2, refusal.NotFound: 3, refusal.Exists: 3, refusal.Precondition: 4, refusal.Stale: 5,
		refusal.Redirect: 6, refusal.Exhausted: 6, refusal.Unavailable: 6, refusal.Internal: 1,
	}
	c := newCluster(t, 1)
	for _, reason := range refusal.Reasons() {
		c.mu.Lock()
		c.fault = refusal.New(reason, "subject", "the message", "the advice")
		c.mu.Unlock()
		var out, words bytes.Buffer
		args := []string{"--endpoint", c.nodes[1].address, "--timeout", "100ms", "namespaces", "create", "payments"}
		exit := cli.Execute(context.Background(), cli.NewCommand(), args, &out, &words)
		if exit != want[refusal.KindOf(reason)] {
			t.Errorf("%s: exit %d, expected %d: %s", reason, exit, want[refusal.KindOf(reason)], words.String())
		}
	}
}
