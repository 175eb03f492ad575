package replica

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/ister-mq/ister/broker/internal/metadata"
	"github.com/ister-mq/ister/broker/internal/model"
	"github.com/ister-mq/ister/broker/internal/record"
	"github.com/ister-mq/ister/broker/internal/refusal"
	"github.com/ister-mq/ister/broker/internal/segment"
	"github.com/ister-mq/ister/broker/internal/vfs"
)

// cluster is one partition on several nodes, over real logs on disks in memory.
type cluster struct {
	t         *testing.T
	now       time.Time
	sync      bool
	min       int
	partition *metadata.Partition
	epochs    map[model.NodeID]model.NodeEpoch
	nodes     map[model.NodeID]*copyOn
	proposal  metadata.ISRChange
}

type copyOn struct {
	disk    *vfs.Memory
	log     *segment.Log
	replica *Replica
}

// TestStories runs testdata: each file tells how one partition fares.
func TestStories(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		c := &cluster{now: time.Unix(1000, 0), nodes: map[model.NodeID]*copyOn{}}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			c.t = t
			return c.run(d)
		})
	})
}

func (c *cluster) run(d *datadriven.TestData) string {
	n := c.nodes[model.NodeID(number(d, "node", 0))]
	switch d.Cmd {
	case "cluster":
		return c.create(d)
	case "assign":
		return c.assign(d)
	case "produce":
		return c.produce(n.replica, d)
	case "sync":
		if err := n.log.Sync(); err != nil {
			c.t.Fatal(err)
		}
		return fmt.Sprintf("moved=%v\n%s\n", n.replica.Flushed(n.log.Durable(), c.now), n.replica)
	case "fetch":
		return c.fetch(model.NodeID(number(d, "node", 0)), d)
	case "committed":
		ok, err := n.replica.Committed(model.Offset(number(d, "last", 0)), model.LeaderEpoch(number(d, "epoch", 0)))
		return fmt.Sprintf("%v%s\n", ok, reason(err))
	case "crash":
		n.disk = n.disk.CrashClone(uint64(number(d, "seed", 0)))
		c.open(model.NodeID(number(d, "node", 0)))
		return n.replica.String() + "\n"
	case "propose":
		change, ok := n.replica.ISRProposal(c.now)
		c.proposal = change
		return fmt.Sprintf("%v %v\n", ok, change.ISR)
	case "proposal-failed":
		n.replica.ISRProposalDone(c.proposal, nil, refusal.New(refusal.OutcomeUnknown, "", "", ""), c.now)
		return n.replica.Describe(c.now) + "\n"
	case "proposal-accepted":
		state := *c.partition
		state.PartitionEpoch++
		state.ISR = nil
		for _, m := range c.proposal.ISR {
			state.ISR = append(state.ISR, m.Node)
		}
		c.partition = &state
		n.replica.ISRProposalDone(c.proposal, c.partition, nil, c.now)
		return n.replica.Describe(c.now) + "\n"
	case "after":
		wait, err := time.ParseDuration(d.CmdArgs[0].Key)
		if err != nil {
			c.t.Fatal(err)
		}
		c.now = c.now.Add(wait)
		return ""
	case "read":
		data, err := n.replica.Read(model.Offset(number(d, "from", 0)), 1<<20)
		return batches(c.t, data) + reason(err) + "\n"
	case "latest":
		off, err := n.replica.LatestOffset()
		return fmt.Sprintf("%d%s\n", off, reason(err))
	case "delete":
		err := n.replica.DeleteTo(model.Offset(number(d, "to", 0)))
		return n.replica.String() + reason(err) + "\n"
	case "show":
		return c.show()
	}
	c.t.Fatalf("%s: no such command", d.Pos)
	return ""
}

// create reads "cluster nodes=(1,2) [sync=false] [min=2]".
func (c *cluster) create(d *datadriven.TestData) string {
	c.sync, c.min = number(d, "sync", 1) == 1, int(number(d, "min", 2))
	c.epochs = map[model.NodeID]model.NodeEpoch{}
	for _, id := range nodes(d, "nodes") {
		c.epochs[id] = 1
		disk := vfs.NewMemory()
		if err := disk.MkdirAll("/data"); err != nil {
			c.t.Fatal(err)
		}
		if err := disk.SyncDir("/"); err != nil {
			c.t.Fatal(err)
		}
		c.nodes[id] = &copyOn{disk: disk}
		c.open(id)
	}
	c.partition = &metadata.Partition{PartitionEpoch: -1}
	return ""
}

func (c *cluster) open(id model.NodeID) {
	n := c.nodes[id]
	log, _, err := segment.Open(segment.Config{FS: n.disk, Dir: "/data/p", Now: func() time.Time { return c.now }})
	if err != nil {
		c.t.Fatal(err)
	}
	n.log = log
	n.replica = New(Config{Self: id, FlushSync: c.sync, MinISR: c.min, MaxBatchBytes: 2000}, model.Partition{}, log)
}

