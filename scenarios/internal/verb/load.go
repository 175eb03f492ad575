package verb

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/ister-mq/ister/scenarios/internal/load"
	"github.com/ister-mq/ister/scenarios/internal/spec"
	"github.com/ister-mq/ister/scenarios/internal/verdict"
)

type loadStartInputs struct {
	ID       string   `json:"id" required:"true" doc:"name of the load in the history"`
	Topics   []string `json:"topics" required:"true" doc:"topics, as Kafka clients name them"`
	Rate     int64    `json:"rate" default:"30" min:"1" max:"100000" doc:"records per second on each topic"`
	Messages int64    `json:"messages" default:"0" min:"0" doc:"records over all topics; 0: until stopped"`
	Keys     int64    `json:"keys" default:"8" min:"1" doc:"keys per topic"`
	Size     int64    `json:"size" default:"100" min:"1" max:"1000000" doc:"bytes per record"`
	HoldAt   []int64  `json:"hold_at" doc:"counts of records after which the producer waits for a load.release"`
	Consume  bool     `json:"consume" default:"true" doc:"a reader follows the load"`
	Only     string   `json:"only" doc:"name of a broker: the clients of this load reach it alone, as clients on its side of a partition do, and give up on a record after 3s; default: all"`
}

type loadOutputs struct {
	ID     string `json:"id" doc:"name of the load"`
	Topics int64  `json:"topics" doc:"how many topics"`
}

type loadInputs struct {
	Load string `json:"load" required:"true" doc:"name of the load"`
}

type loadReleaseInputs struct {
	Load            string `json:"load" required:"true" doc:"name of the load"`
	WithDisturbance bool   `json:"with_disturbance" default:"false" doc:"not now, but when the next step that disturbs the cluster begins, however long that takes: its sends are then in flight"`
}

type loadWaitInputs struct {
	Load  string `json:"load" required:"true" doc:"name of the load"`
	Acked int64  `json:"acked" default:"0" min:"0" doc:"wait for so many acknowledged records; 0: until all are sent and answered"`
	More  int64  `json:"more" default:"0" min:"0" doc:"wait for so many more than now"`
}

type loadCounts struct {
	Sent   int64   `json:"sent" doc:"records given to the client"`
	Acked  int64   `json:"acked" doc:"records acknowledged"`
	TookMS float64 `json:"took_ms" doc:"time waited"`
}

type verifyOutputs struct {
	Sent            int64   `json:"sent" doc:"records sent"`
	Acked           int64   `json:"acked" doc:"acknowledged"`
	Failed          int64   `json:"failed" doc:"refused for certain"`
	Unknown         int64   `json:"unknown" doc:"of unknown outcome"`
	UnknownVisible  int64   `json:"unknown_visible" doc:"of unknown outcome, and in the log"`
	InLog           int64   `json:"in_log" doc:"records read from the log"`
	Received        int64   `json:"received" doc:"deliveries to the reader that follows"`
	Partitions      int64   `json:"partitions" doc:"partitions read"`
	Offsets         string  `json:"offsets" doc:"offsets read, 0..199 for one partition without gaps"`
	AckedMissing    int64   `json:"acked_missing" doc:"acknowledged, and not in the log"`
	OffsetErrors    int64   `json:"offset_errors" doc:"at another offset than acknowledged, or one offset acknowledged twice"`
	OffsetGaps      int64   `json:"offset_gaps" doc:"gaps in the offsets"`
	Duplicates      int64   `json:"duplicates" doc:"records twice in the log by the broker's fault"`
	ClientRepeats   int64   `json:"client_duplicates" doc:"records that the client sent again in a new producer epoch"`
	Foreign         int64   `json:"phantom_or_corrupt" doc:"records that nobody sent, or with other bytes"`
	FailedVisible   int64   `json:"failed_visible" doc:"refused, and in the log"`
	OrderBreaks     int64   `json:"order_breaks" doc:"breaks of the order of a producer, a key, real time or leader epochs"`
	Disagreements   int64   `json:"disagreements" doc:"two observers saw different records, or something seen is gone"`
	DeliveryErrors  int64   `json:"delivery_errors" doc:"skips and losses at the reader that follows"`
	Violations      int64   `json:"violations" doc:"all of these together"`
	FirstViolation  string  `json:"first_violation" doc:"the gravest, in words"`
	BaselineRecords int64   `json:"baseline_records" doc:"acknowledged before the first disturbance"`
	BaselineP99MS   float64 `json:"baseline_p99_ms" doc:"99th percentile of acknowledgement time before it"`
	GapMS           float64 `json:"produce_gap_ms" doc:"longest time that a partition acknowledged nothing while a send waited"`
	P50MS           float64 `json:"p50_ms" doc:"median acknowledgement time"`
	P99MS           float64 `json:"p99_ms" doc:"99th percentile of it"`
	P999MS          float64 `json:"p999_ms" doc:"99.9th percentile of it"`
}

