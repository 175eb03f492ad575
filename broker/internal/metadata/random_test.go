package metadata

import (
	"fmt"
	"math/rand"
	"testing"

	"github.com/ister-mq/ister/broker/internal/model"
)

// TestRandomCommandsKeepInvariants runs random commands, most of them silly, and
// checks the image after each: what doc.go says, epochs that only grow, and
// partitions of an ISR that only its leader or a fence changes.
func TestRandomCommandsKeepInvariants(t *testing.T) {
	for seed := int64(1); seed <= 60; seed++ {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			rng := rand.New(rand.NewSource(seed))
			s := &story{t: t, image: Empty()}
			s.line("form 4")
			s.line("up 1,2,3,4")
			for step := 0; step < 250; step++ {
				before := s.image
				line := randomLine(s, rng)
				s.line(line)
				checkEpochs(t, before, s.image, line)
			}
		})
	}
}

func randomLine(s *story, rng *rand.Rand) string {
	node := func() int { return 1 + rng.Intn(5) }
	topic := fmt.Sprintf("t%d", rng.Intn(3))
	partition := topic + "/0"
	exists := s.image.Partition(s.partitionID(partition)) != nil
	some := func() string {
		perm := rng.Perm(5)[:1+rng.Intn(4)]
		nodes := make([]model.NodeID, len(perm))
		for i, n := range perm {
			nodes[i] = model.NodeID(n + 1)
		}
		return ids(nodes)
	}
	op := 1 + rng.Intn(int(s.image.NextOperation))
	switch k := rng.Intn(16); {
	case k == 0:
		return fmt.Sprintf("create %s rf=%d", topic, rng.Intn(4))
	case k == 1 && rng.Intn(8) == 0:
		return "delete " + topic
	case k == 2:
		return fmt.Sprintf("fence %d", node())
	case k == 3 || k == 4:
		return fmt.Sprintf("register %d", node())
	case k == 5 || k == 6:
		return fmt.Sprintf("unfence %d", node())
	case k == 7 && exists && s.image.Partition(s.partitionID(partition)).Leader != 0,
		k == 8 && exists && s.image.Partition(s.partitionID(partition)).Leader != 0:
		return fmt.Sprintf("isr %s to=%s", partition, some())
	case k == 9 && exists:
		return fmt.Sprintf("move %s to=%s", partition, some())
	case k == 10:
		return fmt.Sprintf("advance %d %s adding", op, partition)
	case k == 11:
		return fmt.Sprintf("advance %d %s switched", op, partition)
	case k == 12:
		return fmt.Sprintf("advance %d %s cancelled", op, partition)
	case k == 13:
		return fmt.Sprintf("retired %d %s", node(), partition)
	case k == 14:
		return fmt.Sprintf("advance %d %s done", op, partition)
	default:
		return fmt.Sprintf("elect %s leader=%d", partition, rng.Intn(6))
	}
}

func checkEpochs(t *testing.T, before, after *Image, line string) {
	t.Helper()
	for _, p := range after.SortedPartitions() {
		was := before.Partition(p.ID)
		if was == nil || was == p {
			continue
		}
		if p.PartitionEpoch != was.PartitionEpoch+1 {
			t.Fatalf("%s: partition epoch %d -> %d", line, was.PartitionEpoch, p.PartitionEpoch)
		}
		if p.LeaderEpoch < was.LeaderEpoch || p.Leader != was.Leader && p.LeaderEpoch == was.LeaderEpoch {
			t.Fatalf("%s: leader %d@%d -> %d@%d", line, was.Leader, was.LeaderEpoch, p.Leader, p.LeaderEpoch)
		}
		// Whoever is in the new ISR was in the old one, unless the leader asked.
		if p.LeaderEpoch != was.LeaderEpoch {
			for _, n := range p.ISR {
				if !model.HasNode(was.ISR, n) {
					t.Fatalf("%s: node %d entered the ISR with a new leader epoch", line, n)
				}
			}
		}
	}
}

func TestDecodersRefuseBrokenInput(t *testing.T) {
	raw, err := EncodeBatches([]Batch{{Base: 3, Records: []Record{&ClusterFormed{Cluster: "c"}}}})
	if err != nil {
		t.Fatal(err)
	}
	for i := range raw {
		broken := append([]byte(nil), raw...)
		broken[i] ^= 0x40
		if _, err := DecodeBatches(broken); err == nil && i != 6 && i != 7 { // reserved bytes
			t.Errorf("byte %d changed and nobody noticed", i)
		}
		if _, err := DecodeBatches(raw[:i]); err == nil {
			t.Errorf("a batch cut at %d was read", i)
		}
	}
	if _, err := DecodeCommand([]byte(`{"t":"no_such_command","d":{}}`)); err == nil {
		t.Error("an unknown command was read")
	}
}
