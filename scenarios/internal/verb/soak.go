package verb

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/ister-mq/ister/admin/adminv1"
	"github.com/ister-mq/ister/scenarios/internal/history"
	"github.com/ister-mq/ister/scenarios/internal/load"
	"github.com/ister-mq/ister/scenarios/internal/spec"
	"github.com/ister-mq/ister/scenarios/internal/verdict"
	"github.com/ister-mq/ister/setups"
)

type soakInputs struct {
	Duration time.Duration `json:"duration" default:"30s" doc:"how long; the window that is open then is finished"`
	Window   time.Duration `json:"window" default:"15s" doc:"how long one set of topics is written before it is read and judged, and its history is given up"`
	Topics   int64         `json:"topics" default:"8" min:"1" max:"500" doc:"topics of a window"`
	Rate     int64         `json:"rate" default:"10" min:"1" max:"1000" doc:"records per second on each topic"`
	Within   time.Duration `json:"within" default:"60s" doc:"how long one disturbance may take until everything is in sync again"`
}

type soakOutputs struct {
	Windows       int64    `json:"windows" doc:"windows judged"`
	Disturbances  int64    `json:"disturbances" doc:"disturbances after which everything was in sync again"`
	Kinds         int64    `json:"kinds" doc:"different kinds of them"`
	Mix           string   `json:"mix" doc:"how many of each kind"`
	Sent          int64    `json:"sent" doc:"records sent"`
	Acked         int64    `json:"acked" doc:"acknowledged"`
	Unknown       int64    `json:"unknown" doc:"of unknown outcome"`
	InLog         int64    `json:"in_log" doc:"read back"`
	AckedMissing  int64    `json:"acked_missing" doc:"acknowledged, and not in the log"`
	Duplicates    int64    `json:"duplicates" doc:"twice in the log by the broker's fault"`
	OrderBreaks   int64    `json:"order_breaks" doc:"breaks of order, acknowledgements of an old epoch included"`
	Violations    int64    `json:"violations" doc:"violations of any kind"`
	FirstFault    string   `json:"first_violation" doc:"the gravest of the window that had one, and where its history is"`
	WorstMS       float64  `json:"worst_unavailability_ms" doc:"longest time that a partition acknowledged nothing while a send waited"`
	WorstWindow   string   `json:"worst_window" doc:"the window of it, and what disturbed there"`
	HealMS        float64  `json:"worst_recovery_ms" doc:"longest time from the end of a disturbance until everything was in sync"`
	MemoryMB      *float64 `json:"memory_mb" doc:"resident memory of the brokers at the end, in the mean; none when they do not tell"`
	MemoryGrowth  *float64 `json:"memory_growth_mb" doc:"how much more than after the first window"`
	OpenFiles     *float64 `json:"open_files" doc:"open files of a broker at the end, in the mean"`
	OpenFilesMore *float64 `json:"open_files_growth" doc:"how many more than after the first window"`
	Log           []string `json:"log" doc:"the last disturbances and windows, one line each"`
}

func init() {
	define(meta{
		name: "chaos.soak", note: "windows {windows}, disturbances {disturbances}, violations {violations}", risk: spec.Destructive,
		needs: []setups.Ability{setups.AbilityAdd, setups.AbilityStart, setups.AbilityStop, setups.AbilityKill, setups.AbilityPause, setups.AbilityCutOff, setups.AbilitySlow, setups.AbilityAdmin},
		doc: "Write many topics for a given time while the seed disturbs the cluster: brokers are killed, restarted, frozen, cut off, slowed, " +
			"added and removed, leaders and the controller move. Every window has topics of its own, is read back and judged, and gives its history up: memory stays bounded, and a window with a violation is kept as evidence.",
		command: "<as kill-and-recover, broker-scaling and partition-and-heal by hand, in turn>",
	}, chaosSoak, nil)
}

// soakLogMax bounds the lines that a soak of any length returns.
const soakLogMax = 60

// disturbance is one sort of thing that a soak does to the cluster. It ends when
// what it did is undone; who waits for the recovery is its caller.
type disturbance struct {
	name string
	do   func(context.Context, *soak) (target string, err error)
}

// disturbances of a soak. In each cycle every one comes once, in an order that
// the seed gives.
var disturbances = []disturbance{
	{"kill", soakKill}, {"restart", soakRestart}, {"pause", soakPause}, {"cut_off", soakCutOff}, {"slow", soakSlow},
	{"move", soakMove}, {"transfer", soakTransfer}, {"scale", soakScale},
}