type duringInputs struct {
	Load   string        `json:"load" required:"true" doc:"name of the load"`
	Step   spec.StepID   `json:"step" required:"true" doc:"the step that disturbed the cluster"`
	Settle time.Duration `json:"settle" default:"5s" doc:"how long after it gaps still count"`
	Skip   time.Duration `json:"skip" default:"0s" doc:"how much of its beginning is left out"`
}

type duringOutputs struct {
	InFlight     int64   `json:"in_flight" doc:"sends that waited at some time during the step"`
	Acked        int64   `json:"acked" doc:"acknowledged during the step"`
	AckedBefore  int64   `json:"acked_before" doc:"acknowledged before it"`
	AckedAfter   int64   `json:"acked_after" doc:"begun after it and acknowledged"`
	Errors       int64   `json:"errors" doc:"sends that ended without an acknowledgement"`
	ProduceGapMS float64 `json:"produce_gap_ms" doc:"longest time that a partition acknowledged nothing while a send waited"`
	ConsumeGapMS float64 `json:"consume_gap_ms" doc:"longest time from an acknowledgement to the delivery"`
	P99MS        float64 `json:"p99_ms" doc:"99th percentile of acknowledgement time"`
	LastedMS     float64 `json:"lasted_ms" doc:"how long the step disturbed"`
}

func init() {
	define(meta{
		name: "load.start", risk: spec.Additive, doc: "Send records at a steady rate with an idempotent producer, and let a reader follow.",
		command: "<a Kafka client producing {rate} records/s to each of {topics}>",
	}, loadStart, nil)
	define(meta{
		name: "load.release", risk: spec.Additive, doc: "Let the producer pass its next hold_at.", command: "<let the producer go on>",
	}, loadRelease, nil)
	define(meta{
		name: "load.wait", risk: spec.ReadOnly, doc: "Wait until records are acknowledged.", command: "<wait for the producer>",
		note: "acked {acked}, sent {sent}",
	}, loadWait, nil)
	define(meta{
		name: "load.stop", risk: spec.Additive, doc: "Stop sending and wait for the outstanding answers.", command: "<stop the producer>",
		note: "acked {acked}, sent {sent}",
	}, loadStop, nil)
	define(meta{
		name: "load.verify", risk: spec.ReadOnly, doc: "Read everything with a fresh reader, to the high watermark of every partition, and judge the whole history. A load that runs goes on.",
		command: "<read every topic from the beginning and compare>",
		note:    "acked {acked}, in log {in_log}, violations {violations}",
	}, loadVerify, nil)
	define(meta{
		name: "load.during", risk: spec.ReadOnly, doc: "How the load fared while a step disturbed the cluster.", command: "<look at the producer's log>",
		note: "in flight {in_flight}, produce gap ms {produce_gap_ms}",
	}, loadDuring, nil)
}

func loadStart(ctx context.Context, env *Env, in loadStartInputs) (loadOutputs, error) {
	if _, err := env.load(in.ID); err == nil {
		return loadOutputs{}, fmt.Errorf("a load %s runs already", in.ID)
	}
	only := ""
	if in.Only != "" {
		b, err := env.broker(in.Only)
		if err != nil {
			return loadOutputs{}, err
		}
		only = b.Kafka
	}
	l, err := load.Start(ctx, load.Config{
		ID: in.ID, Only: only, Bootstrap: env.bootstrap(), Topics: in.Topics, Rate: int(in.Rate), Messages: in.Messages, Keys: int(in.Keys), Size: int(in.Size),
		Holds: in.HoldAt, Consume: in.Consume,
	}, env.Recorder)
	if err != nil {
		return loadOutputs{}, fmt.Errorf("start load %s: %w", in.ID, err)
	}
	env.addLoad(l)
	return loadOutputs{ID: in.ID, Topics: int64(len(in.Topics))}, nil
}

func loadRelease(_ context.Context, env *Env, in loadReleaseInputs) (loadCounts, error) {
	l, err := env.load(in.Load)
	if err != nil {
		return loadCounts{}, err
	}
	switch {
	case in.WithDisturbance:
		env.mu.Lock()
		env.armed = append(env.armed, l)
		env.mu.Unlock()
	case !l.Release():
		return loadCounts{}, noMoreHolds(l)
	}
	return loadCounts{Sent: l.Sent(), Acked: l.Acked()}, nil
}

func noMoreHolds(l *load.Load) error {
	return fmt.Errorf("load %s has no more holds to pass: give load.start one hold_at for each load.release", l.ID())
}

