package segment

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/ister-mq/ister/broker/internal/model"
	"github.com/ister-mq/ister/broker/internal/record"
	"github.com/ister-mq/ister/broker/internal/vfs"
)

// TestDurableSurvivesChanges: whatever was appended, synced, cut off, deleted or
// restarted, and in whatever files it lies, what Durable counts is there after a
// power failure.
func TestDurableSurvivesChanges(t *testing.T) {
	for seed := range uint64(seeds(300)) {
		random := rand.New(rand.NewPCG(seed, 1))
		disk := vfs.NewMemory()
		if err := disk.MkdirAll("/data"); err != nil {
			t.Fatal(err)
		}
		if err := disk.SyncDir("/"); err != nil {
			t.Fatal(err)
		}
		cfg := Config{FS: disk, Dir: "/data/p", SegmentBytes: 4096, IndexIntervalBytes: 512, Now: func() time.Time { return time.Unix(1, 0) }}
		l, _, err := Open(cfg)
		if err != nil {
			t.Fatal(err)
		}
		history := ""
		for range 6 + random.IntN(20) {
			step, err := changeSomehow(l, random)
			if err != nil {
				t.Fatalf("seed %d: %s%s: %v", seed, history, step, err)
			}
			history += step
		}
		start, durable := l.LogStart(), l.Durable()
		cfg.FS = disk.CrashClone(seed)
		after, recovery, err := Open(cfg)
		if err != nil {
			t.Fatalf("seed %d: %s: %v", seed, history, err)
		}
		if after.LogEnd() < durable || after.LogStart() > start {
			t.Fatalf("seed %d: %d..%d was durable, after the crash %d..%d (%+v): %s",
				seed, start, durable, after.LogStart(), after.LogEnd(), recovery, history)
		}
	}
}

func changeSomehow(l *Log, random *rand.Rand) (string, error) {
	switch x := random.IntN(20); {
	case x < 14:
		size := 20
		if random.IntN(6) == 0 {
			size = 1500
		}
		rec := record.Rec{Value: make([]byte, size)}
		_, err := l.AppendFollower(record.Build(record.BuildOptions{BaseOffset: l.LogEnd(), LeaderEpoch: 1}, rec, rec))
		return "append ", err
	case x < 16:
		return "sync ", l.Sync()
	case x < 18:
		to := max(l.LogStart(), l.LogEnd()-model.Offset(random.IntN(8)))
		return fmt.Sprintf("truncate %d ", to), l.TruncateTo(to)
	case x < 19:
		to := min(l.LogEnd(), l.LogStart()+model.Offset(2*random.IntN(5)))
		return fmt.Sprintf("delete %d ", to), l.DeleteTo(to)
	}
	to := l.LogEnd() + model.Offset(random.IntN(10))
	return fmt.Sprintf("reset %d ", to), l.ResetTo(to)
}