// soak is one under way.
type soak struct {
	env  *Env
	in   soakInputs
	rng  *rand.Rand
	next []int // of disturbances, what is left of this cycle
	done map[string]int
	out  soakOutputs

	topics []string // full names, of the open window
	first  *usage   // after the first window
}

func chaosSoak(ctx context.Context, env *Env, in soakInputs) (soakOutputs, error) {
	if in.Duration <= 0 || in.Window <= 0 || in.Within <= 0 {
		return soakOutputs{}, fmt.Errorf("soak for %s in windows of %s, recovery within %s: each must be above zero", in.Duration, in.Window, in.Within)
	}
	s := &soak{env: env, in: in, rng: rand.New(rand.NewPCG(uint64(env.Seed), 3)), done: map[string]int{}}
	end := time.Now().Add(in.Duration)
	for time.Now().Before(end) && s.out.Violations == 0 {
		if err := s.window(ctx, end); err != nil {
			return s.result(), fmt.Errorf("window %d: %w", s.out.Windows+1, err)
		}
	}
	return s.result(), nil
}

// say reports a line, and keeps the last ones.
func (s *soak) say(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	s.env.Say(line)
	if s.out.Log = append(s.out.Log, line); len(s.out.Log) > soakLogMax {
		s.out.Log = slices.Delete(s.out.Log, 0, len(s.out.Log)-soakLogMax)
	}
}

func (s *soak) result() soakOutputs {
	var mix []string
	for _, d := range disturbances {
		if n := s.done[d.name]; n > 0 {
			mix = append(mix, fmt.Sprintf("%s %d", d.name, n))
		}
	}
	s.out.Mix, s.out.Kinds = strings.Join(mix, ", "), int64(len(mix))
	return s.out
}

// pick chooses the next sort of disturbance.
func (s *soak) pick() disturbance {
	if len(s.next) == 0 {
		s.next = s.rng.Perm(len(disturbances))
	}
	d := disturbances[s.next[0]]
	s.next = s.next[1:]
	return d
}

// window writes one set of topics, disturbs the cluster, and judges. The history
// of a window is in a file while it lasts; a good one is given up then.
func (s *soak) window(ctx context.Context, end time.Time) error {
	number := s.out.Windows + 1
	id := fmt.Sprintf("soak-%d", number)
	made, err := topicCreate(ctx, s.env, createInputs{Name: "/default/" + id + "-", Count: max(s.in.Topics, 2), Partitions: 1, Dispatch: "reliable"})
	s.topics = made.Names
	if err != nil {
		return err
	}
	recorder := history.NewRecorder()
	file := filepath.Join(s.env.Dir, fmt.Sprintf("history-%s.ndjson.gz", id))
	journal, err := recorder.Journal(file)
	if err != nil {
		return err
	}
	closed := false
	defer func() {
		if !closed {
			_ = journal.Close() // evidence of a window that failed; its error is told
		}
	}()
	l, err := load.Start(ctx, load.Config{ID: id, Bootstrap: s.env.bootstrap(), Topics: made.KafkaNames, Rate: int(s.in.Rate), Keys: 8, Size: 100, Consume: true}, recorder)
	if err != nil {
		return fmt.Errorf("start load %s: %w", id, err)
	}
	defer l.Close()
	if err := l.WaitAcked(ctx, made.Count*s.in.Rate); err != nil {
		return fmt.Errorf("see a baseline: %w", err)
	}
	if until := time.Now().Add(s.in.Window); until.Before(end) {
		end = until
	}
	var what []string
	for first := true; first || time.Now().Before(end); first = false {
		name, err := s.disturb(ctx, recorder)
		if err != nil {
			return err
		}
		what = append(what, name)
		if err := l.WaitAcked(ctx, l.Acked()+made.Count); err != nil {
			return fmt.Errorf("writing did not go on after %s: %w", name, err)
		}
	}
	good, err := s.judge(ctx, l, recorder, what)
	if err != nil {
		return err
	}
	closed = true
	if err := journal.Close(); err != nil {
		return err
	}
	if !good {
		s.out.FirstFault += "; its history is " + filepath.Base(file)
		return nil
	}
	l.Close()
	if err := os.Remove(file); err != nil {
		return fmt.Errorf("give the history of a good window up: %w", err)
	}
	if err := s.remove(ctx, made.Names); err != nil {
		return err
	}
	return s.watch(ctx)
}