func loadWait(ctx context.Context, env *Env, in loadWaitInputs) (loadCounts, error) {
	l, err := env.load(in.Load)
	if err != nil {
		return loadCounts{}, err
	}
	start := time.Now()
	switch {
	case in.More > 0:
		err = l.WaitAcked(ctx, l.Acked()+in.More)
	case in.Acked > 0:
		err = l.WaitAcked(ctx, in.Acked)
	default:
		err = l.WaitSent(ctx)
	}
	return loadCounts{Sent: l.Sent(), Acked: l.Acked(), TookMS: since(start)}, err
}

func loadStop(ctx context.Context, env *Env, in loadInputs) (loadCounts, error) {
	l, err := env.load(in.Load)
	if err != nil {
		return loadCounts{}, err
	}
	start := time.Now()
	err = l.Stop(ctx)
	return loadCounts{Sent: l.Sent(), Acked: l.Acked(), TookMS: since(start)}, err
}

func loadVerify(ctx context.Context, env *Env, in loadInputs) (verifyOutputs, error) {
	l, err := env.load(in.Load)
	if err != nil {
		return verifyOutputs{}, err
	}
	read, err := l.Read(ctx, env.bootstrap())
	if err != nil {
		return verifyOutputs{}, err
	}
	h := env.Recorder.Snapshot()
	v, err := verdict.Judge(h, in.Load, read)
	if err != nil {
		return verifyOutputs{}, err
	}
	out := verifyOutputs{
		Sent: int64(v.Sent), Acked: int64(v.Acked), Failed: int64(v.Failed), Unknown: int64(v.Unknown), UnknownVisible: int64(v.UnknownVisible),
		InLog: int64(v.InLog), Received: int64(v.Received), Partitions: int64(v.Partitions), Violations: int64(v.Violations()), Offsets: extents(v),
	}
	sum := func(checks ...verdict.Check) int64 {
		total := 0
		for _, c := range checks {
			total += v.Counts[c]
		}
		return int64(total)
	}
	out.AckedMissing = sum(verdict.AckedLost)
	out.OffsetErrors = sum(verdict.OffsetMismatch, verdict.OffsetReused)
	out.OffsetGaps = sum(verdict.OffsetGap)
	out.Duplicates = sum(verdict.LogDuplicate)
	out.ClientRepeats = sum(verdict.ClientDuplicate)
	out.Foreign = sum(verdict.Phantom, verdict.Corrupt)
	out.FailedVisible = sum(verdict.FailedVisible)
	out.OrderBreaks = sum(verdict.ProducerOrder, verdict.KeyOrder, verdict.RealTimeOrder, verdict.EpochRegress, verdict.StaleEpochAck)
	out.Disagreements = sum(verdict.Divergence, verdict.HighWatermarkBack)
	out.DeliveryErrors = sum(verdict.ConsumerSkip, verdict.DeliveryDuplicate, verdict.AckedRedelivered, verdict.NotRedelivered, verdict.NeverDelivered)
	if len(v.Findings) > 0 {
		out.FirstViolation = fmt.Sprintf("%s: %s", v.Findings[0].Check, v.Findings[0].Message)
	}
	baseline := verdict.Baseline(h, in.Load)
	out.BaselineRecords, out.BaselineP99MS = int64(baseline.Acked), tenth(baseline.P99MS)
	whole := verdict.Observe(h, in.Load, 0, 0, 0)
	out.GapMS, out.P50MS, out.P99MS, out.P999MS = tenth(whole.ProduceGapMS), tenth(whole.P50MS), tenth(whole.P99MS), tenth(whole.P999MS)
	return out, nil
}

// extents is the range of one partition, or how many partitions have how many
// records.
func extents(v *verdict.Verdict) string {
	if len(v.Extent) == 1 {
		for _, extent := range v.Extent {
			return extent
		}
	}
	gaps := 0
	for _, extent := range v.Extent {
		if strings.Contains(extent, ",") {
			gaps++
		}
	}
	return fmt.Sprintf("%d records on %d partitions, %d with gaps", v.InLog, v.Partitions, gaps)
}

func loadDuring(_ context.Context, env *Env, in duringInputs) (duringOutputs, error) {
	h := env.Recorder.Snapshot()
	for _, d := range h.Disturbances {
		if d.Step != string(in.Step) {
			continue
		}
		w := verdict.Observe(h, in.Load, d.Start+int64(in.Skip), d.End, int64(in.Settle))
		return duringOutputs{
			InFlight: int64(w.InFlight), Acked: int64(w.Acked), AckedBefore: int64(w.AckedBefore), AckedAfter: int64(w.AckedAfter), Errors: int64(w.Errors),
			ProduceGapMS: tenth(w.ProduceGapMS), ConsumeGapMS: tenth(w.ConsumeGapMS), P99MS: tenth(w.P99MS), LastedMS: tenth(float64(d.End-d.Start) / 1e6),
		}, nil
	}
	return duringOutputs{}, fmt.Errorf("step %s did not disturb the cluster: no such disturbance is in the history", in.Step)
}
