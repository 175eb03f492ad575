package segment

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/ister-mq/ister/broker/internal/model"
	"github.com/ister-mq/ister/broker/internal/record"
	"github.com/ister-mq/ister/broker/internal/vfs"
)

func benchBatch(tb testing.TB, bytes int) record.Checked {
	batch, err := record.CheckProduce(record.Build(record.BuildOptions{}, record.Rec{Value: make([]byte, bytes)}))
	if err != nil {
		tb.Fatal(err)
	}
	return batch
}

func benchConfig(dir string) Config { return Config{FS: vfs.OS{}, Dir: dir} }

// BenchmarkAppend appends 16 KiB batches to one log, in the page cache only.
func BenchmarkAppend(b *testing.B) {
	for _, size := range []int{400, 16 << 10, 1 << 20} {
		b.Run(fmt.Sprintf("bytes=%d", size), func(b *testing.B) {
			l := mustOpen(b, benchConfig(b.TempDir()+"/log"))
			batch := benchBatch(b, size)
			b.SetBytes(int64(batch.Size()))
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := l.AppendLeader(batch, 0); err != nil {
					b.Fatal(err)
				}
				// Retention, so that a long run does not fill the disk.
				if s := l.Segments(); len(s) > 2 {
					if err := l.DeleteTo(s[0].Next); err != nil {
						b.Fatal(err)
					}
				}
			}
			l.Close(false)
		})
	}
}

// BenchmarkRead reads a log of 16 KiB batches from start to end, 1 MiB at a time.
func BenchmarkRead(b *testing.B) {
	l := mustOpen(b, benchConfig(b.TempDir()+"/log"))
	batch := benchBatch(b, 16<<10)
	for range 4096 {
		mustAppend(b, l, batch.Bytes(), 0)
	}
	buf := make([]byte, 0, 1<<20+readAhead)
	b.SetBytes(1 << 20)
	b.ReportAllocs()
	at := model.Offset(0)
	for b.Loop() {
		out, err := l.ReadInto(buf, at, 1<<20, noLimit, true)
		if err != nil {
			b.Fatal(err)
		}
		if at += model.Offset(len(out) / batch.Size()); at == l.LogEnd() {
			at = 0
		}
	}
	l.Close(false)
}

// BenchmarkFlushRound makes one batch on each of N logs durable, per iteration:
// with the journal, and in place.
func BenchmarkFlushRound(b *testing.B) {
	for _, journal := range []bool{true, false} {
		for _, n := range []int{1, 2, 3, 4, 12, 100, 1000} {
			for _, size := range []int{400, 4 << 10} {
				b.Run(fmt.Sprintf("journal=%v/logs=%d/bytes=%d", journal, n, size), func(b *testing.B) {
					benchFlush(b, journal, n, size)
				})
			}
		}
	}
}

func benchFlush(b *testing.B, journal bool, n, size int) {
	dir := b.TempDir()
	cfg := FlusherConfig{FS: vfs.OS{}}
	if journal {
		cfg.Dir, cfg.LogsDir = dir+"/journal", dir
	}
	f, err := NewFlusher(cfg)
	if err != nil {
		b.Fatal(err)
	}
	logs := make([]*Log, n)
	for i := range logs {
		logs[i] = mustOpen(b, benchConfig(fmt.Sprintf("%s/p-%d", dir, i)))
		if err := f.Attach(logs[i]); err != nil {
			b.Fatal(err)
		}
	}
	batch := benchBatch(b, size)
	var round sync.WaitGroup
	var worst time.Duration
	one := func() {
		began := time.Now()
		for _, l := range logs {
			if _, _, err := l.AppendLeader(batch, 0); err != nil {
				b.Fatal(err)
			}
		}
		round.Add(n)
		for _, l := range logs {
			f.Request(l, l.LogEnd(), func(_ model.Offset, err error) {
				if err != nil {
					b.Error(err)
				}
				round.Done()
			})
		}
		round.Wait()
		worst = max(worst, time.Since(began))
	}
	for range 3 {
		one() // first writes make files and fill the journal ahead
	}
	worst = 0
	for b.Loop() {
		one()
	}
	b.ReportMetric(float64(worst.Microseconds())/1000, "worst-ms")
	b.StopTimer()
	for _, l := range logs {
		f.Detach(l)
		l.Close(false)
	}
	f.Close()
}
