package segment

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/ister-mq/ister/broker/internal/model"
	"github.com/ister-mq/ister/broker/internal/record"
	"github.com/ister-mq/ister/broker/internal/refusal"
	"github.com/ister-mq/ister/broker/internal/vfs"
)

// story runs the commands of testdata/*.txt against one log in memory.
type story struct {
	fs  *vfs.Memory
	cfg Config
	now time.Time
	l   *Log
}

func TestStories(t *testing.T) {
	datadriven.Walk(t, "testdata/stories", func(t *testing.T, path string) {
		s := &story{fs: newMemory(t), now: time.UnixMilli(1_000_000)}
		s.cfg = testConfig(s.fs)
		s.cfg.Now = func() time.Time { return s.now }
		s.cfg.SegmentBytes = 1 << 10
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			out, err := s.run(d)
			if err != nil {
				if r := refusal.As(err); r != nil {
					return out + fmt.Sprintf("refused %s: %s\n", r.Reason, r.Message)
				}
				return out + "error: " + err.Error() + "\n"
			}
			if out == "" {
				return "ok\n"
			}
			return out
		})
	})
}

func number(d *datadriven.TestData, key string, otherwise int64) int64 {
	for _, arg := range d.CmdArgs {
		if arg.Key == key {
			n, err := strconv.ParseInt(arg.Vals[0], 10, 64)
			if err != nil {
				panic(err)
			}
			return n
		}
	}
	return otherwise
}

func (s *story) run(d *datadriven.TestData) (string, error) {
	off := model.Offset(number(d, "offset", 0))
	epoch := model.LeaderEpoch(number(d, "epoch", 0))
	switch d.Cmd {
	case "open":
		l, r, err := Open(s.cfg)
		s.l = l
		return report(r), err
	case "crash":
		s.fs = s.fs.CrashClone(uint64(number(d, "seed", 0)))
		s.cfg.FS = s.fs
		return "", nil
	case "close":
		return "", s.l.Close(d.HasArg("clean"))
	case "append":
		return s.append(d, epoch)
	case "follow":
		b := s.batch(d)
		record.Stamp(b, off, epoch)
		_, err := s.l.AppendFollower(b)
		return "", err
	case "sync":
		return "", s.l.Sync()
	case "truncate":
		return "", s.l.TruncateTo(off)
	case "reset":
		return "", s.l.ResetTo(off)
	case "delete":
		return "", s.l.DeleteTo(off)
	case "assign":
		return "", s.l.AssignEpoch(epoch, s.l.LogEnd())
	case "end-offset":
		found, end := s.l.EndOffsetFor(epoch)
		return fmt.Sprintf("epoch %d ends at %d\n", found, end), nil
	case "check":
		h := header(s.batch(d))
		duplicate, first, err := s.l.CheckSequence(h)
		if err == nil && duplicate {
			return fmt.Sprintf("duplicate of offset %d\n", first), nil
		}
		return "", err
	case "wait":
		s.now = s.now.Add(time.Duration(number(d, "hours", 0)) * time.Hour)
		s.l.ExpireProducers()
		return "", nil
	case "state":
		return s.state(), nil
	case "files":
		names, err := s.fs.List(s.cfg.Dir)
		return strings.Join(names, "\n") + "\n", err
	case "damage":
		return "", s.damage(d)
	}
	return "", fmt.Errorf("unknown command %q", d.Cmd)
}

func (s *story) batch(d *datadriven.TestData) []byte {
	n := int(number(d, "records", 1))
	recs := make([]record.Rec, n)
	for i := range recs {
		recs[i] = record.Rec{Timestamp: int64(i), Value: make([]byte, number(d, "bytes", 100))}
	}
	opts := record.BuildOptions{}
	if d.HasArg("producer") {
		opts.Producer = &record.Producer{ID: model.ProducerID(number(d, "producer", 0)),
			Epoch: model.ProducerEpoch(number(d, "producer-epoch", 0)), Sequence: int32(number(d, "sequence", 0))}
	}
	return record.Build(opts, recs...)
}

func (s *story) append(d *datadriven.TestData, epoch model.LeaderEpoch) (string, error) {
	out := ""
	for range number(d, "times", 1) {
		first, last, err := appendLeader(s.l, s.batch(d), epoch)
		if err != nil {
			return out, err
		}
		out = fmt.Sprintf("offsets %d to %d\n", first, last)
	}
	return out, nil
}

// damage flips a byte of a file, cuts it to a size, or removes it.
func (s *story) damage(d *datadriven.TestData) error {
	var name string
	d.ScanArgs(&testing.T{}, "file", &name)
	name = s.cfg.Dir + "/" + name
	if d.HasArg("remove") {
		return s.fs.Remove(name)
	}
	f, err := s.fs.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	if d.HasArg("size") {
		return f.Truncate(number(d, "size", 0))
	}
	b := make([]byte, 1)
	at := number(d, "flip", 0)
	if _, err := f.ReadAt(b, at); err != nil {
		return err
	}
	b[0] ^= 0xff
	_, err = f.WriteAt(b, at)
	return err
}

func report(r Recovery) string {
	var out strings.Builder
	if r.Quarantined {
		fmt.Fprintf(&out, "quarantined: %s at byte %d, offset %d\n", r.Segment, r.Position, r.Offset)
		return out.String()
	}
	fmt.Fprintf(&out, "offsets %d to %d", r.LogStart, r.LogEnd)
	if r.Clean {
		out.WriteString(", clean")
	}
	fmt.Fprintf(&out, ", scanned %d bytes\n", r.ScannedBytes)
	if r.TruncatedBytes > 0 || r.RemovedSegments > 0 {
		fmt.Fprintf(&out, "cut %s at byte %d, offset %d: %d bytes with %d whole batches, %d segments\n",
			r.Segment, r.Position, r.Offset, r.TruncatedBytes, r.TruncatedBatches, r.RemovedSegments)
		fmt.Fprintf(&out, "because: %s\n", r.Reason)
	}
	if r.RepairedHeaders > 0 {
		fmt.Fprintf(&out, "repaired %d headers\n", r.RepairedHeaders)
	}
	return out.String()
}

func (s *story) state() string {
	var out strings.Builder
	fmt.Fprintf(&out, "offsets %d to %d, durable to %d\n", s.l.LogStart(), s.l.LogEnd(), s.l.Durable())
	for _, e := range s.l.Epochs() {
		fmt.Fprintf(&out, "epoch %d from %d\n", e.Epoch, e.Start)
	}
	for _, i := range s.l.Segments() {
		fmt.Fprintf(&out, "segment %d to %d, %d bytes\n", i.Base, i.Next, i.Bytes)
	}
	for _, p := range s.l.Producers() {
		fmt.Fprintf(&out, "producer %d epoch %d, last sequence %d at offset %d\n", p.ID, p.Epoch, p.LastSequence, p.LastOffset)
	}
	return out.String()
}