// assign reads "assign leader=1 epoch=0 replicas=(1,2) isr=(1,2) [only=(1)]"; the
// partition epoch grows by itself.
func (c *cluster) assign(d *datadriven.TestData) string {
	p := *c.partition
	p.PartitionEpoch++
	p.Leader, p.LeaderEpoch = model.NodeID(number(d, "leader", int64(p.Leader))), model.LeaderEpoch(number(d, "epoch", int64(p.LeaderEpoch)))
	if d.HasArg("replicas") {
		p.Replicas = nodes(d, "replicas")
	}
	if d.HasArg("isr") {
		p.ISR = nodes(d, "isr")
	}
	c.partition = &p
	only := nodes(d, "only")
	out := ""
	for _, id := range c.ids() {
		if len(only) > 0 && !model.HasNode(only, id) {
			continue
		}
		r := c.nodes[id].replica
		change, err := r.Assign(&p, c.epochs, c.now)
		out += fmt.Sprintf("node %d %v -> %v new=%v moved=%v%s: %s\n", id, change.Before, change.After, change.NewEpoch, change.HighWatermarkChanged, reason(err), r)
	}
	return out
}

// produce reads "produce node=1 records=2 [producer=7 sequence=0] [lease=0] [bytes=n]".
func (c *cluster) produce(r *Replica, d *datadriven.TestData) string {
	var options record.BuildOptions
	if id := number(d, "producer", -1); id >= 0 {
		options.Producer = &record.Producer{ID: model.ProducerID(id), Sequence: int32(number(d, "sequence", 0))}
	}
	records := make([]record.Rec, number(d, "records", 1))
	for i := range records {
		records[i].Value = make([]byte, number(d, "bytes", 1))
	}
	batch := record.Build(options, records...)
	if d.HasArg("corrupt") {
		batch[len(batch)-1] ^= 1
	}
	var result ProduceResult
	checked, err := record.CheckProduce(batch)
	if err == nil {
		result, err = r.Produce(checked, number(d, "lease", 1) == 1, c.now)
	}
	if err != nil {
		return strings.TrimSpace(reason(err)) + "\n"
	}
	out := fmt.Sprintf("%d..%d epoch %d", result.First, result.Last, result.Epoch)
	if result.Duplicate {
		out += " duplicate"
	}
	return out + fmt.Sprintf(" moved=%v\n", result.HighWatermarkChanged)
}

// fetch has a follower ask the leader until it has nothing more to ask, or the
// leader refuses, or it has to sync.
func (c *cluster) fetch(id model.NodeID, d *datadriven.TestData) string {
	follower, leader := c.nodes[id], c.nodes[model.NodeID(number(d, "from", int64(c.partition.Leader)))]
	out := ""
	for range 10 {
		from, ok := follower.replica.FetchPosition()
		if !ok {
			return out + fmt.Sprintf("may not ask: %s\n", follower.replica)
		}
		from.MaxBytes, from.NodeEpoch = 1<<20, model.NodeEpoch(number(d, "node-epoch", int64(c.epochs[id])))
		out += fmt.Sprintf("asks from %d after epoch %d in epoch %d: ", from.Offset, from.LastFetchedEpoch, from.LeaderEpoch)
		data, err := leader.replica.LeaderFetch(from, c.now)
		if err != nil {
			return out + strings.TrimSpace(reason(err)) + "\n"
		}
		if data.Diverging {
			out += fmt.Sprintf("diverges, epoch %d ends at %d", data.DivergingEpoch, data.DivergingEnd)
		} else {
			out += batches(c.t, data.Batches)
		}
		needSync, err := follower.replica.FollowerAppend(data, c.now)
		out += fmt.Sprintf(", moved=%v sync=%v%s\n", data.HighWatermarkChanged, needSync, reason(err))
		if err != nil || needSync || !data.Diverging && data.LogStart <= data.From {
			break
		}
	}
	return out + fmt.Sprintf("leader: %s\nfollower: %s\n", leader.replica.Describe(c.now), follower.replica)
}

func (c *cluster) show() string {
	out := ""
	for _, id := range c.ids() {
		out += fmt.Sprintf("node %d: %s\n", id, c.nodes[id].replica.Describe(c.now))
	}
	return out
}

func (c *cluster) ids() []model.NodeID {
	var ids []model.NodeID
	for id := range c.nodes {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

func batches(t *testing.T, data []byte) string {
	out := "nothing"
	for len(data) > 0 {
		_, rest, h, err := record.Next(data)
		if err != nil {
			t.Fatal(err)
		}
		if out == "nothing" {
			out = ""
		}
		out += fmt.Sprintf("[%d..%d epoch %d]", h.BaseOffset, h.LastOffset(), h.LeaderEpoch)
		data = rest
	}
	return out
}

func reason(err error) string {
	if err == nil {
		return ""
	}
	if r := refusal.As(err); r != nil {
		return " " + string(r.Reason)
	}
	return " fault: " + err.Error()
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

func nodes(d *datadriven.TestData, key string) []model.NodeID {
	var out []model.NodeID
	for _, arg := range d.CmdArgs {
		if arg.Key != key {
			continue
		}
		for _, v := range arg.Vals {
			n, err := strconv.Atoi(v)
			if err != nil {
				panic(err)
			}
			out = append(out, model.NodeID(n))
		}
	}
	return out
}