// disturb does one thing to the cluster and waits until it has recovered.
func (s *soak) disturb(ctx context.Context, window *history.Recorder) (string, error) {
	d := s.pick()
	number := s.out.Disturbances + 1
	step := s.env.step
	s.env.step = fmt.Sprintf("%s#%d", step, number) // faults that last are recorded under it
	defer func() { s.env.step = step }()
	ctx, cancel := context.WithTimeout(ctx, s.in.Within)
	defer cancel()
	handle := window.BeginDisturbance(s.env.step, "chaos.soak", d.name)
	seen := s.env.Recorder.BeginDisturbance(s.env.step, "chaos.soak", d.name)
	target, err := d.do(ctx, s)
	healing := time.Now()
	if err == nil {
		err = inSync(ctx, s.env)
	}
	if err != nil {
		return d.name, fmt.Errorf("disturbance %d, %s of %s: %w", number, d.name, target, err)
	}
	window.EndDisturbance(handle)
	s.env.Recorder.EndDisturbance(seen)
	heal := since(healing)
	s.out.HealMS = max(s.out.HealMS, heal)
	s.out.Disturbances = number
	s.done[d.name]++
	s.say("%d: %s of %s, in sync %.0f ms after", number, d.name, target, heal)
	return d.name + " of " + target, nil
}

// judge reads everything back and adds to the counts.
func (s *soak) judge(ctx context.Context, l *load.Load, recorder *history.Recorder, what []string) (good bool, err error) {
	if err := l.Stop(ctx); err != nil {
		return false, err
	}
	read, err := l.Read(ctx, s.env.bootstrap())
	if err != nil {
		return false, err
	}
	h := recorder.Snapshot()
	v, err := verdict.Judge(h, l.ID(), read)
	if err != nil {
		return false, err
	}
	out := &s.out
	out.Windows++
	out.Sent, out.Acked, out.Unknown, out.InLog = out.Sent+int64(v.Sent), out.Acked+int64(v.Acked), out.Unknown+int64(v.Unknown), out.InLog+int64(v.InLog)
	count := func(checks ...verdict.Check) (n int64) {
		for _, c := range checks {
			n += int64(v.Counts[c])
		}
		return n
	}
	out.AckedMissing += count(verdict.AckedLost)
	out.Duplicates += count(verdict.LogDuplicate)
	out.OrderBreaks += count(verdict.ProducerOrder, verdict.KeyOrder, verdict.RealTimeOrder, verdict.EpochRegress, verdict.StaleEpochAck)
	out.Violations += int64(v.Violations())
	if len(v.Findings) > 0 {
		out.FirstFault = fmt.Sprintf("window %d: %s: %s", out.Windows, v.Findings[0].Check, v.Findings[0].Message)
	}
	if gap := tenth(verdict.Observe(h, l.ID(), 0, 0, 0).ProduceGapMS); gap > out.WorstMS {
		out.WorstMS, out.WorstWindow = gap, fmt.Sprintf("window %d: %s", out.Windows, strings.Join(what, ", "))
	}
	s.say("window %d: %d acknowledged, %d read, %d violations", out.Windows, v.Acked, v.InLog, v.Violations())
	return v.Violations() == 0, nil
}

func (s *soak) remove(ctx context.Context, names []string) error {
	for _, name := range names {
		admin, err := s.env.Admin()
		if err != nil {
			return err
		}
		if _, err := admin.Topics.DeleteTopic(ctx, &adminv1.DeleteTopicRequest{Name: name}); err != nil {
			return fmt.Errorf("delete topic %s: %w", name, err)
		}
	}
	return nil
}

// watch notes what the brokers use, and by how much it grew since the first
// window: what comes before is their start.
func (s *soak) watch(ctx context.Context) error {
	now, err := s.env.usage(ctx)
	if err != nil || now == nil {
		return err
	}
	if s.first == nil {
		s.first = now
	}
	memory, files := tenth(now.memoryMB-s.first.memoryMB), tenth(now.files-s.first.files)
	s.out.MemoryMB, s.out.OpenFiles, s.out.MemoryGrowth, s.out.OpenFilesMore = &now.memoryMB, &now.files, &memory, &files
	return nil
}

// victim is a broker that the seed chooses among those that run.
func (s *soak) victim() (string, error) {
	var names []string
	for _, b := range s.env.Cluster.Brokers() {
		if b.Running {
			names = append(names, b.Name)
		}
	}
	if len(names) == 0 {
		return "", errors.New("no broker runs")
	}
	return names[s.rng.IntN(len(names))], nil
}

// some is a time up to a bound, at least a quarter of it.
func (s *soak) some(most time.Duration) time.Duration {
	return most/4 + time.Duration(s.rng.Int64N(int64(most*3/4)))
}
